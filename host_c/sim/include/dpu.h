/* The host interface of the UPMEM SDK, 2021.3 to 2025.1, served by the functional simulator of this
 * folder. Source that includes it compiles against the SDK's own <dpu.h> too. Written from the
 * interface's description; numbers of error codes are nobody's business, their names are stable. Every
 * call may come from any one thread at a time. */
#ifndef DPU_H
#define DPU_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define DPUSIM 1 /* the SDK's header hasn't it */

#define DPU_ALLOCATE_ALL UINT_MAX
#define DPU_MAX_NR_CIS 8
#define DPU_MAX_NR_DPUS_PER_CI 8
#define DPU_MRAM_HEAP_POINTER_NAME "__sys_used_mram_end"

typedef enum dpu_error_t {
    DPU_OK = 0,
    DPU_ERR_INTERNAL,
    DPU_ERR_SYSTEM,
    DPU_ERR_DRIVER,
    DPU_ERR_ALLOCATION,
    DPU_ERR_INVALID_DPU_SET,
    DPU_ERR_INVALID_THREAD_ID,
    DPU_ERR_INVALID_NOTIFY_ID,
    DPU_ERR_INVALID_WRAM_ACCESS,
    DPU_ERR_INVALID_IRAM_ACCESS,
    DPU_ERR_INVALID_MRAM_ACCESS,
    DPU_ERR_INVALID_SYMBOL_ACCESS,
    DPU_ERR_MRAM_BUSY,
    DPU_ERR_TRANSFER_ALREADY_SET,
    DPU_ERR_INVALID_PARALLEL_MEMORY_TRANSFER,
    DPU_ERR_WRAM_FIFO_FULL,
    DPU_ERR_NO_PROGRAM_LOADED,
    DPU_ERR_DIFFERENT_DPU_PROGRAMS,
    DPU_ERR_CORRUPTED_MEMORY,
    DPU_ERR_DPU_DISABLED,
    DPU_ERR_DPU_ALREADY_RUNNING,
    DPU_ERR_INVALID_MEMORY_TRANSFER,
    DPU_ERR_INVALID_LAUNCH_POLICY,
    DPU_ERR_DPU_FAULT,
    DPU_ERR_ELF_INVALID_FILE,
    DPU_ERR_ELF_NO_SUCH_FILE,
    DPU_ERR_ELF_NO_SUCH_SECTION,
    DPU_ERR_TIMEOUT,
    DPU_ERR_INVALID_PROFILE,
    DPU_ERR_UNKNOWN_SYMBOL,
    DPU_ERR_LOG_FORMAT,
    DPU_ERR_LOG_CONTEXT_MISSING,
    DPU_ERR_LOG_BUFFER_TOO_SMALL,
    DPU_ERR_VPD_INVALID_FILE,
    DPU_ERR_VPD_NO_REPAIR,
    DPU_ERR_NO_THREAD_PER_RANK,
    DPU_ERR_INVALID_BUFFER_SIZE,
    DPU_ERR_NONBLOCKING_SYNC_CALLBACK,
    DPU_ERR_TOO_MANY_TASKLETS,
    DPU_ERR_SG_TOO_MANY_BLOCKS,
    DPU_ERR_SG_LENGTH_MISMATCH,
    DPU_ERR_SG_NOT_ACTIVATED,
    DPU_ERR_SG_NOT_MRAM_SYMBOL,
    DPU_ERR_ASYNC_JOBS = 1u << 31, /* with the job's type in bits 16..23 and its error in 0..15 */
} dpu_error_t;

typedef enum { DPU_ASYNCHRONOUS = 0, DPU_SYNCHRONOUS = 1 } dpu_launch_policy_t;
typedef enum { DPU_XFER_TO_DPU = 0, DPU_XFER_FROM_DPU = 1 } dpu_xfer_t;
typedef enum {
    DPU_XFER_DEFAULT = 0,
    DPU_XFER_NO_RESET = 1 << 0,
    DPU_XFER_ASYNC = 1 << 1, /* buffers are borrowed until dpu_sync */
    DPU_XFER_PARALLEL = 1 << 2,
} dpu_xfer_flags_t;

typedef enum {
    DPU_SG_XFER_DEFAULT = 0,
    DPU_SG_XFER_ASYNC = 1 << 1,
    DPU_SG_XFER_DISABLE_LENGTH_CHECK = 1 << 2, /* less than length: the rest of MRAM is zeroed */
} dpu_sg_xfer_flags_t;
typedef enum {
    DPU_CALLBACK_DEFAULT = 0, /* called before dpu_callback returns, once for each rank */
    DPU_CALLBACK_ASYNC = 1 << 0,
    DPU_CALLBACK_NONBLOCKING = 1 << 1, /* what follows doesn't wait for it */
    DPU_CALLBACK_SINGLE_CALL = 1 << 2, /* once for the set */
    DPU_CALLBACK_PARALLEL = 1 << 3,
} dpu_callback_flags_t;

struct dpu_t;
struct dpu_rank_t;
struct dpu_program_t;
struct dpu_fifo_link_t;

struct dpu_incbin_t {
    uint8_t *buffer;
    size_t size;
    const char *path;
};

struct sg_block_info {
    uint8_t *addr;
    uint32_t length;
};
/* Block block_index of DPU dpu_index (as DPU_FOREACH counts), or false: there are no more. */
typedef bool (*get_block_func_t)(struct sg_block_info *out, uint32_t dpu_index, uint32_t block_index,
                                 void *args);
typedef struct get_block_t {
    get_block_func_t f;
    void *args; /* args_size bytes are copied at the call */
    size_t args_size;
} get_block_t;

struct dpu_symbol_t {
    uint32_t address; /* MRAM: 0x08000000 + offset */
    uint32_t size;
};

struct dpu_set_t {
    enum { DPU_SET_RANKS, DPU_SET_DPU } kind;
    union {
        struct {
            uint32_t nr_ranks;
            struct dpu_rank_t **ranks;
        } list;
        struct dpu_t *dpu;
    };
};

struct dpu_set_rank_iterator_t {
    struct dpu_set_t *set;
    uint32_t next_idx;
    uint32_t count; /* ranks before the current one */
    bool has_next;
    struct dpu_set_t rank;
};

struct dpu_set_dpu_iterator_t {
    struct dpu_set_rank_iterator_t ranks;
    uint32_t count; /* DPUs before the current one */
    bool has_next;
    struct dpu_set_t dpu;
};

#ifdef __cplusplus
extern "C" {
#endif

/* profile: "key=value,..." or NULL; the keys are in the README. */
dpu_error_t dpu_alloc(uint32_t nr_dpus, const char *profile, struct dpu_set_t *dpu_set);
dpu_error_t dpu_alloc_ranks(uint32_t nr_ranks, const char *profile, struct dpu_set_t *dpu_set);
dpu_error_t dpu_free(struct dpu_set_t dpu_set);
dpu_error_t dpu_get_nr_ranks(struct dpu_set_t dpu_set, uint32_t *nr_ranks);
dpu_error_t dpu_get_nr_dpus(struct dpu_set_t dpu_set, uint32_t *nr_dpus);

/* binary_path: a program built natively against host_c/sim/device. program may be NULL. */
dpu_error_t dpu_load(struct dpu_set_t dpu_set, const char *binary_path, struct dpu_program_t **program);
dpu_error_t dpu_load_from_memory(struct dpu_set_t dpu_set, uint8_t *buffer, size_t buffer_size,
                                 struct dpu_program_t **program);
dpu_error_t dpu_load_from_incbin(struct dpu_set_t dpu_set, struct dpu_incbin_t *incbin,
                                 struct dpu_program_t **program);
dpu_error_t dpu_get_symbol(struct dpu_program_t *program, const char *symbol_name,
                           struct dpu_symbol_t *symbol);

dpu_error_t dpu_launch(struct dpu_set_t dpu_set, dpu_launch_policy_t policy);
dpu_error_t dpu_status(struct dpu_set_t dpu_set, bool *done, bool *fault);
dpu_error_t dpu_sync(struct dpu_set_t dpu_set);

dpu_error_t dpu_copy_to(struct dpu_set_t dpu_set, const char *symbol_name, uint32_t symbol_offset,
                        const void *src, size_t length);
dpu_error_t dpu_copy_from(struct dpu_set_t dpu_set, const char *symbol_name, uint32_t symbol_offset,
                          void *dst, size_t length);
dpu_error_t dpu_copy_to_symbol(struct dpu_set_t dpu_set, struct dpu_symbol_t symbol, uint32_t symbol_offset,
                               const void *src, size_t length);
dpu_error_t dpu_copy_from_symbol(struct dpu_set_t dpu_set, struct dpu_symbol_t symbol, uint32_t symbol_offset,
                                 void *dst, size_t length);

dpu_error_t dpu_prepare_xfer(struct dpu_set_t dpu_set, void *buffer);
dpu_error_t dpu_push_xfer(struct dpu_set_t dpu_set, dpu_xfer_t xfer, const char *symbol_name,
                          uint32_t symbol_offset, size_t length, dpu_xfer_flags_t flags);
dpu_error_t dpu_push_xfer_symbol(struct dpu_set_t dpu_set, dpu_xfer_t xfer, struct dpu_symbol_t symbol,
                                 uint32_t symbol_offset, size_t length, dpu_xfer_flags_t flags);
dpu_error_t dpu_broadcast_to(struct dpu_set_t dpu_set, const char *symbol_name, uint32_t symbol_offset,
                             const void *src, size_t length, dpu_xfer_flags_t flags);
dpu_error_t dpu_broadcast_to_symbol(struct dpu_set_t dpu_set, struct dpu_symbol_t symbol,
                                    uint32_t symbol_offset, const void *src, size_t length,
                                    dpu_xfer_flags_t flags);

/* Profile: sgXferEnable=true,sgXferMaxBlocksPerDpu=n. */
dpu_error_t dpu_push_sg_xfer(struct dpu_set_t dpu_set, dpu_xfer_t xfer, const char *symbol_name,
                             uint32_t symbol_offset, size_t length, get_block_t *get_block_info,
                             dpu_sg_xfer_flags_t flags);
dpu_error_t dpu_push_sg_xfer_symbol(struct dpu_set_t dpu_set, dpu_xfer_t xfer, struct dpu_symbol_t symbol,
                                    uint32_t symbol_offset, size_t length, get_block_t *get_block_info,
                                    dpu_sg_xfer_flags_t flags);

/* callback(rank, its index, args), in order with the set's other operations. It may use its own rank. */
dpu_error_t dpu_callback(struct dpu_set_t dpu_set,
                         dpu_error_t (*callback)(struct dpu_set_t, uint32_t, void *), void *args,
                         dpu_callback_flags_t flags);

/* FIFOs are not simulated: DPU_ERR_INTERNAL. */
dpu_error_t dpu_fifo_prepare_xfer(struct dpu_set_t dpu_set, struct dpu_fifo_link_t *fifo_link, void *buffer);
dpu_error_t dpu_fifo_push_xfer(struct dpu_set_t dpu_set, struct dpu_fifo_link_t *fifo_link,
                               dpu_xfer_flags_t flags);

dpu_error_t dpu_log_read(struct dpu_set_t set, FILE *stream);
char *dpu_error_to_string(dpu_error_t status); /* the caller frees it */

struct dpu_set_rank_iterator_t dpu_set_rank_iterator_from(struct dpu_set_t *set);
void dpu_set_rank_iterator_next(struct dpu_set_rank_iterator_t *iterator);
struct dpu_set_dpu_iterator_t dpu_set_dpu_iterator_from(struct dpu_set_t *set);
void dpu_set_dpu_iterator_next(struct dpu_set_dpu_iterator_t *iterator);

#ifdef __cplusplus
}
#endif

#define DPUSIM_PASTE_(a, b) a##b
#define DPUSIM_PASTE(a, b) DPUSIM_PASTE_(a, b)
#define DPUSIM_ITERATOR DPUSIM_PASTE(dpusim_iterator_, __LINE__)
#define DPUSIM_THIRD(a, b, c, name, ...) name

#define DPUSIM_LOOP(kind, set, one, on_each)                                                                 \
    for (struct dpu_set_##kind##_iterator_t DPUSIM_ITERATOR = dpu_set_##kind##_iterator_from(&(set));        \
         DPUSIM_ITERATOR.has_next ? ((one) = DPUSIM_ITERATOR.kind, on_each, true) : false;                   \
         dpu_set_##kind##_iterator_next(&DPUSIM_ITERATOR))

#define DPUSIM_DPU_LOOP(set, one) DPUSIM_LOOP(dpu, set, one, (void)0)
#define DPUSIM_DPU_LOOP_INDEX(set, one, index) DPUSIM_LOOP(dpu, set, one, (index) = DPUSIM_ITERATOR.count)
#define DPUSIM_RANK_LOOP(set, one) DPUSIM_LOOP(rank, set, one, (void)0)
#define DPUSIM_RANK_LOOP_INDEX(set, one, index) DPUSIM_LOOP(rank, set, one, (index) = DPUSIM_ITERATOR.count)

/* (set, one[, index]): every DPU, rank by rank; every rank. All are lvalues. */
#define DPU_FOREACH(...)                                                                                     \
    DPUSIM_THIRD(__VA_ARGS__, DPUSIM_DPU_LOOP_INDEX, DPUSIM_DPU_LOOP, unused)(__VA_ARGS__)
#define DPU_RANK_FOREACH(...)                                                                                \
    DPUSIM_THIRD(__VA_ARGS__, DPUSIM_RANK_LOOP_INDEX, DPUSIM_RANK_LOOP, unused)(__VA_ARGS__)

/* struct dpu_incbin_t name: the file, as the build finds it. */
#define DPU_INCBIN(name, file)                                                                               \
    extern struct dpu_incbin_t name;                                                                         \
    __asm__(".pushsection .data\n.balign 8\n"                                                                \
            ".globl " #name "\n" #name ":\n.quad 1f\n.quad 2f - 1f\n.quad 3f\n"                              \
            "1: .incbin \"" file "\"\n2:\n3: .asciz \"" file "\"\n.popsection");

#define DPU_CHECK(statement, on_error)                                                                       \
    do {                                                                                                     \
        dpu_error_t dpusim_status = (statement);                                                             \
        if (dpusim_status != DPU_OK) {                                                                       \
            char *dpusim_text = dpu_error_to_string(dpusim_status);                                          \
            fprintf(stderr, "%s:%d(%s): DPU Error (%s)\n", __FILE__, __LINE__, __func__, dpusim_text);       \
            free(dpusim_text);                                                                               \
            on_error;                                                                                        \
        }                                                                                                    \
    } while (0)

#define DPU_ASSERT(statement) DPU_CHECK(statement, exit(EXIT_FAILURE))

#endif
