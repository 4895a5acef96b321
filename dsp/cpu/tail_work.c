#include "tail_state.h"

enum { LIST = 32 }; /* products that are handed over at once */

int tail_sum_chunk(const struct tail *tail, int level, int64_t index, const float *oldest, const struct tail_mask *mask,
                   int out, int chunk, float *y)
{
    const struct tail_level *l = &tail->levels[level];
    const struct tail_response *responses = mask->levels[level].responses;
    struct long_product list[LIST];
    int n = 0, partitions = 0, newest = (int)(index % l->n_slots);
    bool add = false;
    for (int c = mask->first_cell[out]; c < mask->first_cell[out + 1]; c++) {
        const struct tail_response *s = &responses[mask->cells[c].response];
        if (s->n == 0) continue;
        if (n + 2 > LIST) {
            tail->simd->pieces->products(y, list, n, add);
            add = true;
            n = 0;
        }
        int in = mask->cells[c].in, slot = newest - s->first, apart = oldest && s->first + s->n == l->n_slots;
        const float *h = s->chunks + (size_t)chunk * s->stride;
        if (s->n > apart)
            list[n++] =
                (struct long_product){.x = l->spectra + (size_t)in * l->in_stride + (size_t)chunk * l->chunk_stride,
                                      .h = h,
                                      .slot = slot < 0 ? slot + l->n_slots : slot,
                                      .n_slots = l->n_slots,
                                      .n_partitions = s->n - apart};
        if (apart)
            list[n++] =
                (struct long_product){.x = oldest + (size_t)in * 2 * (size_t)l->size + (size_t)chunk * LONG_CHUNK,
                                      .h = h + (size_t)(s->n - 1) * LONG_CHUNK,
                                      .n_slots = 1,
                                      .n_partitions = 1};
        partitions += s->n;
    }
    if (n > 0) tail->simd->pieces->products(y, list, n, add);
    return partitions;
}

void tail_columns(const struct tail *tail, const struct tail_level *l, int64_t index, int in, float *work, int piece)
{
    const float *ring = tail->ring + (size_t)in * tail->ring_stride;
    int now = (int)(index * l->size % tail->ring_size);
    if (now < 0) now += tail->ring_size;
    int before = now - l->size;
    if (before < 0) before += tail->ring_size;
    tail->simd->pieces->columns_in(l->fft, work, ring + before, ring + now, piece);
}

void tail_rows(const struct tail *tail, const struct tail_level *l, bool is_oldest, int in, float *work, int piece)
{
    float *to = l->oldest + (size_t)in * 2 * (size_t)l->size;
    if (!is_oldest) to = l->spectra + (size_t)in * l->in_stride + (size_t)(l->newest % l->n_slots) * LONG_CHUNK;
    tail->simd->pieces->rows_in(l->fft, work, to, is_oldest ? LONG_CHUNK : l->chunk_stride, piece);
}

int64_t tail_oldest(const struct tail_level *l, int64_t index)
{
    return index - l->n_slots + 1;
}
