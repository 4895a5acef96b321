#include "own_library.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

bool own_folder(char *folder, size_t cap)
{
    ssize_t n = readlink("/proc/self/exe", folder, cap - 1);
    if (n > 0) folder[n] = 0;
    if (n <= 0) { /* no /proc, as in some containers */
        char *path = realpath((const char *)getauxval(AT_EXECFN), NULL);
        bool fits = path && snprintf(folder, cap, "%s", path) < (int)cap;
        free(path);
        if (!fits) return false;
    }
    char *slash = strrchr(folder, '/');
    if (slash) slash[1] = 0;
    return true;
}

void *own_library_open(const char *name)
{
    static const char *const folders[] = {"", "../lib/haloconv/"};
    char program[PATH_MAX], path[PATH_MAX + 80];
    if (!own_folder(program, sizeof program)) return NULL;
    void *library = NULL;
    for (size_t i = 0; i < sizeof folders / sizeof *folders && !library; i++) {
        snprintf(path, sizeof path, "%s%s%s", program, folders[i], name);
        library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    }
    return library;
}
