/* printf into the DPU's log, which the host reads with dpu_log_read. Conversions: d i u x X o c s f e
 * with flags, width and l or ll, which both mean 64 bits; others are printed as they stand. */
#ifndef DPUSIM_STDIO_H
#define DPUSIM_STDIO_H

#include "attributes.h"

/* The log's size, 1 MiB unless the program says another. */
#define STDOUT_BUFFER_INIT(size)                                                                             \
    __attribute__((used, visibility("default"))) const uint32_t dpusim_stdout_bytes = (size);

/* Formats of other people's programs are the DPU's, where size_t has 32 bits: unchecked. */
#ifdef DPUSIM_LINKED
#define DPUSIM_PRINT __attribute__((noinline, unused))
#else
#define DPUSIM_PRINT __attribute__((noinline, unused, format(printf, 3, 4)))
#endif
#ifdef __clang__
#define DPUSIM_ONE
#else
#define DPUSIM_ONE __attribute__((noclone)) /* or it would have another name */
#endif

/* A program that holds it prints: the simulator looks for the name. */
DPUSIM_PRINT DPUSIM_ONE static void dpusim_print(const char *file, uint32_t line, const char *format, ...) {
    va_list args;
    va_start(args, format);
    dpusim_program.ops->print(format, args, file, line);
    va_end(args);
}

#define printf(...) dpusim_print(__FILE__, __LINE__, __VA_ARGS__)
#define puts(text) dpusim_print(__FILE__, __LINE__, "%s\n", (text))
#define putchar(c) dpusim_print(__FILE__, __LINE__, "%c", (c))

#endif
