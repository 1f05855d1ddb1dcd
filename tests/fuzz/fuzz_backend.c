/* Sequences of calls on a backend: arrays and accumulators, with handles and numbers good and bad. A model in
 * plain arithmetic says which status each call gives and what it computes; neither may differ. */
#include "fuzz.h"

enum { ARRAYS = 6, ACCS = 4, MAX_COUNT = 5, MAX_STEPS = 200 };

struct array {
    bfv_array *handle; /* NULL: none here */
    uint64_t count;
    uint32_t parts, form;
    uint32_t *words; /* what it holds, by the model */
    uint32_t *lent;  /* the borrowed source, or NULL */
};

struct acc {
    bfv_acc *handle;
    uint32_t kind, parts;
    uint32_t words[3 * FUZZ_MAX_POLY];
};

struct world {
    struct numbers r;
    bfv_backend *backend, *stranger;
    bfv_array *their_array, *dropped_array;
    bfv_acc *their_acc, *dropped_acc;
    struct array arrays[ARRAYS];
    struct acc accs[ACCS];
    bfv_stats stats;
    bfv_ticket tickets;
};

/* ---- handles ---------------------------------------------------------------- */

static bfv_array *next_array(struct world *w, struct input *in) {
    const uint32_t choice = pick(in, ARRAYS * 4 + 4);
    switch (choice) {
    case ARRAYS * 4:
        return w->their_array;
    case ARRAYS * 4 + 1:
        return w->dropped_array; /* may be a new one's address again */
    case ARRAYS * 4 + 2:
        return (bfv_array *)(void *)w->accs[0].handle;
    case ARRAYS * 4 + 3:
        return NULL;
    default:
        return w->arrays[choice % ARRAYS].handle;
    }
}

static bfv_acc *next_acc(struct world *w, struct input *in) {
    const uint32_t choice = pick(in, ACCS * 4 + 4);
    switch (choice) {
    case ACCS * 4:
        return w->their_acc;
    case ACCS * 4 + 1:
        return w->dropped_acc;
    case ACCS * 4 + 2:
        return (bfv_acc *)(void *)w->arrays[0].handle;
    case ACCS * 4 + 3:
        return NULL;
    default:
        return w->accs[choice % ACCS].handle;
    }
}

static struct array *array_of(struct world *w, const bfv_array *handle) {
    for (uint32_t k = 0; handle != NULL && k < ARRAYS; k++) {
        if (w->arrays[k].handle == handle) {
            return &w->arrays[k];
        }
    }
    return NULL;
}

static struct acc *acc_of(struct world *w, const bfv_acc *handle) {
    for (uint32_t k = 0; handle != NULL && k < ACCS; k++) {
        if (w->accs[k].handle == handle) {
            return &w->accs[k];
        }
    }
    return NULL;
}

static void forget_array(struct world *w, struct array *a) {
    w->dropped_array = a->handle;
    free(a->words);
    free(a->lent);
    *a = (struct array){0};
}

/* An empty place for a result: drops what is there. */
static struct array *vacate(struct world *w, struct input *in) {
    struct array *place = &w->arrays[pick(in, ARRAYS)];
    if (place->handle != NULL) {
        EXPECT(bfv_drop(w->backend, place->handle) == BFV_OK);
        forget_array(w, place);
    }
    return place;
}

static size_t words_of(const struct world *w, uint32_t parts, uint64_t count) {
    return (size_t)count * parts * w->r.poly;
}

/* What the library holds is what the model says. */
static void check_array(struct world *w, const struct array *a) {
    const size_t words = words_of(w, a->parts, a->count);
    uint32_t *found = fresh(words * sizeof *found);
    EXPECT(bfv_get(w->backend, a->handle, 0, a->count, found) == BFV_OK);
    EXPECT(memcmp(found, a->words, words * sizeof *found) == 0);
    w->stats.bytes_out += words * sizeof *found;
    free(found);
}

/* ---- calls ------------------------------------------------------------------ */

static void call_put(struct world *w, struct input *in) {
    struct array *place = vacate(w, in);
    bfv_desc desc = {.n = w->r.n, .primes = w->r.count, .word = 32, .parts = 2 + pick(in, 2)};
    desc.form = pick(in, 2);
    desc.purpose = pick(in, 2);
    desc.flags = pick(in, 2);
    int expected = BFV_OK;
    switch (pick(in, 24)) {
    case 0:
        desc.n *= 2, expected = BFV_E_ARGUMENT;
        break;
    case 1:
        desc.primes ^= 4, expected = BFV_E_ARGUMENT;
        break;
    case 2:
        desc.word = next_byte(in);
        expected = desc.word == 32 ? BFV_OK : BFV_E_UNSUPPORTED;
        break;
    case 3:
        desc.parts = pick(in, 2) == 0 ? 1 : 4, expected = BFV_E_ARGUMENT;
        break;
    case 4:
        desc.form = 2 + pick(in, 2);
        expected = desc.form == BFV_FORM_LIMB ? BFV_E_UNSUPPORTED : BFV_E_ARGUMENT;
        break;
    case 5:
        desc.purpose = 2 + next_byte(in), expected = BFV_E_ARGUMENT;
        break;
    case 6:
        desc.flags = 2U << pick(in, 31), expected = BFV_E_ARGUMENT;
        break;
    case 7:
        desc.reserved = 1 + next_byte(in), expected = BFV_E_ARGUMENT;
        break;
    default:
        break;
    }
    uint64_t count = next_count(in, MAX_COUNT);
    const uint32_t parts = desc.parts < 2 || desc.parts > 3 ? 3 : desc.parts;
    if (count == 0 || count > (uint64_t)PTRDIFF_MAX / (4 * words_of(w, parts, 1))) {
        expected = BFV_E_ARGUMENT;
    } else if (count > MAX_COUNT) {
        count = 1 + count % MAX_COUNT; /* possible, but not there */
    }
    const bool possible = count != 0 && count <= MAX_COUNT;
    const bool wild = pick(in, 8) == 0, null = pick(in, 32) == 1;
    const size_t bytes = words_of(w, parts, possible ? count : 1) * sizeof(uint32_t);
    uint32_t *src = fresh(bytes);
    next_residues(in, &w->r, parts * (possible ? (uint32_t)count : 1), wild, src);
    expected = null ? BFV_E_ARGUMENT : expected == BFV_OK && wild ? BFV_E_RESIDUE : expected;
    bfv_array *made = NULL;
    bfv_ticket ticket = 0;
    EXPECT(bfv_put(w->backend, &desc, null ? NULL : src, count, &made, &ticket) == expected);
    EXPECT((made != NULL) == (expected == BFV_OK));
    if (expected != BFV_OK) {
        EXPECT(ticket == 0);
        free(src);
        return;
    }
    EXPECT(ticket == ++w->tickets);
    w->stats.bytes_in += bytes;
    *place = (struct array){made, count, desc.parts, desc.form, fresh(bytes), NULL};
    memcpy(place->words, src, bytes);
    if (desc.flags == BFV_PUT_BORROW) {
        place->lent = src;
    } else {
        free(src);
    }
    check_array(w, place);
}

static bool terms_fit(const struct array *a, uint64_t first, uint64_t stride, uint64_t count) {
    __extension__ typedef unsigned __int128 wide;
    return count != 0 && stride != 0 && (wide)first + (wide)(count - 1) * stride < a->count;
}

static void call_get(struct world *w, struct input *in) {
    const bfv_array *handle = next_array(w, in);
    const struct array *a = array_of(w, handle);
    const uint64_t first = next_count(in, MAX_COUNT), count = next_count(in, MAX_COUNT);
    const bool fits = a != NULL && terms_fit(a, first, 1, count), into_source = pick(in, 4) == 0;
    const size_t words = fits ? words_of(w, a->parts, count) : 1;
    uint32_t *found = fresh(words * sizeof *found);
    if (fits && into_source && a->lent != NULL) {
        EXPECT(bfv_get(w->backend, handle, first, count, a->lent) == BFV_E_ARGUMENT);
        EXPECT(memcmp(a->lent, a->words, words_of(w, a->parts, a->count) * sizeof *found) == 0);
    }
    EXPECT(bfv_get(w->backend, handle, first, count, found) == (fits ? BFV_OK : BFV_E_ARGUMENT));
    if (fits) {
        EXPECT(memcmp(found, a->words + words_of(w, a->parts, first), words * sizeof *found) == 0);
        w->stats.bytes_out += words * sizeof *found;
    }
    free(found);
}

static void call_drop(struct world *w, struct input *in) {
    bfv_array *handle = next_array(w, in);
    struct array *a = array_of(w, handle);
    EXPECT(bfv_drop(w->backend, handle) == (a != NULL ? BFV_OK : BFV_E_ARGUMENT));
    if (a != NULL) {
        forget_array(w, a);
    }
}

static void tensor(const struct world *w, const uint32_t *x, const uint32_t *y, uint32_t *out) {
    const uint32_t poly = w->r.poly;
    for (uint32_t k = 0; k < poly; k++) {
        const uint32_t p = w->r.primes[k / w->r.n];
        out[k] = times(x[k], y[k], p);
        out[poly + k] = (uint32_t)(((uint64_t)times(x[k], y[poly + k], p) + times(x[poly + k], y[k], p)) % p);
        out[2 * poly + k] = times(x[poly + k], y[poly + k], p);
    }
}

static void call_binary(struct world *w, struct input *in) {
    static int (*const calls[])(bfv_backend *, const bfv_array *, const bfv_array *,
                                bfv_array **) = {bfv_add, bfv_sub, bfv_mul};
    struct array *place = vacate(w, in);
    const uint32_t op = pick(in, 3);
    const bfv_array *x = next_array(w, in), *y = next_array(w, in);
    const struct array *a = array_of(w, x), *b = array_of(w, y);
    bfv_array *made = NULL;
    const bool good = a != NULL && b != NULL && a->count == b->count && a->parts == b->parts &&
                      a->form == b->form && (op != 2 || (a->parts == 2 && a->form == BFV_FORM_NTT));
    EXPECT(calls[op](w->backend, x, y, &made) == (good ? BFV_OK : BFV_E_ARGUMENT));
    EXPECT((made != NULL) == good);
    if (!good) {
        return;
    }
    const uint32_t parts = op == 2 ? 3 : a->parts;
    const size_t words = words_of(w, parts, a->count);
    uint32_t *result = fresh(words * sizeof *result);
    for (size_t k = 0; op != 2 && k < words; k++) {
        const uint32_t p = w->r.primes[k / w->r.n % w->r.count];
        result[k] = (a->words[k] + (op == 0 ? b->words[k] : p - b->words[k])) % p;
    }
    for (uint64_t k = 0; op == 2 && k < a->count; k++) {
        tensor(w, a->words + words_of(w, 2, k), b->words + words_of(w, 2, k), result + words_of(w, 3, k));
    }
    *place = (struct array){made, a->count, parts, a->form, result, NULL};
    check_array(w, place);
}

static void call_unary(struct world *w, struct input *in) {
    struct array *place = vacate(w, in);
    const uint32_t op = pick(in, 3); /* neg, add_plain, mul_plain */
    const bool wild = pick(in, 8) == 1, null = pick(in, 16) == 1;
    uint32_t *m = fresh(w->r.poly * sizeof *m);
    next_residues(in, &w->r, 1, wild, m);
    const bfv_array *x = next_array(w, in);
    const struct array *a = array_of(w, x);
    int expected = a == NULL || (op != 0 && (a->form != BFV_FORM_NTT || null)) ? BFV_E_ARGUMENT : BFV_OK;
    expected = expected == BFV_OK && op != 0 && wild ? BFV_E_RESIDUE : expected;
    bfv_array *made = NULL;
    const int status = op == 0   ? bfv_neg(w->backend, x, &made)
                       : op == 1 ? bfv_add_plain(w->backend, x, null ? NULL : m, &made)
                                 : bfv_mul_plain(w->backend, x, null ? NULL : m, &made);
    EXPECT(status == expected && (made != NULL) == (expected == BFV_OK));
    if (expected == BFV_OK) {
        const size_t words = words_of(w, a->parts, a->count);
        uint32_t *result = fresh(words * sizeof *result);
        for (size_t k = 0; k < words; k++) {
            const size_t part = k / w->r.poly % a->parts;
            const uint32_t p = w->r.primes[k / w->r.n % w->r.count], v = a->words[k];
            const uint32_t plain = m[k % w->r.poly];
            result[k] = op == 0   ? (p - v) % p
                        : op == 2 ? times(v, plain, p)
                                  : (v + (part == 0 ? plain : 0)) % p;
        }
        *place = (struct array){made, a->count, a->parts, a->form, result, NULL};
        check_array(w, place);
    }
    free(m);
}

static void call_convert(struct world *w, struct input *in) {
    struct array *place = vacate(w, in);
    const uint32_t form = pick(in, 16) == 0 ? UINT32_MAX - pick(in, 2) : pick(in, 3);
    const bfv_array *x = next_array(w, in);
    const struct array *a = array_of(w, x);
    const bool good = a != NULL && form <= BFV_FORM_COEFFICIENT && form != a->form;
    bfv_array *made = NULL;
    EXPECT(bfv_convert(w->backend, x, form, &made) == (good ? BFV_OK : BFV_E_ARGUMENT));
    EXPECT((made != NULL) == good);
    if (!good) {
        return;
    }
    const uint32_t polys = a->parts * (uint32_t)a->count;
    const size_t bytes = words_of(w, a->parts, a->count) * sizeof(uint32_t);
    uint32_t *result = fresh(bytes), *forward = fresh(bytes);
    EXPECT(bfv_get(w->backend, made, 0, a->count, result) == BFV_OK);
    w->stats.bytes_out += bytes;
    const bool inverse = form == BFV_FORM_COEFFICIENT;
    for (size_t k = 0; k < bytes / sizeof *result; k++) {
        EXPECT(result[k] < w->r.primes[k / w->r.n % w->r.count]);
    }
    plain_forward(&w->r, inverse ? result : a->words, polys, forward);
    EXPECT(memcmp(forward, inverse ? a->words : result, bytes) == 0);
    free(forward);
    *place = (struct array){made, a->count, a->parts, form, result, NULL};
}

static void check_acc(struct world *w, const struct acc *acc) {
    const size_t bytes = words_of(w, acc->parts, 1) * sizeof(uint32_t);
    uint32_t *found = fresh(bytes);
    EXPECT(bfv_acc_save(w->backend, acc->handle, found) == BFV_OK);
    EXPECT(memcmp(found, acc->words, bytes) == 0);
    w->stats.bytes_out += bytes;
    free(found);
}

static void call_acc_new(struct world *w, struct input *in) {
    struct acc *place = &w->accs[pick(in, ACCS)];
    if (place->handle != NULL) {
        w->dropped_acc = place->handle;
        EXPECT(bfv_acc_drop(w->backend, place->handle) == BFV_OK);
        *place = (struct acc){0};
    }
    const uint32_t kind = pick(in, 3), parts = pick(in, 8) == 0 ? 1 + 3 * pick(in, 2) : 2 + pick(in, 2);
    const bool good =
        (kind == BFV_ACC_SUM && (parts == 2 || parts == 3)) || (kind == BFV_ACC_PRODUCT && parts == 3);
    /* no wide primes: no scaled accumulators */
    const int refusal = kind == BFV_ACC_SCALED && parts == 3 ? BFV_E_UNSUPPORTED : BFV_E_ARGUMENT;
    EXPECT(bfv_acc_new(w->backend, kind, parts, &place->handle) == (good ? BFV_OK : refusal));
    EXPECT((place->handle != NULL) == good);
    place->kind = kind;
    place->parts = parts;
}

static void add_words(const struct world *w, uint32_t parts, const uint32_t *x, uint32_t *sum) {
    for (uint32_t k = 0; k < parts * w->r.poly; k++) {
        sum[k] = (sum[k] + x[k]) % w->r.primes[k / w->r.n % w->r.count];
    }
}

static void call_acc_add(struct world *w, struct input *in) {
    bfv_acc *handle = next_acc(w, in);
    const bfv_array *x = next_array(w, in);
    struct acc *acc = acc_of(w, handle);
    const struct array *a = array_of(w, x);
    const uint64_t first = next_count(in, MAX_COUNT), stride = next_count(in, 3);
    const uint64_t count = next_count(in, MAX_COUNT);
    const bool good = acc != NULL && a != NULL && acc->kind == BFV_ACC_SUM && acc->parts == a->parts &&
                      a->form == BFV_FORM_NTT && terms_fit(a, first, stride, count);
    EXPECT(bfv_acc_add(w->backend, handle, x, first, stride, count) == (good ? BFV_OK : BFV_E_ARGUMENT));
    if (good) {
        for (uint64_t k = 0; k < count; k++) {
            add_words(w, acc->parts, a->words + words_of(w, a->parts, first + k * stride), acc->words);
        }
        w->stats.sums += count;
        check_acc(w, acc);
    }
}

static void call_acc_mul(struct world *w, struct input *in) {
    bfv_acc *handle = next_acc(w, in);
    const bfv_array *x = next_array(w, in), *y = next_array(w, in);
    struct acc *acc = acc_of(w, handle);
    const struct array *a = array_of(w, x), *b = array_of(w, y);
    const uint64_t first_a = next_count(in, MAX_COUNT), first_b = next_count(in, MAX_COUNT);
    const uint64_t stride = next_count(in, 3), count = next_count(in, MAX_COUNT);
    const bool good = acc != NULL && a != NULL && b != NULL && acc->kind == BFV_ACC_PRODUCT &&
                      a->parts == 2 && b->parts == 2 && a->form == BFV_FORM_NTT && b->form == BFV_FORM_NTT &&
                      terms_fit(a, first_a, stride, count) && terms_fit(b, first_b, stride, count);
    EXPECT(bfv_acc_mul(w->backend, handle, x, first_a, y, first_b, stride, count) ==
           (good ? BFV_OK : BFV_E_ARGUMENT));
    if (good) {
        uint32_t product[3 * FUZZ_MAX_POLY];
        for (uint64_t k = 0; k < count; k++) {
            tensor(w, a->words + words_of(w, 2, first_a + k * stride),
                   b->words + words_of(w, 2, first_b + k * stride), product);
            add_words(w, 3, product, acc->words);
        }
        w->stats.products += count;
        check_acc(w, acc);
    }
}

static void call_acc_others(struct world *w, struct input *in) {
    bfv_acc *handle = next_acc(w, in), *other = next_acc(w, in);
    struct acc *acc = acc_of(w, handle), *from = acc_of(w, other);
    const bool wild = pick(in, 8) == 1;
    switch (pick(in, 3)) {
    case 0: {
        const bool good = acc != NULL && from != NULL && acc != from && acc->kind == from->kind &&
                          acc->parts == from->parts;
        EXPECT(bfv_acc_merge(w->backend, handle, other) == (good ? BFV_OK : BFV_E_ARGUMENT));
        if (good) {
            add_words(w, acc->parts, from->words, acc->words);
            check_acc(w, acc);
        }
        break;
    }
    case 1: {
        const uint32_t parts = acc == NULL ? 3 : acc->parts;
        uint32_t *src = fresh(words_of(w, parts, 1) * sizeof *src);
        next_residues(in, &w->r, parts, wild, src);
        const int expected = acc == NULL ? BFV_E_ARGUMENT : wild ? BFV_E_RESIDUE : BFV_OK;
        EXPECT(bfv_acc_load(w->backend, handle, src) == expected);
        EXPECT(bfv_acc_load(w->backend, handle, NULL) == BFV_E_ARGUMENT);
        if (expected == BFV_OK) {
            memcpy(acc->words, src, words_of(w, parts, 1) * sizeof *src);
        }
        if (acc != NULL) {
            check_acc(w, acc);
        }
        free(src);
        break;
    }
    default:
        if (handle != NULL && acc != NULL) {
            w->dropped_acc = handle;
            *acc = (struct acc){0};
            EXPECT(bfv_acc_drop(w->backend, handle) == BFV_OK);
        }
        EXPECT(bfv_acc_save(w->backend, w->their_acc, NULL) == BFV_E_ARGUMENT);
        EXPECT(bfv_acc_drop(w->backend, w->their_acc) == BFV_E_ARGUMENT);
        EXPECT(bfv_acc_drop(w->backend, NULL) == BFV_E_ARGUMENT);
    }
}

static void call_acc_finish(struct world *w, struct input *in) {
    struct array *place = vacate(w, in);
    bfv_acc *handle = next_acc(w, in);
    const struct acc *acc = acc_of(w, handle);
    uint32_t *factor = fresh(w->r.count * sizeof *factor);
    bool wild = false;
    for (uint32_t i = 0; i < w->r.count; i++) {
        const uint32_t choice = next_byte(in), p = w->r.primes[i];
        factor[i] = choice == 255 ? UINT32_MAX : choice > 250 ? p : choice > 200 ? p - 1 : choice % p;
        wild = wild || factor[i] >= p;
    }
    bfv_array *made = NULL;
    const int expected = acc == NULL ? BFV_E_ARGUMENT : wild ? BFV_E_RESIDUE : BFV_OK;
    EXPECT(bfv_acc_finish(w->backend, handle, factor, &made) == expected);
    EXPECT((made != NULL) == (expected == BFV_OK));
    if (made != NULL) {
        const size_t words = words_of(w, acc->parts, 1);
        uint32_t *result = fresh(words * sizeof *result);
        for (size_t k = 0; k < words; k++) {
            const uint32_t i = (uint32_t)(k / w->r.n) % w->r.count;
            result[k] = times(acc->words[k], factor[i], w->r.primes[i]);
        }
        *place = (struct array){made, 1, acc->parts, BFV_FORM_NTT, result, NULL};
        check_array(w, place);
    }
    free(factor);
}

static void call_facts(struct world *w, struct input *in) {
    bfv_stats stats;
    bfv_info info;
    EXPECT(bfv_get_stats(w->backend, &stats) == BFV_OK);
    EXPECT(memcmp(&stats, &w->stats, sizeof stats) == 0);
    EXPECT(bfv_get_info(w->backend, &info) == BFV_OK && strcmp(info.name, "cpu") == 0);
    EXPECT(bfv_get_info(w->backend, NULL) == BFV_E_ARGUMENT && bfv_get_stats(NULL, &stats) == BFV_E_ARGUMENT);
    bfv_event event;
    uint32_t events = 1;
    EXPECT(bfv_get_events(w->backend, &event, 1, &events) == BFV_OK && events == 0);
    const bfv_ticket ticket = next_count(in, 255);
    EXPECT(bfv_wait(w->backend, ticket) == (ticket != 0 && ticket <= w->tickets ? BFV_OK : BFV_E_ARGUMENT));
    EXPECT(bfv_sync(w->backend) == BFV_OK);
    EXPECT(bfv_backend_error(w->backend)[0] == '\0');
}

/* ---- one input -------------------------------------------------------------- */

static bool open_world(struct world *w, struct input *in) {
    w->r = next_numbers(in);
    char detail[8] = "kept";
    bfv_options options = {.n = w->r.n, .count = w->r.count, .primes = w->r.primes};
    options.threads = 1 + pick(in, 2);
    options.body = next_body(in);
    options.detail = detail;
    options.detail_size = pick(in, sizeof detail + 1);
    int expected = options.body != NULL && strcmp(options.body, "none") == 0 ? BFV_E_UNSUPPORTED : BFV_OK;
    switch (pick(in, 64)) {
    case 1:
        options.n = next_byte(in), expected = options.n == w->r.n ? expected : BFV_E_ARGUMENT;
        break;
    case 2:
        options.count = pick(in, 2) == 0 ? 0 : UINT32_MAX, expected = BFV_E_ARGUMENT;
        break;
    case 3:
        options.primes = NULL, expected = BFV_E_ARGUMENT;
        break;
    case 4:
        options.threads = UINT32_MAX, expected = BFV_E_ARGUMENT;
        break;
    case 5:
        options.dpus = BFV_MAX_DPUS + 1, expected = BFV_E_ARGUMENT;
        break;
    case 6:
        options.kernels = BFV_KERNELS_LIMB, expected = BFV_E_UNSUPPORTED;
        break;
    default:
        break;
    }
    const int status = bfv_open("cpu", &options, &w->backend);
    if (options.n != w->r.n && status == BFV_OK) { /* another power of two: a ring as well */
        for (uint32_t i = 0; i < w->r.count; i++) {
            EXPECT((options.n & (options.n - 1)) == 0 && w->r.primes[i] % (2 * options.n) == 1);
        }
        bfv_close(w->backend);
        return false;
    }
    EXPECT(status == expected || (options.n != w->r.n && status == BFV_E_UNSUPPORTED));
    return status == BFV_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static void (*const calls[])(struct world *, struct input *) = {
        call_put,     call_put,     call_get,        call_drop,       call_binary,     call_unary,
        call_convert, call_acc_new, call_acc_add,    call_acc_mul,    call_acc_others, call_acc_finish,
        call_facts,   call_acc_add, call_acc_others, call_acc_finish,
    };
    struct input in = {data, size};
    struct world *w = fresh(sizeof *w);
    if (!open_world(w, &in)) {
        free(w);
        return 0;
    }
    const bfv_ring *ring = bfv_backend_ring(w->backend);
    for (uint32_t i = 0; i < w->r.count; i++) {
        w->r.roots[i] = bfv_ring_root(ring, i);
    }
    const bfv_options options = {.n = w->r.n, .count = w->r.count, .primes = w->r.primes, .threads = 1};
    const bfv_desc desc = {.n = w->r.n, .primes = w->r.count, .word = 32, .parts = 2};
    uint32_t *zeros = fresh(words_of(w, 2, 1) * sizeof *zeros);
    EXPECT(bfv_open("cpu", &options, &w->stranger) == BFV_OK);
    EXPECT(bfv_put(w->stranger, &desc, zeros, 1, &w->their_array, NULL) == BFV_OK);
    EXPECT(bfv_acc_new(w->stranger, BFV_ACC_SUM, 2, &w->their_acc) == BFV_OK);
    for (uint32_t step = 0; in.left != 0 && step < MAX_STEPS; step++) {
        calls[pick(&in, sizeof calls / sizeof calls[0])](w, &in);
    }
    for (uint32_t k = 0; k < ARRAYS; k++) {
        if (w->arrays[k].handle != NULL) {
            check_array(w, &w->arrays[k]);
        }
    }
    for (uint32_t k = 0; k < ACCS; k++) {
        if (w->accs[k].handle != NULL) {
            check_acc(w, &w->accs[k]);
        }
    }
    bfv_close(w->backend); /* with all that it still owns */
    bfv_close(w->stranger);
    for (uint32_t k = 0; k < ARRAYS; k++) {
        free(w->arrays[k].words);
        free(w->arrays[k].lent);
    }
    free(zeros);
    free(w);
    return 0;
}
