/* The set of DPUs: allocation, its program, which of them are at work. */
#define _GNU_SOURCE /* dladdr */
#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "upmem.h"

#ifdef DPUSIM
#include <dpusim.h>
#endif

enum { DEFAULT_SIM_DPUS = 64 };

/* The folder of programs beside this plug-in, with room for a name: false when it's too long. */
static bool program_path(const char *name, const char *suffix, char *out, size_t size) {
    Dl_info info;
    if (dladdr(&family_ntt, &info) == 0 || info.dli_fname == NULL) {
        return false;
    }
    const char *slash = strrchr(info.dli_fname, '/');
    const int folder = slash == NULL ? 0 : (int)(slash - info.dli_fname) + 1;
    const int length = snprintf(out, size, "%.*sdpu/%s%s", folder, info.dli_fname, name, suffix);
    return length > 0 && (size_t)length < size;
}

/* Whether the environment's profiles, which the backend's would win over, have a key ("timeout="). */
static bool environment_names(const char *key) {
    static const char *const names[] = {"UPMEM_PROFILE_BASE", "UPMEM_PROFILE"};
    bool found = false;
    for (uint32_t i = 0; i < 2; i++) {
        const char *value = getenv(names[i]);
        found |= value != NULL && strstr(value, key) != NULL;
    }
    return found;
}

#ifdef DPUSIM
static bool is_strict(uint32_t strict) {
    if (strict == BFV_SIM_DEFAULT) {
        const char *mode = getenv("PYBFV_SIM");
        return mode == NULL || strcmp(mode, "faithful") != 0; /* the binding refuses other words */
    }
    return strict == BFV_SIM_STRICT;
}

/* Milliseconds for one DPU's run in strict mode: long, as real jobs are and loops have an end. */
#define STRICT_TIMEOUT "timeout=3600000,"
#endif

/* ---- which DPU it was ------------------------------------------------------------ */

static struct upmem_name name_of(const struct upmem *upmem, uint32_t at) {
    struct upmem_name name;
    const struct upmem_place *place = &upmem->places[at];
    (void)snprintf(name.text, sizeof name.text, "rank %u DPU %u (number %u of %u)", place->rank, place->index,
                   at, upmem->all);
    return name;
}

/* The place of a DPU at work. */
static uint32_t place_of(const struct upmem *upmem, uint32_t dpu) {
    uint32_t at = 0;
    while (upmem->places[at].number != dpu) {
        at++;
    }
    return at;
}

struct upmem_name upmem_name_of(const struct upmem *upmem, uint32_t dpu) {
    return name_of(upmem, place_of(upmem, dpu));
}

int upmem_blame(struct upmem *upmem, uint32_t dpu, const char *format, ...) {
    char text[256];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    upmem->places[place_of(upmem, dpu)].bad = true;
    return upmem_fail(upmem, BFV_E_BACKEND, "%s %s", upmem_name_of(upmem, dpu).text, text);
}

void upmem_blame_faulty(struct upmem *upmem) {
    struct dpu_set_t dpu;
    uint32_t at = 0, found = 0;
    DPU_FOREACH(upmem->set, dpu, at) {
        struct upmem_place *place = &upmem->places[at];
        bool done = false, fault = false;
        if (place->number != UPMEM_OUT && dpu_status(dpu, &done, &fault) == DPU_OK && fault) {
            place->bad = true;
            if (found++ == 0) {
                char said[sizeof upmem->backend->detail];
                (void)snprintf(said, sizeof said, "%s", upmem->backend->detail);
                (void)upmem_fail(upmem, BFV_E_BACKEND, "%s is in fault: %s", name_of(upmem, at).text, said);
            }
        }
    }
}

/* ---- the set --------------------------------------------------------------------- */

/* Numbers the DPUs that are at work. */
static void count_places(struct upmem *upmem) {
    upmem->dpus = 0;
    for (uint32_t at = 0; at < upmem->all; at++) {
        if (upmem->places[at].number != UPMEM_OUT) {
            upmem->places[at].number = upmem->dpus++;
        }
    }
}

/* Counts the DPUs of a fresh set, rank by rank: ranks differ where DPUs are disabled. */
static int find_places(struct upmem *upmem) {
    struct dpu_set_t rank;
    uint32_t all = 0, at = 0, number = 0;
    int status = upmem_device_status(upmem, dpu_get_nr_dpus(upmem->set, &all), "counting DPUs");
    upmem->places = status == BFV_OK ? calloc(all, sizeof *upmem->places) : NULL;
    if (upmem->places == NULL) {
        return status == BFV_OK ? BFV_E_MEMORY : status;
    }
    DPU_RANK_FOREACH(upmem->set, rank) {
        uint32_t of_rank = 0;
        if (status == BFV_OK) {
            status = upmem_device_status(upmem, dpu_get_nr_dpus(rank, &of_rank), "counting DPUs");
        }
        for (uint32_t i = 0; i < of_rank && at < all; i++, at++) {
            upmem->places[at] = (struct upmem_place){.rank = number, .index = i};
        }
        number++;
    }
    upmem->all = all;
    count_places(upmem);
    return status;
}

dpu_error_t upmem_device_start(struct upmem *upmem) {
    struct dpu_set_t rank, dpu;
    uint32_t first = 0;
    dpu_error_t error = DPU_OK;
    if (upmem->dpus == upmem->all) {
        return dpu_launch(upmem->set, DPU_ASYNCHRONOUS);
    }
    DPU_RANK_FOREACH(upmem->set, rank) { /* a rank of which one is left out: one by one */
        uint32_t count = 0, at = 0;
        bool whole = true;
        if (error == DPU_OK) {
            error = dpu_get_nr_dpus(rank, &count);
        }
        for (uint32_t i = first; i < first + count; i++) {
            whole = whole && upmem->places[i].number != UPMEM_OUT;
        }
        if (error == DPU_OK && whole) {
            error = dpu_launch(rank, DPU_ASYNCHRONOUS);
        }
        DPU_FOREACH(rank, dpu, at) {
            if (error == DPU_OK && !whole && upmem->places[first + at].number != UPMEM_OUT) {
                error = dpu_launch(dpu, DPU_ASYNCHRONOUS);
            }
        }
        first += count;
    }
    return error;
}

/* Loads the program: all DPUs, as a fault stays with a DPU until then. */
static int load_program(struct upmem *upmem) {
    struct dpu_program_t *loaded = NULL;
    struct dpu_symbol_t heap = {0};
    int status = upmem_device_status(upmem, dpu_load(upmem->set, upmem->path, &loaded), upmem->path);
    if (status != BFV_OK) {
        return BFV_E_UNSUPPORTED; /* not built, or built for another SDK */
    }
#ifdef DPUSIM
    status = upmem_device_status(upmem, dpusim_set_tasklets(upmem->set, upmem->tasklets), "setting tasklets");
#endif
    if (status == BFV_OK) {
        status = upmem_device_status(upmem, dpu_get_symbol(loaded, DPU_MRAM_HEAP_POINTER_NAME, &heap),
                                     "finding the MRAM heap");
    }
    upmem->mram.size = heap.size / BFV_ALIGN * BFV_ALIGN;
    /* Tests make MRAM small, to force rounds. */
    const char *limit = getenv("PYBFV_MRAM_LIMIT");
    if (limit != NULL) {
        const unsigned long bytes = strtoul(limit, NULL, 10) / BFV_ALIGN * BFV_ALIGN;
        upmem->mram.size = bytes < upmem->mram.size ? (uint32_t)bytes : upmem->mram.size;
    }
    return status;
}

int upmem_device_again(struct upmem *upmem, uint32_t *out) {
    uint32_t bad = 0;
    for (uint32_t at = 0; at < upmem->all; at++) {
        bad += upmem->places[at].number != UPMEM_OUT && upmem->places[at].bad;
    }
    for (uint32_t at = 0; at < upmem->all; at++) {
        if (upmem->places[at].bad && bad < upmem->dpus) {
            upmem->places[at].number = UPMEM_OUT;
        }
        upmem->places[at].bad = false;
    }
    *out = bad < upmem->dpus ? bad : 0;
    count_places(upmem);
    mram_close(&upmem->mram);
    upmem->running = false;
    upmem->left = (struct upmem_left){0};
    (void)dpu_sync(upmem->set); /* its error has been told */
    (void)dpu_prepare_xfer(upmem->set, NULL);
    return load_program(upmem);
}

/* Why no DPUs were given: more than there are, or none that is free. */
static int refuse_number(struct upmem *upmem, dpu_error_t error, uint32_t wanted, const char *profile) {
    uint32_t exist = 0;
    (void)upmem_device_status(upmem, error, "allocating DPUs");
    if (error == DPU_ERR_ALLOCATION && wanted != DPU_ALLOCATE_ALL &&
        dpu_alloc(DPU_ALLOCATE_ALL, profile, &upmem->set) == DPU_OK) {
        (void)dpu_get_nr_dpus(upmem->set, &exist);
        (void)dpu_free(upmem->set);
    }
    upmem->set = (struct dpu_set_t){0};
    if (exist != 0) {
        return upmem_fail(upmem, BFV_E_ARGUMENT,
                          "%u DPUs were asked for, this machine gives %u: give --dpus all or --dpus %u",
                          wanted, exist, exist);
    }
    if (error == DPU_ERR_ALLOCATION) {
        return upmem_fail(
            upmem, BFV_E_UNSUPPORTED,
            "no DPU is free: other programs hold them, or there is none; try again later, or ask "
            "for fewer");
    }
    return error == DPU_ERR_INVALID_PROFILE ? BFV_E_ARGUMENT : BFV_E_UNSUPPORTED;
}

int upmem_device_open(struct upmem *upmem, const bfv_options *options, const char *program) {
    char profile[512], path[4096];
    const char *user = options->profile == NULL ? "" : options->profile;
    const char *comma = user[0] == '\0' ? "" : ",";
#ifdef DPUSIM
    const bool strict = is_strict(options->strict);
    const char *suffix = strict ? ".strict.so" : ".sim.so";
    const char *timeout = strict && !environment_names("timeout=") ? STRICT_TIMEOUT : "";
    const int length = snprintf(profile, sizeof profile, "backend=simulator,nrDpusPerCI=8,%sstrict=%d%s%s",
                                timeout, strict, comma, user); /* the user's come last and win */
    const bool sized = environment_names("nrRanks=") || strstr(user, "nrRanks=") != NULL;
    const uint32_t wanted = options->dpus != 0 ? options->dpus
                            : sized            ? DPU_ALLOCATE_ALL
                                               : (uint32_t)DEFAULT_SIM_DPUS;
#else
    const char *suffix = ".dpu";
    /* hardware, unless it is the vendor's simulator that the environment asks for */
    const char *backend = environment_names("backend=") ? "" : "backend=hw";
    const int length =
        snprintf(profile, sizeof profile, "%s%s%s", backend, backend[0] == '\0' ? "" : comma, user);
    const uint32_t wanted = options->dpus == 0 ? DPU_ALLOCATE_ALL : options->dpus;
#endif
    if (length < 0 || (size_t)length >= sizeof profile) {
        return upmem_fail(upmem, BFV_E_ARGUMENT, "the profile is too long");
    }
    if (!program_path(program, suffix, path, sizeof path)) {
        return upmem_fail(upmem, BFV_E_UNSUPPORTED, "the folder of the DPU programs can't be found");
    }
    upmem->path = strdup(path);
    if (upmem->path == NULL) {
        return BFV_E_MEMORY;
    }
    const dpu_error_t error = dpu_alloc(wanted, profile, &upmem->set);
    if (error != DPU_OK) {
        return refuse_number(upmem, error, wanted, profile);
    }
    upmem->allocated = true;
    int status = find_places(upmem);
    if (status == BFV_OK) {
        status = load_program(upmem);
    }
    if (status == BFV_OK) {
        upmem->args = calloc(upmem->all, sizeof *upmem->args);
        upmem->reports = calloc(upmem->all, sizeof *upmem->reports);
        status = upmem->args == NULL || upmem->reports == NULL ? BFV_E_MEMORY : BFV_OK;
    }
    return status;
}

void upmem_device_close(struct upmem *upmem) {
    if (upmem->allocated) {
        (void)dpu_free(upmem->set);
    }
    mram_close(&upmem->mram);
    for (uint32_t i = 0; i < UPMEM_STAGES; i++) {
        buffer_free(upmem->stage[i]);
    }
    free(upmem->args);
    free(upmem->reports);
    free(upmem->record.events);
    free(upmem->places);
    free(upmem->path);
}
