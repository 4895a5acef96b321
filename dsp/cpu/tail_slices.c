/* The scheduler without threads: every hop does an equal slice of the work, piece by piece. */
#include "memory.h"
#include "tail_state.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Nanoseconds that the pieces are expected to take: only their ratios matter, for an even load. Measured on one core of
 * an EPYC (Zen 4), with responses that do not fit into its cache. */
static const double columns_ns = 0.55, rows_ns = 0.45, product_ns = 0.45; /* a frame, a frame, a bin */

/* A hop may do this much beside its share for a mask that catches up: as much as it takes to play this mask, or if that
 * is little, 2% of a processor at 48 kHz. */
static const double least_catch_up_ns = 400; /* a frame of the hop */

enum slice_phase { COLUMNS_IN, ROWS_IN, PRODUCTS, ROWS_OUT, COLUMNS_OUT, DONE };

struct slice_work { /* progress on a window */
    enum slice_phase phase;
    int64_t index; /* of the window */
    int group;     /* outputs whose pieces take turns */
    int channel;   /* input; first output of the group */
    int mask;      /* of masks */
    int i;         /* piece within the phase */
    double spent, total, slice_ns;
    struct tail_mask *masks[MOST_WARM]; /* as in tail->warm */
};

struct slice_level {
    struct slice_work work;
    float *in_work;  /* [2S] */
    float *out_work; /* [group][2S] */
};

struct slices {
    struct tail *tail;
    double owed_ns;             /* work that the hops so far were to do and have not done */
    double hop_ns;              /* work done in the previous hop */
    bool is_behind;             /* a mask is warm and not ready */
    struct slice_work catching; /* up on one window after another */
    int catching_level;
    float *catching_work;    /* [2S] of the largest level */
    double catching_owed_ns; /* as owed_ns */
    double catch_up_ns;      /* the previous hop's allowance for it */
    struct slice_level levels[PLAN_MOST_FAR];
};

/* ---- what work costs -----------------------------------------------------------------------------------------------
 */

static double inputs_ns(const struct tail *tail, const struct tail_level *l)
{
    return l->size * tail->n_in * (columns_ns + rows_ns);
}

/* A window's products and transforms back. */
static double outputs_ns(const struct tail_level *l, const struct tail_mask_level *ml)
{
    return l->size * (ml->n_outs * (columns_ns + rows_ns) + ml->products * product_ns);
}

/* A hop that plays this mask alone. */
static double mask_ns(const struct tail *tail, const struct tail_mask *mask)
{
    double ns = 0;
    for (int i = 0; i < tail->n_levels; i++) {
        const struct tail_level *l = &tail->levels[i];
        ns += (outputs_ns(l, &mask->levels[i]) + inputs_ns(tail, l)) * tail->hop / l->size;
    }
    return ns;
}

/* The next piece. */
static double piece_ns(const struct tail_level *l, int level, const struct slice_work *w)
{
    const struct tail_mask *mask = w->phase > ROWS_IN ? w->masks[w->mask] : NULL;
    switch (w->phase) {
    case COLUMNS_IN:
    case COLUMNS_OUT:
        return columns_ns * l->size / l->n_columns;
    case ROWS_IN:
    case ROWS_OUT:
        return rows_ns * l->size / l->n_rows;
    default:
        return mask ? product_ns * (LONG_CHUNK / 2) * mask->levels[level].products / mask->levels[level].n_outs : 0;
    }
}

int tail_swap_frames(const struct plan *plan, const struct plan_shape *shape)
{
    double all_ns = 0, hop_ns = 0;
    for (int i = 0; i < plan->n_far; i++) {
        const struct plan_level *l = &plan->far[i];
        double products = (double)shape->n_routes * l->n_partitions;
        double frame_ns = (shape->n_in + shape->n_out) * (columns_ns + rows_ns) + products * product_ns;
        all_ns += 2 * l->size * frame_ns;
        hop_ns += plan->tick * frame_ns;
    }
    /* Two hops more: the request waits for the end of its hop, and the last piece is a part of one. */
    double hops = ceil(all_ns / fmax(hop_ns, least_catch_up_ns * plan->tick)) + 2;
    return plan->n_far > 0 ? (int)hops * plan->tick : 0;
}

/* ---- pieces --------------------------------------------------------------------------------------------------------
 */

static int group_size(const struct tail *tail, const struct slice_work *w)
{
    int left = tail->n_out - w->channel;
    return left < w->group ? left : w->group;
}

/* One of the phase's n pieces is done: after the last one comes the next phase. */
static void next_piece(struct slice_work *w, int n, enum slice_phase next)
{
    if (++w->i < n) return;
    w->i = 0;
    w->phase = next;
}

static void next_mask(struct slice_work *w)
{
    w->channel = 0;
    w->i = 0;
    w->mask++;
    while (w->mask < MOST_WARM && !w->masks[w->mask]) w->mask++;
    w->phase = w->mask < MOST_WARM ? PRODUCTS : DONE;
}

/* floats: [2S]. */
static void piece_in(struct slices *s, int level, struct slice_work *w, float *floats)
{
    const struct tail *tail = s->tail;
    const struct tail_level *l = &tail->levels[level];
    bool is_oldest = w == &s->catching;
    if (w->phase == COLUMNS_IN) {
        tail_columns(tail, l, is_oldest ? tail_oldest(l, w->index) : w->index, w->channel, floats, w->i);
        w->spent += columns_ns * l->size / l->n_columns;
        next_piece(w, l->n_columns, ROWS_IN);
        return;
    }
    tail_rows(tail, l, is_oldest, w->channel, floats, w->i);
    w->spent += rows_ns * l->size / l->n_rows;
    next_piece(w, l->n_rows, COLUMNS_IN);
    if (w->phase == ROWS_IN || ++w->channel < tail->n_in) return;
    w->mask = -1;
    next_mask(w);
}

/* floats: [group][2S]. */
static void piece_out(struct slices *s, int level, struct slice_work *w, float *floats)
{
    const struct tail *tail = s->tail;
    const struct tail_level *l = &tail->levels[level];
    struct tail_mask *mask = w->masks[w->mask];
    if (!mask) { /* it has come to rest meanwhile */
        next_mask(w);
        return;
    }
    const struct tail_mask_level *ml = &mask->levels[level];
    const struct simd_long *pieces = tail->simd->pieces;
    int n = group_size(tail, w);
    if (n == 1 && !ml->out[w->channel]) {
        if (++w->channel >= tail->n_out) next_mask(w);
        return;
    }
    int in_group = w->i % n, out = w->channel + in_group, piece = w->i / n;
    float *work = floats + (size_t)in_group * 2 * (size_t)l->size;
    bool silent = !ml->out[out];
    switch (w->phase) {
    case PRODUCTS:
        if (!silent)
            w->spent += product_ns * (LONG_CHUNK / 2) *
                        tail_sum_chunk(tail, level, w->index, w == &s->catching ? l->oldest : NULL, mask, out, piece,
                                       work + (size_t)piece * LONG_CHUNK);
        next_piece(w, n * l->fft->n_chunks, ROWS_OUT);
        return;
    case ROWS_OUT:
        if (!silent) pieces->rows_out(l->fft, work, piece), w->spent += rows_ns * l->size / l->n_rows;
        next_piece(w, n * l->n_rows, COLUMNS_OUT);
        return;
    default:
        if (!silent) {
            pieces->columns_out(l->fft, work, ml->out[out] + (w->index & 1) * l->size, piece);
            w->spent += columns_ns * l->size / l->n_columns;
        }
        next_piece(w, n * l->n_columns, PRODUCTS);
        if (w->phase == PRODUCTS && (w->channel += n) >= tail->n_out) next_mask(w);
    }
}

/* Returns the expected time of what was done. */
static double piece_do(struct slices *s, int level, struct slice_work *w, float *in_work, float *out_work)
{
    double before = w->spent;
    if (w->phase <= ROWS_IN)
        piece_in(s, level, w, in_work);
    else
        piece_out(s, level, w, out_work);
    s->hop_ns += w->spent - before;
    return w->spent - before;
}

/* ---- a hop's share -------------------------------------------------------------------------------------------------
 */

static void window_begin(struct slices *s, int level, int64_t index)
{
    struct tail *tail = s->tail;
    struct tail_level *l = &tail->levels[level];
    struct slice_work *w = &s->levels[level].work;
    l->newest = index;
    *w = (struct slice_work){.phase = COLUMNS_IN, .index = index, .group = l->group, .total = inputs_ns(tail, l)};
    for (int m = 0; m < MOST_WARM; m++) {
        struct tail_mask *mask = tail->warm[m];
        if (!tail_mask_plays(mask, level, index)) continue;
        w->masks[m] = mask;
        w->total += outputs_ns(l, &mask->levels[level]);
    }
    w->slice_ns = w->total * tail->hop / l->size;
}

static int slices_left(const struct tail *tail, const struct tail_level *l)
{
    return (int)((l->size - tail->hop - tail->frame % l->size) / tail->hop);
}

static void level_piece(struct slices *s, int level)
{
    struct slice_level *l = &s->levels[level];
    s->owed_ns -= piece_do(s, level, &l->work, l->in_work, l->out_work);
}

/* The share of all levels together. A piece of a large level takes the share of several hops: the other levels wait for
 * it then, unless they are due, and no hop does more than the share of all levels and about a piece. */
static void share_do(struct slices *s)
{
    const struct tail *tail = s->tail;
    double share = 0;
    s->hop_ns = 0;
    for (int i = 0; i < tail->n_levels; i++) {
        int size = tail->levels[i].size;
        if (tail->frame % size == 0) window_begin(s, i, tail->frame / size - 1);
        share += s->levels[i].work.slice_ns;
    }
    /* The work of a mask that has come to rest is owed no longer. */
    if (s->owed_ns > share) s->owed_ns = share;
    s->owed_ns += share;
    for (int i = 0; i < tail->n_levels; i++)
        if ((tail->frame + tail->hop) % tail->levels[i].size == 0) /* due in the next hop */
            while (s->levels[i].work.phase != DONE) level_piece(s, i);
    for (int i = 0; i < tail->n_levels; i++) {
        const struct tail_level *l = &tail->levels[i];
        const struct slice_work *w = &s->levels[i].work;
        double until = w->total - w->slice_ns * slices_left(tail, l);
        while (w->phase != DONE) {
            double half = piece_ns(l, i, w) / 2;
            if (w->spent + half > until || half > s->owed_ns) break;
            level_piece(s, i);
        }
    }
}

/* ---- catching up ---------------------------------------------------------------------------------------------------
 */

/* Is there a window to catch up on? Then `catching` has it. The largest level comes first: meanwhile the small levels
 * may begin windows that contain the mask. */
static bool catching_begin(struct slices *s)
{
    struct slice_work *w = &s->catching;
    for (int i = s->tail->n_levels; i-- > 0 && w->phase == DONE;) {
        int64_t index;
        struct tail_mask *mask = tail_lacking(s->tail, i, &index);
        if (!mask) continue;
        *w = (struct slice_work){.phase = COLUMNS_IN, .index = index, .group = 1, .masks = {mask}};
        s->catching_level = i;
    }
    return w->phase != DONE;
}

/* The inputs' spectra of all windows under way: a mask can then catch up on all of them at once. */
static void inputs_complete(struct slices *s)
{
    for (int i = 0; i < s->tail->n_levels; i++)
        while (s->levels[i].work.phase != DONE) level_piece(s, i);
    s->owed_ns = 0;
}

/* In bounded pieces; at once if there is time. */
static void catch_up(struct slices *s)
{
    const struct tail *tail = s->tail;
    struct slice_work *w = &s->catching;
    bool has_time = atomic_load_explicit(&tail->waits, memory_order_relaxed);
    s->catch_up_ns = 0;
    if (!s->is_behind) return;
    if (has_time) inputs_complete(s);
    if (w->phase != DONE && w->index < tail->levels[s->catching_level].due) w->phase = DONE;
    if (catching_begin(s)) s->catch_up_ns = fmax(mask_ns(tail, w->masks[0]), least_catch_up_ns * tail->hop);
    s->catching_owed_ns += has_time ? INFINITY : s->catch_up_ns;
    while (catching_begin(s)) {
        double half = piece_ns(&tail->levels[s->catching_level], s->catching_level, w) / 2;
        if (half > s->catching_owed_ns) return;
        s->catching_owed_ns -= piece_do(s, s->catching_level, w, s->catching_work, s->catching_work);
        if (w->phase == DONE) w->masks[0]->levels[s->catching_level].join = w->index;
    }
    s->catching_owed_ns = 0;
    s->is_behind = tail_lacks_something(tail); /* its inputs are not there yet */
}

/* ---- the scheduler -------------------------------------------------------------------------------------------------
 */

static void slices_close(struct tail *tail)
{
    struct slices *s = tail->schedule;
    for (int i = 0; i < tail->n_levels; i++) {
        memory_place_free(s->levels[i].in_work);
        memory_place_free(s->levels[i].out_work);
    }
    memory_place_free(s->catching_work);
    free(s);
}

static bool slices_open(struct tail *tail, int n_threads)
{
    (void)n_threads;
    struct slices *s = tail->schedule = calloc(1, sizeof *s);
    if (!s) return false;
    s->tail = tail;
    s->catching.phase = DONE;
    s->catching_work = memory_place(2 * (size_t)tail->levels[tail->n_levels - 1].size);
    bool good = s->catching_work != NULL;
    for (int i = 0; i < tail->n_levels; i++) {
        const struct tail_level *l = &tail->levels[i];
        s->levels[i].work.phase = DONE;
        s->levels[i].in_work = memory_place(2 * (size_t)l->size);
        s->levels[i].out_work = memory_place((size_t)l->group * 2 * (size_t)l->size);
        good = good && s->levels[i].in_work && s->levels[i].out_work;
    }
    return good; /* else tail_open calls slices_close */
}

static void slices_reset(struct tail *tail)
{
    struct slices *s = tail->schedule;
    for (int i = 0; i < tail->n_levels; i++) s->levels[i].work.phase = DONE;
    s->owed_ns = s->hop_ns = 0;
    s->catching.phase = DONE;
}

static void slices_warm(struct tail *tail)
{
    struct slices *s = tail->schedule;
    s->is_behind = true;
}

/* Before the products, if there is time enough for the load to remain even. */
static bool slices_join(struct tail *tail, int level, struct tail_mask *mask, int m)
{
    struct slices *s = tail->schedule;
    const struct tail_level *l = &tail->levels[level];
    struct slice_work *w = &s->levels[level].work;
    int left = slices_left(tail, l);
    if (w->phase > ROWS_IN || 2 * left < l->size / tail->hop) return false;
    w->masks[m] = mask;
    w->total += outputs_ns(l, &mask->levels[level]);
    w->slice_ns = (w->total - w->spent) / left;
    return true;
}

static void slices_rest(struct tail *tail, const struct tail_mask *mask)
{
    struct slices *s = tail->schedule;
    for (int i = 0; i < tail->n_levels; i++)
        for (int m = 0; m < MOST_WARM; m++)
            if (s->levels[i].work.masks[m] == mask) s->levels[i].work.masks[m] = NULL;
    if (s->catching.masks[0] == mask) s->catching.phase = DONE;
}

static bool slices_has_inputs(const struct tail *tail, int level)
{
    const struct slices *s = tail->schedule;
    return s->levels[level].work.phase > ROWS_IN;
}

static void slices_advance(struct tail *tail)
{
    share_do(tail->schedule);
    catch_up(tail->schedule);
}

static void slices_count(const struct tail *tail, struct tail_work *count)
{
    const struct slices *s = tail->schedule;
    *count = (struct tail_work){.hop_ns = s->hop_ns, .catch_up_ns = s->catch_up_ns};
    for (int i = 0; i < tail->n_levels; i++) count->share_ns += s->levels[i].work.slice_ns;
}

const struct tail_scheduler tail_slices = {
    .open = slices_open,
    .close = slices_close,
    .reset = slices_reset,
    .warm = slices_warm,
    .join = slices_join,
    .rest = slices_rest,
    .has_inputs = slices_has_inputs,
    .advance = slices_advance,
    .count = slices_count,
};
