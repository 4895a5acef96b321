/* The scheduler with a worker pool: the threads do whole jobs as soon as a window is complete, and the engine thread
 * does what they have not begun when the output is due. */
#include "crew.h"
#include "dsp/engine/await.h"
#include "memory.h"
#include "tail_state.h"

#include <sched.h>
#include <stdlib.h>

enum {
    JOB_GROUP = 4, /* outputs of a job */
    CATCH_GROUP =
        2 /* of a job of catching up, which is never due: a small level that falls due waits for no long job */
};

/* Jobs that any thread takes one by one: their count << 32 | the next. */
typedef atomic_uint_fast64_t ticket;

struct pool_window {  /* the jobs of a level's window `newest`: inputs, then groups of outputs of each mask */
    ticket ins, outs; /* outs has none before the last of the inputs is done */
    atomic_int ins_done, outs_done;
    /* Written by the engine thread while no thread works on the window: */
    int n_in, n_out;
    struct tail_mask *masks[MOST_WARM];
    bool is_held; /* ins is not offered yet: see window_release; the engine thread's */
};

struct pool_catch_up { /* on one window, of one mask */
    /* Written by the engine thread while no thread works on it: */
    struct tail_mask *mask;
    int64_t index;
    bool has_oldest; /* then the jobs are groups of outputs, before that inputs */
    ticket jobs;
    atomic_int done;
    int n_jobs;     /* offered, or taken before the offer was withdrawn; the engine thread's */
    bool is_wanted; /* not withdrawn; the engine thread's */
};

struct pool {
    struct tail *tail;
    struct crew *crew;
    float *scratch; /* the engine thread's, for jobs */
    struct pool_level {
        struct pool_window window;
        struct pool_catch_up catch_up;
    } levels[PLAN_MOST_FAR];
};

/* ---- tickets -------------------------------------------------------------------------------------------------------
 */

/* The same value may come again (ABA). This does no harm: a thread that gets a number sees the window for which the
 * ticket was written last. */
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

/* ---- jobs, in any thread -------------------------------------------------------------------------------------------
 */

static int n_groups(const struct tail *tail)
{
    return (tail->n_out + JOB_GROUP - 1) / JOB_GROUP;
}

static void job_in(const struct tail *tail, int level, int64_t index, bool is_oldest, int in, float *scratch)
{
    const struct tail_level *l = &tail->levels[level];
    for (int i = 0; i < l->n_columns; i++) tail_columns(tail, l, index, in, scratch, i);
    for (int i = 0; i < l->n_rows; i++) tail_rows(tail, l, is_oldest, in, scratch, i);
}

static void job_out(const struct tail *tail, int level, const struct tail_mask *mask, int64_t index,
                    const float *oldest, int first, int n, float *scratch)
{
    const struct tail_level *l = &tail->levels[level];
    const struct simd_long *pieces = tail->simd->pieces;
    const struct tail_mask_level *ml = &mask->levels[level];
    int end = first + n < tail->n_out ? first + n : tail->n_out;
    for (int chunk = 0; chunk < l->fft->n_chunks; chunk++)
        for (int out = first; out < end; out++)
            if (ml->out[out])
                tail_sum_chunk(tail, level, index, oldest, mask, out, chunk,
                               scratch + (size_t)(out - first) * 2 * (size_t)l->size + (size_t)chunk * LONG_CHUNK);
    for (int out = first; out < end; out++) {
        float *work = scratch + (size_t)(out - first) * 2 * (size_t)l->size;
        if (!ml->out[out]) continue;
        for (int i = 0; i < l->n_rows; i++) pieces->rows_out(l->fft, work, i);
        for (int i = 0; i < l->n_columns; i++)
            pieces->columns_out(l->fft, work, ml->out[out] + (index & 1) * l->size, i);
    }
}

static bool job_of_window(struct pool *pool, int level, float *scratch)
{
    const struct tail *tail = pool->tail;
    struct pool_window *w = &pool->levels[level].window;
    int i;
    if (ticket_take(&w->ins, &i)) {
        int n_in = w->n_in, n_out = w->n_out; /* once the job counts as done the next window may be written */
        job_in(tail, level, tail->levels[level].newest, false, i, scratch);
        int done = atomic_fetch_add_explicit(&w->ins_done, 1, memory_order_acq_rel) + 1;
        if (done == n_in && n_out > 0) ticket_offer(&w->outs, n_out); /* a thread that takes one sees all inputs */
        return true;
    }
    if (!ticket_take(&w->outs, &i)) return false;
    int first = i % n_groups(tail) * JOB_GROUP;
    job_out(tail, level, w->masks[i / n_groups(tail)], tail->levels[level].newest, NULL, first, JOB_GROUP, scratch);
    atomic_fetch_add_explicit(&w->outs_done, 1, memory_order_release);
    return true;
}

static bool job_of_catch_up(struct pool *pool, int level, float *scratch)
{
    const struct tail *tail = pool->tail;
    const struct tail_level *l = &tail->levels[level];
    struct pool_catch_up *c = &pool->levels[level].catch_up;
    int i;
    if (!ticket_take(&c->jobs, &i)) return false;
    if (c->has_oldest)
        job_out(tail, level, c->mask, c->index, l->oldest, i * CATCH_GROUP, CATCH_GROUP, scratch);
    else
        job_in(tail, level, tail_oldest(l, c->index), true, i, scratch);
    atomic_fetch_add_explicit(&c->done, 1, memory_order_release);
    return true;
}

/* Small levels first: they are due first. Catching up comes last: it is never due. */
static bool job_any(void *data, float *scratch)
{
    struct pool *pool = data;
    for (int i = 0; i < pool->tail->n_levels; i++)
        if (job_of_window(pool, i, scratch)) return true;
    for (int i = pool->tail->n_levels; i-- > 0;)
        if (job_of_catch_up(pool, i, scratch)) return true;
    return false;
}

/* ---- windows, in the engine thread ---------------------------------------------------------------------------------
 */

static bool has_inputs(const struct pool_window *w)
{
    return atomic_load_explicit(&w->ins_done, memory_order_acquire) == w->n_in;
}

static bool is_complete(const struct pool_window *w)
{
    return has_inputs(w) && atomic_load_explicit(&w->outs_done, memory_order_acquire) == w->n_out;
}

static bool catch_up_is_over(const struct pool_catch_up *c)
{
    return atomic_load_explicit(&c->done, memory_order_acquire) == c->n_jobs;
}

static void window_hold(struct pool *pool, int level, int64_t index)
{
    struct tail *tail = pool->tail;
    struct pool_window *w = &pool->levels[level].window;
    int n_masks = 0;
    tail->levels[level].newest = index;
    for (int m = 0; m < MOST_WARM; m++)
        if (tail_mask_plays(tail->warm[m], level, index)) w->masks[n_masks++] = tail->warm[m];
    for (int m = n_masks; m < MOST_WARM; m++) w->masks[m] = NULL;
    atomic_store_explicit(&w->ins_done, 0, memory_order_relaxed);
    atomic_store_explicit(&w->outs_done, 0, memory_order_relaxed);
    ticket_offer(&w->outs, 0);
    w->n_in = tail->n_in;
    w->n_out = n_masks * n_groups(tail);
    w->is_held = true;
}

/* A window's spectra and outputs replace those of windows before the previous one. The jobs are held back while an
 * interrupted thread still catches up on one of these. */
static bool window_release(struct pool *pool, int level)
{
    struct pool_window *w = &pool->levels[level].window;
    const struct pool_catch_up *c = &pool->levels[level].catch_up;
    if (!w->is_held) return false;
    if (c->index + 2 <= pool->tail->levels[level].newest && !catch_up_is_over(c)) return false;
    w->is_held = false;
    ticket_offer(&w->ins, pool->tail->n_in);
    return true;
}

/* Does the jobs that no thread has begun, and waits for those that others have begun: at most one job a thread. */
static void window_finish(struct pool *pool, int level)
{
    while (!is_complete(&pool->levels[level].window)) {
        window_release(pool, level);
        if (!job_of_window(pool, level, pool->scratch)) cpu_relax();
    }
}

/* ---- catching up, in the engine thread -----------------------------------------------------------------------------
 */

/* No thread begins another job of it; jobs that were begun go on, and count. */
static void catch_up_withdraw(struct pool_catch_up *c)
{
    uint_fast64_t was = atomic_exchange_explicit(&c->jobs, 0, memory_order_relaxed);
    if (was >> 32) c->n_jobs = (int)(uint32_t)was;
    c->is_wanted = false;
}

static void catch_up_offer(struct pool_catch_up *c, int n_jobs)
{
    c->n_jobs = n_jobs;
    c->is_wanted = true;
    atomic_store_explicit(&c->done, 0, memory_order_relaxed);
    ticket_offer(&c->jobs, n_jobs);
}

/* After the oldest spectra come the outputs, and after these the next window that a mask lacks. Returns whether there
 * are new jobs. */
static bool catch_up_next(struct pool *pool, int level)
{
    const struct tail *tail = pool->tail;
    struct pool_catch_up *c = &pool->levels[level].catch_up;
    if (!catch_up_is_over(c)) return false;
    if (c->is_wanted && !c->has_oldest) {
        c->has_oldest = true;
        catch_up_offer(c, (tail->n_out + CATCH_GROUP - 1) / CATCH_GROUP);
        return true;
    }
    if (c->is_wanted) c->mask->levels[level].join = c->index;
    c->is_wanted = false;
    int64_t index;
    struct tail_mask *mask = tail_lacking(tail, level, &index);
    if (!mask) return false;
    c->mask = mask;
    c->index = index;
    c->has_oldest = false;
    catch_up_offer(c, tail->n_in);
    return true;
}

static bool catch_up(struct pool *pool)
{
    bool offered = false;
    for (int i = 0; i < pool->tail->n_levels; i++) {
        struct pool_catch_up *c = &pool->levels[i].catch_up;
        if (c->is_wanted && c->index < pool->tail->levels[i].due) catch_up_withdraw(c);
        if (catch_up_next(pool, i)) offered = true;
    }
    return offered;
}

/* If there is time: completes all jobs that were offered. The output then does not depend on the threads' timing. */
static void settle(struct pool *pool)
{
    if (!atomic_load_explicit(&pool->tail->waits, memory_order_relaxed)) return;
    for (int i = 0; i < pool->tail->n_levels; i++) {
        while (!catch_up_is_over(&pool->levels[i].catch_up))
            if (!job_of_catch_up(pool, i, pool->scratch)) sched_yield();
        window_finish(pool, i);
    }
}

/* ---- the scheduler -------------------------------------------------------------------------------------------------
 */

static void pool_close(struct tail *tail)
{
    struct pool *pool = tail->schedule;
    crew_close(pool->crew);
    free(pool->scratch);
    free(pool);
}

static bool pool_open(struct tail *tail, int n_threads)
{
    struct pool *pool = tail->schedule = calloc(1, sizeof *pool);
    size_t n_scratch = (size_t)JOB_GROUP * 2 * (size_t)tail->levels[tail->n_levels - 1].size;
    if (!pool) return false;
    pool->tail = tail;
    pool->scratch = memory_floats(n_scratch);
    pool->crew = pool->scratch ? crew_open(n_threads, n_scratch, job_any, pool) : NULL;
    return pool->crew != NULL; /* else tail_open calls pool_close */
}

static void pool_reset(struct tail *tail)
{
    struct pool *pool = tail->schedule;
    for (int i = 0; i < tail->n_levels; i++) {
        struct pool_catch_up *c = &pool->levels[i].catch_up;
        catch_up_withdraw(c);
        while (!catch_up_is_over(c)) cpu_relax();
        window_finish(pool, i);
    }
}

static void pool_warm(struct tail *tail)
{
    settle(tail->schedule);
}

/* If the mask came to rest a moment ago, threads may still complete it in this window. */
static bool pool_join(struct tail *tail, int level, struct tail_mask *mask, int m)
{
    (void)m;
    struct pool *pool = tail->schedule;
    const struct pool_window *w = &pool->levels[level].window;
    return (w->masks[0] == mask || w->masks[1] == mask) && !is_complete(w);
}

static void pool_rest(struct tail *tail, const struct tail_mask *mask)
{
    struct pool *pool = tail->schedule;
    for (int i = 0; i < tail->n_levels; i++)
        if (pool->levels[i].catch_up.mask == mask) catch_up_withdraw(&pool->levels[i].catch_up);
}

static bool pool_is_idle(const struct tail *tail, const struct tail_mask *mask)
{
    const struct pool *pool = tail->schedule;
    for (int i = 0; i < tail->n_levels; i++) {
        const struct pool_window *w = &pool->levels[i].window;
        const struct pool_catch_up *c = &pool->levels[i].catch_up;
        for (int m = 0; m < MOST_WARM; m++)
            if (w->masks[m] == mask && !is_complete(w)) return false;
        if (c->mask == mask && !catch_up_is_over(c)) return false;
    }
    return true;
}

static bool pool_has_inputs(const struct tail *tail, int level)
{
    const struct pool *pool = tail->schedule;
    return has_inputs(&pool->levels[level].window);
}

static void pool_finish(struct tail *tail, int level)
{
    window_finish(tail->schedule, level);
}

static void pool_advance(struct tail *tail)
{
    struct pool *pool = tail->schedule;
    if (tail_lacks_something(tail)) settle(pool);
    bool offered = catch_up(pool);
    for (int i = 0; i < tail->n_levels; i++) {
        int size = tail->levels[i].size;
        if (tail->frame % size == 0) window_hold(pool, i, tail->frame / size - 1);
        if (window_release(pool, i)) offered = true;
    }
    if (offered) crew_wake(pool->crew);
}

const struct tail_scheduler tail_pool = {
    .open = pool_open,
    .close = pool_close,
    .reset = pool_reset,
    .warm = pool_warm,
    .join = pool_join,
    .rest = pool_rest,
    .is_idle = pool_is_idle,
    .has_inputs = pool_has_inputs,
    .finish = pool_finish,
    .advance = pool_advance,
};
