/* scene_cpu - moving sources on the CPU.
 *
 *   head          inside the call
 *   tail level    at frame T, a multiple of the hop, the engine thread records the mix and publishes jobs. Pool threads
 *                 do them until frame T + delay; the engine thread does the rest, evenly in its calls (scene_tail.c)
 *
 * Cost. The products of random entries wait for memory. With 128 changing sources, 2 outputs, 0.5 s at 48 kHz and 64
 * frames, a block reads:
 *
 *   head     2.9 MB = 128 sources * 15 partitions * 128 floats * (1 FDL + 2 outputs)
 *   tail     6.3 MB = 128 sources * 7 partitions * 4096 floats * (1 FDL + 2 outputs) / 7 blocks a hop
 *
 * One core of an AMD EPYC of 2024 reads 39 GB/s: 0.24 ms. With 0.05 ms for the transforms, a block should cost 0.29 ms
 * of processor time. The measured time is 0.33 ms, beside other programs.
 */
#include "dsp/device/scene_backend.h"

#include "dsp/base/memory.h"
#include "dsp/base/processors.h"
#include "dsp/device/backend.h"
#include "scene_state.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>

void scene_source_transform(const struct scene_state *s, int level, int source, int64_t end, int n_zeros, int64_t hop,
                            float *scratch)
{
    const struct scene_level_cpu *l = &s->levels[level];
    const struct scene_cut *cut = &l->cut;
    float *frames = scratch + cut->frames;
    int n = cut->frames - n_zeros;
    input_ring_read(&s->history, source, end - n, n, frames);
    memset(frames + n, 0, (size_t)n_zeros * sizeof *frames);
    float *to = l->fdl + (size_t)source * scene_fdl_source(cut) + scene_fdl_phase(cut, hop) +
                (size_t)(scene_fdl_entry(cut, hop) * cut->chunk);
    fft_forward(l->fft, frames, frames + cut->frames / 2, scratch, to, scene_fdl_chunk(cut));
}

/* ---- the head ---------------------------------------------------------------------------------------------------- */

/* The head of moving sources, computed inside the call.
 *
 *   FDL      for each source and block, the spectrum of [previous block | block]
 *   sums     to:   sum of weight * X * H over all partitions
 *            from: the same with the weights of `from`, usually `to` of the previous block. Its partitions from 1 on
 *                  meet only earlier blocks. So the previous block sums them (`next`) while it reads the same H for
 *                  its own `to`: each H is read once. The current block adds partition 0
 *
 * A block that comes in several calls computes partitions from 1 on in its first call, and partition 0 in each.
 */
enum { SUMS = 5 };

static double scene_head_floats(const struct scene_cut *cut, int n_out)
{
    return SUMS * (double)cut->frames * n_out + (double)scene_scratch_floats(cut);
}

/* false: no memory; the caller must call scene_head_close then, too. */
static bool scene_head_open(struct scene_state *s)
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

static void scene_head_close(struct scene_state *s)
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

static void scene_head_play(struct scene_state *s, const struct scene_call *call)
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

/* ---- sizes and costs --------------------------------------------------------------------------------------------- */

double scene_cpu_ns(const struct scene_plan *plan, int n_sources, int n_out)
{
    double ns = 0;
    for (int l = 0; l < plan->n_levels; l++) {
        struct scene_cut cut;
        scene_cut_make(&cut, plan, l);
        double floats = (double)cut.n_partitions * cut.frames * (1 + n_out);
        ns += (n_sources * scene_products_ns(floats) + (n_sources + n_out) * scene_transform_ns(&cut)) / cut.hop;
    }
    return ns;
}

/* Returns the number of threads besides the engine thread: as many as are half busy each, at most one for each other
 * processor. A scene of little work gets no thread. */
static int scene_threads(const struct scene_plan *plan, const struct scene_shape *shape)
{
    const double little = 0.02, busy = 0.5;
    double load = 1e-9 * plan->rate * scene_cpu_ns(plan, shape->n_sources, shape->n_out);
    int max = (shape->n_threads > 0 ? shape->n_threads : processors_usable()) - 1;
    if (plan->n_levels < 2) return 0;
    if (shape->n_threads > 0 || ceil(load / busy) >= max) return max;
    return load < little ? 0 : (int)ceil(load / busy);
}

static int scene_history_frames(const struct scene_plan *plan)
{
    int n = 0;
    for (int l = 0; l < plan->n_levels; l++) {
        struct scene_cut cut;
        scene_cut_make(&cut, plan, l);
        /* a thread reads the window until its hop is due; meanwhile the calls write the next frames */
        int frames = cut.frames + plan->levels[l].delay + plan->block;
        if (frames > n) n = frames;
    }
    return n;
}

static int due_frames(const struct scene_plan *plan)
{
    int n = 0;
    for (int l = 1; l < plan->n_levels; l++) {
        int frames = plan->levels[l].hop + plan->levels[l].fade + plan->block;
        if (frames > n) n = frames;
    }
    return n;
}

static size_t max_terms(const struct scene_shape *shape)
{
    return (size_t)shape->n_sources * HC_MAX_SOUNDING;
}

/* Returns the bytes of a level's lists. */
static double lists_bytes(const struct scene_shape *shape, int level)
{
    return (double)((sizeof(struct scene_piece) + sizeof(struct scene_source)) * max_terms(shape)) *
           (level == 0 ? 2 : 1);
}

static double cpu_memory(const struct scene_plan *plan, const struct scene_shape *shape)
{
    double floats = (double)shape->n_sources * scene_history_frames(plan) + (double)shape->n_out * due_frames(plan);
    double bytes = sizeof(struct scene_state);
    bytes += piece_maker_bytes(shape);
    for (int l = 0; l < plan->n_levels; l++) {
        struct scene_cut cut;
        scene_cut_make(&cut, plan, l);
        floats += (double)shape->n_sources * (double)scene_fdl_source(&cut);
        bytes += lists_bytes(shape, l);
        if (l == 0) floats += scene_head_floats(&cut, shape->n_out);
    }
    floats += scene_tail_floats(plan, shape, scene_threads(plan, shape));
    return bytes + sizeof(float) * floats;
}

/* ---- open and close ---------------------------------------------------------------------------------------------- */

static void scene_cpu_close(void *state)
{
    struct scene_state *s = state;
    if (!s) return;
    scene_tail_close(s->tail); /* close it first: its threads read all other memory */
    scene_head_close(s);
    for (int l = 0; l < s->plan.n_levels; l++) {
        fft_put(s->levels[l].fft);
        free(s->levels[l].fdl);
        for (int i = 0; i < 2; i++) {
            free(s->levels[l].lists[i].pieces);
            free(s->levels[l].lists[i].sources);
        }
    }
    piece_maker_close(&s->maker);
    memory_packed_free(s->history.frames);
    free(s->due);
    free(s);
}

/* Allocates memory and writes zeros: a first write to a page inside a call would wait for the system. */
static void *zeros_written(size_t bytes)
{
    void *p = malloc(bytes);
    return p ? memset(p, 0, bytes) : NULL;
}

/* Returns false if there is no memory. */
static bool scene_level_open(struct scene_state *s, int l)
{
    struct scene_level_cpu *level = &s->levels[l];
    level->plan = &s->plan.levels[l];
    scene_cut_make(&level->cut, &s->plan, l);
    level->n_sums = (size_t)s->shape.n_out * (size_t)level->cut.frames;
    level->fft = fft_get(level->cut.frames / 2);
    level->fdl = memory_floats((size_t)s->shape.n_sources * scene_fdl_source(&level->cut));
    bool ok = level->fft && level->fdl;
    for (int i = 0; i < (l == 0 ? 2 : 1) && ok; i++) {
        level->lists[i].pieces = zeros_written(max_terms(&s->shape) * sizeof(struct scene_piece));
        level->lists[i].sources = zeros_written(max_terms(&s->shape) * sizeof(struct scene_source));
        ok = level->lists[i].pieces && level->lists[i].sources;
    }
    return ok;
}

static int scene_cpu_open(const struct scene_plan *plan, const struct scene_shape *shape, int device, void **state,
                          struct reason *why)
{
    (void)device;
    double bytes = cpu_memory(plan, shape);
    if (bytes > sizeof(float) * scene_max_floats())
        return fail(HC_ENOMEM, why,
                    "%d sources with responses of %d frames need %.1f GiB of memory; use fewer or shorter ones",
                    shape->n_sources, plan->bank_taps, bytes / (1 << 30));
    struct scene_state *s = calloc(1, sizeof *s);
    bool ok = s != NULL;
    if (ok) {
        s->plan = *plan;
        s->shape = *shape;
        s->simd = simd_choose();
        s->due_length = due_frames(plan);
        for (int l = 0; l < plan->n_levels && ok; l++) ok = scene_level_open(s, l);
    }
    if (ok) {
        s->due = memory_floats((size_t)shape->n_out * (size_t)s->due_length);
        ok = input_ring_open(&s->history, shape->n_sources, scene_history_frames(plan)) && s->due &&
             scene_head_open(s) && piece_maker_open(&s->maker, shape, INT_MAX, scene_bank_cpu_responses);
    }
    if (ok && plan->n_levels > 1) {
        s->tail = scene_tail_open(s, scene_threads(plan, shape));
        ok = s->tail != NULL;
    }
    if (ok) {
        *state = s;
        return HC_OK;
    }
    scene_cpu_close(s);
    return fail(HC_ENOMEM, why, "no memory for %d sources with responses of %d frames; use fewer or shorter ones",
                shape->n_sources, plan->bank_taps);
}

static int scene_cpu_reset(void *state, struct reason *why)
{
    struct scene_state *s = state;
    (void)why;
    if (s->tail) scene_tail_reset(s->tail);
    for (int l = 0; l < s->plan.n_levels; l++)
        memset(s->levels[l].fdl, 0, (size_t)s->shape.n_sources * scene_fdl_source(&s->levels[l].cut) * sizeof(float));
    input_ring_clear(&s->history);
    memset(s->due, 0, (size_t)s->shape.n_out * (size_t)s->due_length * sizeof(float));
    s->head.has_next = false;
    return HC_OK;
}

/* ---- play -------------------------------------------------------------------------------------------------------- */

/* Adds the due frames of the ring to the output, and clears them in the ring. */
static void due_read(struct scene_state *s, const struct scene_call *call)
{
    int at = (int)(call->frame % s->due_length);
    for (int out = 0; out < call->n_active; out++) {
        float *due = s->due + (size_t)out * (size_t)s->due_length;
        for (int k = 0, i = at; k < call->n; k++) {
            call->out[out][k] += due[i];
            due[i] = 0;
            if (++i == s->due_length) i = 0;
        }
    }
}

static int scene_cpu_play(void *state, const struct scene_call *call, struct reason *why)
{
    struct scene_state *s = state;
    (void)why;
    if (s->tail) scene_tail_begin(s->tail, call);
    input_ring_write(&s->history, call->frame, call->in, 0, call->n);
    scene_head_play(s, call);
    if (!s->tail) return HC_OK;
    due_read(s, call);
    scene_tail_advance(s->tail, call);
    return HC_OK;
}

const struct scene_backend scene_cpu = {
    .open = scene_cpu_open,
    .close = scene_cpu_close,
    .bank_make = scene_bank_cpu_make,
    .bank_free = scene_bank_cpu_free,
    .memory = cpu_memory,
    .play = scene_cpu_play,
    .reset = scene_cpu_reset,
};
