/* Integers to scaled plaintexts round(q m / t) mod q, and slots back.
 * Values are messages: no branch, index or division depends on them. */
#include "backend_cpu.h"
#include "client.h"
#include "declassify.h"
#include "wipe.h"

enum {
    ENCODER_MAGIC = 0x454e434f,
    /* Coefficients: products of a 32-bit half and a weight in a word: 4 (2^32 - 1)(2^30 - 1) < 2^64. */
    GROUP_HALVES = 4
};

struct bfv_encoder {
    uint32_t magic;
    uint32_t n;
    uint32_t count;                      /* primes of q */
    struct zq_mod mod[BFV_MAX_Q_PRIMES]; /* their constants */
    uint32_t t_words;
    uint64_t t[WIDE_T_WORDS];

    bfv_ring *slots;                    /* batched: the ring of the primes of t, else NULL */
    uint32_t *map;                      /* batched: slot i sits at NTT index map[i] */
    uint32_t inverse[BFV_MAX_T_PRIMES]; /* (t/t_i)^-1 mod t_i */
    struct encode_change change;

    /* Coefficients. */
    uint64_t barrett[WIDE_T_WORDS]; /* floor(2^512 / t) */
    uint32_t scale_words, point;    /* words of scale; its fraction has 64 point bits */
    uint64_t scale[WIDE_MAX_WORDS]; /* floor(2^P q / t), P = 64 point */
    uint32_t q_words;
    uint32_t weight[BFV_MAX_Q_PRIMES][2 * WIDE_Q_WORDS]; /* 2^(32 i) mod p_j */
};

static bool encoder_is_open(const bfv_encoder *encoder) {
    return encoder != NULL && encoder->magic == ENCODER_MAGIC;
}

void bfv_encoder_close(bfv_encoder *encoder) {
    if (encoder_is_open(encoder)) {
        encoder->magic = 0;
        bfv_ring_close(encoder->slots);
        buffer_free(encoder->map);
        buffer_free(encoder);
    }
}

/* What both kinds share: q's primes, and t, which must lie in [2, q). q: WIDE_Q_WORDS words. */
static int encoder_new(const bfv_ring *ring, const uint64_t *t, uint32_t words, uint64_t *q,
                       bfv_encoder **out) {
    uint32_t primes[BFV_MAX_Q_PRIMES];
    if (ring->count > BFV_MAX_Q_PRIMES) {
        return BFV_E_ARGUMENT;
    }
    for (uint32_t j = 0; j < ring->count; j++) {
        primes[j] = ring->prime[j].p;
    }
    uint64_t wide_t[WIDE_Q_WORDS] = {0};
    memcpy(wide_t, t, words * sizeof *t);
    if (!wide_public_product(primes, ring->count, q, WIDE_Q_WORDS) ||
        wide_less(wide_t, q, WIDE_Q_WORDS) == 0 || wide_public_bits(t, words) < 2) {
        return BFV_E_ARGUMENT;
    }
    bfv_encoder *encoder = buffer_alloc(sizeof *encoder);
    if (encoder == NULL) {
        return BFV_E_MEMORY;
    }
    memset(encoder, 0, sizeof *encoder);
    encoder->magic = ENCODER_MAGIC;
    encoder->n = ring->n;
    encoder->count = ring->count;
    encoder->q_words = (wide_public_bits(q, WIDE_Q_WORDS) + 63) / 64;
    encoder->t_words = (wide_public_bits(t, words) + 63) / 64;
    memcpy(encoder->t, t, encoder->t_words * sizeof *t);
    for (uint32_t j = 0; j < ring->count; j++) {
        encoder->mod[j] = ring->prime[j].mod;
    }
    *out = encoder;
    return BFV_OK;
}

static uint32_t reverse_bits(uint32_t x, uint32_t bits) {
    uint32_t r = 0;
    for (uint32_t i = 0; i < bits; i++) {
        r |= ((x >> i) & 1) << (bits - 1 - i);
    }
    return r;
}

/* Slots of the vector to NTT indices: the order of SEAL's BatchEncoder, two rows
 * of N/2 that the automorphisms X -> X^(3^i) rotate. */
static void fill_slot_map(uint32_t n, uint32_t log_n, uint32_t *map) {
    uint32_t power = 1; /* 3^i mod 2N */
    for (uint32_t i = 0; i < n / 2; i++) {
        map[i] = reverse_bits((power - 1) / 2, log_n);
        map[i + n / 2] = reverse_bits((2 * n - power - 1) / 2, log_n);
        power = (power * 3) & (2 * n - 1);
    }
}

/* floor(2^64 r / t) for r < t < 2^32, by long division with 32-bit digits. */
static uint64_t fraction64(uint32_t r, uint32_t t) {
    const uint64_t high = (uint64_t)r << 32;
    const uint64_t low = (high % t) << 32;
    return ((high / t) << 32) | (low / t);
}

/* Constants of the primes of t. */
static void fill_batch(bfv_encoder *encoder, const bfv_ring *ring, const uint64_t *q) {
    const bfv_ring *slots = encoder->slots;
    uint64_t sum = 0;
    struct encode_change *change = &encoder->change;
    change->count = slots->count;
    change->targets = encoder->count;
    memcpy(change->mod, encoder->mod, encoder->count * sizeof *change->mod);
    for (uint32_t i = 0; i < slots->count; i++) {
        const struct zq_mod *t = &slots->prime[i].mod;
        uint32_t others = 1;
        for (uint32_t k = 0; k < slots->count; k++) {
            if (k != i) {
                others = zq_mul(others, zq_reduce32(slots->prime[k].p, t), t);
            }
        }
        encoder->inverse[i] = zq_inv(others, t);
        const uint32_t rest = wide_mod(q, WIDE_Q_WORDS, t);
        change->fraction[i] = fraction64(rest, t->p);
        for (uint32_t j = 0; j < encoder->count; j++) {
            /* floor(q/t_i) = (q - rest)/t_i, and q = 0 mod p_j */
            const struct zq_mod *p = &encoder->mod[j];
            const uint32_t inverse = zq_inv(zq_reduce32(t->p, p), p);
            change->scale[j][i] = zq_mul(zq_neg(zq_reduce32(rest, p), p->p), inverse, p);
            change->lifted[j][i] = zq_mul(change->scale[j][i], p->r32, p);
            change->neg_inv[j] = ring->prime[j].neg_inv;
        }
        sum += 2 * (uint64_t)t->p;
    }
    change->narrow = sum <= UINT32_MAX;
}

int bfv_encoder_open_batched(const bfv_ring *ring, const uint32_t *t_primes, uint32_t count,
                             bfv_encoder **out) {
    if (!ring_is_open(ring) || !is_aligned(t_primes, _Alignof(uint32_t)) || out == NULL || count == 0 ||
        count > BFV_MAX_T_PRIMES) {
        return BFV_E_ARGUMENT;
    }
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t j = 0; j < ring->count; j++) {
            if (t_primes[i] == ring->prime[j].p) {
                return BFV_E_ARGUMENT;
            }
        }
    }
    uint64_t t[WIDE_T_WORDS];
    uint64_t q[WIDE_Q_WORDS];
    bfv_encoder *encoder = NULL;
    if (!wide_public_product(t_primes, count, t, WIDE_T_WORDS)) {
        return BFV_E_ARGUMENT;
    }
    int status = encoder_new(ring, t, WIDE_T_WORDS, q, &encoder);
    if (status != BFV_OK) {
        return status;
    }
    /* this checks the primes of t: prime, distinct, = 1 mod 2N, below 2^30 */
    status = bfv_ring_open(ring->n, t_primes, count, bfv_ring_body(ring), &encoder->slots);
    if (status == BFV_OK) {
        encoder->map = buffer_alloc((size_t)ring->n * sizeof *encoder->map);
        status = encoder->map == NULL ? BFV_E_MEMORY : BFV_OK;
    }
    if (status != BFV_OK) {
        bfv_encoder_close(encoder);
        return status;
    }
    fill_slot_map(ring->n, ring->log_n, encoder->map);
    fill_batch(encoder, ring, q);
    *out = encoder;
    return BFV_OK;
}

/* The fixed-point constant q/t. With P >= 2 log2 t + 2 fraction bits,
 *   q m/t - m scale/2^P = d with 0 <= d < m/2^P, so d + 2^-P <= t/2^P <= 1/(4t) for m < t.
 * Let x = q m/t. Rounding with ties towards minus infinity is floor(y - 1/(2t)) with y = x + 1/2,
 * a multiple of 1/(2t); and any number in [y - 1/(2t), y) has that floor. Such a number is
 * m scale/2^P + 1/2 - 2^-P = y - (d + 2^-P). So
 *   round(q m/t) = floor((m scale + 2^(P-1) - 1) / 2^P) exactly. */
static void fill_scale(bfv_encoder *encoder, const uint64_t *q) {
    uint64_t power[WIDE_T_WORDS + 1] = {0};
    uint64_t quotient[WIDE_MAX_WORDS];
    power[WIDE_T_WORDS] = 1;
    wide_public_divide(power, WIDE_T_WORDS + 1, encoder->t, encoder->t_words, quotient);
    memcpy(encoder->barrett, quotient, sizeof encoder->barrett); /* t >= 2: the top word is 0 */

    encoder->point = (2 * wide_public_bits(encoder->t, encoder->t_words) + 2 + 63) / 64;
    uint64_t shifted[WIDE_MAX_WORDS] = {0};
    memcpy(shifted + encoder->point, q, encoder->q_words * sizeof *q);
    const uint32_t words = encoder->point + encoder->q_words;
    wide_public_divide(shifted, words, encoder->t, encoder->t_words, encoder->scale);
    encoder->scale_words = (wide_public_bits(encoder->scale, words) + 63) / 64;
}

int bfv_encoder_open_coefficients(const bfv_ring *ring, const uint64_t *t, uint32_t words,
                                  bfv_encoder **out) {
    if (!ring_is_open(ring) || !is_aligned(t, _Alignof(uint64_t)) || out == NULL || words == 0 ||
        words > BFV_MAX_T_WORDS) {
        return BFV_E_ARGUMENT;
    }
    for (uint32_t j = 0; j < ring->count; j++) {
        if (wide_mod(t, words, &ring->prime[j].mod) == 0) {
            return BFV_E_ARGUMENT;
        }
    }
    uint64_t q[WIDE_Q_WORDS];
    bfv_encoder *encoder = NULL;
    const int status = encoder_new(ring, t, words, q, &encoder);
    if (status != BFV_OK) {
        return status;
    }
    fill_scale(encoder, q);
    for (uint32_t j = 0; j < encoder->count; j++) {
        const struct zq_mod *p = &encoder->mod[j];
        uint32_t weight = 1;
        for (uint32_t i = 0; i < 2 * WIDE_Q_WORDS; i++) {
            encoder->weight[j][i] = weight;
            weight = zq_mul(weight, p->r32, p);
        }
    }
    *out = encoder;
    return BFV_OK;
}

/* m = value mod t by Barrett's reduction of |value| < 2^(64 words). With b = floor(2^(64 words)/t), the
 * quotient floor(|value| b / 2^(64 words)) is at most 1 too small, so the remainder is below 2t.
 * Out: t_words words below t. */
static void reduce_value(const bfv_encoder *encoder, const uint64_t *value, uint32_t words, uint64_t *m) {
    const uint32_t tw = encoder->t_words;
    const uint64_t sign = wide_mask(value[words - 1] >> 63);
    uint64_t magnitude[WIDE_T_WORDS + 1] = {0};
    for (uint32_t i = 0; i < words; i++) {
        magnitude[i] = value[i] ^ sign;
    }
    (void)wide_add_word(magnitude, sign & 1, words);

    /* floor(2^(64 words)/t) is the top of floor(2^512/t) */
    uint64_t product[2 * WIDE_T_WORDS];
    uint64_t multiple[2 * WIDE_T_WORDS];
    wide_mul(magnitude, words, encoder->barrett + (WIDE_T_WORDS - words), words, product);
    wide_mul(product + words, words, encoder->t, tw, multiple);

    /* below 2t, so modulo one word more than t loses nothing; both inputs are zero-extended */
    uint64_t modulus[WIDE_T_WORDS + 1] = {0};
    uint64_t rest[WIDE_T_WORDS + 1];
    memcpy(modulus, encoder->t, tw * sizeof *modulus);
    (void)wide_sub(magnitude, multiple, tw + 1, rest);
    wide_fold(rest, modulus, tw + 1);

    uint64_t negated[WIDE_T_WORDS + 1];
    (void)wide_sub(modulus, rest, tw + 1, negated); /* t when the rest is 0 */
    wide_select(rest, negated, sign, tw + 1);
    wide_fold(rest, modulus, tw + 1);
    memcpy(m, rest, tw * sizeof *m);
}

static void encode_coefficients(const bfv_encoder *encoder, const uint64_t *values, uint32_t words,
                                uint32_t count, uint32_t *out) {
    const uint32_t n = encoder->n;
    const uint32_t point = encoder->point;
    const uint32_t full = encoder->t_words + encoder->scale_words;
    const uint32_t kept = full - point < encoder->q_words ? full - point : encoder->q_words;
    uint64_t half[WIDE_MAX_WORDS] = {0}; /* 2^(P-1) - 1 */
    memset(half, 0xff, point * sizeof *half);
    half[point - 1] = (UINT64_C(1) << 63) - 1;

    memset(out, 0, (size_t)encoder->count * n * sizeof *out); /* round(0) = 0 */
    for (uint32_t k = 0; k < count; k++) {
        uint64_t m[WIDE_T_WORDS];
        uint64_t x[WIDE_MAX_WORDS];
        reduce_value(encoder, values + (size_t)k * words, words, m);
        wide_mul(m, encoder->t_words, encoder->scale, encoder->scale_words, x);
        /* no carry out: scale >= 2^P, so the product leaves 2^(64 scale_words) > half free */
        const uint64_t carry = wide_add(x, half, point);
        (void)wide_add_word(x + point, carry, full - point);
        for (uint32_t j = 0; j < encoder->count; j++) {
            const struct zq_mod *p = &encoder->mod[j];
            const uint32_t *weight = encoder->weight[j];
            uint32_t residue = 0;
            for (uint32_t i = 0; i < kept; i += GROUP_HALVES / 2) {
                uint64_t sum = 0;
                for (uint32_t w = i; w < kept && w < i + GROUP_HALVES / 2; w++) {
                    sum += (x[point + w] & UINT32_MAX) * weight[2 * w];
                    sum += (x[point + w] >> 32) * weight[2 * w + 1];
                }
                residue = zq_add(residue, zq_reduce64(sum, p), p->p);
            }
            out[(size_t)j * n + k] = residue;
        }
    }
}

/* y[i] = residues of the plaintext polynomial times (t/t_i)^-1, mod t_i; values first in `given`, N words. */
static void batch_polynomials(const bfv_encoder *encoder, const uint64_t *values, uint32_t words,
                              uint32_t count, uint32_t *given, uint32_t *y) {
    const bfv_ring *slots = encoder->slots;
    const uint32_t n = encoder->n;
    if (count < n) {
        memset(y, 0, ring_poly_words(slots) * sizeof *y);
    }
    for (uint32_t i = 0; i < slots->count; i++, y += n) {
        const struct zq_mod *t = &slots->prime[i].mod;
        if (words == 1) {
            slots->body->reduce_words(given, values, count, t);
        } else {
            /* a negative value's words are value + 2^(64 words) */
            const uint32_t wrap = zq_pow(t->r32, 2 * (uint64_t)words, t);
            for (uint32_t k = 0; k < count; k++) {
                const uint64_t *value = values + (size_t)k * words;
                const uint32_t sign = UINT32_C(0) - (uint32_t)(value[words - 1] >> 63);
                given[k] = zq_sub(wide_mod(value, words, t), wrap & sign, t->p);
            }
        }
        for (uint32_t k = 0; k < count; k++) {
            y[encoder->map[k]] = given[k];
        }
        slots->body->ntt_inverse(y, n, &slots->prime[i]);
        if (slots->count > 1) { /* else the factor is 1 */
            slots->body->mul_scalar(y, y, encoder->inverse[i], n, t->p);
        }
    }
}

bool encoder_work_open(struct encoder_work *work, const bfv_encoder *encoder) {
    const size_t planes = encoder->slots == NULL ? 0 : encoder->slots->count;
    work->bytes = (planes + 1) * encoder->n * sizeof *work->y;
    work->y = buffer_alloc(work->bytes);
    return work->y != NULL;
}

void encoder_work_close(struct encoder_work *work) {
    wipe_and_free(work->y, work->bytes);
}

void encoder_encode(const bfv_encoder *encoder, const uint64_t *values, uint32_t words, uint32_t count,
                    struct encoder_work *work, uint32_t *out) {
    if (encoder->slots == NULL) {
        encode_coefficients(encoder, values, words, count, out);
        return;
    }
    const size_t n = encoder->n;
    batch_polynomials(encoder, values, words, count, work->y, work->y + n);
    encoder->slots->body->encode(out, n, work->y + n, n, n, &encoder->change);
}

const bfv_ring *encoder_slots(const bfv_encoder *encoder) {
    return encoder->slots;
}

const uint32_t *encoder_map(const bfv_encoder *encoder) {
    return encoder->map;
}

const uint64_t *encoder_modulus(const bfv_encoder *encoder) {
    return encoder->t;
}

bool encoder_fits(const bfv_encoder *encoder, const bfv_ring *ring) {
    if (!encoder_is_open(encoder) || encoder->n != ring->n || encoder->count != ring->count) {
        return false;
    }
    bool same = true;
    for (uint32_t j = 0; j < ring->count; j++) {
        same &= encoder->mod[j].p == ring->prime[j].p;
    }
    return same;
}

bool client_values_are_valid(const struct client_values *given, const bfv_ring *ring, uint32_t parts,
                             const uint32_t *out, size_t *out_bytes) {
    const size_t one = parts * ring_poly_words(ring) * sizeof *out;
    size_t places = 0, in_bytes = 0;
    if (!encoder_fits(given->encoder, ring) || given->words == 0 || given->words > BFV_MAX_T_WORDS ||
        given->width > ring->n || given->count == 0 || given->stride == 0 ||
        (given->width != 0 && !is_aligned(given->values, _Alignof(uint64_t))) ||
        !is_aligned(out, _Alignof(uint32_t)) || !size_mul(given->count - 1, given->stride, &places) ||
        places == SIZE_MAX || !size_mul(places + 1, one, out_bytes) || *out_bytes > PTRDIFF_MAX ||
        !size_mul(given->count, (size_t)given->width * given->words * sizeof *given->values, &in_bytes) ||
        in_bytes > PTRDIFF_MAX) {
        return false;
    }
    return !overlaps(given->values, in_bytes, out, *out_bytes);
}

int bfv_encode(const bfv_encoder *encoder, const uint64_t *values, uint32_t words, uint32_t count,
               uint32_t *out) {
    if (!encoder_is_open(encoder) || (count != 0 && !is_aligned(values, _Alignof(uint64_t))) || words == 0 ||
        words > BFV_MAX_T_WORDS || count > encoder->n || !is_aligned(out, _Alignof(uint32_t)) ||
        overlaps(values, (size_t)count * words * sizeof *values, out,
                 (size_t)encoder->count * encoder->n * sizeof *out)) {
        return BFV_E_ARGUMENT;
    }
    struct encoder_work work;
    if (!encoder_work_open(&work, encoder)) {
        return BFV_E_MEMORY;
    }
    encoder_encode(encoder, values, words, count, &work, out);
    encoder_work_close(&work);
    return BFV_OK;
}

int bfv_decode_slots(const bfv_encoder *encoder, const uint64_t *m, uint32_t words, uint32_t *out) {
    if (!encoder_is_open(encoder) || encoder->slots == NULL || !is_aligned(m, _Alignof(uint64_t)) ||
        words == 0 || words > BFV_MAX_T_WORDS || !is_aligned(out, _Alignof(uint32_t)) ||
        overlaps(m, (size_t)encoder->n * words * sizeof *m, out,
                 ring_poly_words(encoder->slots) * sizeof *out)) {
        return BFV_E_ARGUMENT;
    }
    const bfv_ring *slots = encoder->slots;
    const uint32_t n = encoder->n;
    uint64_t below = 1;
    for (uint32_t k = 0; k < n; k++) {
        uint64_t wide[WIDE_T_WORDS] = {0};
        memcpy(wide, m + (size_t)k * words, words * sizeof *m);
        below &= wide_less(wide, encoder->t, WIDE_T_WORDS);
    }
    if (declassify(below) == 0) { /* that a coefficient is out of range */
        return BFV_E_ARGUMENT;
    }
    const size_t bytes = ring_poly_words(slots) * sizeof(uint32_t);
    uint32_t *x = buffer_alloc(bytes);
    if (x == NULL) {
        return BFV_E_MEMORY;
    }
    for (uint32_t i = 0; i < slots->count; i++) {
        for (uint32_t k = 0; k < n; k++) {
            x[(size_t)i * n + k] = wide_mod(m + (size_t)k * words, words, &slots->prime[i].mod);
        }
    }
    const int status = bfv_ntt_forward(slots, x, 1);
    for (uint32_t i = 0; status == BFV_OK && i < slots->count; i++) {
        for (uint32_t k = 0; k < n; k++) {
            out[(size_t)i * n + k] = x[(size_t)i * n + encoder->map[k]];
        }
    }
    wipe_and_free(x, bytes);
    return status;
}
