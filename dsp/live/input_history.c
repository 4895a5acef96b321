#include "input_history.h"

#include "dsp/base/memory.h"
#include "dsp/base/samples.h"

#include <string.h>

enum { LINE = 16 }; /* floats of a cache line */

bool input_history_open(struct input_history *h, int n_channels, int64_t n_frames, int max_block)
{
    int64_t lines = (n_frames + max_block) / LINE + 2;
    *h = (struct input_history){
        .samples = samples_choose(), .n_channels = n_channels, .max_block = max_block, .size = n_frames};
    h->stride = (size_t)(lines | 1) * LINE; /* an odd number of lines: rows do not share sets of the cache */
    h->frames = memory_packed((size_t)n_channels * h->stride);
    return h->frames != NULL;
}

void input_history_close(struct input_history *h)
{
    memory_packed_free(h->frames);
    h->frames = NULL;
}

int64_t input_history_end(const struct input_history *h)
{
    return atomic_load_explicit(&h->end, memory_order_acquire);
}

size_t input_history_write(struct input_history *h, const float *const *in, int at, int n, const float **rows,
                           uint32_t *peak_bits)
{
    (void)atomic_load_explicit(&h->reads, memory_order_acquire);
    int64_t pos = atomic_load_explicit(&h->end, memory_order_relaxed) % h->size, past = pos + n - h->size;
    int64_t next = past >= 0 ? past : pos + n;
    size_t bad = 0;
    for (int ch = 0; ch < h->n_channels; ch++) {
        float *row = h->frames + (size_t)ch * h->stride;
        bad += h->samples->copy_live(row + pos, in[ch] + at, n, &peak_bits[ch]);
        if (past > 0) memcpy(row, row + h->size, (size_t)past * sizeof(float));
        for (int i = 0; i < n; i += LINE) __builtin_prefetch(row + next + i, 1); /* for the next block */
        rows[ch] = row + pos;
    }
    return bad;
}

void input_history_publish(struct input_history *h, int n)
{
    atomic_store_explicit(&h->end, atomic_load_explicit(&h->end, memory_order_relaxed) + n, memory_order_release);
}

void input_history_read(const struct input_history *h, int64_t from, int *n, const float **rows)
{
    int64_t at = from % h->size;
    if (*n > h->size - at) *n = (int)(h->size - at);
    for (int ch = 0; ch < h->n_channels; ch++) rows[ch] = h->frames + (size_t)ch * h->stride + at;
}

bool input_history_kept(struct input_history *h, int64_t from)
{
    atomic_fetch_add_explicit(&h->reads, 1, memory_order_release);
    return from >= input_history_oldest(h);
}

int64_t input_history_oldest(const struct input_history *h)
{
    /* `end` may lack two blocks: one that is being written, and one that is published during this call. */
    int64_t oldest = input_history_end(h) - h->size + 2 * h->max_block;
    return oldest > 0 ? oldest : 0;
}
