#define _GNU_SOURCE
/* Faults on purpose: what profiles ask for with inject=..., done to a DPU's run. */
#include "run.h"

#include <string.h>
#include <time.h>

/* -- the profile's text ----------------------------------------------------------------- */

/* Reads a number and steps over it. */
static bool take_number(const char **text, uint64_t most, uint64_t *out) {
    char *end;
    if (**text < '0' || **text > '9')
        return false;
    *out = strtoull(*text, &end, 0);
    *text = end;
    return *out <= most;
}

static bool take(const char **text, char what) {
    bool there = **text == what;
    *text += there;
    return there;
}

/* KIND:DPU@LAUNCH[+][:FROM-TO] */
static bool take_one(const char **text, struct sim_injection *out) {
    static const char *const kinds[] = {
        [SIM_FAULT] = "fault", [SIM_HANG] = "hang", [SIM_FLIP] = "flip", [SIM_WRONG] = "wrong"};
    uint64_t dpu, launch, from = 0, to = 0;
    size_t kind = 0;
    while (kind < sizeof kinds / sizeof *kinds && strncmp(*text, kinds[kind], strlen(kinds[kind])) != 0)
        kind++;
    if (kind == sizeof kinds / sizeof *kinds)
        return false;
    *text += strlen(kinds[kind]);
    if (!take(text, ':') || !take_number(text, SIM_MAX_DPUS - 1, &dpu) || !take(text, '@') ||
        !take_number(text, UINT32_MAX, &launch) || launch == 0)
        return false;
    bool always = take(text, '+');
    if (take(text, ':') && (kind != SIM_FLIP || !take_number(text, SIM_MRAM_BYTES, &from) ||
                            !take(text, '-') || !take_number(text, SIM_MRAM_BYTES, &to) || from >= to))
        return false;
    *out = (struct sim_injection){.kind = (enum sim_injection_kind)kind,
                                  .dpu = (uint32_t)dpu,
                                  .launch = launch,
                                  .always = always,
                                  .from = (uint32_t)from,
                                  .to = (uint32_t)to};
    return true;
}

bool sim_inject_read(const char *text, struct sim_injections *out) {
    struct sim_injections found = {0};
    do {
        if (found.count == SIM_INJECTIONS || !take_one(&text, &found.one[found.count++]))
            return false;
    } while (take(&text, '/'));
    *out = found;
    return *text == '\0';
}

/* -- a run ------------------------------------------------------------------------------ */

/* The injection of that kind which this run of the DPU meets, or NULL. */
static const struct sim_injection *due(const struct dpu_t *dpu, enum sim_injection_kind kind) {
    const struct sim_injections *all = &dpu->sim->profile.injections;
    for (uint32_t i = 0; i < all->count; i++) {
        const struct sim_injection *one = &all->one[i];
        if (one->kind == kind && one->dpu == dpu->index &&
            (dpu->launches == one->launch || (one->always && dpu->launches > one->launch)))
            return one;
    }
    return NULL;
}

/* A number that the seed, the DPU, its launch and k determine (splitmix64, Steele et al.). */
static uint64_t draw(const struct dpu_t *dpu, uint64_t k) {
    uint64_t x = dpu->sim->profile.seed +
                 UINT64_C(0x9E3779B97F4A7C15) * ((uint64_t)dpu->index << 40 ^ dpu->launches << 20 ^ (k + 1));
    x = (x ^ x >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ x >> 27) * UINT64_C(0x94D049BB133111EB);
    return x ^ x >> 31;
}

static bool is_stopped(struct sim *sim) {
    pthread_mutex_lock(&sim->lock);
    bool stop = sim->stop;
    pthread_mutex_unlock(&sim->lock);
    return stop;
}

bool sim_inject_hang(struct run *run) {
    if (due(run->dpu, SIM_HANG) == NULL)
        return false;
    while (!is_stopped(run->dpu->sim) && (run->deadline == 0 || sim_now() <= run->deadline))
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    return true;
}

bool sim_inject_fault(const struct run *run) {
    return due(run->dpu, SIM_FAULT) != NULL;
}

void sim_inject_boot(struct run *run) {
    run->watched = due(run->dpu, SIM_WRONG) != NULL;
    atomic_store_explicit(&run->writes, 0, memory_order_relaxed);
    atomic_store_explicit(&run->written, 0, memory_order_relaxed);
}

/* Each of n writes is the one that is kept with probability 1 / n. */
void sim_inject_write(struct run *run, uintptr_t mram, uint32_t bytes) {
    uint64_t offset = mram - (uintptr_t)run->mram;
    if (offset >= SIM_MRAM_BYTES)
        return; /* an __mram variable of a program that dlopen loaded */
    uint64_t n = atomic_fetch_add_explicit(&run->writes, 1, memory_order_relaxed);
    if (draw(run->dpu, n) % (n + 1) == 0)
        atomic_store_explicit(&run->written, offset << 32 | bytes, memory_order_relaxed);
}

/* A word that the run wrote becomes its neighbour: small, so that what is below a bound stays there. */
static void spoil_result(struct run *run) {
    uint64_t written = atomic_load_explicit(&run->written, memory_order_relaxed);
    uint32_t bytes = (uint32_t)written, word;
    if (bytes < sizeof word)
        return;
    uint8_t *at =
        run->dpu->mram + (written >> 32) + draw(run->dpu, UINT64_MAX) % (bytes / sizeof word) * sizeof word;
    memcpy(&word, at, sizeof word);
    word = word == 0 ? 1 : word - 1;
    memcpy(at, &word, sizeof word);
}

static void flip_bit(struct dpu_t *dpu, const struct sim_injection *flip) {
    uint32_t heap = dpu->program->mram_bytes, from = heap + flip->from, to = heap + flip->to;
    if (flip->to == 0) { /* wherever the host has written */
        from = heap;
        to = dpu->mram_used;
    }
    to = to < SIM_MRAM_BYTES ? to : SIM_MRAM_BYTES;
    if (from >= to)
        return;
    uint64_t bit = draw(dpu, 0) % ((uint64_t)(to - from) * 8);
    dpu->mram[from + bit / 8] ^= (uint8_t)(1 << bit % 8);
}

void sim_inject_end(struct run *run) {
    const struct sim_injection *flip = due(run->dpu, SIM_FLIP);
    if (run->watched)
        spoil_result(run);
    if (flip != NULL)
        flip_bit(run->dpu, flip);
}
