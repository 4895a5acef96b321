#include "watch.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* false: the file is not there, as between an editor's two steps. */
static bool identify(const char *path, int64_t id[4])
{
    struct stat status;
    if (stat(path, &status) != 0) return false;
    id[0] = (int64_t)status.st_dev;
    id[1] = (int64_t)status.st_ino;
    id[2] = (int64_t)status.st_size;
    id[3] = (int64_t)status.st_mtim.tv_sec * 1000000000 + status.st_mtim.tv_nsec;
    return true;
}

void watch_open(struct watch *watch, const char *path)
{
    *watch = (struct watch){0};
    snprintf(watch->path, sizeof watch->path, "%s", path);
    identify(path, watch->reported);
    memcpy(watch->last, watch->reported, sizeof watch->last);
}

bool watch_changed(struct watch *watch)
{
    int64_t now[4];
    if (!identify(watch->path, now)) return false;
    bool is_still = memcmp(now, watch->last, sizeof now) == 0;
    bool is_new = memcmp(now, watch->reported, sizeof now) != 0;
    memcpy(watch->last, now, sizeof now);
    if (is_still && is_new) memcpy(watch->reported, now, sizeof now);
    return is_still && is_new;
}
