/* The plugin core without a standard: loads, events, meters, two masks of a session, A and B, and Trim. The test is the
 * audio thread and the worker in turn: except with CORE_LOADER, core_work runs only where the test calls it. */
#include "check.h"
#include "dsp/live/loudness.h"
#include "haloconv_live.h"
#include "played.h"
#include "plugins/core/core.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEREO = 2, RATE = 48000, BLOCK = 256, CAP = 40 * RATE, FADE_FRAMES = RATE / 40 };

struct stage {
    struct core *core;
    int n; /* frames that were played */
    float *in[2], *out[2];
};

static int n_lines, n_loading; /* lines of the log; those that came while it loaded */
static struct core *loading;
static hc_live *live_seen; /* of the last hc_live_load */

static void count_line(void *data, int level, const char *text)
{
    n_lines++;
    n_loading += loading && core_is_loading(loading);
}

static struct core *open_core(const struct variant *variant, enum core_worker worker)
{
    char folder[CORE_PATH_BYTES], why[400];
    snprintf(folder, sizeof folder, "%s/haloconv.lv2/", getenv("BUILD") ? getenv("BUILD") : "build");
    struct core *core = core_new(variant, folder, &(struct core_host){NULL, worker, count_line, NULL});
    check(core && core_open(core, RATE, BLOCK, why, sizeof why), "%s", why);
    return core;
}

static struct stage stage_open(enum core_worker worker, const char *a, const char *b)
{
    struct stage s = {0};
    struct random r = random_seeded(31);
    for (int ch = 0; ch < 2; ch++) {
        s.in[ch] = noise(&r, CAP);
        s.out[ch] = must_alloc(CAP, sizeof(float));
    }
    s.core = open_core(&variants[STEREO], worker);
    core_set(s.core, BACKEND, BACKEND_CPU);
    core_restore_masks(s.core, CORE_KEEP_SIDE, a, b);
    core_activate(s.core);
    return s;
}

static void stage_close(struct stage *s)
{
    core_free(s->core);
    for (int ch = 0; ch < 2; ch++) free(s->in[ch]), free(s->out[ch]);
}

static void play(struct stage *s, int frames)
{
    for (int end = s->n + frames; s->n < end; s->n += BLOCK) {
        check(s->n + BLOCK <= CAP, "the input is too short");
        core_process(s->core, (const float *const[]){s->in[0] + s->n, s->in[1] + s->n},
                     (float *const[]){s->out[0] + s->n, s->out[1] + s->n}, BLOCK, NULL);
    }
}

static void work(struct stage *s)
{
    for (int i = 0; i < 4 || core_has_work(s->core); i++) {
        play(s, BLOCK);
        if (core_has_work(s->core)) core_work(s->core);
        check(i < 100, "the work does not end");
    }
}

static void choose(struct stage *s, int side, const char *path)
{
    check(core_request_mask(s->core, side, path, strlen(path)), "%s is refused", path);
}

static void check_sides(const struct stage *s, const char *playing, const char *a, const char *b, const char *status)
{
    const char *want[] = {a, b};
    char path[CORE_PATH_BYTES], now[CORE_STATUS_BYTES];
    for (int side = 0; side < N_SIDES; side++) {
        core_get_side_mask(s->core, side, path);
        check(strcmp(path, want[side]) == 0, "side %c has %s, not %s", "AB"[side], path, want[side]);
    }
    core_get_status(s->core, now);
    hc_live_mask(live_seen, path, sizeof path);
    check(strcmp(path, playing) == 0, "%s plays, not %s", path, playing);
    check(strncmp(now, status, strlen(status)) == 0, "the status is %s, not %s", now, status);
}

/* The mask is heard after the fade that has begun, for which the thread of the masks that wait must have kept up. Before
 * 400 ms no mask is turned down to the loudness of the other. */
static void check_heard(struct stage *s, const char *path)
{
    for (int i = 0; i < FADE_FRAMES / BLOCK + 2; i++) {
        pause_us(5000);
        play(s, BLOCK);
    }
    int from = s->n;
    play(s, 1000);
    check_played(&(struct played){core_variant(s->core), RATE, s->n, s->in, s->out}, path, wet_only, 0, from, s->n);
}

/* ---- loads, events, meters ---------------------------------------------------------------------- */

/* The linker puts them in front of the calls of the core. */
int __real_hc_live_load(hc_live *live, const char *path, uint64_t number);
int __wrap_hc_live_load(hc_live *live, const char *path, uint64_t number);
int __real_hc_live_process_changes(hc_live *live, const float *const *in, float *const *out, int n,
                                   const hc_live_knob_change *changes, int n_changes);
int __wrap_hc_live_process_changes(hc_live *live, const float *const *in, float *const *out, int n,
                                   const hc_live_knob_change *changes, int n_changes);
float __real_powf(float x, float y);
float __wrap_powf(float x, float y);
static atomic_bool stalls, is_stalled; /* the disk; a read from it */
static int n_calls, n_changes_seen;
static _Thread_local int n_powers;
static hc_live_knob_change changes_seen[BLOCK + HC_N_KNOBS]; /* of the last call */

float __wrap_powf(float x, float y)
{
    n_powers++;
    return __real_powf(x, y);
}

int __wrap_hc_live_load(hc_live *live, const char *path, uint64_t number)
{
    for (const double until = now_s() + 20; atomic_load(&stalls) && now_s() < until;) {
        atomic_store(&is_stalled, true);
        pause_us(1000);
    }
    atomic_store(&is_stalled, false);
    live_seen = live;
    return __real_hc_live_load(live, path, number);
}

int __wrap_hc_live_process_changes(hc_live *live, const float *const *in, float *const *out, int n,
                                   const hc_live_knob_change *changes, int n_changes)
{
    n_calls++;
    n_changes_seen = n_changes;
    check(n_changes <= BLOCK + HC_N_KNOBS, "%d changes", n_changes);
    if (n_changes > 0) memcpy(changes_seen, changes, (size_t)n_changes * sizeof *changes);
    return __real_hc_live_process_changes(live, in, out, n, changes, n_changes);
}

static void a_stalled_disk_does_not_hold_the_host(const char *backend)
{
    char path[CORE_PATH_BYTES];
    const int threads = count_own("task");
    struct core *core = open_core(&variants[STEREO], CORE_LOADER);
    core_activate(core);
    core_shipped_path(core, "room.wav", path);
    atomic_store(&stalls, true);
    core_choose_mask(core, path);
    while (!atomic_load(&is_stalled)) pause_us(1000);
    const double start = now_s();
    core_free(core);
    check(now_s() - start < 10, "the host waits for %g s", now_s() - start);
    n_lines = 0;
    atomic_store(&stalls, false);
    for (int i = 0; count_own("task") > threads; i++) {
        check(i < 10000, "the loader does not end");
        pause_us(1000);
    }
    check(n_lines == 0, "the host is called after core_free");
}

static int set_gain(void *data, int frame)
{
    core_set(data, GAIN, frame % 20 - 10);
    core_set(data, AZIMUTH, frame);
    return frame + 1;
}

static void events_on_every_frame_do_not_cut_the_convolution(const char *backend)
{
    static float x[2][BLOCK], y[2][BLOCK];
    for (int v = 0; v < N_VARIANTS; v++) {
        if (variants[v].n_in > 2 || variants[v].n_out > 2) continue;
        struct core *core = open_core(&variants[v], CORE_NO_WORKER);
        core_activate(core);
        n_calls = 0;
        core_process(core, (const float *const[]){x[0], x[1]}, (float *const[]){y[0], y[1]}, BLOCK,
                     &(struct core_events){set_gain, core});
        const int want = variants[v].n_sources > 0 ? BLOCK / 64 : 1;
        check(n_calls == want, "%s: %d calls for a block, want %d", variants[v].symbol, n_calls, want);
        core_free(core);
    }
}

static int turn_a_gain(void *data, int frame)
{
    const int turned[] = {DRY, WET, GAIN};
    core_set(data, turned[frame % 3], -1 - frame % 20);
    core_set(data, ENABLED, 1); /* it is on */
    return frame + 1;
}

/* A gain needs one power. */
static void an_event_turns_its_own_knob_alone(const char *backend)
{
    static float x[2][BLOCK];
    const int knobs[] = {HC_DRY, HC_WET, HC_GAIN};
    float *const io[] = {x[0], x[1]};
    struct core *core = open_core(&variants[STEREO], CORE_NO_WORKER);
    core_activate(core);
    core_process(core, (const float *const *)io, io, BLOCK, NULL);
    n_powers = 0;
    core_process(core, (const float *const *)io, io, BLOCK, &(struct core_events){turn_a_gain, core});
    check(n_powers == BLOCK, "%d powers for %d events", n_powers, BLOCK);
    int from = BLOCK - n_changes_seen; /* those of the first frame may be set before */
    check(from == 0 || from == 1, "%d changes for %d events", n_changes_seen, BLOCK);
    for (int i = from, at = 0; at < n_changes_seen; i++, at++) {
        const hc_live_knob_change *c = &changes_seen[at];
        const float want = powf(10, (float)(-1 - i % 20) / 20);
        check(c->frame == i && c->knob == knobs[i % 3] && c->value == want, "frame %d, knob %d: %g, want %g", c->frame,
              c->knob, (double)c->value, (double)want);
    }
    core_process(core, (const float *const *)io, io, BLOCK, NULL);
    check(n_changes_seen == 0, "%d changes of controls that stay", n_changes_seen);
    core_free(core);
}

static void check_mask(struct core *core, const char *want)
{
    char path[CORE_PATH_BYTES];
    core_get_side_mask(core, SIDE_A, path);
    check(strcmp(path, want) == 0, "the state has %s, not %s", path, want);
}

static void a_load_that_ends_late_leaves_the_mask_of_the_state(const char *backend)
{
    char late[CORE_PATH_BYTES], state[CORE_PATH_BYTES];
    struct core *core = open_core(&variants[STEREO], CORE_HOST_WORKER);
    core_shipped_path(core, "room.wav", late);
    core_shipped_path(core, "plate.wav", state);
    core_activate(core);
    core_request_mask(core, SIDE_A, late, strlen(late));
    core_deactivate(core);
    core_restore_masks(core, CORE_KEEP_SIDE, state, "");
    core_work(core);
    check_mask(core, state);
    core_activate(core);
    check_mask(core, state);
    core_free(core);
}

static void it_is_loading_until_the_load_has_ended(const char *backend)
{
    char path[CORE_PATH_BYTES], why[CORE_STATUS_BYTES];
    struct core *core = open_core(&variants[STEREO], CORE_HOST_WORKER);
    core_activate(core);
    check(!core_is_loading(core), "nothing is loaded");
    core_shipped_path(core, "room.wav", path);
    const uint64_t loads = core_choose_mask(core, path), fails = core_choose_mask(core, "/nonexistent.wav");
    check(core_is_loading(core) && core_answer(core, fails, why) == ANSWER_PENDING,
          "it is not loading before core_work");
    loading = core;
    n_lines = n_loading = 0;
    core_work(core);
    loading = NULL;
    check(n_lines > 0 && n_loading == n_lines, "%d of %d lines came while it was loading", n_loading, n_lines);
    check(!core_is_loading(core), "it is loading after core_work");
    check(core_answer(core, loads, why) == ANSWER_REPLACED && !why[0], "the first request has an answer");
    check(core_answer(core, fails, why) == ANSWER_FAILED && strstr(why, "nonexistent"), "the answer is: %s", why);
    core_free(core);
}

static void a_state_and_a_backend_come_later_without_a_worker(const char *backend)
{
    char state[CORE_PATH_BYTES], playing[CORE_PATH_BYTES];
    struct core *core = open_core(&variants[STEREO], CORE_NO_WORKER);
    core_activate(core);
    core_shipped_path(core, "plate.wav", state);
    core_restore_masks(core, CORE_KEEP_SIDE, state, "");
    check(!core_has_work(core), "a worker loads the mask");
    core_deactivate(core);
    check(core_activate(core), "the mask is not loaded");
    hc_live_mask(live_seen, playing, sizeof playing);
    check(strcmp(playing, state) == 0, "%s plays", playing);
    core_deactivate(core);
    core_set(core, BACKEND, BACKEND_GPU);
    n_lines = 0;
    core_activate(core);
    check(n_lines > 0 && !core_has_work(core), "the log has no line about the other backend");
    core_free(core);
}

static void peaks_are_the_largest_since_the_last_question(const char *backend)
{
    float x[2][BLOCK] = {{0}}, *io[] = {x[0], x[1]};
    struct core_meters meters;
    struct core *core = open_core(&variants[STEREO], CORE_NO_WORKER);
    core_load_now(core, "/dev/null", ""); /* it cannot be loaded: the input passes */
    core_activate(core);
    core_get_meters(core, &meters);
    check(meters.in_peak == 0 && meters.out_peak == 0, "a peak before the first block");
    x[0][0] = INFINITY; /* it counts as 0 */
    core_process(core, (const float *const *)io, io, BLOCK, NULL);
    for (int i = 0; i < 3; i++) {
        memset(x, 0, sizeof x);
        x[1][40] = i == 1 ? -0.75f : 0.25f;
        core_process(core, (const float *const *)io, io, BLOCK, NULL); /* in place */
    }
    core_get_meters(core, &meters);
    check(meters.in_peak == 0.75f && fabsf(meters.out_peak - 0.75f) < 1e-6f, "peaks %g, %g", (double)meters.in_peak,
          (double)meters.out_peak);
    core_get_meters(core, &meters);
    check(meters.in_peak == 0 && meters.out_peak == 0, "the peaks come twice");
    core_free(core);
}

/* ---- two masks, Trim ---------------------------------------------------------------------------- */

static void a_side_plays_its_mask(const char *backend)
{
    const char *x = mask_file("x.wav", 2, 3000, RATE, 1), *y = mask_file("y.wav", 2, 9000, RATE, 2),
               *z = mask_file("z.wav", 1, 500, RATE, 3);
    struct stage s = stage_open(CORE_HOST_WORKER, x, "");
    choose(&s, SIDE_B, y);
    work(&s);
    check_sides(&s, x, x, y, "ok");
    check_heard(&s, x);
    core_set(s.core, A_B, SIDE_B);
    check(core_has_work(s.core), "the switch is no work");
    work(&s);
    check_sides(&s, y, x, y, "ok");
    check_heard(&s, y);
    check(core_choose_mask(s.core, z), "%s", z);
    work(&s);
    check_sides(&s, z, x, z, "ok");
    check_heard(&s, z);
    core_set(s.core, A_B, SIDE_A);
    work(&s);
    check_sides(&s, x, x, z, "ok");
    check_heard(&s, x);
    stage_close(&s);
}

static void a_path_that_is_too_long_is_refused(const char *backend)
{
    char path[CORE_PATH_BYTES + 1], mask[CORE_PATH_BYTES];
    struct stage s = stage_open(CORE_HOST_WORKER, "/x.wav", "");
    memset(path, 'x', sizeof path - 1);
    path[CORE_PATH_BYTES] = '\0';
    for (int is_active = 1; is_active >= 0; is_active--) {
        check(core_choose_mask(s.core, path) == 0, "active %d: %zu characters", is_active, strlen(path));
        core_get_side_mask(s.core, SIDE_A, mask);
        check(strcmp(mask, "/x.wav") == 0, "active %d: the mask is %s", is_active, mask);
        core_deactivate(s.core);
    }
    path[CORE_PATH_BYTES - 1] = '\0';
    check(core_choose_mask(s.core, path) > 0, "%zu characters", strlen(path));
    stage_close(&s);
}

static void an_answer_comes_with_its_mask(const char *backend)
{
    const char *masks[] = {mask_file("x.wav", 2, 300, RATE, 1), mask_file("y.wav", 2, 300, RATE, 2)};
    char why[CORE_STATUS_BYTES], path[CORE_PATH_BYTES];
    struct stage s = stage_open(CORE_LOADER, masks[0], "");
    for (int i = 1; i < 100; i++) {
        const uint64_t number = core_choose_mask(s.core, masks[i % 2]);
        const double end = now_s() + 10;
        while (core_answer(s.core, number, why) == ANSWER_PENDING && now_s() < end) {}
        core_get_side_mask(s.core, SIDE_A, path);
        check(strcmp(path, masks[i % 2]) == 0, "request %d: the session has %s", i, path);
    }
    stage_close(&s);
}

static void an_empty_side_plays_the_mask_of_the_other(const char *backend)
{
    const char *x = mask_file("x.wav", 2, 3000, RATE, 1), *y = mask_file("y.wav", 2, 900, RATE, 2);
    struct stage s = stage_open(CORE_HOST_WORKER, x, "");
    core_set(s.core, A_B, SIDE_B);
    work(&s);
    check_sides(&s, x, x, "", "ok");
    check_heard(&s, x);
    choose(&s, SIDE_B, y);
    work(&s);
    check_sides(&s, y, x, y, "ok");
    check_heard(&s, y);
    stage_close(&s);
}

/* A host may set the control and the mask before the worker runs. */
static void a_mask_goes_to_the_side_that_it_was_chosen_for(const char *backend)
{
    const char *x = mask_file("x.wav", 2, 3000, RATE, 1), *y = mask_file("y.wav", 2, 900, RATE, 2),
               *z = mask_file("z.wav", 1, 500, RATE, 3);
    struct stage s = stage_open(CORE_HOST_WORKER, x, "");
    core_set(s.core, A_B, SIDE_B);
    core_choose_mask(s.core, y);
    work(&s);
    check_sides(&s, y, x, y, "ok");
    core_choose_mask(s.core, z);
    core_set(s.core, A_B, SIDE_A);
    work(&s);
    check_sides(&s, x, x, z, "ok");
    check_heard(&s, x);
    stage_close(&s);
}

static void a_file_that_cannot_be_loaded_changes_no_side(const char *backend)
{
    const char *x = mask_file("x.wav", 2, 3000, RATE, 1), *y = mask_file("y.wav", 2, 900, RATE, 2);
    struct stage s = stage_open(CORE_HOST_WORKER, x, y);
    core_set(s.core, A_B, SIDE_B);
    work(&s);
    char why[CORE_STATUS_BYTES];
    for (int side = 0; side < N_SIDES; side++) { /* the side that plays is B */
        uint64_t number = core_request_mask(s.core, side, "/nonexistent/mask.wav", strlen("/nonexistent/mask.wav"));
        work(&s);
        check_sides(&s, y, x, y, "/nonexistent/mask.wav");
        check(core_answer(s.core, number, why) == ANSWER_FAILED && why[0], "side %d has no answer", side);
        check_heard(&s, y);
    }
    stage_close(&s);
}

static void a_side_whose_file_is_lost_passes_dry_sound(const char *backend)
{
    const char *x = mask_file("x.wav", 2, 3000, RATE, 1), *lost = "/nonexistent/b.wav";
    struct stage s = stage_open(CORE_HOST_WORKER, x, lost);
    work(&s);
    check_sides(&s, x, x, lost, lost); /* it reports the file that B lacks */
    check_heard(&s, x);
    core_set(s.core, A_B, SIDE_B);
    work(&s);
    check_sides(&s, x, x, lost, "dry: /nonexistent/b.wav");
    play(&s, FADE_FRAMES);
    for (int i = s.n - BLOCK; i < s.n; i++) check(s.out[1][i] == s.in[1][i], "frame %d is not dry", i);
    core_set(s.core, A_B, SIDE_A);
    work(&s);
    check_sides(&s, x, x, lost, "ok");
    check_heard(&s, x);
    stage_close(&s);
}

static void without_a_worker_the_side_is_that_of_activate(const char *backend)
{
    const char *x = mask_file("x.wav", 2, 3000, RATE, 1), *y = mask_file("y.wav", 2, 900, RATE, 2);
    struct stage s = stage_open(CORE_NO_WORKER, x, y);
    core_set(s.core, A_B, SIDE_B);
    play(&s, BLOCK);
    check(!core_has_work(s.core), "work for nobody");
    check_sides(&s, x, x, y, "ok");
    core_deactivate(s.core);
    core_activate(s.core);
    check_sides(&s, y, x, y, "ok");
    stage_close(&s);
}

/* Paul Kellet's filter of white noise: -3 dB an octave within 0.05 dB. Each second is the same, so that windows of whole
 * seconds have the same loudness. */
static void make_pink(float *x, int n)
{
    double b[7] = {0};
    for (int i = RATE; i < n; i++) x[i] = x[i - RATE];
    for (int i = 0; i < n; i++) {
        double white = (double)x[i] / 8;
        b[0] = 0.99886 * b[0] + white * 0.0555179;
        b[1] = 0.99332 * b[1] + white * 0.0750759;
        b[2] = 0.96900 * b[2] + white * 0.1538520;
        b[3] = 0.86650 * b[3] + white * 0.3104856;
        b[4] = 0.55000 * b[4] + white * 0.5329522;
        b[5] = -0.7616 * b[5] - white * 0.0168980;
        x[i] = (float)(b[0] + b[1] + b[2] + b[3] + b[4] + b[5] + b[6] + white * 0.5362);
        b[6] = white * 0.115926;
    }
}

/* Plays four seconds; returns the loudness of the last three. The thread of the mask that waits keeps up. */
static double loudness_of_side(struct stage *s, int side)
{
    struct loudness meter;
    core_set(s->core, A_B, side);
    int from = s->n + RATE;
    for (int end = s->n + 4 * RATE; s->n < end; pause_us(400)) work(s);
    check(loudness_open(&meter, 2, RATE), "no memory");
    loudness_add(&meter, (float *[]){s->out[0] + from, s->out[1] + from}, s->n - from);
    double lufs = loudness_get(&meter);
    loudness_close(&meter);
    return lufs;
}

static void two_masks_are_equally_loud(const char *backend)
{
    char low[4096] = "";
    for (int k = 0; k < 60; k++) snprintf(low + strlen(low), 32, "%.6f\n", pow(0.9, k)); /* a low pass */
    const char *quiet = text_file("quiet.txt", "0.05\n"), *loud = text_file("loud.txt", low);
    struct core_meters meters;
    struct stage s = stage_open(CORE_HOST_WORKER, quiet, "");
    for (int ch = 0; ch < 2; ch++) make_pink(s.in[ch], CAP);
    double alone = loudness_of_side(&s, SIDE_A);
    choose(&s, SIDE_B, loud);
    loudness_of_side(&s, SIDE_A);
    for (int round = 0; round < 2; round++) {
        double a = loudness_of_side(&s, SIDE_A), b = loudness_of_side(&s, SIDE_B);
        check(fabs(a - alone) < 0.5, "the quiet mask had %.2f LUFS alone, and has %.2f", alone, a);
        check(fabs(a - b) < 0.5, "A has %.2f LUFS, B %.2f", a, b);
    }
    core_get_meters(s.core, &meters);
    check(meters.gain_db[SIDE_A] == 0 && meters.gain_db[SIDE_B] < -20, "gains of %.1f and %.1f dB",
          (double)meters.gain_db[SIDE_A], (double)meters.gain_db[SIDE_B]);
    check_sides(&s, loud, quiet, loud, "ok");
    core_restore_masks(s.core, CORE_KEEP_SIDE, loud, ""); /* the comparison ends */
    work(&s);
    check_heard(&s, loud);
    core_get_meters(s.core, &meters);
    check(meters.gain_db[SIDE_B] == 0, "a gain without a comparison");
    stage_close(&s);
}

/* The mask falls by 60 dB; the reference is the same file, cut here. */
static void trim_cuts_both_masks(const char *backend)
{
    enum { N = 3000 };
    static char whole[N * 16], cut[N * 16];
    struct random r = random_seeded(9);
    double taps[N], peak = 0;
    int end = N;
    for (int k = 0; k < N; k++) {
        double tap = (double)random_sample(&r) * pow(10, -3.0 * k / N);
        snprintf(whole + strlen(whole), 16, "%.9f\n", tap);
        taps[k] = strtod(whole + strlen(whole) - (tap < 0 ? 13 : 12), NULL);
        peak = fmax(peak, fabs(taps[k]));
    }
    while (fabs(taps[end - 1]) < peak * pow(10, -30.0 / 20)) end--;
    for (int k = 0; k < end; k++) snprintf(cut + strlen(cut), 16, "%.9f\n", taps[k]);
    const char *other = mask_file("other.wav", 2, 700, RATE, 4), *a = text_file("whole.txt", whole),
               *want = text_file("cut.txt", cut);
    struct stage s = stage_open(CORE_HOST_WORKER, a, other);
    check(core_tail(s.core) == N && end < N - 500 && end > 500, "a tail of %u frames, %d in the end", core_tail(s.core),
          end);
    core_set(s.core, TRIM, 30);
    work(&s);
    check(core_tail(s.core) == (uint32_t)end, "a tail of %u frames, want %d", core_tail(s.core), end);
    check_sides(&s, a, a, other, "ok");
    check_heard(&s, want);
    core_set(s.core, A_B, SIDE_B);
    work(&s);
    core_set(s.core, A_B, SIDE_A); /* a ready mask is cut, too */
    work(&s);
    check_heard(&s, want);
    core_set(s.core, TRIM, NO_TRIM_DB);
    work(&s);
    check_heard(&s, a);
    core_set(s.core, TRIM, 30);
    core_deactivate(s.core);
    core_activate(s.core);
    work(&s);
    check(core_tail(s.core) == (uint32_t)end, "a tail of %u frames after activate", core_tail(s.core));
    stage_close(&s);
}

/* A response that is cut off whole must not become a tap at its delay. */
static void trim_cuts_off_whole_responses(const char *backend)
{
    const char *x = mask_file("x.wav", 1, 1000, RATE, 5);
    const char *faint = text_file("faint.conf", "/convolver/new 2 2 256 30000\n/impulse/read 1 1 1 0 0 0 1 x.wav\n"
                                                "/impulse/read 1 2 0.0001 20000 0 0 1 x.wav\n");
    struct stage s = stage_open(CORE_HOST_WORKER, faint, "");
    work(&s);
    check(core_tail(s.core) == 21000, "%s: a tail of %u frames", x, core_tail(s.core));
    core_set(s.core, TRIM, 40);
    work(&s);
    check(core_tail(s.core) <= 1000, "a tail of %u frames", core_tail(s.core));
    int from = s.n + 2 * FADE_FRAMES;
    play(&s, 22000);
    for (int i = from; i < s.n; i++) check(s.out[1][i] == 0, "frame %d has the response that is cut off", i);
    stage_close(&s);
}

static void a_reset_forgets_the_predelay(const char *backend)
{
    struct stage s = stage_open(CORE_HOST_WORKER, text_file("one.txt", "1\n"), "");
    core_set(s.core, PREDELAY, 100);
    work(&s);
    play(&s, RATE);
    core_reset(s.core);
    int from = s.n, begin = from + RATE / 10;
    play(&s, RATE / 5);
    for (int i = from; i < s.n; i++) {
        float want = i < begin ? 0 : s.in[0][i - RATE / 10];
        check(fabsf(s.out[0][i] - want) < 1e-5f, "frame %d: %g, want %g", i - from, (double)s.out[0][i], (double)want);
    }
    stage_close(&s);
}

static void a_status_lasts_until_a_control_is_set(const char *backend)
{
    const char *x = mask_file("x.wav", 2, 3000, RATE, 1);
    struct stage s = stage_open(CORE_HOST_WORKER, x, "");
    work(&s);
    check(remove(x) == 0, "%s", x);
    core_set(s.core, TRIM, 30);
    work(&s);
    work(&s);
    check_sides(&s, x, x, "", x); /* it cannot be read */
    core_set(s.core, TRIM, NO_TRIM_DB);
    work(&s);
    check_sides(&s, x, x, "", "ok");
    check_heard(&s, x = mask_file("x.wav", 2, 3000, RATE, 1));
    stage_close(&s);
}

/* The file may be gone, and a Trim that needs it is refused: the mask must still play on after the GPU. */
static void a_lost_gpu_is_replaced_and_reported(const char *backend)
{
    for (int trims = 0; trims < 3; trims++) {
        char fault[64], moved[4096];
        const char *x = mask_file("x.wav", 2, 3000, RATE, 1), *flag = text_file("flag", "");
        struct core_meters meters;
        snprintf(fault, sizeof fault, "fail %s", flag);
        snprintf(moved, sizeof moved, "%s.moved", x);
        check(remove(flag) == 0 && setenv("HC_FAULT", fault, 1) == 0, "%s", fault);
        struct stage s = stage_open(CORE_HOST_WORKER, x, "");
        core_set(s.core, BACKEND, BACKEND_GPU);
        work(&s);
        check_sides(&s, x, x, "", "ok");
        check(rename(x, moved) == 0, "%s", moved);
        if (trims == 1) core_set(s.core, TRIM, 30);
        if (trims == 1) work(&s);
        text_file("flag", "");
        if (trims == 2) core_set(s.core, TRIM, 30); /* mostly in the call of core_work that replaces the GPU */
        bool is_news = false;
        for (int i = 0; i < 60; i++) {
            play(&s, BLOCK);
            if (core_has_work(s.core) && core_work(s.core)) is_news = true;
        }
        unsetenv("HC_FAULT");
        check(is_news, "the host gets no report of a lost GPU");
        core_get_meters(s.core, &meters);
        check(strncmp(meters.engine, "cpu", 3) == 0, "%s plays", meters.engine);
        check_sides(&s, x, x, "", trims == 2 ? "" : "cuda:0"); /* 2: the GPU or the file, whichever is last */
        check(rename(moved, x) == 0, "%s", x);
        check_heard(&s, x);
        stage_close(&s);
    }
}

int main(void)
{
    static const struct test tests[] = {
        TEST(a_stalled_disk_does_not_hold_the_host, false),
        TEST(events_on_every_frame_do_not_cut_the_convolution, false),
        TEST(an_event_turns_its_own_knob_alone, false),
        TEST(a_load_that_ends_late_leaves_the_mask_of_the_state, false),
        TEST(it_is_loading_until_the_load_has_ended, false),
        TEST(a_state_and_a_backend_come_later_without_a_worker, false),
        TEST(peaks_are_the_largest_since_the_last_question, false),
        TEST(a_side_plays_its_mask, false),
        TEST(a_path_that_is_too_long_is_refused, false),
        TEST(an_answer_comes_with_its_mask, false),
        TEST(an_empty_side_plays_the_mask_of_the_other, false),
        TEST(a_mask_goes_to_the_side_that_it_was_chosen_for, false),
        TEST(a_file_that_cannot_be_loaded_changes_no_side, false),
        TEST(a_side_whose_file_is_lost_passes_dry_sound, false),
        TEST(without_a_worker_the_side_is_that_of_activate, false),
        TEST(two_masks_are_equally_loud, false),
        TEST(trim_cuts_both_masks, false),
        TEST(trim_cuts_off_whole_responses, false),
        TEST(a_reset_forgets_the_predelay, false),
        TEST(a_status_lasts_until_a_control_is_set, false),
        TEST(a_lost_gpu_is_replaced_and_reported, false),
    };
    return check_main("plugin_core", tests, sizeof tests / sizeof *tests);
}
