/* Sequences of calls on rings, samplers, encoders and secret keys: arguments that are missing, overlap, are
 * not aligned or out of range give their status and change nothing; all others compute what plain arithmetic
 * does. */
#include "fuzz_client.h"

enum { MAX_POLYS = 3, MAX_STEPS = 60, WORDS = MAX_POLYS * FUZZ_MAX_POLY };

struct world {
    struct numbers r;
    bfv_ring *ring;
    bfv_secret *secret;
    int8_t key[FUZZ_MAX_N];
};

/* Memory for one operand within a larger piece, so that two can overlap by any number of bytes. */
struct arena {
    uint8_t *data, *before;
    size_t size;
};

static struct arena arena_new(struct input *in, size_t size) {
    struct arena arena = {fresh(size), fresh(size), size};
    uint64_t state = next_byte(in);
    for (size_t k = 0; k < size; k++) {
        arena.data[k] = (uint8_t)mix(&state);
    }
    return arena;
}

static void arena_mark(struct arena *arena) {
    memcpy(arena->before, arena->data, arena->size);
}

/* Frees; when the call failed, nothing may have changed. */
static void arena_close(struct arena *arena, int status) {
    if (status != BFV_OK) {
        EXPECT(memcmp(arena->before, arena->data, arena->size) == 0);
    }
    free(arena->before);
    free(arena->data);
}

static bool touch(const void *a, size_t a_bytes, const void *b, size_t b_bytes) {
    const uint8_t *x = a, *y = b;
    return a_bytes != 0 && b_bytes != 0 && x < y + b_bytes && y < x + a_bytes;
}

static bool misaligned(const void *data, size_t alignment) {
    return (uintptr_t)data % alignment != 0;
}

static uint32_t prime_of(const struct world *w, size_t word) {
    return w->r.primes[word / w->r.n % w->r.count];
}

/* ---- polynomials ------------------------------------------------------------ */

static void call_poly(struct world *w, struct input *in) {
    typedef int binary(const bfv_ring *, const uint32_t *, const uint32_t *, uint64_t, uint32_t *);
    static binary *const calls[] = {bfv_poly_add, bfv_poly_sub, bfv_poly_mul};
    const uint32_t op = pick(in, 5), polys = 1 + pick(in, MAX_POLYS); /* 3: neg, 4: mul_scalar */
    const size_t words = (size_t)polys * w->r.poly, bytes = words * sizeof(uint32_t);
    struct arena arena = arena_new(in, 4 * WORDS * sizeof(uint32_t));
    uint32_t *a = (uint32_t *)(void *)arena.data, *b = a + WORDS, *out = a + 2 * WORDS;
    uint32_t *s = a + 3 * WORDS;
    next_residues(in, &w->r, polys, false, a);
    next_residues(in, &w->r, polys, false, b);
    bool wild = false;
    for (uint32_t i = 0; i < w->r.count; i++) {
        const uint32_t choice = next_byte(in), p = w->r.primes[i];
        s[i] = choice == 255 ? UINT32_MAX : choice > 250 ? p : choice > 200 ? p - 1 : choice % p;
        wild = wild || s[i] >= p;
    }
    switch (pick(in, 8)) { /* where the result goes */
    case 0:
        out = a;
        break;
    case 1:
        out = b;
        break;
    case 2:
        out = a + pick(in, 256) % (2 * WORDS);
        break;
    case 3:
        out = (uint32_t *)(void *)(arena.data + pick(in, 256) * 7 % (8 * WORDS));
        break;
    case 4:
        b = a;
        break;
    default:
        break;
    }
    uint32_t *x = fresh(bytes), *y = fresh(bytes), scalars[FUZZ_MAX_PRIMES] = {0};
    memcpy(x, a, bytes);
    memcpy(y, b, bytes);
    memcpy(scalars, s, w->r.count * sizeof *s);
    uint64_t count = polys;
    const uint32_t huge = pick(in, 32);
    if (huge < 3) {
        count = huge == 0 ? 0 : huge == 1 ? UINT64_MAX : UINT64_C(1) << 62;
    }
    const bool uses_b = op < 3, parted = out == a || !touch(a, bytes, out, bytes);
    int expected = count != polys || misaligned(out, 4) || !parted ||
                           (uses_b && out != b && touch(b, bytes, out, bytes)) ||
                           (op == 4 && touch(s, w->r.count * sizeof *s, out, bytes))
                       ? BFV_E_ARGUMENT
                       : BFV_OK;
    expected = expected == BFV_OK && op == 4 && wild ? BFV_E_RESIDUE : expected;
    arena_mark(&arena);
    const int status = op < 3    ? calls[op](w->ring, a, b, count, out)
                       : op == 3 ? bfv_poly_neg(w->ring, a, count, out)
                                 : bfv_poly_mul_scalar(w->ring, a, s, count, out);
    EXPECT(status == expected);
    for (size_t k = 0; status == BFV_OK && k < words; k++) {
        const uint32_t p = prime_of(w, k);
        const uint32_t right = op == 0   ? (x[k] + y[k]) % p
                               : op == 1 ? (x[k] + p - y[k]) % p
                               : op == 2 ? times(x[k], y[k], p)
                               : op == 3 ? (p - x[k]) % p
                                         : times(x[k], scalars[k / w->r.n % w->r.count], p);
        EXPECT(out[k] == right);
    }
    free(x);
    free(y);
    arena_close(&arena, status);
}

static void call_ntt(struct world *w, struct input *in) {
    const uint32_t polys = 1 + pick(in, MAX_POLYS);
    const size_t bytes = (size_t)polys * w->r.poly * sizeof(uint32_t);
    uint32_t *x = fresh(bytes), *y = fresh(bytes), *z = fresh(bytes);
    next_residues(in, &w->r, polys, false, x);
    memcpy(z, x, bytes);
    plain_forward(&w->r, x, polys, y);
    EXPECT(bfv_ntt_forward(w->ring, x, polys) == BFV_OK && memcmp(x, y, bytes) == 0);
    EXPECT(bfv_ntt_inverse(w->ring, x, polys) == BFV_OK && memcmp(x, z, bytes) == 0);
    const bool wild = pick(in, 2) == 1;
    next_residues(in, &w->r, polys, wild, x);
    EXPECT(bfv_check_residues(w->ring, x, polys) == (wild ? BFV_E_RESIDUE : BFV_OK));
    EXPECT(bfv_ntt_forward(w->ring, NULL, 1) == BFV_E_ARGUMENT &&
           bfv_ntt_inverse(NULL, x, 1) == BFV_E_ARGUMENT);
    free(x);
    free(y);
    free(z);
}

static void call_from_int64(struct world *w, struct input *in) {
    struct arena arena = arena_new(in, (FUZZ_MAX_N + FUZZ_MAX_POLY) * sizeof(int64_t));
    int64_t *values = (int64_t *)(void *)arena.data, kept[FUZZ_MAX_N];
    uint8_t *at = arena.data + FUZZ_MAX_N * sizeof *values;
    const uint32_t choice = pick(in, 8);
    at = choice == 0 ? arena.data + pick(in, FUZZ_MAX_N * 8) : choice == 1 ? at + 1 : at;
    uint32_t *out = (uint32_t *)(void *)at;
    uint64_t state = next_byte(in);
    bool outside = false;
    for (uint32_t k = 0; k < w->r.n; k++) {
        const uint64_t noise = mix(&state), limit = UINT64_C(1) << 62;
        const uint64_t v = state % 16 == 3   ? noise
                           : noise % 8 == 1  ? limit - 1
                           : noise % 8 == 2  ? 0 - (limit - 1)
                           : noise % 64 == 3 ? limit
                                             : (uint64_t)((int64_t)noise >> (2 + noise % 62));
        memcpy(&values[k], &v, sizeof v);
        outside = outside || values[k] >= (int64_t)limit || values[k] <= -(int64_t)limit;
    }
    memcpy(kept, values, w->r.n * sizeof *values);
    arena_mark(&arena);
    const bool bad =
        outside || misaligned(out, 4) || touch(values, w->r.n * sizeof *values, out, w->r.poly * 4);
    const int status = bfv_from_int64(w->ring, values, out);
    EXPECT(status == (bad ? BFV_E_ARGUMENT : BFV_OK));
    for (uint32_t k = 0; status == BFV_OK && k < w->r.poly; k++) {
        const int64_t p = prime_of(w, k);
        EXPECT(out[k] == (uint32_t)((kept[k % w->r.n] % p + p) % p));
    }
    arena_close(&arena, status);
}

/* ---- samplers ----------------------------------------------------------------- */

static void call_expand(struct world *w, struct input *in) {
    const size_t bytes = pick(in, 4) == 0 ? next_byte(in) : 4 * (size_t)pick(in, 60);
    const uint32_t index = pick(in, FUZZ_MAX_PRIMES + 1);
    struct arena arena = arena_new(in, 256 + FUZZ_MAX_N * sizeof(uint32_t));
    const uint8_t *stream = arena.data;
    uint32_t *out = (uint32_t *)(void *)(arena.data + (pick(in, 8) == 0 ? pick(in, 64) * 4 : 256));
    const uint32_t start = pick(in, 8) == 0 ? w->r.n + 1 : pick(in, w->r.n + 1);
    uint32_t filled = start, right[FUZZ_MAX_N], next = start;
    const bool good = index < w->r.count && bytes % 4 == 0 && start <= w->r.n &&
                      !touch(stream, bytes, out, w->r.n * sizeof *out);
    if (good) {
        uint32_t mask = 1;
        while (mask < w->r.primes[index]) {
            mask = 2 * mask + 1;
        }
        for (size_t k = 0; k < bytes && next < w->r.n; k += 4) {
            uint32_t word = 0;
            for (uint32_t j = 4; j-- > 0;) {
                word = word << 8 | stream[k + j];
            }
            if ((word & mask) < w->r.primes[index]) {
                right[next++] = word & mask;
            }
        }
    }
    arena_mark(&arena);
    const int status = bfv_expand_uniform(w->ring, index, stream, bytes, out, &filled);
    EXPECT(status == (good ? BFV_OK : BFV_E_ARGUMENT) && filled == next);
    EXPECT(!good || start == next || memcmp(out + start, right + start, (next - start) * sizeof *out) == 0);
    arena_close(&arena, status);
}

static void plain_error(const uint8_t *rnd, uint32_t n, int8_t *out) {
    for (uint32_t k = 0; k < n; k++) {
        out[k] = 0;
        for (uint32_t bit = 0; bit < 42; bit++) {
            const int one = rnd[6 * k + bit / 8] >> (bit % 8) & 1;
            out[k] = (int8_t)(out[k] + (bit < 21 ? one : -one));
        }
    }
}

static bool plain_ternary(const uint8_t *rnd, size_t bytes, uint32_t n, int8_t *out) {
    uint32_t next = 0;
    for (size_t k = 0; k < bytes && next < n; k++) {
        if (rnd[k] != 255) {
            out[next++] = (int8_t)(rnd[k] % 3 - 1);
        }
    }
    return next == n;
}

static void call_sample(struct world *w, struct input *in) {
    const uint32_t n = pick(in, 16) == 0 ? next_byte(in) & 1 : w->r.n;
    const bool ternary = pick(in, 2) == 0;
    const size_t bytes = pick(in, 4) == 0 ? pick(in, 128) : 128;
    struct arena arena = arena_new(in, 256);
    for (uint32_t k = 0, many = pick(in, 128); k < many; k++) {
        arena.data[k] = 255;
    }
    int8_t *out = (int8_t *)arena.data + (pick(in, 8) == 0 ? pick(in, 128) : 128), right[FUZZ_MAX_N];
    const size_t taken = ternary ? bytes : 6 * (size_t)n;
    int expected = n < 2 || touch(arena.data, taken, out, n) ? BFV_E_ARGUMENT : BFV_OK;
    if (expected == BFV_OK && ternary) {
        expected = plain_ternary(arena.data, bytes, n, right) ? BFV_OK : BFV_E_RANDOM;
    } else if (expected == BFV_OK) {
        expected = bytes < taken ? BFV_E_RANDOM : BFV_OK;
        plain_error(arena.data, n, right);
    }
    arena_mark(&arena);
    const int status = (ternary ? bfv_sample_ternary : bfv_sample_error)(n, arena.data, bytes, out);
    EXPECT(status == expected && (status != BFV_OK || memcmp(out, right, n) == 0));
    arena_close(&arena, status);
}

/* ---- encryption ----------------------------------------------------------------- */

/* sum += a b, where b is small and in coefficient form and a in NTT form; for b NULL, sum += a. */
static void add_product(const struct world *w, const uint32_t *a, const int8_t *b, uint32_t *sum) {
    uint32_t residues[FUZZ_MAX_POLY], transformed[FUZZ_MAX_POLY];
    for (uint32_t k = 0; k < w->r.poly; k++) {
        const int64_t p = prime_of(w, k);
        residues[k] = b == NULL ? 0 : (uint32_t)((b[k % w->r.n] + p) % p);
    }
    plain_forward(&w->r, residues, 1, transformed);
    for (uint32_t k = 0; k < w->r.poly; k++) {
        const uint32_t p = prime_of(w, k);
        const uint32_t term = b == NULL ? a[k] : a == NULL ? transformed[k] : times(a[k], transformed[k], p);
        sum[k] = (sum[k] + term) % p;
    }
}

static void call_encrypt(struct world *w, struct input *in) {
    const uint32_t n = w->r.n, poly = w->r.poly, parts = 2 + pick(in, 2);
    const size_t need = bfv_encrypt_bytes(n, parts), bytes = pick(in, 8) == 0 ? pick(in, 128) % need : need;
    struct arena arena = arena_new(in, (6 * FUZZ_MAX_POLY) * sizeof(uint32_t));
    uint32_t *pk = (uint32_t *)(void *)arena.data, *m = pk + 2 * FUZZ_MAX_POLY, *out = m + FUZZ_MAX_POLY;
    uint8_t *rnd = fresh(need);
    uint64_t state = next_byte(in);
    const bool wild_pk = pick(in, 8) == 1, wild_m = pick(in, 8) == 1, with_m = parts == 2 && pick(in, 2) == 1;
    for (size_t k = 0; k < need; k++) {
        rnd[k] = (uint8_t)mix(&state);
    }
    next_residues(in, &w->r, 2, wild_pk, pk);
    next_residues(in, &w->r, 1, wild_m, m);
    const uint32_t choice = pick(in, 8);
    out = choice == 0   ? pk + pick(in, 3 * FUZZ_MAX_POLY)
          : choice == 1 ? (uint32_t *)(void *)((uint8_t *)out + 2)
                        : out;
    const size_t poly_bytes = poly * sizeof *out, out_bytes = parts * poly_bytes;
    int8_t u[2][FUZZ_MAX_N], e[3][FUZZ_MAX_N];
    bool enough = true;
    for (uint32_t k = 0; k < parts - 1; k++) {
        const size_t one = bfv_ternary_bytes(n);
        enough = plain_ternary(rnd + k * one, one, n, u[k]) && enough;
    }
    for (uint32_t k = 0; k < parts; k++) {
        plain_error(rnd + (parts - 1) * bfv_ternary_bytes(n) + k * bfv_error_bytes(n), n, e[k]);
    }
    int expected = touch(pk, 2 * poly_bytes, out, out_bytes) || misaligned(out, 4) ||
                           (with_m && touch(m, poly_bytes, out, out_bytes))
                       ? BFV_E_ARGUMENT
                   : bytes < need                  ? BFV_E_RANDOM
                   : wild_pk || (with_m && wild_m) ? BFV_E_RESIDUE
                   : enough                        ? BFV_OK
                                                   : BFV_E_RANDOM;
    arena_mark(&arena);
    const int status = parts == 2 ? bfv_encrypt_public(w->ring, pk, with_m ? m : NULL, rnd, bytes, out)
                                  : bfv_encrypt_zero3(w->ring, pk, rnd, bytes, out);
    EXPECT(status == expected);
    if (status == BFV_OK) {
        uint32_t right[3 * FUZZ_MAX_POLY] = {0};
        for (uint32_t part = 0; part < parts; part++) {
            uint32_t *sum = right + part * poly;
            add_product(w, NULL, e[part], sum);
            for (uint32_t i = 0; i < 2; i++) {
                if (part >= i && part - i < parts - 1) {
                    add_product(w, pk + i * poly, u[part - i], sum);
                }
            }
        }
        if (with_m) {
            uint32_t transformed[FUZZ_MAX_POLY];
            plain_forward(&w->r, m, 1, transformed);
            add_product(w, transformed, NULL, right);
        }
        EXPECT(memcmp(out, right, out_bytes) == 0);
    }
    free(rnd);
    arena_close(&arena, status);
}

static void call_secret(struct world *w, struct input *in) {
    const uint32_t n = w->r.n, poly = w->r.poly, op = pick(in, 3); /* public, encrypt, phase */
    const uint32_t parts = pick(in, 8) == 0 ? pick(in, 2) * 4 : 2 + pick(in, 2);
    struct arena arena = arena_new(in, 6 * FUZZ_MAX_POLY * sizeof(uint32_t));
    uint32_t *a = (uint32_t *)(void *)arena.data, *m = a + 3 * FUZZ_MAX_POLY, *out = m + FUZZ_MAX_POLY;
    const bool wild = pick(in, 8) == 1, with_m = pick(in, 2) == 1;
    next_residues(in, &w->r, op == 2 ? 3 : 1, wild, a);
    next_residues(in, &w->r, 1, false, m);
    const uint32_t choice = pick(in, 8);
    out = choice == 0   ? a + pick(in, 4 * FUZZ_MAX_POLY)
          : choice == 1 ? (uint32_t *)(void *)((uint8_t *)out + 2)
                        : out;
    int8_t e[FUZZ_MAX_N] = {0};
    uint8_t rnd[6 * FUZZ_MAX_N];
    uint64_t state = next_byte(in);
    for (uint32_t k = 0; k < sizeof rnd; k++) {
        rnd[k] = (uint8_t)mix(&state);
    }
    const size_t bytes = pick(in, 8) == 1 ? pick(in, 6 * n) : 6 * n, poly_bytes = poly * sizeof *out;
    plain_error(rnd, n, e);
    const bool large = op == 0 && pick(in, 8) == 1;
    e[0] = large ? (int8_t)(mix(&state) % 2 == 0 ? 22 : -128) : e[0];
    bool bad = misaligned(out, 4) || large;
    bad = bad || touch(out, poly_bytes, a, (op == 2 ? parts : 1) * poly_bytes);
    bad = bad || (op == 1 && with_m && touch(out, poly_bytes, m, poly_bytes));
    bad = bad || (op == 2 && parts != 2 && parts != 3);
    bool wild_taken = wild;
    if (op == 2 && !bad) {
        wild_taken = false;
        for (size_t k = 0; k < (size_t)parts * poly; k++) {
            wild_taken = wild_taken || a[k] >= prime_of(w, k);
        }
    }
    const int expected = bad                        ? BFV_E_ARGUMENT
                         : op == 1 && bytes < 6 * n ? BFV_E_RANDOM
                         : wild_taken               ? BFV_E_RESIDUE
                                                    : BFV_OK;
    arena_mark(&arena);
    const int status = op == 0   ? bfv_secret_public(w->secret, a, e, out)
                       : op == 1 ? bfv_secret_encrypt(w->secret, a, with_m ? m : NULL, rnd, bytes, out)
                                 : bfv_secret_phase(w->secret, a, parts, out);
    EXPECT(status == expected);
    if (status == BFV_OK) {
        uint32_t left[FUZZ_MAX_POLY] = {0}, right[FUZZ_MAX_POLY] = {0};
        if (op == 2) { /* NTT(out) = c0 + (c1 + c2 s) s */
            uint32_t inner[FUZZ_MAX_POLY];
            plain_forward(&w->r, out, 1, left);
            memcpy(inner, a + poly, poly_bytes);
            if (parts == 3) {
                add_product(w, a + 2 * poly, w->key, inner);
            }
            memcpy(right, a, poly_bytes);
            add_product(w, inner, w->key, right);
        } else { /* out + a s = m +- e */
            memcpy(left, out, poly_bytes);
            add_product(w, a, w->key, left);
            for (uint32_t k = 0; op == 0 && k < n; k++) {
                e[k] = (int8_t)-e[k];
            }
            add_product(w, NULL, e, right);
            if (op == 1 && with_m) {
                uint32_t transformed[FUZZ_MAX_POLY];
                plain_forward(&w->r, m, 1, transformed);
                add_product(w, transformed, NULL, right);
            }
        }
        EXPECT(memcmp(left, right, poly_bytes) == 0);
    }
    arena_close(&arena, status);
}

/* ---- encoders and rounding -------------------------------------------------------- */

__extension__ typedef unsigned __int128 wide;

/* t of one word, below q and prime to it; values of one word: encodes, and rounds back to the same. */
static void call_coefficients(struct world *w, struct input *in) {
    const uint32_t n = w->r.n, poly = w->r.poly, words = 1 + pick(in, BFV_MAX_T_WORDS);
    uint64_t state = next_byte(in);
    const uint64_t t = mix(&state) >> (next_byte(in) % 64);
    uint64_t *modulus = fresh(words * sizeof *modulus);
    modulus[0] = t;
    if (words > 1 && pick(in, 8) == 0) {
        modulus[1 + pick(in, words - 1)] = mix(&state);
    }
    wide q = 1, whole = t;
    bool coprime = true, small = true;
    for (uint32_t i = 0; i < w->r.count; i++) {
        q *= w->r.primes[i];
        uint64_t rest = 0;
        for (uint32_t k = words; k-- > 0;) {
            rest = (uint64_t)((((wide)rest << 64) | modulus[k]) % w->r.primes[i]);
        }
        coprime = coprime && rest != 0;
    }
    for (uint32_t k = 1; k < words; k++) {
        whole = k == 1 ? whole | (wide)modulus[1] << 64 : whole;
        small = small && (k == 1 || modulus[k] == 0);
    }
    bfv_encoder *encoder = NULL;
    const bool good = coprime && small && whole >= 2 && whole < q;
    const int status = bfv_encoder_open_coefficients(w->ring, modulus, words, &encoder);
    EXPECT(status == (good ? BFV_OK : BFV_E_ARGUMENT) && (encoder != NULL) == good);
    if (good && whole <= UINT64_MAX) {
        const uint32_t count = pick(in, n + 1), wider = 1 + pick(in, BFV_MAX_T_WORDS);
        uint64_t *values = fresh((size_t)n * wider * sizeof *values), *back = fresh(n * sizeof *back);
        uint32_t *x = fresh(poly * sizeof *x);
        for (uint32_t k = 0; k < count; k++) { /* sign-extended words */
            const uint64_t v = mix(&state) >> (mix(&state) % 64);
            const bool negative = mix(&state) % 2 == 0 && v != 0;
            for (uint32_t j = 0; j < wider; j++) {
                values[(size_t)k * wider + j] = j == 0 ? (negative ? 0 - v : v) : negative ? UINT64_MAX : 0;
            }
        }
        EXPECT(bfv_encode(encoder, values, wider, n + 1, x) == BFV_E_ARGUMENT);
        EXPECT(bfv_encode(encoder, values, wider, count, x) == BFV_OK);
        EXPECT(bfv_check_residues(w->ring, x, 1) == BFV_OK);
        EXPECT(bfv_decode_slots(encoder, values, 1, x) == BFV_E_ARGUMENT); /* it has no slots */
        const uint64_t half = (UINT64_C(1) << 63) - 1;
        EXPECT(bfv_secret_round(w->ring, x, &t, 1, 0, n, half, back) ==
                   (2 * whole < q ? BFV_OK : BFV_E_NOISE) ||
               4 * whole > q); /* |t x/q - m| <= t/2q: near 1/2 the bound decides */
        for (uint32_t k = 0; 4 * whole < q && k < n; k++) {
            uint64_t right = 0;
            if (k < count && wider > 1) {
                const uint64_t v = values[(size_t)k * wider];
                const bool negative = values[(size_t)k * wider + 1] != 0;
                right = negative ? (t - (0 - v) % t) % t : v % t;
            } else if (k < count) { /* a word is signed */
                const uint64_t v = values[k], magnitude = v >> 63 != 0 ? 0 - v : v;
                right = v >> 63 != 0 ? (t - magnitude % t) % t : v % t;
            }
            EXPECT(back[k] == right);
        }
        EXPECT(bfv_secret_round(w->ring, x, &t, 1, n, 1, half, back) == BFV_E_ARGUMENT);
        EXPECT(bfv_secret_round(w->ring, x, &t, 1, 0, n, half + 1, back) == BFV_E_ARGUMENT);
        free(values);
        free(back);
        free(x);
    }
    bfv_encoder_close(encoder);
    free(modulus);
}

/* Slots there and back, through the same rounding. */
static void call_batched(struct world *w, struct input *in) {
    static const uint32_t known[] = {353, 449, 577, 114689, 1073739649, 97, 15};
    const uint32_t n = w->r.n, count = pick(in, 4), first = pick(in, 7);
    uint32_t *primes = fresh((count + 1) * sizeof *primes);
    wide q = 1, t = 1;
    bool good = count != 0;
    for (uint32_t i = 0; i < w->r.count; i++) {
        q *= w->r.primes[i];
    }
    for (uint32_t i = 0; i < count; i++) {
        primes[i] = known[(first + i) % 7];
        t *= primes[i];
        good = good && primes[i] != 15;
        for (uint32_t k = 0; k < w->r.count; k++) {
            good = good && primes[i] != w->r.primes[k];
        }
    }
    good = good && t < q;
    bfv_encoder *encoder = NULL;
    EXPECT(bfv_encoder_open_batched(w->ring, primes, count, &encoder) == (good ? BFV_OK : BFV_E_ARGUMENT));
    if (good && t <= UINT64_MAX && 16 * t < q) {
        uint64_t state = next_byte(in), modulus = (uint64_t)t;
        uint64_t values[FUZZ_MAX_N] = {0}, m[FUZZ_MAX_N];
        uint32_t *x = fresh(w->r.poly * sizeof *x), *slots = fresh((size_t)count * n * sizeof *slots);
        const uint32_t used = pick(in, n + 1);
        for (uint32_t k = 0; k < used; k++) {
            values[k] = mix(&state) >> (mix(&state) % 64);
        }
        EXPECT(bfv_encode(encoder, values, 1, used, x) == BFV_OK);
        EXPECT(bfv_secret_round(w->ring, x, &modulus, 1, 0, n, UINT64_C(1) << 62, m) == BFV_OK);
        EXPECT(bfv_decode_slots(encoder, m, 1, slots) == BFV_OK);
        for (uint32_t k = 0; k < count * n; k++) {
            const uint64_t p = primes[k / n], v = values[k % n], negated = 0 - v;
            EXPECT(slots[k] == (v >> 63 != 0 ? (p - negated % p) % p : v % p));
        }
        m[n - 1] = modulus;
        EXPECT(bfv_decode_slots(encoder, m, 1, slots) == BFV_E_ARGUMENT);
        batches(w->ring, w->secret, &w->r, encoder, values, used, in);
        slots_of(w->ring, &w->r, encoder, modulus, count, x, in);
        free(slots);
        free(x);
    }
    bfv_encoder_close(encoder);
    free(primes);
}

/* Lifted integers are below q/2, so they round to 0 over q; and 64-bit words come back as they were. */
static void call_lift(struct world *w, struct input *in) {
    static const uint32_t known[] = {132120577, 67239937, 134250497, 268369921, 97, 15};
    const uint32_t count = pick(in, 5), first = pick(in, 6), poly = w->r.poly, n = w->r.n;
    uint32_t *wide = fresh((count + 1) * sizeof *wide);
    bool good = count != 0;
    for (uint32_t i = 0; i < count; i++) {
        wide[i] = known[(first + i) % 6];
        good = good && wide[i] != 15;
        for (uint32_t k = 0; k < w->r.count; k++) {
            good = good && wide[i] != w->r.primes[k];
        }
    }
    bfv_lifter *lifter = NULL;
    EXPECT(bfv_lifter_open(w->ring, wide, count, &lifter) == (good ? BFV_OK : BFV_E_ARGUMENT));
    if (good) {
        uint32_t *x = fresh((poly + count * n) * sizeof *x), *out = fresh(6 * poly * sizeof *out);
        const uint64_t t[] = {1, 0};
        const uint32_t *const zero[] = {out + poly};
        EXPECT(bfv_scaled_dot(lifter, t, 2, zero, zero, 1, out + 3 * poly) == BFV_OK);
        EXPECT(bfv_scaled_dot(lifter, t, 2, zero, zero, 1, out) == BFV_E_ARGUMENT);
        for (uint32_t k = 0; k < 3 * poly; k++) {
            EXPECT(out[3 * poly + k] == 0);
        }
        switching(w->ring, &w->r, in);
        planes(w->ring, &w->r, in);
        next_residues(in, &w->r, 1, false, x);
        EXPECT(bfv_lift(lifter, x, 1, x + poly - 1) == BFV_E_ARGUMENT);
        EXPECT(bfv_lift(lifter, x, 1, x + poly) == BFV_OK);
        EXPECT(bfv_scale_round(lifter, t, 2, x, 1, out) == BFV_OK);
        for (uint32_t k = 0; k < poly; k++) {
            EXPECT(out[k] == 0);
        }
        free(x);
        free(out);
    }
    bfv_lifter_close(lifter);
    uint64_t state = next_byte(in), modulus = mix(&state) >> (3 + pick(in, 56));
    modulus |= 1;
    bool odd = modulus >= 3;
    for (uint32_t i = 0; i < count; i++) {
        odd = odd && modulus % wide[i] != 0;
        for (uint32_t k = 0; k < i; k++) {
            odd = odd && wide[i] != wide[k];
        }
        odd = odd && wide[i] != 15;
    }
    bfv_lifter64 *lifter64 = NULL;
    const bool opens = odd && count != 0;
    EXPECT(bfv_lifter64_open(n, &modulus, 1, wide, count, &lifter64) == (opens ? BFV_OK : BFV_E_ARGUMENT));
    if (opens && count >= 4) { /* 97 and three large primes hold 61 bits */
        uint64_t *x = fresh(n * sizeof *x), *back = fresh(n * sizeof *back);
        uint32_t *lifted = fresh((size_t)count * n * sizeof *lifted);
        for (uint32_t k = 0; k < n; k++) {
            x[k] = mix(&state) % modulus;
        }
        EXPECT(bfv_lift64(lifter64, x, 1, lifted) == BFV_OK &&
               bfv_reduce64(lifter64, lifted, 1, back) == BFV_OK);
        EXPECT(memcmp(x, back, n * sizeof *x) == 0);
        const uint64_t t = 1;
        EXPECT(bfv_scale_round64(lifter64, &t, 1, lifted, 1, back) == BFV_OK);
        for (uint32_t k = 0; k < n; k++) {
            EXPECT(back[k] == 0);
        }
        x[n - 1] = modulus;
        EXPECT(bfv_lift64(lifter64, x, 1, lifted) == BFV_E_RESIDUE);
        free(x);
        free(back);
        free(lifted);
    }
    bfv_lifter64_close(lifter64);
    free(wide);
}

static void call_crc(struct world *w, struct input *in) {
    (void)w;
    const size_t size = pick(in, 256) * 5, at = pick(in, 8);
    struct arena arena = arena_new(in, 5 * 256 + 8);
    uint32_t crc = next_byte(in) * 0x01010101U, right = ~crc;
    for (size_t k = 0; k < size; k++) {
        right ^= arena.data[at + k];
        for (uint32_t bit = 0; bit < 8; bit++) {
            right = right >> 1 ^ (right & 1) * 0x82f63b78U;
        }
    }
    EXPECT(bfv_crc32c(crc, arena.data + at, size) == ~right && bfv_crc32c(crc, NULL, 0) == crc);
    bfv_wipe(arena.data + at, size);
    bfv_wipe(NULL, size);
    for (size_t k = 0; k < size; k++) {
        EXPECT(arena.data[at + k] == 0);
    }
    arena_close(&arena, BFV_OK);
}

/* Cells of few characters: whatever is taken for a number is one, and what C can read so is taken. */
static void call_decimals(struct world *w, struct input *in) {
    (void)w;
    static const char alphabet[] = "0123456789012345678901234567890123456789,..-- NAe+\xc3";
    enum { CELLS = 8 };
    int32_t ends[CELLS + 1] = {0};
    uint8_t lengths[CELLS];
    for (uint32_t k = 0; k < CELLS; k++) {
        lengths[k] = (uint8_t)pick(in, 24);
        ends[k + 1] = ends[k] + lengths[k];
    }
    uint8_t *text = fresh((size_t)ends[CELLS]);
    for (int32_t k = 0; k < ends[CELLS]; k++) {
        text[k] = (uint8_t)alphabet[pick(in, sizeof alphabet - 1)];
    }
    int64_t mantissa[CELLS], decimals[CELLS];
    EXPECT(bfv_decimals(text, (uint64_t)ends[CELLS], ends, CELLS, '.', mantissa, decimals) == BFV_OK);
    for (uint32_t k = 0; k < CELLS; k++) {
        char digits[32] = {0};
        size_t count = 0, marks = 0, others = 0;
        int64_t after = 0;
        uint32_t at = 0;
        while (at < lengths[k] && text[ends[k] + (int32_t)at] == ' ') {
            at++;
        }
        const bool negative = at < lengths[k] && text[ends[k] + (int32_t)at] == '-';
        for (at += negative; at < lengths[k]; at++) {
            const uint8_t byte = text[ends[k] + (int32_t)at];
            if (byte == '.') {
                marks++;
            } else if (byte >= '0' && byte <= '9') {
                digits[count++] = (char)byte;
                after += marks != 0;
            } else {
                others++;
            }
        }
        const bool plain = others == 0 && marks <= 1 && count >= 1 && count <= 18;
        const int64_t value = plain ? strtoll(digits, NULL, 10) : 0;
        EXPECT(decimals[k] == (plain ? after : -1) && mantissa[k] == (negative ? -value : value));
    }
    free(text);
}

/* Any numbers at all: a ring exactly when the rules say so. */
static void call_open(struct world *w, struct input *in) {
    (void)w;
    uint32_t primes[BFV_MAX_PRIMES + 1] = {0};
    const uint32_t n = pick(in, 4) == 0 ? 1U << pick(in, 32) : 1U << pick(in, 6);
    const uint32_t count = pick(in, 8) == 0 ? BFV_MAX_PRIMES + pick(in, 2) : pick(in, 4);
    bool good = n >= BFV_MIN_N && n <= BFV_MAX_N && count >= 1 && count <= BFV_MAX_PRIMES;
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t word = next_byte(in) << 8 | next_byte(in);
        primes[i] = pick(in, 8) == 0 ? word << 16 | word : 2 * n * (word % 64) + 1;
        good = good && primes[i] < 1U << 30 && primes[i] % (2 * n) == 1 && primes[i] != 1;
        for (uint32_t d = 3; good && (uint64_t)d * d <= primes[i]; d += 2) {
            good = primes[i] % d != 0;
        }
        for (uint32_t k = 0; k < i; k++) {
            good = good && primes[k] != primes[i];
        }
    }
    bfv_ring *ring = NULL;
    EXPECT(bfv_ring_open(n, primes, count, NULL, &ring) == (good ? BFV_OK : BFV_E_ARGUMENT));
    EXPECT((ring != NULL) == good && (bfv_ring_body(ring) != NULL) == good);
    EXPECT(bfv_status_text((int)next_byte(in) - 128) != NULL);
    bfv_ring_close(ring);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static void (*const calls[])(struct world *, struct input *) = {
        call_poly,    call_ntt,    call_from_int64,   call_expand,  call_sample,
        call_encrypt, call_secret, call_coefficients, call_batched, call_crc,
        call_open,    call_lift,   call_decimals,
    };
    struct input in = {data, size};
    struct world w = {.r = next_numbers(&in)};
    const char *body = next_body(&in);
    const int expected = body != NULL && strcmp(body, "none") == 0 ? BFV_E_UNSUPPORTED : BFV_OK;
    EXPECT(bfv_ring_open(w.r.n, w.r.primes, w.r.count, body, &w.ring) == expected);
    if (expected != BFV_OK) {
        return 0;
    }
    uint64_t state = next_byte(&in);
    for (uint32_t k = 0; k < w.r.n; k++) {
        w.key[k] = (int8_t)(mix(&state) % 3) - 1;
    }
    for (uint32_t i = 0; i < w.r.count; i++) {
        w.r.roots[i] = bfv_ring_root(w.ring, i);
    }
    const uint32_t wrong = pick(&in, 4 * w.r.n);
    if (wrong < w.r.n) { /* a key that is none */
        const int8_t kept = w.key[wrong];
        w.key[wrong] = pick(&in, 2) == 0 ? 2 : -128;
        EXPECT(bfv_secret_open(w.ring, w.key, &w.secret) == BFV_E_ARGUMENT && w.secret == NULL);
        w.key[wrong] = kept;
    }
    EXPECT(bfv_secret_open(w.ring, w.key, &w.secret) == BFV_OK);
    for (uint32_t step = 0; in.left != 0 && step < MAX_STEPS; step++) {
        calls[pick(&in, sizeof calls / sizeof calls[0])](&w, &in);
    }
    bfv_secret_close(w.secret);
    bfv_ring_close(w.ring);
    return 0;
}
