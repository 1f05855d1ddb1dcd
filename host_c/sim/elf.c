/* What a program's file says: sections, symbols, the size of its static data. */
#define _GNU_SOURCE
#include "image.h"

#include <string.h>

static bool in_file(size_t bytes, uint64_t offset, uint64_t length) {
    return offset <= bytes && length <= bytes - offset;
}

/* Does all that the headers name lie inside the file? dlopen maps it unseen, and reading what a
 * truncated file lacks is SIGBUS. */
bool sim_elf_is_complete(const uint8_t *file, size_t bytes) {
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

unsigned sim_elf_segments(const struct dpu_program_t *program) {
    ElfW(Ehdr) header;
    memcpy(&header, program->file, sizeof header);
    return header.e_phnum;
}

void sim_elf_segment(const struct dpu_program_t *program, unsigned i, ElfW(Phdr) * out) {
    ElfW(Ehdr) header;
    memcpy(&header, program->file, sizeof header);
    memcpy(out, program->file + header.e_phoff + i * sizeof *out, sizeof *out);
}

static bool section_header(const struct dpu_program_t *program, unsigned i, ElfW(Shdr) * out) {
    ElfW(Ehdr) header;
    memcpy(&header, program->file, sizeof header);
    if (i >= header.e_shnum)
        return false;
    memcpy(out, program->file + header.e_shoff + i * sizeof *out, sizeof *out);
    return true;
}

/* The text at an offset of a string section; "" where there is none. */
static const char *text_at(const struct dpu_program_t *program, unsigned section, size_t offset) {
    ElfW(Shdr) strings;
    if (!section_header(program, section, &strings) || strings.sh_type != SHT_STRTAB ||
        offset >= strings.sh_size)
        return "";
    const char *text = (const char *)program->file + strings.sh_offset + offset;
    return memchr(text, 0, strings.sh_size - offset) == NULL ? "" : text;
}

static const char *section_name(const struct dpu_program_t *program, const ElfW(Shdr) * section) {
    ElfW(Ehdr) header;
    memcpy(&header, program->file, sizeof header);
    return text_at(program, header.e_shstrndx, section->sh_name);
}

bool sim_elf_section(const struct dpu_program_t *program, const char *name, ElfW(Shdr) * out) {
    for (unsigned i = 0; section_header(program, i, out); i++)
        if (strcmp(section_name(program, out), name) == 0)
            return true;
    return false;
}

/* Calls see for each symbol until it returns true; all of them, or the exported ones of a stripped file. */
typedef bool (*see_symbol)(const struct dpu_program_t *program, const ElfW(Sym) * symbol, const char *name,
                           void *argument);
static bool each_symbol(const struct dpu_program_t *program, see_symbol see, void *argument) {
    static const unsigned types[] = {SHT_SYMTAB, SHT_DYNSYM};
    ElfW(Shdr) table;
    for (unsigned t = 0; t < 2; t++)
        for (unsigned i = 0; section_header(program, i, &table); i++) {
            if (table.sh_type != types[t])
                continue;
            for (size_t at = 0; at + sizeof(ElfW(Sym)) <= table.sh_size; at += sizeof(ElfW(Sym))) {
                ElfW(Sym) symbol;
                memcpy(&symbol, program->file + table.sh_offset + at, sizeof symbol);
                if (symbol.st_shndx != SHN_UNDEF &&
                    see(program, &symbol, text_at(program, table.sh_link, symbol.st_name), argument))
                    return true;
            }
            return false;
        }
    return false;
}

struct named {
    const char *name;
    ElfW(Sym) * out;
};

static bool has_name(const struct dpu_program_t *program, const ElfW(Sym) * symbol, const char *name,
                     void *argument) {
    const struct named *named = argument;
    (void)program;
    if (strcmp(name, named->name) != 0)
        return false;
    *named->out = *symbol;
    return true;
}

bool sim_elf_symbol(const struct dpu_program_t *program, const char *name, ElfW(Sym) * out) {
    struct named named = {name, out};
    return each_symbol(program, has_name, &named);
}

bool sim_elf_symbol_section(const struct dpu_program_t *program, const ElfW(Sym) * symbol, const char **name,
                            uint64_t *offset) {
    ElfW(Shdr) section;
    if (!section_header(program, symbol->st_shndx, &section))
        return false;
    *name = section_name(program, &section);
    *offset = symbol->st_value - section.sh_addr;
    return true;
}

struct around {
    uint64_t address;
    const char *name;
};

static bool covers(const struct dpu_program_t *program, const ElfW(Sym) * symbol, const char *name,
                   void *argument) {
    struct around *around = argument;
    (void)program;
    if ((symbol->st_info & 0xf) != STT_FUNC || around->address < symbol->st_value ||
        around->address - symbol->st_value >= symbol->st_size)
        return false;
    around->name = name;
    return true;
}

const char *sim_elf_function(const struct dpu_program_t *program, uint64_t address) {
    struct around around = {address, NULL};
    (void)each_symbol(program, covers, &around);
    return around.name;
}

/* Sections that are WRAM on the DPU. */
static bool is_wram(const char *section) {
    static const char *const names[] = {".rodata",  ".data", ".data.rel.ro", ".data.rel.ro.local",
                                        "dpu_host", ".bss",  "dpu_wram"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(section, names[i]) == 0)
            return true;
    return false;
}

static bool add_size(const struct dpu_program_t *program, const ElfW(Sym) * symbol, const char *name,
                     void *argument) {
    uint64_t *sum = argument, offset;
    const char *section;
    if ((symbol->st_info & 0xf) == STT_OBJECT && strncmp(name, "dpusim", 6) != 0 &&
        sim_elf_symbol_section(program, symbol, &section, &offset) && is_wram(section))
        *sum += (symbol->st_size + 7) & ~UINT64_C(7);
    return false;
}

uint64_t sim_elf_static_bytes(const struct dpu_program_t *program) {
    uint64_t sum = 0;
    (void)each_symbol(program, add_size, &sum);
    return sum;
}
