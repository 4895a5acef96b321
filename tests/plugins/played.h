/* played - what a plugin played, and the same in float64 from the mask's file; and masks for plugins.
 */
#ifndef PLAYED_H
#define PLAYED_H

#include "check.h"
#include "plugins/core/controls.h"

#include <time.h>

struct played {              /* the whole input and output of an instance                                        */
    const struct variant *variant;
    int rate, n;             /* n frames were played                                                             */
    float *const *in, *const *out;
};

struct mix {
    double dry, wet;
    int predelay;            /* frames                                                                           */
};
static const struct mix wet_only = {0, 1, 0};

/* Checks frames first...last - 1 against the mask's file, at random frames and the edges. Input before frame `origin`
 * counts as silence. */
void check_played(const struct played *played, const char *path, struct mix mix, int origin, int first, int last);

/* Calls play(data, n) with blocks of 0 to `max_block` frames until `frames` have been played. */
void play_random_blocks(void (*play)(void *data, int n), void *data, int frames, int max_block, uint64_t seed);

/* Writes a mask of decaying noise, or a text, in a folder of ours. The path is valid until the fourth call after it. */
const char *mask_file(const char *name, int n_channels, int n_frames, int rate, uint64_t seed);
const char *text_file(const char *name, const char *text);

/* Checks what a scan of the plugins took and left: under 50 ms of processor time, no file open, no GPU.
 * files: count_own("fd") before; start: clock() before. */
void check_scan(int files, clock_t start);

#endif
