/* mask_constant - the masks of a task in 64 KiB of constant memory; each file that includes it has its own memory.
 *
 * prepare overwrites the masks of the task before, so a task must be prepared again after another one. Each mask is
 * padded with zeros to a multiple of `unit` taps, which a kernel may read as taps. */
#ifndef HALOCONV_MASK_CONSTANT_CUH
#define HALOCONV_MASK_CONSTANT_CUH

#include "rung.cuh"

#include <stdlib.h>
#include <string.h>

enum { MASK_MOST = 16384 }; /* taps: all of the 64 KiB */

static __constant__ __align__(16) float mask[MASK_MOST];

static inline int mask_pitch(const struct task *t, int unit)
{
    return (t->n_taps + unit - 1) / unit * unit;
}

static inline bool mask_fits(const struct task *t, int unit)
{
    return (long)task_masks(t) * mask_pitch(t, unit) <= MASK_MOST;
}

static inline cudaError_t mask_write(const struct task *t, int unit)
{
    const int pitch = mask_pitch(t, unit), n = task_masks(t);
    float *padded = (float *)calloc((size_t)n * pitch, sizeof(float));
    if (!padded) return cudaErrorMemoryAllocation;
    for (int m = 0; m < n; m++)
        memcpy(padded + (size_t)m * pitch, t->h_host + (size_t)m * t->n_taps, t->n_taps * sizeof(float));
    cudaError_t status = cudaMemcpyToSymbol(mask, padded, (size_t)n * pitch * sizeof(float));
    /* A copy from pageable memory may return before the data has arrived, and the launch may use any stream. */
    if (status == cudaSuccess) status = cudaDeviceSynchronize();
    free(padded);
    return status;
}

/* accepts and prepare of a rung whose masks are padded to UNIT. */
template <int UNIT> static bool mask_accepts(const struct task *t) { return mask_fits(t, UNIT); }
template <int UNIT> static cudaError_t mask_prepare(const struct task *t, void **) { return mask_write(t, UNIT); }

#endif
