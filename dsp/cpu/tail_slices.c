/* tail_slices - the scheduler without threads: every hop does an equal slice of the work, step by step (dsp/fft/fft.h). */
#include "cpu_costs.h"
#include "dsp/base/memory.h"
#include "tail_state.h"

#include <math.h>
#include <stdlib.h>

static const struct cpu_slice_costs *const cost = &cpu_slice_costs; /* costs of the steps */

/* For a mask that catches up, a hop may do, in addition to its slice, as much work as the mask costs while it plays,
 * and at least min_catch_up_ns: 2 % of a processor at 48 kHz. */
static const double min_catch_up_ns = 400; /* nanoseconds for each frame of the hop */

enum slice_phase { COLUMNS_IN, ROWS_IN, PRODUCTS, ROWS_OUT, COLUMNS_OUT, DONE };

struct block_work { /* progress on a block */
    enum slice_phase phase;
    int64_t block;
    int group;                             /* outputs that are computed together, chunk by chunk */
    int channel;                           /* the input, or the first output of the group */
    int mask;                              /* index in `masks` */
    int i;                                 /* index of the step in the phase */
    double spent, total, slice_ns;         /* expected nanoseconds: spent, in all, and for each hop */
    struct tail_mask *masks[MAX_PREPARED]; /* the block's masks, at their indices in tail->prepared */
};

struct slice_level {
    struct block_work work;
    float *scratch; /* [group][2S] */
};

struct slice_schedule {
    struct tail *tail;
    double owed_ns;             /* expected time of work that earlier hops left undone */
    double hop_ns;              /* work done in the previous hop */
    bool is_preparing;          /* a prepared mask is not ready */
    struct block_work catch_up; /* progress of catching up, one block at a time */
    int catch_up_level;
    float *catch_up_scratch; /* [2S] of the largest level */
    double catch_up_owed_ns; /* expected time of catch-up work that earlier hops left undone */
    double catch_up_ns;      /* catch-up time that the previous hop could spend */
    struct slice_level levels[PLAN_MAX_TAIL_LEVELS];
};

/* ---- expected costs ---------------------------------------------------------------------------------------------- */

static double inputs_ns(const struct tail *tail, const struct tail_level *l)
{
    return l->size * tail->n_in * (cost->columns_ns + cost->rows_ns);
}

/* Returns the cost of a block's products and inverse transforms. */
static double outputs_ns(const struct tail_level *l, const struct tail_mask_level *ml)
{
    return l->size * (ml->n_outs * (cost->columns_ns + cost->rows_ns) + ml->products * cost->product_ns);
}

/* Returns the cost of a hop that plays this mask alone. */
static double mask_ns(const struct tail *tail, const struct tail_mask *mask)
{
    double ns = 0;
    for (int i = 0; i < tail->n_levels; i++) {
        const struct tail_level *l = &tail->levels[i];
        ns += (outputs_ns(l, &mask->levels[i]) + inputs_ns(tail, l)) * tail->hop / l->size;
    }
    return ns;
}

/* Returns the cost of the next step of a block. */
static double step_ns(const struct tail_level *l, int level, const struct block_work *w)
{
    const struct tail_mask *mask = w->phase > ROWS_IN ? w->masks[w->mask] : NULL;
    switch (w->phase) {
    case COLUMNS_IN:
    case COLUMNS_OUT:
        return cost->columns_ns * l->size / l->fft->column_steps;
    case ROWS_IN:
    case ROWS_OUT:
        return cost->rows_ns * l->size / l->fft->row_steps;
    default:
        return mask ? cost->product_ns * (FFT_CHUNK / 2) * mask->levels[level].products / mask->levels[level].n_outs
                    : 0;
    }
}

int tail_swap_frames(const struct plan *plan, const struct plan_shape *shape)
{
    double all_ns = 0, hop_ns = 0;
    for (int i = 0; i < plan->n_tail_levels; i++) {
        const struct plan_level *l = &plan->tail_levels[i];
        double products = (double)shape->n_routes * l->n_partitions;
        double frame_ns =
            (shape->n_in + shape->n_out) * (cost->columns_ns + cost->rows_ns) + products * cost->product_ns;
        all_ns += 2 * l->size * frame_ns;
        hop_ns += plan->hop * frame_ns;
    }
    /* Add two hops: the request waits for the end of its hop, and the last step needs a part of a hop. */
    double hops = ceil(all_ns / fmax(hop_ns, min_catch_up_ns * plan->hop)) + 2;
    return plan->n_tail_levels > 0 ? (int)hops * plan->hop : 0;
}

/* ---- steps ------------------------------------------------------------------------------------------------------- */

/* Counts one of the phase's n steps as done; after the last step, enters the next phase. */
static void next_step(struct block_work *w, int n, enum slice_phase next)
{
    if (++w->i < n) return;
    w->i = 0;
    w->phase = next;
}

static void next_mask(struct block_work *w)
{
    w->channel = 0;
    w->i = 0;
    w->mask++;
    while (w->mask < MAX_PREPARED && !w->masks[w->mask]) w->mask++;
    w->phase = w->mask < MAX_PREPARED ? PRODUCTS : DONE;
}

/* Does a step of the inputs' transforms. scratch: [2S]. */
static void step_in(struct slice_schedule *s, int level, struct block_work *w, float *scratch)
{
    const struct tail *tail = s->tail;
    const struct tail_level *l = &tail->levels[level];
    bool is_oldest = w == &s->catch_up;
    w->spent += step_ns(l, level, w);
    if (w->phase == COLUMNS_IN) {
        tail_columns_in(tail, l, is_oldest ? tail_oldest_block(l, w->block) : w->block, w->channel, scratch, w->i);
        next_step(w, l->fft->column_steps, ROWS_IN);
        return;
    }
    tail_rows_in(l, is_oldest, w->channel, scratch, w->i);
    next_step(w, l->fft->row_steps, COLUMNS_IN);
    if (w->phase == ROWS_IN || ++w->channel < tail->n_in) return;
    w->mask = -1;
    next_mask(w);
}

/* Does a step of the outputs' products or inverse transforms. scratch: [group][2S]. */
static void step_out(struct slice_schedule *s, int level, struct block_work *w, float *scratch)
{
    const struct tail *tail = s->tail;
    const struct tail_level *l = &tail->levels[level];
    struct tail_mask *mask = w->masks[w->mask];
    if (!mask) { /* the mask was retired meanwhile */
        next_mask(w);
        return;
    }
    const struct tail_mask_level *ml = &mask->levels[level];
    int left = tail->n_out - w->channel, n = left < w->group ? left : w->group;
    if (n == 1 && !ml->out[w->channel]) {
        if (++w->channel >= tail->n_out) next_mask(w);
        return;
    }
    int in_group = w->i % n, out = w->channel + in_group, step = w->i / n;
    float *work = scratch + (size_t)in_group * 2 * (size_t)l->size;
    bool silent = !ml->out[out];
    if (!silent && w->phase != PRODUCTS) w->spent += step_ns(l, level, w);
    switch (w->phase) {
    case PRODUCTS:
        if (!silent)
            w->spent += cost->product_ns * (FFT_CHUNK / 2) *
                        tail_sum_chunk(tail, level, w->block, w == &s->catch_up ? l->oldest : NULL, mask, out, step,
                                       work + (size_t)step * FFT_CHUNK);
        next_step(w, n * l->fft->n_chunks, ROWS_OUT);
        return;
    case ROWS_OUT:
        if (!silent) l->fft->steps->rows_out(l->fft, work, step);
        next_step(w, n * l->fft->row_steps, COLUMNS_OUT);
        return;
    default:
        if (!silent) l->fft->steps->columns_out(l->fft, work, ml->out[out] + (w->block & 1) * l->size, step);
        next_step(w, n * l->fft->column_steps, PRODUCTS);
        if (w->phase == PRODUCTS && (w->channel += n) >= tail->n_out) next_mask(w);
    }
}

/* Does the next step. Returns its expected time. */
static double step_do(struct slice_schedule *s, int level, struct block_work *w, float *scratch)
{
    double before = w->spent;
    if (w->phase <= ROWS_IN)
        step_in(s, level, w, scratch);
    else
        step_out(s, level, w, scratch);
    s->hop_ns += w->spent - before;
    return w->spent - before;
}

/* ---- a hop's slice ----------------------------------------------------------------------------------------------- */

static void slices_block_begin(struct slice_schedule *s, int level, int64_t block)
{
    struct tail *tail = s->tail;
    struct tail_level *l = &tail->levels[level];
    struct block_work *w = &s->levels[level].work;
    l->newest = block;
    *w = (struct block_work){.phase = COLUMNS_IN, .block = block, .group = l->group, .total = inputs_ns(tail, l)};
    for (int m = 0; m < MAX_PREPARED; m++) {
        struct tail_mask *mask = tail->prepared[m];
        if (!tail_mask_plays(mask, level, block)) continue;
        w->masks[m] = mask;
        w->total += outputs_ns(l, &mask->levels[level]);
    }
    w->slice_ns = w->total * tail->hop / l->size;
}

static int slices_left(const struct tail *tail, const struct tail_level *l)
{
    return (int)((l->size - tail->hop - tail->frame % l->size) / tail->hop);
}

static void level_step(struct slice_schedule *s, int level)
{
    struct slice_level *l = &s->levels[level];
    s->owed_ns -= step_do(s, level, &l->work, l->scratch);
}

/* Does the slices of all levels. A step of a large level may cost as much as several slices: the other levels then
 * wait, unless they are due. No hop does more than the slices of all levels and about one step. */
static void slice_do(struct slice_schedule *s)
{
    const struct tail *tail = s->tail;
    double slice_ns = 0;
    s->hop_ns = 0;
    for (int i = 0; i < tail->n_levels; i++) {
        int size = tail->levels[i].size;
        if (tail->frame % size == 0) slices_block_begin(s, i, tail->frame / size - 1);
        slice_ns += s->levels[i].work.slice_ns;
    }
    /* The owed work may belong to a retired mask: limit it to a slice. */
    if (s->owed_ns > slice_ns) s->owed_ns = slice_ns;
    s->owed_ns += slice_ns;
    for (int i = 0; i < tail->n_levels; i++)
        if ((tail->frame + tail->hop) % tail->levels[i].size == 0) /* the block is due in the next hop */
            while (s->levels[i].work.phase != DONE) level_step(s, i);
    for (int i = 0; i < tail->n_levels; i++) {
        const struct tail_level *l = &tail->levels[i];
        const struct block_work *w = &s->levels[i].work;
        double until = w->total - w->slice_ns * slices_left(tail, l);
        while (w->phase != DONE) {
            double half = step_ns(l, i, w) / 2;
            if (w->spent + half > until || half > s->owed_ns) break;
            level_step(s, i);
        }
    }
}

/* ---- catching up ------------------------------------------------------------------------------------------------- */

/* Finds a block to catch up on and sets s->catch_up; false: no block. The largest level comes first: meanwhile the
 * small levels may begin blocks that contain the mask. */
static bool catch_up_begin(struct slice_schedule *s)
{
    struct block_work *w = &s->catch_up;
    for (int i = s->tail->n_levels; i-- > 0 && w->phase == DONE;) {
        int64_t block;
        struct tail_mask *mask = tail_find_missing(s->tail, i, &block);
        if (!mask) continue;
        *w = (struct block_work){.phase = COLUMNS_IN, .block = block, .group = 1, .masks = {mask}};
        s->catch_up_level = i;
    }
    return w->phase != DONE;
}

/* Completes the inputs' spectra of all blocks under way: a mask can then catch up on all of them at once. */
static void inputs_complete(struct slice_schedule *s)
{
    for (int i = 0; i < s->tail->n_levels; i++)
        while (s->levels[i].work.phase != DONE) level_step(s, i);
    s->owed_ns = 0;
}

/* Does a bounded amount of catch-up work in a hop, or all of it in a call that waits. */
static void catch_up_do(struct slice_schedule *s)
{
    const struct tail *tail = s->tail;
    struct block_work *w = &s->catch_up;
    bool waits = atomic_load_explicit(&tail->waits, memory_order_relaxed);
    s->catch_up_ns = 0;
    if (!s->is_preparing) return;
    if (waits) inputs_complete(s);
    if (w->phase != DONE && w->block < tail->levels[s->catch_up_level].due) w->phase = DONE;
    if (catch_up_begin(s)) s->catch_up_ns = fmax(mask_ns(tail, w->masks[0]), min_catch_up_ns * tail->hop);
    s->catch_up_owed_ns += waits ? INFINITY : s->catch_up_ns;
    while (catch_up_begin(s)) {
        double half = step_ns(&tail->levels[s->catch_up_level], s->catch_up_level, w) / 2;
        if (half > s->catch_up_owed_ns) return;
        s->catch_up_owed_ns -= step_do(s, s->catch_up_level, w, s->catch_up_scratch);
        if (w->phase == DONE) w->masks[0]->levels[s->catch_up_level].first_block = w->block;
    }
    s->catch_up_owed_ns = 0;
    s->is_preparing = tail_is_preparing(tail); /* still true: some inputs' spectra are not complete */
}

/* ---- the scheduler ----------------------------------------------------------------------------------------------- */

static void slices_close(struct tail *tail)
{
    struct slice_schedule *s = tail->schedule;
    for (int i = 0; i < tail->n_levels; i++) memory_packed_free(s->levels[i].scratch);
    memory_packed_free(s->catch_up_scratch);
    free(s);
}

static bool slices_open(struct tail *tail, int n_threads)
{
    (void)n_threads;
    struct slice_schedule *s = tail->schedule = calloc(1, sizeof *s);
    if (!s) return false;
    s->tail = tail;
    s->catch_up.phase = DONE;
    s->catch_up_scratch = memory_packed(2 * (size_t)tail->levels[tail->n_levels - 1].size);
    bool good = s->catch_up_scratch != NULL;
    for (int i = 0; i < tail->n_levels; i++) {
        const struct tail_level *l = &tail->levels[i];
        s->levels[i].work.phase = DONE;
        s->levels[i].scratch = memory_packed((size_t)l->group * 2 * (size_t)l->size);
        good = good && s->levels[i].scratch;
    }
    return good; /* on false, tail_open calls slices_close */
}

static void slices_reset(struct tail *tail)
{
    struct slice_schedule *s = tail->schedule;
    for (int i = 0; i < tail->n_levels; i++) s->levels[i].work.phase = DONE;
    s->owed_ns = s->hop_ns = 0;
    s->catch_up.phase = DONE;
}

static void slices_prepare(struct tail *tail)
{
    struct slice_schedule *s = tail->schedule;
    s->is_preparing = true;
}

/* Includes a mask only before the products begin, and only while the hops that are left keep the load even. */
static bool slices_include(struct tail *tail, int level, struct tail_mask *mask, int m)
{
    struct slice_schedule *s = tail->schedule;
    const struct tail_level *l = &tail->levels[level];
    struct block_work *w = &s->levels[level].work;
    int left = slices_left(tail, l);
    if (w->phase > ROWS_IN || 2 * left < l->size / tail->hop) return false;
    w->masks[m] = mask;
    w->total += outputs_ns(l, &mask->levels[level]);
    w->slice_ns = (w->total - w->spent) / left;
    return true;
}

static void slices_retire(struct tail *tail, const struct tail_mask *mask)
{
    struct slice_schedule *s = tail->schedule;
    for (int i = 0; i < tail->n_levels; i++)
        for (int m = 0; m < MAX_PREPARED; m++)
            if (s->levels[i].work.masks[m] == mask) s->levels[i].work.masks[m] = NULL;
    if (s->catch_up.masks[0] == mask) s->catch_up.phase = DONE;
}

static bool slices_has_inputs(const struct tail *tail, int level)
{
    const struct slice_schedule *s = tail->schedule;
    return s->levels[level].work.phase > ROWS_IN;
}

static void slices_advance(struct tail *tail)
{
    slice_do(tail->schedule);
    catch_up_do(tail->schedule);
}

static void slices_get_load(const struct tail *tail, struct tail_load *load)
{
    const struct slice_schedule *s = tail->schedule;
    *load = (struct tail_load){.hop_ns = s->hop_ns, .catch_up_ns = s->catch_up_ns};
    for (int i = 0; i < tail->n_levels; i++) load->slice_ns += s->levels[i].work.slice_ns;
}

const struct tail_scheduler tail_slices = {
    .open = slices_open,
    .close = slices_close,
    .reset = slices_reset,
    .prepare = slices_prepare,
    .include = slices_include,
    .retire = slices_retire,
    .has_inputs = slices_has_inputs,
    .advance = slices_advance,
    .get_load = slices_get_load,
};
