#include "core.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Looks in a folder, whose path has no / at its end, and those above it. */
static bool find_above(char above[CORE_PATH_BYTES], char folder[CORE_PATH_BYTES])
{
    static const char *const names[] = {"Resources/masks/", "haloconv.lv2/", "lv2/haloconv.lv2/", ".lv2/haloconv.lv2/"};
    for (int level = 0; level <= 5; level++) {
        char *end = strrchr(above, '/');
        if (!end) return false;
        for (int i = 0; i < (int)(sizeof names / sizeof *names); i++) {
            int length = snprintf(folder, CORE_PATH_BYTES, "%.*s%s", (int)(end + 1 - above), above, names[i]);
            if (length < CORE_PATH_BYTES && access(folder, X_OK) == 0) return true;
        }
        *end = '\0';
    }
    return false;
}

bool core_find_folder(const char *file, char folder[CORE_PATH_BYTES])
{
    char above[CORE_PATH_BYTES];
    snprintf(above, sizeof above, "%s", file);
    if (find_above(above, folder)) return true;
    char *real = realpath(file, NULL); /* a host may know it by a symbolic link */
    snprintf(above, sizeof above, "%s", real ? real : file);
    free(real);
    if (find_above(above, folder)) return true;
    const char *end = strrchr(file, '/');
    snprintf(folder, CORE_PATH_BYTES, "%.*s", end ? (int)(end + 1 - file) : 0, file);
    return false;
}
