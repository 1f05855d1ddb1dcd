/* Profiles: "key=value,..." in the environment (UPMEM_PROFILE_BASE, UPMEM_PROFILE) and in the
 * call; later ones win. Keys that nobody knows are ignored, as the SDK does. */
#define _GNU_SOURCE
#include "sim.h"

#include <errno.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>

/* Far above any real launch: it ends what would never end. */
#define STRICT_TIME_OUT_MS (30 * 60 * 1000)

static bool number(const char *text, uint64_t least, uint64_t most, uint64_t *out) {
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 0);
    if (*text == '\0' || *text == '-' || *end != '\0' || errno != 0 || value < least || value > most)
        return false;
    *out = value;
    return true;
}

static const char *_Atomic drop_in_base;

void dpusim_drop_in(const char *base_profile, void (*report)(const char *line)) {
    drop_in_base = base_profile;
    sim_tell(report);
}

struct draft {
    char backend[32], chip[16], sg[8];
    uint64_t strict, threads, dpus_per_ci, cis, disabled, tasklets, workers, time_out, seed, sg_blocks;
    uint64_t ranks;
    bool timed;
    struct sim_injections injections;
};

static dpu_error_t set_key(struct draft *draft, const char *key, const char *value) {
    const struct {
        const char *key;
        uint64_t *out, least, most;
    } numbers[] = {
        {"strict", &draft->strict, 0, 1},
        {"threads", &draft->threads, 0, 1},
        {"nrDpusPerCI", &draft->dpus_per_ci, 1, DPU_MAX_NR_DPUS_PER_CI},
        {"nrRanks", &draft->ranks, 0, SIM_MAX_DPUS},
        {"nrCIs", &draft->cis, 1, DPU_MAX_NR_CIS},
        {"disabledMask", &draft->disabled, 0, UINT64_MAX},
        {"tasklets", &draft->tasklets, 1, SIM_MAX_TASKLETS},
        {"workers", &draft->workers, 1, SIM_MAX_DPUS},
        {"timeout", &draft->time_out, 0, UINT32_MAX},
        {"seed", &draft->seed, 0, UINT64_MAX},
        {"sgXferMaxBlocksPerDpu", &draft->sg_blocks, 1, UINT32_MAX},
    };
    const struct {
        const char *key;
        char *out;
        size_t bytes;
    } texts[] = {
        {"backend", draft->backend, sizeof draft->backend},
        {"chip", draft->chip, sizeof draft->chip},
        {"sgXferEnable", draft->sg, sizeof draft->sg},
    };
    if (strcmp(key, "inject") == 0 && !sim_inject_read(value, &draft->injections))
        return sim_fail_no_set(DPU_ERR_INVALID_PROFILE,
                               "profile: inject=%s is not KIND:DPU@LAUNCH, up to %d of them with / between",
                               value, SIM_INJECTIONS);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (strcasecmp(key, texts[i].key) == 0)
            snprintf(texts[i].out, texts[i].bytes, "%s", value);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        if (strcmp(key, numbers[i].key) != 0)
            continue;
        if (!number(value, numbers[i].least, numbers[i].most, numbers[i].out))
            return sim_fail_no_set(DPU_ERR_INVALID_PROFILE,
                                   "profile: %s=%s is not a number from %llu to %llu", key, value,
                                   (unsigned long long)numbers[i].least, (unsigned long long)numbers[i].most);
        draft->timed |= numbers[i].out == &draft->time_out;
    }
    return DPU_OK;
}

static dpu_error_t read_text(struct draft *draft, const char *profile) {
    char text[1024], *rest = text;
    if (profile == NULL || *profile == '\0')
        return DPU_OK;
    if (strlen(profile) >= sizeof text)
        return sim_fail_no_set(DPU_ERR_INVALID_PROFILE, "profile: more than %zu characters", sizeof text - 1);
    strcpy(text, profile);
    for (char *item; (item = strsep(&rest, ",")) != NULL;) {
        char *value = strchr(item, '=');
        if (value == NULL)
            return sim_fail_no_set(DPU_ERR_INVALID_PROFILE, "profile: '%s' has no '='", item);
        *value++ = '\0';
        dpu_error_t error = set_key(draft, item, value);
        if (error != DPU_OK)
            return error;
    }
    return DPU_OK;
}

dpu_error_t sim_profile_read(const char *profile, struct sim_profile *out) {
    struct draft draft = {.backend = "simulator",
                          .strict = 1,
                          .dpus_per_ci = 1,
                          .cis = 1,
                          .chip = "v1A",
                          .sg_blocks = 64,
                          .ranks = SIM_ANY_RANKS};
    dpu_error_t error = read_text(&draft, drop_in_base);
    if (error == DPU_OK)
        error = read_text(&draft, getenv("UPMEM_PROFILE_BASE"));
    if (error == DPU_OK)
        error = read_text(&draft, getenv("UPMEM_PROFILE"));
    if (error == DPU_OK)
        error = read_text(&draft, profile);
    if (error != DPU_OK)
        return error;
    if (strcmp(draft.backend, "hw") == 0)
        return sim_fail_no_set(DPU_ERR_ALLOCATION, "profile: backend=hw, and this library is the simulator");
    if (strcmp(draft.backend, "simulator") != 0)
        return sim_fail_no_set(DPU_ERR_INVALID_PROFILE, "profile: backend=%s is unknown", draft.backend);
    bool small = strcasecmp(draft.chip, "v1B") == 0;
    if (!small && strcasecmp(draft.chip, "v1A") != 0)
        return sim_fail_no_set(DPU_ERR_INVALID_PROFILE, "profile: chip=%s is neither v1A nor v1B",
                               draft.chip);
    uint32_t rank_size = (uint32_t)(draft.dpus_per_ci * draft.cis);
    uint64_t all = rank_size == 64 ? UINT64_MAX : (UINT64_C(1) << rank_size) - 1;
    if ((draft.disabled & all) == all)
        return sim_fail_no_set(DPU_ERR_INVALID_PROFILE,
                               "profile: disabledMask leaves no DPU in the first rank");
    const bool seeded = draft.seed != 0;
    if (!seeded && getrandom(&draft.seed, sizeof draft.seed, 0) != sizeof draft.seed)
        return sim_fail_no_set(DPU_ERR_SYSTEM, "profile: no random seed: %s", strerror(errno));
    *out = (struct sim_profile){
        .strict = draft.strict != 0,
        .threads = draft.threads != 0,
        .rank_size = rank_size,
        .disabled = draft.disabled & all,
        .tasklets = (uint32_t)draft.tasklets,
        .workers = (uint32_t)draft.workers,
        .chip_threads = small ? 16 : SIM_MAX_TASKLETS,
        .chip_wram = small ? 63488 : SIM_WRAM_BYTES,
        .sg_blocks =
            strcasecmp(draft.sg, "true") == 0 || strcmp(draft.sg, "1") == 0 ? (uint32_t)draft.sg_blocks : 0,
        .ranks = (uint32_t)draft.ranks,
        .injections = draft.injections,
        .time_out_ms = draft.timed         ? (uint32_t)draft.time_out
                       : draft.strict != 0 ? STRICT_TIME_OUT_MS
                                           : 0,
        /* short enough to be copied by hand; never 0, which stands for none */
        .seed = seeded ? draft.seed : 1 + draft.seed % 999999999,
    };
    return DPU_OK;
}
