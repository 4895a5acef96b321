/* A live session without a server: masks, periods and devices change while the test plays and checks every block.
 * Backend "cuda" is faulty_device.c here, which fails when the test says so. */
#include "check.h"
#include "dsp/engine/closing.h"
#include "dsp/live/histogram.h"
#include "dsp/live/live.h"
#include "faulty_device.h" /* replaces "cuda" */
#include "host/live/session/session.h"
#include "host/message.h"
#include "host/stopwatch.h"
#include "reference.h"
#include "trap.h"

#include <float.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CHANNELS = 2, FADE_IN = 1000 }; /* frames of the fade at the start, 20 ms and a little */

static char folder[64];

/* A mask file of two channels of noise; taps[ch] gets what the file says. */
static const char *mask_file(const char *name, int n_taps, uint64_t seed, float *taps[CHANNELS])
{
    static char path[128];
    struct random r = random_seeded(seed);
    snprintf(path, sizeof path, "%s/%s.txt", folder, name);
    for (int ch = 0; ch < CHANNELS; ch++) {
        taps[ch] = noise(&r, n_taps);
        for (int k = 0; k < n_taps; k++) taps[ch][k] /= (float)n_taps;
    }
    FILE *file = fopen(path, "w");
    check(file != NULL, "%s cannot be written", path);
    for (int k = 0; k < n_taps; k++) fprintf(file, "%.9g %.9g\n", (double)taps[0][k], (double)taps[1][k]);
    check(fclose(file) == 0, "%s cannot be written", path);
    return path;
}

struct stage {
    struct session *session;
    long cap, pos;
    float *in[CHANNELS], *out[CHANNELS];
    int n_taps;
    float *taps[CHANNELS];
};

static struct session_settings usual(const char *backend)
{
    struct session_settings settings = {.wet = 1, .gain = 1};
    hc_live_config_init(&settings.live);
    settings.live.backend = backend;
    settings.live.wait_us = 10000000;
    settings.live.fade_ms = 5;
    settings.live.standby_share = 1e9;
    return settings;
}

static void stage_open(struct stage *stage, const struct session_settings *settings, int n_taps, int block, long cap)
{
    char why[400] = "";
    struct random r = random_seeded(7);
    *stage = (struct stage){.cap = cap, .n_taps = n_taps};
    const char *path = mask_file("first", n_taps, 1, stage->taps);
    for (int ch = 0; ch < CHANNELS; ch++) {
        stage->in[ch] = noise(&r, (int)cap);
        stage->out[ch] = must_alloc((size_t)cap, sizeof(float));
        memset(stage->out[ch], 0, (size_t)cap * sizeof(float)); /* now resident, for sessions_last */
    }
    hc_responses mask;
    check(session_load(settings, path, 48000, &mask, why, sizeof why), "%s", why);
    check(mask.n_in == CHANNELS && mask.n_out == CHANNELS, "%d in, %d out", mask.n_in, mask.n_out);
    stage->session = session_open(settings, path, &mask, 48000, block, why, sizeof why);
    check(stage->session, "%s", why);
}

/* The first engine's device fails as HC_FAULT says; later ones do not. */
static void stage_open_faulty(struct stage *stage, const struct session_settings *settings, const char *fault)
{
    setenv("HC_FAULT", fault, 1);
    stage_open(stage, settings, 5000, 64, 2000000);
    unsetenv("HC_FAULT");
}

static bool stage_close(struct stage *stage)
{
    bool clean = session_close(stage->session);
    for (int ch = 0; ch < CHANNELS; ch++) {
        free(stage->in[ch]);
        free(stage->out[ch]);
        free(stage->taps[ch]);
    }
    return clean;
}

static void stage_call(struct stage *stage, int n)
{
    const float *in[CHANNELS];
    float *out[CHANNELS];
    check(stage->pos + n <= stage->cap, "the stage is too short: %ld + %d frames", stage->pos, n);
    for (int ch = 0; ch < CHANNELS; ch++) {
        in[ch] = stage->in[ch] + stage->pos;
        out[ch] = stage->out[ch] + stage->pos;
    }
    hc_live_process(session_live(stage->session), in, out, n);
    stage->pos += n;
}

static void stage_play(struct stage *stage, long n_frames, int n)
{
    for (long end = stage->pos + n_frames; stage->pos < end;)
        stage_call(stage, end - stage->pos < n ? (int)(end - stage->pos) : n);
}

/* With pauses between the blocks, as in live audio: the standby engine processes them in a thread of its own. */
static void stage_play_paced(struct stage *stage, int n_blocks, int n)
{
    for (int i = 0; i < n_blocks; i++) {
        stage_call(stage, n);
        pause_us(500);
    }
}

/* Play on until the loader has applied every request. */
static void stage_settle(struct stage *stage, int n)
{
    do {
        session_tend(stage->session);
        stage_call(stage, n);
        pause_us(SANITIZED ? n * 210 : n * 42); /* slower than real time: the loader of a busy machine keeps up */
    } while (!session_is_settled(stage->session));
}

/* Frames first...last - 1 are the taps on the whole past; a sample of them, and the edges. */
static void stage_check(const struct stage *stage, float *const taps[CHANNELS], int n_taps, long first, long last)
{
    double peak = 0;
    struct random r = random_seeded(3);
    for (int ch = 0; ch < CHANNELS; ch++)
        for (long i = first; i < last; i++) peak = fmax(peak, fabs((double)stage->out[ch][i]));
    check(last > first && peak > 0, "there was silence from frame %ld to %ld", first, last);
    for (int i = 0; i < 3000; i++) {
        int ch = i % CHANNELS;
        long frame = i < 600    ? first + i / CHANNELS
                     : i < 1200 ? last - 1 - (i - 600) / CHANNELS
                                : random_int(&r, (int)first, (int)last - 1);
        if (frame < first || frame >= last) continue;
        double want = reference_sum(taps[ch], n_taps, stage->in[ch], stage->cap, frame);
        double got = (double)stage->out[ch][frame];
        check(fabs(got - want) <= 1e-6 * peak, "channel %d, frame %ld of %ld to %ld: got %.9g, want %.9g, peak %.3g",
              ch, frame, first, last, got, want, peak);
    }
}

static struct session_status status_of(const struct stage *stage)
{
    struct session_status status;
    session_get_status(stage->session, &status);
    return status;
}

/* Blocks that a device did not convolve. */
static uint64_t late_of(const struct stage *stage)
{
    struct session_status status = status_of(stage);
    return status.stats.late + status.stats.lost;
}

static void check_plays(const struct stage *stage, int state, const char *backend)
{
    struct session_status status = status_of(stage);
    check((int)status.stats.state == state && strcmp(status.info.backend, backend) == 0,
          "state %d on %s, want %d on %s", (int)status.stats.state, status.info.backend, state, backend);
}

/* ---- convolution ------------------------------------------------------------------------------- */

static const char *const backends[] = {"cpu", "cuda", "hybrid"};
enum { N_BACKENDS = 3 };

static void any_count_of_frames_is_played(const char *backend)
{
    for (int b = 0; b < N_BACKENDS; b++) {
        struct session_settings settings = usual(backends[b]);
        struct stage stage;
        struct random r = random_seeded(5);
        stage_open(&stage, &settings, 3000, 64, 40000);
        while (stage.pos < 39000) stage_call(&stage, random_int(&r, 1, random_int(&r, 0, 3) ? 64 : 700));
        stage_check(&stage, stage.taps, 3000, FADE_IN, stage.pos);
        check(late_of(&stage) == 0, "%s: %d late blocks", backends[b], (int)late_of(&stage));
        stage_close(&stage);
    }
}

static void a_new_period_leaves_no_gap(const char *backend)
{
    static const int periods[] = {256, 64, 48, 1024, 128};
    for (int b = 0; b < N_BACKENDS; b++) {
        struct session_settings settings = usual(backends[b]);
        struct stage stage;
        stage_open(&stage, &settings, 5000, 64, 2000000);
        stage_play(&stage, 9600, 64);
        for (int i = 0; i < 5; i++) {
            session_request_format(stage.session, 48000, periods[i]);
            stage_settle(&stage, periods[i]);
            stage_play(&stage, 4800, periods[i]);
            check(status_of(&stage).info.block == periods[i], "block %d, want %d", status_of(&stage).info.block,
                  periods[i]);
        }
        stage_check(&stage, stage.taps, 5000, FADE_IN, stage.pos);
        check(status_of(&stage).stats.rebuilds == 5, "%d engines were made", (int)status_of(&stage).stats.rebuilds);
        stage_close(&stage);
    }
}

static void a_new_rate_plays_on(const char *backend)
{
    struct session_settings settings = usual("cpu");
    struct stage stage;
    stage_open(&stage, &settings, 2000, 64, 2000000);
    stage_play(&stage, 9600, 64);
    session_request_format(stage.session, 44100, 64);
    long change = stage.pos;
    stage_settle(&stage, 64);
    stage_play(&stage, 480, 64); /* the fade */
    long from = stage.pos;
    stage_play(&stage, 9600, 64);
    check(status_of(&stage).info.rate == 44100, "rate %d", status_of(&stage).info.rate);
    /* A text has no rate: the taps are the same. The input at the old rate is forgotten. */
    for (int ch = 0; ch < CHANNELS; ch++) memset(stage.in[ch], 0, (size_t)change * sizeof(float));
    stage_check(&stage, stage.taps, 2000, from, stage.pos);
    stage_close(&stage);
}

/* ---- masks ------------------------------------------------------------------------------------- */

static void a_new_mask_plays_with_the_whole_past(const char *backend)
{
    for (int b = 0; b < N_BACKENDS; b++)
        for (int longer = 0; longer < 2; longer++) {
            struct session_settings settings = usual(backends[b]);
            struct stage stage;
            float *taps[CHANNELS];
            int n = longer ? 9000 : 2500; /* longer than the engine: a new one processes the input history */
            stage_open(&stage, &settings, 3000, 64, 2000000);
            stage_play(&stage, 20000, 64);
            session_request_mask(stage.session, mask_file("second", n, 2, taps));
            stage_settle(&stage, 64);
            stage_play(&stage, 9600, 64); /* until the mask's tail levels are ready, and the fade */
            long from = stage.pos;
            stage_play(&stage, 9600, 64);
            stage_check(&stage, taps, n, from, stage.pos);
            check(status_of(&stage).stats.masks == 1 && status_of(&stage).stats.rebuilds == (unsigned)longer,
                  "%d swaps, %d engines", (int)status_of(&stage).stats.masks, (int)status_of(&stage).stats.rebuilds);
            stage_close(&stage);
            for (int ch = 0; ch < CHANNELS; ch++) free(taps[ch]);
        }
}

static void a_mask_that_fails_changes_nothing(const char *backend)
{
    struct session_settings settings = usual("cpu");
    struct stage stage;
    char path[128];
    stage_open(&stage, &settings, 3000, 64, 2000000);
    stage_play(&stage, 4800, 64);
    session_request_mask(stage.session, "/nonexistent/hall.wav");
    stage_settle(&stage, 64);
    snprintf(path, sizeof path, "%s/three.txt", folder);
    FILE *file = fopen(path, "w");
    check(file && fputs("1 2 3\n", file) >= 0 && fclose(file) == 0, "%s cannot be written", path);
    session_request_mask(stage.session, path); /* three channels meet two inputs */
    stage_settle(&stage, 64);
    session_request_format(stage.session, 48000, 128); /* a new engine with the mask that plays */
    stage_settle(&stage, 128);
    stage_play(&stage, 9600, 128);
    stage_check(&stage, stage.taps, 3000, FADE_IN, stage.pos);
    check(status_of(&stage).stats.masks == 0, "%d swaps", (int)status_of(&stage).stats.masks);
    check(strstr(status_of(&stage).mask, "first.txt"), "the mask is %s", status_of(&stage).mask);
    stage_close(&stage);
}

/* ---- devices ----------------------------------------------------------------------------------- */

static void a_lost_device_is_replaced_in_its_block(const char *backend)
{
    struct session_settings settings = usual("cuda");
    struct stage stage;
    stage_open_faulty(&stage, &settings, "fail 200");
    stage_play_paced(&stage, 400, 64);
    check_plays(&stage, HC_LIVE_STANDBY, "cpu");
    session_tend(stage.session);
    session_request_format(stage.session, 48000, 128); /* the next engine is the CPU's */
    stage_settle(&stage, 128);
    stage_play(&stage, 9600, 128);
    check_plays(&stage, HC_LIVE_OK, "cpu");
    check(late_of(&stage) == 0, "%d late blocks", (int)late_of(&stage));
    stage_check(&stage, stage.taps, 5000, FADE_IN, stage.pos);
    check(stage_close(&stage), "a lost device must not keep the process");
}

/* The device stalls from block 184 on (16 blocks of its 200 were its warm-up). From there `late` blocks, at least
 * seven, are silence or dry. Their number depends on how soon the standby thread gets a processor. */
enum { STALL_BLOCK = 184, MIN_LATE = 7, MAX_LATE = 190 };

static void check_lateness(const struct stage *stage, long late, bool dry)
{
    long first = 64L * STALL_BLOCK;
    check(late >= MIN_LATE && late <= MAX_LATE, "%ld late blocks", late);
    for (long i = first; i < first + 64 * late; i++)
        check(stage->out[0][i] == (dry ? stage->in[0][i] : 0), "late frame %ld is %g", i, (double)stage->out[0][i]);
    stage_check(stage, stage->taps, 5000, FADE_IN, first);
    stage_check(stage, stage->taps, 5000, first + 64 * late, stage->pos);
}

/* How long a device may take for a block, from the next block on. */
static void set_wait(struct stage *stage, int wait_us)
{
    atomic_store(&session_live(stage->session)->wait_us, wait_us);
}

/* Until the device answers, it refuses other engines. */
static void await_device(void)
{
    for (double end = now_s() + 30; closing_check("cuda", 0, NULL) != HC_OK; pause_us(1000))
        check(now_s() < end, "the device answers, and the engine is not closed");
}

static void stage_close_hung(struct stage *stage)
{
    check(!stage_close(stage), "a device that hangs was closed, which may take for ever");
    check(closing_check("cuda", 0, NULL) == HC_EDEVICE, "no thread closes the engine");
    faulty_release();
    await_device();
}

static void a_device_that_hangs_is_replaced(const char *backend)
{
    for (int dry = 0; dry < 2; dry++) {
        struct session_settings settings = usual("cuda");
        struct stage stage;
        settings.live.late_dry = dry;
        stage_open_faulty(&stage, &settings, "hold 200");
        stage_play_paced(&stage, STALL_BLOCK, 64);
        /* From here on the device may take 30 ms a block: 7 late blocks, then the CPU. */
        set_wait(&stage, 30000);
        stage_play_paced(&stage, 200, 64);
        check_lateness(&stage, (long)late_of(&stage), dry);
        check(strcmp(status_of(&stage).info.backend, "cpu") == 0, "on %s", status_of(&stage).info.backend);
        stage_close_hung(&stage);
    }
}

/* The device was late too few times to be given up, and may never come back. */
static void the_end_does_not_wait_for_a_late_device(const char *backend)
{
    struct session_settings settings = usual("cuda");
    struct stage stage;
    stage_open_faulty(&stage, &settings, "stall 200 5000");
    stage_play_paced(&stage, STALL_BLOCK, 64);
    set_wait(&stage, 1000);
    stage_play_paced(&stage, 3, 64);
    check(late_of(&stage) == 3, "%d late blocks", (int)late_of(&stage));
    double start = now_s();
    bool clean = stage_close(&stage);
    double took_s = now_s() - start;
    check(!clean && took_s < 3, "closed %s after %.1f s", clean ? "well" : "as hung", took_s);
    await_device();
}

static void a_device_that_answers_again_plays_again(const char *backend)
{
    struct session_settings settings = usual("cuda");
    struct stage stage;
    stage_open_faulty(&stage, &settings, "stall 200 1000");
    stage_play_paced(&stage, STALL_BLOCK, 64);
    set_wait(&stage, 10000);
    stage_play_paced(&stage, 200, 64);
    long late = (long)late_of(&stage);
    check(status_of(&stage).stats.state == HC_LIVE_STANDBY, "state %d", status_of(&stage).stats.state);
    set_wait(&stage, 2000000); /* so that a busy machine makes no block late */
    for (int i = 0; i < 8000 && status_of(&stage).stats.state != HC_LIVE_OK; i++) {
        session_tend(stage.session);
        stage_play_paced(&stage, 1, 64);
        if (!session_is_settled(stage.session)) pause_us(SANITIZED ? 20000 : 4000); /* as stage_settle */
    }
    check_plays(&stage, HC_LIVE_OK, "cuda");
    stage_play_paced(&stage, 100, 64);
    check((long)late_of(&stage) == late, "%ld late blocks, then %ld", late, (long)late_of(&stage));
    check_lateness(&stage, late, false);
    check(stage_close(&stage), "a device that answers again must not keep the process");
}

static void a_late_block_keeps_its_place_in_the_past(const char *backend)
{
    struct session_settings settings = usual("cuda");
    struct stage stage;
    stage_open_faulty(&stage, &settings, "stall 100 300");
    stage_play(&stage, 64L * 84, 64);
    long first = stage.pos;
    set_wait(&stage, 100000); /* for the block in which it stalls, and one more */
    stage_play(&stage, 64L * 2, 64);
    set_wait(&stage, 10000000);
    stage_play(&stage, 64L * 214, 64);
    long late = (long)late_of(&stage);
    check(late == 1 || late == 2, "%ld late blocks", late);
    check(status_of(&stage).stats.state == HC_LIVE_OK, "state %d", status_of(&stage).stats.state);
    stage_check(&stage, stage.taps, 5000, FADE_IN, first);
    stage_check(&stage, stage.taps, 5000, first + 64 * late, stage.pos);
    stage_close(&stage);
}

/* Hybrid: the device computes only the tail. It is lost when the first block that it did not compute is due. */
static void a_lost_tail_is_replaced_in_its_block(const char *backend)
{
    struct session_settings settings = usual("hybrid");
    struct stage stage;
    stage_open_faulty(&stage, &settings, "fail 40");
    stage_play_paced(&stage, 600, 64);
    check_plays(&stage, HC_LIVE_STANDBY, "cpu");
    check(late_of(&stage) == 0, "%d late blocks", (int)late_of(&stage));
    stage_check(&stage, stage.taps, 5000, FADE_IN, stage.pos);
    check(stage_close(&stage), "a lost device must not keep the process");
}

/* Hybrid: the device counts as hung when tails have been missing for eight calls and 20 ms. */
static void a_tail_that_hangs_is_replaced(const char *backend)
{
    struct session_settings settings = usual("hybrid");
    struct stage stage;
    stage_open_faulty(&stage, &settings, "hold 40");
    stage_play_paced(&stage, 200, 64);
    check(late_of(&stage) == 0, "%d late blocks before it hung", (int)late_of(&stage));
    set_wait(&stage, HC_WAIT_NONE);
    long from = stage.pos;
    stage_play_paced(&stage, 600, 64);
    check(strcmp(status_of(&stage).info.backend, "cpu") == 0, "on %s", status_of(&stage).info.backend);
    check(late_of(&stage) >= 7, "%d late blocks", (int)late_of(&stage));
    stage_check(&stage, stage.taps, 5000, FADE_IN, from);
    stage_check(&stage, stage.taps, 5000, stage.pos - 9600, stage.pos);
    stage_close_hung(&stage);
}

/* The loader waits for a lock here; in the field it waits for a file server that does not answer. */
static void a_loader_that_hangs_delays_the_end_by_two_seconds(const char *backend)
{
    struct session_settings settings = usual("cpu");
    struct stage stage;
    stage_open(&stage, &settings, 100, 64, 100000);
    stage_settle(&stage, 64);
    hc_live *live = session_live(stage.session);
    pthread_mutex_lock(&live->info_lock);
    session_request_format(stage.session, 48000, 128);
    while (pthread_mutex_trylock(&live->setup) == 0) { /* until the loader works */
        pthread_mutex_unlock(&live->setup);
        pause_us(100);
    }
    double began = stopwatch_now();
    bool clean = session_close(stage.session);
    double seconds = stopwatch_now() - began;
    pthread_mutex_unlock(&live->info_lock);
    check(!clean && seconds > 1.9 && seconds < 10, "closed after %.3f s", seconds);
    check(stage_close(&stage), "a loader that has ended must not keep the process");
}

static void without_a_standby_engine_the_input_goes_on_dry(const char *backend)
{
    struct session_settings settings = usual("cuda");
    struct stage stage;
    settings.live.standby_share = 1e-9; /* no CPU is that fast */
    stage_open_faulty(&stage, &settings, "fail 100");
    stage_play(&stage, 64L * 200, 64);
    session_tend(stage.session);
    check(status_of(&stage).stats.state == HC_LIVE_LOST, "state %d", status_of(&stage).stats.state);
    check(late_of(&stage) == 200 - 84, "%d late blocks", (int)late_of(&stage));
    for (long i = 64 * 84; i < stage.pos; i++)
        check(stage.out[1][i] == stage.in[1][i], "frame %ld is %g, the input %g", i, (double)stage.out[1][i],
              (double)stage.in[1][i]);
    stage_check(&stage, stage.taps, 5000, FADE_IN, 64 * 84);
    stage_close(&stage);
}

/* ---- mix, limiter, counters ------------------------------------------------------------------------- */

static void changes_do_not_click(const char *backend)
{
    struct session_settings settings = usual("cpu");
    struct stage stage;
    stage_open(&stage, &settings, 2, 64, 200000);
    for (int ch = 0; ch < CHANNELS; ch++)
        for (long i = 0; i < stage.cap; i++) stage.in[ch][i] = 0.5f;
    static const struct {
        int knob;
        float value;
    } turns[] = {{HC_BYPASS, 1}, {HC_BYPASS, 0}, {HC_GAIN, 3}, {HC_DRY, 1}, {HC_WET, 0}, {HC_FADE, 0}};
    stage_play(&stage, 5000, 64);
    long from = FADE_IN;
    for (size_t i = 0; i < sizeof turns / sizeof *turns; i++) {
        session_set(stage.session, turns[i].knob, turns[i].value);
        stage_play(&stage, 3000, 64);
    }
    for (long i = from; i < stage.pos; i++)
        check(fabsf(stage.out[0][i] - stage.out[0][i - 1]) < 0.01f, "from %g to %g at frame %ld",
              (double)stage.out[0][i - 1], (double)stage.out[0][i], i);
    check(stage.out[0][stage.pos - 1] == 0, "faded out to %g", (double)stage.out[0][stage.pos - 1]);
    hc_live_stats stats = {.size = sizeof stats};
    hc_live_get_stats(session_live(stage.session), &stats);
    check(stats.faded_out, "the end of the fade is not said");
    double want = 0.5 * ((double)stage.taps[0][0] + (double)stage.taps[0][1]);
    check(fabs((double)stage.out[0][4999] - want) < 1e-6, "%g, want %g", (double)stage.out[0][4999], want);
    check(stage.out[0][7999] == 0.5f, "bypassed: %g, want 0.5", (double)stage.out[0][7999]);
    stage_close(&stage);
}

static void feedback_is_turned_down(const char *backend)
{
    for (int limit = 0; limit < 2; limit++) {
        struct session_settings settings = usual("cpu");
        struct stage stage;
        settings.live.limit_feedback = limit;
        settings.gain = 1000;
        stage_open(&stage, &settings, 20, 64, 200000);
        stage_play(&stage, 96000, 64);
        float early = 0, late = 0;
        for (long i = 12000; i < 20000; i++) early = fmaxf(early, fabsf(stage.out[0][i]));
        for (long i = 48000; i < 90000; i++) late = fmaxf(late, fabsf(stage.out[0][i]));
        check(early > 1 && (limit ? late < 0.1f * early : late > 0.5f * early), "limiter %d: peak %g, then %g", limit,
              (double)early, (double)late);
        check(status_of(&stage).stats.limited == (unsigned)limit, "limited %d times",
              (int)status_of(&stage).stats.limited);
        check(status_of(&stage).stats.clipped > 1000, "clipped %d samples", (int)status_of(&stage).stats.clipped);
        stage_close(&stage);
    }
}

static void not_a_number_is_silence(const char *backend)
{
    struct session_settings settings = usual("cpu");
    struct stage stage;
    settings.dry = 1;
    stage_open(&stage, &settings, 500, 64, 20000);
    stage.in[0][5000] = NAN;
    stage.in[1][5001] = -INFINITY;
    stage.in[0][5002] = FLT_MAX; /* it would overflow in a transform */
    stage.in[1][5003] = -1.3e30f;
    stage_play(&stage, 9600, 64);
    for (int ch = 0; ch < CHANNELS; ch++)
        for (long i = 0; i < stage.pos; i++) check(isfinite(stage.out[ch][i]), "channel %d, frame %ld", ch, i);
    check(status_of(&stage).stats.non_finite == 4, "%d counted", (int)status_of(&stage).stats.non_finite);
    stage_close(&stage);
}

static void quantiles_are_right_within_a_sixteenth(const char *backend)
{
    static struct histogram h;
    hc_times view, first;
    for (uint64_t i = 1; i <= 100000; i++) histogram_add(&h, i * 10);
    histogram_read(&h, &first);
    for (int q = 1; q <= 999; q++) {
        double want = 1000 * q, got = (double)hc_times_quantile(&first, q / 1000.0);
        check(got >= want && got <= want * 17 / 16 + 10, "quantile %d: %g, want %g", q, got, want);
    }
    check(first.max_ns == 1000000 && hc_times_quantile(&first, 1) == 1000000, "the largest is %d", (int)first.max_ns);
    for (int i = 0; i < 10; i++) histogram_add(&h, 500);
    histogram_read(&h, &view);
    view.n -= first.n;
    for (int i = 0; i < HC_TIME_CLASSES; i++) view.classes[i] -= first.classes[i];
    uint64_t longest = hc_times_quantile(&view, 1);
    check(view.n == 10 && hc_times_quantile(&view, 0.5) >= 500 && longest < 532, "%d since, at most %d", (int)view.n,
          (int)longest);
    check(hc_times_quantile(&(hc_times){0}, 0.5) == 0, "nothing has a median");
}

/* ---- the audio thread -------------------------------------------------------------------------- */

struct storm { /* an audio thread, while the other threads change everything */
    struct stage *stage;
    atomic_bool end;
    int most_pause_us; /* between two changes */
    bool real_time;    /* at the pace of a sound card, else about three times as fast */
    const char *allowed, *caught;
};

static void *storm_audio(void *arg)
{
    struct storm *storm = arg;
    struct stage *stage = storm->stage;
    struct random r = random_seeded(11);
    double next = now_s();
    while (!atomic_load(&storm->end) && stage->pos < stage->cap - 20000) {
        int n = random_int(&r, 1, 300);
        const float *in[] = {stage->in[0] + stage->pos, stage->in[1] + stage->pos};
        float *out[] = {stage->out[0] + stage->pos, stage->out[1] + stage->pos};
        trap_let_by(storm->allowed);
        if (!SANITIZED) trap_arm();
        hc_live_process(session_live(stage->session), in, out, n);
        if (!SANITIZED && !storm->caught) storm->caught = trap_disarm();
        stage->pos += n;
        next = fmax(next + n / 48000.0, now_s());
        pause_us(storm->real_time ? (long)((next - now_s()) * 1e6) : SANITIZED ? 3000 : 1000);
    }
    return NULL;
}

struct storm_masks {
    char paths[3][128];
    float *taps[3][CHANNELS];
};
static const int storm_lengths[] = {700, 2500, 6000};

static void storm_masks_make(struct storm_masks *masks)
{
    for (int i = 0; i < 3; i++) {
        const char name[] = {(char)('a' + i), '\0'};
        const char *path = mask_file(name, storm_lengths[i], 20 + (uint64_t)i, masks->taps[i]);
        snprintf(masks->paths[i], sizeof masks->paths[i], "%s", path);
    }
}

static void storm_masks_free(struct storm_masks *masks)
{
    for (int i = 0; i < 3; i++)
        for (int ch = 0; ch < CHANNELS; ch++) free(masks->taps[i][ch]);
}

/* Masks, periods, knobs and freewheeling change at once; the audio is right at the end. */
static void storm_blow(struct storm *storm, const struct storm_masks *masks)
{
    static const int periods[] = {64, 100, 256};
    struct stage *stage = storm->stage;
    struct session *session = stage->session;
    pthread_t audio;
    atomic_store(&storm->end, false);
    check(pthread_create(&audio, NULL, storm_audio, storm) == 0, "no thread");
    struct random r = random_seeded(12);
    for (int i = 0; i < 150; i++) {
        int what = random_int(&r, 0, 9);
        if (what < 4) session_request_mask(session, masks->paths[random_int(&r, 0, 2)]);
        if (what == 4) session_request_format(session, 48000, periods[random_int(&r, 0, 2)]);
        if (what == 5) session_set(session, HC_BYPASS, (float)random_int(&r, 0, 1));
        if (what == 6) hc_live_set_freewheel(session_live(session), random_int(&r, 0, 1));
        if (what == 7) session_request_mask(session, "/nonexistent.txt");
        if (what == 8) status_of(stage);
        session_tend(session);
        pause_us(random_int(&r, 0, storm->most_pause_us));
    }
    hc_live_set_freewheel(session_live(session), false);
    session_request_format(session, 48000, 64);
    session_set(session, HC_BYPASS, 0);
    session_request_mask(session, masks->paths[1]);
    for (int i = 0; i < 12000 && !session_is_settled(session); i++) {
        session_tend(session);
        pause_us(10000);
    }
    bool settled = session_is_settled(session);
    for (int i = 0; i < 30; i++) pause_us(10000); /* the last fade ends */
    atomic_store(&storm->end, true);
    pthread_join(audio, NULL);
    check(settled, "the loader did not finish");
    check(!storm->caught, "the audio thread reached %s", storm->caught);
    long from = stage->pos;
    hc_live_set_freewheel(session_live(session), true); /* no block is late, however busy the machine is */
    while (stage->pos < from + 9600) stage_call(stage, 64);
    hc_live_set_freewheel(session_live(session), false);
    stage_check(stage, masks->taps[1], storm_lengths[1], from, stage->pos);
}

/* make race-test runs this too. */
static void a_storm_of_changes(const char *device)
{
    struct session_settings settings = usual(device);
    struct stage stage;
    struct storm_masks masks;
    stage_open(&stage, &settings, 2500, 64, 4000000);
    storm_masks_make(&masks);
    struct storm storm = {
        .stage = &stage, .most_pause_us = 5000, .allowed = strcmp(device, "cuda") == 0 ? "sem_post" : NULL};
    storm_blow(&storm, &masks);
    stage_close(&stage);
    storm_masks_free(&masks);
}

static void a_storm_of_changes_leaves_the_audio_whole(const char *backend)
{
    a_storm_of_changes("cpu");
    a_storm_of_changes("cuda");
}

static double resident_mb(void)
{
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    check(file && fscanf(file, "%*d %ld", &pages) == 1, "no resident memory in /proc");
    fclose(file);
    return (double)(pages * sysconf(_SC_PAGESIZE)) / 1e6;
}

/* The last second of the stage becomes its first one: longer than the longest mask. */
static void stage_rewind(struct stage *stage)
{
    enum { KEPT = 48000 };
    for (int ch = 0; ch < CHANNELS && stage->pos > KEPT; ch++)
        memmove(stage->in[ch], stage->in[ch] + stage->pos - KEPT, KEPT * sizeof(float));
    stage->pos = stage->pos > KEPT ? KEPT : stage->pos;
}

/* Sessions on the CPU, on a device and on both stay open for HC_SOAK_SECONDS (make soak), else for two storms of
 * less than half the time. A storm changes each in turn, and now and then its device is lost or stalls. */
static void sessions_last(const char *backend)
{
    const char *asked = getenv("HC_SOAK_SECONDS");
    const double start = now_s(), seconds = asked ? atof(asked) : 0;
    double report = start, first_mb = 0, mb = 0;
    static const char *const faults[] = {"", "", "fail 500", "stall 300 50", "slow 100 3 40"};
    struct session_settings settings[N_BACKENDS];
    struct stage stages[N_BACKENDS];
    struct storm_masks masks;
    struct random r = random_seeded(13);
    storm_masks_make(&masks);
    for (int b = 0; b < N_BACKENDS; b++) {
        settings[b] = usual(backends[b]);
        settings[b].live.wait_us = 0;
        settings[b].live.late_dry = 1;
        stage_open(&stages[b], &settings[b], 2500, 64, 4000000);
    }
    for (int round = 0; round < 2 * N_BACKENDS || now_s() < start + seconds; round++) {
        int b = round % N_BACKENDS;
        if (b == 0) test_seed_next();
        setenv("HC_FAULT", faults[random_int(&r, 0, 4)], 1);
        struct storm storm = {.stage = &stages[b],
                              .most_pause_us = asked ? 10000 : 4000,
                              .real_time = true,
                              .allowed = b > 0 ? "sem_post" : NULL};
        stage_rewind(&stages[b]);
        storm_blow(&storm, &masks);
        mb = resident_mb();
        if (first_mb == 0 && now_s() > start + seconds / 10 && round >= N_BACKENDS) first_mb = mb;
        if (now_s() < report && now_s() < start + seconds) continue;
        report += 60;
        printf("    %6.0f s, %d storms, %.1f MB", now_s() - start, round + 1, mb);
        for (int i = 0; i < N_BACKENDS; i++) {
            hc_live_stats s = status_of(&stages[i]).stats;
            printf("; %s: %llu blocks, %llu late, %llu lost, %llu overruns, %llu rebuilds", backends[i],
                   (unsigned long long)s.blocks, (unsigned long long)s.late, (unsigned long long)s.lost,
                   (unsigned long long)s.overruns, (unsigned long long)s.rebuilds);
        }
        printf("\n");
        fflush(stdout);
    }
    unsetenv("HC_FAULT");
    check(SANITIZED || mb < first_mb + 4, "resident memory grew from %.1f to %.1f MB", first_mb, mb);
    for (int b = 0; b < N_BACKENDS; b++) stage_close(&stages[b]);
    storm_masks_free(&masks);
}

static int play_on(void *stage)
{
    stage_play(stage, 9600, 64);
    return 0;
}

static int play_and_call(void *stage)
{
    stage_play(stage, 9600, 64);
    getppid();
    return 0;
}

/* The blocks played include taking a new engine from the loader and the crossfade to it. */
static void the_callback_makes_no_system_call(const char *backend)
{
    if (SANITIZED) check_skip("a sanitizer makes system calls of its own");
    struct session_settings settings = usual("cpu");
    struct stage stage;
    settings.dry = 0.1f;
    settings.live.limit_feedback = true;
    stage_open(&stage, &settings, 3000, 64, 2000000);
    stage_play(&stage, 9600, 64);
    session_request_format(stage.session, 48000, 48);
    for (int i = 0; i < 1000 && status_of(&stage).stats.rebuilds == 0; i++) pause_us(10000);
    check(status_of(&stage).stats.rebuilds == 1, "the loader made nothing");
    int fate = trap_child(play_and_call, &stage);
    check(fate == SIGSYS, "the trap lets getppid by: %d", fate);
    fate = trap_child(play_on, &stage);
    check(fate == 0, "%s", fate == SIGSYS ? "the callback made a system call" : "the callback went wrong");
    stage_close(&stage);
}

int main(void)
{
    static const struct test tests[] = {
        TEST(any_count_of_frames_is_played, false),
        TEST(a_new_period_leaves_no_gap, false),
        TEST(a_new_rate_plays_on, false),
        TEST(a_new_mask_plays_with_the_whole_past, false),
        TEST(a_mask_that_fails_changes_nothing, false),
        TEST(a_lost_device_is_replaced_in_its_block, false),
        TEST(a_device_that_hangs_is_replaced, false),
        TEST(the_end_does_not_wait_for_a_late_device, false),
        TEST(a_device_that_answers_again_plays_again, false),
        TEST(a_late_block_keeps_its_place_in_the_past, false),
        TEST(a_lost_tail_is_replaced_in_its_block, false),
        TEST(a_tail_that_hangs_is_replaced, false),
        TEST(a_loader_that_hangs_delays_the_end_by_two_seconds, false),
        TEST(without_a_standby_engine_the_input_goes_on_dry, false),
        TEST(changes_do_not_click, false),
        TEST(feedback_is_turned_down, false),
        TEST(not_a_number_is_silence, false),
        TEST(quantiles_are_right_within_a_sixteenth, false),
        TEST(a_storm_of_changes_leaves_the_audio_whole, false),
        TEST(sessions_last, false),
        TEST(the_callback_makes_no_system_call, false),
    };
    const char *dir = getenv("TMPDIR");
    message_set_quiet(true);
    snprintf(folder, sizeof folder, "%.40s/hc_session_XXXXXX", dir ? dir : "/tmp");
    if (!mkdtemp(folder)) return 1;
    int status = check_main("session", tests, sizeof tests / sizeof *tests);
    static const char *const names[] = {"first", "second", "three", "a", "b", "c"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[128];
        snprintf(path, sizeof path, "%s/%s.txt", folder, names[i]);
        unlink(path);
    }
    rmdir(folder);
    return status;
}
