/* watch - detects that a file has changed and that its writer is done. */
#ifndef WATCH_H
#define WATCH_H

#include <stdbool.h>
#include <stdint.h>

struct watch {
    char path[4096];
    int64_t reported[4], last[4]; /* device, inode, size, time of change: at the last report, at the last call */
};

void watch_open(struct watch *watch, const char *path);

/* true: the file differs from the last report, and is the same as in the last call. Call it a few times a second. */
bool watch_changed(struct watch *watch);

#endif
