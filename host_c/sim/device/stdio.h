/* printf into the DPU's log, which the host reads with dpu_log_read. */
#ifndef DPUSIM_STDIO_H
#define DPUSIM_STDIO_H

#include "attributes.h"

/* Its presence tells that the program has a log. */
__attribute__((weak, visibility("default"))) void dpusim_stdio(void);
__attribute__((weak, visibility("default"))) void dpusim_stdio(void) {}

static inline __attribute__((format(printf, 3, 4))) void dpusim_print(const char *file, uint32_t line,
                                                                      const char *format, ...) {
    va_list args;
    va_start(args, format);
    dpusim_program.ops->print(format, args, file, line);
    va_end(args);
}

#define printf(...) dpusim_print(__FILE__, __LINE__, __VA_ARGS__)
#define puts(text) dpusim_print(__FILE__, __LINE__, "%s\n", (text))
#define putchar(c) dpusim_print(__FILE__, __LINE__, "%c", (c))

#endif
