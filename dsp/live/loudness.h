/* loudness - the integrated loudness of a signal by ITU-R BS.1770-4: K-weighted, in a block of 400 ms every 100 ms,
 * without blocks below -70 LUFS and blocks 10 LU below the rest. Every channel counts alike. libebur128 computes the
 * same, but allocates memory while it measures.
 */
#ifndef LOUDNESS_H
#define LOUDNESS_H

#include "dsp/signal/recursive_filter.h"

#include <stdbool.h>
#include <stdint.h>

enum { LOUDNESS_STEPS = 4, LOUDNESS_CLASSES = 1000 }; /* steps of 100 ms in a block; classes of 0.1 LU from -70 LUFS on */

struct loudness {
    int n_channels, step;              /* step: its length in frames                                           */
    struct biquad filters[2];          /* the K-weighting                                                      */
    double (*state)[2][2];             /* [n_channels]                                                         */
    int pos, n_steps;                  /* frames in the present step; number of whole steps so far             */
    double sum, sums[LOUDNESS_STEPS];  /* sums of squares of the present step, and of the latest steps         */
    double energies[LOUDNESS_CLASSES]; /* for each class, the sum of the mean squares of its blocks            */
    uint32_t counts[LOUDNESS_CLASSES];
};

/* false: no memory. [setup] */
bool loudness_open(struct loudness *loudness, int n_channels, int rate);
void loudness_close(struct loudness *loudness);

/* Discards all measurements. [rt] */
void loudness_reset(struct loudness *loudness);

/* Measures n frames. Returns true if they completed a block of 400 ms. [rt] */
bool loudness_add(struct loudness *loudness, float *const *rows, int n);

/* Returns LUFS; -INFINITY: no block is above -70 LUFS. [rt] */
double loudness_get(const struct loudness *loudness);

#endif
