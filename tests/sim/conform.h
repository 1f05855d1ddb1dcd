/* What the conformance cases share: checks that count, and short forms of common steps. */
#ifndef CONFORM_H
#define CONFORM_H

#include <dpu.h>
#include <dpusim.h>

#include <string.h>

#include "calls.h"

extern int failures;
extern const char *program; /* the file */

#define CHECK(condition)                                                                                     \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition);                        \
            failures++;                                                                                      \
        }                                                                                                    \
    } while (0)

#define EXPECT(error, call)                                                                                  \
    do {                                                                                                     \
        dpu_error_t got_ = (call);                                                                           \
        if (got_ != (error)) {                                                                               \
            char *text_ = dpu_error_to_string(got_);                                                         \
            fprintf(stderr, "%s:%d: %s: %s, not %s\n", __FILE__, __LINE__, #call, text_, #error);            \
            free(text_);                                                                                     \
            failures++;                                                                                      \
        }                                                                                                    \
    } while (0)
#define OK(call) EXPECT(DPU_OK, call)

#define STRICT "strict=1,seed=7,nrDpusPerCI=8"
#define FAITHFUL "strict=0,nrDpusPerCI=8"

/* A set with the program loaded; ends the process where that fails. */
struct dpu_set_t open_set(uint32_t dpus, const char *profile);
struct dpu_set_t dpu_number(struct dpu_set_t set, uint32_t wanted);
/* One synchronous launch of calls.c; counters start at 0. */
dpu_error_t launch(struct dpu_set_t set, enum command command, uint64_t a, uint64_t b, uint64_t c);
uint64_t read_word(struct dpu_set_t set, uint32_t dpu, const char *name, uint32_t offset);
uint64_t heap_word(struct dpu_set_t set, uint32_t dpu, uint32_t offset);
/* The last error's text has all of these in it. */
void check_report(struct dpu_set_t set, const char *const *parts);
#define REPORT(set, ...) check_report(set, (const char *const[]){__VA_ARGS__, NULL})

struct conform_case {
    const char *name;
    void (*test)(void);
};
#define CASE(name) {#name, test_##name}

extern const struct conform_case host_cases[], run_cases[], api_cases[]; /* a NULL name ends them */

#endif
