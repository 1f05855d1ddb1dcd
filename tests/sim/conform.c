/* The simulator's behaviour, case by case. conform PROGRAM CASE: exit status 0, or lines on
 * stderr that say what differs. Each case runs in a process of its own. */
#include "conform.h"

int failures;
const char *program;

struct dpu_set_t open_set(uint32_t dpus, const char *profile) {
    struct dpu_set_t set = {0};
    if (dpu_alloc(dpus, profile, &set) != DPU_OK || dpu_load(set, program, NULL) != DPU_OK) {
        fprintf(stderr, "cannot open: %s\n", dpusim_last_error(set));
        exit(2);
    }
    return set;
}

struct dpu_set_t dpu_number(struct dpu_set_t set, uint32_t wanted) {
    struct dpu_set_t dpu, found = {0};
    uint32_t i;
    DPU_FOREACH(set, dpu, i) {
        if (i == wanted)
            found = dpu;
    }
    return found;
}

dpu_error_t launch(struct dpu_set_t set, enum command command, uint64_t a, uint64_t b, uint64_t c) {
    struct args args = {command, a, b, c};
    uint64_t zeros[COUNTERS] = {0};
    OK(dpu_broadcast_to(set, "args", 0, &args, sizeof args, DPU_XFER_DEFAULT));
    if (command == COUNT || command == COUNT_RACE || command == TRY_COUNT)
        OK(dpu_broadcast_to(set, DPU_MRAM_HEAP_POINTER_NAME, 0, zeros, sizeof zeros, DPU_XFER_DEFAULT));
    return dpu_launch(set, DPU_SYNCHRONOUS);
}

uint64_t read_word(struct dpu_set_t set, uint32_t dpu, const char *name, uint32_t offset) {
    uint64_t value = 0;
    OK(dpu_copy_from(dpu_number(set, dpu), name, offset, &value, sizeof value));
    return value;
}

uint64_t heap_word(struct dpu_set_t set, uint32_t dpu, uint32_t offset) {
    return read_word(set, dpu, DPU_MRAM_HEAP_POINTER_NAME, offset);
}

void check_report(struct dpu_set_t set, const char *const *parts) {
    const char *text = dpusim_last_error(set);
    for (; *parts != NULL; parts++)
        if (strstr(text, *parts) == NULL) {
            fprintf(stderr, "'%s' is not in: %s\n", *parts, text);
            failures++;
        }
}

int main(int argc, char **argv) {
    static const struct conform_case *const tables[] = {host_cases, run_cases, api_cases};
    if (argc != 3)
        return 2;
    program = argv[1];
    for (size_t i = 0; i < 3; i++)
        for (const struct conform_case *c = tables[i]; c->name != NULL; c++)
            if (strcmp(c->name, argv[2]) == 0) {
                c->test();
                return failures != 0;
            }
    return 2;
}
