/* The backends' public functions: every argument is checked here, then the
 * backend's table is called. Handles are looked up in their backend's lists
 * before they are followed, so foreign and dropped ones are refused. */
#define _GNU_SOURCE /* dladdr */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend.h"

static bool is_open(const bfv_backend *backend) {
    return backend != NULL && backend->magic == BACKEND_MAGIC;
}

static bool is_listed(const struct backend_item *list, const struct backend_item *item) {
    while (list != NULL && list != item) {
        list = list->next;
    }
    return list != NULL;
}

static bool owns_array(const bfv_backend *backend, const bfv_array *array) {
    return is_open(backend) && array != NULL &&
           is_listed(backend->arrays, (const struct backend_item *)array);
}

static bool owns_acc(const bfv_backend *backend, const bfv_acc *acc) {
    return is_open(backend) && acc != NULL && is_listed(backend->accs, (const struct backend_item *)acc);
}

static void list_add(struct backend_item **list, struct backend_item *item) {
    item->next = *list;
    *list = item;
}

static void list_remove(struct backend_item **list, const struct backend_item *item) {
    while (*list != item) {
        list = &(*list)->next;
    }
    *list = item->next;
}

static bool is_words(const uint32_t *words) {
    return is_aligned(words, _Alignof(uint32_t));
}

/* Whether `count` ciphertexts (at least one) can exist in memory. */
static bool size_is_possible(const bfv_backend *backend, uint32_t parts, uint64_t count) {
    size_t bytes = 0;
    return count != 0 && size_mul(count, backend_words(backend, parts) * sizeof(uint32_t), &bytes) &&
           bytes <= PTRDIFF_MAX;
}

/* Whether first, first + stride, ... (count of them, at least one) lie in the array. */
static bool terms_are_inside(const bfv_array *array, uint64_t first, uint64_t stride, uint64_t count) {
    return count != 0 && stride != 0 && first < array->count &&
           count - 1 <= (array->count - 1 - first) / stride;
}

/* BFV_OK when x[L][N] holds residues only. */
static int check_plain(const bfv_backend *backend, const uint32_t *x) {
    return is_words(x) ? bfv_check_residues(backend->ring, x, 1) : BFV_E_ARGUMENT;
}

/* Remembers the first error of work that was begun, for bfv_sync. Bad arguments and residues began
 * nothing, and their caller has been told. */
static int note(bfv_backend *backend, int status) {
    if (status != BFV_OK && status != BFV_E_ARGUMENT && status != BFV_E_RESIDUE &&
        backend->first_error == BFV_OK) {
        backend->first_error = status;
    }
    return status;
}

/* ---- open and close ------------------------------------------------------- */

/* The plug-in libpybfv_NAME.so beside the library that this code is in. */
static int load_plugin(const char *name, bfv_backend *backend) {
    char path[4096];
    Dl_info here;
    if (dladdr(&backend_cpu, &here) == 0 || here.dli_fname == NULL) {
        return BFV_E_UNSUPPORTED;
    }
    const char *slash = strrchr(here.dli_fname, '/');
    const int folder = slash == NULL ? 0 : (int)(slash - here.dli_fname) + 1;
    const int length = snprintf(path, sizeof path, "%.*slibpybfv_%s.so", folder, here.dli_fname, name);
    if (length < 0 || (size_t)length >= sizeof path) {
        return BFV_E_UNSUPPORTED;
    }
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        (void)snprintf(backend->detail, sizeof backend->detail, "%s", dlerror());
        return BFV_E_UNSUPPORTED;
    }
    /* ISO C has no conversion from an object pointer to a function pointer; POSIX has this one. */
    const struct backend_ops *(*entry)(void) = NULL;
    *(void **)(void *)&entry = dlsym(library, "pybfv_backend");
    backend->ops = entry == NULL ? NULL : entry();
    if (backend->ops == NULL || backend->ops->version != BACKEND_VERSION ||
        strcmp(backend->ops->name, name) != 0) {
        (void)snprintf(backend->detail, sizeof backend->detail, "libpybfv_%s.so is of another build", name);
        (void)dlclose(library);
        return BFV_E_UNSUPPORTED;
    }
    backend->library = library;
    return BFV_OK;
}

static int find_backend(const char *name, bfv_backend *backend) {
    if (strcmp(name, backend_cpu.name) == 0) {
        backend->ops = &backend_cpu;
        return BFV_OK;
    }
    if (strcmp(name, "sim") != 0 && strcmp(name, "upmem") != 0) {
        return BFV_E_UNSUPPORTED;
    }
    return load_plugin(name, backend);
}

static void free_backend(bfv_backend *backend) {
    bfv_lifter_close(backend->lifter);
    bfv_ring_close(backend->ring);
    if (backend->library != NULL) {
        (void)dlclose(backend->library);
    }
    free(backend);
}

int bfv_open(const char *name, const bfv_options *options, bfv_backend **out) {
    if (name == NULL || options == NULL || out == NULL || options->threads > BFV_MAX_THREADS ||
        options->kernels > BFV_KERNELS_LIMB || options->dpus > BFV_MAX_DPUS ||
        options->tasklets > BFV_MAX_TASKLETS || options->strict > BFV_SIM_FAITHFUL ||
        options->check > BFV_CHECK_FULL || options->count > BFV_MAX_Q_PRIMES ||
        (options->wide == NULL && options->wide_count != 0)) {
        return BFV_E_ARGUMENT;
    }
    bfv_backend *backend = calloc(1, sizeof *backend);
    if (backend == NULL) {
        return BFV_E_MEMORY;
    }
    backend->kernels = options->kernels;
    backend->threads = options->threads;
    int status = find_backend(name, backend);
    if (status == BFV_OK) {
        status = bfv_ring_open(options->n, options->primes, options->count, options->body, &backend->ring);
    }
    if (status == BFV_OK && options->wide_count != 0) {
        status = bfv_lifter_open(backend->ring, options->wide, options->wide_count, &backend->lifter);
    }
    if (status == BFV_OK) {
        status = backend->ops->open(backend, options);
    }
    if (options->detail != NULL && options->detail_size != 0) {
        (void)snprintf(options->detail, options->detail_size, "%s", status == BFV_OK ? "" : backend->detail);
    }
    if (status != BFV_OK) {
        free_backend(backend);
        return status;
    }
    backend->detail[0] = '\0';
    backend->magic = BACKEND_MAGIC;
    *out = backend;
    return BFV_OK;
}

void bfv_close(bfv_backend *backend) {
    if (!is_open(backend)) {
        return;
    }
    while (backend->accs != NULL) { /* first: devices keep arrays for them */
        (void)bfv_acc_drop(backend, (bfv_acc *)backend->accs);
    }
    while (backend->arrays != NULL) {
        (void)bfv_drop(backend, (bfv_array *)backend->arrays);
    }
    backend->ops->close(backend);
    backend->magic = 0;
    free_backend(backend);
}

int bfv_get_info(const bfv_backend *backend, bfv_info *out) {
    if (!is_open(backend) || out == NULL) {
        return BFV_E_ARGUMENT;
    }
    bfv_info info = {.kernels = backend->kernels, .threads = backend->threads};
    strncpy(info.name, backend->ops->name, sizeof info.name - 1);
    strncpy(info.body, bfv_ring_body(backend->ring), sizeof info.body - 1);
    backend->ops->info(backend, &info);
    *out = info;
    return BFV_OK;
}

int bfv_get_stats(const bfv_backend *backend, bfv_stats *out) {
    if (!is_open(backend) || out == NULL) {
        return BFV_E_ARGUMENT;
    }
    *out = backend->stats;
    return BFV_OK;
}

int bfv_get_events(const bfv_backend *backend, bfv_event *out, uint32_t room, uint32_t *count) {
    if (!is_open(backend) || count == NULL || (out == NULL && room != 0)) {
        return BFV_E_ARGUMENT;
    }
    if (backend->ops->events == NULL) {
        *count = 0;
        return BFV_OK;
    }
    return backend->ops->events(backend, out, room, count);
}

const char *bfv_backend_error(const bfv_backend *backend) {
    return is_open(backend) ? backend->detail : "";
}

const bfv_ring *bfv_backend_ring(const bfv_backend *backend) {
    return is_open(backend) ? backend->ring : NULL;
}

/* ---- arrays --------------------------------------------------------------- */

static bfv_array *array_new(uint64_t count, uint32_t parts, uint32_t form, uint32_t purpose) {
    bfv_array *array = calloc(1, sizeof *array);
    if (array != NULL) {
        array->count = count;
        array->parts = parts;
        array->form = form;
        array->purpose = purpose;
    }
    return array;
}

/* Hands a filled array to the caller, or frees it and passes the error on. */
static int array_deliver(bfv_backend *backend, bfv_array *array, int status, bfv_array **out) {
    if (status != BFV_OK) {
        free(array);
        return note(backend, status);
    }
    list_add(&backend->arrays, &array->item);
    *out = array;
    return BFV_OK;
}

int bfv_put(bfv_backend *backend, const bfv_desc *desc, const uint32_t *src, uint64_t count, bfv_array **out,
            bfv_ticket *ticket) {
    if (!is_open(backend) || desc == NULL || !is_words(src) || out == NULL || desc->n != backend->ring->n ||
        desc->primes != backend->ring->count || desc->parts < 2 || desc->parts > BFV_MAX_PARTS ||
        desc->form > BFV_FORM_LIMB || desc->purpose > BFV_CONVOLVE ||
        (desc->flags & ~(uint32_t)BFV_PUT_BORROW) != 0 || desc->reserved != 0 ||
        !size_is_possible(backend, desc->parts, count)) {
        return BFV_E_ARGUMENT;
    }
    if (desc->word != 32 || desc->form == BFV_FORM_LIMB) {
        return BFV_E_UNSUPPORTED;
    }
    bfv_array *array = array_new(count, desc->parts, desc->form, desc->purpose);
    if (array == NULL) {
        return BFV_E_MEMORY;
    }
    int status = backend->ops->put(backend, array, src, desc->flags);
    status = array_deliver(backend, array, status, out);
    if (status == BFV_OK) {
        backend->stats.bytes_in += count * backend_words(backend, desc->parts) * sizeof *src;
        backend->last_ticket++;
        if (ticket != NULL) {
            *ticket = backend->last_ticket;
        }
    }
    return status;
}

int bfv_get(bfv_backend *backend, const bfv_array *array, uint64_t first, uint64_t count, uint32_t *dst) {
    if (!owns_array(backend, array) || !is_words(dst) || !terms_are_inside(array, first, 1, count)) {
        return BFV_E_ARGUMENT;
    }
    const int status = note(backend, backend->ops->get(backend, array, first, count, dst));
    if (status == BFV_OK) {
        backend->stats.bytes_out += count * backend_words(backend, array->parts) * sizeof *dst;
    }
    return status;
}

int bfv_drop(bfv_backend *backend, bfv_array *array) {
    if (!owns_array(backend, array)) {
        return BFV_E_ARGUMENT;
    }
    list_remove(&backend->arrays, &array->item);
    backend->ops->drop(backend, array);
    free(array);
    return BFV_OK;
}

int bfv_wait(bfv_backend *backend, bfv_ticket ticket) {
    if (!is_open(backend) || ticket == 0 || ticket > backend->last_ticket) {
        return BFV_E_ARGUMENT;
    }
    return note(backend, backend->ops->wait(backend, ticket));
}

int bfv_sync(bfv_backend *backend) {
    if (!is_open(backend)) {
        return BFV_E_ARGUMENT;
    }
    const int status = note(backend, backend->ops->sync(backend));
    const int first_error = backend->first_error;
    backend->first_error = BFV_OK;
    return first_error != BFV_OK ? first_error : status;
}

/* ---- arithmetic ----------------------------------------------------------- */

static int binary(bfv_backend *backend, enum backend_binary op, const bfv_array *a, const bfv_array *b,
                  bfv_array **out) {
    if (!owns_array(backend, a) || !owns_array(backend, b) || out == NULL || a->count != b->count ||
        a->parts != b->parts || a->form != b->form) {
        return BFV_E_ARGUMENT;
    }
    uint32_t parts = a->parts;
    if (op == BACKEND_MUL) {
        parts = 3;
        if (a->parts != 2 || a->form != BFV_FORM_NTT || !size_is_possible(backend, parts, a->count)) {
            return BFV_E_ARGUMENT;
        }
    }
    bfv_array *result = array_new(a->count, parts, a->form, a->purpose);
    if (result == NULL) {
        return BFV_E_MEMORY;
    }
    return array_deliver(backend, result, backend->ops->binary(backend, op, a, b, result), out);
}

int bfv_add(bfv_backend *backend, const bfv_array *a, const bfv_array *b, bfv_array **out) {
    return binary(backend, BACKEND_ADD, a, b, out);
}

int bfv_sub(bfv_backend *backend, const bfv_array *a, const bfv_array *b, bfv_array **out) {
    return binary(backend, BACKEND_SUB, a, b, out);
}

int bfv_mul(bfv_backend *backend, const bfv_array *a, const bfv_array *b, bfv_array **out) {
    return binary(backend, BACKEND_MUL, a, b, out);
}

int bfv_convert(bfv_backend *backend, const bfv_array *a, uint32_t form, bfv_array **out) {
    if (!owns_array(backend, a) || out == NULL || form > BFV_FORM_COEFFICIENT || a->form == form) {
        return BFV_E_ARGUMENT;
    }
    bfv_array *result = array_new(a->count, a->parts, form, a->purpose);
    if (result == NULL) {
        return BFV_E_MEMORY;
    }
    return array_deliver(backend, result, backend->ops->convert(backend, a, result), out);
}

static int unary(bfv_backend *backend, enum backend_unary op, const bfv_array *a, const uint32_t *m,
                 bfv_array **out) {
    if (!owns_array(backend, a) || out == NULL) {
        return BFV_E_ARGUMENT;
    }
    if (op != BACKEND_NEG) {
        const int status = a->form == BFV_FORM_NTT ? check_plain(backend, m) : BFV_E_ARGUMENT;
        if (status != BFV_OK) {
            return status;
        }
    }
    bfv_array *result = array_new(a->count, a->parts, a->form, a->purpose);
    if (result == NULL) {
        return BFV_E_MEMORY;
    }
    return array_deliver(backend, result, backend->ops->unary(backend, op, a, m, result), out);
}

int bfv_neg(bfv_backend *backend, const bfv_array *a, bfv_array **out) {
    return unary(backend, BACKEND_NEG, a, NULL, out);
}

int bfv_add_plain(bfv_backend *backend, const bfv_array *a, const uint32_t *m, bfv_array **out) {
    return unary(backend, BACKEND_ADD_PLAIN, a, m, out);
}

int bfv_mul_plain(bfv_backend *backend, const bfv_array *a, const uint32_t *m, bfv_array **out) {
    return unary(backend, BACKEND_MUL_PLAIN, a, m, out);
}

/* ---- accumulators --------------------------------------------------------- */

int bfv_acc_new(bfv_backend *backend, uint32_t kind, uint32_t parts, bfv_acc **out) {
    if (!is_open(backend) || out == NULL || kind > BFV_ACC_SCALED || parts < 2 || parts > BFV_MAX_PARTS ||
        (kind != BFV_ACC_SUM && parts != 3)) {
        return BFV_E_ARGUMENT;
    }
    if (kind == BFV_ACC_SCALED && (backend->lifter == NULL || !backend->ops->scaled)) {
        return BFV_E_UNSUPPORTED;
    }
    bfv_acc *acc = calloc(1, sizeof *acc);
    if (acc == NULL) {
        return BFV_E_MEMORY;
    }
    acc->kind = kind;
    acc->parts = parts;
    const int status = note(backend, backend->ops->acc_new(backend, acc));
    if (status != BFV_OK) {
        free(acc);
        return status;
    }
    list_add(&backend->accs, &acc->item);
    *out = acc;
    return BFV_OK;
}

int bfv_acc_drop(bfv_backend *backend, bfv_acc *acc) {
    if (!owns_acc(backend, acc)) {
        return BFV_E_ARGUMENT;
    }
    list_remove(&backend->accs, &acc->item);
    backend->ops->acc_drop(backend, acc);
    free(acc);
    return BFV_OK;
}

int bfv_acc_add(bfv_backend *backend, bfv_acc *acc, const bfv_array *a, uint64_t first, uint64_t stride,
                uint64_t count) {
    if (!owns_acc(backend, acc) || !owns_array(backend, a) || acc->kind != BFV_ACC_SUM ||
        a->parts != acc->parts || a->form != BFV_FORM_NTT || !terms_are_inside(a, first, stride, count)) {
        return BFV_E_ARGUMENT;
    }
    const int status = backend->ops->acc_add(backend, acc, a, first, stride, count);
    if (status == BFV_OK) {
        backend->stats.sums += count;
    }
    return note(backend, status);
}

int bfv_acc_mul(bfv_backend *backend, bfv_acc *acc, const bfv_array *a, uint64_t first_a, const bfv_array *b,
                uint64_t first_b, uint64_t stride, uint64_t count) {
    if (!owns_acc(backend, acc) || !owns_array(backend, a) || !owns_array(backend, b) ||
        acc->kind == BFV_ACC_SUM || a->parts != 2 || b->parts != 2 || a->form != BFV_FORM_NTT ||
        b->form != BFV_FORM_NTT || !terms_are_inside(a, first_a, stride, count) ||
        !terms_are_inside(b, first_b, stride, count)) {
        return BFV_E_ARGUMENT;
    }
    const int status = backend->ops->acc_mul(backend, acc, a, first_a, b, first_b, stride, count);
    if (status == BFV_OK) {
        backend->stats.products += count;
    }
    return note(backend, status);
}

int bfv_acc_merge(bfv_backend *backend, bfv_acc *acc, const bfv_acc *other) {
    if (!owns_acc(backend, acc) || !owns_acc(backend, other) || acc == other || acc->kind != other->kind ||
        acc->parts != other->parts) {
        return BFV_E_ARGUMENT;
    }
    return note(backend, backend->ops->acc_merge(backend, acc, other));
}

int bfv_acc_save(bfv_backend *backend, bfv_acc *acc, uint32_t *dst) {
    if (!owns_acc(backend, acc) || !is_words(dst)) {
        return BFV_E_ARGUMENT;
    }
    int status = note(backend, backend->ops->acc_save(backend, acc, dst));
    if (status == BFV_OK && bfv_check_residues(backend_acc_ring(backend, acc), dst, acc->parts) != BFV_OK) {
        status = note(backend, BFV_E_BACKEND); /* a device returned what no computation gives */
    }
    if (status == BFV_OK) {
        backend->stats.bytes_out += backend_acc_words(backend, acc) * sizeof *dst;
    }
    return status;
}

int bfv_acc_load(bfv_backend *backend, bfv_acc *acc, const uint32_t *src) {
    if (!owns_acc(backend, acc) || !is_words(src)) {
        return BFV_E_ARGUMENT;
    }
    const int status = bfv_check_residues(backend_acc_ring(backend, acc), src, acc->parts);
    return status == BFV_OK ? note(backend, backend->ops->acc_load(backend, acc, src)) : status;
}

int bfv_acc_finish(bfv_backend *backend, bfv_acc *acc, const uint32_t *factor, bfv_array **out) {
    if (!owns_acc(backend, acc) || !is_words(factor) || out == NULL) {
        return BFV_E_ARGUMENT;
    }
    if (acc->kind == BFV_ACC_SCALED) {
        return BFV_E_UNSUPPORTED; /* bfv_scale_round does it */
    }
    for (uint32_t i = 0; i < backend->ring->count; i++) {
        if (factor[i] >= backend->ring->prime[i].p) {
            return BFV_E_RESIDUE;
        }
    }
    bfv_array *result = array_new(1, acc->parts, BFV_FORM_NTT, BFV_POINTWISE);
    if (result == NULL) {
        return BFV_E_MEMORY;
    }
    return array_deliver(backend, result, backend->ops->acc_finish(backend, acc, factor, result), out);
}
