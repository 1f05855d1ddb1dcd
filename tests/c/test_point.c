/* Ciphertexts at points: every body against loops with division, at the limits that its callers keep. */
#include "test.h"

enum { TERMS = 300, WIDTH = 32 };

static uint64_t value(const uint32_t *x, size_t poly, uint32_t parts, uint64_t s, uint64_t p) {
    uint64_t result = 0;
    for (uint32_t part = parts; part-- > 0;) {
        result = (result * s + x[part * poly]) % p;
    }
    return result;
}

/* Residues at x [terms][3][WIDTH] at points up to `most`, all the largest there are or mixed. */
static void check_points(const bfv_ring *ring, const uint32_t *x, const uint32_t *y, uint32_t most,
                         uint64_t count, bool largest) {
    const struct bfv_prime *prime = &ring->prime[0];
    const uint64_t p = prime->p, greatest = (most + UINT64_C(1)) * (p - 1),
                   limit = UINT64_MAX / (greatest * greatest);
    uint32_t s[WIDTH], sum2[WIDTH], sum3[WIDTH], mul[WIDTH], square[WIDTH];
    for (uint32_t c = 0; c < WIDTH; c++) {
        s[c] = largest ? most : 2 + (uint32_t)(random64() % (most - 1));
        sum2[c] = sum3[c] = mul[c] = square[c] = (uint32_t)(random64() % p);
    }
    uint64_t wanted[4][WIDTH];
    for (uint32_t c = 0; c < WIDTH; c++) {
        wanted[0][c] = wanted[1][c] = wanted[2][c] = wanted[3][c] = 0;
        wanted[0][c] = sum2[c];
        wanted[1][c] = sum3[c];
        wanted[2][c] = mul[c];
        wanted[3][c] = square[c];
        for (uint64_t k = 0; k < count; k++) {
            const uint32_t *a = x + k * 3 * WIDTH + c, *b = y + k * 3 * WIDTH + c;
            const uint64_t u = value(a, WIDTH, 2, s[c], p), v = value(b, WIDTH, 2, s[c], p);
            wanted[0][c] = (wanted[0][c] + u) % p;
            wanted[1][c] = (wanted[1][c] + value(a, WIDTH, 3, s[c], p)) % p;
            wanted[2][c] = (wanted[2][c] + u * v) % p;
            wanted[3][c] = (wanted[3][c] + u * u) % p;
        }
    }
    const uint32_t *const two[3] = {x, x + WIDTH, NULL}, *const three[3] = {x, x + WIDTH, x + 2 * WIDTH};
    const uint32_t *const a[2] = {x, x + WIDTH}, *const b[2] = {y, y + WIDTH};
    ring->body->point_sum(sum2, two, s, 3 * WIDTH, count, WIDTH, prime);
    ring->body->point_sum(sum3, three, s, 3 * WIDTH, count, WIDTH, prime);
    ring->body->point_mul(mul, a, b, s, limit, 3 * WIDTH, count, WIDTH, prime);
    ring->body->point_mul(square, a, a, s, limit, 3 * WIDTH, count, WIDTH, prime);
    bool same = true;
    for (uint32_t c = 0; c < WIDTH; c++) {
        same = same && sum2[c] == wanted[0][c] && sum3[c] == wanted[1][c] && mul[c] == wanted[2][c] &&
               square[c] == wanted[3][c];
    }
    CHECK(same);
}

void test_points(void) {
    static const uint32_t primes[] = {97, 67043329, 268369921, 1073692673};
    static const uint32_t points[][2] = {{3, 95}, {3, 14}, {3, 7}, {2, 3}};
    static const uint64_t counts[] = {1, 2, 3, 4, 5, 15, 16, 17, 64, TERMS};
    uint32_t *x = test_words(TERMS * 3 * WIDTH), *y = test_words(TERMS * 3 * WIDTH);
    for (uint32_t body = 0; bfv_body(body) != NULL; body++) {
        for (uint32_t i = 0; i < 4; i++) {
            bfv_ring *ring = test_ring(16, primes + i, 1, bfv_body(body));
            for (uint32_t k = 0; k < 2 * sizeof counts / sizeof *counts; k++) {
                const bool largest = k % 2 != 0;
                for (size_t w = 0; w < TERMS * 3 * WIDTH; w++) {
                    const uint32_t r = (uint32_t)(random_runs() % primes[i]);
                    x[w] = largest ? primes[i] - 1 : r;
                    y[w] = largest ? primes[i] - 1 : (uint32_t)(random_runs() % primes[i]);
                }
                check_points(ring, x, y, points[i][k / 2 % 2], counts[k / 2], largest);
            }
            bfv_ring_close(ring);
        }
    }
    free(x);
    free(y);
}
