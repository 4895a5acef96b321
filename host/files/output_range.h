/* output_range - which frames of a convolution are written: N frames of input and a mask of L taps make N + L - 1. */
#ifndef OUTPUT_RANGE_H
#define OUTPUT_RANGE_H

#include "dsp/haloconv.h"

#include <stdint.h>

enum range_choice { /* the option --tail */
    RANGE_FULL,     /* all frames */
    RANGE_SAME,     /* the first N */
    RANGE_CENTRE,   /* N, from (L - 1) / 2 on */
};

struct output_range {
    int64_t skip;  /* frames left out at the start of the convolution */
    int64_t extra; /* frames written beyond N */
};

struct output_range output_range_make(enum range_choice choice, int n_taps);

/* The number of the first frame after the written frames. */
int64_t output_range_end(struct output_range range, int64_t n_frames_in);

/* Finds which of the frames first ... first + n - 1 of the convolution are written. *from: the first of these, counted
 * from `first`. Returns their number. end: from output_range_end, or INT64_MAX while it is not known. */
int output_range_cut(struct output_range range, int64_t end, int64_t first, int n, int *from);

/* L: the length of the longest of n routes, delay included; at least 1. */
int routes_taps(const hc_route *routes, int n);

#endif
