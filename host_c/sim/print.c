/* A DPU's printf: its conversions and its sizes. */
#define _GNU_SOURCE
#include "run.h"

#include <string.h>

struct output {
    char *at;
    size_t room;
    int length;
};

static void add(struct output *output, const char *text, size_t bytes) {
    size_t used = (size_t)output->length;
    for (size_t i = 0; i < bytes && used + i + 1 < output->room; i++)
        output->at[used + i] = text[i];
    output->length += (int)bytes;
}

/* The C library writes one value as the specification says. */
#define ADD(output, spec, value)                                                                             \
    do {                                                                                                     \
        size_t used_ = (size_t)(output)->length,                                                             \
               left_ = used_ < (output)->room ? (output)->room - used_ : 0;                                  \
        int n_ = snprintf(left_ == 0 ? NULL : (output)->at + used_, left_, spec, value);                     \
        if (n_ < 0)                                                                                          \
            return -1;                                                                                       \
        (output)->length += n_;                                                                              \
    } while (0)

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
int sim_format(char *out, size_t room, const char *format, va_list args) {
    struct output output = {out, room, 0};
    while (*format != '\0') {
        size_t plain = strcspn(format, "%");
        add(&output, format, plain);
        format += plain;
        if (*format == '\0')
            break;
        size_t flags = strspn(format + 1, "-+ #0123456789."), longs = strspn(format + 1 + flags, "lhz");
        size_t bytes = 1 + flags + longs + 1;
        char kind = format[bytes - 1], spec[40];
        bool wide = longs != 0 && format[1 + flags] == 'l';
        if (kind == '\0' || flags > sizeof spec - 8 || strchr("diuxXocsfe%", kind) == NULL) {
            /* %g, %p, %n, ... */
            add(&output, format, kind == '\0' ? bytes - 1 : bytes);
            format += kind == '\0' ? bytes - 1 : bytes;
            continue;
        }
        memcpy(spec, format, 1 + flags);
        snprintf(spec + 1 + flags, sizeof spec - 1 - flags, "%s%c",
                 wide && strchr("diuxXo", kind) != NULL ? "ll" : "", kind);
        format += bytes;
        if (kind == '%')
            add(&output, "%", 1);
        else if (kind == 's')
            ADD(&output, spec, va_arg(args, const char *));
        else if (kind == 'f' || kind == 'e')
            ADD(&output, spec, va_arg(args, double));
        else if (wide && kind != 'c')
            ADD(&output, spec, va_arg(args, long long));
        else
            ADD(&output, spec, va_arg(args, int));
    }
    if (room != 0)
        out[(size_t)output.length < room ? (size_t)output.length : room - 1] = '\0';
    return output.length;
}
#pragma GCC diagnostic pop
