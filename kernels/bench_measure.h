/* bench_measure - what the parts of the bench share: some rungs on one shape, checked and timed. */
#ifndef HALOCONV_BENCH_MEASURE_H
#define HALOCONV_BENCH_MEASURE_H

#include "ladder.h"

#include <stdio.h>

struct shape {
    int taps;
    long frames;
    int channels;
    enum sharing sharing;
    bool quick;
};

struct bench;

/* The median of each wanted choice, 0 for one that does not take the shape; budget_us: to spend on each. 0, or -1 with
 * the reason kept by b. */
int bench_shape(struct bench *b, const struct shape *shape, unsigned wanted, double budget_us, double us[CHOICES]);

/* Measure the grid of shapes that choice.c interpolates, and write it to a file with the probes. */
int bench_choice_write(struct bench *b, const char *path, const char *gpu, const char *when,
                       const struct choice_probe *probes, int n_probes);

int bench_fail(struct bench *b, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
