/* One table of promises of the plugins, kept in each standard (plugin_driver.h): sound, changes while they play,
 * states, presets, texts of values, and the rules of the audio thread. lv2_test.c, clap_test.c and vst3_test.c have the
 * promises of one standard.
 *
 * The host renders, so that a busy machine does not fail a test, and a mask is there with the next block. A promise
 * that runs on each backend sets the plugin's own control; the log must name the backend.
 */
#include "haloconv_masks.h"
#include "recording.h"
#include "trap.h"

#include <locale.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { RATE = 48000, STATE_BYTES = PLUGIN_STATE_BYTES, LONG_CAP = (SANITIZED ? 30 : 5) * RATE };

static struct recording open_on(const struct plugin_driver *driver, const char *backend, struct plugin_setup setup,
                                int cap)
{
    setup.backend = backend[0] == '-' ? BACKEND_AUTO : backend[1] == 'p' ? BACKEND_CPU : BACKEND_GPU;
    return recording_open(driver, &setup, cap);
}

static void check_backend(const struct recording *r, const char *backend)
{
    if (backend[0] != '-') check_log(r, backend);
}

/* ---- the library -------------------------------------------------------------------------------- */

/* Hosts of LV2 read its Turtle files instead. */
static void a_scan_is_fast_and_opens_nothing(const struct plugin_driver *driver, const char *backend)
{
    if (driver->missing) check_skip(driver->missing);
    const int files = count_own("fd");
    const clock_t start = clock();
    for (int v = 0; v < N_VARIANTS; v++) {
        struct plugin p;
        plugin_make(&p, driver, &(struct plugin_setup){.variant = variants[v].symbol, .rate = RATE, .max_frames = 64});
        plugin_close(&p);
    }
    check_scan(files, start);
}

/* ---- blocks ------------------------------------------------------------------------------------- */

static void every_plugin_plays_its_mask(const struct plugin_driver *driver, const char *backend)
{
    for (int v = 0; v < N_VARIANTS; v++)
        for (int way = 0; way < (driver->has_doubles ? 4 : 2); way++) { /* in place and not, 32 and 64 bits */
            if (variants[v].n_sources > 0 || (way % 2 && variants[v].n_in != variants[v].n_out)) continue;
            const struct plugin_setup setup = {.variant = variants[v].symbol, .max_frames = 128, .is_double = way / 2};
            struct recording r = open_on(driver, backend, setup, SANITIZED ? 3000 : 9000);
            r.in_place = way % 2;
            recording_play_random(&r, r.cap / 2, 700, 1);
            check_backend(&r, backend);
            recording_play_random(&r, r.cap - r.n, 5, 2);
            check_mix(&r, shipped_mask(variants[v].mask), wet_only, 0, 0, r.n);
            check(driver->latency(r.p) == 0 && driver->meter(r.p, LATE) == 0, "latency %u, late %g",
                  driver->latency(r.p), driver->meter(r.p, LATE));
            check(driver->meter(r.p, LOAD) > 0, "load %g", driver->meter(r.p, LOAD));
            recording_close(&r);
        }
}

static void any_block(const struct plugin_driver *driver, const char *backend)
{
    static const int blocks[] = {1, 2, 63, 64, 65, 441, 1024, 8192};
    const char *mask = mask_file("four.wav", 4, 9000, RATE, 3);
    for (int b = 0; b < 8; b++)
        for (int way = 0; way < (driver->has_doubles ? 4 : 2); way++) {
            const struct plugin_setup setup = {.variant = "true_stereo",
                                               .mask = mask,
                                               .max_frames = blocks[7 - b], /* the host announces another */
                                               .is_double = way / 2};
            struct recording r = open_on(driver, backend, setup, 16384);
            r.in_place = way % 2;
            for (int i = 0; i < 3000 && r.n + blocks[b] <= r.cap; i++) recording_play(&r, blocks[b]);
            check_mix(&r, mask, wet_only, 0, 0, r.n);
            if (driver->notified)
                check(strcmp(driver->notified(r.p), mask) == 0, "the host is notified of no mask, or of another one");
            recording_close(&r);
        }
}

static void another_rate_or_block_plays_the_same_mask(const struct plugin_driver *driver, const char *backend)
{
    static const int rates[] = {44100, 96000, 22050, 22050, 48000}, blocks[] = {64, 512, 300, 1, 4096};
    const char *mask = mask_file("rates.wav", 2, 3000, RATE, 9);
    struct recording r = open_on(driver, backend, (struct plugin_setup){.variant = "stereo", .mask = mask}, 60000);
    recording_play(&r, 64);
    for (int i = 0; i < 5; i++) {
        if (i == 2) {
            mask = mask_file("newer.wav", 2, 200000, RATE, 10);
            driver->choose(r.p, mask, 0);               /* a loader has no time for it */
            if (driver->is_busy) recording_play(&r, 1); /* LV2's message comes with a block */
        }
        plugin_deactivate(r.p);
        plugin_activate(r.p, rates[i], blocks[i]);
        const int from = r.n;
        recording_play_random(&r, 8000, 600, 3);
        check_mix(&r, mask, wet_only, from, from, r.n);
    }
    recording_close(&r);
}

static void channels_follow_the_rule(const struct plugin_driver *driver, const char *backend)
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
        struct recording r = open_on(driver, backend, (struct plugin_setup){.variant = cases[i].variant}, 20000);
        recording_play(&r, 64);
        driver->log(r.p);
        driver->choose(r.p, mask, 0);
        recording_settle(&r);
        const int from = r.n;
        recording_play_random(&r, 2000, 100, i);
        const bool is_left = r.p->variant->n_out == 1 && cases[i].n_channels == 2;
        const char *log = driver->log(r.p), *status = driver->status ? driver->status(r.p) : NULL;
        check(is_left == (strstr(log, "left channel") != NULL) && strstr(log, "rule.wav"),
              "%s, %d channels: log \"%s\"", cases[i].variant, cases[i].n_channels, log);
        check(!status || (is_left == (strstr(status, "left channel") != NULL) &&
                          cases[i].fits == (is_left || !strcmp(status, "ok"))),
              "%s, %d channels: status \"%s\"", cases[i].variant, cases[i].n_channels, status);
        if (cases[i].fits)
            check_mix(&r, mask, wet_only, 0, from, r.n);
        else if (driver->keeps_its_mask)
            check_mix(&r, shipped_mask(r.p->variant->mask), wet_only, 0, 0, r.n);
        else
            check_dry(&r, from);
        recording_close(&r);
    }
}

static void matrices_load_configurations(const struct plugin_driver *driver, const char *backend)
{
    mask_file("conf.wav", 2, 700, RATE, 22);
    const char *fits =
        text_file("fits.conf", "/convolver/new 3 4 256 2000\n/impulse/read 1 1 1 0 0 0 1 conf.wav\n"
                               "/impulse/read 3 1 0.5 30 0 0 2 conf.wav\n/impulse/read 2 4 -1 0 0 0 1 conf.wav\n");
    const char *wide = text_file("wide.conf", "/convolver/new 5 4 256 2000\n/impulse/read 5 1 1 0 0 0 1 conf.wav\n");
    struct recording r = open_on(driver, backend, (struct plugin_setup){.variant = "matrix_4", .mask = fits}, 20000);
    recording_play_random(&r, 2000, 200, 23);
    driver->log(r.p);
    driver->choose(r.p, wide, 0);
    const int chosen = r.n;
    recording_settle(&r);
    check_log(&r, "has 5 inputs and 4 outputs, but this session has 4 and 4; ");
    check_mix(&r, fits, wet_only, 0, 0, driver->keeps_its_mask ? r.n : chosen);
    if (!driver->keeps_its_mask) check_dry(&r, r.n - 1000);
    recording_close(&r);
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

/* A mask that is chosen while blocks play: before that the former one, after the crossfade the new one with its whole
 * tail. */
static void a_mask_comes_with_its_tail(const struct plugin_driver *driver, const char *backend)
{
    static const struct {
        int taps_before, taps_after;
    } cases[] = {{9000, 8000}, {500, 20000}, {20000, 500}};
    const int at = driver == &plugin_lv2 ? 37 : 0; /* its messages have a frame */
    for (int way = 0; way < driver->n_workers; way++)
        for (int i = 0; i < 3; i++) {
            const char *before = mask_file("before.wav", 2, cases[i].taps_before, RATE, 4);
            const char *after = mask_file("after.wav", 2, cases[i].taps_after, RATE, 5);
            struct recording r = open_on(
                driver, backend, (struct plugin_setup){.variant = "stereo", .mask = before, .way = way}, 4 * LONG_CAP);
            recording_settle(&r);
            recording_play_random(&r, 30000, 200, 6);
            const int set = r.n;
            if (driver->notified) check(strcmp(driver->notified(r.p), before) == 0, "notified of another mask");
            driver->choose(r.p, after, at);
            recording_settle(&r);
            const int delay = swap_delay(backend, cases[i].taps_before);
            recording_play_random(&r, delay, 200, 8);
            const int there = r.n;
            recording_play_random(&r, 3000, 200, 7);
            if (driver->notified) check(strcmp(driver->notified(r.p), after) == 0, "notified of another mask");
            check_mix(&r, before, wet_only, 0, set - 3000, set + at);
            if (way == 0) check_mix(&r, after, wet_only, 0, set + at + delay + RATE / 50, there);
            check_mix(&r, after, wet_only, 0, there, r.n);
            recording_close(&r);
        }
}

/* No step where masks, knobs and backends change: a constant goes in, so that only changes can move the output. */
static void nothing_clicks(const struct plugin_driver *driver, const char *backend)
{
    const char *half = text_file("half.txt", "0.5\n"), *one = text_file("one.txt", "1\n");
    const struct plugin_setup setup = {.variant = "stereo", .mask = one, .way = driver->n_workers / 2};
    struct recording r = open_on(driver, backend, setup, LONG_CAP);
    for (int ch = 0; ch < 2; ch++)
        for (int i = 0; i < r.cap; i++) r.in[ch][i] = 1;
    recording_settle(&r);
    const int start = r.n;
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
            driver->choose(r.p, moves[m].value > 0.5f ? one : half, 5);
        else
            driver->set(r.p, moves[m].control, (double)moves[m].value, 0);
        recording_settle(&r);
        const float got = r.out[1][r.n - 1];
        check(fabsf(got - moves[m].level) < 1e-5f, "move %zu: level %g, want %g", m, (double)got,
              (double)moves[m].level);
    }
    /* 20 ms from one level to the next; a smoothstep is at most 1.5 times as steep as a line. */
    double steepest = 0, allowed = 1.6 / (RATE / 50.0);
    int worst = 0;
    for (int i = start + 1; i < r.n; i++) {
        const double step = fabs((double)r.out[0][i] - (double)r.out[0][i - 1]);
        if (step > steepest) steepest = step, worst = i;
    }
    check(steepest <= allowed, "a step of %g at frame %d, allowed %g", steepest, worst, allowed);
    recording_close(&r);
}

static void controls_mix_and_bypass_is_the_input(const struct plugin_driver *driver, const char *backend)
{
    const char *mask = mask_file("mix.wav", 1, 3000, RATE, 8);
    static const char *const names[] = {"mono", "mono_to_stereo", "stereo", "matrix_8"};
    const struct mix mix = {pow(10, -7.0 / 20), pow(10, 2.0 / 20), 600};
    for (int v = 0; v < 4; v++) {
        struct recording r = open_on(driver, backend, (struct plugin_setup){.variant = names[v], .mask = mask}, 50000);
        driver->set(r.p, DRY, -6, 0);
        driver->set(r.p, WET, 3, 0);
        driver->set(r.p, GAIN, -1, 0);
        driver->set(r.p, PREDELAY, 12.5, 0);
        recording_play(&r, 0); /* the values alone */
        recording_play_random(&r, 12000, 300, 9);
        check_mix(&r, mask, mix, 0, 0, r.n);
        driver->set(r.p, ENABLED, 0, 0);
        recording_settle(&r);
        const int from = r.n;
        r.in[0][from + 100] = NAN;
        recording_play_random(&r, 6000, 300, 9);
        check_dry(&r, from);
        recording_close(&r);
        r = open_on(driver, backend, (struct plugin_setup){.variant = names[v], .mask = mask}, 6000);
        plugin_deactivate(r.p);
        driver->set_now(r.p, ENABLED, 0);
        plugin_activate(r.p, RATE, 64);
        recording_play_random(&r, 6000, 300, 9);
        check_dry(&r, 0);
        recording_close(&r);
    }
}

static void silence_is_silence_whatever_comes_in(const struct plugin_driver *driver, const char *backend)
{
    struct recording r = open_on(driver, backend, (struct plugin_setup){.variant = "stereo"}, 6000);
    recording_play(&r, 2000);
    driver->set(r.p, WET, NAN, 0); /* counts as the min. */
    recording_play(&r, 1000);      /* to the end of the ramp */
    const int from = r.n;
    for (int i = from; i < r.cap; i++) r.in[0][i] = i % 3 ? INFINITY : NAN;
    recording_play_random(&r, r.cap - from, 300, 9);
    for (int i = from; i < r.n; i++) check(r.out[0][i] == 0, "frame %d: %g", i, (double)r.out[0][i]);
    recording_close(&r);
}

static void values_are_limited(const struct plugin_driver *driver, const char *backend)
{
    static const double given[] = {1e30, -1e30, NAN, -3, INFINITY}, kept[] = {12, -90, -90, -3, 12};
    const char *one = text_file("one.txt", "1\n");
    struct recording r = recording_open(driver, &(struct plugin_setup){.variant = "mono", .mask = one}, LONG_CAP);
    for (int i = 0; i < r.cap; i++) r.in[0][i] = 1;
    for (int i = 0; i < 5; i++) {
        driver->set(r.p, WET, given[i], 0);
        recording_settle(&r);
        const double got = (double)r.out[0][r.n - 1], want = kept[i] <= -90 ? 0 : pow(10, kept[i] / 20);
        check(fabs(got - want) <= 1e-5 * want, "a gain of %g dB: level %g, want %g", given[i], got, want);
    }
    recording_close(&r);
}

static void reset_forgets(const struct plugin_driver *driver, const char *backend)
{
    const struct mix mix = {0, 1, 144};
    struct recording r = open_on(driver, backend, (struct plugin_setup){.variant = "stereo"}, 100000);
    driver->set(r.p, PREDELAY, 3, 0);
    recording_play_random(&r, 50000, 300, 9); /* once around the delay line */
    int from = r.n;
    for (int i = 0; i < 2; i++) {
        driver->reset(r.p);
        recording_play_random(&r, 8000, 300, 10);
        check_mix(&r, shipped_mask("hall.wav"), mix, 0, 47000, 50000);
        check_mix(&r, shipped_mask("hall.wav"), mix, from, from, r.n);
        from = r.n;
    }
    const char *mask = mask_file("other.wav", 2, 3000, RATE, 9);
    driver->choose(r.p, mask, 0);
    recording_settle(&r);
    recording_play_random(&r, 4000, 300, 3);
    check_mix(&r, mask, mix, 0, r.n - 4000, r.n);
    plugin_deactivate(r.p);
    from = r.n;
    plugin_activate(r.p, RATE, 500);
    recording_play_random(&r, 5000, 300, 4);
    check_mix(&r, mask, mix, from, from, r.n);
    recording_close(&r);
}

static void values_change_at_their_frame(const struct plugin_driver *driver, const char *backend)
{
    enum { N = 4096, AT = 1234, THEN = 3001, LAST = 3500 };
    struct recording one = recording_open_stereo(driver, N), two = recording_open_stereo(driver, N);
    driver->set(one.p, WET, -20, AT);
    driver->set(one.p, PREDELAY, 7, THEN);
    driver->set(one.p, ENABLED, 0, LAST);
    recording_play(&one, N);
    recording_play(&two, AT);
    driver->set(two.p, WET, -20, 0);
    recording_play(&two, THEN - AT);
    driver->set(two.p, PREDELAY, 7, 0);
    recording_play(&two, LAST - THEN);
    driver->set(two.p, ENABLED, 0, 0);
    recording_play(&two, N - LAST);
    check_same(&one, &two, 1e-6);
    recording_close(&one), recording_close(&two);
}

static void a_plugin_sleeps_when_its_tail_has_ended(const struct plugin_driver *driver, const char *backend)
{
    enum { SOUND = 1000, TAPS = 20000 };
    const char *mask = mask_file("tail.wav", 2, TAPS, RATE, 10);
    struct recording r = recording_open(driver, &(struct plugin_setup){.variant = "stereo", .mask = mask}, 120000);
    for (int ch = 0; ch < 2; ch++) memset(r.in[ch] + SOUND, 0, (size_t)(r.cap - SOUND) * sizeof(float));
    driver->set(r.p, PREDELAY, 50, 0);
    for (int round = 0; round < 2; round++) {
        const int end = r.n + SOUND + TAPS;
        while (r.n < end) {
            recording_play(&r, 250);
            check(!r.p->is_silent, "it sleeps at frame %d", r.n);
        }
        const unsigned tail = driver->tail(r.p);
        check(tail >= TAPS + 2400 && tail < TAPS + 2400 + 1000, "a tail of %u frames", tail);
        while (!r.p->is_silent) recording_play(&r, 250);
        const int slept = r.n;
        recording_play(&r, 8000);
        check(r.p->is_silent, "it wakes up");
        for (int i = slept - 250; i < r.n; i++) check(r.out[0][i] == 0, "frame %d is %g", i, (double)r.out[0][i]);
        for (int i = 0; i < SOUND; i++) r.in[0][r.n + i] = 1;
    }
    recording_close(&r);
}

/* ---- texts -------------------------------------------------------------------------------------- */

static void check_texts(struct plugin *p)
{
    struct random random = random_seeded(7);
    for (int c = 0; c < N_CONTROLS; c++)
        for (int k = 0; variant_has_setting(p->variant, c) && k < 400; k++) {
            char text[128], again[128];
            const double min = (double)controls[c].min, max = (double)controls[c].max;
            double x = min + (max - min) * random_int(&random, 0, 9999) / 9999, back, third;
            if (k < 4) x = (const double[]){min, max, min + 0.04, -0.04}[k];
            if (x < min) x = min;
            if (controls[c].kind >= CONTROL_INTEGER) x = rint(x);
            p->driver->text(p, c, x, text);
            check(text[0] && p->driver->read(p, c, text, &back), "%s: %s is no value", controls[c].name, text);
            check(fabs(back - x) <= 0.0501 + 1e-6 * fabs(x), "%s: %g is %s, which is %g", controls[c].name, x, text,
                  back);
            p->driver->text(p, c, back, again);
            check(strcmp(text, again) == 0, "%s: %s becomes %s", controls[c].name, text, again);
            check(!strchr(text, ',') && strncmp(text, "-0.0", 4) != 0, "%s", text);
            if (controls[c].kind >= CONTROL_INTEGER) continue;
            text[strcspn(text, " \302")] = '\0'; /* without its unit */
            check(p->driver->read(p, c, text, &third) && third == back, "%s: %s", controls[c].name, text);
        }
}

static void texts_and_values_agree(const struct plugin_driver *driver, const char *backend)
{
    struct plugin p;
    const struct plugin_setup setup = {.variant = "stereo", .rate = RATE, .max_frames = 64};
    plugin_make(&p, driver, &(struct plugin_setup){.variant = "binaural", .rate = RATE, .max_frames = 64});
    check_texts(&p);
    plugin_close(&p);
    plugin_make(&p, driver, &setup);
    check_texts(&p);
    static const struct {
        enum control control;
        const char *text;
        double value;
    } reads[] = {{WET, "-6", -6},           {WET, " -6 DB", -6}, {WET, "-inf dB", -90}, {WET, "400", 12},
                 {BACKEND, "gpu", 2},       {BACKEND, "1", 1},   {ENABLED, "on", 0},    {ENABLED, "Off", 1},
                 {PREDELAY, "10ms", 10},    {A_B, "b", 1},       {TRIM, "60 dB", 60},   {TRIM, "inf dB", NO_TRIM_DB},
                 {TRIM, "off", NO_TRIM_DB}, {WET, "off", -90}};
    double value;
    for (size_t i = 0; i < sizeof reads / sizeof *reads; i++)
        check(driver->read(&p, reads[i].control, reads[i].text, &value) && fabs(value - reads[i].value) < 1e-5,
              "%s is %g", reads[i].text, value);
    for (size_t i = sizeof reads / sizeof *reads - 2; i < sizeof reads / sizeof *reads; i++) {
        char text[128];
        driver->text(&p, reads[i].control, reads[i].value, text);
        check(strcmp(text, "Off") == 0, "%g is \"%s\"", reads[i].value, text);
    }
    static const char *const bad[] = {"", "loud", "nan", "1 s", "3 dB extra", "--1", "0x"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        check(!driver->read(&p, WET, bad[i], &value), "\"%s\" is %g", bad[i], value);
    plugin_close(&p);
}

static void a_decimal_comma_of_the_host_changes_no_text(const struct plugin_driver *driver, const char *backend)
{
    static const char state[] = "haloconv plugin 1\nvariant stereo\nwet -7.5\nend\n";
    static char folder[4096];
    char command[9000], text[STATE_BYTES];
    struct plugin p;
    if (!folder[0]) { /* it takes a second */
        const char *file = text_file("x.txt", "1");
        snprintf(folder, sizeof folder, "%.*s", (int)(strrchr(file, '/') - file), file);
        snprintf(command, sizeof command, "localedef -i de_DE -f UTF-8 %s/de_DE.UTF-8 >%s 2>&1", folder, file);
        if (system(command) != 0) check_skip("localedef makes no locale with a decimal comma");
    }
    setenv("LOCPATH", folder, 1);
    if (!setlocale(LC_ALL, "de_DE.UTF-8")) check_skip("localedef makes no locale with a decimal comma");
    check(localeconv()->decimal_point[0] == ',', "no decimal comma");
    plugin_make(&p, driver, &(struct plugin_setup){.variant = "stereo", .rate = RATE, .max_frames = 64});
    check_texts(&p);
    check(driver->load(&p, state, strlen(state), STATE_BYTES) && driver->save(&p, text, STATE_BYTES),
          "the state is refused");
    check(strstr(text, "\nwet -7.5\n"), "%s", text);
    plugin_close(&p);
    setlocale(LC_ALL, "C");
    unsetenv("LOCPATH");
}

/* ---- states ------------------------------------------------------------------------------------- */

static void set_random(struct plugin *p, struct random *random)
{
    for (int c = 0; c < N_CONTROLS; c++)
        if (variant_has_setting(p->variant, c))
            p->driver->set_now(p, c,
                               (double)controls[c].min +
                                   (double)(controls[c].max - controls[c].min) * random_int(random, 0, 999) / 999);
}

static void states_come_back(const struct plugin_driver *driver, const char *backend)
{
    static const int chunks[] = {STATE_BYTES, 1, 7, 100};
    const bool is_text = driver->value; /* LV2's state has paths alone, and a newline ends one in our text of it */
    const char *mask = mask_file(is_text ? "state \\ \n.wav" : "state \\ .wav", 2, 500, RATE, 12);
    struct random random = random_seeded(3);
    for (int i = 0; i < 16; i++) {
        char text[STATE_BYTES], again[STATE_BYTES];
        const struct plugin_setup setup = {.variant = i % 4 == 3 ? "binaural" : "stereo",
                                           .mask = i % 4 == 1 ? mask : NULL,
                                           .rate = RATE,
                                           .max_frames = 64};
        struct plugin a, b;
        plugin_make(&a, driver, &setup);
        plugin_make(&b, driver, &(struct plugin_setup){.variant = setup.variant, .rate = RATE, .max_frames = 64});
        set_random(&a, &random);
        check(driver->save(&a, text, chunks[i / 4]), "save");
        check(driver->load(&b, text, strlen(text), chunks[i / 4]), "load: %s", driver->log(&b));
        check(driver->save(&b, again, STATE_BYTES) && strcmp(text, again) == 0, "%s became %s", text, again);
        check(!is_text || (i % 4 == 1) == (strstr(text, "\nmask") != NULL), "%s", text);
        for (int c = 0; is_text && c < N_CONTROLS; c++)
            if (variant_has_setting(a.variant, c))
                check(fabs(driver->value(&a, c) - driver->value(&b, c)) < 1e-5, "%s: %g and %g", controls[c].name,
                      driver->value(&a, c), driver->value(&b, c));
        plugin_close(&a), plugin_close(&b);
    }
}

static void a_state_plays_while_active_and_before(const struct plugin_driver *driver, const char *backend)
{
    const char *mask = mask_file("saved.wav", 2, 5000, RATE, 12);
    char text[STATE_BYTES], again[STATE_BYTES];
    struct recording a = open_on(driver, backend, (struct plugin_setup){.variant = "stereo", .mask = mask}, 1000);
    driver->set(a.p, GAIN, -6, 0);
    recording_play(&a, 64);
    check(driver->save(a.p, text, STATE_BYTES), "save");
    recording_close(&a);
    for (int way = 0; way < driver->n_ways; way++)
        for (int is_active = 0; is_active < 2; is_active++) {
            struct recording b =
                open_on(driver, backend, (struct plugin_setup){.variant = "stereo", .way = way}, LONG_CAP);
            recording_play(&b, 500);
            if (!is_active) plugin_deactivate(b.p);
            check(driver->load(b.p, text, strlen(text), STATE_BYTES), "load");
            if (!is_active) plugin_activate(b.p, RATE, 64);
            recording_settle(&b);
            const int from = b.n;
            recording_play_random(&b, 4000, 300, 2);
            check_mix(&b, mask, (struct mix){0, pow(10, -6.0 / 20), 0}, is_active ? 0 : 500, from, b.n);
            check(driver->save(b.p, again, STATE_BYTES) && strcmp(text, again) == 0, "%s became %s", text, again);
            recording_close(&b);
        }
}

static void both_sides_are_in_the_state(const struct plugin_driver *driver, const char *backend)
{
    const char *masks[] = {mask_file("a.wav", 2, 3000, RATE, 11), mask_file("b.wav", 2, 5000, RATE, 12)};
    for (int is_active = 0; is_active < 2; is_active++) {
        char text[STATE_BYTES], both[600];
        snprintf(both, sizeof both, "\nmask %s\nmask_b %s\n", masks[0], masks[1]);
        snprintf(text, sizeof text, "haloconv plugin 1%sab 1\nend\n", both);
        struct recording r = recording_open_stereo(driver, LONG_CAP);
        if (is_active) recording_play(&r, 64);
        if (!is_active) plugin_deactivate(r.p);
        check(driver->load(r.p, text, strlen(text), STATE_BYTES), "%s", text);
        if (!is_active) plugin_activate(r.p, RATE, 64);
        for (int side = SIDE_B; side >= SIDE_A; side--) {
            driver->set(r.p, A_B, side, 0);
            recording_settle(&r);
            const int from = r.n;
            recording_play_random(&r, 1500, 100, 14);
            check_mix(&r, masks[side], wet_only, 0, from, r.n);
        }
        check(r.n < RATE * 2 / 5, "%d frames: after 0.4 s both sides get equally loud", r.n);
        check(driver->save(r.p, text, STATE_BYTES) && strstr(text, both), "%s", text);
        recording_close(&r);
    }
}

/* Another mask, or silence, would not be the sound of the session. */
static void a_lost_mask_passes_dry_sound(const struct plugin_driver *driver, const char *backend)
{
    static const char *const names[] = {"stereo", "mono", "mono_to_stereo", "matrix_4"};
    static const char lost[] = "haloconv plugin 1\nmask /nonexistent/gone.wav\nend\n";
    for (int i = 0; i < 4 || i < driver->n_ways; i++)
        for (int is_active = 0; is_active < 2; is_active++) {
            char own[200];
            const struct plugin_setup setup = {.variant = names[i % 4], .way = i % driver->n_ways};
            struct recording r = recording_open(driver, &setup, LONG_CAP);
            snprintf(own, sizeof own, "haloconv plugin 1\nshipped %s\nend\n", r.p->variant->mask);
            if (!is_active) plugin_deactivate(r.p);
            if (is_active) recording_play(&r, 200);
            driver->log(r.p);
            check(driver->load(r.p, lost, strlen(lost), STATE_BYTES), "load");
            if (!is_active) plugin_activate(r.p, RATE, 64);
            recording_settle(&r);
            const char *log = driver->log(r.p), *status = driver->status ? driver->status(r.p) : "dry: ";
            check(strstr(log, "/nonexistent/gone.wav") && strstr(log, "the sound passes dry"),
                  "way %d, active %d: log \"%s\"", i, is_active, log);
            check(strncmp(status, "dry: ", 5) == 0 && (!driver->status || strstr(status, "/nonexistent/gone.wav")),
                  "way %d, active %d: status \"%s\"", i, is_active, status);
            int from = is_active ? r.n : 0;
            driver->set(r.p, BACKEND, BACKEND_CPU, 0); /* another engine is no other mask */
            recording_settle(&r);
            check_dry(&r, from);
            check(driver->load(r.p, own, strlen(own), STATE_BYTES), "load");
            recording_settle(&r);
            from = r.n;
            recording_play_random(&r, 2000, 100, 13);
            if (driver->status) check(strcmp(driver->status(r.p), "ok") == 0, "way %d: the status is not ok", i);
            check_mix(&r, shipped_mask(r.p->variant->mask), wet_only, 0, from, r.n);
            recording_close(&r);
        }
}

/* The file may come back. */
static void a_lost_mask_stays_in_the_state(const struct plugin_driver *driver, const char *backend)
{
    static const char lost[] = "haloconv plugin 1\nmask /nonexistent/gone.wav\nend\n";
    for (int is_active = 0; is_active < 2; is_active++) {
        char text[STATE_BYTES];
        struct recording r = recording_open_stereo(driver, LONG_CAP);
        recording_play(&r, 64);
        if (!is_active) plugin_deactivate(r.p);
        check(driver->load(r.p, lost, strlen(lost), STATE_BYTES), "load");
        if (!is_active) plugin_activate(r.p, RATE, 64);
        recording_settle(&r);
        check_log(&r, "/nonexistent/gone.wav");
        check(driver->save(r.p, text, STATE_BYTES) && strstr(text, "\nmask /nonexistent/gone.wav\n"), "%s", text);
        driver->choose(r.p, shipped_mask("room.wav"), 0); /* a chosen mask replaces it */
        recording_settle(&r);
        const int from = r.n;
        recording_play_random(&r, 4000, 100, 13);
        check_mix(&r, shipped_mask("room.wav"), wet_only, is_active ? 0 : 64, from, r.n);
        check(driver->save(r.p, text, STATE_BYTES) && !strstr(text, "gone.wav") && strstr(text, "room.wav\n"), "%s",
              text);
        recording_close(&r);
    }
}

static void refuse_state(struct plugin *p, const char *text, size_t length, const char *what)
{
    char before[STATE_BYTES], after[STATE_BYTES];
    check(p->driver->save(p, before, STATE_BYTES), "save");
    check(!p->driver->load(p, text, length, STATE_BYTES), "%s: loaded: %.*s", what, (int)length, text);
    check(strstr(p->driver->log(p), "the state of the plugin "), "%s: the log has no reason", what);
    check(p->driver->save(p, after, STATE_BYTES) && strcmp(before, after) == 0, "%s: changes %s", what, after);
}

static void cut_and_hostile_states_change_nothing(const struct plugin_driver *driver, const char *backend)
{
    char text[STATE_BYTES], head[STATE_BYTES];
    struct random random = random_seeded(4);
    struct plugin p, other;
    plugin_make(&p, driver, &(struct plugin_setup){.variant = "stereo", .rate = RATE, .max_frames = 64});
    plugin_make(&other, driver, &(struct plugin_setup){.variant = "binaural", .rate = RATE, .max_frames = 64});
    set_random(&p, &random);
    check(driver->save(&p, text, STATE_BYTES), "save");
    driver->set_now(&p, WET, -11);
    for (size_t n = 0; n < strlen(text); n++) refuse_state(&p, text, n, "cut");
    static const char *const bad[] = {"haloconv plugin 0\nend\n",
                                      "haloconv plugin 1x\nend\n",
                                      "haloconv plugin\nend\n",
                                      "end\n",
                                      "haloconv plugin 1\nend\nend\n",
                                      "haloconv plugin 1\nwet loud\nend\n",
                                      "haloconv plugin 1\nwet nan\nend\n",
                                      "haloconv plugin 1\nwet 1 2\nend\n",
                                      "haloconv plugin 1\nwet\nend\n",
                                      "haloconv plugin 1\nmask \nend\n",
                                      "haloconv plugin 1\nmask /a\\x0\nend\n",
                                      "haloconv plugin 1\nmask /a\\x00b\nend\n",
                                      "haloconv plugin 1\nmask /a\\n\nend\n",
                                      "haloconv plugin 1\nmask /a\\\nend\n",
                                      "haloconv plugin 1\nshipped ../../etc/passwd\nend\n",
                                      "haloconv plugin 1\nshipped ..\nend\n",
                                      "haloconv plugin 1\nshipped_b ../../etc/passwd\nend\n",
                                      "haloconv plugin 1\nshipped_b \nend\n",
                                      "haloconv plugin 1\nmask_b \nend\n",
                                      "haloconv plugin 1\nmask_b /a\\x00b\nend\n",
                                      "haloconv plugin 1\ntrim off\nend\n",
                                      "haloconv plugin 1\nab B\nend\n",
                                      "haloconv plugin 1\nvariant none\nend\n",
                                      "haloconv plugin 1\nvariant binaural\nend\n"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) refuse_state(&p, bad[i], strlen(bad[i]), "bad");
    refuse_state(&p, "haloconv plugin 1\n\0\nend\n", 24, "a final 0");
    check(driver->save(&other, text, STATE_BYTES), "save");
    refuse_state(&p, text, strlen(text), "another kind of plugin");
    const int n = snprintf(head, sizeof head, "haloconv plugin 1\nmask /%05000d\nend\n", 7);
    refuse_state(&p, head, (size_t)n, "a long path");
    memset(text, 'x', sizeof text);
    refuse_state(&p, text, sizeof text, "a long text");
    plugin_close(&p), plugin_close(&other);
}

/* Any bytes: the values stay in their ranges, and what was read can be saved and read again. */
static void changed_states_are_read_or_refused(const struct plugin_driver *driver, const char *backend)
{
    char text[STATE_BYTES], changed[STATE_BYTES], again[STATE_BYTES];
    struct random random = random_seeded(6);
    struct plugin p;
    plugin_make(&p, driver, &(struct plugin_setup){.variant = "stereo", .rate = RATE, .max_frames = 64});
    check(driver->save(&p, text, STATE_BYTES), "save");
    for (int i = 0, n_read = 0; i < 4000 || n_read < 10; i++) {
        const size_t length = strlen(text);
        memcpy(changed, text, length);
        for (int k = random_int(&random, 1, 3); k > 0; k--)
            changed[random_int(&random, 18, (int)length - 1)] =
                (char)random_int(&random, k % 2 ? 32 : 0, k % 2 ? 126 : 255);
        if (!driver->load(&p, changed, length, STATE_BYTES)) continue;
        n_read++;
        for (int c = 0; c < N_CONTROLS; c++)
            if (variant_has_setting(p.variant, c))
                check(driver->value(&p, c) >= (double)controls[c].min - 1e-5 &&
                          driver->value(&p, c) <= (double)controls[c].max + 1e-5,
                      "%s: %g", controls[c].name, driver->value(&p, c));
        check(driver->save(&p, changed, STATE_BYTES) && driver->load(&p, changed, strlen(changed), STATE_BYTES) &&
                  driver->save(&p, again, STATE_BYTES) && strcmp(changed, again) == 0,
              "%s became %s", changed, again);
        if (i % 512 == 0) driver->log(&p);
    }
    plugin_close(&p);
}

static void a_state_of_the_future_is_read(const struct plugin_driver *driver, const char *backend)
{
    static const char text[] = "haloconv plugin 12\nvariant mono_to_stereo\ncolour blue\nwet -7.5\nfreewheel 1\n\n"
                               "load x\ngain 1e99\nshipped room.wav\nend\n";
    char again[STATE_BYTES];
    struct plugin p;
    plugin_make(&p, driver, &(struct plugin_setup){.variant = "stereo", .rate = RATE, .max_frames = 64});
    driver->set_now(&p, DRY, 0);
    check(driver->load(&p, text, strlen(text), STATE_BYTES), "%s", driver->log(&p));
    check(driver->save(&p, again, STATE_BYTES) &&
              !strcmp(again,
                      "haloconv plugin 1\nvariant stereo\nshipped room.wav\ndry -90\nwet -7.5\ngain 24\npredelay 0\n"
                      "enabled 1\nbackend 0\ntrim 150\nab 0\nend\n"),
          "%s", again);
    plugin_close(&p);
}

static void presets_load_mask_and_gains(const struct plugin_driver *driver, const char *backend)
{
    for (int is_active = 0; is_active < 2; is_active++)
        for (int i = 0; i < N_PRESETS; i++) {
            const struct plugin_preset *preset = &plugin_presets[i];
            const double dry_db = (double)preset->values[0], wet_db = (double)preset->values[1],
                         predelay_ms = (double)preset->values[2];
            struct recording r = recording_open_stereo(driver, 30000);
            const bool is_own = strcmp(preset->file, r.p->variant->mask) == 0; /* VST3 does not load it again */
            if (!preset_fits(preset, r.p->variant)) {
                recording_close(&r);
                continue;
            }
            if (!is_active) plugin_deactivate(r.p);
            driver->choose_preset(r.p, preset);
            if (!is_active) plugin_activate(r.p, RATE, 256);
            recording_settle(&r);
            recording_play_random(&r, 8000, 300, 1);
            const int from = r.n;
            recording_play_random(&r, 4000, 300, 2);
            check(is_own || driver->n_told(r.p) == 1, "%s: the host is told %d times of new values", preset->symbol,
                  driver->n_told(r.p));
            check_mix(&r, shipped_mask(preset->file),
                      (struct mix){dry_db <= -90 ? 0 : pow(10, dry_db / 20), pow(10, wet_db / 20),
                                   (int)rint(predelay_ms * RATE / 1000)},
                      0, from, r.n);
            recording_close(&r);
        }
}

/* ---- real time, many, and long ------------------------------------------------------------------ */

/* The callback allocates nothing, and takes no lock. */
static void masks_come_while_blocks_play(const struct plugin_driver *driver, const char *backend)
{
    const char *longer = mask_file("longer.wav", 2, 30000, RATE, 15), *like = mask_file("like.wav", 2, 29000, RATE, 16);
    const char *no_mask = text_file("none.txt", "no mask\n");
    const struct plugin_setup setup = {.variant = "stereo", .is_live = true, .way = driver->n_workers - 1};
    struct recording r = recording_open(driver, &setup, 60 * RATE);
    if (!SANITIZED) check(!driver->caught(r.p), "the trap was set before it was asked for");
    for (int i = 0; i < 12; i++) {
        const char *paths[] = {longer, like, no_mask, shipped_mask("hall.wav")};
        driver->log(r.p);
        driver->choose(r.p, paths[i % 4], 10);
        if (driver->send_odd) driver->send_odd(r.p, (unsigned)i);
        driver->set(r.p, WET, -i % 5, 10);
        driver->set(r.p, PREDELAY, i % 3, 60);
        driver->set(r.p, ENABLED, i % 2, 0);
        driver->set(r.p, BACKEND, i % 5 == 4 ? BACKEND_CPU : BACKEND_AUTO, 0);
        recording_await(&r, strrchr(paths[i % 4], '/'));
        recording_play_random(&r, 3000, 300, 17);
        const char *caught = SANITIZED ? NULL : driver->caught(r.p);
        check(!caught, "the callback reached %s", caught);
    }
    recording_close(&r);
}

static int play_many(void *recording)
{
    struct recording *r = recording;
    for (int i = 0; i < 200; i++) {
        r->p->driver->set(r->p, WET, -i % 10, i % 3);
        recording_play(r, 3 + i % 100);
    }
    return 0;
}

static void process_makes_no_system_call(const struct plugin_driver *driver, const char *backend)
{
    if (SANITIZED) check_skip("a sanitizer makes system calls of its own");
    const struct plugin_setup setup = {.variant = "stereo", .is_live = true, .way = driver->n_workers}; /* no worker */
    struct recording r = recording_open(driver, &setup, 60000);
    for (double end = now_s() + 0.1; now_s() < end; pause_us(1000)) recording_play(&r, 16); /* the loader is done */
    const int fate = trap_child(play_many, &r);
    check(fate == 0, "%s", fate == SIGSYS ? "a block made a system call" : "a block ended the child");
    recording_close(&r);
}

static void fifty_instances(const struct plugin_driver *driver, const char *backend)
{
    enum { N = SANITIZED ? 8 : 50 };
    struct recording r[N];
    for (int i = 0; i < N; i++) {
        const struct plugin_setup setup = {.variant = i % 2 ? "stereo" : "mono_to_stereo",
                                           .mask = shipped_mask("room.wav")};
        r[i] = open_on(driver, backend, setup, 2000);
    }
    for (int k = 0; k < 30; k++)
        for (int i = 0; i < N; i++) recording_play(&r[i], 64);
    for (int i = 0; i < N; i++) {
        check_backend(&r[i], backend);
        check_mix(&r[i], shipped_mask("room.wav"), wet_only, 0, 0, r[i].n);
        recording_close(&r[i]);
    }
}

/* Everything that a host does to a plugin, in random order, and values of any kind. valgrind and the sanitizers find
 * leaks and uses after free; the test checks that the output stays finite. */
static void churn(const struct plugin_driver *driver, const char *backend)
{
    struct random random = random_seeded(18);
    const char *masks[] = {mask_file("a.wav", 2, 700, RATE, 19), mask_file("b.wav", 4, 6000, 44100, 20),
                           mask_file("c.wav", 1, 20000, RATE, 21), text_file("d.txt", "no mask\n")};
    const int rounds = getenv("HC_TEST_ROUNDS") ? atoi(getenv("HC_TEST_ROUNDS")) : 12;
    for (int round = 0; round < rounds; round++) {
        static const char nothing[] = "haloconv plugin 1\nend\n";
        char state[STATE_BYTES] = "";
        const struct plugin_setup setup = {.variant = round % 6 == 5 ? "binaural"
                                                      : round % 3    ? "stereo"
                                                                     : "true_stereo",
                                           .max_frames = 1 << random_int(&random, 0, 9),
                                           .is_double = driver->has_doubles && round % 2,
                                           .way = round % 4};
        struct recording r = open_on(driver, backend, setup, 200000);
        const int n_acts = r.p->variant->n_sources > 0 ? 15 : 60; /* a bank takes 0.3 s to load */
        for (int i = 0; i < n_acts && r.n < r.cap - 9000; i++) {
            const int what = random_int(&random, 0, 12);
            r.in_place = r.p->variant->n_in == r.p->variant->n_out && random_int(&random, 0, 1);
            if (what < 2) driver->choose(r.p, masks[random_int(&random, 0, 3)], random_int(&random, 0, 50));
            const struct plugin_preset *preset = &plugin_presets[random_int(&random, 0, N_PRESETS - 1)];
            if (what == 2 && driver->choose_preset && preset_fits(preset, r.p->variant))
                driver->choose_preset(r.p, preset);
            if (what == 3) driver->save(r.p, state, random_int(&random, 1, 99));
            if (what == 4) driver->load(r.p, state, strlen(state), random_int(&random, 1, 99));
            if (what == 5) driver->load(r.p, nothing, strlen(nothing), STATE_BYTES);
            if (what == 6) driver->set(r.p, FREEWHEEL, random_int(&random, 0, 1), 0);
            if (what == 7) driver->reset(r.p);
            if (what == 8 && !(driver->is_busy && driver->is_busy(r.p))) {
                plugin_deactivate(r.p);
                set_random(r.p, &random);
                plugin_activate(r.p, random_int(&random, 0, 2) ? RATE : random_int(&random, 8000, 192000),
                                random_int(&random, 1, 2000));
            }
            if (what == 9 && driver->send_odd) driver->send_odd(r.p, random_u32(&random));
            for (int k = random_int(&random, 0, 6); k > 0; k--) {
                const enum control control = random_int(&random, 0, N_CONTROLS - 1);
                const double x = random_int(&random, 0, 9) ? (double)random_sample(&random) * 200 : NAN;
                driver->set(r.p, control, x, random_int(&random, 0, 400)); /* also unsorted and too late */
            }
            recording_play(&r, what == 10   ? 0
                               : what == 11 ? random_int(&random, 1, 8192)
                                            : random_int(&random, 1, 300));
        }
        for (int ch = 0; ch < 2; ch++)
            for (int i = 0; i < r.n; i++) check(isfinite(r.out[ch][i]), "round %d: frame %d is not finite", round, i);
        recording_close(&r); /* in the middle of whatever is under way */
    }
}

/* ---- the table ---------------------------------------------------------------------------------- */

/* P(standard, promise, plays): plays as in struct test. The first ones are before any GPU is opened. */
#define PROMISES(P, standard)                                                                                          \
    P(standard, every_plugin_plays_its_mask, ONCE_A_DEVICE)                                                            \
    P(standard, any_block, ONCE_A_DEVICE)                                                                              \
    P(standard, another_rate_or_block_plays_the_same_mask, ONCE_A_DEVICE)                                              \
    P(standard, channels_follow_the_rule, ONCE_A_DEVICE)                                                               \
    P(standard, matrices_load_configurations, ONCE_A_DEVICE)                                                           \
    P(standard, a_mask_comes_with_its_tail, ONCE_A_DEVICE)                                                             \
    P(standard, nothing_clicks, ONCE_A_DEVICE)                                                                         \
    P(standard, controls_mix_and_bypass_is_the_input, ONCE_A_DEVICE)                                                   \
    P(standard, silence_is_silence_whatever_comes_in, ONCE_A_DEVICE)                                                   \
    P(standard, values_are_limited, 0)                                                                                 \
    P(standard, reset_forgets, ONCE_A_DEVICE)                                                                          \
    P(standard, states_come_back, 0)                                                                                   \
    P(standard, a_state_plays_while_active_and_before, ONCE_A_DEVICE)                                                  \
    P(standard, both_sides_are_in_the_state, 0)                                                                        \
    P(standard, a_lost_mask_passes_dry_sound, 0)                                                                       \
    P(standard, a_lost_mask_stays_in_the_state, 0)                                                                     \
    P(standard, masks_come_while_blocks_play, 0)                                                                       \
    P(standard, process_makes_no_system_call, 0)                                                                       \
    P(standard, fifty_instances, ONCE_A_DEVICE)                                                                        \
    P(standard, churn, ONCE_A_DEVICE)
/* LV2's hosts have the values, their texts and the presets, and LV2 has neither events nor a word for silence. */
#define VALUE_PROMISES(P, standard)                                                                                    \
    P(standard, values_change_at_their_frame, 0)                                                                       \
    P(standard, a_plugin_sleeps_when_its_tail_has_ended, 0)                                                            \
    P(standard, texts_and_values_agree, 0)                                                                             \
    P(standard, a_decimal_comma_of_the_host_changes_no_text, 0)                                                        \
    P(standard, cut_and_hostile_states_change_nothing, 0)                                                              \
    P(standard, changed_states_are_read_or_refused, 0)                                                                 \
    P(standard, a_state_of_the_future_is_read, 0)                                                                      \
    P(standard, presets_load_mask_and_gains, 0)
#define ALL(P)                                                                                                         \
    P(clap, a_scan_is_fast_and_opens_nothing, 0)                                                                       \
    P(vst3, a_scan_is_fast_and_opens_nothing, 0)                                                                       \
    PROMISES(P, lv2) PROMISES(P, clap) VALUE_PROMISES(P, clap) PROMISES(P, vst3) VALUE_PROMISES(P, vst3)

#define FUNCTION(standard, promise, plays)                                                                             \
    static void standard##_##promise(const char *backend)                                                              \
    {                                                                                                                  \
        promise(&plugin_##standard, backend);                                                                          \
    }
ALL(FUNCTION)

int main(void)
{
#define ENTRY(standard, promise, plays) TEST(standard##_##promise, plays),
    static const struct test tests[] = {ALL(ENTRY)};
    return check_main("plugins", tests, sizeof tests / sizeof *tests);
}
