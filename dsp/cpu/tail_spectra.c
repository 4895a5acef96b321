#include "memory.h"
#include "tail_state.h"

#include <stdlib.h>
#include <string.h>

enum { WORK_GROUP = 16 }; /* outputs that share a pass over the inputs' spectra: these stay in the cache meanwhile */

/* ---- of the inputs, in a level -------------------------------------------------------------------------------------
 */

static size_t spectra_floats(const struct tail *tail, const struct tail_level *l)
{
    return (size_t)tail->n_in * l->fft->n_chunks * ((size_t)l->n_slots * LONG_CHUNK + LONG_LANES);
}

bool tail_level_open(const struct tail *tail, struct tail_level *l, const struct plan_level *plan, int n_routes)
{
    l->size = plan->size;
    l->n_slots = plan->n_partitions;
    l->newest = -1;
    l->fft = long_fft_get(l->size);
    if (!l->fft) return false;
    l->n_columns = l->fft->column_pieces;
    l->n_rows = l->fft->row_pieces;
    int n_channels = tail->n_in > tail->n_out ? tail->n_in : tail->n_out;
    l->group = n_routes <= 2 * n_channels ? 1 : tail->n_out < WORK_GROUP ? tail->n_out : WORK_GROUP;
    size_t row = (size_t)l->n_slots * LONG_CHUNK + LONG_LANES; /* no power of two: those share sets of the cache */
    l->in_stride = l->group > 1 ? row : row * (size_t)l->fft->n_chunks;
    l->chunk_stride = l->group > 1 ? row * (size_t)tail->n_in : row;
    l->spectra = memory_place(spectra_floats(tail, l));
    l->oldest = memory_place((size_t)tail->n_in * 2 * (size_t)l->size);
    return l->spectra && l->oldest;
}

void tail_level_close(struct tail_level *l)
{
    long_fft_put(l->fft);
    memory_place_free(l->spectra);
    memory_place_free(l->oldest);
}

void tail_level_clear(const struct tail *tail, struct tail_level *l)
{
    memset(l->spectra, 0, spectra_floats(tail, l) * sizeof(float));
    l->newest = -1;
}

/* ---- of a mask's responses -----------------------------------------------------------------------------------------
 */

void tail_mask_free(struct tail_mask *mask)
{
    if (!mask) return;
    for (int i = 0; i < mask->n_levels; i++) {
        free(mask->levels[i].responses);
        memory_place_free(mask->levels[i].chunks);
        memory_place_free(mask->levels[i].frames);
        free(mask->levels[i].out);
    }
    free(mask);
}

static bool all_zero(const float *taps, int n)
{
    for (int k = 0; k < n; k++)
        if (taps[k] != 0) return false;
    return true;
}

/* Finds the partitions of a level that have taps other than 0. taps[n_taps] begins at the level's offset; taps past the
 * level's end belong to later levels. */
static void spectra_span(const struct tail_level *l, struct tail_response *s, const float *taps, int n_taps)
{
    int size = l->size;
    if (n_taps > l->n_slots * size) n_taps = l->n_slots * size;
    int end = n_taps > 0 ? (n_taps - 1) / size + 1 : 0;
    for (; end > 0; end--, n_taps = end * size)
        if (!all_zero(taps + (end - 1) * size, n_taps - (end - 1) * size)) break;
    while (s->first < end - 1 && all_zero(taps + s->first * size, size)) s->first++;
    s->n = end - s->first;
}

/* The spectra of these partitions. work: [4S]. */
static void spectra_make(const struct tail *tail, const struct tail_level *l, const struct tail_response *s,
                         const float *taps, int n_taps, float *work)
{
    int size = l->size;
    float *frames = work + 2 * (size_t)size, scale = 1.0f / (float)size;
    for (int p = 0; p < s->n; p++) {
        int at = (s->first + p) * size, n = n_taps - at < size ? n_taps - at : size;
        memset(frames, 0, 2 * (size_t)size * sizeof(float));
        for (int k = 0; k < n; k++) frames[k] = taps[at + k] * scale;
        for (int i = 0; i < l->n_columns; i++) tail->simd->pieces->columns_in(l->fft, work, frames, frames + size, i);
        for (int i = 0; i < l->n_rows; i++)
            tail->simd->pieces->rows_in(l->fft, work, s->chunks + (size_t)p * LONG_CHUNK, s->stride, i);
    }
}

static int output_partitions(const struct tail_mask *mask, const struct tail_mask_level *ml, int out)
{
    int n = 0;
    for (int c = mask->first_cell[out]; c < mask->first_cell[out + 1]; c++)
        n += ml->responses[mask->cells[c].response].n;
    return n;
}

/* Memory for the partitions that spectra_span found. If outputs take turns, one chunk of all responses is contiguous;
 * otherwise all chunks of one response are. */
static bool mask_level_alloc(const struct tail *tail, struct tail_mask *mask, const struct tail_level *l,
                             struct tail_mask_level *ml)
{
    size_t all = 0, n_chunks = (size_t)l->fft->n_chunks;
    for (int r = 0; r < mask->n_responses; r++) all += (size_t)ml->responses[r].n * LONG_CHUNK;
    for (int o = 0; o < tail->n_out; o++) {
        int n = output_partitions(mask, ml, o);
        ml->products += n;
        ml->n_outs += n > 0;
    }
    ml->chunks = memory_place(all * n_chunks);
    ml->frames = memory_place((size_t)ml->n_outs * 2 * (size_t)l->size);
    if (!ml->chunks || !ml->frames) return false;
    float *chunks = ml->chunks, *frames = ml->frames;
    for (int r = 0; r < mask->n_responses; r++) {
        struct tail_response *s = &ml->responses[r];
        s->chunks = chunks;
        s->stride = l->group > 1 ? all : (size_t)s->n * LONG_CHUNK;
        chunks += (size_t)s->n * LONG_CHUNK * (l->group > 1 ? 1 : n_chunks);
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
    for (int r = 0; r < matrix->n_responses; r++)
        spectra_span(l, &ml->responses[r], matrix->taps[r] + offset, matrix->n_taps[r] - offset);
    if (!mask_level_alloc(tail, mask, l, ml)) return false;
    for (int r = 0; r < matrix->n_responses; r++)
        spectra_make(tail, l, &ml->responses[r], matrix->taps[r] + offset, matrix->n_taps[r] - offset, work);
    return true;
}

struct tail_mask *tail_mask_make(const struct tail *tail, const struct plan *plan, const struct matrix *matrix,
                                 const struct cell *cells, const int *first_cell)
{
    struct tail_mask *mask = calloc(1, sizeof *mask);
    float *work = memory_floats(4 * (size_t)tail->levels[tail->n_levels - 1].size);
    if (!mask || !work) goto no_memory;
    mask->n_levels = tail->n_levels;
    mask->n_responses = matrix->n_responses;
    mask->n_out = tail->n_out;
    mask->cells = cells;
    mask->first_cell = first_cell;
    for (int i = 0; i < tail->n_levels; i++)
        if (!mask_level_make(tail, mask, i, plan->far[i].offset, matrix, work)) goto no_memory;
    free(work);
    return mask;
no_memory:
    free(work);
    tail_mask_free(mask);
    return NULL;
}
