/* Constant time, as valgrind sees it: keys, random bytes, errors and messages are marked undefined, and every
 * branch and memory index that depends on undefined memory is an error. What is public by design is marked
 * defined again: public keys and ciphertexts here, the facts that host_c/src/declassify.h lets pass in the
 * library.
 *
 *   ct BODY           all calls that meet a secret, with one body of the kernels
 *   ct leak-branch    a branch on a secret, and
 *   ct leak-index     an index by one: valgrind must report both, or the test could not fail
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <valgrind/memcheck.h>

#include "../../host_c/include/bfv_secret.h"

enum { N = 256, L = 3, POLY = L * N, T_PRIMES = 2, WORDS = 2 };

static const uint32_t primes[L] = {67043329, 134348801, 132120577};
static const uint32_t t_primes[T_PRIMES] = {7681, 12289};

#define REQUIRE(call)                                                                                        \
    do {                                                                                                     \
        if (!(call)) {                                                                                       \
            fprintf(stderr, "%s:%d: failed: %s\n", __FILE__, __LINE__, #call);                               \
            exit(2);                                                                                         \
        }                                                                                                    \
    } while (0)

static void hide(void *data, size_t size) {
    (void)VALGRIND_MAKE_MEM_UNDEFINED(data, size);
}

static void show(void *data, size_t size) {
    (void)VALGRIND_MAKE_MEM_DEFINED(data, size);
}

/* Bytes that the run knows and valgrind takes for secret; every value occurs, 255 too. */
static uint8_t *secret_bytes(size_t size) {
    static uint64_t state = 1;
    uint8_t *data = malloc(size);
    REQUIRE(data != NULL);
    for (size_t k = 0; k < size; k++) {
        state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        data[k] = (uint8_t)(state >> 56);
    }
    hide(data, size);
    return data;
}

static void give_back(void *data, size_t size) {
    show(data, size);
    free(data);
}

static bfv_ring *ring;
static uint32_t uniform[POLY], public_key[2][POLY];
static int8_t key[N], error[N];
static bfv_secret *secret;

static void key_generation(void) {
    uint8_t *rnd = secret_bytes(bfv_ternary_bytes(N));
    REQUIRE(bfv_sample_ternary(N, rnd, bfv_ternary_bytes(N), key) == BFV_OK);
    give_back(rnd, bfv_ternary_bytes(N));
    rnd = secret_bytes(bfv_error_bytes(N));
    REQUIRE(bfv_sample_error(N, rnd, bfv_error_bytes(N), error) == BFV_OK);
    give_back(rnd, bfv_error_bytes(N));
    REQUIRE(bfv_secret_open(ring, key, &secret) == BFV_OK);
    for (uint32_t i = 0; i < POLY; i++) {
        uniform[i] = (uint32_t)(i * UINT64_C(2654435761) % primes[i / N]);
    }
    REQUIRE(bfv_secret_public(secret, uniform, error, public_key[0]) == BFV_OK);
    show(public_key[0], sizeof public_key[0]); /* published */
    memcpy(public_key[1], uniform, sizeof uniform);
}

/* What an encryption sends: the phase of it, rounded, is the message that was encoded. */
static void decryption(uint32_t *ct, uint32_t parts, const bfv_encoder *encoder, const uint64_t *t,
                       const uint64_t *message, bool slots) {
    uint32_t phase[POLY], found[T_PRIMES][N];
    uint64_t m[N], plain[N];
    show(ct, parts * POLY * sizeof *ct); /* sent */
    REQUIRE(bfv_secret_phase(secret, ct, parts, phase) == BFV_OK);
    REQUIRE(bfv_secret_round(ring, phase, t, 1, 0, N, UINT64_C(1) << 60, m) == BFV_OK);
    memcpy(plain, m, sizeof m);
    show(plain, sizeof plain);
    for (uint32_t k = 0; k < N; k++) {
        uint64_t sent = message == NULL ? 0 : message[k];
        show(&sent, sizeof sent);
        REQUIRE(slots || plain[k] == (sent >> 63 != 0 ? (*t - (0 - sent) % *t) % *t : sent % *t));
    }
    for (uint32_t way = 0; slots && way < 2; way++) {
        REQUIRE((way == 0 ? bfv_decode_slots(encoder, m, 1, found[0])
                          : bfv_secret_slots(ring, encoder, phase, UINT64_C(1) << 60, found[0])) == BFV_OK);
        show(found, sizeof found);
        for (uint32_t i = 0; i < T_PRIMES; i++) {
            for (uint32_t k = 0; k < N; k++) {
                uint64_t sent = message[k];
                show(&sent, sizeof sent);
                const uint64_t p = t_primes[i], low = sent >> 63 != 0 ? (p - (0 - sent) % p) % p : sent % p;
                REQUIRE(found[i][k] == low);
            }
        }
    }
}

/* Messages in slots and in coefficients, under the public key and under the secret one. */
static void encryption(bool slots) {
    const uint64_t t = (uint64_t)t_primes[0] * t_primes[1];
    bfv_encoder *encoder = NULL;
    REQUIRE((slots ? bfv_encoder_open_batched(ring, t_primes, T_PRIMES, &encoder)
                   : bfv_encoder_open_coefficients(ring, &t, 1, &encoder)) == BFV_OK);
    uint64_t *message = (uint64_t *)(void *)secret_bytes(N * sizeof *message);
    uint32_t scaled[POLY], ct[3 * POLY];
    REQUIRE(bfv_encode(encoder, message, 1, N, scaled) == BFV_OK);
    uint8_t *rnd = secret_bytes(bfv_encrypt_bytes(N, 3));
    REQUIRE(bfv_encrypt_public(ring, public_key[0], scaled, rnd, bfv_encrypt_bytes(N, 2), ct) == BFV_OK);
    decryption(ct, 2, encoder, &t, message, slots);
    REQUIRE(bfv_secret_encrypt(secret, uniform, scaled, rnd, bfv_error_bytes(N), ct) == BFV_OK);
    memcpy(ct + POLY, uniform, sizeof uniform);
    decryption(ct, 2, encoder, &t, message, slots);
    /* the same in batches, on one thread and on two */
    uint32_t *many = malloc(2 * sizeof ct);
    REQUIRE(many != NULL);
    for (uint32_t threads = 1; threads <= 2; threads++) {
        REQUIRE(bfv_encrypt_many(ring, public_key[0], encoder, message, 1, N, 1, rnd, bfv_encrypt_bytes(N, 2),
                                 threads, many, 1) == BFV_OK);
        decryption(many, 2, encoder, &t, message, slots);
        REQUIRE(bfv_secret_encrypt_many(secret, uniform, encoder, message, 1, N, 1, rnd, bfv_error_bytes(N),
                                        threads, many, 1) == BFV_OK);
        memcpy(many + POLY, uniform, sizeof uniform);
        decryption(many, 2, encoder, &t, message, slots);
    }
    free(many);
    if (!slots) {
        REQUIRE(bfv_encrypt_zero3(ring, public_key[0], rnd, bfv_encrypt_bytes(N, 3), ct) == BFV_OK);
        decryption(ct, 3, encoder, &t, NULL, false);
    }
    give_back(rnd, bfv_encrypt_bytes(N, 3));
    give_back(message, N * sizeof *message);
    bfv_encoder_close(encoder);
}

/* Wide values, and the functions on polynomials that carry messages. */
static void values(void) {
    const uint64_t t[WORDS] = {12345, 7};
    bfv_encoder *encoder = NULL;
    REQUIRE(bfv_encoder_open_coefficients(ring, t, WORDS, &encoder) == BFV_OK);
    uint64_t *wide = (uint64_t *)(void *)secret_bytes((size_t)N * WORDS * sizeof *wide);
    uint32_t x[POLY], y[POLY], s[L];
    REQUIRE(bfv_encode(encoder, wide, WORDS, N, x) == BFV_OK);
    int64_t *small = (int64_t *)(void *)wide;
    for (uint32_t k = 0; k < N; k++) {
        small[k] >>= 2;
    }
    REQUIRE(bfv_from_int64(ring, small, y) == BFV_OK);
    REQUIRE(bfv_ntt_forward(ring, y, 1) == BFV_OK && bfv_ntt_inverse(ring, x, 1) == BFV_OK);
    REQUIRE(bfv_poly_add(ring, x, y, 1, x) == BFV_OK && bfv_poly_sub(ring, x, y, 1, y) == BFV_OK);
    REQUIRE(bfv_poly_mul(ring, x, y, 1, x) == BFV_OK && bfv_poly_neg(ring, x, 1, y) == BFV_OK);
    for (uint32_t i = 0; i < L; i++) {
        s[i] = 5 + i;
    }
    REQUIRE(bfv_poly_mul_scalar(ring, x, s, 1, y) == BFV_OK && bfv_check_residues(ring, y, 1) == BFV_OK);
    bfv_wipe(x, sizeof x);
    give_back(wide, (size_t)N * WORDS * sizeof *wide);
    bfv_encoder_close(encoder);
}

static int leak(bool by_index) {
    static const uint8_t table[256] = {1, 2, 3};
    uint8_t *byte = secret_bytes(1);
    volatile uint8_t seen = 0;
    if (by_index) {
        seen = table[*byte];
    } else if ((*byte & 1) != 0) {
        seen = 1;
    }
    give_back(byte, 1);
    (void)seen;
    return 0;
}

int main(int argc, char **argv) {
    const char *what = argc == 2 ? argv[1] : "";
    if (RUNNING_ON_VALGRIND == 0) {
        fputs("run this under valgrind: make check-ct\n", stderr);
        return 2;
    }
    if (strncmp(what, "leak-", 5) == 0) {
        return leak(strcmp(what, "leak-index") == 0);
    }
    const int status = bfv_ring_open(N, primes, L, what, &ring);
    if (status == BFV_E_UNSUPPORTED) {
        printf("%s: not on this CPU, or not under valgrind\n", what);
        return strcmp(what, "portable") == 0 ? 2 : 0;
    }
    REQUIRE(status == BFV_OK);
    key_generation();
    encryption(false);
    encryption(true);
    values();
    bfv_secret_close(secret);
    bfv_ring_close(ring);
    printf("%s: no branch or index depends on a secret\n", what);
    return 0;
}
