/* config - defaults and checks of an hc_config, and copies of an hc_info. */
#ifndef HALOCONV_CONFIG_H
#define HALOCONV_CONFIG_H

#include "dsp/base/error.h"
#include "dsp/haloconv.h"

enum {
    CONFIG_MAX_QUEUE_DEPTH = 16, /* blocks of an engine for files */
    CONFIG_MAX_THREADS = 256,
    CONFIG_MAX_FADE = 1 << 30, /* frames: a position in a fade plus a block must fit into an int */
};

/* Copies the fields of *given that the calling program knows (NULL: none), sets the defaults, checks the result. In
 * *resolved, block is 0 for files, fade_frames is 0 for no fade, and method is a static string. backend is still the
 * caller's string; queue_depth and n_threads may be 0; wait_us is as given. Fails with HC_EINVAL and a text. [setup] */
int config_resolve(const hc_config *given, hc_config *resolved, struct reason *why);

/* Fails with HC_EINVAL and a text, unless info->size can be the size of some version's hc_info. [rt] if why is NULL */
int info_check(const hc_info *info, struct reason *why);

/* Copies as much of *full as fits into *info, which info_check has accepted. info->size stays; fields that this library
 * does not know become 0. [rt] */
void info_copy(const hc_info *full, hc_info *info);

#endif
