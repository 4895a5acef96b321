/* tail_fdl - the FDL of a tail level: its layout, its transforms, and its products with a mask's partitions. */
#include "dsp/base/memory.h"
#include "tail_state.h"

#include <string.h>

enum {
    MAX_LEVEL_GROUP = 16, /* outputs that share a pass over the FDL while a chunk of it is in the cache */
    MAX_RINGS = 32,       /* max. rings in a call of fft_products.rings */
};

/* Returns a number that is no power of two: rows that lie a power of two apart share few sets of the cache. */
static size_t row_floats(const struct tail_level *l)
{
    return (size_t)l->fdl_entries * FFT_CHUNK + FFT_LANES;
}

static size_t level_fdl_floats(const struct tail *tail, const struct tail_level *l)
{
    return (size_t)tail->n_in * l->fft->n_chunks * row_floats(l);
}

bool tail_level_open(const struct tail *tail, struct tail_level *l, const struct plan_level *plan, int n_routes)
{
    l->size = plan->size;
    l->fdl_entries = plan->n_partitions;
    l->newest = -1;
    l->fft = fft_get(l->size);
    if (!l->fft) return false;
    int n_channels = tail->n_in > tail->n_out ? tail->n_in : tail->n_out;
    l->group = n_routes <= 2 * n_channels ? 1 : tail->n_out < MAX_LEVEL_GROUP ? tail->n_out : MAX_LEVEL_GROUP;
    size_t row = row_floats(l);
    l->in_stride = l->group > 1 ? row : row * (size_t)l->fft->n_chunks;
    l->chunk_stride = l->group > 1 ? row * (size_t)tail->n_in : row;
    l->fdl = memory_packed(level_fdl_floats(tail, l));
    l->oldest = memory_packed((size_t)tail->n_in * 2 * (size_t)l->size);
    return l->fdl && l->oldest;
}

void tail_level_close(struct tail_level *l)
{
    fft_put(l->fft);
    memory_packed_free(l->fdl);
    memory_packed_free(l->oldest);
}

void tail_level_clear(const struct tail *tail, struct tail_level *l)
{
    memset(l->fdl, 0, level_fdl_floats(tail, l) * sizeof(float));
    l->newest = -1;
}

void tail_columns_in(const struct tail *tail, const struct tail_level *l, int64_t block, int in, float *work, int step)
{
    const float *before = input_ring_at(&tail->history, in, (block - 1) * l->size);
    const float *now = input_ring_at(&tail->history, in, block * l->size);
    l->fft->steps->columns_in(l->fft, work, before, now, step);
}

void tail_rows_in(const struct tail_level *l, bool is_oldest, int in, float *work, int step)
{
    float *to = l->oldest + (size_t)in * 2 * (size_t)l->size;
    if (!is_oldest) to = l->fdl + (size_t)in * l->in_stride + (size_t)(l->newest % l->fdl_entries) * FFT_CHUNK;
    l->fft->steps->rows_in(l->fft, work, to, is_oldest ? FFT_CHUNK : l->chunk_stride, step);
}

int64_t tail_oldest_block(const struct tail_level *l, int64_t block)
{
    return block - l->fdl_entries + 1;
}

int tail_sum_chunk(const struct tail *tail, int level, int64_t block, const float *oldest, const struct tail_mask *mask,
                   int out, int chunk, float *y)
{
    const struct tail_level *l = &tail->levels[level];
    const struct routing *routing = mask->routing;
    struct fft_ring list[MAX_RINGS];
    int n = 0, partitions = 0, newest = (int)(block % l->fdl_entries);
    bool add = false;
    for (int c = routing->first_cell[out]; c < routing->first_cell[out + 1]; c++) {
        const struct tail_response *r = &mask->levels[level].responses[routing->cells[c].response];
        if (r->first == r->end) continue;
        if (n + 2 > MAX_RINGS) {
            l->fft->products->rings(y, list, n, add, FFT_CHUNK);
            add = true;
            n = 0;
        }
        int in = routing->cells[c].in, entry = newest - r->first, n_partitions = r->end - r->first;
        int apart = oldest && r->end == l->fdl_entries; /* the last partition meets `oldest`, not the FDL */
        const float *h = r->chunks + (size_t)chunk * r->stride;
        if (n_partitions > apart)
            list[n++] = (struct fft_ring){.x = l->fdl + (size_t)in * l->in_stride + (size_t)chunk * l->chunk_stride,
                                          .h = h,
                                          .entry = entry < 0 ? entry + l->fdl_entries : entry,
                                          .n_entries = l->fdl_entries,
                                          .n_partitions = n_partitions - apart};
        if (apart)
            list[n++] = (struct fft_ring){.x = oldest + (size_t)in * 2 * (size_t)l->size + (size_t)chunk * FFT_CHUNK,
                                          .h = h + (size_t)(n_partitions - 1) * FFT_CHUNK,
                                          .n_entries = 1,
                                          .n_partitions = 1};
        partitions += n_partitions;
    }
    l->fft->products->rings(y, list, n, add, FFT_CHUNK);
    return partitions;
}
