/* scene_head - the head of moving sources, computed inside the call.
 *
 *   FDL      for each source and block, the spectrum of [previous block | block]
 *   sums     to:   sum of weight * X * H over all partitions
 *            from: the same with the weights of `from`, usually `to` of the previous block. Its partitions from 1 on
 *                  meet only earlier blocks. So the previous block sums them (`next`) while it reads the same H for
 *                  its own `to`: each H is read once. The current block adds partition 0
 *
 * A block that comes in several calls computes partitions from 1 on in its first call, and partition 0 in each.
 */
#include "dsp/base/memory.h"
#include "dsp/device/backend.h"
#include "scene_state.h"

#include <stdlib.h>

enum { SUMS = 5 };

double scene_head_floats(const struct scene_cut *cut, int n_out)
{
    return SUMS * (double)cut->frames * n_out + (double)scene_scratch_floats(cut);
}

bool scene_head_open(struct scene_state *s)
{
    const struct scene_level_cpu *level = &s->levels[0];
    float *sums = memory_floats(SUMS * level->n_sums);
    s->head.scratch = memory_floats(scene_scratch_floats(&level->cut));
    if (!sums || !s->head.scratch) {
        free(sums);
        return false;
    }
    s->head.to = sums; /* scene_head_close frees this address: `to` is never swapped with another buffer */
    s->head.from = sums + level->n_sums;
    s->head.next = sums + 2 * level->n_sums;
    s->head.rest_to = sums + 3 * level->n_sums;
    s->head.rest_from = sums + 4 * level->n_sums;
    return true;
}

void scene_head_close(struct scene_state *s)
{
    free(s->head.to);
    free(s->head.scratch);
}

enum { TO, FROM };

/* Adds partitions [first, end) of a list's products to y, and the next block's products to `next` unless it is NULL. */
static void scene_head_sum(const struct scene_state *s, float *y, float *next, int list, int first, int end,
                           int64_t block)
{
    const struct scene_level_cpu *level = &s->levels[0];
    const struct scene_cut *cut = &level->cut;
    struct scene_sum sum = {.piece = level->lists[list].pieces,
                            .sources = level->lists[list].sources,
                            .to = level->lists[list].n_sources,
                            .fdl = level->fdl,
                            .x_source = scene_fdl_source(cut),
                            .mixed = s->head.scratch,
                            .first = first,
                            .end = end,
                            .entry = scene_fdl_entry(cut, block),
                            .n_entries = cut->n_partitions,
                            .floats = cut->chunk,
                            .x_step = scene_fdl_chunk(cut),
                            .y_step = (size_t)cut->frames};
    for (; sum.chunk < cut->n_chunks; sum.chunk++, y += cut->chunk) {
        s->simd->scene_sum(y, next, &sum);
        if (next) next += cut->chunk;
    }
}

static void clear(const struct scene_state *s, float *sums)
{
    memset(sums, 0, s->levels[0].n_sums * sizeof *sums);
}

static void exchange(float **a, float **b)
{
    float *c = *a;
    *a = *b;
    *b = c;
}

/* Computes the sums of a block that comes in one call. */
static void sums_of_block(struct scene_state *s, bool is_still, int64_t block)
{
    struct scene_head *h = &s->head;
    int all = s->levels[0].cut.n_partitions;
    clear(s, h->to);
    if (is_still) {
        scene_head_sum(s, h->to, NULL, TO, 0, all, block);
        h->has_next = false;
        return;
    }
    bool has_rest = h->has_next;
    exchange(&h->from, &h->next);
    clear(s, h->next);
    scene_head_sum(s, h->to, h->next, TO, 0, all, block);
    h->has_next = true;
    if (!has_rest) clear(s, h->from);
    scene_head_sum(s, h->from, NULL, FROM, 0, has_rest ? 1 : all, block);
}

/* Computes the sums of a part of a block. */
static void sums_of_part(struct scene_state *s, bool is_first, bool is_still, int64_t block)
{
    struct scene_head *h = &s->head;
    size_t bytes = s->levels[0].n_sums * sizeof(float);
    int all = s->levels[0].cut.n_partitions;
    if (is_first) {
        clear(s, h->rest_to);
        scene_head_sum(s, h->rest_to, NULL, TO, 1, all, block);
        if (h->has_next) exchange(&h->rest_from, &h->next);
        if (!is_still && !h->has_next) {
            clear(s, h->rest_from);
            scene_head_sum(s, h->rest_from, NULL, FROM, 1, all, block);
        }
        h->has_next = false;
    }
    memcpy(h->to, h->rest_to, bytes);
    scene_head_sum(s, h->to, NULL, TO, 0, 1, block);
    if (is_still) return;
    memcpy(h->from, h->rest_from, bytes);
    scene_head_sum(s, h->from, NULL, FROM, 0, 1, block);
}

static void scene_output_add(const struct scene_state *s, const struct scene_call *call, int out, int pos)
{
    const struct scene_level_cpu *level = &s->levels[0];
    const struct scene_head *h = &s->head;
    const float *y = h->scratch + level->cut.frames / 2 - level->cut.hop + pos;
    size_t spectrum = (size_t)out * (size_t)level->cut.frames;
    float *sum = call->out[out];
    int fade = level->plan->fade;
    fft_inverse(level->fft, h->to + spectrum, h->scratch);
    if (call->is_still) {
        for (int k = 0; k < call->n; k++) sum[k] += y[k];
        return;
    }
    for (int k = 0; k < call->n; k++) sum[k] += steer_gain(pos + k, fade) * y[k];
    if (pos + 1 >= fade) return;
    fft_inverse(level->fft, h->from + spectrum, h->scratch);
    for (int k = 0; k < call->n && pos + k + 1 < fade; k++) sum[k] += (1 - steer_gain(pos + k, fade)) * y[k];
}

void scene_head_play(struct scene_state *s, const struct scene_call *call)
{
    struct scene_level_cpu *level = &s->levels[0];
    struct scene_head *h = &s->head;
    int block = s->plan.block, pos = (int)(call->frame % block);
    int64_t b = call->frame / block;
    if (pos == 0) {
        if (call->from.terms != h->last.terms || call->from.n != h->last.n) h->has_next = false;
        h->last = call->to;
        scene_list_make(&s->maker, &call->to, 0, &level->lists[TO]);
        if (!call->is_still) scene_list_make(&s->maker, &call->from, 0, &level->lists[FROM]);
    }
    for (int i = 0; i < s->shape.n_sources; i++)
        scene_source_transform(s, 0, i, call->frame + call->n, block - pos - call->n, b, h->scratch);
    if (call->n == block)
        sums_of_block(s, call->is_still, b);
    else
        sums_of_part(s, pos == 0, call->is_still, b);
    for (int out = 0; out < call->n_active; out++) scene_output_add(s, call, out, pos);
}
