/* bench_offline - times a GPU's copies without kernels: the ceiling of every convolution from host to host memory. */
#ifndef HALOCONV_BENCH_OFFLINE_H
#define HALOCONV_BENCH_OFFLINE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct copy_ring {         /* seconds for all bytes, medians of n_runs                                       */
    double both, up, down; /* up and down at the same time; up alone; down alone                              */
};

/* Copies bytes_up to device 0 and bytes_down back, in blocks of at most block_bytes, four of them under way. 0, or -1
 * with the reason in why. */
int bench_copy_ring(int64_t bytes_up, int64_t bytes_down, size_t block_bytes, int n_runs, struct copy_ring *ring,
                    char *why, size_t cap);

#ifdef __cplusplus
}
#endif
#endif
