/* Rings: opening with all checks, tables, and the functions on residue polynomials. */
#define _GNU_SOURCE /* madvise */
#include "ring.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "cpu/kernels.h"
#include "declassify.h"

#define CACHE_LINE ((size_t)64)
#define HUGE_PAGE ((size_t)1 << 21)

void *buffer_alloc(size_t size) {
    const size_t align = size >= HUGE_PAGE ? HUGE_PAGE : CACHE_LINE;
    if (size == 0 || size > PTRDIFF_MAX - align) {
        return NULL;
    }
    const size_t rounded = (size + align - 1) / align * align;
    void *data = aligned_alloc(align, rounded);
#ifdef MADV_HUGEPAGE
    if (data != NULL && align == HUGE_PAGE) {
        (void)madvise(data, rounded, MADV_HUGEPAGE); /* a wish: small pages work too */
    }
#endif
    return data;
}

void buffer_free(void *data) {
    free(data);
}

const char *bfv_status_text(int status) {
    switch (status) {
    case BFV_OK:
        return "done";
    case BFV_E_ARGUMENT:
        return "an argument is missing, out of range or belongs elsewhere";
    case BFV_E_MEMORY:
        return "out of memory";
    case BFV_E_RESIDUE:
        return "a residue is not below its prime";
    case BFV_E_UNSUPPORTED:
        return "this backend or this CPU can't do it";
    case BFV_E_RANDOM:
        return "the random bytes did not suffice";
    case BFV_E_NOISE:
        return "a decrypted coefficient lies outside its bound";
    case BFV_E_BACKEND:
        return "a thread or a device failed";
    default:
        return "an unknown status";
    }
}

const char *bfv_body(uint32_t index) {
    const struct cpu_kernels *body = cpu_body(index);
    return body == NULL ? NULL : body->name;
}

/* The body that was asked for, by name, by the environment or by default. */
static const struct cpu_kernels *choose_body(const char *name) {
    if (name == NULL) {
        name = getenv("PYBFV_CPU");
        if (name == NULL || name[0] == '\0') {
            return cpu_body(0);
        }
    }
    const struct cpu_kernels *body = cpu_body(0);
    for (uint32_t i = 0; body != NULL && strcmp(body->name, name) != 0; body = cpu_body(i)) {
        i++;
    }
    return body;
}

/* Deterministic Miller-Rabin: bases 2, 3, 5, 7 decide below 3,215,031,751
 * (Jaeschke 1993). In: p odd, 3 <= p < 2^30. */
static bool is_prime(const struct zq_mod *mod) {
    static const uint32_t bases[] = {2, 3, 5, 7};
    const uint32_t p = mod->p;
    const uint32_t twos = (uint32_t)__builtin_ctz(p - 1);
    for (size_t i = 0; i < sizeof bases / sizeof bases[0]; i++) {
        if (bases[i] % p == 0) {
            continue;
        }
        uint32_t x = zq_pow(bases[i] % p, (p - 1) >> twos, mod);
        bool witness = x != 1 && x != p - 1;
        for (uint32_t k = 1; witness && k < twos; k++) {
            x = zq_mul(x, x, mod);
            witness = x != p - 1;
        }
        if (witness) {
            return false;
        }
    }
    return true;
}

/* The smallest of the N primitive 2N-th roots of unity. In: p prime, = 1 mod 2N. */
static uint32_t smallest_root(uint32_t n, const struct zq_mod *mod) {
    const uint32_t p = mod->p;
    uint32_t root = 0;
    /* Half of all g are non-residues: then psi = g^((p - 1)/2N) has psi^N = -1. */
    for (uint32_t g = 2; g < p; g++) {
        root = zq_pow(g, (p - 1) / (2 * n), mod);
        if (zq_pow(root, n, mod) == p - 1) {
            break;
        }
    }
    /* The primitive roots are the odd powers of any one of them. */
    const uint32_t square = zq_mul(root, root, mod);
    uint32_t smallest = root;
    for (uint32_t i = 0; i < n; i++) {
        root = zq_mul(root, square, mod);
        smallest = root < smallest ? root : smallest;
    }
    return smallest;
}

static uint32_t reverse_bits(uint32_t x, uint32_t bits) {
    uint32_t y = 0;
    for (uint32_t i = 0; i < bits; i++) {
        y |= ((x >> i) & 1) << (bits - 1 - i);
    }
    return y;
}

/* table[i] = root^brv(i) and its quotient, each word of [n] written. */
static void fill_powers(uint32_t *table, uint32_t *shoup, uint32_t root, uint32_t log_n,
                        const struct zq_mod *mod) {
    uint32_t power = 1;
    for (uint32_t i = 0; i < UINT32_C(1) << log_n; i++) {
        const uint32_t at = reverse_bits(i, log_n);
        table[at] = power;
        shoup[at] = zq_shoup(power, mod->p);
        power = zq_mul(power, root, mod);
    }
}

/* -1/p mod 2^32 by Newton's iteration: the number of right bits doubles, five times from one. In: p odd. */
static uint32_t negative_inverse(uint32_t p) {
    uint32_t inverse = 1;
    for (uint32_t step = 0; step < 5; step++) {
        inverse *= 2 - p * inverse;
    }
    return 0 - inverse;
}

/* Fills a prime whose p and mod are set; tables: 4 n words. */
static void fill_prime(struct bfv_prime *prime, uint32_t n, uint32_t log_n, uint32_t *tables) {
    const struct zq_mod *mod = &prime->mod;
    const uint32_t p = prime->p;
    uint32_t *forward = tables, *forward_shoup = tables + n;
    uint32_t *inverse = forward_shoup + n, *inverse_shoup = inverse + n;

    prime->bits = mod->bits;
    prime->root = smallest_root(n, mod);
    prime->n_inv = zq_inv(n % p, mod);
    prime->neg_inv = negative_inverse(p);
    prime->max_products = UINT64_MAX / ((uint64_t)(p - 1) * (p - 1));
    prime->max_sums = UINT32_MAX / (p - 1);

    fill_powers(forward, forward_shoup, prime->root, log_n, mod);
    fill_powers(inverse, inverse_shoup, zq_inv(prime->root, mod), log_n, mod);
    for (uint32_t i = 0; i < 2; i++) { /* the last stage carries N^-1 */
        inverse[i] = zq_mul(inverse[i], prime->n_inv, mod);
        inverse_shoup[i] = zq_shoup(inverse[i], p);
    }
    prime->forward = forward;
    prime->forward_shoup = forward_shoup;
    prime->inverse = inverse;
    prime->inverse_shoup = inverse_shoup;
}

static bool primes_are_valid(uint32_t n, const uint32_t *primes, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t p = primes[i];
        if (p < 3 || p >= ZQ_PRIME_LIMIT || p % (2 * n) != 1) {
            return false;
        }
        const struct zq_mod mod = zq_mod_init(p);
        if (!is_prime(&mod)) {
            return false;
        }
        for (uint32_t j = 0; j < i; j++) {
            if (primes[j] == p) {
                return false;
            }
        }
    }
    return true;
}

int bfv_ring_open(uint32_t n, const uint32_t *primes, uint32_t count, const char *body, bfv_ring **out) {
    if (!is_aligned(primes, _Alignof(uint32_t)) || out == NULL || n < BFV_MIN_N || n > BFV_MAX_N ||
        (n & (n - 1)) != 0 || count == 0 || count > BFV_MAX_PRIMES || !primes_are_valid(n, primes, count)) {
        return BFV_E_ARGUMENT;
    }
    const struct cpu_kernels *kernels = choose_body(body);
    if (kernels == NULL) {
        return BFV_E_UNSUPPORTED;
    }
    bfv_ring *ring = calloc(1, sizeof *ring);
    uint32_t *tables = buffer_alloc((size_t)4 * n * count * sizeof *tables);
    if (ring == NULL || tables == NULL) {
        free(ring);
        buffer_free(tables);
        return BFV_E_MEMORY;
    }
    ring->n = n;
    ring->log_n = (uint32_t)__builtin_ctz(n);
    ring->count = count;
    ring->body = kernels;
    ring->tables = tables;
    for (uint32_t i = 0; i < count; i++) {
        ring->prime[i].p = primes[i];
        ring->prime[i].mod = zq_mod_init(primes[i]);
        fill_prime(&ring->prime[i], n, ring->log_n, tables + (size_t)4 * n * i);
    }
    ring->magic = RING_MAGIC;
    *out = ring;
    return BFV_OK;
}

void bfv_ring_close(bfv_ring *ring) {
    if (!ring_is_open(ring)) {
        return;
    }
    ring->magic = 0;
    buffer_free(ring->tables);
    free(ring);
}

const char *bfv_ring_body(const bfv_ring *ring) {
    return ring_is_open(ring) ? ring->body->name : NULL;
}

uint32_t bfv_ring_root(const bfv_ring *ring, uint32_t index) {
    return ring_is_open(ring) && index < ring->count ? ring->prime[index].root : 0;
}

/* Whether `polys` polynomials (at least one) can exist in memory at x. */
static bool polys_are_valid(const bfv_ring *ring, const uint32_t *x, uint64_t polys) {
    size_t bytes = 0;
    return ring_is_open(ring) && is_aligned(x, _Alignof(uint32_t)) && polys != 0 &&
           size_mul(polys, ring_poly_words(ring) * sizeof(uint32_t), &bytes) && bytes <= PTRDIFF_MAX;
}

/* The same for an operand and a result, which are one or apart. */
static bool operand_is_valid(const bfv_ring *ring, const uint32_t *in, const uint32_t *out, uint64_t polys) {
    if (!polys_are_valid(ring, in, polys) || !polys_are_valid(ring, out, polys)) {
        return false;
    }
    const size_t bytes = (size_t)polys * ring_poly_words(ring) * sizeof *in;
    return in == out || !overlaps(in, bytes, out, bytes);
}

int bfv_ntt_forward(const bfv_ring *ring, uint32_t *x, uint64_t polys) {
    if (!polys_are_valid(ring, x, polys)) {
        return BFV_E_ARGUMENT;
    }
    for (uint64_t k = 0; k < polys; k++) {
        for (uint32_t i = 0; i < ring->count; i++, x += ring->n) {
            ring->body->ntt_forward(x, ring->n, &ring->prime[i]);
        }
    }
    return BFV_OK;
}

int bfv_ntt_inverse(const bfv_ring *ring, uint32_t *x, uint64_t polys) {
    if (!polys_are_valid(ring, x, polys)) {
        return BFV_E_ARGUMENT;
    }
    for (uint64_t k = 0; k < polys; k++) {
        for (uint32_t i = 0; i < ring->count; i++, x += ring->n) {
            ring->body->ntt_inverse(x, ring->n, &ring->prime[i]);
        }
    }
    return BFV_OK;
}

int bfv_check_residues(const bfv_ring *ring, const uint32_t *x, uint64_t polys) {
    if (!polys_are_valid(ring, x, polys)) {
        return BFV_E_ARGUMENT;
    }
    for (uint64_t k = 0; k < polys; k++) {
        for (uint32_t i = 0; i < ring->count; i++, x += ring->n) {
            if (!declassify(ring->body->check(x, ring->n, ring->prime[i].p))) { /* that x is damaged */
                return BFV_E_RESIDUE;
            }
        }
    }
    return BFV_OK;
}

int bfv_poly_add(const bfv_ring *ring, const uint32_t *a, const uint32_t *b, uint64_t polys, uint32_t *out) {
    if (!operand_is_valid(ring, a, out, polys) || !operand_is_valid(ring, b, out, polys)) {
        return BFV_E_ARGUMENT;
    }
    const size_t n = ring->n;
    for (uint64_t k = 0; k < polys; k++) {
        for (uint32_t i = 0; i < ring->count; i++, a += n, b += n, out += n) {
            ring->body->add(out, a, b, n, ring->prime[i].p);
        }
    }
    return BFV_OK;
}

int bfv_poly_sub(const bfv_ring *ring, const uint32_t *a, const uint32_t *b, uint64_t polys, uint32_t *out) {
    if (!operand_is_valid(ring, a, out, polys) || !operand_is_valid(ring, b, out, polys)) {
        return BFV_E_ARGUMENT;
    }
    const size_t n = ring->n;
    for (uint64_t k = 0; k < polys; k++) {
        for (uint32_t i = 0; i < ring->count; i++, a += n, b += n, out += n) {
            ring->body->sub(out, a, b, n, ring->prime[i].p);
        }
    }
    return BFV_OK;
}

int bfv_poly_neg(const bfv_ring *ring, const uint32_t *a, uint64_t polys, uint32_t *out) {
    if (!operand_is_valid(ring, a, out, polys)) {
        return BFV_E_ARGUMENT;
    }
    const size_t n = ring->n;
    for (uint64_t k = 0; k < polys; k++) {
        for (uint32_t i = 0; i < ring->count; i++, a += n, out += n) {
            ring->body->neg(out, a, n, ring->prime[i].p);
        }
    }
    return BFV_OK;
}

int bfv_poly_mul(const bfv_ring *ring, const uint32_t *a, const uint32_t *b, uint64_t polys, uint32_t *out) {
    if (!operand_is_valid(ring, a, out, polys) || !operand_is_valid(ring, b, out, polys)) {
        return BFV_E_ARGUMENT;
    }
    const size_t n = ring->n;
    for (uint64_t k = 0; k < polys; k++) {
        for (uint32_t i = 0; i < ring->count; i++, a += n, b += n, out += n) {
            ring->body->mul(out, a, b, n, &ring->prime[i].mod);
        }
    }
    return BFV_OK;
}

int bfv_poly_mul_scalar(const bfv_ring *ring, const uint32_t *a, const uint32_t *s, uint64_t polys,
                        uint32_t *out) {
    if (!operand_is_valid(ring, a, out, polys) || !is_aligned(s, _Alignof(uint32_t)) ||
        overlaps(s, ring->count * sizeof *s, out, (size_t)polys * ring_poly_words(ring) * sizeof *out)) {
        return BFV_E_ARGUMENT;
    }
    const size_t n = ring->n;
    for (uint32_t i = 0; i < ring->count; i++) {
        if (s[i] >= ring->prime[i].p) {
            return BFV_E_RESIDUE;
        }
    }
    for (uint64_t k = 0; k < polys; k++) {
        for (uint32_t i = 0; i < ring->count; i++, a += n, out += n) {
            ring->body->mul_scalar(out, a, s[i], n, ring->prime[i].p);
        }
    }
    return BFV_OK;
}

int bfv_from_int64(const bfv_ring *ring, const int64_t *values, uint32_t *out) {
    if (!polys_are_valid(ring, out, 1) || !is_aligned(values, _Alignof(int64_t)) ||
        overlaps(values, ring->n * sizeof *values, out, ring_poly_words(ring) * sizeof *out)) {
        return BFV_E_ARGUMENT;
    }
    /* |v| < 2^62, without a branch on a single value: they may be messages. */
    uint64_t outside = 0;
    for (uint32_t k = 0; k < ring->n; k++) {
        outside |= ((uint64_t)values[k] + ((UINT64_C(1) << 62) - 1)) >> 63;
        outside |= (((uint64_t)values[k] - (UINT64_C(1) << 62)) >> 63) ^ 1;
    }
    if (declassify(outside) != 0) { /* that a value is out of range */
        return BFV_E_ARGUMENT;
    }
    for (uint32_t i = 0; i < ring->count; i++) {
        ring->body->from_int64(out + (size_t)i * ring->n, values, ring->n, &ring->prime[i].mod);
    }
    return BFV_OK;
}
