#include "failover.h"

#include "dsp/base/await.h"
#include "dsp/base/denormals.h"
#include "dsp/base/memory.h"
#include "dsp/device/backend.h"
#include "dsp/engine/engine.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    /* A device hangs if this many blocks in a row are late, during at least this time. The engine can queue 8 blocks;
     * with more its history has gaps. The system may stop a healthy thread for less than 20 ms. */
    HUNG_BLOCKS = 8,
    HUNG_MS = 20,
    PROBE_US = 100000,       /* how long to wait for a device that may answer again */
    FREEWHEEL_US = 10000000, /* how long to wait without a deadline: a device that needs longer hangs */
    WARM_UP_BLOCKS = 16,
    TRIAL_MS = 250,      /* a trial of the CPU ends after this much audio or this much time */
    TRIAL_MIX = 3,       /* entries of a source in a trial of mixes */
    CATCH_UP_BLOCKS = 4, /* a standby engine so many blocks behind can still play in the same block */
    SLOW_SCORE = 16,     /* a device is too slow after this many late blocks beyond SLOW_A_SECOND */
    SLOW_A_SECOND = 4
};

static enum takeover takeover_of(const struct failover *f)
{
    return atomic_load(&f->takeover);
}

enum hc_live_state failover_state(const struct failover *f)
{
    enum takeover takeover = takeover_of(f);
    if (takeover == TAKEOVER_NOT_NEEDED || takeover == TAKEOVER_BEGUN) return HC_LIVE_OK;
    return takeover == TAKEOVER_IMPOSSIBLE ? HC_LIVE_LOST : HC_LIVE_STANDBY;
}

bool failover_has_standby(const struct failover *f)
{
    return isfinite(atomic_load(&f->cpu_share));
}

uint64_t failover_memory(const struct failover *f)
{
    return f->info.memory * (f->standby.engine ? 2 : 1);
}

/* ---- runners ----------------------------------------------------------------------------------- */

static void runner_close(struct runner *r)
{
    hc_close(r->engine);
    free(r->discarded);
    free(r->rows);
    memory_packed_free(r->frames);
    *r = (struct runner){0};
}

static int runner_open(struct runner *r, const hc_config *config, struct reason *why)
{
    size_t n_in = (size_t)config->n_in, n_out = (size_t)config->n_out, block = (size_t)config->block;
    *r = (struct runner){.n_in = config->n_in,
                         .block = config->block,
                         .frames = memory_packed((n_out + 1) * block),
                         .rows = calloc(n_in, sizeof *r->rows),
                         .discarded = calloc(n_out, sizeof *r->discarded)};
    int error = HC_ENOMEM;
    if (!r->frames || !r->rows || !r->discarded) {
        fail(error, why, "no memory for %zu channels of %zu frames; use fewer", n_in + n_out, block);
    } else {
        for (size_t ch = 0; ch < n_out; ch++) r->discarded[ch] = r->frames + ch * block;
        r->silence = r->frames + n_out * block;
        error = hc_open(config, &r->engine, REASON_TEXT(why));
    }
    if (error) runner_close(r);
    return error;
}

/* Fades to a mask, or to silence (NULL), and frees the former mask. */
static void runner_play(struct runner *r, hc_mask *mask)
{
    hc_mask_swap(r->engine, mask);
    hc_mask_free(r->engine, r->mask);
    r->mask = mask;
}

/* Processes a block in which every channel is `row`. */
static int runner_repeat(struct runner *r, const float *row)
{
    for (int ch = 0; ch < r->n_in; ch++) r->rows[ch] = row;
    return engine_process_clean(r->engine, r->rows, r->discarded, r->block, now_ns());
}

static int runner_warm_up(struct runner *r)
{
    int result = HC_OK;
    for (int i = 0; i < WARM_UP_BLOCKS && result == HC_OK; i++) result = runner_repeat(r, r->silence);
    return result;
}

/* Processes at most a block of the history, up to frame `to`. If the audio thread has overwritten these frames
 * meanwhile, the engine continues at frame `resume`, as if the input had been silent before. */
static int runner_follow(struct runner *r, struct input_history *history, int64_t to, int64_t resume)
{
    int64_t from = r->at;
    int n = to - from < r->block ? (int)(to - from) : r->block;
    input_history_read(history, from, &n, r->rows);
    int result = engine_process_clean(r->engine, r->rows, r->discarded, n, now_ns());
    r->at = from + n;
    if (!input_history_kept(history, from)) {
        hc_reset(r->engine);
        r->at = resume;
    }
    return result;
}

/* ---- the standby thread ------------------------------------------------------------------------ */

/* By the thread that has the lock. */
static void standby_forget(struct failover *f)
{
    int64_t forgotten = atomic_load_explicit(&f->forgotten, memory_order_acquire);
    if (f->standby_forgotten == forgotten) return;
    hc_reset(f->standby.engine);
    f->standby.at = f->standby_forgotten = forgotten;
}

static void standby_follow(struct failover *f)
{
    struct runner *r = &f->standby;
    while (!atomic_load_explicit(&f->end, memory_order_relaxed)) {
        if (atomic_flag_test_and_set_explicit(&f->lock, memory_order_acquire)) return; /* the audio thread has it */
        standby_forget(f);
        int64_t now = input_history_end(f->history);
        bool more = r->at < now;
        if (more) runner_follow(r, f->history, now, now);
        atomic_flag_clear_explicit(&f->lock, memory_order_release);
        priority_rest();
        if (!more) return;
    }
}

static void *standby_thread(void *arg)
{
    struct failover *f = arg;
    struct follower follower = {0};
    denormals_off();
    while (!atomic_load(&f->end)) {
        priority_follow(&f->priority, &follower);
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

/* Lets a device that was late process three more blocks. HC_LATE: the device hangs, and a call that waits for it might
 * never return. */
static int ask_device(struct failover *f)
{
    struct runner *r = &f->main;
    int result = HC_LATE;
    if (!atomic_load(&f->is_hung) && f->late_in_row == 0) return HC_OK;
    engine_wait_set(r->engine, PROBE_US);
    for (int i = 0; i < 3; i++) result = runner_repeat(r, r->silence);
    if (result != HC_LATE) atomic_store(&f->is_hung, false);
    return result;
}

/* ---- open and close ---------------------------------------------------------------------------- */

int failover_open(const hc_config *config, struct input_history *history, struct positions *positions,
                  double standby_share, struct failover **out, struct reason *why)
{
    struct failover *f = calloc(1, sizeof *f);
    *out = NULL;
    if (!f) return fail(HC_ENOMEM, why, "no memory for an engine; free some memory");
    f->config = *config;
    f->history = history;
    f->info.size = sizeof f->info;
    f->standby_share = standby_share;
    atomic_init(&f->cpu_share, INFINITY);
    atomic_init(&f->takeover, TAKEOVER_NOT_NEEDED);
    atomic_flag_clear(&f->lock);
    sem_init(&f->wake, 0, 0);
    int error = steered_open(&f->steered, config, positions)
                    ? runner_open(&f->main, config, why)
                    : fail(HC_ENOMEM, why, "no memory for an engine; free some memory");
    if (!error) hc_get_info(f->main.engine, &f->info);
    f->is_on_cpu = !error && strcmp(f->info.backend, "cpu") == 0;
    if (!error && standby_share > 0 && !f->is_on_cpu) {
        hc_config cpu = *config;
        cpu.backend = "cpu";
        error = runner_open(&f->standby, &cpu, why);
    }
    if (error)
        failover_close(f);
    else
        *out = f;
    return error;
}

/* Frees what the engines used. */
static void failover_free(void *failover)
{
    struct failover *f = failover;
    runner_close(&f->main);
    steered_close(&f->steered); /* close it after the engines, which play its banks */
    sem_destroy(&f->wake);
    free(f);
}

bool failover_close(struct failover *f)
{
    if (!f) return true;
    standby_stop(f);
    runner_close(&f->standby);
    hc_engine *main = f->main.engine;
    int wait_us = main && ask_device(f) == HC_LATE ? 0 : FREEWHEEL_US;
    f->main.engine = NULL;
    return engine_close(main, wait_us, failover_free, f);
}

/* ---- masks ------------------------------------------------------------------------------------- */

/* Steers every source to other entries, the most expensive case of a block. A mix usually has three entries. */
static void trial_steer(struct runner *r, const struct engine_banks *banks, bool mixes, int block)
{
    for (int s = 0; s < banks->set->n_sources; s++) {
        int bank = banks->set->sources[s].bank, n_entries = banks->set->banks[bank].n_entries;
        int n = !mixes ? 1 : n_entries < TRIAL_MIX ? n_entries : TRIAL_MIX, entries[TRIAL_MIX];
        for (int i = 0; i < n; i++) entries[i] = (block * n + s + i) % n_entries;
        hc_steer(r->engine, s, banks->standby[bank], entries, NULL, n);
    }
}

/* Measures, on a separate engine, which share of a block's time the CPU needs for the routes and banks of a standby
 * engine. INFINITY: the CPU cannot play them. */
static double measure_cpu_share(const hc_config *wanted, const hc_route *routes, int n,
                                const struct engine_banks *banks, bool mixes)
{
    hc_config config = *wanted;
    struct runner r;
    hc_mask *mask = NULL;
    double share = INFINITY;
    config.backend = "cpu";
    if (runner_open(&r, &config, NULL) != HC_OK) return share;
    unsigned fp_state = denormals_off();
    if (n == 0 || hc_mask_make(r.engine, routes, sizeof *routes, n, &mask, NULL, 0) == HC_OK) {
        float *x = (float *)r.silence;
        runner_play(&r, mask);
        for (int i = 0; i < config.block; i++) x[i] = (float)(i % 7 - 3) * 0.01f;
        runner_warm_up(&r);
        double block_ns = 1e9 * config.block / config.rate, spent = 0;
        int64_t start = now_ns();
        int blocks = 0;
        while (spent < TRIAL_MS * 1e6 && blocks * block_ns < TRIAL_MS * 1e6) {
            if (banks) trial_steer(&r, banks, mixes, blocks);
            runner_repeat(&r, x);
            blocks++;
            spent = (double)(now_ns() - start);
        }
        share = spent / (blocks * block_ns);
    }
    denormals_restore(fp_state);
    runner_close(&r);
    return share;
}

/* Makes the banks for both engines, and measures the CPU's share: INFINITY if the standby engine cannot have the banks.
 * The standby engine keeps its banks if the share is small enough. */
static int load_banks(struct failover *f, const hc_route *routes, int n, struct bank_set *set,
                      struct engine_banks **banks, double *share, struct reason *why)
{
    int error = set ? engine_banks_make(set, f->main.engine, banks, why) : HC_OK;
    if (error || !f->standby.engine) return error;
    if (*banks && engine_banks_make_standby(*banks, f->standby.engine, NULL) != HC_OK) return HC_OK;
    *share = measure_cpu_share(&f->config, routes, n, *banks, *banks && f->steered.positions->mixes);
    if (*banks && !(*share <= f->standby_share)) engine_banks_free_standby(*banks);
    return HC_OK;
}

/* Makes all masks and banks before one of them plays: a failure changes nothing. A standby engine that begins to play
 * meanwhile keeps its mask and banks. */
int failover_load(struct failover *f, const hc_route *routes, int n, struct bank_set *set, struct reason *why)
{
    hc_mask *mask = NULL, *standby = NULL;
    struct engine_banks *banks = NULL;
    double share = INFINITY;
    failover_sweep(f);
    int error = load_banks(f, routes, n, set, &banks, &share, why);
    bool suffices = isfinite(share) && share <= f->standby_share;
    if (!error && n > 0) error = hc_mask_make(f->main.engine, routes, sizeof *routes, n, &mask, REASON_TEXT(why));
    if (!error && n > 0 && suffices)
        error = hc_mask_make(f->standby.engine, routes, sizeof *routes, n, &standby, REASON_TEXT(why));
    if (error) {
        hc_mask_free(f->main.engine, mask);
        engine_banks_free(banks);
        return error;
    }
    if (!suffices) atomic_store(&f->cpu_share, INFINITY);
    bool is_taken_over = takeover_of(f) != TAKEOVER_NOT_NEEDED;
    if (f->standby.engine && !is_taken_over) {
        runner_play(&f->standby, standby); /* NULL if the CPU is too slow: silence saves the core's time */
        if (suffices) atomic_store(&f->cpu_share, (float)share);
    }
    runner_play(&f->main, mask);
    if (is_taken_over) {
        hc_mask_free(f->standby.engine, standby);
        engine_banks_free(banks);
    } else if (banks) {
        steered_load(&f->steered, banks);
    }
    return HC_OK;
}

void failover_sweep(struct failover *f)
{
    steered_sweep(&f->steered);
}

/* Moves the sources of the main engine; n = 0 and now_us = 0: the engine is not active. After a takeover the worker may
 * play the main engine (ask_device), and only the standby engine's sources move. */
static void move_main(struct failover *f, int n, int64_t now_us)
{
    hc_engine *main = takeover_of(f) == TAKEOVER_NOT_NEEDED ? f->main.engine : NULL;
    if (f->steered.n_sources > 0) steered_move(&f->steered, main, n, now_us);
}

static void move_standby(struct failover *f)
{
    if (f->steered.n_sources > 0) steered_move_standby(&f->steered, f->standby.engine);
}

/* ---- before it plays --------------------------------------------------------------------------- */

void failover_set_wait(struct failover *f, int wait_us)
{
    f->has_no_deadline = wait_us == HC_WAIT_FOREVER;
    /* An engine on the CPU has no deadline: it never hangs. It waits for its threads, so that renders are equal. */
    int device_us = f->has_no_deadline ? FREEWHEEL_US : wait_us;
    if (f->standby.engine) engine_wait_set(f->standby.engine, wait_us);
    if (takeover_of(f) == TAKEOVER_NOT_NEEDED) engine_wait_set(f->main.engine, f->is_on_cpu ? wait_us : device_us);
}

bool failover_device_answers(struct failover *f)
{
    if (takeover_of(f) == TAKEOVER_NOT_NEEDED || !atomic_load(&f->is_hung))
        return false; /* the device is not hung: it plays, or it is lost */
    return ask_device(f) == HC_OK;
}

/* Each pass processes the input that arrived during the pass before. Stops when a pass does not halve the backlog:
 * the audio thread processes the rest (failover_catch_up). */
static int follow_history(struct failover *f)
{
    struct runner *r = &f->main;
    int result = HC_OK;
    int64_t before = INT64_MAX, end = input_history_end(f->history);
    for (; r->at < end && end - r->at <= before / 2; end = input_history_end(f->history)) {
        before = end - r->at;
        move_main(f, 0, 0);
        while (r->at < end && result == HC_OK)
            result = runner_follow(r, f->history, end, input_history_oldest(f->history));
    }
    return result;
}

int failover_start(struct failover *f, int64_t from, struct reason *why)
{
    unsigned fp_state = denormals_off();
    failover_set_wait(f, HC_WAIT_FOREVER);
    move_main(f, 0, 0); /* move before the first block, so that no source fades */
    move_standby(f);
    int result = runner_warm_up(&f->main);
    f->main.at = f->standby.at = from;
    if (f->standby.engine) {
        runner_warm_up(&f->standby);
        f->has_thread = pthread_create(&f->thread, NULL, standby_thread, f) == 0;
        if (!f->has_thread) runner_close(&f->standby);
    }
    if (!f->has_thread) atomic_store(&f->cpu_share, INFINITY);
    if (result == HC_OK) result = follow_history(f);
    denormals_restore(fp_state);
    if (result == HC_OK) return HC_OK;
    if (result == HC_LATE) atomic_store(&f->is_hung, true);
    hc_get_info(f->main.engine, &f->info);
    return fail(HC_EDEVICE, why, "%s: %s; use another backend", f->info.device,
                f->info.error[0] ? f->info.error : "the device does not answer");
}

bool failover_follow(struct failover *f)
{
    struct runner *r = &f->main;
    int64_t end = input_history_end(f->history), oldest = input_history_oldest(f->history);
    if (atomic_load(&f->cannot_follow) || r->at >= end) return false;
    if (!f->has_no_deadline) failover_set_wait(f, HC_WAIT_FOREVER);
    if (r->at < oldest) r->at = oldest;
    move_main(f, 0, 0);
    if (runner_follow(r, f->history, end, end) != HC_OK) atomic_store(&f->cannot_follow, true);
    failover_wake(f);
    return r->at < end;
}

void failover_forget(struct failover *f, int64_t from)
{
    atomic_store_explicit(&f->forgotten, from, memory_order_release);
    steered_reset(&f->steered);
    if (takeover_of(f) != TAKEOVER_NOT_NEEDED) return;
    if (f->late_in_row == 0 && engine_await_all(f->main.engine)) hc_reset(f->main.engine);
    f->main.at = from;
}

void failover_reset(struct failover *f)
{
    bool locks =
        f->standby.engine && takeover_of(f) != TAKEOVER_DONE; /* after a takeover the audio thread has the lock */
    while (locks && atomic_flag_test_and_set_explicit(&f->lock, memory_order_acquire)) sched_yield();
    if (f->standby.engine) hc_reset(f->standby.engine);
    if (takeover_of(f) == TAKEOVER_NOT_NEEDED && ask_device(f) != HC_LATE) hc_reset(f->main.engine);
    f->main.at = f->standby.at = input_history_end(f->history);
    f->standby_forgotten = atomic_load(&f->forgotten);
    steered_reset(&f->steered);
    if (locks) atomic_flag_clear_explicit(&f->lock, memory_order_release);
}

/* ---- audio ------------------------------------------------------------------------------------- */

bool failover_catch_up(struct failover *f, int64_t n)
{
    struct runner *r = &f->main;
    int64_t end = input_history_end(f->history), oldest = input_history_oldest(f->history);
    if (r->at < oldest) r->at = oldest; /* the engine was too slow: older frames are overwritten */
    move_main(f, 0, 0);
    for (int64_t to = end - r->at < n ? end : r->at + n; r->at < to;) runner_follow(r, f->history, to, end);
    return r->at == end;
}

void failover_silence(float *const *out, int n_out, int n)
{
    for (int ch = 0; ch < n_out; ch++) memset(out[ch], 0, (size_t)n * sizeof(float));
}

/* The standby thread holds the lock for at most the time of a block, unless the system stops that thread: a longer wait
 * would not help then. */
static bool standby_lock(struct failover *f, double share)
{
    double block_ns = 1e9 * f->config.block / f->config.rate;
    int64_t until = now_ns() + (int64_t)(2 * share * block_ns);
    while (atomic_flag_test_and_set_explicit(&f->lock, memory_order_acquire)) {
        if (!f->has_no_deadline && now_ns() > until) return false;
        if (f->has_no_deadline)
            sched_yield();
        else
            cpu_relax();
    }
    return true;
}

/* Acquires the standby engine from its thread and processes the rest of the history. false: this would need more time
 * than a block has. */
static bool standby_acquire(struct failover *f)
{
    struct runner *r = &f->standby;
    int64_t now = input_history_end(f->history);
    double share = fmin((double)atomic_load(&f->cpu_share), f->standby_share);
    if (!standby_lock(f, share)) return false;
    standby_forget(f);
    /* Blocks that can be caught up in the time of one block, beside the block that is due. */
    double blocks = fmin(CATCH_UP_BLOCKS, fmax(1, 1 / share - 1));
    if (!f->has_no_deadline && (double)(now - r->at) > blocks * f->config.block) {
        atomic_flag_clear_explicit(&f->lock, memory_order_release);
        return false;
    }
    while (r->at < now) runner_follow(r, f->history, now, now);
    return true;
}

static void lateness_score(struct failover *f, bool is_late, int n)
{
    f->late_score += is_late - (double)SLOW_A_SECOND * n / f->config.rate;
    if (f->late_score < 0) f->late_score = 0;
    if (f->late_score < SLOW_SCORE) return;
    f->late_score = 0;
    atomic_store_explicit(&f->is_slow, true, memory_order_relaxed);
}

/* Counts a late block. Returns true if the device hangs. */
static bool main_device_hangs(struct failover *f, int64_t now)
{
    if (f->has_no_deadline) return true;
    if (f->late_in_row++ == 0) f->late_since_ns = now;
    return f->late_in_row >= HUNG_BLOCKS && now - f->late_since_ns >= HUNG_MS * 1000000;
}

/* Processes a block by the main engine. false: the device is lost, or hangs while a standby engine is wanted. */
static bool play_main(struct failover *f, const float *const *in, float *const *out, int n, int64_t now,
                      enum failover_result *result)
{
    int code = engine_process_clean(f->main.engine, in, out, n, now);
    f->main.at += n;
    if (!f->is_on_cpu) lateness_score(f, code == HC_LATE, n);
    if (code != HC_LATE) {
        f->late_in_row = 0;
        *result = FAILOVER_PLAYED;
        return code == HC_OK;
    }
    *result = f->info.n_device_levels > 0 && strcmp(f->info.backend, "hybrid") == 0 ? FAILOVER_NO_TAIL : FAILOVER_LATE;
    if (!main_device_hangs(f, now)) return true;
    atomic_store_explicit(&f->is_hung, true, memory_order_relaxed);
    if (f->standby_share > 0) return false;
    atomic_store_explicit(&f->is_slow, true, memory_order_relaxed); /* the engine plays until the worker replaces it */
    f->late_in_row = 0;
    return true;
}

/* Begins or continues a takeover; only this function changes `takeover`. */
enum failover_result failover_process(struct failover *f, const float *const *in, float *const *out, int n, int64_t now)
{
    enum failover_result result;
    enum takeover takeover = takeover_of(f);
    move_main(f, n, f->has_no_deadline ? 0 : now / 1000);
    if (takeover == TAKEOVER_NOT_NEEDED) {
        if (play_main(f, in, out, n, now, &result)) return result;
        /* failover_load stores `cpu_share` and then reads `takeover`: one of the two threads sees the other's store. */
        atomic_store(&f->takeover, TAKEOVER_BEGUN);
        takeover = failover_has_standby(f) ? TAKEOVER_PENDING : TAKEOVER_IMPOSSIBLE;
    }
    if (takeover == TAKEOVER_PENDING && standby_acquire(f)) takeover = TAKEOVER_DONE;
    atomic_store_explicit(&f->takeover, takeover, memory_order_release);
    if (takeover != TAKEOVER_DONE) {
        failover_silence(out, f->config.n_out, n);
        return takeover == TAKEOVER_PENDING ? FAILOVER_LATE : FAILOVER_SILENT;
    }
    standby_forget(f);
    move_standby(f); /* move it after the backlog, in which the main engine did not move sources, either */
    engine_process_clean(f->standby.engine, in, out, n, now);
    f->standby.at += n;
    return FAILOVER_PLAYED;
}

void failover_wake(struct failover *f)
{
    if (!f->has_thread || takeover_of(f) == TAKEOVER_DONE) return;
    move_standby(f); /* move it after the main engine's block, which the standby engine plays later */
    priority_lead(&f->priority);
    sem_post(&f->wake);
}
