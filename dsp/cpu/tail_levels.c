#include "tail_levels.h"

#include "dsp/base/memory.h"
#include "tail_state.h"

#include <stdlib.h>
#include <string.h>

/* ---- a level's FDL ----------------------------------------------------------------------------------------------- */

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

static bool tail_level_open(const struct tail *tail, struct tail_level *l, const struct plan_level *plan, int n_routes)
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

static void tail_level_close(struct tail_level *l)
{
    fft_put(l->fft);
    memory_packed_free(l->fdl);
    memory_packed_free(l->oldest);
}

static void tail_level_clear(const struct tail *tail, struct tail_level *l)
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

/* ---- a mask's partitions ----------------------------------------------------------------------------------------- */

void tail_mask_free(struct tail_mask *mask)
{
    if (!mask) return;
    for (int i = 0; i < mask->n_levels; i++) {
        free(mask->levels[i].responses);
        memory_packed_free(mask->levels[i].chunks);
        memory_packed_free(mask->levels[i].frames);
        free(mask->levels[i].out);
    }
    free(mask);
}

/* Computes the spectra of a response's partitions. taps[n_taps] begins at the level's offset. work: [4S]. */
static void response_transform(const struct tail_level *l, const struct tail_response *r, const float *taps, int n_taps,
                               float *work)
{
    for (int p = r->first; p < r->end; p++)
        partition_transform(l->fft, taps, n_taps, p, work, r->chunks + (size_t)(p - r->first) * FFT_CHUNK, r->stride);
}

static int output_partitions(const struct tail_mask *mask, const struct tail_mask_level *ml, int out)
{
    const struct routing *routing = mask->routing;
    int n = 0;
    for (int c = routing->first_cell[out]; c < routing->first_cell[out + 1]; c++) {
        const struct tail_response *r = &ml->responses[routing->cells[c].response];
        n += r->end - r->first;
    }
    return n;
}

/* Allocates memory for the partitions that partitions_find found. If a group has several outputs, one chunk of all
 * responses is contiguous; otherwise all chunks of one response are. */
static bool mask_level_alloc(const struct tail *tail, struct tail_mask *mask, const struct tail_level *l,
                             struct tail_mask_level *ml)
{
    size_t all = 0, n_chunks = (size_t)l->fft->n_chunks;
    for (int r = 0; r < mask->n_responses; r++)
        all += (size_t)(ml->responses[r].end - ml->responses[r].first) * FFT_CHUNK;
    for (int o = 0; o < tail->n_out; o++) {
        int n = output_partitions(mask, ml, o);
        ml->products += n;
        ml->n_outs += n > 0;
    }
    ml->chunks = memory_packed(all * n_chunks);
    ml->frames = memory_packed((size_t)ml->n_outs * 2 * (size_t)l->size);
    if (!ml->chunks || !ml->frames) return false;
    float *chunks = ml->chunks, *frames = ml->frames;
    for (int i = 0; i < mask->n_responses; i++) {
        struct tail_response *r = &ml->responses[i];
        size_t floats = (size_t)(r->end - r->first) * FFT_CHUNK; /* floats of one chunk */
        r->chunks = chunks;
        r->stride = l->group > 1 ? all : floats;
        chunks += l->group > 1 ? floats : floats * n_chunks;
    }
    for (int o = 0; o < tail->n_out; o++) {
        if (output_partitions(mask, ml, o) == 0) continue;
        ml->out[o] = frames;
        frames += 2 * (size_t)l->size;
    }
    return true;
}

static bool mask_level_make(const struct tail *tail, struct tail_mask *mask, int i, int offset,
                            const struct matrix *matrix, float *work)
{
    const struct tail_level *l = &tail->levels[i];
    struct tail_mask_level *ml = &mask->levels[i];
    ml->responses = calloc((size_t)matrix->n_responses + 1, sizeof *ml->responses);
    ml->out = calloc((size_t)tail->n_out, sizeof *ml->out);
    if (!ml->responses || !ml->out) return false;
    for (int r = 0; r < matrix->n_responses; r++) { /* taps past the level's end belong to later levels */
        int max = l->fdl_entries * l->size, n_taps = matrix->n_taps[r] - offset;
        partitions_find(matrix->taps[r] + offset, n_taps < max ? n_taps : max, l->size, &ml->responses[r].first,
                        &ml->responses[r].end);
    }
    if (!mask_level_alloc(tail, mask, l, ml)) return false;
    for (int r = 0; r < matrix->n_responses; r++)
        response_transform(l, &ml->responses[r], matrix->taps[r] + offset, matrix->n_taps[r] - offset, work);
    return true;
}

struct tail_mask *tail_mask_make(const struct tail *tail, const struct plan *plan, const struct matrix *matrix,
                                 const struct routing *routing)
{
    struct tail_mask *mask = calloc(1, sizeof *mask);
    float *work = memory_floats(4 * (size_t)tail->levels[tail->n_levels - 1].size);
    bool good = mask && work;
    if (good) *mask = (struct tail_mask){.n_responses = matrix->n_responses, .routing = routing};
    for (int i = 0; i < tail->n_levels && good; i++) {
        mask->n_levels = i + 1;
        good = mask_level_make(tail, mask, i, plan->tail_levels[i].offset, matrix, work);
    }
    free(work);
    if (good) return mask;
    tail_mask_free(mask);
    return NULL;
}

/* ---- open and close ---------------------------------------------------------------------------------------------- */

static void find_due(struct tail *tail)
{
    for (int i = 0; i < tail->n_levels; i++) {
        struct tail_level *l = &tail->levels[i];
        int64_t next = tail->frame + tail->hop;
        l->due = next / l->size - 2;
        l->due_at = (int)(next % l->size);
    }
}

/* Returns the length of the input ring, a whole number of blocks of every level. To catch up on a block of a level with
 * n partitions, a mask needs the (n + 1) S frames up to the block's end, until 2S frames after this end. An interrupted
 * pool thread may need them for another S frames (pool_block_publish in tail_pool.c). */
static int history_frames(const struct plan *plan)
{
    int largest = plan->tail_levels[plan->n_tail_levels - 1].size, n = 3;
    for (int i = 0; i < plan->n_tail_levels; i++) {
        int64_t frames = ((int64_t)plan->tail_levels[i].n_partitions + 4) * plan->tail_levels[i].size;
        while ((int64_t)n * largest < frames) n++;
    }
    return n * largest;
}

struct tail *tail_open(const struct plan *plan, int n_in, int n_out, int n_routes, int n_threads)
{
    struct tail *tail = calloc(1, sizeof *tail);
    if (!tail) return NULL;
    tail->n_in = n_in;
    tail->n_out = n_out;
    tail->hop = plan->hop;
    tail->n_levels = plan->n_tail_levels;
    tail->scheduler = n_threads > 0 ? &tail_pool : &tail_slices;
    bool good = input_ring_open(&tail->history, n_in, history_frames(plan));
    for (int i = 0; i < tail->n_levels && good; i++)
        good = tail_level_open(tail, &tail->levels[i], &plan->tail_levels[i], n_routes);
    if (!good || !tail->scheduler->open(tail, n_threads)) {
        tail_close(tail);
        return NULL;
    }
    find_due(tail);
    return tail;
}

void tail_close(struct tail *tail)
{
    if (!tail) return;
    if (tail->schedule) tail->scheduler->close(tail);
    for (int i = 0; i < tail->n_levels; i++) tail_level_close(&tail->levels[i]);
    memory_packed_free(tail->history.frames);
    free(tail);
}

void tail_wait_set(struct tail *tail, bool waits)
{
    atomic_store_explicit(&tail->waits, waits, memory_order_relaxed);
}

void tail_reset(struct tail *tail)
{
    tail->scheduler->reset(tail);
    input_ring_clear(&tail->history);
    for (int i = 0; i < tail->n_levels; i++) {
        tail_level_clear(tail, &tail->levels[i]);
        for (int m = 0; m < MAX_PREPARED; m++)
            if (tail->prepared[m]) tail->prepared[m]->levels[i].first_block = 0;
    }
    tail->pos = 0;
    tail->frame = 0;
    find_due(tail);
}

/* ---- prepared masks ------------------------------------------------------------------------------------------------
 *
 * A mask can play once it has the due block and the next block in every level. The work on these blocks is over, or
 * began without the mask: the scheduler computes the blocks again for this mask (it catches up). The FDL still has
 * their spectra, except the oldest, whose entry the next block overwrites: the oldest spectra are computed again from
 * the input history. (One more entry would keep them, but interrupts the stream of the other entries: 10 % of the time
 * of 64 channels of 1 s.) The scheduler computes the later block first, because the earlier one may pass meanwhile.
 */

void tail_prepare(struct tail *tail, struct tail_mask *mask)
{
    int m = 0;
    tail->scheduler->prepare(tail);
    while (m < MAX_PREPARED - 1 && tail->prepared[m]) m++;
    tail->prepared[m] = mask;
    for (int i = 0; i < tail->n_levels; i++) {
        bool included = mask->levels[i].n_outs > 0 && tail->scheduler->include(tail, i, mask, m);
        mask->levels[i].first_block = tail->levels[i].newest + !included;
    }
}

void tail_retire(struct tail *tail, struct tail_mask *mask)
{
    for (int m = 0; m < MAX_PREPARED; m++)
        if (tail->prepared[m] == mask) tail->prepared[m] = NULL;
    tail->scheduler->retire(tail, mask);
}

bool tail_released(const struct tail *tail, const struct tail_mask *mask)
{
    return !tail->scheduler->released || tail->scheduler->released(tail, mask);
}

/* Blocks before the start of the stream are silent: every mask has them. */
bool tail_ready(const struct tail *tail, const struct tail_mask *mask)
{
    for (int i = 0; i < tail->n_levels; i++) {
        const struct tail_mask_level *ml = &mask->levels[i];
        if (ml->n_outs > 0 && ml->first_block > 0 && tail->levels[i].due < ml->first_block) return false;
    }
    return true;
}

bool tail_is_preparing(const struct tail *tail)
{
    for (int m = 0; m < MAX_PREPARED; m++)
        if (tail->prepared[m] && !tail_ready(tail, tail->prepared[m])) return true;
    return false;
}

struct tail_mask *tail_find_missing(const struct tail *tail, int level, int64_t *block)
{
    const struct tail_level *l = &tail->levels[level];
    for (int m = 0; m < MAX_PREPARED; m++) {
        struct tail_mask *mask = tail->prepared[m];
        if (!mask || mask->levels[level].n_outs == 0) continue;
        *block = mask->levels[level].first_block - 1;
        if (*block < 0 || *block < l->due) continue;
        if (*block == l->newest && !tail->scheduler->has_inputs(tail, level)) continue;
        return mask;
    }
    return NULL;
}

/* ---- hops -------------------------------------------------------------------------------------------------------- */

int tail_left(const struct tail *tail)
{
    return tail->hop - tail->pos;
}

void tail_begin(struct tail *tail)
{
    if (tail->pos > 0 || !tail->scheduler->finish) return;
    for (int i = 0; i < tail->n_levels; i++)
        if (tail->levels[i].due_at == 0) tail->scheduler->finish(tail, i);
}

void tail_push(struct tail *tail, const float *const *in, int at, int n)
{
    input_ring_write(&tail->history, tail->frame + tail->pos, in, at, n);
}

void tail_add(const struct tail *tail, const struct tail_mask *mask, int out, float *y, int n)
{
    for (int i = 0; i < tail->n_levels; i++) {
        const struct tail_level *l = &tail->levels[i];
        const struct tail_mask_level *ml = &mask->levels[i];
        if (l->due < ml->first_block || !ml->out[out]) continue;
        const float *from = ml->out[out] + (l->due & 1) * l->size + l->due_at + tail->pos;
        for (int k = 0; k < n; k++) y[k] += from[k];
    }
}

void tail_advance(struct tail *tail, int n)
{
    tail->pos += n;
    if (tail->pos < tail->hop) return;
    tail->pos = 0;
    tail->frame += tail->hop;
    find_due(tail);
    tail->scheduler->advance(tail);
}

void tail_get_load(const struct tail *tail, struct tail_load *load)
{
    *load = (struct tail_load){0};
    if (tail->scheduler->get_load) tail->scheduler->get_load(tail, load);
}
