/* input_ring - the latest input frames of each channel, for the tail levels of masks and for moving sources. Frame f of
 * the stream is at f % length; frames before frame 0 are 0. One thread writes. Any thread reads frames that the writer
 * does not overwrite meanwhile: the owner makes the ring long enough. */
#ifndef HALOCONV_INPUT_RING_H
#define HALOCONV_INPUT_RING_H

#include "dsp/base/memory.h"
#include "dsp/fft/fft.h"

#include <stdint.h>
#include <string.h>

struct input_ring {
    int n_channels, length;
    size_t stride; /* floats from a channel to the next: no power of two, so that rows share few sets of the cache */
    float *frames; /* [n_channels][stride] */
};

/* memory_packed_free(ring->frames) frees it. false: no memory. [setup] */
static inline bool input_ring_open(struct input_ring *ring, int n_channels, int length)
{
    size_t stride = (size_t)length + FFT_LANES;
    *ring = (struct input_ring){n_channels, length, stride, memory_packed((size_t)n_channels * stride)};
    return ring->frames != NULL;
}

static inline void input_ring_clear(const struct input_ring *ring)
{
    memset(ring->frames, 0, (size_t)ring->n_channels * ring->stride * sizeof *ring->frames);
}

/* Returns the address of a channel's frame. The next frames follow it up to the ring's end: a block at a multiple of
 * its size does not wrap, if that size divides the length. [rt] */
static inline const float *input_ring_at(const struct input_ring *ring, int ch, int64_t frame)
{
    int64_t i = frame % ring->length;
    return ring->frames + (size_t)ch * ring->stride + (i < 0 ? i + ring->length : i);
}

/* Writes n frames of each channel, from in[ch] + at, as frames [frame, frame + n); 0 <= frame, n <= length. Prefetches
 * the positions of the next n frames, which have left the cache. [rt] */
static inline void input_ring_write(const struct input_ring *ring, int64_t frame, const float *const *in, int at, int n)
{
    int i = (int)(frame % ring->length), n_first = ring->length - i < n ? ring->length - i : n;
    int next = (i + n) % ring->length, n_next = ring->length - next < n ? ring->length - next : n;
    for (int ch = 0; ch < ring->n_channels; ch++) {
        float *row = ring->frames + (size_t)ch * ring->stride;
        memcpy(row + i, in[ch] + at, (size_t)n_first * sizeof *row);
        if (n_first < n) memcpy(row, in[ch] + at + n_first, (size_t)(n - n_first) * sizeof *row);
        for (int k = 0; k < n_next; k += FFT_LANES) __builtin_prefetch(row + next + k, 1);
    }
}

/* Copies frames [frame, frame + n) of a channel. [rt] */
static inline void input_ring_read(const struct input_ring *ring, int ch, int64_t frame, int n, float *frames)
{
    const float *from = input_ring_at(ring, ch, frame), *row = ring->frames + (size_t)ch * ring->stride;
    int left = (int)(row + ring->length - from), n_first = left < n ? left : n;
    memcpy(frames, from, (size_t)n_first * sizeof *frames);
    memcpy(frames + n_first, row, (size_t)(n - n_first) * sizeof *frames);
}

#endif
