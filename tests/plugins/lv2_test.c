/* The LV2 plugin in a host: its output, its changes while it plays, and its real-time rules.
 *
 * struct instance keeps its whole input and output; the test computes any frame in float64 from the mask's file.
 * Tests that run on each backend set the plugin's own control and wait for the device (freewheel), so that a busy
 * machine does not fail them; the log must name the requested backend.
 */
#include "haloconv_masks.h"
#include "lv2_host.h"
#include "played.h"
#include "player.h"
#include "trap.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { RATE = 48000 };

/* ---- masks -------------------------------------------------------------------------------------- */

static const char *shipped(const char *name)
{
    static char path[4200];
    snprintf(path, sizeof path, "%s%s", lv2_host_bundle(), name);
    return path;
}

/* ---- instances ---------------------------------------------------------------------------------- */

struct instance {
    struct lv2_host *host;
    const struct variant *variant;
    int rate, n, cap;
    float *in[MAX_CHANNELS], *out[MAX_CHANNELS]; /* [cap] */
    bool in_place;
    enum lv2_host_worker worker;
};

static struct instance instance_open(const char *variant, int rate, int cap, int nominal, enum lv2_host_worker worker,
                                     const char *backend)
{
    struct instance t = {.rate = rate, .cap = cap, .worker = worker};
    t.host = lv2_host_open(variant, rate, 8192, nominal, worker);
    for (int v = 0; v < N_VARIANTS; v++)
        if (strcmp(variants[v].symbol, variant) == 0) t.variant = &variants[v];
    struct random r = random_seeded(5);
    for (int ch = 0; ch < t.variant->n_in; ch++) t.in[ch] = noise(&r, cap);
    for (int ch = 0; ch < t.variant->n_out; ch++) t.out[ch] = must_alloc((size_t)cap, sizeof(float));
    lv2_host_activate(t.host);
    *lv2_host_control(t.host, BACKEND) = backend[0] == '-'   ? BACKEND_AUTO
                                         : backend[1] == 'p' ? BACKEND_CPU
                                                             : BACKEND_GPU;
    *lv2_host_control(t.host, FREEWHEEL) = 1;
    return t;
}

static void instance_close(struct instance *t)
{
    lv2_host_close(t->host);
    for (int ch = 0; ch < t->variant->n_in; ch++) free(t->in[ch]);
    for (int ch = 0; ch < t->variant->n_out; ch++) free(t->out[ch]);
}

static void instance_run(struct instance *t, int n)
{
    float *in[MAX_CHANNELS], *out[MAX_CHANNELS];
    check(t->n + n <= t->cap, "test asks for more than its own %d frames", t->cap);
    for (int ch = 0; ch < t->variant->n_out; ch++) out[ch] = t->out[ch] + t->n;
    for (int ch = 0; ch < t->variant->n_in; ch++) {
        in[ch] = t->in[ch] + t->n;
        if (!t->in_place) continue;
        memcpy(out[ch], in[ch], (size_t)n * sizeof(float));
        in[ch] = out[ch];
    }
    lv2_host_connect_audio(t->host, in, out);
    lv2_host_run(t->host, n);
    t->n += n;
}

/* Calls of 1 to `most` frames until `frames` have been played. */
static void instance_run_random(struct instance *t, int frames, int most, uint64_t seed)
{
    struct random r = random_seeded(seed);
    for (int end = t->n + frames; t->n < end;) {
        int n = random_int(&r, 1, most);
        instance_run(t, n < end - t->n ? n : end - t->n);
    }
}

/* Plays until the worker is idle and the crossfade has ended. */
static void instance_settle(struct instance *t)
{
    time_t start = time(NULL);
    while (lv2_host_busy(t->host)) {
        instance_run(t, 64);
        pause_us(1000);
        check(time(NULL) - start < 60, "the worker is not done after a minute");
    }
    /* The fade, and what had to be caught up with: under a sanitizer the worker is slower than the clock. */
    int n = t->worker != WORKER_THREAD || !SANITIZED ? 8 : 400;
    for (int i = 0; i < n; i++) instance_run(t, t->rate / 50);
}

static void check_log(struct instance *t, const char *word)
{
    const char *log = lv2_host_log(t->host);
    check(strstr(log, word), "the log lacks \"%s\": %s", word, log);
}

static void check_mix(const struct instance *t, const char *path, struct mix mix, int origin, int first, int last)
{
    check_played(&(struct played){t->variant, t->rate, t->n, t->in, t->out}, path, mix, origin, first, last);
}

/* ---- output ------------------------------------------------------------------------------ */

static void every_plugin_plays_its_mask(const char *backend)
{
    for (int v = 0; v < N_VARIANTS; v++) {
        if (variants[v].n_sources > 0) continue; /* lv2_binaural_test.c */
        struct instance t =
            instance_open(variants[v].symbol, RATE, SANITIZED ? 3000 : 12000, 128, WORKER_AT_ONCE, backend);
        instance_run_random(&t, t.cap / 2, 700, 1);
        check_log(&t, backend);
        instance_run_random(&t, t.cap - t.n, 5, 2);
        check_mix(&t, shipped(variants[v].mask), wet_only, 0, 0, t.n);
        check(*lv2_host_control(t.host, LATENCY) == 0 && *lv2_host_control(t.host, LATE) == 0, "latency %g, late %g",
              (double)*lv2_host_control(t.host, LATENCY), (double)*lv2_host_control(t.host, LATE));
        check(*lv2_host_control(t.host, LOAD) > 0, "load %g", (double)*lv2_host_control(t.host, LOAD));
        instance_close(&t);
    }
}

static void any_block_in_place(const char *backend)
{
    static const int blocks[] = {1, 2, 63, 64, 65, 441, 1024, 8192}, nominals[] = {0, 1, 64, 441, 8192};
    const char *mask = mask_file("four.wav", 4, 9000, RATE, 3);
    for (size_t b = 0; b < sizeof blocks / sizeof *blocks; b++) {
        int nominal = nominals[b % 5];
        struct instance t = instance_open("true_stereo", RATE, 16384, nominal, WORKER_AT_ONCE, backend);
        t.in_place = true;
        lv2_host_send_mask(t.host, mask, 0);
        instance_run(&t, blocks[b]);
        for (int i = 0; i < 3000 && t.n + blocks[b] <= t.cap; i++) instance_run(&t, blocks[b]);
        check_mix(&t, mask, wet_only, 0, 0, t.n);
        instance_close(&t);
    }
}

/* jalv names the minimum and the maximum of frames of a run, which are the same, and no usual number. */
static void the_engine_has_the_block_of_a_host_whose_runs_are_alike(const char *backend)
{
    static const int frames[] = {64, 256};
    for (int i = 0; i < 2; i++) {
        struct lv2_host *host = lv2_host_open("stereo", RATE, frames[i], -1, WORKER_AT_ONCE);
        struct core_meters meters;
        char want[32];
        lv2_host_activate(host);
        lv2_host_meters(host, &meters);
        snprintf(want, sizeof want, ", %d frames", frames[i]);
        check(strstr(meters.engine, want), "%d frames a run: the engine is \"%s\"", frames[i], meters.engine);
        lv2_host_close(host);
    }
}

static void masks_are_resampled(const char *backend)
{
    static const int rates[] = {44100, 96000, 22050};
    for (int i = 0; i < 3; i++) {
        struct instance t = instance_open("stereo", rates[i], 8000, 256, WORKER_AT_ONCE, backend);
        instance_run_random(&t, 8000, 600, 3);
        check_mix(&t, shipped("hall.wav"), wet_only, 0, 0, t.n);
        instance_close(&t);
    }
}

static void channels_follow_the_rule(const char *backend)
{
    static const struct {
        const char *variant;
        int n_channels;
        bool fits;
    } cases[] = {
        {"mono", 1, true},      {"mono", 2, true},           {"mono", 4, false},           {"mono_to_stereo", 1, true},
        {"stereo", 1, true},    {"mono_to_stereo", 2, true}, {"mono_to_stereo", 3, false}, {"stereo", 2, true},
        {"stereo", 4, true},    {"stereo", 3, false},        {"matrix_4", 1, true},        {"matrix_4", 4, true},
        {"matrix_4", 2, false}, {"matrix_64", 64, true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *mask = mask_file("rule.wav", cases[i].n_channels, 300, RATE, i);
        struct instance t = instance_open(cases[i].variant, RATE, 2000, 64, WORKER_AT_ONCE, backend);
        lv2_host_log(t.host);
        lv2_host_send_mask(t.host, mask, 0);
        instance_run_random(&t, 2000, 100, i);
        const char *status = lv2_host_status(t.host);
        bool is_left = t.variant->n_out == 1 && cases[i].n_channels == 2;
        if (is_left) check_log(&t, "warning: haloconv: ");
        check(is_left == (strstr(status, "left channel") != NULL) &&
                  cases[i].fits == (is_left || !strcmp(status, "ok")),
              "%s, %d channels: status \"%s\"", cases[i].variant, cases[i].n_channels, status);
        if (cases[i].fits)
            check_mix(&t, mask, wet_only, 0, 0, t.n);
        else
            check_mix(&t, shipped(t.variant->mask), wet_only, 0, 0, t.n), check_log(&t, "error: haloconv: ");
        instance_close(&t);
    }
}

static void matrices_load_configurations(const char *backend)
{
    mask_file("conf.wav", 2, 700, RATE, 22);
    const char *fits =
        text_file("fits.conf", "/convolver/new 3 4 256 2000\n/impulse/read 1 1 1 0 0 0 1 conf.wav\n"
                               "/impulse/read 3 1 0.5 30 0 0 2 conf.wav\n/impulse/read 2 4 -1 0 0 0 1 conf.wav\n");
    const char *wide = text_file("wide.conf", "/convolver/new 5 4 256 2000\n/impulse/read 5 1 1 0 0 0 1 conf.wav\n");
    struct instance t = instance_open("matrix_4", RATE, 4000, 64, WORKER_AT_ONCE, backend);
    lv2_host_send_mask(t.host, fits, 0);
    instance_run_random(&t, 2000, 200, 23);
    lv2_host_log(t.host);
    lv2_host_send_mask(t.host, wide, 0);
    instance_run_random(&t, 2000, 200, 24);
    check_log(&t, "has 5 inputs and 4 outputs, but this session has 4 and 4; ");
    check_mix(&t, fits, wet_only, 0, 0, t.n);
    instance_close(&t);
}

/* ---- changes ------------------------------------------------------------------------------------ */

/* Frames from a mask's request to its fade, which the engine begins: the CPU with the hop after it, where the host
 * freewheels; a GPU when the mask's tail levels are there. */
static int swap_delay(const char *backend, int max_taps)
{
    static const char *const ways[] = {"cuda", "hybrid"}; /* one of these plays */
    int delay = 2 * 64;
    for (int i = 0; i < 2 && strcmp(backend, "cpu") != 0; i++) {
        hc_config c;
        hc_info info = {.size = sizeof info};
        hc_config_init(&c);
        c.max_taps = max_taps;
        c.backend = ways[i];
        check(hc_plan(&c, &info, NULL, 0) == HC_OK, "no plan for %s", ways[i]);
        if (info.swap_delay + 64 > delay) delay = info.swap_delay + 64;
    }
    return delay;
}

/* A mask set in the middle: before its frame the old one, after the crossfade the new one with its whole tail. */
static void a_mask_comes_with_its_tail(const char *backend)
{
    static const struct {
        int taps_before, taps_after;
    } cases[] = {{9000, 8000}, {500, 20000}, {20000, 500}};
    for (int w = WORKER_AT_ONCE; w <= WORKER_THREAD; w++)
        for (int i = 0; i < 3; i++) {
            const char *before = mask_file("before.wav", 2, cases[i].taps_before, RATE, 4);
            const char *after = mask_file("after.wav", 2, cases[i].taps_after, RATE, 5);
            struct instance t =
                instance_open("stereo", RATE, 4 * RATE * (1 + 29 * (w == WORKER_THREAD)), 64, w, backend);
            lv2_host_send_mask(t.host, before, 0);
            instance_run(&t, 100);
            instance_settle(&t);
            instance_run_random(&t, 30000, 200, 6);
            int set = t.n;
            check(strcmp(lv2_host_notified(t.host), before) == 0, "told of no mask, or of another one");
            lv2_host_send_mask(t.host, after, 37);
            instance_run(&t, 64);
            instance_settle(&t);
            int delay = swap_delay(backend, cases[i].taps_before);
            instance_run_random(&t, delay, 200, 8);
            int there = t.n;
            instance_run_random(&t, 3000, 200, 7);
            check(strcmp(lv2_host_notified(t.host), after) == 0, "told of no mask, or of another one");
            check_mix(&t, before, wet_only, 0, set - 3000, set + 37);
            if (w == WORKER_AT_ONCE) check_mix(&t, after, wet_only, 0, set + 37 + delay + RATE / 50, there);
            check_mix(&t, after, wet_only, 0, there, t.n);
            instance_close(&t);
        }
}

/* No step where masks, knobs and backends change: a constant goes in, so that only changes can move the output. */
static void nothing_clicks(const char *backend)
{
    const char *half = text_file("half.txt", "0.5\n"), *one = text_file("one.txt", "1\n");
    struct instance t = instance_open("stereo", RATE, 200000, 64, WORKER_AFTER_RUN, backend);
    for (int ch = 0; ch < 2; ch++)
        for (int i = 0; i < t.cap; i++) t.in[ch][i] = 1;
    lv2_host_send_mask(t.host, one, 0);
    instance_run(&t, 64);
    instance_settle(&t);
    int start = t.n;
    static const struct {
        enum control control;
        float value, level;
    } moves[] = {{WET, -6, 0.501187f},
                 {WET, -90, 0},
                 {WET, 0, 1},
                 {DRY, 0, 2},
                 {GAIN, -6, 1.002374f},
                 {GAIN, 0, 2},
                 {ENABLED, 0, 1},
                 {ENABLED, 1, 2},
                 {DRY, -90, 1},
                 {BACKEND, BACKEND_CPU, 1},
                 {BACKEND, BACKEND_AUTO, 1},
                 {PREDELAY, 100, 1},
                 {PREDELAY, 0, 1},
                 {N_CONTROLS, 0, 0.5f},
                 {N_CONTROLS, 1, 1}};
    for (size_t m = 0; m < sizeof moves / sizeof *moves; m++) {
        if (moves[m].control == N_CONTROLS)
            lv2_host_send_mask(t.host, moves[m].value > 0.5f ? one : half, 5);
        else
            *lv2_host_control(t.host, moves[m].control) = moves[m].value;
        instance_run(&t, 64);
        instance_settle(&t);
        float got = t.out[1][t.n - 1];
        check(fabsf(got - moves[m].level) < 1e-5f, "move %zu: level %g, want %g", m, (double)got,
              (double)moves[m].level);
    }
    /* 20 ms from one level to the next; a smoothstep is at most 1.5 times as steep as a line. */
    double most = 0, allowed = 1.6 / (RATE / 50.0);
    int worst = 0;
    for (int i = start + 1; i < t.n; i++) {
        double step = fabs((double)t.out[0][i] - (double)t.out[0][i - 1]);
        if (step > most) most = step, worst = i;
    }
    check(most <= allowed, "a step of %g at frame %d, allowed %g", most, worst, allowed);
    instance_close(&t);
}

static void knobs_mix(const char *backend)
{
    const char *mask = mask_file("knobs.wav", 1, 3000, RATE, 8);
    static const char *const names[] = {"mono", "mono_to_stereo", "stereo", "matrix_8"};
    for (int v = 0; v < 4; v++) {
        struct instance t = instance_open(names[v], RATE, 12000, 64, WORKER_AT_ONCE, backend);
        *lv2_host_control(t.host, DRY) = -6;
        *lv2_host_control(t.host, WET) = 3;
        *lv2_host_control(t.host, GAIN) = -1;
        *lv2_host_control(t.host, PREDELAY) = 12.5f;
        lv2_host_send_mask(t.host, mask, 0);
        instance_run_random(&t, 12000, 300, 9);
        struct mix mix = {pow(10, -7.0 / 20), pow(10, 2.0 / 20), 600};
        check_mix(&t, mask, mix, 0, 0, t.n);
        instance_close(&t);
    }
}

static void bypass_is_the_input(const char *backend)
{
    struct instance t = instance_open("mono_to_stereo", RATE, 6000, 64, WORKER_AT_ONCE, backend);
    *lv2_host_control(t.host, ENABLED) = 0;
    *lv2_host_control(t.host, GAIN) = -20;
    t.in[0][100] = NAN;
    instance_run_random(&t, 6000, 300, 9);
    for (int ch = 0; ch < 2; ch++)
        for (int i = 0; i < t.n; i++)
            check(t.out[ch][i] == (i == 100 ? 0 : t.in[0][i]), "frame %d: got %g, want %g", i, (double)t.out[ch][i],
                  (double)t.in[0][i]);
    instance_close(&t);
}

static void silence_is_silence_whatever_comes_in(const char *backend)
{
    struct instance t = instance_open("stereo", RATE, 4000, 64, WORKER_AT_ONCE, backend);
    *lv2_host_control(t.host, WET) = NAN; /* counts as the min. */
    for (int i = 0; i < t.cap; i++) t.in[0][i] = i % 3 ? INFINITY : NAN;
    instance_run_random(&t, 4000, 300, 9);
    for (int i = 0; i < t.n; i++) check(t.out[0][i] == 0, "frame %d: %g", i, (double)t.out[0][i]);
    instance_close(&t);
}

static void activate_forgets(const char *backend)
{
    struct instance t = instance_open("stereo", RATE, 60000, 64, WORKER_AT_ONCE, backend);
    *lv2_host_control(t.host, PREDELAY) = 3;
    instance_run_random(&t, 50000, 300, 9); /* once around the delay line */
    lv2_host_deactivate(t.host);
    lv2_host_activate(t.host);
    int from = t.n;
    instance_run_random(&t, 10000, 300, 10);
    struct mix mix = {0, 1, 144};
    check_mix(&t, shipped("hall.wav"), mix, 0, from - 3000, from);
    check_mix(&t, shipped("hall.wav"), mix, from, from, t.n);
    instance_close(&t);
}

/* ---- errors -------------------------------------------------------------------------------------- */

static void a_bad_file_changes_nothing(const char *backend)
{
    const char *broken = text_file("broken.txt", "1\nnan\n");
    static const char *const bad[] = {"/nonexistent/mask.wav", "/", "", NULL};
    for (int w = WORKER_AT_ONCE; w <= WORKER_THREAD; w++) {
        struct instance t = instance_open("stereo", RATE, 60 * RATE, 64, w, backend);
        instance_run(&t, 64);
        instance_settle(&t);
        for (int i = 0; i < 3; i++) {
            const char *path = bad[i] && bad[i][0] ? bad[i] : broken;
            lv2_host_log(t.host);
            lv2_host_notified(t.host);
            lv2_host_send_mask(t.host, path, 3);
            instance_run(&t, 64);
            instance_settle(&t);
            const char *log = lv2_host_log(t.host);
            check(strstr(log, "error: haloconv: ") && strstr(log, path) && strstr(log, ";"),
                  "%s: the log has no reason and remedy: \"%s\"", path, log);
            check(strcmp(lv2_host_notified(t.host), shipped("hall.wav")) == 0,
                  "the host is notified of another mask than plays");
            const char *status = lv2_host_status(t.host);
            check(strstr(status, path) && strncmp(status, "dry:", 4) != 0, "%s: status \"%s\"", path, status);
        }
        int from = t.n < 3000 ? 0 : t.n - 3000;
        check_mix(&t, shipped("hall.wav"), wet_only, 0, from, t.n);
        instance_close(&t);
    }
}

static void work_that_was_dropped_at_deactivate_is_done_later(const char *backend)
{
    struct instance t = instance_open("stereo", RATE, 4000, 64, WORKER_AT_ONCE, "-");
    instance_run(&t, 64);
    lv2_host_drop_work(t.host, true);
    lv2_host_send_mask(t.host, shipped("plate.wav"), 0);
    instance_run(&t, 64);
    lv2_host_deactivate(t.host);
    lv2_host_drop_work(t.host, false);
    lv2_host_activate(t.host);
    instance_run(&t, 64);
    instance_run(&t, 64);
    check(strcmp(lv2_host_notified(t.host), shipped("plate.wav")) == 0, "the mask is not loaded");
    instance_close(&t);
}

static void a_host_without_a_worker_gets_the_mask(const char *backend)
{
    struct instance t = instance_open("stereo", RATE, 6100, 0, WORKER_NONE, "-");
    *lv2_host_control(t.host, BACKEND) = BACKEND_GPU;
    lv2_host_send_mask(t.host, shipped("plate.wav"), 0);
    lv2_host_send_get(t.host);
    instance_run_random(&t, 6000, 300, 9);
    check_mix(&t, shipped("hall.wav"), wet_only, 0, 0, t.n);
    check(strcmp(lv2_host_notified(t.host), shipped("hall.wav")) == 0,
          "the host is notified of another mask than plays");
    const char *status = lv2_host_status(t.host);
    check(strstr(status, "no worker"), "the status is %s", status);
    lv2_host_send_get(t.host);
    instance_run(&t, 64);
    check(strcmp(lv2_host_status(t.host), "ok") == 0, "the refusal stays");
    instance_close(&t);
}

static void junk_is_left_alone(const char *backend)
{
    struct instance t = instance_open("stereo", RATE, 6000, 64, WORKER_AT_ONCE, "-");
    for (unsigned i = 0; i < 50; i++) {
        lv2_host_send_junk(t.host, i);
        instance_run(&t, 64);
    }
    check_mix(&t, shipped("hall.wav"), wet_only, 0, 0, t.n);
    instance_close(&t);
}

static void messages_of_an_empty_block_are_answered_in_the_next(const char *backend)
{
    const char *mask = mask_file("empty.wav", 2, 500, RATE, 12);
    struct instance t = instance_open("stereo", RATE, 6000, 64, WORKER_AT_ONCE, "-");
    instance_run(&t, 0);
    check(!lv2_host_notified(t.host)[0], "a message in an empty block");
    instance_run(&t, 64);
    check(strcmp(lv2_host_notified(t.host), shipped("hall.wav")) == 0 && strcmp(lv2_host_status(t.host), "ok") == 0,
          "the mask of activate() is not notified");
    lv2_host_send_get(t.host);
    instance_run(&t, 0);
    instance_run(&t, 64);
    check(strcmp(lv2_host_notified(t.host), shipped("hall.wav")) == 0, "patch:Get has no answer");
    lv2_host_send_mask(t.host, mask, 0);
    instance_run(&t, 0);
    instance_run(&t, 64);
    check(strcmp(lv2_host_notified(t.host), mask) == 0, "patch:Set has no answer");
    instance_close(&t);
}

/* ---- state -------------------------------------------------------------------------------------- */

static void state_comes_back(const char *backend)
{
    const char *mask = mask_file("state.wav", 2, 5000, RATE, 12);
    for (int mapped = 0; mapped < 2; mapped++) {
        struct lv2_host_state state = {0};
        struct instance t = instance_open("stereo", RATE, 4000, 64, WORKER_AT_ONCE, backend);
        lv2_host_send_mask(t.host, mask, 0);
        instance_run(&t, 64);
        check(lv2_host_save(t.host, &state, mapped) == 0, "save failed");
        check(strncmp(state.value, "session:", 8) == (mapped ? 0 : strncmp(mask, "session:", 8)), "saved %s",
              state.value);
        check(state.size == strlen(state.value) + 1, "%zu bytes", state.size);
        check(state.flags == (mapped ? 3u : 1u), "flags %u", state.flags); /* a bare path is not portable */
        instance_close(&t);

        for (int w = WORKER_AT_ONCE; w <= WORKER_THREAD; w++)
            for (int when = 0; when < 3; when++) { /* before activate(), during run(), between two calls of run() */
                t = instance_open("stereo", RATE, 60 * RATE, 64, w, backend);
                if (when == 0) {
                    lv2_host_deactivate(t.host);
                    check(lv2_host_restore(t.host, &state, mapped, true) == 0, "restore failed");
                    lv2_host_activate(t.host);
                } else {
                    instance_run(&t, 200);
                    check(lv2_host_restore(t.host, &state, mapped, when == 1) == 0, "restore failed");
                }
                instance_run(&t, 64);
                instance_settle(&t);
                int from = when == 0 && w == WORKER_AT_ONCE ? 0 : t.n;
                instance_run_random(&t, 2000, 100, 13);
                check_mix(&t, mask, wet_only, 0, from, t.n);
                struct lv2_host_state empty = {0}, again = {0};
                check(lv2_host_save(t.host, &again, mapped) == 0 && strcmp(again.value, state.value) == 0,
                      "saved %s, then %s", state.value, again.value);
                check(lv2_host_restore(t.host, &empty, mapped, true) == 0, "an empty state was refused");
                instance_run(&t, 64);
                instance_settle(&t);
                from = t.n;
                instance_run_random(&t, 2000, 100, 14);
                check_mix(&t, shipped("hall.wav"), wet_only, 0, from, t.n);
                instance_close(&t);
            }
    }
}

static void both_sides_are_in_the_state(const char *backend)
{
    const char *mask = mask_file("side.wav", 2, 5000, RATE, 12);
    struct lv2_host_state second = {0}, state = {.second = &second};
    struct instance t = instance_open("stereo", RATE, 16000, 64, WORKER_AT_ONCE, "-");
    instance_run(&t, 64);
    check(lv2_host_save(t.host, &state, false) == 0 && second.size == 1, "an empty side has %zu bytes", second.size);
    lv2_host_send_side(t.host, SIDE_B, mask, 0);
    instance_run(&t, 64);
    instance_run(&t, 64);
    check(strcmp(lv2_host_notified_side(t.host, SIDE_B), mask) == 0, "the host does not hear of the mask of B");
    instance_run_random(&t, 2000, 100, 13);
    check_mix(&t, shipped("hall.wav"), wet_only, 0, t.n - 1000, t.n);
    check(lv2_host_save(t.host, &state, false) == 0, "save failed");
    check(strcmp(state.value, shipped("hall.wav")) == 0 && strcmp(second.value, mask) == 0, "saved %s and %s",
          state.value, second.value);
    instance_close(&t);
    for (int when = 0; when < 3; when++) { /* before activate(), during run(), between two calls of run() */
        t = instance_open("stereo", RATE, 16000, 64, WORKER_AT_ONCE, "-");
        if (when > 0) instance_run(&t, 64);
        *lv2_host_control(t.host, A_B) = SIDE_B;
        if (when == 0) lv2_host_deactivate(t.host);
        check(lv2_host_restore(t.host, &state, false, when < 2) == 0, "restore failed");
        if (when == 0) lv2_host_activate(t.host);
        for (int i = 0; i < 20; i++) instance_run(&t, 64);
        int from = t.n + 1500;
        instance_run_random(&t, 4000, 100, 14);
        check_mix(&t, mask, wet_only, 0, from, t.n);
        *lv2_host_control(t.host, A_B) = SIDE_A;
        for (int i = 0; i < 20; i++) instance_run(&t, 64);
        from = t.n + 1500;
        instance_run_random(&t, 4000, 100, 15);
        check_mix(&t, shipped("hall.wav"), wet_only, 0, from, t.n);
        instance_close(&t);
    }
}

static void a_preset_changes_side_a_and_a_session_both(const char *backend)
{
    const char *a = mask_file("a.wav", 2, 500, RATE, 1), *b = mask_file("b.wav", 2, 700, RATE, 2);
    static struct lv2_host_state second, state = {.second = &second}, preset, session;
    struct instance t = instance_open("stereo", RATE, 6000, 64, WORKER_AT_ONCE, "-");
    check(lv2_host_save(t.host, &session, true) == 0, "save failed");
    lv2_host_send_mask(t.host, a, 0);
    instance_run(&t, 64);
    check(lv2_host_save(t.host, &preset, true) == 0, "save failed"); /* of A only */
    check(lv2_host_restore(t.host, &session, true, true) == 0, "restore failed");
    lv2_host_send_side(t.host, SIDE_B, b, 0);
    instance_run(&t, 64);
    check(lv2_host_restore(t.host, &preset, true, true) == 0, "restore failed");
    instance_run(&t, 64);
    check(lv2_host_save(t.host, &state, false) == 0 && strcmp(state.value, a) == 0 && strcmp(second.value, b) == 0,
          "after a preset, A is %s, B is %s", state.value, second.value);
    instance_close(&t);
    t = instance_open("stereo", RATE, 6000, 64, WORKER_AT_ONCE, "-");
    static struct lv2_host_state none, whole = {.second = &none};
    check(lv2_host_save(t.host, &whole, true) == 0, "save failed"); /* side B is empty */
    lv2_host_send_side(t.host, SIDE_B, b, 0);
    instance_run(&t, 64);
    check(lv2_host_restore(t.host, &whole, true, true) == 0, "restore failed");
    instance_run(&t, 64);
    check(lv2_host_save(t.host, &state, false) == 0 && second.size == 1, "B of a session that has none is %s",
          second.value);
    instance_close(&t);
}

/* The output is the input, from frame `first` on. */
static void check_dry(const struct instance *t, int first)
{
    for (int ch = 0; ch < t->variant->n_out; ch++)
        for (int i = first; i < t->n; i++) {
            float want = t->in[t->variant->n_in == 1 ? 0 : ch][i];
            check(t->out[ch][i] == want, "channel %d, frame %d: got %g, want %g", ch, i, (double)t->out[ch][i],
                  (double)want);
        }
}

/* Another mask, or silence, would not be the sound of the session. */
static void a_lost_mask_passes_dry_sound_and_says_so(const char *backend)
{
    static const char *const names[] = {"stereo", "mono", "mono_to_stereo", "matrix_4"};
    for (int w = WORKER_AT_ONCE; w <= WORKER_NONE; w++)
        for (int when = 0; when < 3; when++) { /* before activate(), during run(), between two calls of run() */
            if (w == WORKER_NONE && when == 1) continue;
            struct instance t = instance_open(names[(w + when) % 4], RATE, 60 * RATE, 64, w, "-");
            struct lv2_host_state state = {0};
            check(lv2_host_save(t.host, &state, false) == 0, "save failed");
            state.size = (size_t)sprintf(state.value, "/nonexistent/gone.wav") + 1;
            if (when == 0) lv2_host_deactivate(t.host);
            if (when != 0) instance_run(&t, 200);
            lv2_host_log(t.host);
            check(lv2_host_restore(t.host, &state, false, when == 1) == 0, "restore failed");
            if (when == 0) lv2_host_activate(t.host);
            instance_run(&t, 64);
            instance_settle(&t);
            const char *log = lv2_host_log(t.host), *status = lv2_host_status(t.host);
            check(strstr(log, "error: haloconv: /nonexistent/gone.wav") &&
                      strstr(log, "warning: haloconv: the sound passes dry"),
                  "worker %d, restored %d: log \"%s\"", w, when, log);
            check(strncmp(status, "dry: /nonexistent/gone.wav", 26) == 0, "worker %d, restored %d: status \"%s\"", w,
                  when, status);
            int from = when == 0 ? 0 : t.n;
            *lv2_host_control(t.host, BACKEND) = BACKEND_CPU; /* another engine is no other mask */
            instance_run(&t, 64);
            instance_settle(&t);
            check_dry(&t, from);
            lv2_host_restore(t.host, &(struct lv2_host_state){0}, false, when == 1); /* the plugin's own mask */
            if (w == WORKER_NONE && when == 0) lv2_host_deactivate(t.host), lv2_host_activate(t.host);
            instance_run(&t, 64);
            instance_settle(&t);
            from = t.n;
            instance_run_random(&t, 2000, 100, 13);
            check(strcmp(lv2_host_status(t.host), "ok") == 0, "worker %d, restored %d: the status is not ok", w, when);
            check_mix(&t, shipped(t.variant->mask), wet_only, 0, from, t.n);
            instance_close(&t);
        }
}

/* The file is gone when the session is loaded: the state must keep the chosen path. */
static void a_lost_file_stays_in_the_state(const char *backend)
{
    struct lv2_host_state state = {0}, again = {0};
    struct instance t = instance_open("stereo", RATE, 4000, 64, WORKER_AT_ONCE, "-");
    check(lv2_host_save(t.host, &state, true) == 0, "save failed");
    instance_close(&t);
    state.size = (size_t)sprintf(state.value, "session:/nonexistent/gone.wav") + 1;
    for (int playing = 0; playing < 2; playing++) {
        t = instance_open("stereo", RATE, 4000, 64, WORKER_AT_ONCE, "-");
        if (playing) instance_run(&t, 64);
        lv2_host_log(t.host);
        if (!playing) lv2_host_deactivate(t.host);
        check(lv2_host_restore(t.host, &state, true, true) == 0, "restore failed");
        if (!playing) lv2_host_activate(t.host);
        instance_run(&t, 64);
        check_log(&t, "error: haloconv: /nonexistent/gone.wav");
        check(lv2_host_save(t.host, &again, true) == 0 && strcmp(again.value, state.value) == 0, "saved %s",
              again.value);
        lv2_host_send_mask(t.host, shipped("hall.wav"), 0); /* a chosen mask replaces the lost one */
        instance_run(&t, 64);
        check(lv2_host_save(t.host, &again, false) == 0 && strcmp(again.value, shipped("hall.wav")) == 0, "saved %s",
              again.value);
        instance_close(&t);
    }
}

/* ---- real time, many, and long ------------------------------------------------------------------ */

static void run_allocates_nothing_and_takes_no_lock(const char *backend)
{
    if (SANITIZED) check_skip("a sanitizer brings its own malloc");
    const char *longer = mask_file("longer.wav", 2, 30000, RATE, 15), *like = mask_file("like.wav", 2, 29000, RATE, 16);
    struct instance t = instance_open("stereo", RATE, 60 * RATE, 64, WORKER_THREAD, "-");
    *lv2_host_control(t.host, FREEWHEEL) = 0;
    check(!lv2_host_caught(t.host), "the trap was set before it was asked for");
    for (int i = 0; i < 12; i++) {
        const char *paths[] = {longer, like, "/nonexistent", shipped("hall.wav")};
        lv2_host_send_mask(t.host, paths[i % 4], 10);
        lv2_host_send_get(t.host);
        lv2_host_send_junk(t.host, (unsigned)i);
        *lv2_host_control(t.host, WET) = (float)(-i % 5);
        *lv2_host_control(t.host, PREDELAY) = (float)(i % 3);
        *lv2_host_control(t.host, ENABLED) = (float)(i % 2);
        *lv2_host_control(t.host, BACKEND) = (float)(i % 5 == 4);
        instance_run(&t, 64);
        instance_settle(&t);
        instance_run_random(&t, 3000, 300, 17);
        const char *caught = lv2_host_caught(t.host);
        check(!caught, "run() reached %s", caught);
    }
    instance_close(&t);
}

struct child {
    struct instance instance;
    int n_runs;
};

static int run_many(void *arg)
{
    struct child *c = arg;
    for (int i = 0; i < c->n_runs; i++) instance_run(&c->instance, 1 + i % 100);
    return 0;
}

static void run_makes_no_system_call(const char *backend)
{
    if (SANITIZED) check_skip("a sanitizer makes system calls of its own");
    struct child c = {instance_open("stereo", RATE, 20000, 64, WORKER_NONE, "-"), 200};
    instance_run(&c.instance, 64);
    int fate = trap_child(run_many, &c);
    check(fate == 0, "%s", fate == SIGSYS ? "run() made a system call" : "run() ended the child");
    instance_close(&c.instance);
}

static void fifty_instances(const char *backend)
{
    enum { N = SANITIZED ? 8 : 50 };
    struct instance t[N];
    for (int i = 0; i < N; i++) {
        t[i] = instance_open(i % 2 ? "stereo" : "mono_to_stereo", RATE, 2000, 64, WORKER_AT_ONCE, backend);
        lv2_host_send_mask(t[i].host, shipped("room.wav"), 0);
    }
    for (int k = 0; k < 30; k++)
        for (int i = 0; i < N; i++) instance_run(&t[i], 64);
    for (int i = 0; i < N; i++) {
        check_log(&t[i], backend);
        check_mix(&t[i], shipped("room.wav"), wet_only, 0, 0, t[i].n);
        instance_close(&t[i]);
    }
}

/* Everything that a session does to a plugin, in random order. valgrind and the sanitizers find leaks and uses after
 * free; the test checks that the output stays finite. */
static void churn(const char *backend)
{
    struct random r = random_seeded(18);
    const char *masks[] = {mask_file("a.wav", 2, 700, RATE, 19), mask_file("b.wav", 4, 6000, 44100, 20),
                           mask_file("c.wav", 1, 20000, RATE, 21), "/nonexistent/d.wav"};
    int rounds = getenv("HC_TEST_ROUNDS") ? atoi(getenv("HC_TEST_ROUNDS")) : 12;
    for (int round = 0; round < rounds; round++) {
        enum lv2_host_worker worker = (enum lv2_host_worker)(round % 4);
        const char *name = round % 6 == 5 ? "binaural" : round % 3 ? "stereo" : "true_stereo";
        struct instance t = instance_open(name, RATE, 100000, 1 << random_int(&r, 0, 9), worker, backend);
        struct lv2_host_state state = {0};
        int n_acts = t.variant->n_sources > 0 ? 15 : 60; /* a bank takes 0.3 s to load */
        for (int i = 0; i < n_acts && t.n < t.cap - 9000; i++) {
            int what = random_int(&r, 0, 11);
            if (what < 3) lv2_host_send_mask(t.host, masks[random_int(&r, 0, 3)], random_int(&r, 0, 50));
            if (what == 3) lv2_host_save(t.host, &state, i % 2);
            if (what == 4) lv2_host_restore(t.host, &(struct lv2_host_state){0}, false, true);
            if (what == 5) *lv2_host_control(t.host, PREDELAY) = (float)random_int(&r, 0, 500);
            if (what == 5) *lv2_host_control(t.host, AZIMUTH) = (float)random_int(&r, -180, 180);
            if (what == 6) *lv2_host_control(t.host, BACKEND) = (float)random_int(&r, 0, 2);
            if (what == 7) *lv2_host_control(t.host, FREEWHEEL) = (float)random_int(&r, 0, 1);
            if (what == 8 && !lv2_host_busy(t.host)) lv2_host_deactivate(t.host), lv2_host_activate(t.host);
            if (what == 9) lv2_host_send_junk(t.host, random_u32(&r));
            instance_run(&t, what == 10 ? 0 : what == 11 ? random_int(&r, 1, 8192) : random_int(&r, 1, 300));
        }
        for (int ch = 0; ch < 2; ch++)
            for (int i = 0; i < t.n; i++) check(isfinite(t.out[ch][i]), "round %d: frame %d is not finite", round, i);
        instance_close(&t); /* in the middle of whatever is under way */
    }
}

int main(void)
{
    static const struct test tests[] = {
        TEST(every_plugin_plays_its_mask, ONCE_A_DEVICE),
        TEST(any_block_in_place, ONCE_A_DEVICE),
        TEST(the_engine_has_the_block_of_a_host_whose_runs_are_alike, 0),
        TEST(masks_are_resampled, ONCE_A_DEVICE),
        TEST(channels_follow_the_rule, ONCE_A_DEVICE),
        TEST(matrices_load_configurations, ONCE_A_DEVICE),
        TEST(a_mask_comes_with_its_tail, ONCE_A_DEVICE),
        TEST(nothing_clicks, ONCE_A_DEVICE),
        TEST(knobs_mix, ONCE_A_DEVICE),
        TEST(bypass_is_the_input, ONCE_A_DEVICE),
        TEST(silence_is_silence_whatever_comes_in, ONCE_A_DEVICE),
        TEST(activate_forgets, ONCE_A_DEVICE),
        TEST(a_bad_file_changes_nothing, ONCE_A_DEVICE),
        TEST(work_that_was_dropped_at_deactivate_is_done_later, false),
        TEST(a_host_without_a_worker_gets_the_mask, false),
        TEST(junk_is_left_alone, false),
        TEST(messages_of_an_empty_block_are_answered_in_the_next, false),
        TEST(state_comes_back, ONCE_A_DEVICE),
        TEST(both_sides_are_in_the_state, false),
        TEST(a_preset_changes_side_a_and_a_session_both, false),
        TEST(a_lost_file_stays_in_the_state, false),
        TEST(a_lost_mask_passes_dry_sound_and_says_so, false),
        TEST(run_allocates_nothing_and_takes_no_lock, false),
        TEST(run_makes_no_system_call, false),
        TEST(fifty_instances, ONCE_A_DEVICE),
        TEST(churn, ONCE_A_DEVICE),
    };
    return check_main("lv2", tests, sizeof tests / sizeof *tests);
}
