/* watch - has a file changed, and is its writer done? */
#ifndef WATCH_H
#define WATCH_H

#include <stdbool.h>
#include <stdint.h>

struct watch {
    char path[4096];
    int64_t seen[4], moving[4]; /* device, inode, size, time of change: as last reported, as last looked at */
    bool is_moving;
};

void watch_open(struct watch *watch, const char *path);

/* Ask a few times a second: true once the file is another one and stayed so since the last call. */
bool watch_changed(struct watch *watch);

#endif
