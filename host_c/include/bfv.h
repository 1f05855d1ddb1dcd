/* The public C interface of pybfv: rings, backends, accumulators, public-key
 * encryption and the encoder. Nothing here takes a secret key: that is
 * bfv_secret.h.
 *
 * Conventions
 *   Residue polynomial: L planes of N uint32 words, plane i holds residues
 *     mod p_i in [0, p_i); "[L][N]" below. A ciphertext is [parts][L][N].
 *   NTT form: order of SEAL, X[i] = a(psi^(2 brv(i) + 1)), psi the smallest
 *     primitive 2N-th root of unity mod p_i.
 *   Every function returns BFV_OK or a negative status; on error its outputs
 *     are unchanged unless it says otherwise. No function exits or prints.
 *   Alias: an output that overlaps an input gives BFV_E_ARGUMENT, unless a function says
 *     so; where it may be an input, it may not lie partly in it.
 *   Handles: what was closed must not be used again. Arrays and accumulators are looked up first, so a
 *     dropped one, or another backend's, gives BFV_E_ARGUMENT.
 *   Thread use: a ring, an encoder and a lifter may be shared
 *     between threads; a backend and what it owns belong to one thread at a time.
 */
#ifndef PYBFV_BFV_H
#define PYBFV_BFV_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* cdef begin */

enum {
    BFV_OK = 0,
    BFV_E_ARGUMENT = -1,    /* null, out of range, wrong size, wrong handle */
    BFV_E_MEMORY = -2,      /* out of memory */
    BFV_E_RESIDUE = -3,     /* a residue is not below its prime */
    BFV_E_UNSUPPORTED = -4, /* this backend or CPU can't do it */
    BFV_E_RANDOM = -5,      /* the random bytes given did not suffice */
    BFV_E_NOISE = -6,       /* a decrypted coefficient lies outside its bound */
    BFV_E_BACKEND = -7,     /* a thread or device failed */
    BFV_E_LAST = -7
};

/* Limits that every caller may rely on. */
enum {
    BFV_MIN_N = 2,
    BFV_MAX_N = 16384,
    BFV_MAX_PRIMES = 40,   /* of a ring: those of q and the wide ones together */
    BFV_MAX_Q_PRIMES = 24, /* of a ciphertext modulus: encoders, secret keys, backends */
    BFV_MAX_T_PRIMES = 20,
    BFV_MAX_T_WORDS = 8, /* 64-bit words of a plaintext modulus */
    BFV_MAX_PARTS = 3,
    BFV_MAX_THREADS = 256,
    BFV_MAX_DPUS = 4096,
    BFV_MAX_TASKLETS = 24
};

/* One readable sentence for a status; never NULL. */
const char *bfv_status_text(int status);

/* CRC-32C (Castagnoli, reflected, init and final xor 0xffffffff), continued
 * from `crc` (0 to begin). data may be NULL when size is 0. */
uint32_t bfv_crc32c(uint32_t crc, const void *data, size_t size);

/* Names of the kernel bodies that this build has and this CPU can run, best
 * first, "portable" always last: bfv_body(0), bfv_body(1), ... then NULL. */
const char *bfv_body(uint32_t index);

/* ---- tables ----------------------------------------------------------- */

/* Numbers of cells: cell k is the text from byte ends[k] up to ends[k + 1]; ends[0..count] ascend and lie in
 * the text. mark: of decimals, ASCII. Out [count]: the number mantissa * 10^-decimals of a cell
 * -?[0-9]*mark?[0-9]* with 1 to 18 digits and perhaps blanks before it, of any other cell 0 and -1. The text
 * is ASCII or an encoding that contains it. Neither output may overlap an input (not checked) or the other.
 */
int bfv_decimals(const uint8_t *text, uint64_t size, const int32_t *ends, uint64_t count, uint8_t mark,
                 int64_t *mantissa, int64_t *decimals);

/* ---- ring ------------------------------------------------------------- */

typedef struct bfv_ring bfv_ring;

/* Opens R_q = Z_q[X]/(X^N + 1), q the product of `count` distinct primes,
 * each prime, = 1 mod 2N and < 2^30 (checked). body: NULL for the
 * environment's PYBFV_CPU or else the best; a name forces that body
 * (BFV_E_UNSUPPORTED if it can't run here). */
int bfv_ring_open(uint32_t n, const uint32_t *primes, uint32_t count, const char *body, bfv_ring **out);
void bfv_ring_close(bfv_ring *ring);
const char *bfv_ring_body(const bfv_ring *ring);
/* The smallest primitive 2N-th root of unity mod prime `index`; 0 on a bad index. */
uint32_t bfv_ring_root(const bfv_ring *ring, uint32_t index);

/* In place, `polys` residue polynomials. In, Out: residues < p. */
int bfv_ntt_forward(const bfv_ring *ring, uint32_t *x, uint64_t polys);
int bfv_ntt_inverse(const bfv_ring *ring, uint32_t *x, uint64_t polys);

/* BFV_OK, or BFV_E_RESIDUE when some residue of `polys` polynomials is >= its prime. */
int bfv_check_residues(const bfv_ring *ring, const uint32_t *x, uint64_t polys);

/* out = a + b, a - b, -a, a * b point by point mod p, over `polys` residue
 * polynomials; in mul_scalar s[i] < p_i multiplies plane i.
 * Alias: out may be a or b. In, Out: residues < p (checked only in debug builds). */
int bfv_poly_add(const bfv_ring *ring, const uint32_t *a, const uint32_t *b, uint64_t polys, uint32_t *out);
int bfv_poly_sub(const bfv_ring *ring, const uint32_t *a, const uint32_t *b, uint64_t polys, uint32_t *out);
int bfv_poly_neg(const bfv_ring *ring, const uint32_t *a, uint64_t polys, uint32_t *out);
int bfv_poly_mul(const bfv_ring *ring, const uint32_t *a, const uint32_t *b, uint64_t polys, uint32_t *out);
int bfv_poly_mul_scalar(const bfv_ring *ring, const uint32_t *a, const uint32_t *s, uint64_t polys,
                        uint32_t *out);

/* Reduces signed integers to residues: values[count_coeffs = N] in two's
 * complement, |v| < 2^62, to [L][N]. */
int bfv_from_int64(const bfv_ring *ring, const int64_t *values, uint32_t *out);

/* ---- randomness, expanded by the caller (FORMAT.md) --------------------- */

/* Rejection sampling of uniform residues mod prime `index` from little-endian
 * 32-bit words: keeps the low bitlen(p) bits, accepts values < p. Appends to
 * out[*filled..N) and advances *filled; leaves *filled < N when `bytes`
 * (a multiple of 4) ran out: call again with the stream's next bytes. */
int bfv_expand_uniform(const bfv_ring *ring, uint32_t index, const uint8_t *stream, size_t bytes,
                       uint32_t *out, uint32_t *filled);

/* Uniform ternary from bytes (reject 255, then mod 3 minus 1), constant time
 * but for how many bytes are rejected: takes from rnd[bytes]; BFV_E_RANDOM
 * when they did not suffice (bfv_ternary_bytes(n) suffice with probability
 * 1 - 2^-128 and more). */
size_t bfv_ternary_bytes(uint32_t n);
int bfv_sample_ternary(uint32_t n, const uint8_t *rnd, size_t bytes, int8_t *out);
/* Centred binomial, 21 + 21 bits: coefficient k from the 6 bytes at 6 k, read
 * as a little-endian 48-bit word: popcount(bits 0..20) - popcount(bits 21..41). */
size_t bfv_error_bytes(uint32_t n);
int bfv_sample_error(uint32_t n, const uint8_t *rnd, size_t bytes, int8_t *out);

/* Random bytes that one public-key encryption with `parts` parts takes:
 * parts 2: ternary u, errors e0, e1. parts 3: ternary u1, u2, errors e0, e1, e2. */
size_t bfv_encrypt_bytes(uint32_t n, uint32_t parts);

/* out = (p0 u + e0 + m, p1 u + e1), NTT form. pk: [2][L][N] NTT form. m:
 * [L][N] in coefficient form, already scaled, or NULL for zero. */
int bfv_encrypt_public(const bfv_ring *ring, const uint32_t *pk, const uint32_t *m, const uint8_t *rnd,
                       size_t bytes, uint32_t *out);

/* out = (p0 u1 + e0, p1 u1 + p0 u2 + e1, p1 u2 + e2), NTT form, [3][L][N]: a
 * fresh encryption of zero in the size of a product. */
int bfv_encrypt_zero3(const bfv_ring *ring, const uint32_t *pk, const uint8_t *rnd, size_t bytes,
                      uint32_t *out);

/* The same for all primes at once: bytes[i] (a multiple of 4) of stream i, which lies behind stream i - 1, to
 * plane i of out [L][N]; filled [L] is set: where it is less than N, bfv_expand_uniform goes on. */
int bfv_expand_planes(const bfv_ring *ring, const uint8_t *streams, const size_t *bytes, uint32_t *out,
                      uint32_t *filled);

/* ---- encoder: integers to scaled plaintexts ----------------------------- */

typedef struct bfv_encoder bfv_encoder;

/* Batched: t is the product of `count` distinct primes, each = 1 mod 2N,
 * < 2^30 and not a prime of the ring. Slot i of N sits at the NTT index that
 * SEAL's BatchEncoder gives it. */
int bfv_encoder_open_batched(const bfv_ring *ring, const uint32_t *t_primes, uint32_t count,
                             bfv_encoder **out);
/* Coefficients: any t, 2 <= t < q, gcd(t, q) = 1, as `words` little-endian 64-bit words. */
int bfv_encoder_open_coefficients(const bfv_ring *ring, const uint64_t *t, uint32_t words, bfv_encoder **out);
void bfv_encoder_close(bfv_encoder *encoder);

/* Encodes `count` <= N integers (the rest is 0), each `words` little-endian
 * 64-bit words in two's complement, to round(q m / t) mod q, [L][N] in
 * coefficient form; m = value mod t.
 * Coefficients: exact, ties towards minus infinity.
 * Batched: round(sum_i y_i q / t_i), y_i = [m (t/t_i)^-1] mod t_i, with
 * fractions of q/t_i rounded down to 64 bits: within 2^-28 of the nearest. */
int bfv_encode(const bfv_encoder *encoder, const uint64_t *values, uint32_t words, uint32_t count,
               uint32_t *out);

/* bfv_encode and bfv_encrypt_public of `count` vectors, values [count][width][words]: ciphertext k at
 * out + k stride 2 L N, with the k-th bfv_encrypt_bytes(n, 2) of rnd. The encoder is one for the ring's
 * primes. threads: at most BFV_MAX_THREADS, 0 for all cores. After BFV_E_RANDOM and BFV_E_MEMORY out is
 * undefined. */
int bfv_encrypt_many(const bfv_ring *ring, const uint32_t *pk, const bfv_encoder *encoder,
                     const uint64_t *values, uint32_t words, uint32_t width, uint64_t count,
                     const uint8_t *rnd, size_t bytes, uint32_t threads, uint32_t *out, uint64_t stride);

/* Slots of plaintext polynomials: m[N] as `words` 64-bit words each, < t, to
 * residues of the slots, out[count of t primes][N], in vector order. Batched only. */
int bfv_decode_slots(const bfv_encoder *encoder, const uint64_t *m, uint32_t words, uint32_t *out);

/* ---- the scaled product: lifts and rounding ------------------------------- */

/* From R_q to the integers and back. An integer polynomial of small enough coefficients is kept as its
 * residues mod the primes of q and mod K further, "wide" primes; the integer that residues stand for is
 * the centred one, in (-M/2, M/2), M the product of the primes (odd). All results are exact. A lifter may
 * be shared between threads. Wide primes: distinct, none of the ring's, each prime, = 1 mod 2N and
 * < 2^30; L + K <= BFV_MAX_PRIMES. */
typedef struct bfv_lifter bfv_lifter;
/* The ring must stay open. */
int bfv_lifter_open(const bfv_ring *ring, const uint32_t *wide, uint32_t count, bfv_lifter **out);
void bfv_lifter_close(bfv_lifter *lifter);

/* x [polys][L][N] in NTT form to out [polys][K][N] in NTT form: the centred integers mod the wide primes. */
int bfv_lift(const bfv_lifter *lifter, const uint32_t *x, uint64_t polys, uint32_t *out);
/* round(t x / q) mod q, coefficient by coefficient: x [polys][L + K][N] to out [polys][L][N], both in NTT
 * form. t: `words` little-endian 64-bit words, at most BFV_MAX_T_WORDS; 1 <= t <= product of the wide primes.
 */
int bfv_scale_round(const bfv_lifter *lifter, const uint64_t *t, uint32_t words, const uint32_t *x,
                    uint64_t polys, uint32_t *out);

/* round(t T / q) mod q, T the sum over `pairs` of the tensors of the centred integers of a[k] and b[k],
 * ciphertexts [2][L][N] (which may be one: a square); out [3][L][N]. All in NTT form, residues < p (checked
 * only in debug builds). The wide primes hold the sum: pairs 2 N (q/2)^2 below half the product of all
 * primes. t as above. */
int bfv_scaled_dot(const bfv_lifter *lifter, const uint64_t *t, uint32_t words, const uint32_t *const *a,
                   const uint32_t *const *b, uint64_t pairs, uint32_t *out);

/* The same for a q of 64-bit words, whose polynomials are in coefficient form: `count` pairwise coprime
 * odd moduli, each from 3 to 2^61 and coprime to every wide prime, at most BFV_MAX_64_PRIMES. The integers
 * are kept mod the wide primes alone, uint32 [K][N] in NTT form. */
enum { BFV_MAX_64_PRIMES = 16 };
typedef struct bfv_lifter64 bfv_lifter64;
int bfv_lifter64_open(uint32_t n, const uint64_t *primes, uint32_t count, const uint32_t *wide,
                      uint32_t wide_count, bfv_lifter64 **out);
void bfv_lifter64_close(bfv_lifter64 *lifter);
/* x [polys][L][N] to the centred integers mod the wide primes, [polys][K][N]. BFV_E_RESIDUE: a word is
 * not below its modulus. */
int bfv_lift64(const bfv_lifter64 *lifter, const uint64_t *x, uint64_t polys, uint32_t *out);
/* The centred integers x [polys][K][N] mod q, [polys][L][N]. */
int bfv_reduce64(const bfv_lifter64 *lifter, const uint32_t *x, uint64_t polys, uint64_t *out);
/* round(t x / q) mod q: x [polys][K][N] to out [polys][L][N]; t as in bfv_scale_round. */
int bfv_scale_round64(const bfv_lifter64 *lifter, const uint64_t *t, uint32_t words, const uint32_t *x,
                      uint64_t polys, uint64_t *out);

/* Key switching, whole residues as digits: out [2][L][N] += sum over i of D_i keys[i], keys [L][2][L][N], D_i
 * the integer polynomial of the centred residues of x (q/p_i)^-1 mod p_i; x [L][N]. All in NTT form. In, Out:
 * residues < p (checked only in debug builds). */
int bfv_switch_keys(const bfv_ring *ring, const uint32_t *x, const uint32_t *keys, uint32_t *out);

/* The coefficients of x / q, centred: x [polys][L][N] in NTT form, residues < p, to out [polys][N]; within
 * 2^-42. */
int bfv_fractions(const bfv_ring *ring, const uint32_t *x, uint64_t polys, double *out);

/* ---- backends ----------------------------------------------------------- */

typedef struct bfv_backend bfv_backend;
typedef struct bfv_array bfv_array;
typedef struct bfv_acc bfv_acc;
typedef uint64_t bfv_ticket;

enum { BFV_FORM_NTT = 0, BFV_FORM_COEFFICIENT = 1, BFV_FORM_LIMB = 2 };
enum { BFV_POINTWISE = 0, BFV_CONVOLVE = 1 };
enum { BFV_KERNELS_NTT = 0, BFV_KERNELS_LIMB = 1 };
enum { BFV_ACC_SUM = 0, BFV_ACC_PRODUCT = 1, BFV_ACC_SCALED = 2 };
/* How the backend "sim" runs its programs. DEFAULT: as the environment's PYBFV_SIM says, "strict" or
 * "faithful", strict without it. */
enum { BFV_SIM_DEFAULT = 0, BFV_SIM_STRICT = 1, BFV_SIM_FAITHFUL = 2 };
/* How far "sim" and "upmem" trust their DPUs. NONE: errors are reported, results taken as they come. LINEAR:
 * every accumulator and result is compared with what the host works out of the same ciphertexts at random
 * points; FULL: with all of it, computed again by the host. In both, work that a DPU got wrong or did not do
 * is done again, once, without it. DEFAULT: LINEAR. */
enum { BFV_CHECK_DEFAULT = 0, BFV_CHECK_NONE = 1, BFV_CHECK_LINEAR = 2, BFV_CHECK_FULL = 3 };
/* The source stays valid and unchanged until drop: the backend may use it in place. */
enum { BFV_PUT_BORROW = 1 };

typedef struct {
    uint32_t n;             /* ring dimension */
    uint32_t count;         /* primes */
    const uint32_t *primes; /* [count] */
    uint32_t kernels;       /* BFV_KERNELS_* */
    uint32_t threads;       /* CPU threads, 1..BFV_MAX_THREADS; 0: all cores */
    const char *body;       /* as bfv_ring_open */
    /* "sim" and "upmem" only: */
    uint32_t dpus;       /* 1..BFV_MAX_DPUS; 0: 64 for sim, all there are for upmem */
    uint32_t tasklets;   /* 1..BFV_MAX_TASKLETS; 0: 16 */
    const char *profile; /* further "key=value,..." for the SDK's dpu_alloc, or NULL */
    uint32_t strict;     /* BFV_SIM_* */
    uint32_t check;      /* BFV_CHECK_* */
    /* Wide primes as in bfv_lifter_open: what scaled accumulators need; NULL and 0 without them. */
    const uint32_t *wide; /* [wide_count] */
    uint32_t wide_count;
    /* Where bfv_open puts a sentence on what went wrong, "" when there is none; or NULL. */
    uint32_t detail_size;
    char *detail;
} bfv_options;

typedef struct {
    uint32_t n;
    uint32_t primes;
    uint32_t word;     /* bits of a word: 32 */
    uint32_t parts;    /* 2 or 3 */
    uint32_t form;     /* BFV_FORM_* */
    uint32_t purpose;  /* BFV_POINTWISE or BFV_CONVOLVE: the backend chooses its slices by it */
    uint32_t flags;    /* 0 or BFV_PUT_BORROW */
    uint32_t reserved; /* 0 */
} bfv_desc;

typedef struct {
    char name[16];     /* "cpu", "sim", "upmem" */
    char body[16];     /* kernel body; "dpu" */
    uint32_t kernels;  /* BFV_KERNELS_* */
    uint32_t threads;  /* 0: does not apply */
    uint32_t dpus;     /* 0: does not apply */
    uint32_t tasklets; /* 0: does not apply */
    uint64_t seed;     /* of the schedules of "sim" in strict mode; 0 elsewhere */
} bfv_info;

typedef struct {
    uint64_t sums;      /* ciphertexts accumulated */
    uint64_t products;  /* products accumulated */
    uint64_t bytes_in;  /* put */
    uint64_t bytes_out; /* got and saved */
    /* Nanoseconds of wall time; 0 for "cpu". */
    uint64_t host_to_dpu; /* gathering and copying to the DPUs */
    uint64_t kernel;      /* programs running, until the host saw them end */
    uint64_t dpu_to_host; /* copying back and scattering */
    uint64_t convert;     /* conversions to and from limbs, on the host */
    uint64_t check;       /* checks of the DPUs' results, on the host, while they compute */
    uint64_t redone;      /* how often work was done again; bfv_backend_error then says why */
    uint64_t left_out;    /* DPUs that were left out for it */
} bfv_stats;

/* What was done on DPUs, as "sim" records it for a time model. Equal events are counted in one. */
enum { BFV_EVENT_LAUNCH = 0, BFV_EVENT_TO_DPUS = 1, BFV_EVENT_FROM_DPUS = 2 };
enum { BFV_WAY_SERIAL = 0, BFV_WAY_PARALLEL = 1, BFV_WAY_BROADCAST = 2, BFV_WAY_GATHER = 3 };
enum { BFV_EVENT_SIZES = 9 };
typedef struct {
    uint32_t kind;  /* BFV_EVENT_* */
    uint32_t dpus;  /* that took part; in a launch those with work to do */
    uint64_t times; /* that it happened */
    /* Transfers; 0 in launches. */
    uint64_t bytes; /* of each DPU */
    uint32_t way;   /* BFV_WAY_* */
    uint32_t wram;  /* 1: to or from WRAM, 0: MRAM */
    /* Launches: what the DPU with the most work was asked for (dpu/core/abi.h); 0 in transfers. */
    uint32_t command, log_n, primes, parts, tasklets, block, count, positions;
    /* Its DMA transfers: of all tasklets, and of the one that moved the most bytes. */
    uint64_t reads, read_bytes, writes, write_bytes;
    uint64_t busiest_reads, busiest_writes, busiest_bytes;
    uint64_t sizes[BFV_EVENT_SIZES]; /* [i]: transfers of more than 2^(i+2) bytes, at most 2^(i+3) */
} bfv_event;

/* name: "cpu", or a plug-in beside this library, libpybfv_NAME.so: "sim", "upmem".
 * BFV_E_UNSUPPORTED: an unknown or absent backend, kernels it hasn't, no such hardware.
 * BFV_E_ARGUMENT: numbers out of range, more DPUs than there are. */
int bfv_open(const char *name, const bfv_options *options, bfv_backend **out);
void bfv_close(bfv_backend *backend); /* drops everything it still owns */
int bfv_get_info(const bfv_backend *backend, bfv_info *out);
int bfv_get_stats(const bfv_backend *backend, bfv_stats *out);
/* Events since the backend was opened, in the order of their first: at most `room` of them to out, all that
 * there are in *count. None where nothing is recorded: "cpu", "upmem". A launch counts once it is known to
 * have ended. */
int bfv_get_events(const bfv_backend *backend, bfv_event *out, uint32_t room, uint32_t *count);
/* What the device said of the last BFV_E_BACKEND or BFV_E_MEMORY, or of an error that was mended (bfv_stats),
 * one sentence; "" when nothing. */
const char *bfv_backend_error(const bfv_backend *backend);
const bfv_ring *bfv_backend_ring(const bfv_backend *backend);

/* Arrays of ciphertexts, [count][parts][L][N]. put checks every residue
 * (BFV_E_RESIDUE). `ticket` (may be NULL): src is borrowed until
 * bfv_wait(ticket) or bfv_sync has returned. */
int bfv_put(bfv_backend *backend, const bfv_desc *desc, const uint32_t *src, uint64_t count, bfv_array **out,
            bfv_ticket *ticket);
int bfv_get(bfv_backend *backend, const bfv_array *array, uint64_t first, uint64_t count, uint32_t *dst);
int bfv_drop(bfv_backend *backend, bfv_array *array);
int bfv_wait(bfv_backend *backend, bfv_ticket ticket);
/* Waits for everything; reports the first error since the last sync. On devices acc_add, acc_mul and
 * acc_merge return while the last of their work is under way; dropping an array or an accumulator doesn't
 * wait for it. Where it fails, the next call that needs the devices says so, and so does sync. */
int bfv_sync(bfv_backend *backend);

/* Element by element over whole arrays of equal count, parts and form, into a new array. */
int bfv_add(bfv_backend *backend, const bfv_array *a, const bfv_array *b, bfv_array **out);
int bfv_sub(bfv_backend *backend, const bfv_array *a, const bfv_array *b, bfv_array **out);
int bfv_neg(bfv_backend *backend, const bfv_array *a, bfv_array **out);
/* m: one scaled plaintext [L][N] (add_plain) or one reduced, unscaled plaintext
 * [L][N] (mul_plain), NTT form, applied to every ciphertext. */
int bfv_add_plain(bfv_backend *backend, const bfv_array *a, const uint32_t *m, bfv_array **out);
int bfv_mul_plain(bfv_backend *backend, const bfv_array *a, const uint32_t *m, bfv_array **out);
/* The tensor (a0 b0, a0 b1 + a1 b0, a1 b1) mod q without any factor; parts 2 and 2 to 3. */
int bfv_mul(bfv_backend *backend, const bfv_array *a, const bfv_array *b, bfv_array **out);
/* A new array in `form`, BFV_FORM_NTT or BFV_FORM_COEFFICIENT; a is in the other one. */
int bfv_convert(bfv_backend *backend, const bfv_array *a, uint32_t form, bfv_array **out);

/* Accumulators: exact sums. BFV_ACC_SUM keeps `parts` 2 or 3 parts mod q; BFV_ACC_PRODUCT has 3, the
 * tensor mod q. BFV_ACC_SCALED has 3: the tensor of the centred integers, over the integers, mod the
 * primes of q and the wide ones, [3][L + K][N]; its first L planes are BFV_ACC_PRODUCT's. It needs the
 * backend's wide primes (else BFV_E_UNSUPPORTED), enough of them for the sum of all products: |sum| <=
 * count 2 N (q/2)^2, and bfv_scale_round finishes it. Their saved state is reduced and canonical, so it does
 * not depend on order, splits, bodies or threads. An error of a device, or of memory, in the middle of
 * acc_add, acc_mul or acc_merge, or after it (bfv_sync), may leave `acc` undefined: from then on every call
 * on it, and a merge from it, gives BFV_E_BACKEND, until bfv_acc_load replaces its value or it is dropped. */
int bfv_acc_new(bfv_backend *backend, uint32_t kind, uint32_t parts, bfv_acc **out);
int bfv_acc_drop(bfv_backend *backend, bfv_acc *acc);
/* acc += sum over k < count of a[first + k stride]. */
int bfv_acc_add(bfv_backend *backend, bfv_acc *acc, const bfv_array *a, uint64_t first, uint64_t stride,
                uint64_t count);
/* acc += sum over k < count of a[first_a + k stride] (x) b[first_b + k stride], the tensor
 * mod q; a and b may be the same array, and the same element (a square). */
int bfv_acc_mul(bfv_backend *backend, bfv_acc *acc, const bfv_array *a, uint64_t first_a, const bfv_array *b,
                uint64_t first_b, uint64_t stride, uint64_t count);
int bfv_acc_merge(bfv_backend *backend, bfv_acc *acc, const bfv_acc *other);
/* dst [parts][L][N], of a scaled one [3][L + K][N]; undefined after BFV_E_BACKEND, when a device returned a
 * word that is no residue. */
int bfv_acc_save(bfv_backend *backend, bfv_acc *acc, uint32_t *dst);
int bfv_acc_load(bfv_backend *backend, bfv_acc *acc, const uint32_t *src); /* replaces; checks residues */
/* The accumulator times factor[i] mod p_i (1 for sums, t mod p_i for scale-free
 * products) as an array of one ciphertext. BFV_E_UNSUPPORTED for scaled ones. */
int bfv_acc_finish(bfv_backend *backend, bfv_acc *acc, const uint32_t *factor, bfv_array **out);

/* cdef end */

#ifdef __cplusplus
}
#endif
#endif
