/* mask_cut - cuts a mask at its direct sound.
 *
 *   |h|            direct sound          the first frame at which a channel is within 20 dB of the peak of all
 *    |  silence   |\ early               channels (as in ISO 3382-1)
 *    |____________| \____ .......
 *    0          onset    onset + early_ms
 *    <-- align -->          <-- early -->
 */
#ifndef MASK_CUT_H
#define MASK_CUT_H

#include "mask_cache.h"

enum { EARLY_FADE_MS = 2 };

/* Cuts a mask that is routed, as its key says. align: leaves out the frames in front of the direct sound. early_ms:
 * leaves out what comes later than that after the direct sound; the last EARLY_FADE_MS of the early part, or its second
 * half if that is shorter, fall to 0 as half a cosine. Sets onset and n_frames. false: the mask is a configuration;
 * mask->why has the reason. */
bool mask_cut(struct cached_mask *mask);

#endif
