#include "tape.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_WRITTEN = 8192 }; /* frames that may be half written just now */

bool tape_open(struct tape *tape, int n_channels, int64_t n_frames)
{
    size_t bytes = (size_t)n_channels * (size_t)n_frames * sizeof(float);
    *tape = (struct tape){.n_channels = n_channels, .cap = n_frames, .frames = malloc(bytes)};
    atomic_init(&tape->pos, 0);
    atomic_init(&tape->reads, 0);
    if (!tape->frames) return false;
    memset(tape->frames, 0, bytes); /* the audio thread must not be the first to touch a page */
    return true;
}

void tape_close(struct tape *tape)
{
    free(tape->frames);
    tape->frames = NULL;
}

int64_t tape_pos(const struct tape *tape)
{
    return atomic_load_explicit(&tape->pos, memory_order_acquire);
}

void tape_write(struct tape *tape, const float *const *in, int n)
{
    (void)atomic_load_explicit(&tape->reads, memory_order_acquire);
    int64_t pos = atomic_load_explicit(&tape->pos, memory_order_relaxed), at = pos % tape->cap;
    int first = n < tape->cap - at ? n : (int)(tape->cap - at);
    for (int ch = 0; ch < tape->n_channels; ch++) {
        float *frames = tape->frames + ch * tape->cap;
        memcpy(frames + at, in[ch], (size_t)first * sizeof(float));
        memcpy(frames, in[ch] + first, (size_t)(n - first) * sizeof(float));
    }
    atomic_store_explicit(&tape->pos, pos + n, memory_order_release);
}

bool tape_read(struct tape *tape, int64_t from, int n, float *const *out)
{
    int64_t at = from % tape->cap;
    int first = n < tape->cap - at ? n : (int)(tape->cap - at);
    for (int ch = 0; ch < tape->n_channels; ch++) {
        const float *frames = tape->frames + ch * tape->cap;
        memcpy(out[ch], frames + at, (size_t)first * sizeof(float));
        memcpy(out[ch] + first, frames, (size_t)(n - first) * sizeof(float));
    }
    atomic_fetch_add_explicit(&tape->reads, 1, memory_order_release);
    return tape_pos(tape) + MOST_WRITTEN <= from + tape->cap;
}
