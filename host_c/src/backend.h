/* A backend as bfv.c sees it: a table of functions. bfv.c checks every argument
 * before it calls one, keeps the lists of what a backend owns and the
 * statistics; a backend computes. */
#ifndef PYBFV_BACKEND_H
#define PYBFV_BACKEND_H

#include "ring.h"
#include "rns.h"

#define BACKEND_MAGIC UINT32_C(0x42454e44)

/* What arrays and accumulators share: a place in their backend's list, so that a
 * pointer is known to be one of ours before it is followed. */
struct backend_item {
    struct backend_item *next;
};

struct bfv_array {
    struct backend_item item; /* first: a pointer to it is a pointer to the array */
    uint64_t count;           /* ciphertexts, >= 1 */
    uint32_t parts;           /* 2 or 3 */
    uint32_t form;            /* BFV_FORM_NTT or BFV_FORM_COEFFICIENT */
    uint32_t purpose;
    void *data; /* the backend's */
};

struct bfv_acc {
    struct backend_item item;
    uint32_t kind;  /* BFV_ACC_* */
    uint32_t parts; /* 2 or 3; 3 for products */
    void *data;     /* the backend's */
};

struct bfv_backend {
    uint32_t magic; /* BACKEND_MAGIC while open */
    const struct backend_ops *ops;
    bfv_ring *ring;
    bfv_lifter *lifter; /* for scaled accumulators, NULL without wide primes */
    uint32_t kernels;
    uint32_t threads;
    struct backend_item *arrays, *accs;
    bfv_stats stats;
    bfv_ticket last_ticket; /* tickets are 1, 2, ... */
    int first_error;        /* since the last sync */
    void *data;             /* the backend's */
    void *library;          /* the plug-in's handle, NULL for "cpu" */
    char detail[512];       /* what the device said of the last failure */
};

/* What a plug-in must have been compiled with: the same headers, as far as sizes tell. */
#define BACKEND_VERSION                                                                                      \
    ((uint32_t)(sizeof(struct bfv_backend) << 20 ^ sizeof(struct bfv_ring) << 8 ^                            \
                sizeof(struct bfv_lifter) << 4 ^ sizeof(struct bfv_array) ^ sizeof(bfv_options) ^            \
                sizeof(bfv_event) << 10))

enum backend_binary { BACKEND_ADD, BACKEND_SUB, BACKEND_MUL };
enum backend_unary { BACKEND_NEG, BACKEND_ADD_PLAIN, BACKEND_MUL_PLAIN };

/* Every function: arguments are valid; on error its outputs are unchanged. */
struct backend_ops {
    const char *name;
    uint32_t version; /* BACKEND_VERSION */
    bool scaled;      /* whether it has BFV_ACC_SCALED */

    /* backend->ring, kernels and threads are set; sets backend->data. On error it may leave a
     * sentence in backend->detail. */
    int (*open)(struct bfv_backend *backend, const bfv_options *options);
    void (*close)(struct bfv_backend *backend); /* all arrays and accumulators are gone */
    void (*info)(const struct bfv_backend *backend, bfv_info *out);

    /* array: all fields but data are set. put checks residues. */
    int (*put)(struct bfv_backend *backend, struct bfv_array *array, const uint32_t *src, uint32_t flags);
    int (*get)(struct bfv_backend *backend, const struct bfv_array *array, uint64_t first, uint64_t count,
               uint32_t *dst);
    void (*drop)(struct bfv_backend *backend, struct bfv_array *array);
    int (*wait)(struct bfv_backend *backend, bfv_ticket ticket);
    int (*sync)(struct bfv_backend *backend);

    /* out: all fields but data are set. m (add_plain, mul_plain): [L][N], checked. */
    int (*binary)(struct bfv_backend *backend, enum backend_binary op, const struct bfv_array *a,
                  const struct bfv_array *b, struct bfv_array *out);
    int (*unary)(struct bfv_backend *backend, enum backend_unary op, const struct bfv_array *a,
                 const uint32_t *m, struct bfv_array *out);
    /* Between BFV_FORM_NTT and BFV_FORM_COEFFICIENT: from a's form to the other, out's. */
    int (*convert)(struct bfv_backend *backend, const struct bfv_array *a, struct bfv_array *out);

    /* acc: all fields but data are set; starts at zero. */
    int (*acc_new)(struct bfv_backend *backend, struct bfv_acc *acc);
    void (*acc_drop)(struct bfv_backend *backend, struct bfv_acc *acc);
    int (*acc_add)(struct bfv_backend *backend, struct bfv_acc *acc, const struct bfv_array *a,
                   uint64_t first, uint64_t stride, uint64_t count);
    int (*acc_mul)(struct bfv_backend *backend, struct bfv_acc *acc, const struct bfv_array *a,
                   uint64_t first_a, const struct bfv_array *b, uint64_t first_b, uint64_t stride,
                   uint64_t count);
    int (*acc_merge)(struct bfv_backend *backend, struct bfv_acc *acc, const struct bfv_acc *other);
    int (*acc_save)(struct bfv_backend *backend, const struct bfv_acc *acc, uint32_t *dst);
    int (*acc_load)(struct bfv_backend *backend, struct bfv_acc *acc, const uint32_t *src);
    int (*acc_finish)(struct bfv_backend *backend, const struct bfv_acc *acc, const uint32_t *factor,
                      struct bfv_array *out);
    /* NULL: nothing is recorded. */
    int (*events)(const struct bfv_backend *backend, bfv_event *out, uint32_t room, uint32_t *count);
};

extern const struct backend_ops backend_cpu;

/* The ring of an accumulator's state: over the wide primes too when it is a scaled one. */
static inline const bfv_ring *backend_acc_ring(const struct bfv_backend *backend, const struct bfv_acc *acc) {
    return acc->kind == BFV_ACC_SCALED ? backend->lifter->full : backend->ring;
}

/* Words of an accumulator's state. */
static inline size_t backend_acc_words(const struct bfv_backend *backend, const struct bfv_acc *acc) {
    return acc->parts * ring_poly_words(backend_acc_ring(backend, acc));
}

/* Words of one ciphertext. */
static inline size_t backend_words(const struct bfv_backend *backend, uint32_t parts) {
    return parts * ring_poly_words(backend->ring);
}

#endif
