/* bench - compares every rung of the ladder with float64, the ceilings of the device, cuDNN and cuFFT, in one run. */
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
    int seed;          /* of the noise, > 0; 0: the clock gives it. The report names the seed                   */
    double live_p50_us, live_p99_us; /* of a live block through the engine, measured by the caller; 0: not      */
};

/* On device 0. Returns 0, or -1 with the reason in why: no device, or a rung gave a wrong result. */
int bench_kernels(const struct bench_options *options, FILE *out, char *why, size_t cap);

#ifdef __cplusplus
}
#endif
#endif
