/* The plugin core without a standard: two masks of a session, A and B, and Trim. The test is the audio thread and the
 * worker in turn: core_work runs only where the test calls it. */
#include "check.h"
#include "dsp/live/loudness.h"
#include "played.h"
#include "plugins/core/core.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RATE = 48000, BLOCK = 256, CAP = 40 * RATE, FADE_FRAMES = RATE / 40 };

struct stage {
    struct core *core;
    int n; /* frames that were played */
    float *in[2], *out[2];
};

static void no_log(void *data, int level, const char *text) {}

static struct stage stage_open(enum core_worker worker, const char *a, const char *b)
{
    struct stage s = {0};
    struct random r = random_seeded(31);
    char folder[CORE_PATH_BYTES], why[400];
    snprintf(folder, sizeof folder, "%s/haloconv.lv2/", getenv("BUILD") ? getenv("BUILD") : "build");
    for (int ch = 0; ch < 2; ch++) {
        s.in[ch] = noise(&r, CAP);
        s.out[ch] = must_alloc(CAP, sizeof(float));
    }
    s.core = core_new(&variants[2], folder, &(struct core_host){NULL, worker, no_log, NULL});
    check(s.core && core_open(s.core, RATE, BLOCK, why, sizeof why), "%s", why);
    core_set(s.core, BACKEND, BACKEND_CPU);
    core_restore_masks(s.core, a, b);
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
    core_get_status(s->core, path, now);
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

/* ---- promises ---------------------------------------------------------------------------------- */

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
        check(core_answer(s.core, number, why) == CORE_FAILED && why[0], "side %d has no answer", side);
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
    core_restore_masks(s.core, loud, ""); /* the comparison ends */
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
        TEST(a_side_plays_its_mask, false),
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
