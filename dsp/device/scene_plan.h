/* scene_plan - how the responses of a bank are cut into levels. A pure function, so that engines of one device with the
 * same sizes share banks.
 *
 *   head          taps [0, offset of level 1): partitions of `block` frames, computed inside the call
 *   tail levels   partitions of `hop` frames. The work on a hop may take `delay` frames
 *
 * At frame T, a multiple of the hop, a tail level transforms the last `fft` input frames before T and computes hop +
 * fade frames of output, which are due from frame T + delay on. The first `fade` of them are crossfaded with the last
 * `fade` frames that were computed at T - hop. So one product a hop serves the fade too, and
 * offset = hop + fade + delay.
 */
#ifndef HALOCONV_SCENE_PLAN_H
#define HALOCONV_SCENE_PLAN_H

#include "dsp/haloconv_scenes.h"

#include <stdbool.h>

struct scene_level {
    int offset, n_taps;  /* index of the level's first tap; number of its taps                                */
    int hop, delay, fade; /* in frames; the head has delay 0                                                  */
    int n_partitions;    /* partitions, of `hop` taps each                                                    */
    int fft;             /* frames of a transform: the head 2 hop, a tail level 2 hop + fade or more          */
};

struct scene_plan {
    int rate, block, steer_fade, bank_taps;
    int n_levels;
    struct scene_level levels[HC_MAX_STEER_LEVELS];
};

void scene_plan_make(struct scene_plan *plan, int rate, int block, int steer_fade, int bank_taps);

/* Divides the taps of a plan whose other numbers are set: a head and, if taps lie far enough behind tap `offset`, a tail
 * level with this hop. fft: frames of the tail's transform. */
void scene_plan_divide(struct scene_plan *plan, int offset, int hop, int fft);

/* May engines with these plans share a bank? [rt] */
bool scene_plan_is_same(const struct scene_plan *a, const struct scene_plan *b);

#endif
