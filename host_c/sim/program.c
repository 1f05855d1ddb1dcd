/* Programs: shared objects, one private copy for each worker, so that the DPUs of different
 * workers run at the same time. A copy is a memory file; a program under a sanitizer comes
 * from a temporary file, where the sanitizer can look lines up. */
#define _GNU_SOURCE
#include "sim.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define WRAM_POISON 0xa5

uint32_t sim_section_bytes(struct dpusim_range range) {
    return range.start == NULL ? 0 : (uint32_t)(range.stop - range.start);
}

static uint32_t round_up(uint32_t value, uint32_t step) {
    return (value + step - 1) / step * step;
}

uint32_t sim_mram_start(const struct instance *instance) {
    return round_up(sim_section_bytes(instance->program->mram), 8);
}

uint32_t sim_tasklets(const struct dpu_t *dpu) {
    uint32_t chosen = dpu->sim->profile.tasklets;
    return chosen != 0 ? chosen : dpu->program->instances[0].program->nr_tasklets;
}

uint32_t sim_heap_start(const struct instance *instance, uint32_t tasklets, bool strict) {
    const struct dpusim_program *program = instance->program;
    uint64_t used = SIM_NULL_WORD + (uint64_t)round_up(sim_section_bytes(program->host), 8) +
                    round_up(sim_section_bytes(program->wram), 8);
    used += (uint64_t)tasklets * (program->stack_size + 8);
    /* not more aligned than promised: a program that needs 16 shall find out */
    if (strict && used % 16 == 0)
        used += 8;
    return used > SIM_WRAM_BYTES ? SIM_WRAM_BYTES : (uint32_t)used;
}

/* The writable image of a loaded object. */
static int find_image(struct dl_phdr_info *info, size_t size, void *data) {
    struct instance *instance = data;
    uintptr_t probe = (uintptr_t)instance->program;
    (void)size;
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *header = &info->dlpi_phdr[i];
        uintptr_t low = info->dlpi_addr + header->p_vaddr, high = low + header->p_memsz;
        if (header->p_type == PT_LOAD && (header->p_flags & PF_W) && probe >= low && probe < high) {
            instance->low = low;
            instance->high = high;
            return 1;
        }
    }
    return 0;
}

static void unload(struct instance *instance) {
    if (instance->handle != NULL)
        dlclose(instance->handle);
    if (instance->path != NULL)
        unlink(instance->path);
    free(instance->path);
    if (instance->fd >= 0)
        close(instance->fd);
    *instance = (struct instance){.fd = -1};
}

static bool write_all(int fd, const uint8_t *bytes, size_t count) {
    while (count != 0) {
        ssize_t n = write(fd, bytes, count);
        if (n <= 0)
            return false;
        bytes += n;
        count -= (size_t)n;
    }
    return true;
}

/* Opens one copy of the object. Out: NULL, or what is wrong. */
static const char *load_copy(struct instance *instance, const uint8_t *bytes, size_t count, bool as_file) {
    char path[64];
    *instance = (struct instance){.fd = -1};
    if (as_file) {
        snprintf(path, sizeof path, "/tmp/dpusim-XXXXXX");
        instance->fd = mkostemp(path, O_CLOEXEC);
        instance->path = instance->fd < 0 ? NULL : strdup(path);
    } else {
        instance->fd = memfd_create("dpu-program", MFD_CLOEXEC);
        snprintf(path, sizeof path, "/proc/self/fd/%d", instance->fd);
    }
    if (instance->fd < 0 || !write_all(instance->fd, bytes, count))
        return "cannot copy it";
    instance->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (instance->handle == NULL)
        return dlerror();
    struct dpusim_program *(*descriptor)(void);
    void *found = dlsym(instance->handle, "dpusim_descriptor");
    if (found == NULL)
        return "not built against the simulator's device headers";
    memcpy(&descriptor, &found, sizeof found);
    found = dlsym(instance->handle, "main");
    if (found == NULL)
        return "no main";
    memcpy(&instance->main, &found, sizeof found);
    instance->program = descriptor();
    if (instance->program->abi != DPUSIM_ABI)
        return "built against other device headers";
    instance->program->ops = &sim_ops;
    dl_iterate_phdr(find_image, instance);
    return NULL;
}

static void program_free(struct dpu_program_t *program) {
    for (uint32_t i = 0; i < program->count; i++)
        unload(&program->instances[i]);
    free(program->file);
    free(program);
}

void sim_program_release(struct dpu_t *dpu) {
    struct dpu_program_t *program = dpu->program;
    free(dpu->host_image);
    free(dpu->wram_image);
    dpu->host_image = dpu->wram_image = NULL;
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

static bool in_file(size_t bytes, uint64_t offset, uint64_t length) {
    return offset <= bytes && length <= bytes - offset;
}

/* Does all that the headers name lie inside the file? dlopen maps it unseen, and reading what a
 * truncated file lacks is SIGBUS. */
static bool is_complete(const uint8_t *file, size_t bytes) {
    ElfW(Ehdr) header;
    if (bytes < sizeof header)
        return false;
    memcpy(&header, file, sizeof header);
    if (header.e_ident[EI_CLASS] != (sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32) ||
        header.e_phentsize != sizeof(ElfW(Phdr)) || header.e_phnum == 0 ||
        !in_file(bytes, header.e_phoff, header.e_phnum * sizeof(ElfW(Phdr))))
        return false;
    for (unsigned i = 0; i < header.e_phnum; i++) {
        ElfW(Phdr) part;
        memcpy(&part, file + header.e_phoff + i * sizeof part, sizeof part);
        if (!in_file(bytes, part.p_offset, part.p_filesz) ||
            (part.p_type == PT_LOAD && part.p_filesz > part.p_memsz))
            return false;
    }
    if (header.e_shnum == 0)
        return true;
    if (header.e_shentsize != sizeof(ElfW(Shdr)) ||
        !in_file(bytes, header.e_shoff, header.e_shnum * sizeof(ElfW(Shdr))))
        return false;
    for (unsigned i = 0; i < header.e_shnum; i++) {
        ElfW(Shdr) section;
        memcpy(&section, file + header.e_shoff + i * sizeof section, sizeof section);
        if (section.sh_type != SHT_NULL && section.sh_type != SHT_NOBITS &&
            !in_file(bytes, section.sh_offset, section.sh_size))
            return false;
    }
    return true;
}

static dpu_error_t load_program(struct sim *sim, const char *path, struct dpu_program_t **out) {
    uint8_t *bytes = NULL;
    size_t count = 0;
    dpu_error_t error = read_file(sim, path, &bytes, &count);
    if (error != DPU_OK)
        return error;
    const char *unfit = count < SELFMAG || memcmp(bytes, ELFMAG, SELFMAG) != 0 ? "not an ELF file"
                        : !is_complete(bytes, count) ? "a truncated or damaged ELF file"
                                                     : NULL;
    if (unfit != NULL) {
        free(bytes);
        return sim_fail(sim, DPU_ERR_ELF_INVALID_FILE, "dpu_load: %s: %s", path, unfit);
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
    bool as_file = false;
    const char *wrong = NULL;
    for (uint32_t i = 0; i < program->count && wrong == NULL; i++) {
        struct instance *instance = &program->instances[i];
        wrong = load_copy(instance, bytes, count, as_file);
        if (wrong == NULL && instance->program->sanitized && !as_file) {
            unload(instance);
            as_file = true;
            wrong = load_copy(instance, bytes, count, as_file);
        }
    }
    if (wrong != NULL) {
        error = sim_fail(sim, DPU_ERR_ELF_INVALID_FILE, "dpu_load: %s: %s", path, wrong);
    } else {
        const struct instance *instance = &program->instances[0];
        uint32_t most = instance->program->nr_tasklets, wanted = sim->profile.tasklets;
        program->stdio = dlsym(instance->handle, "dpusim_stdio") != NULL;
        if (most > SIM_MAX_TASKLETS || wanted > most)
            error = sim_fail(sim, DPU_ERR_TOO_MANY_TASKLETS,
                             "dpu_load: %s: %u tasklets; the program has %u, a DPU %d", path, wanted, most,
                             SIM_MAX_TASKLETS);
        else if (sim_heap_start(instance, wanted != 0 ? wanted : most, false) == SIM_WRAM_BYTES)
            error = sim_fail(sim, DPU_ERR_ELF_INVALID_FILE, "dpu_load: %s: stacks and data fill WRAM", path);
        else if (sim_mram_start(instance) > SIM_MRAM_BYTES)
            error = sim_fail(sim, DPU_ERR_ELF_INVALID_FILE, "dpu_load: %s: its data overflow MRAM", path);
    }
    if (error != DPU_OK) {
        program_free(program);
        return error;
    }
    *out = program;
    return DPU_OK;
}

static uint8_t *image_of(struct dpusim_range range) {
    size_t bytes = sim_section_bytes(range);
    uint8_t *image = malloc(bytes + 1);
    if (image != NULL && bytes != 0)
        memcpy(image, range.start, bytes);
    return image;
}

dpu_error_t dpu_load(struct dpu_set_t dpu_set, const char *binary_path, struct dpu_program_t **out) {
    struct sim *sim;
    dpu_error_t error = sim_enter(&dpu_set, "dpu_load", &sim);
    if (error != DPU_OK)
        return error;
    sim_wait(sim, &dpu_set);
    struct dpu_program_t *program = NULL;
    error = load_program(sim, binary_path, &program);
    if (error != DPU_OK)
        return error;
    uint32_t count = sim_count_dpus(&dpu_set);
    uint8_t **images = calloc(count, 2 * sizeof *images);
    bool complete = images != NULL;
    for (uint32_t i = 0; i < count && complete; i++) {
        const struct instance *instance = &program->instances[sim_dpu_of_set(&dpu_set, i)->worker];
        images[2 * i] = image_of(instance->program->host);
        images[2 * i + 1] = image_of(instance->program->wram);
        complete = images[2 * i] != NULL && images[2 * i + 1] != NULL;
    }
    if (!complete) {
        for (uint32_t i = 0; images != NULL && i < 2 * count; i++)
            free(images[i]);
        free(images);
        program_free(program);
        return sim_fail(sim, DPU_ERR_SYSTEM, "dpu_load: out of memory");
    }
    program->next = sim->programs;
    sim->programs = program;
    program->users = count;
    for (uint32_t i = 0; i < count; i++) {
        struct dpu_t *dpu = sim_dpu_of_set(&dpu_set, i);
        const struct instance *instance = &program->instances[dpu->worker];
        sim_program_release(dpu);
        dpu->program = program;
        dpu->host_image = images[2 * i];
        dpu->wram_image = images[2 * i + 1];
        dpu->fault = DPU_OK;
        dpu->log_bytes = 0;
        dpu->heap = sim_heap_start(instance, sim_tasklets(dpu), sim->profile.strict);
        if (sim->profile.strict)
            memset(dpu->wram, WRAM_POISON, SIM_WRAM_BYTES);
        if (sim_mram_start(instance) != 0)
            memcpy(dpu->mram, instance->program->mram.start, sim_section_bytes(instance->program->mram));
    }
    free(images);
    if (out != NULL)
        *out = program;
    return DPU_OK;
}

/* The size of a dynamic symbol, from the file: dladdr prefers the linker's marks of a section
 * to a variable that starts it. 0: none. */
static uint32_t symbol_size(const struct dpu_program_t *program, const char *name) {
    const uint8_t *file = program->file;
    size_t bytes = program->file_bytes, length = strlen(name) + 1;
    ElfW(Ehdr) header;
    if (bytes < sizeof header)
        return 0;
    memcpy(&header, file, sizeof header);
    if (header.e_shentsize != sizeof(ElfW(Shdr)) || header.e_shoff > bytes ||
        header.e_shnum > (bytes - header.e_shoff) / sizeof(ElfW(Shdr)))
        return 0;
    for (unsigned i = 0; i < header.e_shnum; i++) {
        ElfW(Shdr) table, names;
        memcpy(&table, file + header.e_shoff + i * sizeof table, sizeof table);
        if (table.sh_type != SHT_DYNSYM || table.sh_link >= header.e_shnum)
            continue;
        memcpy(&names, file + header.e_shoff + table.sh_link * sizeof names, sizeof names);
        if (table.sh_offset > bytes || table.sh_size > bytes - table.sh_offset || names.sh_offset > bytes ||
            names.sh_size > bytes - names.sh_offset)
            return 0;
        for (size_t at = 0; at + sizeof(ElfW(Sym)) <= table.sh_size; at += sizeof(ElfW(Sym))) {
            ElfW(Sym) symbol;
            memcpy(&symbol, file + table.sh_offset + at, sizeof symbol);
            if (symbol.st_shndx != SHN_UNDEF && symbol.st_name < names.sh_size &&
                length <= names.sh_size - symbol.st_name &&
                memcmp(file + names.sh_offset + symbol.st_name, name, length) == 0)
                return (uint32_t)symbol.st_size;
        }
    }
    return 0;
}

static bool within(struct dpusim_range range, const char *at) {
    return at >= range.start && at < range.stop;
}

dpu_error_t sim_symbol(struct dpu_program_t *program, const char *name, struct dpu_symbol_t *symbol) {
    const struct instance *instance = &program->instances[0];
    const struct dpusim_program *sections = instance->program;
    if (strcmp(name, DPU_MRAM_HEAP_POINTER_NAME) == 0) {
        uint32_t start = sim_mram_start(instance);
        *symbol = (struct dpu_symbol_t){SIM_MRAM_ADDRESS + start, SIM_MRAM_BYTES - start};
        return DPU_OK;
    }
    const char *at = dlsym(instance->handle, name);
    uint32_t size = symbol_size(program, name);
    if (at != NULL && size != 0 && within(sections->host, at))
        *symbol = (struct dpu_symbol_t){SIM_NULL_WORD + (uint32_t)(at - sections->host.start), size};
    else if (at != NULL && size != 0 && within(sections->mram, at))
        *symbol = (struct dpu_symbol_t){SIM_MRAM_ADDRESS + (uint32_t)(at - sections->mram.start), size};
    else
        return sim_fail(program->sim, DPU_ERR_UNKNOWN_SYMBOL, "symbol '%s' is neither __host nor __mram",
                        name);
    return DPU_OK;
}

dpu_error_t dpu_get_symbol(struct dpu_program_t *program, const char *symbol_name,
                           struct dpu_symbol_t *symbol) {
    if (sim_is_foreign(program->sim))
        return sim_fail_foreign("dpu_get_symbol");
    return sim_symbol(program, symbol_name, symbol);
}
