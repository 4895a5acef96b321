/* The binaural LV2 plugin in a host: its output for moving controls, compared with a time-varying sum in float64; its
 * bank as file and state; and its real-time rules.
 *
 * Calls of run() are blocks of 64 frames, as the host has announced: then the source is faded, in each call, to where it
 * is at the end of the call on the way to its controls.
 */
#include "dsp/live/scene_glide.h"
#include "haloconv_scenes.h"
#include "lv2_host.h"
#include "player.h"
#include "trap.h"

#include <math.h>
#include <signal.h>
#include <sndfile.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { RATE = 48000, CALL = 64 };

/* ---- banks ---------------------------------------------------------------------------------------------------- */

static char folder[64];

static void remove_folder(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    if (folder[0] && system(command) != 0) printf("%s is left behind\n", folder);
}

/* A folder of sound files, 24 directions of noise. */
static const char *bank_folder(const char *name, int n_frames, uint64_t seed)
{
    static char paths[4][256];
    static int turn;
    char *path = paths[turn++ % 4];
    if (!folder[0]) {
        strcpy(folder, "/tmp/haloconv-lv2-XXXXXX");
        check(mkdtemp(folder), "mkdtemp");
        atexit(remove_folder);
    }
    snprintf(path, sizeof *paths, "%s/%s", folder, name);
    check(mkdir(path, 0777) == 0, "%s cannot be made", path);
    struct random r = random_seeded(seed);
    float *x = must_alloc((size_t)n_frames * 2, sizeof *x);
    for (int e = 0; e < 24; e++) {
        char file[320];
        snprintf(file, sizeof file, "%s/azi_%d_ele_%d.wav", path, e % 8 * 45, e / 8 * 60 - 60);
        SF_INFO info = {.samplerate = RATE, .channels = 2, .format = SF_FORMAT_WAV | SF_FORMAT_FLOAT};
        SNDFILE *sound = sf_open(file, SFM_WRITE, &info);
        check(sound, "%s cannot be written", file);
        for (int i = 0; i < 2 * n_frames; i++) x[i] = 0.1f * random_sample(&r) * (float)exp(-2.0 * i / n_frames);
        sf_writef_float(sound, x, n_frames);
        sf_close(sound);
    }
    free(x);
    return path;
}

static const char *shipped(void)
{
    static char path[4200];
    snprintf(path, sizeof path, "%shead", lv2_host_bundle());
    return path;
}

/* ---- instances ------------------------------------------------------------------------------------------------ */

enum { MAX_CALLS = 30000 };

struct aed {
    float azimuth, elevation, distance;
};

struct instance {
    struct lv2_host *host;
    enum lv2_host_worker worker;
    int n, cap;
    float *in, *out[2]; /* [cap] */
    struct aed controls;
    struct glide glide;
    struct steer_target places[MAX_CALLS]; /* at the end of call c */
};

static struct instance *instance_open_for(int nominal, enum lv2_host_worker worker, const char *backend)
{
    struct instance *t = must_alloc(1, sizeof *t);
    struct random r = random_seeded(5);
    t->worker = worker;
    t->cap = CALL * MAX_CALLS;
    t->in = noise(&r, t->cap);
    for (int ch = 0; ch < 2; ch++) t->out[ch] = must_alloc((size_t)t->cap, sizeof(float));
    t->host = lv2_host_open("binaural", RATE, 8192, nominal, worker);
    *lv2_host_control(t->host, BACKEND) = backend[0] == '-'   ? BACKEND_AUTO
                                          : backend[1] == 'p' ? BACKEND_CPU
                                                              : BACKEND_GPU;
    *lv2_host_control(t->host, FREEWHEEL) = 1;
    lv2_host_activate(t->host);
    return t;
}

static struct instance *instance_open(enum lv2_host_worker worker, const char *backend)
{
    return instance_open_for(CALL, worker, backend);
}

static void instance_close(struct instance *t)
{
    lv2_host_close(t->host);
    free(t->in);
    for (int ch = 0; ch < 2; ch++) free(t->out[ch]);
    free(t);
}

static void instance_move(struct instance *t, struct aed place)
{
    *lv2_host_control(t->host, AZIMUTH) = place.azimuth;
    *lv2_host_control(t->host, ELEVATION) = place.elevation;
    *lv2_host_control(t->host, DISTANCE) = place.distance;
}

static struct steer_target place_of(struct aed c)
{
    const float degree = 3.14159265f / 180;
    float across = c.distance * cosf(c.elevation * degree);
    return (struct steer_target){
        {across * cosf(c.azimuth * degree), across * sinf(c.azimuth * degree), c.distance * sinf(c.elevation * degree)},
        1 / c.distance,
        -1,
        0};
}

/* The position of the source in a call of n frames: it glides (scene_glide.h) to the position of the controls. */
static void follow_controls(struct instance *t, int n)
{
    struct aed now = {*lv2_host_control(t->host, AZIMUTH), *lv2_host_control(t->host, ELEVATION),
                      *lv2_host_control(t->host, DISTANCE)};
    struct glide_clock clock = {.frame = t->n, .n = n < CALL ? n : CALL, .rate = RATE};
    struct steer_target to = place_of(now);
    if (t->n == 0)
        glide_jump(&t->glide, &to);
    else if (memcmp(&now, &t->controls, sizeof now) != 0)
        glide_to(&t->glide, &to, -1, &clock);
    t->controls = now;
    glide_at(&t->glide, t->n + n, &t->places[t->n / CALL]);
}

static void instance_run(struct instance *t, int n)
{
    check(t->n + n <= t->cap, "the test asks for more than its own %d frames", t->cap);
    follow_controls(t, n);
    lv2_host_connect_audio(t->host, (float *[]){t->in + t->n}, (float *[]){t->out[0] + t->n, t->out[1] + t->n});
    lv2_host_run(t->host, n);
    t->n += n;
}

static void instance_play(struct instance *t, int n_calls)
{
    for (int i = 0; i < n_calls; i++) instance_run(t, CALL);
}

/* Plays until the worker is idle and the crossfade has ended. */
static void instance_settle(struct instance *t)
{
    time_t start = time(NULL);
    struct steer_target to = place_of(t->controls);
    glide_jump(&t->glide, &to); /* as another bank does */
    while (lv2_host_busy(t->host)) {
        instance_run(t, CALL);
        pause_us(1000);
        check(time(NULL) - start < 60, "the worker is not done after a minute");
    }
    instance_play(t, t->worker != WORKER_THREAD || !SANITIZED ? 100 : 1000);
}

/* ---- the expected output -------------------------------------------------------------------------------------- */

struct mix {
    int n, entry[HC_MAX_MIX];
    float weight[HC_MAX_MIX];
};

static struct mix mix_of(const hc_bank_data *bank, struct steer_target place)
{
    struct mix mix;
    mix.n = hc_bank_mix(bank, place.position, mix.entry, mix.weight);
    for (int k = 0; k < mix.n; k++) mix.weight[k] *= place.gain;
    return mix;
}

/* One frame of an output as a static mix plays it. */
static double mix_frame(const hc_bank_data *bank, const struct mix *mix, const float *in, int frame, int out)
{
    double sum = 0;
    for (int k = 0; k < mix->n; k++) {
        const float *taps = bank->taps[mix->entry[k] * bank->n_out + out];
        double one = 0;
        for (int i = 0; i < bank->n_taps && i <= frame; i++) one += (double)taps[i] * (double)in[frame - i];
        sum += (double)mix->weight[k] * one;
    }
    return sum;
}

/* The bank at this path, as the plugin prepares banks; valid until the next call. */
static const hc_bank_data *bank_at(const char *path)
{
    static char loaded[4200];
    static hc_bank_data bank = {.size = sizeof bank};
    hc_bank_options options = {.size = sizeof options, .grid_deg = 4, .normalise = 1};
    char why[512];
    if (strcmp(loaded, path) == 0) return &bank;
    hc_bank_data_free(&bank);
    check(hc_bank_load(path, RATE, &options, &bank, why, sizeof why) == HC_OK, "%s", why);
    snprintf(loaded, sizeof loaded, "%s", path);
    return &bank;
}

/* Checks calls first...last - 1 with the bank at this path. */
static void check_calls(const struct instance *t, const char *path, int first, int last)
{
    const hc_bank_data *bank = bank_at(path);
    double peak = 0, worst = 0;
    int worst_frame = 0;
    for (int i = first * CALL; i < last * CALL; i++) peak = fmax(peak, fabs((double)t->out[0][i]));
    check(peak > 0, "silence");
    for (int c = first; c < last; c++) { /* before the first call the source is straight ahead */
        struct mix now = mix_of(bank, t->places[c]);
        struct mix old = mix_of(bank, c > 0 ? t->places[c - 1] : place_of((struct aed){0, 0, 1}));
        for (int i = 0; i < CALL; i += 9) { /* 0, 9, ... 63: every call has its edges */
            double g = (i + 1.0) / CALL;
            for (int ch = 0; ch < 2; ch++) {
                int frame = c * CALL + i;
                double want = g * mix_frame(bank, &now, t->in, frame, ch);
                if (i < CALL - 1) want += (1 - g) * mix_frame(bank, &old, t->in, frame, ch);
                double off = fabs((double)t->out[ch][frame] - want);
                if (!(off <= worst) && !isnan(worst)) worst = off, worst_frame = frame; /* NaN stays */
            }
        }
    }
    check(worst <= PEAK_SHARE * peak, "%s: frame %d (call %d of %d to %d) is off by %.3g of %.3g", path, worst_frame,
          worst_frame / CALL, first, last, worst, peak);
}

/* ---- output --------------------------------------------------------------------------------------------------- */

static void a_source_follows_its_controls(const char *backend)
{
    struct instance *t = instance_open(WORKER_AT_ONCE, backend);
    struct random r = random_seeded(3);
    instance_move(t, (struct aed){-100, 20, 2});
    instance_play(t, 10);
    for (int i = 0; i < 100; i++) { /* once round, through the wrap of azimuth, at three degrees a call */
        instance_move(t, (struct aed){remainderf(-100 + 3.6f * (float)i, 360), 20 - (float)i, 1 + 0.05f * (float)i});
        instance_run(t, CALL);
    }
    for (int i = 0; i < 60; i++) { /* anywhere, every other call */
        if (i % 2 == 0)
            instance_move(t, (struct aed){(float)random_int(&r, -180, 180), (float)random_int(&r, -90, 90),
                                          0.1f * (float)random_int(&r, 1, 200)});
        instance_run(t, CALL);
    }
    check(*lv2_host_control(t->host, LATENCY) == 0 && *lv2_host_control(t->host, LATE) == 0, "latency %g, late %g",
          (double)*lv2_host_control(t->host, LATENCY), (double)*lv2_host_control(t->host, LATE));
    check_calls(t, shipped(), 0, t->n / CALL);
    instance_close(t);
}

static void controls_out_of_range_count_as_the_nearest(const char *backend)
{
    struct instance *t = instance_open(WORKER_AT_ONCE, backend);
    instance_move(t, (struct aed){500, 100, 0});
    instance_play(t, 5);
    instance_move(t, (struct aed){NAN, NAN, NAN});
    instance_play(t, 15); /* the source arrives in 10 ms, which are less than 8 calls */
    for (int c = 0; c < 20; c++) t->places[c] = place_of((struct aed){c < 5 ? 180 : -180, c < 5 ? 90 : -90, 0.1f});
    check_calls(t, shipped(), 0, 5);
    check_calls(t, shipped(), 14, 20);
    instance_close(t);
}

static void gain_and_bypass_work_as_in_the_other_plugins(const char *backend)
{
    struct instance *t = instance_open(WORKER_AT_ONCE, backend), *louder = instance_open(WORKER_AT_ONCE, backend);
    *lv2_host_control(louder->host, GAIN) = 6;
    instance_play(t, 20);
    instance_play(louder, 20);
    for (int i = 0; i < t->n; i++)
        check(fabsf(louder->out[1][i] - powf(10, 0.3f) * t->out[1][i]) <= 1e-6f, "frame %d: %g, %g", i,
              (double)louder->out[1][i], (double)t->out[1][i]);
    *lv2_host_control(t->host, ENABLED) = 0;
    instance_play(t, 40);
    for (int i = t->n - 10 * CALL; i < t->n; i++)
        check(t->out[0][i] == t->in[i] && t->out[1][i] == t->in[i], "bypassed, frame %d: %g", i, (double)t->out[0][i]);
    instance_close(t);
    instance_close(louder);
}

/* Blocks of any length, and longer than announced: the source comes to rest where its controls are. */
static void calls_of_any_length(const char *backend)
{
    struct instance *t = instance_open(WORKER_AT_ONCE, backend);
    struct random r = random_seeded(4);
    for (int i = 0; i < 40; i++) {
        instance_move(t, (struct aed){(float)random_int(&r, -180, 180), 10, 1});
        instance_run(t, i % 10 == 9 ? 2000 : random_int(&r, 0, 300));
    }
    instance_run(t, CALL - t->n % CALL);
    int from = t->n / CALL;
    instance_play(t, 30);
    check_calls(t, shipped(), from + 15, t->n / CALL); /* the glide has ended */
    instance_close(t);
}

/* Returns the loudest line beside a moving sine, in dB of its own line and 100 Hz around it. The host announces blocks of
 * `nominal` frames, and changes the control before each run() of n. */
static double lines_of_moving_sine(int nominal, int n)
{
    enum { N = 32768, HZ = 6000, FROM = 2048 };
    struct instance *t = instance_open_for(nominal, WORKER_AT_ONCE, "-");
    for (int i = 0; i < t->cap; i++) t->in[i] = (float)(0.5 * sin(2 * 3.14159265358979 * HZ * i / RATE));
    while (t->n < FROM + N) {
        instance_move(t, (struct aed){-40 + 120 * (float)(t->n) / RATE, 0, 1});
        instance_run(t, n);
    }
    const double pi = 3.14159265358979;
    double line = 0, most = 0;
    for (int hz = HZ - 3000; hz <= HZ + 3000; hz += 15) {
        double re = 0, im = 0;
        for (int i = 0; i < N; i++) {
            double window = 0.42 - 0.5 * cos(2 * pi * i / N) + 0.08 * cos(4 * pi * i / N);
            re += window * (double)t->out[1][FROM + i] * cos(2 * pi * hz * i / RATE);
            im += window * (double)t->out[1][FROM + i] * sin(2 * pi * hz * i / RATE);
        }
        double level = re * re + im * im;
        if (abs(hz - HZ) <= 100) line = fmax(line, level);
        if (abs(hz - HZ) > 100) most = fmax(most, level);
    }
    instance_close(t);
    return 10 * log10(most / line);
}

/* If nearest entries were played, not mixes, there would be lines of -13 dB. */
static void a_moving_source_makes_no_steps(const char *backend)
{
    double db = lines_of_moving_sine(CALL, CALL);
    check(db <= -55, "steps make lines of %.1f dB", db);
}

static void automation_of_long_blocks_makes_no_steps(const char *backend)
{
    /* A host cuts its block at the events of automation, or does not. */
    for (int n = SANITIZED ? 1024 : 64; n <= 1024; n *= 16) {
        double db = lines_of_moving_sine(1024, n);
        check(db <= -55, "run() of %d frames: steps make lines of %.1f dB", n, db);
    }
}

/* ---- the bank ------------------------------------------------------------------------------------------------- */

static void a_bank_replaces_another_while_the_source_moves(const char *backend)
{
    const char *path = bank_folder("other", 300, 8);
    for (int w = WORKER_AT_ONCE; w <= WORKER_THREAD; w++) {
        struct instance *t = instance_open(w, backend);
        instance_play(t, 10);
        lv2_host_send_mask(t->host, path, 0);
        instance_move(t, (struct aed){70, 0, 1});
        instance_run(t, CALL);
        instance_settle(t);
        check(strcmp(lv2_host_notified(t->host), path) == 0 && strcmp(lv2_host_status(t->host), "ok") == 0,
              "told of another bank");
        int from = t->n / CALL;
        for (int i = 0; i < 20; i++) {
            instance_move(t, (struct aed){70 + 5 * (float)i, 0, 1});
            instance_run(t, CALL);
        }
        check_calls(t, path, from, t->n / CALL);
        instance_close(t);
    }
}

static void a_bad_bank_changes_nothing(const char *backend)
{
    struct instance *t = instance_open(WORKER_AFTER_RUN, backend);
    instance_play(t, 10);
    instance_settle(t);
    const char *broken = bank_folder("broken", 50, 1);
    char file[400];
    snprintf(file, sizeof file, "%s/azi_90_ele_0.wav", broken);
    check(truncate(file, 30) == 0, "%s cannot be cut", file);
    const char *bad[] = {"/nonexistent.sofa", broken, "/dev/null"};
    for (int i = 0; i < 3; i++) {
        lv2_host_log(t->host);
        lv2_host_send_mask(t->host, bad[i], 0);
        instance_run(t, CALL);
        instance_settle(t);
        const char *log = lv2_host_log(t->host);
        check(strstr(log, "error: haloconv: ") && strstr(log, bad[i]) && strstr(log, ";"), "%s: log \"%s\"", bad[i],
              log);
        check(strcmp(lv2_host_notified(t->host), shipped()) == 0, "told of another bank than plays");
        check(strstr(lv2_host_status(t->host), bad[i]), "%s is not in the status", bad[i]);
    }
    check_calls(t, shipped(), 0, 20);
    check_calls(t, shipped(), t->n / CALL - 20, t->n / CALL);
    instance_close(t);
}

static void state_comes_back(const char *backend)
{
    struct lv2_host_state state = {0}, again = {0};
    const char *path = bank_folder("state", 200, 9);
    struct instance *t = instance_open(WORKER_AT_ONCE, backend);
    lv2_host_send_mask(t->host, path, 0);
    instance_run(t, CALL);
    check(lv2_host_save(t->host, &state, true) == 0 && strcmp(state.value + 8, path) == 0, "saved %s", state.value);
    instance_close(t);
    for (int when = 0; when < 3; when++) { /* before activate(), during run(), between two calls of run() */
        t = instance_open(WORKER_AFTER_RUN, backend);
        if (when == 0) lv2_host_deactivate(t->host);
        if (when != 0) instance_play(t, 3);
        check(lv2_host_restore(t->host, &state, true, when == 1) == 0, "restore failed");
        if (when == 0) lv2_host_activate(t->host);
        instance_move(t, (struct aed){-30, 40, 1});
        instance_run(t, CALL);
        instance_settle(t);
        int from = t->n / CALL;
        instance_play(t, 10);
        check_calls(t, path, from, from + 10);
        check(lv2_host_save(t->host, &again, true) == 0 && strcmp(again.value, state.value) == 0, "saved %s",
              again.value);
        instance_close(t);
    }
}

static void a_lost_bank_passes_dry_sound_and_says_so(const char *backend)
{
    struct instance *t = instance_open(WORKER_AT_ONCE, "-");
    struct lv2_host_state state = {0};
    check(lv2_host_save(t->host, &state, false) == 0, "save failed");
    state.size = (size_t)sprintf(state.value, "/nonexistent/gone.sofa") + 1;
    lv2_host_deactivate(t->host);
    check(lv2_host_restore(t->host, &state, false, false) == 0, "restore failed");
    lv2_host_activate(t->host);
    instance_play(t, 10);
    check(strncmp(lv2_host_status(t->host), "dry: /nonexistent/gone.sofa", 27) == 0, "the status is not dry");
    for (int i = 0; i < t->n; i++)
        check(t->out[0][i] == t->in[i] && t->out[1][i] == t->in[i], "frame %d: %g", i, (double)t->out[0][i]);
    lv2_host_send_mask(t->host, shipped(), 0);
    instance_run(t, CALL);
    instance_settle(t);
    int from = t->n / CALL;
    instance_play(t, 10);
    check_calls(t, shipped(), from, from + 10);
    instance_close(t);
}

/* ---- real time ------------------------------------------------------------------------------------------------ */

static void run_allocates_nothing_and_takes_no_lock(const char *backend)
{
    if (SANITIZED) check_skip("a sanitizer brings its own malloc");
    const char *paths[] = {bank_folder("first", 400, 10), "/nonexistent", bank_folder("second", 350, 11), shipped()};
    struct instance *t = instance_open(WORKER_THREAD, "-");
    *lv2_host_control(t->host, FREEWHEEL) = 0;
    check(!lv2_host_caught(t->host), "the trap was set before it was asked for");
    for (int i = 0; i < 8; i++) {
        lv2_host_send_mask(t->host, paths[i % 4], 10);
        for (int k = 0; k < 60; k++) {
            instance_move(t, (struct aed){(float)(7 * k % 360 - 180), (float)(k % 90), 0.1f * (float)(k + 1)});
            *lv2_host_control(t->host, GAIN) = (float)(-k % 5);
            instance_run(t, CALL);
        }
        instance_settle(t);
        const char *caught = lv2_host_caught(t->host);
        check(!caught, "run() reached %s", caught);
    }
    instance_close(t);
}

static int run_many(void *arg)
{
    struct instance *t = arg;
    for (int i = 0; i < 200; i++) {
        instance_move(t, (struct aed){(float)(7 * i % 360 - 180), (float)(i % 90), 1});
        instance_run(t, 1 + i % 100);
    }
    return 0;
}

static void run_makes_no_system_call(const char *backend)
{
    if (SANITIZED) check_skip("a sanitizer makes system calls of its own");
    struct instance *t = instance_open(WORKER_NONE, "-");
    instance_run(t, CALL);
    int fate = trap_child(run_many, t);
    check(fate == 0, "%s", fate == SIGSYS ? "run() made a system call" : "run() ended the child");
    instance_close(t);
}

int main(void)
{
    static const struct test tests[] = {
        TEST(a_source_follows_its_controls, ONCE_A_DEVICE),
        TEST(controls_out_of_range_count_as_the_nearest, false),
        TEST(gain_and_bypass_work_as_in_the_other_plugins, ONCE_A_DEVICE),
        TEST(calls_of_any_length, ONCE_A_DEVICE),
        TEST(a_moving_source_makes_no_steps, false),
        TEST(automation_of_long_blocks_makes_no_steps, false),
        TEST(a_bank_replaces_another_while_the_source_moves, ONCE_A_DEVICE),
        TEST(a_bad_bank_changes_nothing, false),
        TEST(state_comes_back, false),
        TEST(a_lost_bank_passes_dry_sound_and_says_so, false),
        TEST(run_allocates_nothing_and_takes_no_lock, false),
        TEST(run_makes_no_system_call, false),
    };
    return check_main("lv2_binaural", tests, sizeof tests / sizeof *tests);
}
