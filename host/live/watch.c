#include "watch.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* false: the file is not there, as between an editor's two steps. */
static bool look(const char *path, int64_t look[4])
{
    struct stat status;
    if (stat(path, &status) != 0) return false;
    look[0] = (int64_t)status.st_dev;
    look[1] = (int64_t)status.st_ino;
    look[2] = (int64_t)status.st_size;
    look[3] = (int64_t)status.st_mtim.tv_sec * 1000000000 + status.st_mtim.tv_nsec;
    return true;
}

void watch_open(struct watch *watch, const char *path)
{
    *watch = (struct watch){0};
    snprintf(watch->path, sizeof watch->path, "%s", path);
    look(path, watch->seen);
}

bool watch_changed(struct watch *watch)
{
    int64_t now[4];
    if (!look(watch->path, now)) return false;
    if (memcmp(now, watch->seen, sizeof now) == 0) {
        watch->is_moving = false;
        return false;
    }
    bool still = watch->is_moving && memcmp(now, watch->moving, sizeof now) == 0;
    memcpy(watch->moving, now, sizeof now);
    watch->is_moving = !still;
    if (still) memcpy(watch->seen, now, sizeof now);
    return still;
}
