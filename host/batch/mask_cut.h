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

#include "dsp/haloconv_masks.h"

#include <stdbool.h>

enum { EARLY_FADE_MS = 2 };

/* The frame of the direct sound; 0: the mask is silent, or a configuration. */
int mask_onset(const hc_responses *mask);

/* Cuts a mask that is routed. rate: of the input, which a text of coefficients has too. align: leaves out the frames in front of the direct sound. early_ms: leaves out what
 * comes later than that after the direct sound (INFINITY: nothing); the last EARLY_FADE_MS of the rest, or its second
 * half if that is shorter, fall to 0 as half a cosine. *n_frames: the length without the cut of early_ms, for the range
 * of the output. false: the mask is a configuration; why has the reason. */
bool mask_cut(hc_responses *mask, const char *path, int rate, bool align, double early_ms, int *n_frames, char *why,
              size_t cap);

#endif
