/* scene_tail - the tail levels of moving sources: jobs of equal cost, done between the edge of a hop and the frame at
 * which the hop is due.
 *
 *   phase      a job                                                          jobs
 *   INS        a source: the window before the edge -> FFT -> FDL              n_sources
 *   CHUNKS     a chunk of bins: the products of all sources of the list or,    n_chunks * n_parts
 *              if the list is long, of one part of the list
 *   OUTS       an output: its sums -> IFFT -> fades                            n_active
 *
 * Any thread claims the next job of a phase; the thread that completes the last job publishes the next phase. A job
 * sums in a fixed order, so the output does not depend on its thread. Some work is not expected to be done by the other
 * threads: the engine thread spreads it evenly over its calls. In its last call before the hop is due it does all jobs
 * that no thread has begun. When the hop is due it waits for at most one job of each thread (128 sources: tens of us).
 */
#include "dsp/base/memory.h"
#include "dsp/base/realtime_pool.h"
#include "dsp/device/backend.h"
#include "scene_state.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { INS, CHUNKS, OUTS, N_PHASES };
enum {
    MAX_PARTS = 8,
    RESPONSES_A_PART = 16, /* with 7 partitions, a job lasts 0.01 ms */
};

/* phase << PHASE_BIT | number of jobs << COUNT_BIT | the next job. Phase N_PHASES: the hop is complete. */
typedef atomic_uint_fast64_t ticket;
enum { COUNT_BIT = 30, PHASE_BIT = 60 };
#define COUNT_MASK ((UINT64_C(1) << COUNT_BIT) - 1)

struct job {
    int phase, i;
};

struct scene_tail_level {
    struct scene_level_cpu *level;
    int l;
    ticket jobs;
    atomic_int done; /* jobs of the phase that are complete */

    /* The engine thread writes these while no thread has a job: */
    int64_t edge; /* first frame of the hop; -1: no hop is under way */
    int n_jobs[N_PHASES];
    int64_t cost[N_PHASES]; /* estimated cost of a job, picoseconds */
    int n_active;

    int n_parts;                                /* parts into which the list is cut: see max_parts */
    const struct scene_piece *first[MAX_PARTS]; /* [n_parts]: first piece of each part */
    float *sums;                                /* [n_parts][n_out][fft] */
    float *results;                             /* [n_out][window] */

    /* Only the engine thread uses these: */
    int64_t own;           /* cost of the engine thread's jobs in this hop */
    double others_a_frame; /* cost of the work that the other threads do while a frame plays */
    bool is_measured;      /* others_a_frame was measured in this hop */
};

struct scene_tail {
    struct scene_state *s;
    struct realtime_pool *pool; /* NULL: no threads */
    int n_levels;
    struct scene_tail_level levels[HC_MAX_STEER_LEVELS];
    float *scratch; /* [1 + n_threads][n_scratch]: the engine thread's, then the pool's */
    size_t n_scratch;
    int64_t work;
};

/* ---- tickets ----------------------------------------------------------------------------------------------------- */

static void publish(struct scene_tail_level *t, int phase)
{
    uint64_t n = phase < N_PHASES ? (uint64_t)t->n_jobs[phase] : 0;
    atomic_store_explicit(&t->done, 0, memory_order_relaxed);
    atomic_store_explicit(&t->jobs, (uint64_t)phase << PHASE_BIT | n << COUNT_BIT, memory_order_release);
}

/* The ticket may have the same value again a hop later (ABA). This is harmless: the job then belongs to that hop. */
static bool job_claim(struct scene_tail_level *t, struct job *job)
{
    uint_fast64_t now = atomic_load_explicit(&t->jobs, memory_order_relaxed);
    do {
        if ((now & COUNT_MASK) >= (now >> COUNT_BIT & COUNT_MASK)) return false;
    } while (
        !atomic_compare_exchange_weak_explicit(&t->jobs, &now, now + 1, memory_order_acquire, memory_order_relaxed));
    *job = (struct job){(int)(now >> PHASE_BIT), (int)(now & COUNT_MASK)};
    return true;
}

static bool hop_is_complete(const struct scene_tail_level *t)
{
    return atomic_load_explicit(&t->jobs, memory_order_acquire) >> PHASE_BIT == N_PHASES;
}

/* Returns the cost of the jobs that any thread has begun. */
static int64_t begun(const struct scene_tail_level *t)
{
    uint_fast64_t now = atomic_load_explicit(&t->jobs, memory_order_relaxed);
    int phase = (int)(now >> PHASE_BIT);
    int64_t sum = phase < N_PHASES ? (int64_t)(now & COUNT_MASK) * t->cost[phase] : 0;
    for (int i = 0; i < phase; i++) sum += t->n_jobs[i] * t->cost[i];
    return sum;
}

/* Returns the cost of the next job. */
static int64_t next_cost(const struct scene_tail_level *t)
{
    int phase = (int)(atomic_load_explicit(&t->jobs, memory_order_relaxed) >> PHASE_BIT);
    return phase < N_PHASES ? t->cost[phase] : 0;
}

static int64_t whole(const struct scene_tail_level *t)
{
    int64_t sum = 0;
    for (int i = 0; i < N_PHASES; i++) sum += t->n_jobs[i] * t->cost[i];
    return sum;
}

/* ---- jobs, in any thread ----------------------------------------------------------------------------------------- */

/* Returns the first source of a part. */
static int part_begin(const struct scene_tail_level *t, int part)
{
    return (int)((int64_t)t->level->lists[0].n_sources * part / t->n_parts);
}

static void job_chunk(const struct scene_state *s, const struct scene_tail_level *t, int i, float *scratch)
{
    const struct scene_cut *cut = &t->level->cut;
    int64_t hop = t->edge / cut->hop;
    int part = i % t->n_parts;
    struct scene_sum sum = {.piece = t->first[part],
                            .sources = t->level->lists[0].sources,
                            .from = part_begin(t, part),
                            .to = part_begin(t, part + 1),
                            .fdl = t->level->fdl + scene_fdl_phase(cut, hop),
                            .x_source = scene_fdl_source(cut),
                            .chunk = i / t->n_parts,
                            .mixed = scratch,
                            .end = cut->n_partitions,
                            .entry = scene_fdl_entry(cut, hop),
                            .n_entries = cut->n_partitions,
                            .floats = cut->chunk,
                            .x_step = scene_fdl_chunk(cut),
                            .y_step = (size_t)cut->frames};
    float *y = t->sums + (size_t)part * t->level->n_sums + (size_t)(sum.chunk * cut->chunk);
    for (int out = 0; out < t->n_active; out++) memset(y + (size_t)out * sum.y_step, 0, (size_t)cut->chunk * sizeof *y);
    s->simd->scene_sum(y, NULL, &sum);
}

static void scene_tail_job_out(const struct scene_tail_level *t, int out, float *scratch)
{
    const struct scene_cut *cut = &t->level->cut;
    float *sum = t->sums + (size_t)out * (size_t)cut->frames, *y = t->results + (size_t)out * (size_t)cut->window;
    int fade = t->level->plan->fade;
    for (int part = 1; part < t->n_parts; part++) {
        const float *more = sum + (size_t)part * t->level->n_sums;
        for (int i = 0; i < cut->frames; i++) sum[i] += more[i];
    }
    fft_inverse(t->level->fft, sum, scratch);
    memcpy(y, scratch + cut->frames / 2 - cut->window, (size_t)cut->window * sizeof *y);
    for (int k = 0; k < fade; k++) {
        float g = steer_gain(k, fade);
        y[k] *= g;
        y[cut->hop + k] *= 1 - g;
    }
}

/* Does a job. false: no job is ready. */
static bool job_do(const struct scene_tail *tail, struct scene_tail_level *t, float *scratch, int64_t *cost)
{
    struct job job;
    if (!job_claim(t, &job)) return false;
    int n = t->n_jobs[job.phase]; /* read first: once the last job counts as done, the next hop may begin */
    *cost = t->cost[job.phase];
    if (job.phase == INS)
        scene_source_transform(tail->s, t->l, job.i, t->edge, 0, t->edge / t->level->cut.hop, scratch);
    else if (job.phase == CHUNKS)
        job_chunk(tail->s, t, job.i, scratch);
    else
        scene_tail_job_out(t, job.i, scratch);
    if (atomic_fetch_add_explicit(&t->done, 1, memory_order_acq_rel) + 1 < n) return true;
    int next = job.phase + 1;
    while (next < N_PHASES && t->n_jobs[next] == 0) next++;
    publish(t, next);
    return true;
}

static bool moving_job_any(void *data, int thread)
{
    struct scene_tail *tail = data;
    int64_t cost;
    for (int i = 0; i < tail->n_levels; i++)
        if (job_do(tail, &tail->levels[i], tail->scratch + (size_t)thread * tail->n_scratch, &cost)) return true;
    return false;
}

/* ---- open and close ---------------------------------------------------------------------------------------------- */

static size_t max_scratch(const struct scene_plan *plan)
{
    size_t n = 0;
    for (int l = 1; l < plan->n_levels; l++) {
        struct scene_cut cut;
        scene_cut_make(&cut, plan, l);
        if (scene_scratch_floats(&cut) > n) n = scene_scratch_floats(&cut);
    }
    return n;
}

/* Returns the number of parts of a level's list. With one term a source, a part has about RESPONSES_A_PART of them. */
static int max_parts(const struct scene_shape *shape)
{
    int64_t n = (int64_t)shape->n_sources * shape->n_out / RESPONSES_A_PART;
    return n < 1 ? 1 : n > MAX_PARTS ? MAX_PARTS : (int)n;
}

double scene_tail_floats(const struct scene_plan *plan, const struct scene_shape *shape, int n_threads)
{
    double floats = (1.0 + n_threads) * (double)max_scratch(plan);
    for (int l = 1; l < plan->n_levels; l++) {
        struct scene_cut cut;
        scene_cut_make(&cut, plan, l);
        floats += (double)shape->n_out * ((double)max_parts(shape) * cut.frames + cut.window);
    }
    return floats;
}

void scene_tail_reset(struct scene_tail *tail)
{
    for (int i = 0; i < tail->n_levels; i++) {
        struct scene_tail_level *t = &tail->levels[i];
        int64_t cost, since_ns = 0;
        while (t->edge >= 0 && !hop_is_complete(t))
            realtime_pool_step(&since_ns, job_do(tail, t, tail->scratch, &cost));
        t->edge = -1;
    }
}

struct scene_tail *scene_tail_open(struct scene_state *s, int n_threads)
{
    struct scene_tail *tail = calloc(1, sizeof *tail);
    if (!tail) return NULL;
    tail->s = s;
    tail->n_scratch = max_scratch(&s->plan);
    tail->scratch = memory_floats((size_t)(1 + n_threads) * tail->n_scratch);
    bool ok = tail->scratch != NULL;
    tail->n_levels = s->plan.n_levels - 1;
    for (int i = 0; i < tail->n_levels; i++) {
        struct scene_tail_level *t = &tail->levels[i];
        t->l = i + 1;
        t->level = &s->levels[i + 1];
        t->edge = -1;
        t->n_parts = max_parts(&s->shape);
        t->sums = memory_floats((size_t)t->n_parts * t->level->n_sums);
        t->results = memory_floats((size_t)s->shape.n_out * (size_t)t->level->cut.window);
        publish(t, N_PHASES);
        ok = ok && t->sums && t->results;
    }
    if (ok && n_threads > 0) {
        tail->pool = realtime_pool_open(n_threads, moving_job_any, tail);
        ok = tail->pool != NULL;
    }
    if (ok) return tail;
    scene_tail_close(tail);
    return NULL;
}

void scene_tail_close(struct scene_tail *tail)
{
    if (!tail) return;
    realtime_pool_close(tail->pool);
    for (int i = 0; i < tail->n_levels; i++) {
        free(tail->levels[i].sums);
        free(tail->levels[i].results);
    }
    free(tail->scratch);
    free(tail);
}

/* ---- hops, in the engine thread ---------------------------------------------------------------------------------- */

static bool own_job(struct scene_tail *tail, struct scene_tail_level *t)
{
    int64_t cost;
    if (!job_do(tail, t, tail->scratch, &cost)) return false;
    t->own += cost;
    tail->work += cost;
    return true;
}

/* Estimates how fast the other threads work, from the jobs they have begun. It falls fast and rises slowly. */
static void measure_others(struct scene_tail_level *t, int64_t frame)
{
    const double margin = 0.8;
    if (t->is_measured || frame <= t->edge) return;
    t->is_measured = true;
    double rate = margin * (double)(begun(t) - t->own) / (double)(frame - t->edge);
    t->others_a_frame = rate < t->others_a_frame ? rate : t->others_a_frame + (rate - t->others_a_frame) / 4;
}

static void hop_finish(struct scene_tail *tail, struct scene_tail_level *t)
{
    const struct scene_state *s = tail->s;
    const struct scene_cut *cut = &t->level->cut;
    int64_t due = t->edge + t->level->plan->delay, since_ns = 0;
    measure_others(t, due);
    while (!hop_is_complete(t)) realtime_pool_step(&since_ns, own_job(tail, t));
    for (int out = 0; out < t->n_active; out++) {
        const float *y = t->results + (size_t)out * (size_t)cut->window;
        float *ring = s->due + (size_t)out * (size_t)s->due_length;
        for (int k = 0, i = (int)(due % s->due_length); k < cut->window; k++) {
            ring[i] += y[k];
            if (++i == s->due_length) i = 0;
        }
    }
    t->edge = -1;
}

static int64_t picoseconds(double ns)
{
    return (int64_t)ceil(ns * 1000);
}

static void hop_begin(struct scene_state *s, struct scene_tail_level *t, const struct scene_call *call)
{
    const struct scene_cut *cut = &t->level->cut;
    double floats = 0, transform = scene_transform_ns(cut);
    struct scene_list *list = &t->level->lists[0];
    int n_active = 0, part = 0;
    t->edge = call->frame;
    scene_list_make(&s->maker, call->tail[t->l], t->l, list);
    for (const struct scene_piece *piece = list->pieces; piece < list->pieces + list->n; piece++) {
        floats += (double)piece->n * piece->n_partitions * (1 + piece->n_out);
        if (piece->n_out > n_active) n_active = piece->n_out;
        while (part < t->n_parts && part_begin(t, part) < piece->first + piece->n) t->first[part++] = piece;
    }
    t->n_active = n_active;
    t->n_jobs[INS] = s->shape.n_sources;
    t->n_jobs[CHUNKS] = n_active > 0 ? cut->n_chunks * t->n_parts : 0;
    t->n_jobs[OUTS] = n_active;
    t->cost[INS] = picoseconds(transform);
    t->cost[CHUNKS] = picoseconds(scene_products_ns(floats * cut->chunk / t->n_parts));
    t->cost[OUTS] = picoseconds(transform);
    t->own = 0;
    t->is_measured = false;
    publish(t, INS);
}

void scene_tail_begin(struct scene_tail *tail, const struct scene_call *call)
{
    bool is_new = false;
    for (int i = 0; i < tail->n_levels; i++) {
        struct scene_tail_level *t = &tail->levels[i];
        if (t->edge >= 0 && call->frame >= t->edge + t->level->plan->delay) hop_finish(tail, t);
        if (call->tail[t->l]) hop_begin(tail->s, t, call);
        if (t->edge >= 0 && begun(t) < whole(t)) is_new = true;
    }
    if (is_new && tail->pool) realtime_pool_wake(tail->pool);
}

void scene_tail_advance(struct scene_tail *tail, const struct scene_call *call)
{
    for (int i = 0; i < tail->n_levels; i++) {
        struct scene_tail_level *t = &tail->levels[i];
        if (t->edge < 0) continue;
        int64_t before = begun(t), left = whole(t) - before, due = t->edge + t->level->plan->delay;
        int64_t frames = due - call->frame;
        if (left == 0) {
            measure_others(t, call->frame + call->n);
            continue;
        }
        double mine = frames <= call->n ? (double)left : (double)left - t->others_a_frame * (double)frames;
        if (mine <= 0) continue;
        int64_t until = t->own + (frames <= call->n ? left : (int64_t)(mine * call->n / (double)frames));
        while (t->own + next_cost(t) / 2 < until && own_job(tail, t)) continue;
    }
}

int64_t scene_tail_work(const struct scene_tail *tail)
{
    return tail->work;
}
