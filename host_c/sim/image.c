/* Copies of programs, one for each worker, so that the DPUs of different workers run at the same time.
 *
 * dlopen makes those of a plain build: a copy is a memory file; a program under a sanitizer comes from a
 * temporary file, where the sanitizer can look lines up. Programs of the drop-in compiler are placed here,
 * below 4 GB as long as there is room, so that a pointer survives a cast to uint32_t: the file's segments,
 * MRAM's window behind them, where the file's __mram variables have their addresses, and WRAM. */
#define _GNU_SOURCE
#include "image.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Around a program's window and WRAM: less than SIM_GUARD_BYTES, as room below 4 GB is short. */
#define LOW_GUARD (UINT32_C(8) << 20)
#define LOW_FIRST UINT64_C(0x10000000)
#define LOW_END UINT64_C(0x100000000)
#define MOST_LIBRARIES 8

#if defined(__aarch64__)
#define R_OWN R_AARCH64_RELATIVE
#define R_ADDRESS R_AARCH64_ABS64
#define R_TABLE R_AARCH64_GLOB_DAT
#define R_CALL R_AARCH64_JUMP_SLOT
#else
#define R_OWN R_X86_64_RELATIVE
#define R_ADDRESS R_X86_64_64
#define R_TABLE R_X86_64_GLOB_DAT
#define R_CALL R_X86_64_JUMP_SLOT
#endif

static uint64_t round_up(uint64_t value, uint64_t step) {
    return (value + step - 1) / step * step;
}

uint8_t *sim_reserve(void *at, size_t bytes) {
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | (at == NULL ? 0 : MAP_FIXED_NOREPLACE);
    void *mapping = mmap(at, bytes, PROT_NONE, flags, -1, 0);
    if (mapping == MAP_FAILED)
        return NULL;
    if (at == NULL || mapping == at)
        return mapping;
    munmap(mapping, bytes); /* an old kernel, which takes the address for a wish */
    return NULL;
}

/* Below 4 GB, or else anywhere. A multiple of 2 MB in both cases. */
static bool reserve_low(struct instance *instance, size_t bytes) {
    for (uint64_t at = LOW_FIRST; at + bytes <= LOW_END; at += LOW_GUARD) {
        instance->reserved = sim_reserve((void *)(uintptr_t)at, bytes);
        instance->reserved_bytes = bytes;
        if (instance->reserved != NULL)
            return true;
    }
    uint8_t *any = sim_reserve(NULL, bytes + SIM_LARGE_PAGE);
    if (any == NULL)
        return false;
    instance->reserved = (uint8_t *)round_up((uintptr_t)any, SIM_LARGE_PAGE);
    if (instance->reserved != any)
        munmap(any, (size_t)(instance->reserved - any));
    uint8_t *end = any + bytes + SIM_LARGE_PAGE;
    if (end != instance->reserved + bytes)
        munmap(instance->reserved + bytes, (size_t)(end - instance->reserved) - bytes);
    return true;
}

/* Guard, the image's room, window, guard, WRAM, guard. */
static bool reserve(struct instance *instance, size_t image) {
    if (!reserve_low(instance, LOW_GUARD + image + SIM_MRAM_BYTES + LOW_GUARD + SIM_LARGE_PAGE + LOW_GUARD))
        return false;
    instance->window = instance->reserved + LOW_GUARD + image;
    instance->wram = instance->window + SIM_MRAM_BYTES + LOW_GUARD;
    return mprotect(instance->wram, SIM_WRAM_BYTES, PROT_READ | PROT_WRITE) == 0;
}

static bool fails(char *why, const char *text) {
    snprintf(why, SIM_TEXT, "%s", text);
    return false;
}

/* -- placing a file ---------------------------------------------------------------------- */

struct dynamic {
    const ElfW(Rela) * relocations, *calls;
    size_t relocation_bytes, call_bytes;
    const ElfW(Sym) * symbols;
    const char *names;
    void *libraries[MOST_LIBRARIES];
    unsigned count;
};

static bool read_dynamic(const struct instance *instance, const ElfW(Phdr) * part, struct dynamic *out,
                         char *why) {
    const ElfW(Dyn) *first = (const ElfW(Dyn) *)(instance->bias + part->p_vaddr);
    *out = (struct dynamic){0};
    for (const ElfW(Dyn) *entry = first; entry->d_tag != DT_NULL; entry++) {
        const void *at = (const void *)(instance->bias + entry->d_un.d_ptr);
        switch (entry->d_tag) {
        case DT_RELA:
            out->relocations = at;
            break;
        case DT_RELASZ:
            out->relocation_bytes = entry->d_un.d_val;
            break;
        case DT_JMPREL:
            out->calls = at;
            break;
        case DT_PLTRELSZ:
            out->call_bytes = entry->d_un.d_val;
            break;
        case DT_SYMTAB:
            out->symbols = at;
            break;
        case DT_STRTAB:
            out->names = at;
            break;
        default:
            break;
        }
    }
    /* the C library and its like: open for good */
    for (const ElfW(Dyn) *entry = first; entry->d_tag != DT_NULL; entry++)
        if (entry->d_tag == DT_NEEDED && out->count < MOST_LIBRARIES &&
            (out->libraries[out->count++] = dlopen(out->names + entry->d_un.d_val, RTLD_NOW)) == NULL)
            return fails(why, dlerror());
    return true;
}

static bool find_outside(const struct dynamic *dynamic, const ElfW(Sym) * symbol, uintptr_t *value,
                         char *why) {
    const char *name = dynamic->names + symbol->st_name;
    void *found = NULL;
    for (unsigned i = 0; i < dynamic->count && found == NULL; i++)
        found = dlsym(dynamic->libraries[i], name);
    if (found == NULL && symbol->st_info >> 4 != STB_WEAK) {
        snprintf(why, SIM_TEXT, "undefined symbol: %s", name);
        return false;
    }
    *value = (uintptr_t)found;
    return true;
}

static bool relocate(const struct instance *instance, const struct dynamic *dynamic,
                     const ElfW(Rela) * relocation, size_t bytes, char *why) {
    for (size_t i = 0; i < bytes / sizeof *relocation; i++, relocation++) {
        uintptr_t at = instance->bias + relocation->r_offset, value = instance->bias;
        unsigned type = (unsigned)ELF64_R_TYPE(relocation->r_info);
        if (at < instance->low || at >= instance->high)
            return fails(why, "a __mram variable is initialised with an address");
        if (type == R_ADDRESS || type == R_TABLE || type == R_CALL) {
            const ElfW(Sym) *symbol = &dynamic->symbols[ELF64_R_SYM(relocation->r_info)];
            if (symbol->st_shndx != SHN_UNDEF)
                value += symbol->st_value;
            else if (!find_outside(dynamic, symbol, &value, why))
                return false;
        } else if (type != R_OWN) {
            return fails(why, "a kind of relocation that the simulator doesn't know");
        }
        value += (uintptr_t)relocation->r_addend;
        memcpy((void *)at, &value, sizeof value);
    }
    return true;
}

/* Where the __mram variables are in the file, or 0. */
static uint64_t mram_address(const struct dpu_program_t *program) {
    ElfW(Shdr) section;
    return sim_elf_section(program, "dpu_mram", &section) ||
                   sim_elf_section(program, "dpu_mram_noinit", &section)
               ? section.sh_addr
               : 0;
}

static bool protect(const struct dpu_program_t *program, struct instance *instance, uint64_t mram) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE), parts = 0;
    for (unsigned i = 0; i < sim_elf_segments(program); i++) {
        ElfW(Phdr) part;
        sim_elf_segment(program, i, &part);
        if (part.p_type != PT_LOAD || (mram != 0 && part.p_vaddr >= mram))
            continue;
        uintptr_t start = instance->bias + part.p_vaddr, first = start / page * page;
        size_t bytes = (size_t)round_up(start + part.p_memsz - first, page);
        int access =
            (part.p_flags & PF_W ? PROT_WRITE : 0) | (part.p_flags & PF_X ? PROT_EXEC : 0) | PROT_READ;
        if (mprotect((void *)first, bytes, access) != 0)
            return false;
        if ((part.p_flags & PF_W) && parts < sizeof instance->data / sizeof *instance->data) {
            instance->data[parts].start = (uint8_t *)start;
            instance->data[parts++].bytes = part.p_memsz;
        }
    }
    __builtin___clear_cache((char *)instance->low, (char *)instance->high);
    return true;
}

static bool place(const struct dpu_program_t *program, struct instance *instance, char *why) {
    uint64_t end = 0, mram = mram_address(program);
    ElfW(Phdr) part, dynamic_part = {0};
    for (unsigned i = 0; i < sim_elf_segments(program); i++) {
        sim_elf_segment(program, i, &part);
        if (part.p_type == PT_DYNAMIC)
            dynamic_part = part;
        if (part.p_type == PT_TLS)
            return fails(why, "thread-local variables");
        if (part.p_type == PT_LOAD && (mram == 0 || part.p_vaddr < mram) && part.p_vaddr + part.p_memsz > end)
            end = part.p_vaddr + part.p_memsz;
    }
    uint64_t room = mram != 0 ? mram : round_up(end, SIM_LARGE_PAGE);
    if (room % SIM_LARGE_PAGE != 0 || room > SIM_MRAM_BYTES || end > room || dynamic_part.p_memsz == 0)
        return fails(why, "not linked by the simulator's compiler");
    if (!reserve(instance, room))
        return fails(why, "no address space");
    instance->bias = instance->low = (uintptr_t)instance->window - room;
    instance->high = instance->low + end;
    if (mprotect((void *)instance->low, room, PROT_READ | PROT_WRITE) != 0)
        return fails(why, "no memory");
    for (unsigned i = 0; i < sim_elf_segments(program); i++) {
        sim_elf_segment(program, i, &part);
        if (part.p_type == PT_LOAD && (mram == 0 || part.p_vaddr < mram))
            memcpy((void *)(instance->bias + part.p_vaddr), program->file + part.p_offset, part.p_filesz);
    }
    struct dynamic dynamic;
    if (!read_dynamic(instance, &dynamic_part, &dynamic, why) ||
        !relocate(instance, &dynamic, dynamic.relocations, dynamic.relocation_bytes, why) ||
        !relocate(instance, &dynamic, dynamic.calls, dynamic.call_bytes, why))
        return false;
    return protect(program, instance, mram) || fails(why, "no memory");
}

/* The function or variable at a symbol of a placed file, or NULL. */
static void *placed(const struct dpu_program_t *program, const struct instance *instance, const char *name) {
    ElfW(Sym) symbol;
    return sim_elf_symbol(program, name, &symbol) ? (void *)(instance->bias + symbol.st_value) : NULL;
}

/* -- dlopen ------------------------------------------------------------------------------ */

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

static void add_data(struct instance *instance, uintptr_t low, uintptr_t high) {
    for (size_t i = 0; low < high && i < sizeof instance->data / sizeof *instance->data; i++)
        if (instance->data[i].start == NULL) {
            instance->data[i].start = (uint8_t *)low;
            instance->data[i].bytes = high - low;
            return;
        }
}

/* The writable parts of a loaded object, without what the loader protects and __mram variables. */
static int find_image(struct dl_phdr_info *info, size_t size, void *data) {
    struct instance *instance = data;
    uintptr_t probe = (uintptr_t)instance->program, fixed = 0;
    bool found = false;
    (void)size;
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *header = &info->dlpi_phdr[i];
        uintptr_t low = info->dlpi_addr + header->p_vaddr, high = low + header->p_memsz;
        found |= header->p_type == PT_LOAD && probe >= low && probe < high;
        if (header->p_type == PT_GNU_RELRO)
            fixed = high;
    }
    if (!found)
        return 0;
    instance->bias = info->dlpi_addr;
    instance->low = UINTPTR_MAX;
    const struct dpusim_range mram = instance->program->mram;
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *header = &info->dlpi_phdr[i];
        uintptr_t low = info->dlpi_addr + header->p_vaddr, high = low + header->p_memsz;
        uintptr_t from = (uintptr_t)mram.start, to = (uintptr_t)mram.stop;
        if (header->p_type != PT_LOAD)
            continue;
        instance->low = low < instance->low ? low : instance->low;
        instance->high = high > instance->high ? high : instance->high;
        if (!(header->p_flags & PF_W))
            continue;
        low = low < fixed ? fixed : low;
        if (from >= low && to <= high && from != to) {
            add_data(instance, low, from);
            low = to;
        }
        add_data(instance, low, high);
    }
    return 1;
}

static bool open_copy(const struct dpu_program_t *program, struct instance *instance, bool as_file,
                      char *why) {
    char path[64];
    if (as_file) {
        snprintf(path, sizeof path, "/tmp/dpusim-XXXXXX");
        instance->fd = mkostemp(path, O_CLOEXEC);
        instance->path = instance->fd < 0 ? NULL : strdup(path);
    } else {
        instance->fd = memfd_create("dpu-program", MFD_CLOEXEC);
        snprintf(path, sizeof path, "/proc/self/fd/%d", instance->fd);
    }
    if (instance->fd < 0 || !write_all(instance->fd, program->file, program->file_bytes))
        return fails(why, "cannot copy it");
    instance->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (instance->handle == NULL)
        return fails(why, dlerror());
    struct dpusim_program *(*descriptor)(void);
    void *found = dlsym(instance->handle, "dpusim_descriptor");
    if (found == NULL)
        return fails(why, "not built against the simulator's device headers");
    memcpy(&descriptor, &found, sizeof found);
    instance->program = descriptor();
    if (instance->program->sanitized && !as_file) {
        sim_image_unload(instance);
        return open_copy(program, instance, true, why);
    }
    found = dlsym(instance->handle, "main");
    if (found == NULL)
        return fails(why, "no main");
    memcpy(&instance->main, &found, sizeof found);
    dl_iterate_phdr(find_image, instance);
    if (instance->program->abi == DPUSIM_ABI && instance->program->linked && !reserve(instance, 0))
        return fails(why, "no address space");
    return true;
}

bool sim_image_load(const struct dpu_program_t *program, struct instance *instance, char *why) {
    const char *section;
    uint64_t offset;
    ElfW(Sym) symbol;
    ElfW(Shdr) header;
    struct dpusim_program descriptor = {0};
    *instance = (struct instance){.fd = -1};
    if (sim_elf_symbol(program, "dpusim_program", &symbol) &&
        sim_elf_symbol_section(program, &symbol, &section, &offset) &&
        sim_elf_section(program, section, &header) && offset + sizeof descriptor <= header.sh_size)
        memcpy(&descriptor, program->file + header.sh_offset + offset, sizeof descriptor);
    if (descriptor.abi == DPUSIM_ABI && descriptor.linked && !descriptor.sanitized) {
        if (!place(program, instance, why))
            return false;
        instance->program = placed(program, instance, "dpusim_program");
        void *found = placed(program, instance, "main");
        if (found == NULL)
            return fails(why, "no main");
        memcpy(&instance->main, &found, sizeof found);
    } else if (!open_copy(program, instance, false, why)) {
        return false;
    }
    if (instance->program->abi != DPUSIM_ABI)
        return fails(why, "built against other device headers");
    instance->program->ops = &sim_ops;
    return true;
}

void sim_image_unload(struct instance *instance) {
    if (instance->handle != NULL)
        dlclose(instance->handle);
    if (instance->path != NULL)
        unlink(instance->path);
    free(instance->path);
    if (instance->fd >= 0)
        close(instance->fd);
    if (instance->reserved != NULL)
        munmap(instance->reserved, instance->reserved_bytes);
    *instance = (struct instance){.fd = -1};
}

size_t sim_data_bytes(const struct instance *instance) {
    size_t sum = 0;
    for (size_t i = 0; i < sizeof instance->data / sizeof *instance->data; i++)
        sum += instance->data[i].bytes;
    return sum;
}

/* Not memcpy: a sanitizer has gaps between variables that nobody else may touch. */
#if defined(__has_attribute)
#if __has_attribute(no_sanitize_address)
__attribute__((no_sanitize_address))
#endif
#endif
static void copy(uint8_t *to, const uint8_t *from, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) {
        to[i] = from[i];
        __asm__ volatile("" ::: "memory");
    }
}

void sim_data_copy(const struct instance *instance, uint8_t *image, bool in) {
    for (size_t i = 0; i < sizeof instance->data / sizeof *instance->data; i++) {
        uint8_t *data = instance->data[i].start;
        size_t bytes = instance->data[i].bytes;
        if (instance->program->sanitized)
            copy(in ? data : image, in ? image : data, bytes);
        else if (bytes != 0)
            memcpy(in ? data : image, in ? image : data, bytes);
        image += bytes;
    }
}
