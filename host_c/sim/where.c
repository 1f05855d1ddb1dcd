/* From an address of a program to its line, with addr2line, where that is installed: only a fault asks. */
#define _GNU_SOURCE
#include "image.h"

#include <fcntl.h>
#include <spawn.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* Runs addr2line on the file; out: what it prints. */
static void ask(int file, uint64_t address, char *out, size_t bytes) {
    int pipes[2];
    char path[64], number[32];
    pid_t child;
    size_t got = 0;
    posix_spawn_file_actions_t actions;
    *out = '\0';
    if (pipe2(pipes, O_CLOEXEC) != 0)
        return;
    snprintf(path, sizeof path, "/proc/%ld/fd/%d", (long)getpid(), file);
    snprintf(number, sizeof number, "0x%llx", (unsigned long long)address);
    char *arguments[] = {(char[]){"addr2line"}, (char[]){"-e"}, path, number, NULL};
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, pipes[1], STDOUT_FILENO);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    int status = posix_spawnp(&child, arguments[0], &actions, NULL, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(pipes[1]);
    if (status == 0) {
        ssize_t n;
        while (got + 1 < bytes && (n = read(pipes[0], out + got, bytes - 1 - got)) > 0)
            got += (size_t)n;
        out[got] = '\0';
        waitpid(child, &status, 0);
    }
    close(pipes[0]);
}

void sim_where(const struct dpu_program_t *program, const struct instance *instance, uintptr_t pc,
               struct sim_place *place) {
    *place = (struct sim_place){.line = 0};
    if (pc < instance->low || pc >= instance->high)
        return;
    uint64_t address = pc - instance->bias;
    const char *function = sim_elf_function(program, address);
    snprintf(place->function, sizeof place->function, "%s", function == NULL ? "" : function);
    int file = memfd_create("dpu-program", MFD_CLOEXEC);
    if (file < 0)
        return;
    char text[sizeof place->file + 32];
    if (write(file, program->file, program->file_bytes) == (ssize_t)program->file_bytes) {
        ask(file, address, text, sizeof text);
        char *colon = strrchr(text, ':');
        if (colon != NULL && *text != '?') {
            place->line = (uint32_t)strtoul(colon + 1, NULL, 10);
            *colon = '\0';
            if (place->line != 0)
                snprintf(place->file, sizeof place->file, "%.*s", (int)sizeof place->file - 1, text);
        }
    }
    close(file);
}
