#define _GNU_SOURCE
#include "sim.h"

#include <stdarg.h>
#include <string.h>

static _Thread_local char no_set_text[SIM_TEXT];
static _Thread_local char returned_text[SIM_TEXT];

static void (*_Atomic told)(const char *line);

void sim_tell(void (*report)(const char *line)) {
    told = report;
}

static void tell(const char *text) {
    void (*report)(const char *line) = told;
    if (report != NULL)
        report(text);
}

void sim_note(struct sim *sim, const char *text) {
    snprintf(sim->error, sizeof sim->error, "%s", text);
    tell(text);
}

dpu_error_t sim_fail(struct sim *sim, dpu_error_t error, const char *format, ...) {
    char text[SIM_TEXT];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    pthread_mutex_lock(&sim->lock);
    sim_note(sim, text);
    pthread_mutex_unlock(&sim->lock);
    return error;
}

dpu_error_t sim_fail_no_set(dpu_error_t error, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(no_set_text, sizeof no_set_text, format, args);
    va_end(args);
    tell(no_set_text);
    return error;
}

const char *dpusim_last_error(struct dpu_set_t set) {
    struct sim *sim = sim_of_set(&set);
    if (sim == NULL || sim_is_foreign(sim))
        return no_set_text;
    pthread_mutex_lock(&sim->lock);
    memcpy(returned_text, sim->error, sizeof returned_text);
    pthread_mutex_unlock(&sim->lock);
    return returned_text;
}

static const char *const texts[] = {
    [DPU_OK] = "success",
    [DPU_ERR_INTERNAL] = "internal error",
    [DPU_ERR_SYSTEM] = "system error",
    [DPU_ERR_DRIVER] = "driver error",
    [DPU_ERR_ALLOCATION] = "dpu allocation error",
    [DPU_ERR_INVALID_DPU_SET] = "invalid action for this dpu set",
    [DPU_ERR_INVALID_THREAD_ID] = "invalid thread id",
    [DPU_ERR_INVALID_NOTIFY_ID] = "invalid notify id",
    [DPU_ERR_INVALID_WRAM_ACCESS] = "invalid wram access",
    [DPU_ERR_INVALID_IRAM_ACCESS] = "invalid iram access",
    [DPU_ERR_INVALID_MRAM_ACCESS] = "invalid mram access",
    [DPU_ERR_INVALID_SYMBOL_ACCESS] = "invalid memory symbol access",
    [DPU_ERR_MRAM_BUSY] = "mram is busy",
    [DPU_ERR_TRANSFER_ALREADY_SET] = "dpu transfer is already set",
    [DPU_ERR_INVALID_PARALLEL_MEMORY_TRANSFER] = "invalid parallel transfer (should be to/from WRAM)",
    [DPU_ERR_WRAM_FIFO_FULL] = "cannot push to WRAM FIFO, FIFO full",
    [DPU_ERR_NO_PROGRAM_LOADED] = "no program has been loaded in the dpu set",
    [DPU_ERR_DIFFERENT_DPU_PROGRAMS] = "cannot access symbol on dpus with different programs",
    [DPU_ERR_CORRUPTED_MEMORY] = "corrupted memory",
    [DPU_ERR_DPU_DISABLED] = "dpu is disabled",
    [DPU_ERR_DPU_ALREADY_RUNNING] = "dpu is already running",
    [DPU_ERR_INVALID_MEMORY_TRANSFER] = "invalid memory transfer",
    [DPU_ERR_INVALID_LAUNCH_POLICY] = "invalid launch policy",
    [DPU_ERR_DPU_FAULT] = "dpu is in fault",
    [DPU_ERR_ELF_INVALID_FILE] = "invalid ELF file",
    [DPU_ERR_ELF_NO_SUCH_FILE] = "no such ELF file",
    [DPU_ERR_ELF_NO_SUCH_SECTION] = "no such ELF section",
    [DPU_ERR_TIMEOUT] = "result timeout",
    [DPU_ERR_INVALID_PROFILE] = "invalid profile",
    [DPU_ERR_UNKNOWN_SYMBOL] = "undefined symbol",
    [DPU_ERR_LOG_FORMAT] = "logging format error",
    [DPU_ERR_LOG_CONTEXT_MISSING] = "logging context missing",
    [DPU_ERR_LOG_BUFFER_TOO_SMALL] = "logging buffer too small",
    [DPU_ERR_VPD_INVALID_FILE] = "invalid VPD file",
    [DPU_ERR_VPD_NO_REPAIR] = "repairs have not been generated",
    [DPU_ERR_NO_THREAD_PER_RANK] = "no thread to perform multiple-rank operation",
    [DPU_ERR_INVALID_BUFFER_SIZE] = "invalid buffer size",
    [DPU_ERR_NONBLOCKING_SYNC_CALLBACK] = "nonblocking and synchronous callback is invalid",
    [DPU_ERR_TOO_MANY_TASKLETS] = "dpu program uses more tasklets than the hardware has threads",
    [DPU_ERR_SG_TOO_MANY_BLOCKS] = "scatter/gather transfer prepare exceed max number of blocks",
    [DPU_ERR_SG_LENGTH_MISMATCH] = "scatter/gather transfer mismatch between nr bytes in blocks and length",
    [DPU_ERR_SG_NOT_ACTIVATED] = "scatter/gather transfer not activated",
    [DPU_ERR_SG_NOT_MRAM_SYMBOL] = "scatter/gather transfer unsupported symbol (must be a mram symbol)",
};

static const char *text_of(uint32_t status) {
    return status < sizeof texts / sizeof *texts ? texts[status] : "unknown error";
}

char *dpu_error_to_string(dpu_error_t status) {
    uint32_t value = (uint32_t)status;
    char text[SIM_TEXT];
    if (value & (uint32_t)DPU_ERR_ASYNC_JOBS) {
        uint32_t job = value >> 16 & 0xff;
        snprintf(text, sizeof text, "asynchronous operation error (%s): %s (0x%x)",
                 job == SIM_JOB_LAUNCH_RANK ? "launch_rank" : "copy_wram_to_matrix", text_of(value & 0xffff),
                 value & ~(uint32_t)DPU_ERR_ASYNC_JOBS);
    } else {
        snprintf(text, sizeof text, "%s", text_of(value));
    }
    return strdup(text);
}
