/* watch - detects that a mask's file has changed and that its writer has finished. A path with %r has a file for each
 * rate. */
#ifndef WATCH_H
#define WATCH_H

#include <stdbool.h>
#include <stdint.h>

struct watch {
    char path[4096];
    int rate;                     /* rate of the session, in Hz */
    int64_t reported[4], last[4]; /* device, inode, size, time of change: at the last report; at the last call */
};

void watch_open(struct watch *watch, const char *path, int rate);

/* Returns true if the file differs from the last report and is the same as in the last call. Call it a few times a
 * second. */
bool watch_changed(struct watch *watch, int rate);

#endif
