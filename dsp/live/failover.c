#include "failover.h"

#include "dsp/cpu/memory.h"
#include "dsp/cpu/simd.h"
#include "dsp/engine/await.h"
#include "dsp/engine/backend.h"
#include "dsp/engine/engine.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    HUNG_BLOCKS = 8,         /* late in a row: as many as the engine can queue, after that its history has holes */
    HUNG_MS = 20,            /* for which they were late: less can be the system's doing */
    PROBE_US = 100000,       /* that a device which answers again may need for a block */
    FREEWHEEL_US = 10000000, /* a device that needs longer is hung, freewheeling or not */
    WARM_BLOCKS = 16,
    TRIAL_MS = 250,      /* of audio that the CPU is tried with, and of time that this may take */
    CATCH_UP_BLOCKS = 4, /* that a standby engine may be behind and still play in the same block, at most */
    SLOW_SCORE = 16,     /* late blocks beyond SLOW_A_SECOND after which a device is too slow */
    SLOW_A_SECOND = 4
};

/* ---- runners ----------------------------------------------------------------------------------- */

static void runner_close(struct runner *r)
{
    hc_close(r->engine);
    free(r->discarded);
    free(r->rows);
    memory_place_free(r->frames);
    *r = (struct runner){0};
}

static int runner_open(struct runner *r, const hc_config *config, char *why, size_t cap)
{
    size_t n_in = (size_t)config->n_in, n_out = (size_t)config->n_out, block = (size_t)config->block;
    *r = (struct runner){.block = config->block,
                         .frames = memory_place((n_out + 1) * block),
                         .rows = calloc(n_in, sizeof *r->rows),
                         .discarded = calloc(n_out, sizeof *r->discarded)};
    int error = HC_ENOMEM;
    if (!r->frames || !r->rows || !r->discarded) {
        fail(error, why, cap, "no memory for %zu channels of %zu frames; lower them", n_in + n_out, block);
    } else {
        for (size_t ch = 0; ch < n_out; ch++) r->discarded[ch] = r->frames + ch * block;
        r->silence = r->frames + n_out * block;
        error = hc_open(config, &r->engine, why, cap);
    }
    if (error) runner_close(r);
    return error;
}

/* Fade to a mask, or to silence; the mask before it is given up. */
static void runner_play(struct runner *r, hc_mask *mask)
{
    hc_mask_swap(r->engine, mask);
    hc_mask_free(r->engine, r->mask);
    r->mask = mask;
}

/* A block of one row in every channel. */
static int runner_repeat(struct runner *r, const float *row, int n_in)
{
    for (int ch = 0; ch < n_in; ch++) r->rows[ch] = row;
    return engine_process_clean(r->engine, r->rows, r->discarded, r->block, now_ns());
}

static int runner_warm_up(struct runner *r, int n_in)
{
    int result = HC_OK;
    for (int i = 0; i < WARM_BLOCKS && result == HC_OK; i++) result = runner_repeat(r, r->silence, n_in);
    return result;
}

/* Frames that the history no longer has count as silence. */
static void start_afresh(struct runner *r, int64_t now)
{
    hc_reset(r->engine);
    r->at = now;
}

/* The next block of the history at most, up to frame `to`. If it was overwritten meanwhile the engine starts afresh at
 * frame `afresh`. */
static int runner_follow(struct runner *r, struct input_history *history, int64_t to, int64_t afresh)
{
    int64_t from = r->at;
    int n = to - from < r->block ? (int)(to - from) : r->block;
    input_history_read(history, from, &n, r->rows);
    int result = engine_process_clean(r->engine, r->rows, r->discarded, n, now_ns());
    r->at = from + n;
    if (!input_history_kept(history, from)) start_afresh(r, afresh);
    return result;
}

/* ---- the standby thread ------------------------------------------------------------------------ */

static void standby_follow(struct failover *f)
{
    struct runner *r = &f->standby;
    while (!atomic_load_explicit(&f->end, memory_order_relaxed)) {
        if (atomic_flag_test_and_set_explicit(&f->lock, memory_order_acquire)) return; /* it is the audio thread's */
        int64_t now = input_history_end(f->history);
        bool more = r->at < now;
        if (more) runner_follow(r, f->history, now, now);
        atomic_flag_clear_explicit(&f->lock, memory_order_release);
        if (!more) return;
    }
}

static void *standby_thread(void *arg)
{
    struct failover *f = arg;
    int followed = 0;
    simd_denormals_off();
    while (!atomic_load(&f->end)) {
        priority_follow(&f->priority, &followed);
        standby_follow(f);
        while (sem_wait(&f->wake) != 0 && errno == EINTR) continue;
    }
    return NULL;
}

static void standby_stop(struct failover *f)
{
    if (!f->has_thread) return;
    atomic_store(&f->end, true);
    sem_post(&f->wake);
    pthread_join(f->thread, NULL);
    f->has_thread = false;
}

/* May a call wait for the device for ever? One that was late is asked for three blocks more: HC_LATE, it hangs. */
static int ask(struct failover *f)
{
    struct runner *r = &f->main;
    int result = HC_LATE;
    if (!atomic_load(&f->hung) && f->late_in_row == 0) return HC_OK;
    hc_wait_set(r->engine, PROBE_US);
    for (int i = 0; i < 3; i++) result = runner_repeat(r, r->silence, f->config.n_in);
    if (result != HC_LATE) atomic_store(&f->hung, false);
    return result;
}

/* ---- open and close ---------------------------------------------------------------------------- */

static _Atomic(struct failover *) abandoned; /* their devices may still come back to them */

int failover_open(const hc_config *config, struct input_history *history, double standby_share, struct failover **out,
                  char *why, size_t cap)
{
    struct failover *f = calloc(1, sizeof *f);
    *out = NULL;
    if (!f) return fail(HC_ENOMEM, why, cap, "no memory for an engine; free some");
    f->config = *config;
    f->history = history;
    f->info.size = sizeof f->info;
    f->standby_share = standby_share;
    atomic_init(&f->state, HC_LIVE_OK);
    atomic_flag_clear(&f->lock);
    sem_init(&f->wake, 0, 0);
    int error = runner_open(&f->main, config, why, cap);
    if (!error) hc_get_info(f->main.engine, &f->info);
    f->is_on_cpu = !error && strcmp(f->info.backend, "cpu") == 0;
    if (!error && standby_share > 0 && !f->is_on_cpu) {
        hc_config cpu = *config;
        cpu.backend = "cpu";
        error = runner_open(&f->standby, &cpu, why, cap);
    }
    if (error)
        failover_close(f);
    else
        *out = f;
    return error;
}

bool failover_close(struct failover *f)
{
    if (!f) return true;
    standby_stop(f);
    if (f->main.engine && ask(f) == HC_LATE) { /* hc_close would wait for its thread */
        f->abandoned = atomic_exchange(&abandoned, f);
        return false;
    }
    runner_close(&f->main);
    runner_close(&f->standby);
    sem_destroy(&f->wake);
    free(f);
    return true;
}

/* ---- masks ------------------------------------------------------------------------------------- */

/* The share of a block's time that the CPU needs for the routes, tried out on an engine of its own. */
static double try_cpu(const hc_config *wanted, const hc_route *routes, int n)
{
    hc_config config = *wanted;
    struct runner r;
    hc_mask *mask;
    double share = INFINITY;
    config.backend = "cpu";
    if (runner_open(&r, &config, NULL, 0) != HC_OK) return share;
    unsigned fp_state = simd_denormals_off();
    if (hc_mask_make(r.engine, routes, n, &mask, NULL, 0) == HC_OK) {
        float *x = (float *)r.silence;
        runner_play(&r, mask);
        for (int i = 0; i < config.block; i++) x[i] = (float)(i % 7 - 3) * 0.01f;
        runner_warm_up(&r, config.n_in);
        double block_ns = 1e9 * config.block / config.rate, spent = 0;
        int64_t start = now_ns();
        int blocks = 0;
        while (spent < TRIAL_MS * 1e6 && blocks * block_ns < TRIAL_MS * 1e6) {
            runner_repeat(&r, x, config.n_in);
            blocks++;
            spent = (double)(now_ns() - start);
        }
        share = spent / (blocks * block_ns);
    }
    simd_denormals_restore(fp_state);
    runner_close(&r);
    return share;
}

/* Both masks are made before one of them plays: a failure changes nothing. A standby engine that takes over meanwhile
 * keeps the mask that it has. */
int failover_load(struct failover *f, const hc_route *routes, int n, char *why, size_t cap)
{
    hc_mask *mask = NULL, *standby = NULL;
    double share = f->standby.engine ? try_cpu(&f->config, routes, n) : INFINITY;
    bool able = share <= f->standby_share;
    int error = hc_mask_make(f->main.engine, routes, n, &mask, why, cap);
    if (!error && able) error = hc_mask_make(f->standby.engine, routes, n, &standby, why, cap);
    if (error) {
        hc_mask_free(f->main.engine, mask);
        return error;
    }
    if (!able) atomic_store(&f->is_able, false);
    if (f->standby.engine && failover_state(f) == HC_LIVE_OK) { /* one that is not able must not keep a core busy */
        runner_play(&f->standby, standby);
        atomic_store(&f->cpu_share, (float)share);
        atomic_store(&f->is_able, able);
    }
    runner_play(&f->main, mask);
    return HC_OK;
}

/* ---- before it plays --------------------------------------------------------------------------- */

enum hc_live_state failover_state(const struct failover *f)
{
    return (enum hc_live_state)atomic_load_explicit(&f->state, memory_order_acquire);
}

void failover_set_wait(struct failover *f, int wait_us)
{
    f->has_time = wait_us == HC_WAIT_FOREVER;
    /* The CPU never hangs: with time it waits for its own threads, and two offline renders give the same samples. */
    int on_device = f->has_time ? FREEWHEEL_US : wait_us;
    if (f->standby.engine) hc_wait_set(f->standby.engine, wait_us);
    if (failover_state(f) == HC_LIVE_OK) hc_wait_set(f->main.engine, f->is_on_cpu ? wait_us : on_device);
}

bool failover_answers(struct failover *f)
{
    if (failover_state(f) == HC_LIVE_OK || !atomic_load(&f->hung)) return false; /* it plays, or is gone for good */
    return ask(f) == HC_OK;
}

/* Input that arrives during a pass is processed in the next pass. If a pass does not halve the backlog, the audio
 * thread does the rest (failover_catch_up). */
static int follow(struct failover *f)
{
    struct runner *r = &f->main;
    int result = HC_OK;
    int64_t before = INT64_MAX, end = input_history_end(f->history);
    for (; r->at < end && end - r->at <= before / 2; end = input_history_end(f->history)) {
        before = end - r->at;
        while (r->at < end && result == HC_OK)
            result = runner_follow(r, f->history, end, input_history_oldest(f->history));
    }
    return result;
}

int failover_start(struct failover *f, int64_t from, char *why, size_t cap)
{
    unsigned fp_state = simd_denormals_off();
    failover_set_wait(f, HC_WAIT_FOREVER);
    int result = runner_warm_up(&f->main, f->config.n_in);
    f->main.at = f->standby.at = from;
    if (f->standby.engine) {
        runner_warm_up(&f->standby, f->config.n_in);
        f->has_thread = pthread_create(&f->thread, NULL, standby_thread, f) == 0;
        if (!f->has_thread) runner_close(&f->standby);
    }
    if (!f->has_thread) atomic_store(&f->is_able, false);
    if (result == HC_OK) result = follow(f);
    simd_denormals_restore(fp_state);
    if (result == HC_OK) return HC_OK;
    if (result == HC_LATE) atomic_store(&f->hung, true);
    hc_get_info(f->main.engine, &f->info);
    return fail(HC_EDEVICE, why, cap, "%s: %s; use another backend", f->info.device,
                f->info.error[0] ? f->info.error : "it does not answer");
}

void failover_reset(struct failover *f)
{
    while (f->standby.engine && !f->took_over && atomic_flag_test_and_set_explicit(&f->lock, memory_order_acquire))
        sched_yield();
    if (f->standby.engine) hc_reset(f->standby.engine);
    if (failover_state(f) == HC_LIVE_OK && ask(f) != HC_LATE) hc_reset(f->main.engine);
    f->main.at = f->standby.at = input_history_end(f->history);
    if (f->standby.engine && !f->took_over) atomic_flag_clear_explicit(&f->lock, memory_order_release);
}

/* ---- audio ------------------------------------------------------------------------------------- */

bool failover_catch_up(struct failover *f, int64_t n)
{
    struct runner *r = &f->main;
    int64_t end = input_history_end(f->history), oldest = input_history_oldest(f->history);
    if (r->at < oldest) r->at = oldest; /* far too slow: it has missed something */
    for (int64_t to = end - r->at < n ? end : r->at + n; r->at < to;) runner_follow(r, f->history, to, end);
    return r->at == end;
}

static enum failover_answer silence(const struct failover *f, float *const *out, int n, enum failover_answer answer)
{
    for (int ch = 0; ch < f->config.n_out; ch++) memset(out[ch], 0, (size_t)n * sizeof(float));
    return answer;
}

/* The device is not to be used again. */
static void give_up(struct failover *f, bool hung)
{
    bool able = atomic_load_explicit(&f->is_able, memory_order_acquire);
    if (hung) atomic_store_explicit(&f->hung, true, memory_order_relaxed);
    atomic_store_explicit(&f->state, able ? HC_LIVE_STANDBY : HC_LIVE_LOST, memory_order_release);
}

/* The standby thread has the lock for at most the time of a block, unless the system took the processor away from it:
 * to wait longer would not bring it back. */
static bool standby_lock(struct failover *f)
{
    double block_ns = 1e9 * f->config.block / f->config.rate;
    int64_t until = now_ns() + (int64_t)(2 * (double)atomic_load(&f->cpu_share) * block_ns);
    while (atomic_flag_test_and_set_explicit(&f->lock, memory_order_acquire)) {
        if (!f->has_time && now_ns() > until) return false;
        if (f->has_time)
            sched_yield();
        else
            cpu_relax();
    }
    return true;
}

/* Take the standby engine from its thread, and process what it has not processed. false: not in this block. */
static bool take_over(struct failover *f)
{
    struct runner *r = &f->standby;
    int64_t now = input_history_end(f->history);
    if (f->took_over) return true;
    if (!standby_lock(f)) return false;
    double blocks =
        fmin(CATCH_UP_BLOCKS, fmax(1, 1 / (double)atomic_load(&f->cpu_share) - 1)); /* a block's time in all */
    if (!f->has_time && (double)(now - r->at) > blocks * f->config.block) {
        atomic_flag_clear_explicit(&f->lock, memory_order_release);
        return false;
    }
    while (r->at < now) runner_follow(r, f->history, now, now);
    f->took_over = true;
    return true;
}

/* One more late block: is the device hung? */
static bool is_hung(struct failover *f, int64_t now)
{
    if (f->has_time) return true;
    if (f->late_in_row++ == 0) f->late_since_ns = now;
    return f->late_in_row >= HUNG_BLOCKS && now - f->late_since_ns >= HUNG_MS * 1000000;
}

static void score(struct failover *f, bool is_late, int n)
{
    f->late_score += is_late - (double)SLOW_A_SECOND * n / f->config.rate;
    if (f->late_score < 0) f->late_score = 0;
    if (f->late_score < SLOW_SCORE) return;
    f->late_score = 0;
    atomic_store_explicit(&f->is_slow, true, memory_order_relaxed);
}

enum failover_answer failover_process(struct failover *f, const float *const *in, float *const *out, int n, int64_t now)
{
    if (failover_state(f) == HC_LIVE_OK) {
        int result = engine_process_clean(f->main.engine, in, out, n, now);
        f->main.at += n;
        if (!f->is_on_cpu) score(f, result == HC_LATE, n);
        if (result != HC_LATE) f->late_in_row = 0;
        if (result == HC_OK) return FAILOVER_PLAYED;
        enum failover_answer late = f->info.n_tail_levels > 0 ? FAILOVER_NO_TAIL : FAILOVER_LATE;
        if (result == HC_LATE && !is_hung(f, now)) return late;
        if (result == HC_LATE && f->standby_share <= 0) { /* it plays what it can until the worker has another engine */
            atomic_store_explicit(&f->hung, true, memory_order_relaxed);
            atomic_store_explicit(&f->is_slow, true, memory_order_relaxed);
            f->late_in_row = 0;
            return late;
        }
        give_up(f, result != HC_EDEVICE);
    }
    if (failover_state(f) == HC_LIVE_LOST) return silence(f, out, n, FAILOVER_SILENT);
    if (!take_over(f)) return silence(f, out, n, FAILOVER_LATE);
    engine_process_clean(f->standby.engine, in, out, n, now);
    f->standby.at += n;
    return FAILOVER_PLAYED;
}

void failover_wake(struct failover *f)
{
    if (!f->has_thread || f->took_over) return;
    priority_lead(&f->priority);
    sem_post(&f->wake);
}
