/* recording - a plugin plays noise, and all input and output is kept: any frame can be compared with the mask's file
 * (played.h).
 */
#ifndef RECORDING_H
#define RECORDING_H

#include "played.h"
#include "plugin_driver.h"

struct recording {
    struct plugin *p;
    int n, cap;              /* n frames were played, of at most cap                                             */
    float *in[MAX_CHANNELS], *out[MAX_CHANNELS]; /* [cap]                                                        */
    bool in_place;           /* blocks are                                                                       */
};

/* Opens an active plugin. setup: without a rate, 48000 Hz and, if max_frames is 0, blocks of 64 frames. */
struct recording recording_open(const struct plugin_driver *driver, const struct plugin_setup *setup, int cap);
struct recording recording_open_stereo(const struct plugin_driver *driver, int cap);
void recording_close(struct recording *r);

void recording_play(void *recording, int n);         /* a block of n frames                                      */
void recording_play_random(struct recording *r, int frames, int max_block, uint64_t seed); /* blocks, from 0 on  */

/* Plays until the mask or the engine that is under way plays alone. A live plugin: until the log has `text`, too. */
void recording_settle(struct recording *r);
void recording_await(struct recording *r, const char *text);

/* Check frames first...last - 1, or all from `first` on: the mask of this file, with the input from frame `origin` on;
 * or the input. */
void check_mix(const struct recording *r, const char *path, struct mix mix, int origin, int first, int last);
void check_dry(const struct recording *r, int first);
void check_same(const struct recording *a, const struct recording *b, double share); /* of the peak              */
void check_log(const struct recording *r, const char *text); /* what came since the last call has it             */

#endif
