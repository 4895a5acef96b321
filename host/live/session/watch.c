#include "watch.h"

#include "dsp/haloconv_masks.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* Reads the file's identity. false: the file is absent, as between an editor's two steps. */
static bool identify(const struct watch *watch, int64_t id[4])
{
    char found[sizeof watch->path];
    struct stat status;
    if (hc_responses_find(watch->path, watch->rate, found, sizeof found, NULL, 0) != HC_OK) return false;
    if (stat(found, &status) != 0) return false;
    id[0] = (int64_t)status.st_dev;
    id[1] = (int64_t)status.st_ino;
    id[2] = (int64_t)status.st_size;
    id[3] = (int64_t)status.st_mtim.tv_sec * 1000000000 + status.st_mtim.tv_nsec;
    return true;
}

static void watch_begin(struct watch *watch, int rate)
{
    watch->rate = rate;
    memset(watch->reported, 0, sizeof watch->reported);
    identify(watch, watch->reported);
    memcpy(watch->last, watch->reported, sizeof watch->last);
}

void watch_open(struct watch *watch, const char *path, int rate)
{
    snprintf(watch->path, sizeof watch->path, "%s", path);
    watch_begin(watch, rate);
}

bool watch_changed(struct watch *watch, int rate)
{
    int64_t now[4];
    if (rate != watch->rate) watch_begin(watch, rate); /* the session has loaded the file of that rate */
    if (!identify(watch, now)) return false;
    bool is_still = memcmp(now, watch->last, sizeof now) == 0;
    bool is_new = memcmp(now, watch->reported, sizeof now) != 0;
    memcpy(watch->last, now, sizeof now);
    if (is_still && is_new) memcpy(watch->reported, now, sizeof now);
    return is_still && is_new;
}
