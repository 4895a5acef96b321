/* mask_constant - the masks of a task in 64 KiB of constant memory, each file that includes this its own.
 *
 * One task at a time: prepare writes over what the task before it left, so a task must be prepared again after another.
 * Masks lie MASK_UNIT-aligned, padded with zeros, so that a kernel may run on over the padding. */
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
    /* A copy from pageable memory may return before it has arrived, and the launch may use any stream. */
    if (status == cudaSuccess) status = cudaDeviceSynchronize();
    free(padded);
    return status;
}

#endif
