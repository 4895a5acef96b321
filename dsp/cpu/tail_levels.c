#include "tail_levels.h"
#include "crew.h"
#include "dsp/engine/await.h"
#include "long_fft.h"
#include "memory.h"

#include <math.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_WARM = 2,
    LIST = 32,     /* products that are handed over at once */
    JOB_GROUP = 4, /* outputs of a job */
    CATCH_GROUP =
        2, /* of one that nobody waits for: small levels that fall due meanwhile have no long job before them */
    WORK_GROUP = 16 /* outputs that share a pass over the inputs' spectra: these stay in the cache meanwhile */
};

/* Nanoseconds that the pieces are expected to take: only their ratios matter, for an even load. Measured on one core of
 * an EPYC (Zen 4), with responses that do not fit into its cache. */
static const double columns_ns = 0.55, rows_ns = 0.45, product_ns = 0.45; /* a frame, a frame, a bin */

/* What a tick may do beside its share for a mask that has come warm, without threads: as much as it takes to play this
 * mask, or where that is little, 2% of a processor at 48 kHz. */
static const double least_catch_up_ns = 400; /* a frame of the tick */

enum phase { COLUMNS_IN, ROWS_IN, PRODUCTS, ROWS_OUT, COLUMNS_OUT, DONE };

struct work { /* how far the work on a window has come */
    enum phase phase;
    int64_t window;
    int group;   /* outputs whose pieces take turns */
    int channel; /* input; first output of the group */
    int mask;    /* of masks */
    int i;       /* piece within the phase */
    double spent, total, slice_ns;
    struct tail_mask *masks[MOST_WARM];
};

/* Jobs that are taken one by one, by any thread: how many there are << 32 | the next. */
typedef atomic_uint_fast64_t ticket;

struct jobs {         /* of a window: inputs, then groups of outputs of each mask; with threads only */
    ticket ins, outs; /* outs has none before the last of the inputs is done */
    atomic_int ins_done, outs_done;
    int n_in, n_out; /* written by the driver while nobody works */
    bool is_held;    /* ins is not offered yet: see jobs_let; the driver's */
};

struct catch_up {           /* on one window, of one mask; with threads only */
    struct tail_mask *mask; /* this, the window and has_oldest are written by the driver while nobody works */
    int64_t window;
    bool has_oldest; /* then the jobs are groups of outputs, before inputs */
    ticket jobs;
    atomic_int done;
    int n_jobs;     /* that were offered, or that were taken before the offer was withdrawn; the driver's */
    bool is_wanted; /* not withdrawn; the driver's */
};

struct level {
    const struct long_fft *fft;
    int size, n_slots;     /* n_slots: windows that are kept, as many as there are partitions */
    int n_columns, n_rows; /* pieces a transform */
    int group;             /* outputs whose pieces take turns */
    float *spectra;        /* of each input and chunk [n_slots][LONG_CHUNK], so many floats apart: */
    size_t in_stride, chunk_stride;
    float *in_work;  /* [2S] */
    float *out_work; /* [group][2S] */
    int64_t window;  /* under way or done; -1: none yet */
    int64_t heard;   /* window that is heard in this tick */
    int heard_at;    /* the tick's first frame within it */
    struct work work;
    struct jobs jobs;
    struct catch_up catch_up;
    float *oldest; /* [n_in][2S]: the oldest spectra of the window that is caught up on; the ring may have lost them */
};

struct spectra {   /* of a response in a level: partitions [first, first + n) */
    float *chunks; /* [n_chunks][n][LONG_CHUNK], chunks `stride` floats apart; scaled by 1/S */
    size_t stride;
    int first, n;
};

struct mask_level {
    int64_t join; /* windows from here on have this mask in them, or will in time */
    struct spectra *responses;
    float *chunks;   /* of all responses, in the order in which products read them */
    float *frames;   /* of all outputs */
    float **out;     /* [n_out]: [2][S], windows by turns; NULL: this level has nothing for it */
    double products; /* partitions that a bin is multiplied with, all outputs together */
    int n_outs;      /* outputs that have something */
};

struct tail_mask {
    int n_levels, n_responses, n_out;
    const struct cell *cells;
    const int *first_cell;
    double tick_ns; /* of a tick that plays it alone */
    struct mask_level levels[PLAN_MOST_FAR];
};

struct tail {
    const struct simd *simd;
    int n_in, n_out, tick, n_levels;
    int pos;       /* frames of the current tick so far */
    int64_t frame; /* at which the current tick began */
    int ring_size; /* see ring_frames */
    int ring_at;   /* frame % ring_size */
    size_t ring_stride;
    float *ring; /* [n_in][ring_size] */
    struct tail_mask *warm[MOST_WARM];
    double owed_ns;       /* of work that the slices so far were to do and have not; without threads */
    double tick_ns;       /* of work in the tick before */
    struct work catching; /* up on one window after another, in slices; without threads */
    int catching_level;
    float *catching_work;    /* [2S] of the largest level */
    bool is_behind;          /* a mask is warm and not ready */
    double catching_owed_ns; /* as owed_ns */
    double catch_up_ns;      /* that the tick before might do of it */
    struct crew *crew;       /* NULL: the driver does all the work, in slices */
    atomic_bool waits;       /* for the crew, where it would look how far that is */
    float *job_scratch;      /* the driver's, for jobs */
    struct level levels[PLAN_MOST_FAR];
};

/* ---- open and close ------------------------------------------------------------------------------------------------
 */

static size_t spectra_floats(const struct tail *tail, const struct level *l)
{
    return (size_t)tail->n_in * l->fft->n_chunks * ((size_t)l->n_slots * LONG_CHUNK + LONG_LANES);
}

static void hear(struct tail *tail)
{
    for (int i = 0; i < tail->n_levels; i++) {
        struct level *l = &tail->levels[i];
        int64_t next = tail->frame + tail->tick;
        l->heard = next / l->size - 2;
        l->heard_at = (int)(next % l->size);
    }
}

static bool level_open(const struct tail *tail, struct level *l, const struct plan_level *plan, int n_routes)
{
    l->size = plan->size;
    l->n_slots = plan->n_partitions;
    l->window = -1;
    l->work.phase = DONE;
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
    l->in_work = memory_place(2 * (size_t)l->size);
    l->out_work = memory_place((size_t)l->group * 2 * (size_t)l->size);
    return l->spectra && l->oldest && l->in_work && l->out_work;
}

static bool job_any(void *tail, float *scratch);

static bool crew_begin(struct tail *tail, int n_threads)
{
    size_t n_scratch = (size_t)JOB_GROUP * 2 * (size_t)tail->levels[tail->n_levels - 1].size;
    tail->job_scratch = memory_floats(n_scratch);
    tail->crew = tail->job_scratch ? crew_open(n_threads, n_scratch, job_any, tail) : NULL;
    return tail->crew != NULL;
}

/* A mask that catches up on a window of a level needs frames from (n + 1) S before the window's end on, n partitions
 * back, until the window is past, 2S after its end; and a thread that is interrupted may take until another S later
 * (jobs_let). The same number of whole partitions for every level. */
static int ring_frames(const struct plan *plan)
{
    int largest = plan->far[plan->n_far - 1].size, n = 3;
    for (int i = 0; i < plan->n_far; i++) {
        int64_t frames = ((int64_t)plan->far[i].n_partitions + 4) * plan->far[i].size;
        while ((int64_t)n * largest < frames) n++;
    }
    return n * largest;
}

struct tail *tail_open(const struct plan *plan, int n_in, int n_out, int n_routes, int n_threads,
                       const struct simd *simd)
{
    struct tail *tail = calloc(1, sizeof *tail);
    if (!tail) return NULL;
    tail->simd = simd;
    tail->n_in = n_in;
    tail->n_out = n_out;
    tail->tick = plan->tick;
    tail->n_levels = plan->n_far;
    tail->ring_size = ring_frames(plan);
    tail->ring_stride = (size_t)tail->ring_size + LONG_LANES;
    tail->ring = memory_place((size_t)n_in * tail->ring_stride);
    bool good = tail->ring != NULL;
    for (int i = 0; i < tail->n_levels && good; i++) good = level_open(tail, &tail->levels[i], &plan->far[i], n_routes);
    tail->catching.phase = DONE;
    if (good && n_threads > 0) {
        good = crew_begin(tail, n_threads);
    } else if (good) {
        tail->catching_work = memory_place(2 * (size_t)tail->levels[tail->n_levels - 1].size);
        good = tail->catching_work != NULL;
    }
    if (!good) {
        tail_close(tail);
        return NULL;
    }
    hear(tail);
    return tail;
}

void tail_close(struct tail *tail)
{
    if (!tail) return;
    crew_close(tail->crew);
    for (int i = 0; i < tail->n_levels; i++) {
        struct level *l = &tail->levels[i];
        long_fft_put(l->fft);
        memory_place_free(l->spectra);
        memory_place_free(l->oldest);
        memory_place_free(l->in_work);
        memory_place_free(l->out_work);
    }
    free(tail->job_scratch);
    memory_place_free(tail->catching_work);
    memory_place_free(tail->ring);
    free(tail);
}

static void finish(struct tail *tail, int level);
static void settle(struct tail *tail);
static void catch_up_withdraw(struct catch_up *c);
static bool catch_up_is_over(const struct catch_up *c);

void tail_wait(struct tail *tail, bool waits)
{
    atomic_store_explicit(&tail->waits, waits, memory_order_relaxed);
}

static bool has_time(const struct tail *tail)
{
    return tail->crew && atomic_load_explicit(&tail->waits, memory_order_relaxed);
}

void tail_reset(struct tail *tail)
{
    for (int i = 0; i < tail->n_levels && tail->crew; i++) {
        catch_up_withdraw(&tail->levels[i].catch_up);
        while (!catch_up_is_over(&tail->levels[i].catch_up)) cpu_relax();
        finish(tail, i);
    }
    memset(tail->ring, 0, (size_t)tail->n_in * tail->ring_stride * sizeof(float));
    for (int i = 0; i < tail->n_levels; i++) {
        struct level *l = &tail->levels[i];
        memset(l->spectra, 0, spectra_floats(tail, l) * sizeof(float));
        l->window = -1;
        l->work.phase = DONE;
        for (int m = 0; m < MOST_WARM; m++)
            if (tail->warm[m]) tail->warm[m]->levels[i].join = 0;
    }
    tail->pos = tail->ring_at = 0;
    tail->frame = 0;
    tail->owed_ns = tail->tick_ns = 0;
    tail->catching.phase = DONE;
    hear(tail);
}

/* ---- masks ---------------------------------------------------------------------------------------------------------
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

/* Which of a level's partitions have something of taps[n_taps] in them? The taps are those from the level's offset on;
 * later levels take what is past this one's end. */
static void spectra_span(const struct level *l, struct spectra *s, const float *taps, int n_taps)
{
    int size = l->size;
    if (n_taps > l->n_slots * size) n_taps = l->n_slots * size;
    int end = n_taps > 0 ? (n_taps - 1) / size + 1 : 0;
    for (; end > 0; end--, n_taps = end * size)
        if (!all_zero(taps + (end - 1) * size, n_taps - (end - 1) * size)) break;
    while (s->first < end - 1 && all_zero(taps + s->first * size, size)) s->first++;
    s->n = end - s->first;
}

/* work: [4S]. */
static void spectra_make(const struct tail *tail, const struct level *l, const struct spectra *s, const float *taps,
                         int n_taps, float *work)
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

static int output_partitions(const struct tail_mask *mask, const struct mask_level *ml, int out)
{
    int n = 0;
    for (int c = mask->first_cell[out]; c < mask->first_cell[out + 1]; c++)
        n += ml->responses[mask->cells[c].response].n;
    return n;
}

/* Memory for what the responses turned out to need. Where outputs take turns, all that is read for one chunk lies side
 * by side; else all of one response does. */
static bool mask_level_alloc(const struct tail *tail, struct tail_mask *mask, const struct level *l,
                             struct mask_level *ml)
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
        struct spectra *s = &ml->responses[r];
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
    const struct level *l = &tail->levels[i];
    struct mask_level *ml = &mask->levels[i];
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

static double inputs_ns(const struct tail *tail, const struct level *l)
{
    return l->size * tail->n_in * (columns_ns + rows_ns);
}

/* A window's products and transforms back. */
static double outputs_ns(const struct level *l, const struct mask_level *ml)
{
    return l->size * (ml->n_outs * (columns_ns + rows_ns) + ml->products * product_ns);
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
    for (int i = 0; i < tail->n_levels; i++) {
        const struct level *l = &tail->levels[i];
        if (!mask_level_make(tail, mask, i, plan->far[i].offset, matrix, work)) goto no_memory;
        mask->tick_ns += (outputs_ns(l, &mask->levels[i]) + inputs_ns(tail, l)) * tail->tick / l->size;
    }
    free(work);
    return mask;
no_memory:
    free(work);
    tail_mask_free(mask);
    return NULL;
}

static bool is_complete(const struct level *l)
{
    return atomic_load_explicit(&l->jobs.ins_done, memory_order_acquire) == l->jobs.n_in &&
           atomic_load_explicit(&l->jobs.outs_done, memory_order_acquire) == l->jobs.n_out;
}

static int slices_left(const struct tail *tail, const struct level *l)
{
    return (int)((l->size - tail->tick - tail->frame % l->size) / tail->tick);
}

/* Is the window that is under way made with this mask, or can it still be? Without threads: before the products, and
 * with time enough to remain even. With threads: if it was given to rest a moment ago, and they make it all the same.
 */
static bool join_at_work(struct tail *tail, struct level *l, int i, struct tail_mask *mask, int m)
{
    struct work *w = &l->work;
    int left = slices_left(tail, l);
    if (tail->crew) return (w->masks[0] == mask || w->masks[1] == mask) && !is_complete(l);
    if (w->phase > ROWS_IN || 2 * left < l->size / tail->tick) return false;
    w->masks[m] = mask;
    w->total += outputs_ns(l, &mask->levels[i]);
    w->slice_ns = (w->total - w->spent) / left;
    return true;
}

void tail_warm(struct tail *tail, struct tail_mask *mask)
{
    int m = 0;
    if (has_time(tail)) settle(tail);
    while (m < MOST_WARM - 1 && tail->warm[m]) m++;
    tail->warm[m] = mask;
    tail->is_behind = true;
    for (int i = 0; i < tail->n_levels; i++) {
        struct level *l = &tail->levels[i];
        bool joins = mask->levels[i].n_outs > 0 && join_at_work(tail, l, i, mask, m);
        mask->levels[i].join = joins ? l->window : l->window + 1;
    }
}

void tail_rest(struct tail *tail, struct tail_mask *mask)
{
    for (int m = 0; m < MOST_WARM; m++) {
        if (tail->warm[m] == mask) tail->warm[m] = NULL;
        for (int i = 0; i < tail->n_levels && !tail->crew; i++)
            if (tail->levels[i].work.masks[m] == mask) tail->levels[i].work.masks[m] = NULL;
    }
    if (tail->catching.masks[0] == mask) tail->catching.phase = DONE;
    for (int i = 0; i < tail->n_levels && tail->crew; i++)
        if (tail->levels[i].catch_up.mask == mask) catch_up_withdraw(&tail->levels[i].catch_up);
}

bool tail_idle(const struct tail *tail, const struct tail_mask *mask)
{
    for (int i = 0; i < tail->n_levels && tail->crew; i++) {
        const struct level *l = &tail->levels[i];
        for (int m = 0; m < MOST_WARM; m++)
            if (l->work.masks[m] == mask && !is_complete(l)) return false;
        if (l->catch_up.mask == mask && !catch_up_is_over(&l->catch_up)) return false;
    }
    return true;
}

/* Of windows before the first there is nothing to hear. */
bool tail_ready(const struct tail *tail, const struct tail_mask *mask)
{
    for (int i = 0; i < tail->n_levels; i++) {
        const struct mask_level *ml = &mask->levels[i];
        if (ml->n_outs > 0 && ml->join > 0 && tail->levels[i].heard < ml->join) return false;
    }
    return true;
}

/* ---- the work ------------------------------------------------------------------------------------------------------
 */

static void work_begin(struct tail *tail, struct level *l, int i, int64_t window)
{
    struct work *w = &l->work;
    l->window = window;
    *w = (struct work){.phase = COLUMNS_IN, .window = window, .group = l->group, .total = inputs_ns(tail, l)};
    for (int m = 0; m < MOST_WARM; m++) {
        struct tail_mask *mask = tail->warm[m];
        if (!mask || mask->levels[i].join > window || mask->levels[i].n_outs == 0) continue;
        w->masks[m] = mask;
        w->total += outputs_ns(l, &mask->levels[i]);
    }
    w->slice_ns = w->total * tail->tick / l->size;
}

/* The sums of one chunk of an output's bins in a window. oldest: as a level's, or NULL: it is in the ring. Returns how
 * many partitions went in. */
static int sum_chunk(const struct tail *tail, const struct level *l, int64_t window, const float *oldest,
                     const struct tail_mask *mask, const struct mask_level *ml, int out, int chunk, float *y)
{
    struct long_product list[LIST];
    int n = 0, partitions = 0, newest = (int)(window % l->n_slots);
    bool add = false;
    for (int c = mask->first_cell[out]; c < mask->first_cell[out + 1]; c++) {
        const struct spectra *s = &ml->responses[mask->cells[c].response];
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

/* A piece of the transform of an input in a window. work: [2S]. */
static void columns_of(const struct tail *tail, const struct level *l, int64_t window, int in, float *work, int piece)
{
    const float *ring = tail->ring + (size_t)in * tail->ring_stride;
    int now = (int)(window * l->size % tail->ring_size);
    if (now < 0) now += tail->ring_size;
    int before = now - l->size;
    if (before < 0) before += tail->ring_size;
    tail->simd->pieces->columns_in(l->fft, work, ring + before, ring + now, piece);
}

/* To the slot of the window under way, or to the oldest spectra of one that is caught up on. */
static void rows_of(const struct tail *tail, const struct level *l, bool is_oldest, int in, float *work, int piece)
{
    float *to = l->oldest + (size_t)in * 2 * (size_t)l->size;
    if (!is_oldest) to = l->spectra + (size_t)in * l->in_stride + (size_t)(l->window % l->n_slots) * LONG_CHUNK;
    tail->simd->pieces->rows_in(l->fft, work, to, is_oldest ? LONG_CHUNK : l->chunk_stride, piece);
}

static int64_t oldest_of(const struct level *l, int64_t window)
{
    return window - l->n_slots + 1;
}

static int group_size(const struct tail *tail, const struct work *w)
{
    int left = tail->n_out - w->channel;
    return left < w->group ? left : w->group;
}

/* The phase has n pieces: is this one its last? Then on to the next phase. */
static void next_piece(struct work *w, int n, enum phase next)
{
    if (++w->i < n) return;
    w->i = 0;
    w->phase = next;
}

static void next_mask(struct work *w)
{
    w->channel = 0;
    w->i = 0;
    w->mask++;
    while (w->mask < MOST_WARM && !w->masks[w->mask]) w->mask++;
    w->phase = w->mask < MOST_WARM ? PRODUCTS : DONE;
}

/* floats: [2S]. */
static void piece_in(struct tail *tail, int level, struct work *w, float *floats)
{
    struct level *l = &tail->levels[level];
    bool is_oldest = w == &tail->catching;
    if (w->phase == COLUMNS_IN) {
        columns_of(tail, l, is_oldest ? oldest_of(l, w->window) : w->window, w->channel, floats, w->i);
        w->spent += columns_ns * l->size / l->n_columns;
        next_piece(w, l->n_columns, ROWS_IN);
        return;
    }
    rows_of(tail, l, is_oldest, w->channel, floats, w->i);
    w->spent += rows_ns * l->size / l->n_rows;
    next_piece(w, l->n_rows, COLUMNS_IN);
    if (w->phase == ROWS_IN || ++w->channel < tail->n_in) return;
    w->mask = -1;
    next_mask(w);
}

/* floats: [group][2S]. */
static void piece_out(struct tail *tail, int level, struct work *w, float *floats)
{
    struct level *l = &tail->levels[level];
    struct tail_mask *mask = w->masks[w->mask];
    if (!mask) { /* it rests since a moment ago */
        next_mask(w);
        return;
    }
    const struct mask_level *ml = &mask->levels[level];
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
                        sum_chunk(tail, l, w->window, w == &tail->catching ? l->oldest : NULL, mask, ml, out, piece,
                                  work + (size_t)piece * LONG_CHUNK);
        next_piece(w, n * l->fft->n_chunks, ROWS_OUT);
        return;
    case ROWS_OUT:
        if (!silent) pieces->rows_out(l->fft, work, piece), w->spent += rows_ns * l->size / l->n_rows;
        next_piece(w, n * l->n_rows, COLUMNS_OUT);
        return;
    default:
        if (!silent) {
            pieces->columns_out(l->fft, work, ml->out[out] + (w->window & 1) * l->size, piece);
            w->spent += columns_ns * l->size / l->n_columns;
        }
        next_piece(w, n * l->n_columns, PRODUCTS);
        if (w->phase == PRODUCTS && (w->channel += n) >= tail->n_out) next_mask(w);
    }
}

/* What the next piece is expected to take. */
static double piece_ns(const struct level *l, int level, const struct work *w)
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

/* Returns what it took. */
static double piece_do(struct tail *tail, int level, struct work *w, float *in_work, float *out_work)
{
    double before = w->spent;
    if (w->phase <= ROWS_IN)
        piece_in(tail, level, w, in_work);
    else
        piece_out(tail, level, w, out_work);
    tail->tick_ns += w->spent - before;
    return w->spent - before;
}

static void level_piece(struct tail *tail, int level)
{
    struct level *l = &tail->levels[level];
    tail->owed_ns -= piece_do(tail, level, &l->work, l->in_work, l->out_work);
}

/* A tick's share of all levels together. A piece of a large level takes the share of several ticks: the other levels
 * wait for it then, unless they are due, and no tick does more than the share of all levels and about a piece. */
static void work_in_slices(struct tail *tail)
{
    double share = 0;
    tail->tick_ns = 0;
    for (int i = 0; i < tail->n_levels; i++) {
        struct level *l = &tail->levels[i];
        if (tail->frame % l->size == 0) work_begin(tail, l, i, tail->frame / l->size - 1);
        share += l->work.slice_ns;
    }
    /* A mask that rests takes its work with it, which is owed no longer. */
    if (tail->owed_ns > share) tail->owed_ns = share;
    tail->owed_ns += share;
    for (int i = 0; i < tail->n_levels; i++)
        if ((tail->frame + tail->tick) % tail->levels[i].size == 0) /* heard in the next tick */
            while (tail->levels[i].work.phase != DONE) level_piece(tail, i);
    for (int i = 0; i < tail->n_levels; i++) {
        struct level *l = &tail->levels[i];
        double until = l->work.total - l->work.slice_ns * slices_left(tail, l);
        while (l->work.phase != DONE) {
            double half = piece_ns(l, i, &l->work) / 2;
            if (l->work.spent + half > until || half > tail->owed_ns) break;
            level_piece(tail, i);
        }
    }
}

/* ---- catching up ---------------------------------------------------------------------------------------------------
 *
 * A mask that comes warm can be heard once it has, in every level, the window that is heard and the one that comes
 * next. Their work was over, or had begun without it; but the inputs' spectra are there until the window is past, all
 * but the oldest, whose place the next window takes: these are made again, from the inputs' frames. (To keep them in
 * one slot more costs 64 channels of 1 s a tenth of their time, for good: it lies in the way of the stream of the
 * others.) The later window comes first: meanwhile the earlier one may pass. The largest level comes first: meanwhile
 * the small ones may come to windows that have the mask from the beginning.
 */

/* Whether the window under way has all its inputs' spectra. */
static bool has_inputs(const struct tail *tail, const struct level *l)
{
    if (!tail->crew) return l->work.phase > ROWS_IN;
    return atomic_load_explicit(&l->jobs.ins_done, memory_order_acquire) == l->jobs.n_in;
}

/* A mask that lacks a window in a level, which can be made now; NULL: none. */
static struct tail_mask *lacking_find(const struct tail *tail, int level, int64_t *window)
{
    const struct level *l = &tail->levels[level];
    for (int m = 0; m < MOST_WARM; m++) {
        struct tail_mask *mask = tail->warm[m];
        if (!mask || mask->levels[level].n_outs == 0) continue;
        *window = mask->levels[level].join - 1;
        if (*window < 0 || *window < l->heard || (*window == l->window && !has_inputs(tail, l))) continue;
        return mask;
    }
    return NULL;
}

/* Is there something to be done? Then `catching` has it. */
static bool catching_begin(struct tail *tail)
{
    struct work *w = &tail->catching;
    for (int i = tail->n_levels; i-- > 0 && w->phase == DONE;) {
        int64_t window;
        struct tail_mask *mask = lacking_find(tail, i, &window);
        if (!mask) continue;
        *w = (struct work){.phase = COLUMNS_IN, .window = window, .group = 1, .masks = {mask}};
        tail->catching_level = i;
    }
    return w->phase != DONE;
}

/* Is there a mask that cannot be heard yet? */
static bool lacks_something(const struct tail *tail)
{
    for (int m = 0; m < MOST_WARM; m++)
        if (tail->warm[m] && !tail_ready(tail, tail->warm[m])) return true;
    return false;
}

static void catch_up_in_slices(struct tail *tail)
{
    struct work *w = &tail->catching;
    tail->catch_up_ns = 0;
    if (!tail->is_behind) return;
    if (w->phase != DONE && w->window < tail->levels[tail->catching_level].heard) w->phase = DONE;
    if (catching_begin(tail)) tail->catch_up_ns = fmax(w->masks[0]->tick_ns, least_catch_up_ns * tail->tick);
    tail->catching_owed_ns += tail->catch_up_ns;
    while (catching_begin(tail)) {
        double half = piece_ns(&tail->levels[tail->catching_level], tail->catching_level, w) / 2;
        if (half > tail->catching_owed_ns) return;
        tail->catching_owed_ns -= piece_do(tail, tail->catching_level, w, tail->catching_work, tail->catching_work);
        if (w->phase == DONE) w->masks[0]->levels[tail->catching_level].join = w->window;
    }
    tail->catching_owed_ns = 0;
    tail->is_behind = lacks_something(tail); /* for want of inputs */
}

int tail_swap_frames(const struct plan *plan, const struct plan_shape *shape)
{
    double all_ns = 0, tick_ns = 0;
    for (int i = 0; i < plan->n_far; i++) {
        const struct plan_level *l = &plan->far[i];
        double products = (double)shape->n_routes * l->n_partitions;
        double frame_ns = (shape->n_in + shape->n_out) * (columns_ns + rows_ns) + products * product_ns;
        all_ns += 2 * l->size * frame_ns;
        tick_ns += plan->tick * frame_ns;
    }
    /* Two ticks more: what a mask is asked for in waits for its end, and the last piece is a part of one. */
    double ticks = ceil(all_ns / fmax(tick_ns, least_catch_up_ns * plan->tick)) + 2;
    return plan->n_far > 0 ? (int)ticks * plan->tick : 0;
}

void tail_count(const struct tail *tail, struct tail_work *count)
{
    *count = (struct tail_work){.tick_ns = tail->tick_ns, .catch_up_ns = tail->catch_up_ns};
    for (int i = 0; i < tail->n_levels; i++) count->share_ns += tail->levels[i].work.slice_ns;
}

/* ---- the work, with threads to help --------------------------------------------------------------------------------
 */

static int n_groups(const struct tail *tail)
{
    return (tail->n_out + JOB_GROUP - 1) / JOB_GROUP;
}

/* A value that comes again is no danger: who gets a number by it sees the window that it was last written for. */
static bool ticket_take(ticket *t, int *i)
{
    uint_fast64_t now = atomic_load_explicit(t, memory_order_relaxed);
    do {
        if ((uint32_t)now >= now >> 32) return false;
    } while (!atomic_compare_exchange_weak_explicit(t, &now, now + 1, memory_order_acquire, memory_order_relaxed));
    *i = (int)(uint32_t)now;
    return true;
}

static void ticket_offer(ticket *t, int n)
{
    atomic_store_explicit(t, (uint_fast64_t)n << 32, memory_order_release);
}

static void job_in(struct tail *tail, struct level *l, int64_t window, bool is_oldest, int in, float *scratch)
{
    for (int i = 0; i < l->n_columns; i++) columns_of(tail, l, window, in, scratch, i);
    for (int i = 0; i < l->n_rows; i++) rows_of(tail, l, is_oldest, in, scratch, i);
}

static void job_out(struct tail *tail, int level, const struct tail_mask *mask, int64_t window, const float *oldest,
                    int first, int end, float *scratch)
{
    struct level *l = &tail->levels[level];
    const struct simd_long *pieces = tail->simd->pieces;
    const struct mask_level *ml = &mask->levels[level];
    for (int chunk = 0; chunk < l->fft->n_chunks; chunk++)
        for (int out = first; out < end; out++)
            if (ml->out[out])
                sum_chunk(tail, l, window, oldest, mask, ml, out, chunk,
                          scratch + (size_t)(out - first) * 2 * (size_t)l->size + (size_t)chunk * LONG_CHUNK);
    for (int out = first; out < end; out++) {
        float *work = scratch + (size_t)(out - first) * 2 * (size_t)l->size;
        if (!ml->out[out]) continue;
        for (int i = 0; i < l->n_rows; i++) pieces->rows_out(l->fft, work, i);
        for (int i = 0; i < l->n_columns; i++)
            pieces->columns_out(l->fft, work, ml->out[out] + (window & 1) * l->size, i);
    }
}

static bool job_of_level(struct tail *tail, int level, float *scratch)
{
    struct level *l = &tail->levels[level];
    struct jobs *jobs = &l->jobs;
    int i;
    if (ticket_take(&jobs->ins, &i)) {
        int n_in = jobs->n_in, n_out = jobs->n_out; /* once the job counts as done the next window may be written */
        job_in(tail, l, l->window, false, i, scratch);
        int done = atomic_fetch_add_explicit(&jobs->ins_done, 1, memory_order_acq_rel) + 1;
        if (done == n_in && n_out > 0) ticket_offer(&jobs->outs, n_out); /* who takes one sees all inputs */
        return true;
    }
    if (!ticket_take(&jobs->outs, &i)) return false;
    int first = i % n_groups(tail) * JOB_GROUP, end = first + JOB_GROUP < tail->n_out ? first + JOB_GROUP : tail->n_out;
    job_out(tail, level, l->work.masks[i / n_groups(tail)], l->window, NULL, first, end, scratch);
    atomic_fetch_add_explicit(&jobs->outs_done, 1, memory_order_release);
    return true;
}

static bool job_catch_up(struct tail *tail, int level, float *scratch)
{
    struct level *l = &tail->levels[level];
    struct catch_up *c = &l->catch_up;
    int i;
    if (!ticket_take(&c->jobs, &i)) return false;
    int first = i * CATCH_GROUP, end = first + CATCH_GROUP < tail->n_out ? first + CATCH_GROUP : tail->n_out;
    if (c->has_oldest)
        job_out(tail, level, c->mask, c->window, l->oldest, first, end, scratch);
    else
        job_in(tail, l, oldest_of(l, c->window), true, i, scratch);
    atomic_fetch_add_explicit(&c->done, 1, memory_order_release);
    return true;
}

/* Small levels first: they are due first. Catching up is never due, and the driver does none of it. */
static bool job_any(void *data, float *scratch)
{
    struct tail *tail = data;
    for (int i = 0; i < tail->n_levels; i++)
        if (job_of_level(tail, i, scratch)) return true;
    for (int i = tail->n_levels; i-- > 0;)
        if (job_catch_up(tail, i, scratch)) return true;
    return false;
}

static bool catch_up_is_over(const struct catch_up *c)
{
    return atomic_load_explicit(&c->done, memory_order_acquire) == c->n_jobs;
}

/* Nobody begins any more of it; who has begun goes on, and counts. */
static void catch_up_withdraw(struct catch_up *c)
{
    uint_fast64_t was = atomic_exchange_explicit(&c->jobs, 0, memory_order_relaxed);
    if (was >> 32) c->n_jobs = (int)(uint32_t)was;
    c->is_wanted = false;
}

static void catch_up_offer(struct catch_up *c, int n_jobs)
{
    c->n_jobs = n_jobs;
    c->is_wanted = true;
    atomic_store_explicit(&c->done, 0, memory_order_relaxed);
    ticket_offer(&c->jobs, n_jobs);
}

/* What is over goes on: from the oldest spectra to the outputs, and to the next window that a mask lacks. Returns
 * whether there are new jobs. */
static bool catch_up_next(struct tail *tail, int level)
{
    struct catch_up *c = &tail->levels[level].catch_up;
    if (!catch_up_is_over(c)) return false;
    if (c->is_wanted && !c->has_oldest) {
        c->has_oldest = true;
        catch_up_offer(c, (tail->n_out + CATCH_GROUP - 1) / CATCH_GROUP);
        return true;
    }
    if (c->is_wanted) c->mask->levels[level].join = c->window;
    c->is_wanted = false;
    int64_t window;
    struct tail_mask *mask = lacking_find(tail, level, &window);
    if (!mask) return false;
    c->mask = mask;
    c->window = window;
    c->has_oldest = false;
    catch_up_offer(c, tail->n_in);
    return true;
}

static bool catch_up_by_crew(struct tail *tail)
{
    bool offered = false;
    for (int i = 0; i < tail->n_levels; i++) {
        struct catch_up *c = &tail->levels[i].catch_up;
        if (c->is_wanted && c->window < tail->levels[i].heard) catch_up_withdraw(c);
        if (catch_up_next(tail, i)) offered = true;
    }
    return offered;
}

/* A window's spectra and outputs take the place of those of the windows before the last: not while somebody who was
 * interrupted is still catching up on one of these. */
static bool jobs_let(struct tail *tail, struct level *l)
{
    if (!l->jobs.is_held) return false;
    if (l->catch_up.window + 2 <= l->window && !catch_up_is_over(&l->catch_up)) return false;
    l->jobs.is_held = false;
    ticket_offer(&l->jobs.ins, tail->n_in);
    return true;
}

static void jobs_offer(struct tail *tail, struct level *l, int i, int64_t window)
{
    int n_masks = 0;
    work_begin(tail, l, i, window);
    for (int m = 0; m < MOST_WARM; m++) {
        struct tail_mask *mask = l->work.masks[m];
        l->work.masks[m] = NULL;
        if (mask) l->work.masks[n_masks++] = mask;
    }
    atomic_store_explicit(&l->jobs.ins_done, 0, memory_order_relaxed);
    atomic_store_explicit(&l->jobs.outs_done, 0, memory_order_relaxed);
    ticket_offer(&l->jobs.outs, 0);
    l->jobs.n_in = tail->n_in;
    l->jobs.n_out = n_masks * n_groups(tail);
    l->jobs.is_held = true;
}

/* Do what nobody has begun, and see what others have begun done: at most a job of each thread is waited for. */
static void finish(struct tail *tail, int level)
{
    while (!is_complete(&tail->levels[level])) {
        jobs_let(tail, &tail->levels[level]);
        if (!job_of_level(tail, level, tail->job_scratch)) cpu_relax();
    }
}

/* All that was offered is done, with the driver's help: what follows does not depend on the threads' timing. */
static void settle(struct tail *tail)
{
    for (int i = 0; i < tail->n_levels; i++) {
        while (!catch_up_is_over(&tail->levels[i].catch_up))
            if (!job_catch_up(tail, i, tail->job_scratch)) sched_yield();
        finish(tail, i);
    }
}

static void work_by_crew(struct tail *tail)
{
    if (has_time(tail) && lacks_something(tail)) settle(tail);
    bool offered = catch_up_by_crew(tail);
    for (int i = 0; i < tail->n_levels; i++) {
        struct level *l = &tail->levels[i];
        if (tail->frame % l->size == 0) jobs_offer(tail, l, i, tail->frame / l->size - 1);
        if (jobs_let(tail, l)) offered = true;
    }
    if (offered) crew_wake(tail->crew);
}

/* ---- ticks ---------------------------------------------------------------------------------------------------------
 */

int tail_left(const struct tail *tail)
{
    return tail->tick - tail->pos;
}

void tail_begin(struct tail *tail)
{
    if (!tail->crew || tail->pos > 0) return;
    for (int i = 0; i < tail->n_levels; i++)
        if (tail->levels[i].heard_at == 0) finish(tail, i);
}

void tail_push(struct tail *tail, int in, const float *x, int n)
{
    float *ring = tail->ring + (size_t)in * tail->ring_stride + tail->pos;
    int next = tail->ring_at + tail->tick < tail->ring_size ? tail->ring_at + tail->tick : 0;
    memcpy(ring + tail->ring_at, x, (size_t)n * sizeof(float));
    for (int k = 0; k < n; k += LONG_LANES) __builtin_prefetch(ring + next + k, 1); /* last used long ago */
}

void tail_add(const struct tail *tail, const struct tail_mask *mask, int out, float *y, int n)
{
    for (int i = 0; i < tail->n_levels; i++) {
        const struct level *l = &tail->levels[i];
        const struct mask_level *ml = &mask->levels[i];
        if (l->heard < ml->join || !ml->out[out]) continue;
        const float *from = ml->out[out] + (l->heard & 1) * l->size + l->heard_at + tail->pos;
        for (int k = 0; k < n; k++) y[k] += from[k];
    }
}

void tail_advance(struct tail *tail, int n)
{
    tail->pos += n;
    if (tail->pos < tail->tick) return;
    tail->pos = 0;
    tail->frame += tail->tick;
    tail->ring_at += tail->tick;
    if (tail->ring_at == tail->ring_size) tail->ring_at = 0;
    hear(tail);
    if (tail->crew) {
        work_by_crew(tail);
        return;
    }
    work_in_slices(tail);
    catch_up_in_slices(tail);
}
