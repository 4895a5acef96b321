/* tail_pool - the scheduler with a real-time pool: its threads do whole jobs as soon as a block is complete. When the
 * output is due, the engine thread does the jobs that no thread has begun. */
#include "dsp/base/memory.h"
#include "dsp/base/priority.h"
#include "dsp/base/realtime_pool.h"
#include "tail_state.h"

#include <sched.h>
#include <stdlib.h>

enum {
    JOB_GROUP = 4,      /* outputs of a job */
    CATCH_UP_GROUP = 2, /* outputs of a catch-up job: short, because a small level that is due may wait for it */
};

/* Threads claim the jobs of a ticket one by one. Its value: number of jobs << 32 | index of the next job. */
typedef atomic_uint_fast64_t ticket;

struct block_jobs {   /* jobs of a level's block `newest`: first the inputs, then each mask's groups of outputs */
    ticket ins, outs; /* `outs` has no jobs before all jobs of `ins` are done */
    atomic_int ins_done, outs_done;
    /* The engine thread writes these while no thread works on the block: */
    int n_in, n_out; /* number of jobs of inputs, and of outputs */
    struct tail_mask *masks[MAX_PREPARED];
    bool is_held; /* ins is not published yet: see pool_block_publish; engine thread only */
};

struct catch_up_jobs { /* jobs of one block, for one mask */
    /* The engine thread writes these while no thread works on the block: */
    struct tail_mask *mask;
    int64_t block;
    bool has_oldest; /* tail_level.oldest is complete, and the jobs are groups of outputs; false: inputs */
    ticket jobs;
    atomic_int done;
    int n_jobs;     /* jobs published and not withdrawn; engine thread only */
    bool is_wanted; /* false: the jobs are withdrawn; engine thread only */
};

struct pool_schedule {
    struct tail *tail;
    struct realtime_pool *pool;
    float *scratch; /* [1 + threads][n_scratch]: the engine thread's, then the pool's */
    size_t n_scratch;
    int64_t
        since_ns; /* when the engine thread's call began to wait or to do jobs; 0: it has not yet; engine thread only */
    struct pool_level {
        struct block_jobs block;
        struct catch_up_jobs catch_up;
    } levels[PLAN_MAX_TAIL_LEVELS];
};

/* ---- tickets ----------------------------------------------------------------------------------------------------- */

/* The ticket may have the same value again (ABA). This is harmless: a thread that claims a job sees the block for which
 * the ticket was last written. */
static bool ticket_claim(ticket *t, int *i)
{
    uint_fast64_t now = atomic_load_explicit(t, memory_order_relaxed);
    do {
        if ((uint32_t)now >= now >> 32) return false;
    } while (!atomic_compare_exchange_weak_explicit(t, &now, now + 1, memory_order_acquire, memory_order_relaxed));
    *i = (int)(uint32_t)now;
    return true;
}

static void ticket_publish(ticket *t, int n)
{
    atomic_store_explicit(t, (uint_fast64_t)n << 32, memory_order_release);
}

/* ---- jobs, in any thread ----------------------------------------------------------------------------------------- */

static int n_groups(const struct tail *tail)
{
    return (tail->n_out + JOB_GROUP - 1) / JOB_GROUP;
}

static void job_in(const struct tail *tail, int level, int64_t block, bool is_oldest, int in, float *scratch)
{
    const struct tail_level *l = &tail->levels[level];
    for (int i = 0; i < l->fft->column_steps; i++) tail_columns_in(tail, l, block, in, scratch, i);
    for (int i = 0; i < l->fft->row_steps; i++) tail_rows_in(l, is_oldest, in, scratch, i);
}

static void job_out(const struct tail *tail, int level, const struct tail_mask *mask, int64_t block,
                    const float *oldest, int first, int n, float *scratch)
{
    const struct tail_level *l = &tail->levels[level];
    const struct tail_mask_level *ml = &mask->levels[level];
    int end = first + n < tail->n_out ? first + n : tail->n_out;
    for (int chunk = 0; chunk < l->fft->n_chunks; chunk++) {
        priority_rest(); /* with long responses a job takes longer than the system permits */
        for (int out = first; out < end; out++)
            if (ml->out[out])
                tail_sum_chunk(tail, level, block, oldest, mask, out, chunk,
                               scratch + (size_t)(out - first) * 2 * (size_t)l->size + (size_t)chunk * FFT_CHUNK);
    }
    for (int out = first; out < end; out++) {
        float *work = scratch + (size_t)(out - first) * 2 * (size_t)l->size;
        if (!ml->out[out]) continue;
        for (int i = 0; i < l->fft->row_steps; i++) l->fft->steps->rows_out(l->fft, work, i);
        for (int i = 0; i < l->fft->column_steps; i++)
            l->fft->steps->columns_out(l->fft, work, ml->out[out] + (block & 1) * l->size, i);
    }
}

static bool job_of_block(struct pool_schedule *pool, int level, float *scratch)
{
    const struct tail *tail = pool->tail;
    struct block_jobs *b = &pool->levels[level].block;
    int i;
    if (ticket_claim(&b->ins, &i)) {
        int n_in = b->n_in, n_out = b->n_out; /* read first: once the job counts as done, the next block may begin */
        job_in(tail, level, tail->levels[level].newest, false, i, scratch);
        int done = atomic_fetch_add_explicit(&b->ins_done, 1, memory_order_acq_rel) + 1;
        if (done == n_in && n_out > 0) ticket_publish(&b->outs, n_out); /* who claims a job sees all inputs */
        return true;
    }
    if (!ticket_claim(&b->outs, &i)) return false;
    int first = i % n_groups(tail) * JOB_GROUP;
    job_out(tail, level, b->masks[i / n_groups(tail)], tail->levels[level].newest, NULL, first, JOB_GROUP, scratch);
    atomic_fetch_add_explicit(&b->outs_done, 1, memory_order_release);
    return true;
}

static bool job_of_catch_up(struct pool_schedule *pool, int level, float *scratch)
{
    const struct tail *tail = pool->tail;
    const struct tail_level *l = &tail->levels[level];
    struct catch_up_jobs *c = &pool->levels[level].catch_up;
    int i;
    if (!ticket_claim(&c->jobs, &i)) return false;
    if (c->has_oldest)
        job_out(tail, level, c->mask, c->block, l->oldest, i * CATCH_UP_GROUP, CATCH_UP_GROUP, scratch);
    else
        job_in(tail, level, tail_oldest_block(l, c->block), true, i, scratch);
    atomic_fetch_add_explicit(&c->done, 1, memory_order_release);
    return true;
}

/* Does one job of any level. Small levels come first: they are due first. Catching up comes last: it is never due. */
static bool job_any(void *data, int thread)
{
    struct pool_schedule *pool = data;
    float *scratch = pool->scratch + (size_t)thread * pool->n_scratch;
    for (int i = 0; i < pool->tail->n_levels; i++)
        if (job_of_block(pool, i, scratch)) return true;
    for (int i = pool->tail->n_levels; i-- > 0;)
        if (job_of_catch_up(pool, i, scratch)) return true;
    return false;
}

/* ---- blocks, in the engine thread -------------------------------------------------------------------------------- */

static bool has_inputs(const struct block_jobs *b)
{
    return atomic_load_explicit(&b->ins_done, memory_order_acquire) == b->n_in;
}

static bool jobs_are_complete(const struct block_jobs *b)
{
    return has_inputs(b) && atomic_load_explicit(&b->outs_done, memory_order_acquire) == b->n_out;
}

static bool catch_up_is_over(const struct catch_up_jobs *c)
{
    return atomic_load_explicit(&c->done, memory_order_acquire) == c->n_jobs;
}

static void pool_block_begin(struct pool_schedule *pool, int level, int64_t block)
{
    struct tail *tail = pool->tail;
    struct block_jobs *b = &pool->levels[level].block;
    int n_masks = 0;
    tail->levels[level].newest = block;
    for (int m = 0; m < MAX_PREPARED; m++)
        if (tail_mask_plays(tail->prepared[m], level, block)) b->masks[n_masks++] = tail->prepared[m];
    for (int m = n_masks; m < MAX_PREPARED; m++) b->masks[m] = NULL;
    atomic_store_explicit(&b->ins_done, 0, memory_order_relaxed);
    atomic_store_explicit(&b->outs_done, 0, memory_order_relaxed);
    ticket_publish(&b->outs, 0);
    b->n_in = tail->n_in;
    b->n_out = n_masks * n_groups(tail);
    b->is_held = true;
}

/* Publishes a block's jobs. They overwrite spectra and outputs of older blocks, so they are held back while an
 * interrupted thread still catches up on such a block. Returns true if it published jobs. */
static bool pool_block_publish(struct pool_schedule *pool, int level)
{
    struct block_jobs *b = &pool->levels[level].block;
    const struct catch_up_jobs *c = &pool->levels[level].catch_up;
    if (!b->is_held) return false;
    if (c->block + 2 <= pool->tail->levels[level].newest && !catch_up_is_over(c)) return false;
    b->is_held = false;
    ticket_publish(&b->ins, pool->tail->n_in);
    return true;
}

/* Does the jobs that no thread has begun, and waits for those that others have begun: at most one for each thread. */
static void pool_finish(struct tail *tail, int level)
{
    struct pool_schedule *pool = tail->schedule;
    while (!jobs_are_complete(&pool->levels[level].block)) {
        pool_block_publish(pool, level);
        realtime_pool_step(&pool->since_ns, job_of_block(pool, level, pool->scratch));
    }
}

/* ---- catching up, in the engine thread --------------------------------------------------------------------------- */

/* Withdraws the jobs that no thread has begun. The others continue and still count in n_jobs. */
static void catch_up_withdraw(struct catch_up_jobs *c)
{
    uint_fast64_t was = atomic_exchange_explicit(&c->jobs, 0, memory_order_relaxed);
    if (was >> 32) c->n_jobs = (int)(uint32_t)was;
    c->is_wanted = false;
}

static void catch_up_publish(struct catch_up_jobs *c, int n_jobs)
{
    c->n_jobs = n_jobs;
    c->is_wanted = true;
    atomic_store_explicit(&c->done, 0, memory_order_relaxed);
    ticket_publish(&c->jobs, n_jobs);
}

/* Publishes the next catch-up jobs: after the oldest spectra come the outputs, then the next block that a mask lacks.
 * Returns true if it published jobs. */
static bool catch_up_next(struct pool_schedule *pool, int level)
{
    const struct tail *tail = pool->tail;
    struct catch_up_jobs *c = &pool->levels[level].catch_up;
    if (!catch_up_is_over(c)) return false;
    if (c->is_wanted && !c->has_oldest) {
        c->has_oldest = true;
        catch_up_publish(c, (tail->n_out + CATCH_UP_GROUP - 1) / CATCH_UP_GROUP);
        return true;
    }
    if (c->is_wanted) c->mask->levels[level].first_block = c->block;
    c->is_wanted = false;
    int64_t block;
    struct tail_mask *mask = tail_find_missing(tail, level, &block);
    if (!mask) return false;
    c->mask = mask;
    c->block = block;
    c->has_oldest = false;
    catch_up_publish(c, tail->n_in);
    return true;
}

static bool pool_catch_up(struct pool_schedule *pool)
{
    bool is_new = false;
    for (int i = 0; i < pool->tail->n_levels; i++) {
        struct catch_up_jobs *c = &pool->levels[i].catch_up;
        if (c->is_wanted && c->block < pool->tail->levels[i].due) catch_up_withdraw(c);
        if (catch_up_next(pool, i)) is_new = true;
    }
    return is_new;
}

/* Completes all published jobs, for a call that waits: its output does not depend on the timing of threads. */
static void pool_settle(struct tail *tail)
{
    struct pool_schedule *pool = tail->schedule;
    if (!atomic_load_explicit(&tail->waits, memory_order_relaxed)) return;
    for (int i = 0; i < tail->n_levels; i++) {
        while (!catch_up_is_over(&pool->levels[i].catch_up)) {
            bool has_worked = job_of_catch_up(pool, i, pool->scratch);
            if (!has_worked) sched_yield();
            realtime_pool_step(&pool->since_ns, has_worked);
        }
        pool_finish(tail, i);
    }
}

/* ---- the scheduler ----------------------------------------------------------------------------------------------- */

static void pool_close(struct tail *tail)
{
    struct pool_schedule *pool = tail->schedule;
    realtime_pool_close(pool->pool);
    free(pool->scratch);
    free(pool);
}

static bool pool_open(struct tail *tail, int n_threads)
{
    struct pool_schedule *pool = tail->schedule = calloc(1, sizeof *pool);
    if (!pool) return false;
    pool->tail = tail;
    pool->n_scratch = (size_t)JOB_GROUP * 2 * (size_t)tail->levels[tail->n_levels - 1].size;
    pool->scratch = memory_floats((1 + (size_t)n_threads) * pool->n_scratch);
    pool->pool = pool->scratch ? realtime_pool_open(n_threads, job_any, pool) : NULL;
    return pool->pool != NULL; /* on false, tail_open calls pool_close */
}

static void pool_reset(struct tail *tail)
{
    struct pool_schedule *pool = tail->schedule;
    for (int i = 0; i < tail->n_levels; i++) {
        struct catch_up_jobs *c = &pool->levels[i].catch_up;
        int64_t since_ns = 0;
        catch_up_withdraw(c);
        while (!catch_up_is_over(c)) realtime_pool_await(&since_ns);
        pool_finish(tail, i);
    }
}

/* The jobs of this block may still contain the mask if it was retired a moment ago. */
static bool pool_include(struct tail *tail, int level, struct tail_mask *mask, int m)
{
    (void)m;
    struct pool_schedule *pool = tail->schedule;
    const struct block_jobs *b = &pool->levels[level].block;
    return (b->masks[0] == mask || b->masks[1] == mask) && !jobs_are_complete(b);
}

static void pool_retire(struct tail *tail, const struct tail_mask *mask)
{
    struct pool_schedule *pool = tail->schedule;
    for (int i = 0; i < tail->n_levels; i++)
        if (pool->levels[i].catch_up.mask == mask) catch_up_withdraw(&pool->levels[i].catch_up);
}

static bool pool_released(const struct tail *tail, const struct tail_mask *mask)
{
    const struct pool_schedule *pool = tail->schedule;
    for (int i = 0; i < tail->n_levels; i++) {
        const struct block_jobs *b = &pool->levels[i].block;
        const struct catch_up_jobs *c = &pool->levels[i].catch_up;
        for (int m = 0; m < MAX_PREPARED; m++)
            if (b->masks[m] == mask && !jobs_are_complete(b)) return false;
        if (c->mask == mask && !catch_up_is_over(c)) return false;
    }
    return true;
}

static bool pool_has_inputs(const struct tail *tail, int level)
{
    const struct pool_schedule *pool = tail->schedule;
    return has_inputs(&pool->levels[level].block);
}

static void pool_advance(struct tail *tail)
{
    struct pool_schedule *pool = tail->schedule;
    if (tail_is_preparing(tail)) pool_settle(tail);
    pool->since_ns = 0;
    bool is_new = pool_catch_up(pool);
    for (int i = 0; i < tail->n_levels; i++) {
        int size = tail->levels[i].size;
        if (tail->frame % size == 0) pool_block_begin(pool, i, tail->frame / size - 1);
        if (pool_block_publish(pool, i)) is_new = true;
    }
    if (is_new) realtime_pool_wake(pool->pool);
}

const struct tail_scheduler tail_pool = {
    .open = pool_open,
    .close = pool_close,
    .reset = pool_reset,
    .prepare = pool_settle,
    .include = pool_include,
    .retire = pool_retire,
    .released = pool_released,
    .has_inputs = pool_has_inputs,
    .finish = pool_finish,
    .advance = pool_advance,
};
