#include "own_library.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void *own_library_open(const char *name)
{
    static const char *const places[] = {"", "../lib/haloconv/"};
    char program[PATH_MAX], path[PATH_MAX + 80];
    ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    if (n <= 0) return NULL;
    program[n] = 0;
    char *slash = strrchr(program, '/');
    if (slash) slash[1] = 0;
    void *library = NULL;
    for (size_t i = 0; i < sizeof places / sizeof *places && !library; i++) {
        snprintf(path, sizeof path, "%s%s%s", program, places[i], name);
        library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    }
    return library;
}
