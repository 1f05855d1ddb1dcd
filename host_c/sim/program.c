/* Programs: files, loaded once for each worker; their symbols. */
#define _GNU_SOURCE
#include "image.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Of native code with a call at each block and a check at each access, for one instruction of a DPU. */
#define SIM_BYTES_AN_INSTRUCTION 5

uint32_t sim_section_bytes(struct dpusim_range range) {
    return range.start == NULL ? 0 : (uint32_t)(range.stop - range.start);
}

static uint32_t round_up(uint32_t value, uint32_t step) {
    return (value + step - 1) / step * step;
}

uint32_t sim_tasklets(const struct dpu_t *dpu) {
    uint32_t chosen = dpu->sim->profile.tasklets;
    return chosen != 0 ? chosen : dpu->program->nr_tasklets;
}

uint32_t sim_wram_bytes(const struct dpu_program_t *program) {
    uint32_t built = program->wram_bytes, chip = program->sim->profile.chip_wram;
    return built < chip ? built : chip;
}

uint32_t sim_heap_start(const struct dpu_program_t *program, uint32_t tasklets) {
    uint64_t used = SIM_NULL_WORD + (uint64_t)program->static_bytes, all = sim_wram_bytes(program);
    for (uint32_t i = 0; i < tasklets; i++)
        used += program->stack_size[i] + 8;
    used = (used + 7) & ~UINT64_C(7);
    /* not more aligned than promised: a program that needs 16 shall find out */
    if (program->sim->profile.strict && used % 16 == 0)
        used += 8;
    return used > all ? (uint32_t)all : (uint32_t)used;
}

static void program_free(struct dpu_program_t *program) {
    for (uint32_t i = 0; i < program->count; i++)
        sim_image_unload(&program->instances[i]);
    free(program->file);
    free(program);
}

void sim_program_release(struct dpu_t *dpu) {
    struct dpu_program_t *program = dpu->program;
    free(dpu->image);
    dpu->image = NULL;
    dpu->program = NULL;
    if (program == NULL || --program->users != 0)
        return;
    struct dpu_program_t **at = &dpu->sim->programs;
    while (*at != program)
        at = &(*at)->next;
    *at = program->next;
    program_free(program);
}

static dpu_error_t read_file(struct sim *sim, const char *path, uint8_t **bytes, size_t *count) {
    int fd = path == NULL ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    struct stat status;
    if (fd < 0 || fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) {
        dpu_error_t error = sim_fail(sim, DPU_ERR_SYSTEM, "dpu_load: %s: %s", path == NULL ? "(null)" : path,
                                     fd < 0 ? strerror(errno) : "not a file");
        if (fd >= 0)
            close(fd);
        return error;
    }
    size_t size = (size_t)status.st_size, at = 0;
    uint8_t *buffer = malloc(size + 1);
    while (buffer != NULL && at < size) {
        ssize_t n = read(fd, buffer + at, size - at);
        if (n <= 0)
            break;
        at += (size_t)n;
    }
    close(fd);
    if (buffer == NULL || at < size) {
        free(buffer);
        return sim_fail(sim, DPU_ERR_SYSTEM, "dpu_load: %s: cannot read it", path);
    }
    *bytes = buffer;
    *count = size;
    return DPU_OK;
}

/* What the simulator must know of a loaded file. */
static void describe(struct dpu_program_t *program) {
    const struct instance *instance = &program->instances[0];
    ElfW(Shdr) section;
    ElfW(Sym) symbol;
    program->nr_tasklets = instance->program->nr_tasklets;
    program->wram_bytes = instance->program->wram_bytes;
    memcpy(program->stack_size, instance->program->stack_size, sizeof program->stack_size);
    program->linked = instance->program->linked != 0;
    program->static_bytes = (uint32_t)sim_elf_static_bytes(program);
    program->stdio = sim_elf_symbol(program, "dpusim_print", &symbol);
    program->log_bytes = SIM_LOG_BYTES;
    if (sim_elf_symbol(program, "dpusim_stdout_bytes", &symbol))
        memcpy(&program->log_bytes, (const void *)(instance->bias + symbol.st_value), sizeof(uint32_t));
    if (sim_elf_section(program, "dpu_host", &section)) {
        uintptr_t host = instance->bias + section.sh_addr;
        uint64_t before = 0;
        for (size_t i = 0; i < sizeof instance->data / sizeof *instance->data; i++) {
            uintptr_t start = (uintptr_t)instance->data[i].start;
            if (host >= start && host < start + instance->data[i].bytes)
                program->host_offset = before + (host - start);
            before += instance->data[i].bytes;
        }
    }
    if (sim_elf_section(program, "dpu_mram", &section)) {
        program->mram_bytes = program->mram_initial = (uint32_t)section.sh_size;
        program->mram_offset = section.sh_offset;
    }
    uint64_t start = program->mram_bytes == 0 ? 0 : section.sh_addr;
    if (sim_elf_section(program, "dpu_mram_noinit", &section))
        program->mram_bytes =
            (uint32_t)(section.sh_addr + section.sh_size - (start == 0 ? section.sh_addr : start));
    if (program->stdio && program->linked)
        program->mram_bytes =
            round_up(program->mram_bytes, 8) + program->log_bytes; /* where the DPU's printf writes */
    program->mram_bytes = round_up(program->mram_bytes, 8);
}

void dpusim_program_sizes(const struct dpu_program_t *program, struct dpusim_sizes *out) {
    ElfW(Shdr) text;
    bool small = sim_wram_bytes(program) < SIM_WRAM_BYTES;
    *out = (struct dpusim_sizes){
        .instructions =
            sim_elf_section(program, ".text", &text) ? (uint32_t)text.sh_size / SIM_BYTES_AN_INSTRUCTION : 0,
        .all_instructions = small ? 3968 : 4096,
        .wram_static = SIM_NULL_WORD + program->static_bytes,
        .wram = sim_wram_bytes(program),
        .mram = program->mram_bytes,
        .all_mram = SIM_MRAM_BYTES,
    };
    for (uint32_t i = 0; i < program->nr_tasklets; i++)
        out->wram_stacks += program->stack_size[i] + 8;
}

static dpu_error_t check_size(const struct dpu_program_t *program, const char *name) {
    struct sim *sim = program->sim;
    uint32_t most = program->nr_tasklets, wanted = sim->profile.tasklets;
    if (most > sim->profile.chip_threads || wanted > most)
        return sim_fail(sim, DPU_ERR_TOO_MANY_TASKLETS,
                        "dpu_load: %s: %u tasklets; the program has %u, a DPU %u", name, wanted, most,
                        sim->profile.chip_threads);
    uint32_t tasklets = wanted != 0 ? wanted : most;
    if (sim_heap_start(program, tasklets) == sim_wram_bytes(program)) {
        uint64_t stacks = 0;
        for (uint32_t i = 0; i < tasklets; i++)
            stacks += program->stack_size[i] + 8;
        return sim_fail(sim, DPU_ERR_ELF_INVALID_FILE,
                        "dpu_load: %s: %u bytes of variables and %llu of %u stacks fill WRAM's %u bytes",
                        name, SIM_NULL_WORD + program->static_bytes, (unsigned long long)stacks, tasklets,
                        sim_wram_bytes(program));
    }
    if (program->mram_bytes > SIM_MRAM_BYTES)
        return sim_fail(sim, DPU_ERR_ELF_INVALID_FILE, "dpu_load: %s: its data overflow MRAM", name);
    return DPU_OK;
}

/* Takes the bytes. */
static dpu_error_t load_program(struct sim *sim, const char *name, uint8_t *bytes, size_t count,
                                struct dpu_program_t **out) {
    const char *unfit = count < SELFMAG || memcmp(bytes, ELFMAG, SELFMAG) != 0 ? "not an ELF file"
                        : !sim_elf_is_complete(bytes, count) ? "a truncated or damaged ELF file"
                                                             : NULL;
    if (unfit != NULL) {
        free(bytes);
        return sim_fail(sim, DPU_ERR_ELF_INVALID_FILE, "dpu_load: %s: %s", name, unfit);
    }
    struct dpu_program_t *program = calloc(1, sizeof *program + sim->nr_workers * sizeof(struct instance));
    if (program == NULL) {
        free(bytes);
        return sim_fail(sim, DPU_ERR_SYSTEM, "dpu_load: out of memory");
    }
    program->sim = sim;
    program->file = bytes;
    program->file_bytes = count;
    program->count = sim->nr_workers;
    for (uint32_t i = 0; i < program->count; i++)
        program->instances[i].fd = -1;
    dpu_error_t error = DPU_OK;
    char why[SIM_TEXT];
    for (uint32_t i = 0; i < program->count && error == DPU_OK; i++)
        if (!sim_image_load(program, &program->instances[i], why))
            error = sim_fail(sim, DPU_ERR_ELF_INVALID_FILE, "dpu_load: %s: %s", name, why);
    if (error == DPU_OK) {
        describe(program);
        error = check_size(program, name);
    }
    if (error != DPU_OK) {
        program_free(program);
        return error;
    }
    *out = program;
    return DPU_OK;
}

static void start_dpu(struct dpu_t *dpu, struct dpu_program_t *program, uint8_t *image) {
    sim_program_release(dpu);
    dpu->program = program;
    dpu->image = image;
    dpu->fault = DPU_OK;
    free(dpu->log); /* another program's may be of another size */
    dpu->log = NULL;
    dpu->log_bytes = 0;
    dpu->heap = sim_heap_start(program, sim_tasklets(dpu));
    if (dpu->sim->profile.strict)
        memset(dpu->wram, (int)SIM_POISON, SIM_WRAM_BYTES);
    if (program->mram_initial != 0)
        memcpy(dpu->mram, program->file + program->mram_offset, program->mram_initial);
}

/* Takes the bytes. */
static dpu_error_t load(struct sim *sim, const struct dpu_set_t *set, const char *name, uint8_t *bytes,
                        size_t length, struct dpu_program_t **out) {
    struct dpu_program_t *program = NULL;
    dpu_error_t error = load_program(sim, name, bytes, length, &program);
    if (error != DPU_OK)
        return error;
    uint32_t count = sim_count_dpus(set);
    uint8_t **images = calloc(count, sizeof *images);
    bool complete = images != NULL;
    for (uint32_t i = 0; i < count && complete; i++) {
        const struct instance *instance = &program->instances[sim_dpu_of_set(set, i)->worker];
        images[i] = malloc(sim_data_bytes(instance) + 1);
        complete = images[i] != NULL;
        if (complete)
            sim_data_copy(instance, images[i], false);
    }
    if (!complete) {
        for (uint32_t i = 0; images != NULL && i < count; i++)
            free(images[i]);
        free(images);
        program_free(program);
        return sim_fail(sim, DPU_ERR_SYSTEM, "dpu_load: out of memory");
    }
    program->next = sim->programs;
    sim->programs = program;
    program->users = count;
    for (uint32_t i = 0; i < count; i++)
        start_dpu(sim_dpu_of_set(set, i), program, images[i]);
    free(images);
    if (out != NULL)
        *out = program;
    return DPU_OK;
}

dpu_error_t dpu_load(struct dpu_set_t dpu_set, const char *binary_path, struct dpu_program_t **program) {
    struct sim *sim;
    uint8_t *bytes = NULL;
    size_t count = 0;
    dpu_error_t error = sim_enter(&dpu_set, "dpu_load", &sim);
    if (error != DPU_OK)
        return error;
    sim_wait(sim, &dpu_set);
    error = read_file(sim, binary_path, &bytes, &count);
    return error == DPU_OK ? load(sim, &dpu_set, binary_path, bytes, count, program) : error;
}

dpu_error_t dpu_load_from_memory(struct dpu_set_t dpu_set, uint8_t *buffer, size_t buffer_size,
                                 struct dpu_program_t **program) {
    struct sim *sim;
    dpu_error_t error = sim_enter(&dpu_set, "dpu_load_from_memory", &sim);
    if (error != DPU_OK)
        return error;
    sim_wait(sim, &dpu_set);
    uint8_t *bytes = buffer == NULL ? NULL : malloc(buffer_size + 1);
    if (bytes == NULL)
        return sim_fail(sim, buffer == NULL ? DPU_ERR_ELF_INVALID_FILE : DPU_ERR_SYSTEM,
                        "dpu_load_from_memory: %s", buffer == NULL ? "no buffer" : "out of memory");
    memcpy(bytes, buffer, buffer_size);
    return load(sim, &dpu_set, "(memory)", bytes, buffer_size, program);
}

dpu_error_t dpu_load_from_incbin(struct dpu_set_t dpu_set, struct dpu_incbin_t *incbin,
                                 struct dpu_program_t **program) {
    return dpu_load_from_memory(dpu_set, incbin->buffer, incbin->size, program);
}

dpu_error_t sim_symbol(struct dpu_program_t *program, const char *name, struct dpu_symbol_t *symbol) {
    ElfW(Sym) found;
    ElfW(Shdr) first;
    const char *section;
    uint64_t offset;
    if (strcmp(name, DPU_MRAM_HEAP_POINTER_NAME) == 0) {
        *symbol = (struct dpu_symbol_t){SIM_MRAM_ADDRESS + program->mram_bytes,
                                        SIM_MRAM_BYTES - program->mram_bytes};
        return DPU_OK;
    }
    if (sim_elf_symbol(program, name, &found) && found.st_size != 0 &&
        sim_elf_symbol_section(program, &found, &section, &offset)) {
        symbol->size = (uint32_t)found.st_size;
        if (strcmp(section, "dpu_host") == 0) {
            symbol->address = SIM_NULL_WORD + (uint32_t)offset;
            return DPU_OK;
        }
        if (strcmp(section, "dpu_mram") == 0 || strcmp(section, "dpu_mram_noinit") == 0) {
            /* both follow each other in MRAM */
            if (strcmp(section, "dpu_mram") != 0 && sim_elf_section(program, "dpu_mram", &first))
                offset = found.st_value - first.sh_addr;
            symbol->address = SIM_MRAM_ADDRESS + (uint32_t)offset;
            return DPU_OK;
        }
    }
    return sim_fail(program->sim, DPU_ERR_UNKNOWN_SYMBOL, "symbol '%s' is neither __host nor __mram", name);
}

dpu_error_t dpu_get_symbol(struct dpu_program_t *program, const char *symbol_name,
                           struct dpu_symbol_t *symbol) {
    if (sim_is_foreign(program->sim))
        return sim_fail_foreign("dpu_get_symbol");
    return sim_symbol(program, symbol_name, symbol);
}
