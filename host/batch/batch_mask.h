/* batch_mask - the masks and noises of a batch, as the entries of a cache: resampled, and cut at their direct sound.
 *
 *   |h|            direct sound          the first frame at which a channel is within 20 dB of the peak of all
 *    |  silence   |\ early               channels (as in ISO 3382-1)
 *    |____________| \____ .......
 *    0          onset    onset + early_ms
 *    <-- align -->          <-- early -->
 */
#ifndef BATCH_MASK_H
#define BATCH_MASK_H

#include "cache.h"
#include "dsp/haloconv_masks.h"

struct batch_mask_key {
    int n_in;        /* inputs to route; 0: a noise, which has no routes */
    int rate;        /* rate of the input: the file is resampled to this rate */
    bool align;      /* leave out the frames in front of the direct sound */
    double early_ms; /* keep so much of the mask after the direct sound; INFINITY: all */
};

struct batch_mask {
    struct cache_entry entry;
    struct batch_mask_key key;
    hc_responses responses;
    int n_frames; /* length of the mask without the cut by early_ms; sets the range of the output */
    int onset;    /* the direct sound's frame before the cut; 0 if neither align nor early_ms is set */
    double t30_s; /* decay time before the cut: mean of the channels that have one; NaN: unknown or not wanted */
};

/* The settings of the cache are a bool: true if a load finds the decay time of a routed mask. */
extern const struct cache_kind batch_masks;

#endif
