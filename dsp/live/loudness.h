/* loudness - the integrated loudness of a signal by ITU-R BS.1770-4: K-weighted, in blocks of 400 ms, one every 100 ms,
 * without the blocks below -70 LUFS and those 10 LU below the rest. Every channel counts alike. libebur128 computes the
 * same, but allocates memory while it measures.
 */
#ifndef LOUDNESS_H
#define LOUDNESS_H

#include "dsp/signal/k_weighting.h"

#include <stdbool.h>
#include <stdint.h>

enum { LOUDNESS_STEPS = 4, LOUDNESS_CLASSES = 1000 }; /* steps of 100 ms in a block; classes of 0.1 LU from -70 LUFS on */

struct loudness {
    int n_channels, step;              /* step: frames                                                         */
    struct biquad filters[2];          /* the K-weighting                                                      */
    double (*state)[2][2];             /* [n_channels]                                                         */
    int pos, n_steps;                  /* frames of the present step; whole steps since the start              */
    double sum, sums[LOUDNESS_STEPS];  /* sums of squares: present step, latest steps                          */
    double energies[LOUDNESS_CLASSES]; /* sums of the mean squares of the blocks of a class                    */
    uint32_t counts[LOUDNESS_CLASSES];
};

/* false: no memory. [setup] */
bool loudness_open(struct loudness *loudness, int n_channels, int rate);
void loudness_close(struct loudness *loudness);

/* Discards all measurements. [rt] */
void loudness_reset(struct loudness *loudness);

/* Measures n frames. true: a block of 400 ms was completed. [rt] */
bool loudness_add(struct loudness *loudness, float *const *rows, int n);

/* Returns LUFS; -INFINITY: no block is above -70 LUFS. [rt] */
double loudness_get(const struct loudness *loudness);

#endif
