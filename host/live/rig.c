#include "rig.h"

#include "host/message.h"
#include "realtime.h"
#include "host/stopwatch.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    HUNG_BLOCKS = 8,        /* late in a row: as many as the engine can queue, after that its history has holes */
    HUNG_MS = 20,           /* for which they were late: less can be the system's doing */
    PROBE_US = 100000,      /* that a device which answers again may need for a block */
    NO_HURRY_US = 10000000, /* beside the audio: a device that needs longer is hung */
    WARM_BLOCKS = 16,
    FOLLOW_S = 5,       /* for the history of a minute at ten times real time; less is not live any more */
    TRIAL_MS = 250,     /* of audio that the CPU is tried with, and of time that this may take */
    CATCH_UP_BLOCKS = 4 /* that an understudy may be behind and still play in the same block */
};

/* ---- ears -------------------------------------------------------------------------------------- */

static void ear_close(struct ear *ear)
{
    hc_close(ear->engine);
    free(ear->heard);
    free(ear->frames);
    *ear = (struct ear){0};
}

static bool ear_open(struct ear *ear, const hc_config *config, char *why, size_t cap)
{
    size_t rows = (size_t)config->n_in + (size_t)config->n_out, block = (size_t)config->block;
    *ear =
        (struct ear){.frames = malloc(rows * block * sizeof *ear->frames), .heard = calloc(rows, sizeof *ear->heard)};
    if (!ear->frames || !ear->heard) {
        message_write(why, cap, "%zu channels of %zu frames: no memory; lower them", rows, block);
    } else {
        memset(ear->frames, 0, rows * block * sizeof *ear->frames); /* the audio thread must not touch a page first */
        for (size_t ch = 0; ch < rows; ch++) ear->heard[ch] = ear->frames + ch * block;
        ear->unheard = ear->heard + config->n_in;
        if (hc_open(config, &ear->engine, why, cap) == HC_OK) return true;
        ear->engine = NULL;
    }
    ear_close(ear);
    return false;
}

static bool ear_load(struct ear *ear, const hc_route *routes, int n, char *why, size_t cap)
{
    hc_mask *mask;
    if (hc_mask_make(ear->engine, routes, n, &mask, why, cap) != HC_OK) return false;
    hc_mask_swap(ear->engine, mask);
    hc_mask_free(ear->engine, ear->mask);
    ear->mask = mask;
    return true;
}

static void ear_warm(struct ear *ear, int block)
{
    const float *const *silence = (const float *const *)ear->heard; /* nothing was read into it yet */
    for (int i = 0; i < WARM_BLOCKS; i++) hc_process(ear->engine, silence, ear->unheard, block);
}

/* The next frames of the tape, up to `to`. false: they are gone. */
static bool ear_hear(struct ear *ear, struct tape *tape, int block, int64_t to)
{
    int n = to - ear->at < block ? (int)(to - ear->at) : block;
    if (!tape_read(tape, ear->at, n, ear->heard)) return false;
    hc_process(ear->engine, (const float *const *)ear->heard, ear->unheard, n);
    ear->at += n;
    return true;
}

/* Without history, from now on: better than never. */
static void ear_start_afresh(struct ear *ear, int64_t now)
{
    hc_reset(ear->engine);
    ear->at = now;
}

/* ---- the understudy's thread ------------------------------------------------------------------- */

static void shadow_play(struct rig *rig)
{
    struct ear *ear = &rig->understudy;
    while (!atomic_load_explicit(&rig->shadow_end, memory_order_relaxed)) {
        if (atomic_flag_test_and_set_explicit(&rig->baton, memory_order_acquire)) return; /* it is the audio thread's */
        int64_t now = tape_pos(rig->tape);
        bool more = ear->at < now;
        if (more && !ear_hear(ear, rig->tape, rig->config.block, now)) ear_start_afresh(ear, now);
        atomic_flag_clear_explicit(&rig->baton, memory_order_release);
        if (!more) return;
    }
}

static void *shadow(void *arg)
{
    struct rig *rig = arg;
    realtime_denormals_off();
    while (!atomic_load(&rig->shadow_end)) {
        shadow_play(rig);
        while (sem_wait(&rig->wake) != 0 && errno == EINTR) continue;
    }
    return NULL;
}

static void stop_shadow(struct rig *rig)
{
    if (!rig->has_shadow) return;
    atomic_store(&rig->shadow_end, true);
    sem_post(&rig->wake);
    pthread_join(rig->shadow, NULL);
    rig->has_shadow = false;
}

/* ---- open and close ---------------------------------------------------------------------------- */

static struct rig *abandoned; /* their workers may still come back to them */

struct rig *rig_open(const hc_config *config, struct tape *tape, double most_cpu_share, char *why, size_t cap)
{
    struct rig *rig = calloc(1, sizeof *rig);
    if (!rig) return (void)message_write(why, cap, "no memory for an engine; free some"), NULL;
    rig->config = *config;
    rig->tape = tape;
    rig->most_cpu_share = most_cpu_share;
    atomic_init(&rig->state, RIG_WELL);
    atomic_flag_clear(&rig->baton);
    sem_init(&rig->wake, 0, 0);
    bool good = ear_open(&rig->main, config, why, cap);
    rig->info.size = sizeof rig->info;
    if (good) hc_get_info(rig->main.engine, &rig->info);
    rig->is_on_cpu = good && strcmp(rig->info.backend, "cpu") == 0;
    if (good && most_cpu_share > 0 && !rig->is_on_cpu) {
        hc_config cpu = *config;
        cpu.backend = "cpu";
        good = ear_open(&rig->understudy, &cpu, why, cap);
    }
    if (good) return rig;
    rig_close(rig);
    return NULL;
}

bool rig_close(struct rig *rig)
{
    if (!rig) return true;
    stop_shadow(rig);
    if (atomic_load(&rig->hung)) {
        rig->abandoned = abandoned;
        abandoned = rig;
        return false;
    }
    ear_close(&rig->main);
    ear_close(&rig->understudy);
    sem_destroy(&rig->wake);
    free(rig);
    return true;
}

/* ---- masks ------------------------------------------------------------------------------------- */

/* The share of a block's time that the CPU needs for the routes, tried out on an engine of its own. */
static double try_cpu(const hc_config *wanted, const hc_route *routes, int n)
{
    hc_config config = *wanted;
    struct ear ear;
    double share = INFINITY;
    char why[1];
    config.backend = "cpu";
    if (!ear_open(&ear, &config, why, sizeof why)) return share;
    if (ear_load(&ear, routes, n, why, sizeof why)) {
        for (int i = 0; i < config.n_in * config.block; i++) ear.frames[i] = (float)(i % 7 - 3) * 0.01f;
        ear_warm(&ear, config.block);
        double block_s = (double)config.block / config.rate, start = stopwatch_now(), spent = 0;
        int blocks = 0;
        while (spent < TRIAL_MS * 1e-3 && blocks * block_s < TRIAL_MS * 1e-3) {
            hc_process(ear.engine, (const float *const *)ear.heard, ear.unheard, config.block);
            blocks++;
            spent = stopwatch_now() - start;
        }
        share = spent / (blocks * block_s);
    }
    ear_close(&ear);
    return share;
}

static bool load_understudy(struct rig *rig, const hc_route *routes, int n, char *why, size_t cap)
{
    bool able = try_cpu(&rig->config, routes, n) < rig->most_cpu_share;
    if (able && !ear_load(&rig->understudy, routes, n, why, cap)) return false;
    if (!able) { /* it must not keep a core busy with a mask that nobody will hear */
        hc_mask_swap(rig->understudy.engine, NULL);
        hc_mask_free(rig->understudy.engine, rig->understudy.mask);
        rig->understudy.mask = NULL;
    }
    atomic_store(&rig->is_able, able);
    return true;
}

bool rig_load(struct rig *rig, const hc_route *routes, int n, char *why, size_t cap)
{
    if (rig->understudy.engine && !load_understudy(rig, routes, n, why, cap)) return false;
    return ear_load(&rig->main, routes, n, why, cap);
}

/* ---- history ----------------------------------------------------------------------------------- */

enum rig_state rig_state(const struct rig *rig)
{
    return (enum rig_state)atomic_load_explicit(&rig->state, memory_order_acquire);
}

void rig_wait(struct rig *rig, int wait_us)
{
    rig->has_time = wait_us >= NO_HURRY_US;
    /* The CPU never hangs: with time it waits for its own threads, and two bounces are the same. */
    int on_cpu = rig->has_time ? -1 : wait_us;
    if (rig->understudy.engine) hc_wait_set(rig->understudy.engine, on_cpu);
    if (rig_state(rig) == RIG_WELL) hc_wait_set(rig->main.engine, rig->is_on_cpu ? on_cpu : wait_us);
}

bool rig_answers(struct rig *rig)
{
    struct ear *ear = &rig->main;
    int result = HC_LATE;
    if (rig_state(rig) == RIG_WELL || !atomic_load(&rig->hung)) return false; /* it plays, or is gone for good */
    hc_wait_set(ear->engine, PROBE_US);
    for (int i = 0; i < 3; i++)
        result = hc_process(ear->engine, (const float *const *)ear->heard, ear->unheard, rig->config.block);
    if (result == HC_LATE) return false;
    atomic_store(&rig->hung, false);
    return result == HC_OK;
}

void rig_warm(struct rig *rig)
{
    rig_wait(rig, NO_HURRY_US);
    ear_warm(&rig->main, rig->config.block);
    if (rig->understudy.engine) ear_warm(&rig->understudy, rig->config.block);
}

void rig_follow_on(struct rig *rig)
{
    struct ear *ear = &rig->main;
    double give_up = stopwatch_now() + FOLLOW_S;
    rig_wait(rig, NO_HURRY_US);
    /* What was played meanwhile is missing again, a little less each time. */
    for (int64_t now = tape_pos(rig->tape); ear->at < now; now = tape_pos(rig->tape))
        if (stopwatch_now() > give_up || !ear_hear(ear, rig->tape, rig->config.block, now)) ear_start_afresh(ear, now);
}

void rig_follow(struct rig *rig, int64_t from)
{
    rig->main.at = rig->understudy.at = from;
    if (rig->understudy.engine) rig->has_shadow = pthread_create(&rig->shadow, NULL, shadow, rig) == 0;
    if (!rig->has_shadow) atomic_store(&rig->is_able, false);
    rig_follow_on(rig);
}

int64_t rig_missing(const struct rig *rig)
{
    return tape_pos(rig->tape) - rig->main.at;
}

void rig_catch_up(struct rig *rig)
{
    int64_t now = tape_pos(rig->tape);
    while (rig->main.at < now && ear_hear(&rig->main, rig->tape, rig->config.block, now)) continue;
    rig->main.at = now;
}

/* ---- audio ------------------------------------------------------------------------------------- */

static enum rig_answer silence(const struct rig *rig, float *const *out, int n, enum rig_answer answer)
{
    for (int ch = 0; ch < rig->config.n_out; ch++) memset(out[ch], 0, (size_t)n * sizeof(float));
    return answer;
}

/* The device is not to be used again. */
static void give_up(struct rig *rig, bool hung)
{
    bool able = atomic_load_explicit(&rig->is_able, memory_order_acquire);
    if (hung) atomic_store_explicit(&rig->hung, true, memory_order_relaxed);
    atomic_store_explicit(&rig->state, able ? RIG_UNDERSTUDY : RIG_GONE, memory_order_release);
}

/* Take the understudy from its thread, and hear what it has not heard. false: not in this block. */
static bool take_over(struct rig *rig)
{
    struct ear *ear = &rig->understudy;
    int64_t now = tape_pos(rig->tape);
    if (rig->took_over) return true;
    /* Its thread has it for part of a block at most, unless the system took the processor away from it. */
    double give_up_at = stopwatch_now() + 0.5 * rig->config.block / rig->config.rate;
    while (atomic_flag_test_and_set_explicit(&rig->baton, memory_order_acquire))
        if (!rig->has_time && stopwatch_now() > give_up_at) return false;
    if (!rig->has_time && now - ear->at > CATCH_UP_BLOCKS * (int64_t)rig->config.block) {
        atomic_flag_clear_explicit(&rig->baton, memory_order_release);
        return false;
    }
    while (ear->at < now)
        if (!ear_hear(ear, rig->tape, rig->config.block, now)) ear->at = now;
    rig->took_over = true;
    return true;
}

/* One more late block; were there too many? */
static bool is_hung(struct rig *rig)
{
    int64_t now = (int64_t)(stopwatch_now() * 1e6);
    if (rig->late_in_row++ == 0) rig->late_us = now;
    return rig->late_in_row >= HUNG_BLOCKS && now - rig->late_us >= HUNG_MS * 1000;
}

enum rig_answer rig_process(struct rig *rig, const float *const *in, float *const *out, int n)
{
    if (rig_state(rig) == RIG_WELL) {
        int result = hc_process(rig->main.engine, in, out, n);
        rig->main.at += n;
        if (result != HC_LATE) rig->late_in_row = 0;
        if (result == HC_OK) return RIG_PLAYED;
        if (result == HC_LATE && !is_hung(rig)) return RIG_LATE;
        give_up(rig, result != HC_EDEVICE);
    }
    if (rig_state(rig) == RIG_GONE) return silence(rig, out, n, RIG_SILENT);
    if (!take_over(rig)) return silence(rig, out, n, RIG_LATE);
    hc_process(rig->understudy.engine, in, out, n);
    rig->understudy.at += n;
    return RIG_PLAYED;
}

void rig_heard(struct rig *rig)
{
    if (rig->has_shadow && !rig->took_over) sem_post(&rig->wake);
}
