/* bench - every rung of the ladder against float64, the ceilings of the device, cuDNN and cuFFT, in one run. */
#ifndef HALOCONV_BENCH_H
#define HALOCONV_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

struct bench_options {
    bool json;         /* one object instead of a line a measurement                                            */
    bool quick;        /* few shapes, small: 5 s on an H200; otherwise all: a minute                            */
    const char *table; /* a file to rewrite between <!-- bench kernels --> and <!-- end -->; NULL: none         */
    const char *choice; /* choice_table.h, to be written anew; NULL: not. 40 s more                            */
    double live_p50_us, live_p99_us; /* a live block through the engine, which the caller knows; 0: unknown     */
};

/* On device 0. Returns 0, or -1 with the reason in why: no device, or a rung gave a wrong result. */
int bench_kernels(const struct bench_options *options, FILE *out, char *why, size_t cap);

/* Is ladder_choose's pick within `most` (1.1) of the best of the same run, at shapes in and between the table's? A line
 * a shape to out. 0, or -1 with the shape in why, or 1: the table was measured on another GPU. */
int bench_choices(double most, FILE *out, char *why, size_t cap);

#ifdef __cplusplus
}
#endif
#endif
