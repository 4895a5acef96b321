#include "cache.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool cache_path(char path[CACHE_PATH], const char *name)
{
    const char *cache = secure_getenv("XDG_CACHE_HOME"), *home = secure_getenv("HOME");
    struct stat is;
    int n = cache && cache[0] == '/' ? snprintf(path, CACHE_PATH, "%s/haloconv", cache)
            : home && home[0] == '/' ? snprintf(path, CACHE_PATH, "%s/.cache/haloconv", home)
                                     : -1;
    if (n < 0 || n + (int)strlen(name) + 1 >= CACHE_PATH || (lstat(path, &is) == 0 && is.st_uid != geteuid()))
        return false;
    sprintf(path + n, "/%s", name);
    return true;
}

bool cache_make(char path[CACHE_PATH])
{
    char *last = strrchr(path, '/');
    *last = '\0';
    char *first = strrchr(path, '/');
    *first = '\0';
    bool good = mkdir(path, 0700) == 0 || errno == EEXIST;
    *first = '/';
    good = good && (mkdir(path, 0700) == 0 || errno == EEXIST);
    *last = '/';
    return good;
}
