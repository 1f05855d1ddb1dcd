/* dpu/core/wide.h and limb.h against arithmetic on bytes. test_limb_split.c compiles this file again with
 * the DPU's wide product. */
#ifndef LIMB_TEST
#define LIMB_TEST(name) test_limb_##name
#endif

#include "test.h"

#include "../../dpu/core/limb.h"

enum { BYTES = 72 };

/* ---- the slow method: little-endian bytes, one at a time ---------------------------------------- */

static void to_bytes(uint8_t *out, const uint32_t *x, uint32_t words) {
    memset(out, 0, BYTES);
    for (uint32_t i = 0; i < 4 * words; i++) {
        out[i] = (uint8_t)(x[i / 4] >> (8 * (i % 4)));
    }
}

static void slow_add(uint8_t *out, const uint8_t *a, const uint8_t *b) {
    uint32_t carry = 0;
    for (uint32_t i = 0; i < BYTES; i++) {
        carry += (uint32_t)a[i] + b[i];
        out[i] = (uint8_t)carry;
        carry >>= 8;
    }
}

/* a - b mod 256^BYTES. */
static void slow_sub(uint8_t *out, const uint8_t *a, const uint8_t *b) {
    uint32_t borrow = 0;
    for (uint32_t i = 0; i < BYTES; i++) {
        const uint32_t d = 256 + (uint32_t)a[i] - b[i] - borrow;
        out[i] = (uint8_t)d;
        borrow = d < 256;
    }
}

static bool slow_less(const uint8_t *a, const uint8_t *b) {
    for (uint32_t i = BYTES; i-- > 0;) {
        if (a[i] != b[i]) {
            return a[i] < b[i];
        }
    }
    return false;
}

static void slow_mul(uint8_t *out, const uint8_t *a, const uint8_t *b) {
    uint32_t column[2 * BYTES] = {0};
    for (uint32_t i = 0; i < BYTES; i++) {
        for (uint32_t j = 0; j < BYTES && a[i] != 0; j++) {
            column[i + j] += (uint32_t)a[i] * b[j];
        }
    }
    uint32_t carry = 0;
    for (uint32_t i = 0; i < BYTES; i++) {
        carry += column[i];
        out[i] = (uint8_t)carry;
        carry >>= 8;
    }
}

/* x mod q bit by bit. In: q < 256^(BYTES - 1). */
static void slow_mod(uint8_t *out, const uint8_t *x, const uint8_t *q) {
    uint8_t r[BYTES] = {0};
    for (uint32_t bit = 8 * BYTES; bit-- > 0;) {
        slow_add(r, r, r);
        r[0] |= (uint8_t)(x[bit / 8] >> (bit % 8) & 1);
        if (!slow_less(r, q)) {
            slow_sub(r, r, q);
        }
    }
    memcpy(out, r, BYTES);
}

static bool equal(const uint8_t *a, const uint32_t *x, uint32_t words) {
    uint8_t b[BYTES];
    to_bytes(b, x, words);
    return memcmp(a, b, 4 * words) == 0;
}

/* ---- inputs ------------------------------------------------------------------------------------- */

static const uint32_t edges[] = {0,        1,          0xff,       0xffff,     0x10000,
                                 0xff00ff, 0x7fffffff, 0x80000000, 0xfffffffe, 0xffffffff};
enum { EDGES = sizeof edges / sizeof edges[0] };

static const uint32_t sizes[] = {1, 2, 4, 8};

static void random_words(uint32_t *x, uint32_t words) {
    for (uint32_t i = 0; i < words; i++) {
        const uint64_t choice = random64();
        x[i] = choice % 3 == 0   ? edges[choice / 3 % EDGES]
               : choice % 3 == 1 ? (uint32_t)random_runs()
                                 : (uint32_t)random64();
    }
}

/* The paper's moduli, the widest allowed and a narrow one: product of the first primes of the chain that
 * fit, 2^(32 limbs - 1) - 1, 3. */
static void modulus_for(struct limb_modulus *modulus, uint32_t limbs, uint32_t kind) {
    LIMB_LOCAL(q, LIMB_MAX) = {0};
    q[0] = 3;
    if (kind == 0) {
        q[0] = 1;
        for (uint32_t i = 0; i < limbs; i++) {
            uint64_t carry = 0;
            for (uint32_t j = 0; j < limbs; j++) {
                carry += (uint64_t)q[j] * chain[i];
                q[j] = (uint32_t)carry;
                carry >>= 32;
            }
        }
    } else if (kind == 1) {
        memset(q, 0xff, limbs * sizeof *q);
        q[limbs - 1] >>= 1;
    }
    limb_modulus_init(modulus, q, limbs);
}

static void random_residue(uint32_t *x, const struct limb_modulus *modulus, uint32_t limbs) {
    uint8_t a[BYTES], q[BYTES];
    random_words(x, limbs);
    to_bytes(a, x, limbs);
    to_bytes(q, modulus->q, limbs);
    slow_mod(a, a, q);
    memcpy(x, a, 4 * limbs);
    if (random64() % 8 == 0) { /* q - 1 */
        memcpy(x, modulus->q, 4 * limbs);
        x[0] -= 1;
    }
}

/* ---- wide.h --------------------------------------------------------------------------------------- */

void LIMB_TEST(wide)(void);
void LIMB_TEST(wide)(void) {
    uint32_t bad = 0;
    for (uint32_t k = 0; k < 60000; k++) {
        uint32_t a = edges[k % EDGES], b = edges[k / EDGES % EDGES];
        if (k >= EDGES * EDGES) {
            a = (uint32_t)random_runs();
            b = (uint32_t)(k % 2 == 0 ? random_runs() : random64());
        }
        const uint64_t product = (uint64_t)a * b, room = UINT64_MAX - product;
        const uint64_t sum = k % 3 == 0 ? room : random_runs() % (room | 1);
        bad += wide_mul(a, b) != product;
        bad += wide_sqr(a) != (uint64_t)a * a;
        bad += wide_mac(sum, a, b) != sum + product;
        bad += wide_sqr_mac(1, a) != (uint64_t)a * a + 1;
        bad += wide_lo(a, b) != (uint32_t)product;
        bad += wide_hi(a, b) != (uint32_t)(product >> 32);
        bad += (uint32_t)(product >> 32) - wide_hi_lazy(a, b) > 3;
        const uint32_t p = chain[k % 8], w = b % p, quotient = (uint32_t)(((uint64_t)w << 32) / p);
        const uint32_t r = wide_shoup_lazy(a, w, quotient, p);
        bad += r >= WIDE_SHOUP_MULTIPLE * p || r % p != (uint64_t)a * w % p;
    }
    CHECK(bad == 0);

    /* lazy sums at their limits, and on random words */
    for (uint32_t round = 0; round < 400; round++) {
        struct wide_lazy products = wide_lazy_zero(), squares = wide_lazy_zero();
        uint64_t expected = 0, expected_squares = 0;
        for (uint32_t k = 0; k < WIDE_LAZY_TERMS; k++) {
            const bool most = round == 0;
            const uint32_t a = most ? WIDE_LAZY_FACTOR - 1 : (uint32_t)random_runs() % WIDE_LAZY_FACTOR;
            const uint32_t b = most ? WIDE_LAZY_FACTOR - 1 : (uint32_t)random_runs() % WIDE_LAZY_FACTOR;
            const uint32_t c = most ? WIDE_LAZY_ROOT - 1 : (uint32_t)random_runs() % WIDE_LAZY_ROOT;
            wide_lazy_mac(&products, a, b);
            wide_lazy_sqr(&squares, c);
            expected += (uint64_t)a * b;
            expected_squares += (uint64_t)c * c;
        }
        bad += wide_lazy_fold(products) != expected;
        bad += wide_lazy_fold(squares) != expected_squares;
    }
    CHECK(bad == 0);
}

/* ---- limb.h --------------------------------------------------------------------------------------- */

/* One limb, every odd q from 3 to 257, every pair. */
void LIMB_TEST(pairs)(void);
void LIMB_TEST(pairs)(void) {
    uint32_t bad = 0;
    for (uint32_t q = 3; q <= 257; q += 2) {
        struct limb_modulus modulus;
        limb_modulus_init(&modulus, &q, 1);
        bad += modulus.neg_inv * q + 1 != 0;
        for (uint32_t a = 0; a < q; a++) {
            for (uint32_t b = 0; b < q; b++) {
                uint32_t r;
                limb_add_mod(&r, &a, &b, &q, 1);
                bad += r != (a + b) % q;
                limb_sub_mod(&r, &a, &b, &q, 1);
                bad += r != (a + q - b) % q;
                limb_mul_mod(&r, &a, &b, &modulus, 1);
                bad += r != a * b % q;
            }
        }
    }
    CHECK(bad == 0);
}

void LIMB_TEST(chains)(void);
void LIMB_TEST(chains)(void) {
    uint32_t bad = 0;
    for (uint32_t k = 0; k < 8000; k++) {
        const uint32_t limbs = k % 5 == 4 ? 16 : sizes[k % 5];
        LIMB_LOCAL(a, 16);
        LIMB_LOCAL(b, 16);
        LIMB_LOCAL(r, 16);
        LIMB_LOCAL(same, 16);
        uint8_t x[BYTES], y[BYTES], z[BYTES];
        random_words(a, 16);
        random_words(b, 16);
        if (k % 7 < 2) { /* all or the low pair equal: a carry that runs through zeros */
            memcpy(b, a, k % 7 == 0 ? sizeof b : 8);
        }
        to_bytes(x, a, limbs);
        to_bytes(y, b, limbs);

        slow_add(z, x, y);
        const uint32_t carry = limb_add(r, a, b, limbs);
        bad += !equal(z, r, limbs) || carry != z[4 * limbs];
        memcpy(same, a, sizeof same);
        bad += limb_add(same, same, b, limbs) != carry || memcmp(same, r, 4 * limbs) != 0;

        slow_sub(z, x, y);
        const uint32_t borrow = limb_sub(r, a, b, limbs);
        bad += !equal(z, r, limbs) || borrow != (slow_less(x, y) ? UINT32_MAX : 0);
        memcpy(same, b, sizeof same);
        bad += limb_sub(same, a, same, limbs) != borrow || memcmp(same, r, 4 * limbs) != 0;
        bad += limb_less(a, b, limbs) != (slow_less(x, y) ? 1 : 0);

        bad += limb_distance(r, a, b, limbs) != borrow;
        if (borrow != 0) {
            slow_sub(z, y, x);
        }
        bad += !equal(z, r, limbs);
    }
    CHECK(bad == 0);
}

/* Karatsuba against columns of bytes: two limbs on all edge words, the others on mixtures. */
void LIMB_TEST(products)(void);
void LIMB_TEST(products)(void) {
    uint32_t bad = 0;
    for (uint32_t k = 0; k < 12000; k++) {
        const uint32_t limbs = k < 10000 ? 2 : sizes[k % 4];
        LIMB_LOCAL(a, LIMB_MAX);
        LIMB_LOCAL(b, LIMB_MAX);
        LIMB_LOCAL(r, 2 * LIMB_MAX);
        LIMB_LOCAL(acc, LIMB_ACC(LIMB_MAX));
        LIMB_LOCAL(other, LIMB_ACC(LIMB_MAX));
        uint8_t x[BYTES], y[BYTES], z[BYTES], s[BYTES];
        random_words(a, LIMB_MAX);
        random_words(b, LIMB_MAX);
        if (limbs == 2 && k < 10000) {
            a[0] = edges[k % 10];
            a[1] = edges[k / 10 % 10];
            b[0] = edges[k / 100 % 10];
            b[1] = edges[k / 1000];
        }
        to_bytes(x, a, limbs);
        to_bytes(y, b, limbs);
        slow_mul(z, x, y);
        limb_mul(r, a, b, limbs);
        bad += !equal(z, r, 2 * limbs);

        /* accumulators, the top word anything that leaves room */
        const uint32_t words = 2 * limbs + 1;
        random_words(acc, words);
        random_words(other, words);
        acc[words - 1] >>= 2;
        other[words - 1] >>= 2;
        to_bytes(s, acc, words);
        slow_add(s, s, z);
        limb_mac(acc, a, b, limbs);
        bad += !equal(s, acc, words);
        to_bytes(x, other, words);
        slow_sub(z, s, x);
        limb_acc_sub(acc, other, limbs);
        bad += !equal(z, acc, words);
        limb_acc_add(acc, other, limbs);
        bad += !equal(s, acc, words);
    }
    CHECK(bad == 0);
}

void LIMB_TEST(reductions)(void);
void LIMB_TEST(reductions)(void) {
    uint32_t bad = 0;
    for (uint32_t k = 0; k < 480; k++) {
        const uint32_t limbs = sizes[k % 4], words = 2 * limbs + 1;
        struct limb_modulus modulus;
        LIMB_LOCAL(a, LIMB_MAX);
        LIMB_LOCAL(b, LIMB_MAX);
        LIMB_LOCAL(r, LIMB_MAX);
        LIMB_LOCAL(acc, LIMB_ACC(LIMB_MAX));
        LIMB_LOCAL(lazy, LIMB_LAZY(LIMB_MAX)) = {0};
        uint8_t q[BYTES], x[BYTES], y[BYTES], z[BYTES];
        modulus_for(&modulus, limbs, k / 4 % 3);
        to_bytes(q, modulus.q, limbs);
        random_residue(a, &modulus, limbs);
        random_residue(b, &modulus, limbs);
        to_bytes(x, a, limbs);
        to_bytes(y, b, limbs);

        slow_add(z, x, y);
        slow_mod(z, z, q);
        limb_add_mod(r, a, b, modulus.q, limbs);
        bad += !equal(z, r, limbs);
        slow_add(z, x, q);
        slow_sub(z, z, y);
        slow_mod(z, z, q);
        limb_sub_mod(r, a, b, modulus.q, limbs);
        bad += !equal(z, r, limbs);
        slow_mul(z, x, y);
        slow_mod(z, z, q);
        limb_mul_mod(r, a, b, &modulus, limbs);
        bad += !equal(z, r, limbs);

        /* any accumulator, taken as unsigned and as signed */
        random_words(acc, words);
        if (k % 16 < 4) {
            memset(acc, 0xff, sizeof acc);
        } else if (k % 16 < 8) {
            memset(acc, 0, (words - 1) * sizeof *acc);
        }
        to_bytes(x, acc, words);
        slow_mod(z, x, q);
        limb_reduce(r, acc, &modulus, limbs);
        bad += !equal(z, r, limbs);
        if (acc[words - 1] >> 31 != 0) { /* q - (2^(32 words) - acc mod q) */
            uint8_t power[BYTES] = {0};
            power[4 * words] = 1;
            slow_sub(x, power, x);
            slow_mod(x, x, q);
            slow_sub(x, q, x);
            slow_mod(z, x, q);
        }
        limb_reduce_signed(r, acc, &modulus, limbs);
        bad += !equal(z, r, limbs);

        /* a lazy sum */
        memset(z, 0, BYTES);
        for (uint32_t i = 0; i < 40; i++) {
            random_residue(a, &modulus, limbs);
            to_bytes(x, a, limbs);
            slow_add(z, z, x);
            limb_add_lazy(lazy, a, limbs);
        }
        bad += !equal(z, lazy, limbs + 1);
    }
    CHECK(bad == 0);
}
