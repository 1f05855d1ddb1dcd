/* Sets of DPUs: allocation, iteration, questions. */
#define _GNU_SOURCE
#include "run.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* The poison file is mapped again and again into each MRAM: small, as it is filled each time;
 * large with many DPUs, as a process may have 65,530 mappings. */
#define POISON_SMALL (UINT32_C(2) << 20)
#define POISON_LARGE (UINT32_C(16) << 20)
#define MANY_DPUS 256

/* Which sets exist, so that freeing one twice is an error and no crash. */
static pthread_mutex_t live_lock = PTHREAD_MUTEX_INITIALIZER;
static struct sim *live;

/* A fork copies these locks as they are: they must be free then. */
static void before_fork(void) {
    pthread_mutex_lock(&live_lock);
    sim_signals_lock();
}

static void after_fork(void) {
    sim_signals_unlock();
    pthread_mutex_unlock(&live_lock);
}

static void watch_forks(void) {
    (void)pthread_atfork(before_fork, after_fork, after_fork);
}

bool sim_is_foreign(const struct sim *sim) {
    return sim->owner != getpid();
}

dpu_error_t sim_fail_foreign(const char *call) {
    return sim_fail_no_set(DPU_ERR_SYSTEM, "%s: the simulator was opened by another process", call);
}

dpu_error_t sim_enter(const struct dpu_set_t *set, const char *call, struct sim **sim) {
    *sim = sim_of_set(set);
    if (*sim == NULL)
        return sim_fail_no_set(DPU_ERR_INVALID_DPU_SET, "%s: not a set", call);
    return sim_is_foreign(*sim) ? sim_fail_foreign(call) : DPU_OK;
}

struct sim *sim_of_set(const struct dpu_set_t *set) {
    if (set->kind == DPU_SET_DPU)
        return set->dpu == NULL ? NULL : set->dpu->sim;
    return set->kind != DPU_SET_RANKS || set->list.nr_ranks == 0 || set->list.ranks == NULL
               ? NULL
               : set->list.ranks[0]->sim;
}

uint32_t sim_count_dpus(const struct dpu_set_t *set) {
    if (set->kind == DPU_SET_DPU)
        return 1;
    if (set->list.nr_ranks == 0)
        return 0;
    /* the ranks of a set follow each other, and so do their DPUs */
    const struct dpu_rank_t *last = set->list.ranks[set->list.nr_ranks - 1];
    return last->first + last->count - set->list.ranks[0]->first;
}

struct dpu_t *sim_dpu_of_set(const struct dpu_set_t *set, uint32_t i) {
    return set->kind == DPU_SET_DPU ? set->dpu
                                    : &set->list.ranks[0]->sim->dpus[set->list.ranks[0]->first + i];
}

static uint32_t poison_bytes(const struct sim *sim) {
    return sim->nr_dpus <= MANY_DPUS ? POISON_SMALL : POISON_LARGE;
}

uint32_t sim_mram_step(const struct sim *sim) {
    return sim->poison >= 0 ? poison_bytes(sim) : SIM_MRAM_BYTES;
}

static int poison_file(size_t bytes) {
    int fd = memfd_create("dpusim-poison", MFD_CLOEXEC);
    if (fd < 0)
        return -1;
    if (ftruncate(fd, (off_t)bytes) == 0) {
        void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (at != MAP_FAILED) {
            memset(at, (int)SIM_POISON, bytes);
            munmap(at, bytes);
            return fd;
        }
    }
    close(fd);
    return -1;
}

/* One reservation for each DPU. Its size is a multiple of 2 MB, so that a kernel that aligns large
 * mappings gives MRAM large pages. */
#define MRAM_AT SIM_GUARD_BYTES
#define WRAM_AT (MRAM_AT + SIM_MRAM_BYTES + SIM_GUARD_BYTES)
#define MAPPING_BYTES (WRAM_AT + (UINT32_C(2) << 20) + SIM_GUARD_BYTES)

static bool map_memories(struct sim *sim, struct dpu_t *dpu) {
    uint8_t *mapping =
        mmap(NULL, MAPPING_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapping == MAP_FAILED)
        return false;
    dpu->mapping = mapping;
    dpu->mram = mapping + MRAM_AT;
    dpu->wram = mapping + WRAM_AT;
    if (mprotect(dpu->wram, SIM_WRAM_BYTES, PROT_READ | PROT_WRITE) != 0 ||
        mprotect(dpu->mram, SIM_MRAM_BYTES, PROT_READ | PROT_WRITE) != 0)
        return false;
    uint32_t step = sim_mram_step(sim);
    for (uint32_t at = 0; sim->poison >= 0 && at < SIM_MRAM_BYTES; at += step)
        if (mmap(dpu->mram + at, step, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE | MAP_FIXED,
                 sim->poison, 0) == MAP_FAILED)
            return false;
    if (sim->nr_dpus > MANY_DPUS) /* sparse MRAM would take too much memory */
        madvise(dpu->mram, SIM_MRAM_BYTES, MADV_NOHUGEPAGE);
    return true;
}

static void unmap_memories(struct sim *sim) {
    for (uint32_t i = 0; i < sim->nr_dpus; i++) {
        struct dpu_t *dpu = &sim->dpus[i];
        if (dpu->mapping != NULL && dpu->parking == NULL) {
            munmap(dpu->mapping, MAPPING_BYTES);
        } else if (dpu->mapping != NULL) { /* what is in MRAM's place belongs to somebody else */
            munmap(dpu->mapping, MRAM_AT);
            munmap(dpu->mapping + MRAM_AT + SIM_MRAM_BYTES, MAPPING_BYTES - MRAM_AT - SIM_MRAM_BYTES);
            munmap(dpu->parking, SIM_MRAM_BYTES);
        }
        dpu->mapping = dpu->parking = dpu->mram = dpu->wram = NULL;
    }
    if (sim->poison >= 0)
        close(sim->poison);
    sim->poison = -1;
}

static void destroy(struct sim *sim) {
    sim_pool_stop(sim);
    for (uint32_t i = 0; i < sim->nr_dpus; i++) {
        sim_program_release(&sim->dpus[i]);
        free(sim->dpus[i].log);
    }
    unmap_memories(sim);
    pthread_cond_destroy(&sim->wake);
    pthread_cond_destroy(&sim->finished);
    pthread_mutex_destroy(&sim->lock);
    free(sim->ranks);
    free(sim->rank_list);
    free(sim->transfers);
    free(sim->dpus);
    free(sim);
}

static uint32_t dpus_of_rank(const struct sim_profile *profile, uint32_t rank) {
    return profile->rank_size - (rank == 0 ? (uint32_t)__builtin_popcountll(profile->disabled) : 0);
}

static dpu_error_t allocate(uint32_t nr_dpus, uint32_t nr_ranks, const struct sim_profile *profile,
                            struct dpu_set_t *out) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct sim *sim = calloc(1, sizeof *sim);
    if (sim == NULL)
        return sim_fail_no_set(DPU_ERR_SYSTEM, "dpu_alloc: out of memory");
    pthread_once(&once, watch_forks);
    sim->profile = *profile;
    sim->owner = getpid();
    sim->poison = -1;
    pthread_mutex_init(&sim->lock, NULL);
    pthread_cond_init(&sim->wake, NULL);
    pthread_cond_init(&sim->finished, NULL);
    sim->ranks = calloc(nr_ranks, sizeof *sim->ranks);
    sim->rank_list = calloc(nr_ranks, sizeof(struct dpu_rank_t *));
    sim->dpus = calloc(nr_dpus, sizeof *sim->dpus);
    if (sim->ranks == NULL || sim->rank_list == NULL || sim->dpus == NULL) {
        destroy(sim);
        return sim_fail_no_set(DPU_ERR_SYSTEM, "dpu_alloc: out of memory");
    }
    sim->nr_ranks = nr_ranks;
    sim->nr_dpus = nr_dpus;
    bool mapped = !profile->strict || (sim->poison = poison_file(poison_bytes(sim))) >= 0;
    uint32_t first = 0;
    for (uint32_t r = 0; r < nr_ranks; r++) {
        uint32_t count = dpus_of_rank(profile, r);
        count = count < nr_dpus - first ? count : nr_dpus - first;
        sim->ranks[r] = (struct dpu_rank_t){.sim = sim, .first = first, .count = count};
        sim->rank_list[r] = &sim->ranks[r];
        for (uint32_t i = first; i < first + count; i++) {
            sim->dpus[i] = (struct dpu_t){.sim = sim, .rank = &sim->ranks[r], .index = i};
            mapped = mapped && map_memories(sim, &sim->dpus[i]);
        }
        first += count;
    }
    dpu_error_t error = DPU_OK;
    if (!mapped)
        error = sim_fail_no_set(DPU_ERR_ALLOCATION, "dpu_alloc: no address space for %u DPUs: %s", nr_dpus,
                                strerror(errno));
    else if ((error = sim_pool_start(sim)) != DPU_OK)
        sim_fail_no_set(error, "dpu_alloc: no worker threads");
    if (error != DPU_OK) {
        destroy(sim);
        return error;
    }
    sim->set.kind = DPU_SET_RANKS;
    sim->set.list.nr_ranks = nr_ranks;
    sim->set.list.ranks = sim->rank_list;
    pthread_mutex_lock(&live_lock);
    sim->next = live;
    live = sim;
    pthread_mutex_unlock(&live_lock);
    *out = sim->set;
    return DPU_OK;
}

dpu_error_t dpu_alloc(uint32_t nr_dpus, const char *profile_text, struct dpu_set_t *dpu_set) {
    struct sim_profile profile;
    dpu_error_t error = sim_profile_read(profile_text, &profile);
    if (error != DPU_OK)
        return error;
    if (nr_dpus == DPU_ALLOCATE_ALL)
        return dpu_alloc_ranks(DPU_ALLOCATE_ALL, profile_text, dpu_set);
    if (nr_dpus == 0 || nr_dpus > SIM_MAX_DPUS)
        return sim_fail_no_set(DPU_ERR_ALLOCATION, "dpu_alloc: cannot allocate %u DPUs (1 to %d)", nr_dpus,
                               SIM_MAX_DPUS);
    uint32_t nr_ranks = 0, got = 0;
    for (; got < nr_dpus && nr_ranks < profile.ranks; nr_ranks++)
        got += dpus_of_rank(&profile, nr_ranks);
    if (got < nr_dpus)
        return sim_fail_no_set(DPU_ERR_ALLOCATION, "dpu_alloc: %u DPUs; the machine has %u", nr_dpus, got);
    return allocate(nr_dpus, nr_ranks, &profile, dpu_set);
}

dpu_error_t dpu_alloc_ranks(uint32_t nr_ranks, const char *profile_text, struct dpu_set_t *dpu_set) {
    struct sim_profile profile;
    dpu_error_t error = sim_profile_read(profile_text, &profile);
    if (error != DPU_OK)
        return error;
    if (nr_ranks == DPU_ALLOCATE_ALL)
        nr_ranks = profile.ranks == SIM_ANY_RANKS ? SIM_DEFAULT_RANKS : profile.ranks;
    if (nr_ranks == 0 || nr_ranks > profile.ranks || nr_ranks > SIM_MAX_DPUS / profile.rank_size)
        return sim_fail_no_set(DPU_ERR_ALLOCATION, "dpu_alloc_ranks: cannot allocate %u ranks of %u DPUs",
                               nr_ranks, profile.rank_size);
    uint32_t nr_dpus = 0;
    for (uint32_t r = 0; r < nr_ranks; r++)
        nr_dpus += dpus_of_rank(&profile, r);
    return allocate(nr_dpus, nr_ranks, &profile, dpu_set);
}

dpu_error_t dpu_free(struct dpu_set_t dpu_set) {
    pthread_mutex_lock(&live_lock);
    struct sim **at = &live, *sim = NULL;
    if (dpu_set.kind == DPU_SET_RANKS) {
        while (*at != NULL &&
               ((*at)->rank_list != dpu_set.list.ranks || (*at)->nr_ranks != dpu_set.list.nr_ranks))
            at = &(*at)->next;
        sim = *at;
        if (sim != NULL && sim_is_foreign(sim))
            unmap_memories(sim); /* the rest stays: programs are open, locks in use for good */
        else if (sim != NULL)
            *at = sim->next;
    }
    pthread_mutex_unlock(&live_lock);
    if (sim == NULL)
        return sim_fail_no_set(DPU_ERR_INVALID_DPU_SET, "dpu_free: not a set that dpu_alloc returned");
    if (!sim_is_foreign(sim))
        destroy(sim);
    return DPU_OK;
}

dpu_error_t dpu_get_nr_ranks(struct dpu_set_t dpu_set, uint32_t *nr_ranks) {
    *nr_ranks = dpu_set.kind == DPU_SET_RANKS ? dpu_set.list.nr_ranks : 1;
    return DPU_OK;
}

dpu_error_t dpu_get_nr_dpus(struct dpu_set_t dpu_set, uint32_t *nr_dpus) {
    *nr_dpus = sim_count_dpus(&dpu_set);
    return DPU_OK;
}

static struct dpu_set_t one_dpu(struct dpu_t *dpu) {
    struct dpu_set_t set = {.kind = DPU_SET_DPU};
    set.dpu = dpu;
    return set;
}

static void show_rank(struct dpu_set_rank_iterator_t *iterator) {
    iterator->has_next =
        iterator->set->kind == DPU_SET_RANKS && iterator->count < iterator->set->list.nr_ranks;
    iterator->next_idx = iterator->count + 1;
    if (iterator->has_next) {
        iterator->rank.kind = DPU_SET_RANKS;
        iterator->rank.list.nr_ranks = 1;
        iterator->rank.list.ranks = &iterator->set->list.ranks[iterator->count];
    }
}

struct dpu_set_rank_iterator_t dpu_set_rank_iterator_from(struct dpu_set_t *set) {
    struct dpu_set_rank_iterator_t iterator = {.set = set};
    show_rank(&iterator);
    return iterator;
}

void dpu_set_rank_iterator_next(struct dpu_set_rank_iterator_t *iterator) {
    iterator->count++;
    show_rank(iterator);
}

static void show_dpu(struct dpu_set_dpu_iterator_t *iterator) {
    const struct dpu_set_t *set = iterator->ranks.set;
    iterator->has_next = iterator->count < sim_count_dpus(set);
    if (iterator->has_next)
        iterator->dpu = one_dpu(sim_dpu_of_set(set, iterator->count));
}

struct dpu_set_dpu_iterator_t dpu_set_dpu_iterator_from(struct dpu_set_t *set) {
    struct dpu_set_dpu_iterator_t iterator = {.ranks = {.set = set}};
    show_dpu(&iterator);
    return iterator;
}

void dpu_set_dpu_iterator_next(struct dpu_set_dpu_iterator_t *iterator) {
    iterator->count++;
    show_dpu(iterator);
}

dpu_error_t dpu_log_read(struct dpu_set_t set, FILE *stream) {
    struct sim *sim;
    dpu_error_t error = sim_enter(&set, "dpu_log_read", &sim);
    if (error != DPU_OK)
        return error;
    if (set.kind != DPU_SET_DPU)
        return sim_fail_no_set(DPU_ERR_INVALID_DPU_SET, "dpu_log_read: one DPU at a time");
    struct dpu_t *dpu = set.dpu;
    sim_wait(sim, &set);
    if (dpu->program == NULL)
        return sim_fail(sim, DPU_ERR_NO_PROGRAM_LOADED, "dpu_log_read: no program is loaded");
    fprintf(stream, "=== DPU#0x%x ===\n", dpu->index);
    if (!dpu->program->stdio)
        return sim_fail(sim, DPU_ERR_LOG_CONTEXT_MISSING, "dpu_log_read: the program never prints");
    if (dpu->log_bytes > dpu->program->log_bytes)
        return sim_fail(sim, DPU_ERR_LOG_BUFFER_TOO_SMALL,
                        "dpu_log_read: DPU %u printed %zu bytes; %u are kept", dpu->index, dpu->log_bytes,
                        dpu->program->log_bytes);
    if (dpu->log_bytes != 0 && fwrite(dpu->log, 1, dpu->log_bytes, stream) != dpu->log_bytes)
        return sim_fail(sim, DPU_ERR_SYSTEM, "dpu_log_read: cannot write");
    return DPU_OK;
}

dpu_error_t dpusim_set_tasklets(struct dpu_set_t set, uint32_t tasklets) {
    struct sim *sim;
    dpu_error_t error = sim_enter(&set, "dpusim_set_tasklets", &sim);
    if (error != DPU_OK)
        return error;
    sim_wait(sim, &sim->set);
    for (uint32_t i = 0; i < sim->nr_dpus; i++) {
        const struct dpu_program_t *program = sim->dpus[i].program;
        uint32_t most = program == NULL ? SIM_MAX_TASKLETS : program->nr_tasklets;
        if (tasklets > most)
            return sim_fail(sim, DPU_ERR_TOO_MANY_TASKLETS, "dpusim_set_tasklets: %u; the program has %u",
                            tasklets, most);
    }
    sim->profile.tasklets = tasklets;
    return DPU_OK;
}

uint64_t dpusim_seed(struct dpu_set_t set) {
    struct sim *sim = sim_of_set(&set);
    return sim == NULL ? 0 : sim->profile.seed;
}

bool dpusim_is_strict(struct dpu_set_t set) {
    struct sim *sim = sim_of_set(&set);
    return sim != NULL && sim->profile.strict;
}
