/* tail - which part of a convolution is written: of N frames of input and a mask of L taps there are N + L - 1. */
#ifndef TAIL_H
#define TAIL_H

#include "dsp/haloconv.h"

#include <stdbool.h>

enum tail {
    TAIL_FULL,   /* all of them */
    TAIL_SAME,   /* the first N */
    TAIL_CENTRE, /* N, from (L - 1) / 2 on */
};
#define TAIL_NEEDS "full, same or centre"

bool tail_parse(const char *text, enum tail *tail);

int tail_skip(enum tail tail, int n_taps);  /* frames left out at the start */
int tail_extra(enum tail tail, int n_taps); /* frames written beyond N */

/* L: of the longest of n routes, delay included; at least 1. */
int tail_taps(const hc_route *routes, int n);

#endif
