/* A program's file and its copies in memory: elf.c reads the one, image.c makes the others, where.c
 * leads back from an address to a line. */
#ifndef DPUSIM_IMAGE_H
#define DPUSIM_IMAGE_H

#include "sim.h"

#include <elf.h>
#include <link.h>

/* Of a file that may be anything. */
bool sim_elf_is_complete(const uint8_t *file, size_t bytes);
/* The rest only of complete ones. */
unsigned sim_elf_segments(const struct dpu_program_t *program);
void sim_elf_segment(const struct dpu_program_t *program, unsigned i, ElfW(Phdr) * out);
bool sim_elf_section(const struct dpu_program_t *program, const char *name, ElfW(Shdr) * out);
bool sim_elf_symbol(const struct dpu_program_t *program, const char *name, ElfW(Sym) * out);
/* The section that a symbol is in, and where. */
bool sim_elf_symbol_section(const struct dpu_program_t *program, const ElfW(Sym) * symbol, const char **name,
                            uint64_t *offset);
/* The function at an address of the file; NULL: none. */
const char *sim_elf_function(const struct dpu_program_t *program, uint64_t address);
/* Bytes of variables and constants with a name: about what they take in WRAM. */
uint64_t sim_elf_static_bytes(const struct dpu_program_t *program);

/* Makes a copy of the program. why: SIM_TEXT bytes for what is wrong. */
bool sim_image_load(const struct dpu_program_t *program, struct instance *instance, char *why);
void sim_image_unload(struct instance *instance);

#endif
