/* tail_mask - the tail levels of a mask: the partitions of its responses in each level, their memory layout and their
 * spectra. */
#include "dsp/base/memory.h"
#include "tail_state.h"

#include <stdlib.h>

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
