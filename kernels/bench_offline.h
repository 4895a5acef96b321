/* bench_offline - what a GPU's copies alone take: the roof of every convolution from host memory to host memory. */
#ifndef HALOCONV_BENCH_OFFLINE_H
#define HALOCONV_BENCH_OFFLINE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct copy_ring {         /* seconds, medians of n_runs                                                     */
    double both, up, down; /* pinned memory, up and down beside one another; up alone; down alone             */
};

/* bytes_up and bytes_down go through device 0 in blocks of at most block_bytes, four of them under way. 0, or -1: why. */
int bench_copy_ring(int64_t bytes_up, int64_t bytes_down, size_t block_bytes, int n_runs, struct copy_ring *ring,
                    char *why, size_t cap);

#ifdef __cplusplus
}
#endif
#endif
