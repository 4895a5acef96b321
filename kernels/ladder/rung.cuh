/* rung - functions that several rungs use: the rows of a task, its masks on the device, one launch a channel, noise. */
#ifndef HALOCONV_RUNG_CUH
#define HALOCONV_RUNG_CUH

#include "ladder.h"

#include <stdint.h>

struct row {        /* one output channel of a task; device memory */
    const float *x; /* [n_frames]     */
    const float *h; /* [n_taps]       */
    float *y;       /* [n_frames]     */
    int mask;       /* the index of the mask h */
};

static inline struct row task_row(const struct task *t, int out)
{
    const int in = t->sharing == BANK ? 0 : out, mask = t->sharing == SHARED ? 0 : out;
    return {t->x + in * t->x_pitch, t->h + (long)mask * t->n_taps, t->y + out * t->y_pitch, mask};
}

static inline int task_masks(const struct task *t)
{
    return t->sharing == SHARED ? 1 : t->n_out;
}

static inline unsigned tiles_of(long n, long tile)
{
    return (unsigned)((n + tile - 1) / tile);
}

/* Allocates *h on the device and writes the masks of a task to it, each padded with zeros to `pitch` taps. */
static inline cudaError_t masks_upload(const struct task *t, int pitch, float **h)
{
    const size_t n = task_masks(t), width = t->n_taps * sizeof(float), padded = pitch * sizeof(float);
    cudaError_t e = cudaMalloc(h, n * padded);
    if (e == cudaSuccess) e = cudaMemset(*h, 0, n * padded);
    if (e == cudaSuccess) e = cudaMemcpy2D(*h, padded, t->h_host, width, width, n, cudaMemcpyHostToDevice);
    return e == cudaSuccess ? cudaDeviceSynchronize() : e; /* the launch may use any stream */
}

/* Calls launch(row) for each output channel until an error. */
template <class Launch> static inline cudaError_t each_channel(const struct task *t, Launch launch)
{
    for (int out = 0; out < t->n_out; out++) {
        launch(task_row(t, out));
        cudaError_t status = cudaGetLastError();
        if (status != cudaSuccess) return status;
    }
    return cudaSuccess;
}

/* Uniform in -1 ... 1 in steps of 2^-23, the same on host and device (splitmix64). */
__host__ __device__ static inline float noise_at(uint64_t seed, uint64_t i)
{
    uint64_t z = seed + i * 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return (float)((int)((z ^ (z >> 31)) >> 40) - (1 << 23)) * (1.0f / (1 << 23));
}

/* Frame i of a row; outside the row a ghost cell, 0. */
__device__ static inline float frame_or_ghost(const float *x, long i, long n_frames)
{
    return i >= 0 && i < n_frames ? x[i] : 0.0f;
}

#endif
