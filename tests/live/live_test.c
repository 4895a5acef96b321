/* The live core through its public header: all promises except those about the sound, which live_scenarios_test.c and
 * session_test.c check. */
#include "check.h"
#include "dsp/live/feedback_limiter.h"
#include "haloconv_live.h"
#include "host/live/session/session.h"
#include "host/message.h"
#include "trap.h"

#include <float.h>
#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BLOCK = 64 };

static char folder[64];

static const char *mask_file(const char *name, const char *text)
{
    static char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    check(file && fputs(text, file) >= 0 && fclose(file) == 0, "%s cannot be written", path);
    return path;
}

static hc_live *open_live(const hc_live_config *config)
{
    char why[400] = "";
    hc_live *live;
    check(hc_live_open(config, &live, why, sizeof why) == HC_OK, "%s", why);
    return live;
}

static void load(hc_live *live, const char *path)
{
    hc_live_change change = {.size = sizeof change, .mask = path};
    check(hc_live_request(live, &change) == HC_OK, "%s was not taken", path);
    while (hc_live_has_work(live)) check(hc_live_work(live) == HC_OK, "%s was not loaded", path);
}

static void play(hc_live *live, float *x, float *y)
{
    const float *in[] = {x, x};
    float *out[] = {y, y + BLOCK};
    check(hc_live_process(live, in, out, BLOCK) == HC_OK, "a block was not played");
}

/* ---- promises ---------------------------------------------------------------------------------- */

static void zero_and_null_mean_the_default(const char *backend)
{
    float x[BLOCK], y[2 * BLOCK] = {0};
    hc_live_config zero = {.size = sizeof zero};
    hc_live *live = open_live(&zero), *none = open_live(NULL);
    for (int i = 0; i < BLOCK; i++) x[i] = 0.25f;
    load(live, mask_file("half.txt", "0.5\n"));
    for (int i = 0; i < 100; i++) play(live, x, y);
    check(y[0] == 0.125f && y[2 * BLOCK - 1] == 0.125f, "%g and %g, want 0.125", (double)y[0],
          (double)y[2 * BLOCK - 1]);
    check(hc_live_close(live) == HC_OK && hc_live_close(none) == HC_OK && hc_live_close(NULL) == HC_OK, "close");
}

/* Requests 1 and 4 are replaced by later ones before the worker sees them; 2 and 5 are refused. */
struct seen_answers {
    char numbers[40], why[400];
};

static void keep_answer(void *data, uint64_t number, int error, const char *why)
{
    struct seen_answers *answers = data;
    size_t at = strlen(answers->numbers);
    snprintf(answers->numbers + at, sizeof answers->numbers - at, "%s%d", error ? "!" : "", (int)number);
    if (error) snprintf(answers->why, sizeof answers->why, "%s", why);
}

/* The worker has a queue of its own: what it loads is newer than a request that waits. */
static void a_load_replaces_the_requests_before(const char *backend)
{
    struct seen_answers answers = {0};
    char path[4200];
    hc_live *live =
        open_live(&(hc_live_config){.size = sizeof(hc_live_config), .answer = keep_answer, .data = &answers});
    const char *half = mask_file("half.txt", "0.5\n"), *third = mask_file("third.txt", "0.3333\n");
    for (int is_kept = 0; is_kept < 2; is_kept++) {
        check(hc_live_keep(live, (const char *[]){half, third}, 2 * is_kept) == HC_OK, "hc_live_keep");
        while (hc_live_has_work(live)) hc_live_work(live);
        hc_live_request(live, &(hc_live_change){.size = sizeof(hc_live_change), .mask = half, .number = 1});
        check(hc_live_load(live, third, 2) == HC_OK, "%s is not loaded", third);
        hc_live_mask(live, path, sizeof path);
        check(strcmp(path, third) == 0 && strcmp(answers.numbers, is_kept ? "2!32" : "2") == 0, "%s plays; answers %s",
              path, answers.numbers);
        while (hc_live_has_work(live)) hc_live_work(live);
        hc_live_mask(live, path, sizeof path);
        check(strcmp(path, third) == 0, "%s plays", path);
        if (!is_kept) check(hc_live_load(live, "/no/first.wav", 3) == HC_EFILE, "it loads what does not exist");
    }
    memset(path, 'x', sizeof path);
    path[4096] = '\0';
    check(hc_live_load(live, path, 4) == HC_EINVAL && hc_live_load(live, NULL, 4) == HC_EINVAL, "no refusal");
    check(hc_live_load(NULL, half, 4) == HC_EINVAL && strcmp(answers.numbers, "2!32") == 0, "%s", answers.numbers);
    hc_live_close(live);
}

static void a_request_is_answered_by_its_number(const char *backend)
{
    struct seen_answers answers = {0};
    hc_live *live =
        open_live(&(hc_live_config){.size = sizeof(hc_live_config), .answer = keep_answer, .data = &answers});
    const char *half = mask_file("half.txt", "0.5\n");
    const char *paths[][2] = {{half, "/no/first.wav"}, {half, NULL}, {half, "/no/last.wav"}, {half, NULL}};
    uint64_t number = 0;
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        for (int k = 0; k < 2 && paths[i][k]; k++)
            check(hc_live_request(live, &(hc_live_change){sizeof(hc_live_change), paths[i][k], .number = ++number}) ==
                      HC_OK,
                  "request %d", (int)number);
        hc_live_request(live, &(hc_live_change){.size = sizeof(hc_live_change), .block = 128 << i});
        while (hc_live_has_work(live)) hc_live_work(live);
    }
    check(strcmp(answers.numbers, "!23!56") == 0 && strstr(answers.why, "/no/last.wav: "), "%s, %s", answers.numbers,
          answers.why);
    hc_live_close(live);
}

struct note {
    int n;
    char text[1000];
};

static void keep_note(void *data, int level, const char *text)
{
    struct note *note = data;
    note->n++;
    snprintf(note->text, sizeof note->text, "%s", text);
}

static void responses_of_the_caller_are_counted_and_reported(const char *backend)
{
    struct note note = {0};
    hc_live *live = open_live(&(hc_live_config){.size = sizeof(hc_live_config), .say = keep_note, .data = &note});
    const char *half = mask_file("half.txt", "0.5\n");
    for (int i = 0; i < 3; i++) {
        char why[400] = "";
        hc_responses responses;
        hc_live_stats stats = {.size = sizeof stats};
        float x[BLOCK] = {1}, y[2 * BLOCK];
        check(hc_responses_load(half, 0, 48000, 0, &responses, why, sizeof why) == HC_OK &&
                  hc_responses_route(&responses, half, 2, why, sizeof why) == HC_OK &&
                  hc_live_play(live, half, &responses, why, sizeof why) == HC_OK,
              "%s", why);
        play(live, x, y);
        hc_live_get_stats(live, &stats);
        check((int)stats.masks == i, "%d changes of the mask, want %d", (int)stats.masks, i);
        check(note.n == i + 1 && strstr(note.text, "half.txt: loaded, "), "line %d: '%s'", note.n, note.text);
    }
    hc_live_close(live);
}

/* A file's name may have bytes that steer a terminal. */
static void a_line_has_no_control_characters(const char *backend)
{
    struct note note = {0};
    hc_live *live = open_live(&(hc_live_config){.size = sizeof(hc_live_config), .say = keep_note, .data = &note});
    load(live, mask_file("red\033[31m\n\302\233.txt", "0.5\n"));
    check(note.n == 1 && strstr(note.text, "/red?[31m??.txt: loaded, "), "line %d: '%s'", note.n, note.text);
    hc_live_close(live);
}

/* The message names what was wrong: a mask's path, or the format. */
static void a_refused_request_is_an_error_line(const char *backend)
{
    char text[2000] = "", why[400] = "";
    struct session_settings settings = {.wet = 1, .gain = 1};
    hc_responses mask;
    hc_live_config_init(&settings.live);
    const char *one = mask_file("one.txt", "1\n");
    check(session_load(&settings, one, 48000, &mask, why, sizeof why), "%s", why);
    struct session *session = session_open(&settings, one, &mask, 48000, BLOCK, why, sizeof why);
    check(session, "%s", why);
    char *longest = must_alloc(5000, 1);
    memset(longest, 'x', 4999);
    FILE *lines = tmpfile();
    int terminal = dup(STDERR_FILENO);
    check(lines && terminal >= 0, "no file for the messages");
    dup2(fileno(lines), STDERR_FILENO);
    char answer[ANSWER_CAP];
    uint64_t number = session_request_mask(session, longest);
    check(session_answer(session, number, answer) == ANSWER_FAILED && strstr(answer, "4096 bytes"), "%s", answer);
    session_request_format(session, INT_MAX, BLOCK);
    dup2(terminal, STDERR_FILENO);
    close(terminal);
    free(longest);
    rewind(lines);
    size_t n = fread(text, 1, sizeof text - 1, lines);
    fclose(lines);
    session_close(session);
    check(n > 0 && strstr(text, "xxx: the path has 4096 bytes or more") && strstr(text, "2147483647 Hz"), "%s", text);
    check(!strstr(text, "(null)"), "%s", text);
}

static void values_out_of_range_are_refused(const char *backend)
{
    char why[400], too_long[65];
    hc_live *live = NULL;
    memset(too_long, 'x', 64);
    too_long[64] = '\0';
    const hc_live_config bad[] = {{.n_in = -1},
                                  {.n_out = 1 << 20},
                                  {.rate = -48000},
                                  {.rate = INT_MAX},
                                  {.block = -1},
                                  {.history_s = NAN},
                                  {.history_s = -9},
                                  {.history_s = 1e300},
                                  {.max_predelay_ms = INFINITY},
                                  {.max_predelay_ms = -1},
                                  {.max_predelay_ms = 4e5},
                                  {.fade_ms = NAN},
                                  {.standby_share = NAN},
                                  {.grid_deg = NAN},
                                  {.n_sources = -1},
                                  {.backend = too_long}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        hc_live_config c = bad[i];
        c.size = sizeof c;
        why[0] = '\0';
        check(hc_live_open(&c, &live, why, sizeof why) == HC_EINVAL && !live && why[0], "case %zu: \"%s\"", i, why);
    }
    struct {
        hc_live_config known;
        double unknown; /* a field of a later version */
    } later = {{.size = 0}, 1};
    const size_t sizes[] = {0, 4, sizeof(size_t), sizeof(hc_live_config) - 1, sizeof later, SIZE_MAX};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        later.known.size = sizes[i];
        why[0] = '\0';
        check(hc_live_open(&later.known, &live, why, sizeof why) == HC_EINVAL && !live && why[0], "size %zu", sizes[i]);
    }
    later.unknown = 0;
    later.known.size = sizeof later;
    check(hc_live_open(&later.known, &live, why, sizeof why) == HC_OK && hc_live_close(live) == HC_OK, "%s", why);
    live = open_live(NULL);
    hc_live_change change = {.size = sizeof change, .rate = -1};
    check(hc_live_request(live, &change) == HC_EINVAL, "a negative rate");
    change.rate = INT_MAX;
    check(hc_live_request(live, &change) == HC_EINVAL, "a rate of INT_MAX");
    char *path = must_alloc(5000, 1);
    memset(path, 'x', 4999);
    change = (hc_live_change){.size = sizeof change, .mask = path};
    check(hc_live_request(live, &change) == HC_EINVAL, "a path of 4999 bytes");
    change = (hc_live_change){.size = sizeof change, .mask = "hall.wav", .backend = path};
    check(hc_live_request(live, &change) == HC_EINVAL, "a backend of 4999 bytes");
    check(!hc_live_has_work(live) && hc_live_work(live) == HC_OK, "a refused request is work");
    float x[BLOCK] = {0}, y[2 * BLOCK];
    const float *in[] = {x, x};
    float *out[] = {y, y + BLOCK};
    check(hc_live_process(live, in, out, -1) == HC_EINVAL && hc_live_process(live, NULL, out, 1) == HC_EINVAL &&
              hc_live_process(NULL, in, out, 1) == HC_EINVAL && hc_live_process(live, in, out, 0) == HC_OK,
          "hc_live_process");
    free(path);
    hc_live_close(live);
}

/* Every call has BLOCK frames, all of them NaN: so counters of different blocks would not match. */
struct reader {
    hc_live *live;
    atomic_bool end;
    char wrong[200];
    long n;
};

static void *read_statistics(void *arg)
{
    struct reader *r = arg;
    hc_live_stats stats = {.size = sizeof stats};
    while (!atomic_load(&r->end)) {
        hc_live_get_stats(r->live, &stats);
        r->n++;
        if (stats.frames == BLOCK * stats.blocks && stats.non_finite == 2 * stats.frames) continue;
        snprintf(r->wrong, sizeof r->wrong, "%llu blocks, %llu frames, %llu NaN", (unsigned long long)stats.blocks,
                 (unsigned long long)stats.frames, (unsigned long long)stats.non_finite);
        break;
    }
    return NULL;
}

static void statistics_are_of_one_block(const char *backend)
{
    float x[BLOCK], y[2 * BLOCK];
    pthread_t thread;
    hc_live *live = open_live(NULL);
    struct reader r = {.live = live};
    for (int i = 0; i < BLOCK; i++) x[i] = NAN;
    load(live, mask_file("one.txt", "1\n"));
    check(pthread_create(&thread, NULL, read_statistics, &r) == 0, "no thread");
    for (int i = 0; i < (SANITIZED ? 20000 : 500000); i++) play(live, x, y);
    atomic_store(&r.end, true);
    pthread_join(thread, NULL);
    hc_live_close(live);
    check(!r.wrong[0] && r.n > 0, "%s", r.wrong);
}

/* Threads request masks of gain 1, 2, ... at the same time: one of the last requests plays. */
struct asker {
    hc_live *live;
    char path[4096];
};

static void *ask_often(void *arg)
{
    const struct asker *a = arg;
    hc_live_change change = {.size = sizeof change, .mask = a->path};
    for (int i = 0; i < 100000; i++)
        if (hc_live_request(a->live, &change) != HC_OK) return (void *)a;
    return NULL;
}

static void requests_of_many_threads_are_whole(const char *backend)
{
    enum { N = 4 };
    struct asker askers[N];
    pthread_t threads[N];
    hc_live *live = open_live(NULL);
    float x[BLOCK], y[2 * BLOCK];
    for (int i = 0; i < BLOCK; i++) x[i] = 1;
    for (int i = 0; i < N; i++) {
        char name[32], text[32];
        snprintf(name, sizeof name, "gain%d.txt", i);
        snprintf(text, sizeof text, "%d\n", i + 1);
        askers[i].live = live;
        snprintf(askers[i].path, sizeof askers[i].path, "%s", mask_file(name, text));
    }
    for (int i = 0; i < N; i++) check(pthread_create(&threads[i], NULL, ask_often, &askers[i]) == 0, "no thread");
    for (int i = 0; i < 200; i++) {
        check(hc_live_work(live) == HC_OK, "a path was cut or mixed");
        play(live, x, y);
    }
    for (int i = 0; i < N; i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        check(!failed, "thread %d: a request was refused", i);
    }
    while (hc_live_has_work(live)) check(hc_live_work(live) == HC_OK, "the last path");
    for (int i = 0; i < 200; i++) play(live, x, y);
    check(y[0] == 1 || y[0] == 2 || y[0] == 3 || y[0] == 4, "the output is %g", (double)y[0]);
    hc_live_close(live);
}

/* At the new rate the mask cannot be loaded, because the file is gone: the error comes once, and the next request
 * works. */
static void a_request_that_fails_is_not_tried_again(const char *backend)
{
    float x[BLOCK] = {0}, y[2 * BLOCK];
    hc_live *live = open_live(NULL);
    const char *path = mask_file("soon_gone.txt", "1\n");
    load(live, path);
    play(live, x, y);
    unlink(path);
    hc_live_change change = {.size = sizeof change, .rate = 44100};
    check(hc_live_request(live, &change) == HC_OK && hc_live_work(live) < 0, "a mask that is gone was read");
    play(live, x, y);
    check(hc_live_work(live) == HC_OK, "the failed request was tried again");
    load(live, mask_file("one.txt", "1\n")); /* at the new rate */
    hc_live_info info = {.size = sizeof info};
    hc_live_get_info(live, &info);
    check(info.rate == 44100, "rate %d", info.rate);
    hc_live_close(live);
}

static void half_a_day_of_quiet_does_not_turn_the_output_down(const char *backend)
{
    struct feedback_limiter limiter;
    feedback_limiter_open(&limiter);
    for (int i = 0; i < 24 * 6; i++) feedback_limiter_run(&limiter, NULL, 0, 48000 * 600, 48000, false); /* 24 h */
    check(limiter.n == 0 && limiter.gain == 1, "turned down %d times", (int)limiter.n);
}

/* A second of audio at 1 Hz lasts a second, and the longest fade lasts years. */
static void the_slowest_rate_and_the_longest_fade_play(const char *backend)
{
    float x[BLOCK] = {0}, y[2 * BLOCK];
    hc_live_config c;
    hc_live_config_init(&c);
    c.rate = 1;
    c.block = 8192;
    c.fade_ms = 1e300;
    hc_live *live = open_live(&c);
    float *long_x = must_alloc((size_t)c.block, sizeof *long_x),
          *long_y = must_alloc(2 * (size_t)c.block, sizeof *long_y);
    const float *in[] = {long_x, long_x};
    float *out[] = {long_y, long_y + c.block};
    for (int i = 0; i < c.block; i++) long_x[i] = 1;
    play(live, x, y); /* from here on a new mask is faded to */
    load(live, mask_file("one.txt", "1\n"));
    check(hc_live_process(live, in, out, c.block) == HC_OK, "a block of %d frames", c.block);
    check(long_y[0] >= 0 && long_y[c.block - 1] < 1e-3f, "the fade went to %g", (double)long_y[c.block - 1]);
    free(long_x);
    free(long_y);
    hc_live_close(live);
}

static void knobs_before_the_first_block_jump(const char *backend)
{
    float x[BLOCK], y[2 * BLOCK];
    hc_live_config c;
    hc_live_config_init(&c);
    c.max_predelay_ms = 10;
    hc_live *live = open_live(&c);
    for (int i = 0; i < BLOCK; i++) x[i] = 1;
    load(live, mask_file("one.txt", "1\n"));
    hc_live_set(live, HC_GAIN, 0.5f);
    hc_live_set(live, HC_PREDELAY, 3);
    hc_live_set(live, HC_GAIN, NAN);
    hc_live_set(live, HC_N_KNOBS, 7);
    check(hc_live_get(live, HC_GAIN) == 0.5f && hc_live_get(live, HC_WET) == 1 && hc_live_get(live, HC_DRY) == 0 &&
              hc_live_get(live, HC_PREDELAY) == 3 && hc_live_get(live, HC_N_KNOBS) == 0 && hc_live_get(live, -1) == 0,
          "a knob has another value than was set");
    play(live, x, y);
    for (int i = 0; i < BLOCK; i++) check(y[i] == (i < 3 ? 0 : 0.5f), "frame %d is %g", i, (double)y[i]);
    hc_live_set(live, HC_GAIN, 1);
    play(live, x, y);
    check(y[BLOCK - 1] > 0.5f && y[BLOCK - 1] < 0.6f, "a later change jumped to %g", (double)y[BLOCK - 1]);
    hc_live_reset(live);
    play(live, x, y);
    check(y[0] == 0 && y[3] == 1, "after a reset frames 0 and 3 are %g and %g", (double)y[0], (double)y[3]);
    hc_live_close(live);
}

enum when { FORGET_WHILE_IT_PLAYS, FORGET_A_NEW_ENGINE, FORGET_A_FADE, FORGET_A_READY_MASK, N_WHEN };

/* Plays noise, forgets it, and then sounds like a session that has just begun. */
/* A gain, a ramp of gains or a mask takes finite samples beyond a float. They become 0 and are counted; nothing of them
 * stays in the delay, the limiter or the meters. */
static void an_overflow_is_silent_and_counted(const char *backend)
{
    static const struct {
        enum hc_live_knob knob;
        float value, x;
    } cases[] = {{HC_WET, 1e20f, 1e30f},   {HC_DRY, FLT_MAX, 100}, {HC_GAIN, FLT_MAX, 1e30f},
                 {HC_WET, -FLT_MAX, 1000}, {HC_GAIN, 1e9f, 1e25f}, {HC_BYPASS, 1e30f, 1e30f}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
        for (int ramps = 0; ramps < 2; ramps++) {
            float x[BLOCK], y[2 * BLOCK], in_peak, out_peak, none[2];
            hc_live_stats stats = {.size = sizeof stats};
            hc_live_config config = {.size = sizeof config, .max_predelay_ms = 10, .limit_feedback = 1};
            hc_live *live = open_live(&config);
            load(live, mask_file("loud.txt", "1e5 1\n"));
            hc_live_set(live, HC_PREDELAY, 100);
            for (int i = 0; i < BLOCK; i++) x[i] = 0;
            for (int k = 0; k < 10 && ramps; k++) play(live, x, y);
            hc_live_set(live, cases[c].knob, cases[c].value);
            for (int k = 0; k < 100; k++) {
                for (int i = 0; i < BLOCK; i++) x[i] = i % 2 ? -cases[c].x : cases[c].x;
                play(live, x, y);
                for (int i = 0; i < 2 * BLOCK; i++)
                    check(isfinite(y[i]), "case %zu: block %d, frame %d is %g", c, k, i, (double)y[i]);
            }
            hc_live_get_stats(live, &stats);
            hc_live_take_peaks(live, &in_peak, &out_peak);
            hc_live_take_channel_peaks(live, NULL, none);
            check(stats.overflowed > 0 && stats.non_finite == 0, "case %zu: %llu overflowed, %llu not finite", c,
                  (unsigned long long)stats.overflowed, (unsigned long long)stats.non_finite);
            check(isfinite(out_peak) && isfinite(none[0]) && isfinite(none[1]), "case %zu: the peak is %g", c,
                  (double)out_peak);
            hc_live_set(live, cases[c].knob, cases[c].knob == HC_DRY || cases[c].knob == HC_BYPASS ? 0 : 1);
            for (int i = 0; i < BLOCK; i++) x[i] = 1e-6f;
            for (int k = 0; k < 6000; k++) play(live, x, y); /* the limiter holds for two seconds */
            check(fabsf(y[0] - 0.1f) < 1e-6f && y[BLOCK] == 1e-6f, "case %zu: %g and %g", c, (double)y[0],
                  (double)y[BLOCK]);
            hc_live_close(live);
        }
}

static void forgotten_input_is_not_heard(const char *backend)
{
    static float x[BLOCK], y[2 * BLOCK], want[2 * BLOCK];
    char paths[2][4096], text[16000] = "";
    struct random r = random_seeded(4);
    snprintf(paths[0], sizeof paths[0], "%s", mask_file("short.txt", "0.5\n0.25\n-0.125\n"));
    for (int i = 0; i < 1500; i++) sprintf(text + strlen(text), "%.3f\n", (double)random_sample(&r));
    snprintf(paths[1], sizeof paths[1], "%s", mask_file("long.txt", text));
    for (enum when when = 0; when < N_WHEN; when++) {
        hc_live *live = open_live(NULL), *fresh = open_live(NULL);
        hc_live_stats stats = {.size = sizeof stats};
        hc_live_change change = {.size = sizeof change, .mask = paths[1]};
        load(live, paths[0]);
        load(fresh, paths[when != FORGET_WHILE_IT_PLAYS]);
        hc_live_set_freewheel(live, 1); /* it waits for the engine of a ready mask */
        if (when == FORGET_A_READY_MASK) hc_live_keep(live, (const char *[]){paths[0], paths[1]}, 2);
        for (int i = 0; i < 200 || (when == FORGET_A_READY_MASK && stats.ready < 2); i++) {
            for (int k = 0; k < BLOCK; k++) x[k] = random_sample(&r);
            if (when == FORGET_A_FADE && i == 198) hc_live_request(live, &change);
            if (hc_live_has_work(live)) hc_live_work(live);
            play(live, x, y);
            hc_live_get_stats(live, &stats);
            check(i < 10000, "the mask does not become ready");
            if (i >= 200) pause_us(500);
        }
        check(when != FORGET_A_FADE || stats.changing, "the fade has ended");
        if (when == FORGET_A_NEW_ENGINE || when == FORGET_A_READY_MASK) hc_live_request(live, &change);
        if (when == FORGET_A_NEW_ENGINE) hc_live_work(live);
        hc_live_forget(live);
        for (int i = 0; i < 100; i++) {
            for (int k = 0; k < BLOCK; k++) x[k] = random_sample(&r);
            play(live, x, y);
            play(fresh, x, want);
            for (int k = 0; k < 2 * BLOCK; k++)
                check(fabsf(y[k] - want[k]) < 1e-4f, "case %d, block %d, sample %d: %g, want %g", when, i, k,
                      (double)y[k], (double)want[k]);
        }
        hc_live_close(live), hc_live_close(fresh);
    }
}

enum { SHOWN = 1000 };
static struct shown {
    float in[2][SHOWN], out[2][SHOWN];
} shown;

/* Plays n blocks of a ramp, whose second channel is negative and half as loud, from frame *at on. */
static void play_ramp(hc_live *live, int n, int *at)
{
    float x[2][BLOCK], y[2][BLOCK];
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < BLOCK; k++) x[0][k] = 1e-6f * (float)++*at, x[1][k] = -0.5f * x[0][k];
        if (!SANITIZED) trap_arm();
        int error = hc_live_process(live, (const float *[]){x[0], x[1]}, (float *[]){y[0], y[1]}, BLOCK);
        const char *caught = SANITIZED ? NULL : trap_disarm();
        check(error == HC_OK && !caught, "block %d: %d, %s", i, error, caught ? caught : "");
    }
}

static int show(hc_live *live)
{
    return hc_live_get_signals(live, (float *[]){shown.in[0], shown.in[1]}, (float *[]){shown.out[0], shown.out[1]},
                               SHOWN);
}

static void a_host_is_shown_the_newest_frames_and_the_peaks_of_each_channel(const char *backend)
{
    static const int n_blocks[] = {700, 40, 700, 700}; /* the ring of outputs has 768 */
    float in[2], out[2];
    hc_live *live = open_live(NULL);
    int at = 0;
    load(live, mask_file("half.txt", "0.5\n"));
    check(show(live) == HC_OK && shown.in[0][SHOWN - 1] == 0 && shown.out[0][0] == 0, "frames before the first block");
    for (int i = 0; i < 4; i++) {
        play_ramp(live, n_blocks[i], &at);
        check(show(live) == HC_OK, "no signals");
        for (int k = 0; k < SHOWN; k++) {
            float want = 1e-6f * (float)(at - SHOWN + 1 + k);
            check(shown.in[0][k] == want && shown.in[1][k] == -0.5f * want, "input %d is %g, want %g", k,
                  (double)shown.in[0][k], (double)want);
            check(fabsf(shown.out[0][k] - 0.5f * want) < 1e-7f && fabsf(shown.out[1][k] + 0.25f * want) < 1e-7f,
                  "output %d is %g and %g, want %g", k, (double)shown.out[0][k], (double)shown.out[1][k],
                  0.5 * (double)want);
        }
        hc_live_take_channel_peaks(live, in, out);
        float peak = 1e-6f * (float)at;
        check(in[0] == peak && in[1] == 0.5f * peak, "peaks of the input: %g, %g", (double)in[0], (double)in[1]);
        check(fabsf(out[0] - 0.5f * peak) < 1e-7f && fabsf(out[1] - 0.25f * peak) < 1e-7f, "peaks of the output");
        hc_live_take_channel_peaks(live, in, NULL);
        check(in[0] == 0, "a peak was returned twice");
    }
    play_ramp(live, 1000, &at); /* nobody looks for more than a second: the outputs are not recorded any more */
    float newest = 0.5e-6f * (float)at;
    check(show(live) == HC_OK && shown.out[0][SHOWN - 1] < 0.95f * newest, "the output was recorded for nobody");
    hc_live_close(live);
}

/* Counts how often the file is opened while a session begins. */
static void the_first_mask_is_read_once(const char *backend)
{
    char events[4096], why[400] = "";
    const char *path = mask_file("watched.txt", "0.5 0.25\n");
    struct session_settings settings = {.wet = 1, .gain = 1};
    hc_live_config_init(&settings.live);
    settings.live.backend = "cpu";
    int watch = inotify_init1(IN_NONBLOCK);
    check(watch >= 0 && inotify_add_watch(watch, path, IN_OPEN) >= 0, "no inotify");
    hc_responses mask;
    check(session_load(&settings, path, 44100, &mask, why, sizeof why), "%s", why);
    struct session *session = session_open(&settings, path, &mask, 44100, BLOCK, why, sizeof why);
    check(session, "%s", why);
    ssize_t bytes = read(watch, events, sizeof events);
    close(watch);
    check(session_close(session), "close");
    check(bytes > 0 && (size_t)bytes < 2 * sizeof(struct inotify_event), "opened %zd times",
          bytes / (ssize_t)sizeof(struct inotify_event));
}

static void a_path_may_be_long(const char *backend)
{
    char path[4096], told[4096];
    size_t n = (size_t)snprintf(path, sizeof path, "%s", folder);
    for (int i = 0; i < 8; i++) {
        n += (size_t)snprintf(path + n, sizeof path - n, "/%0200d", i);
        check(mkdir(path, 0700) == 0, "%s cannot be made", path);
    }
    snprintf(path + n, sizeof path - n, "/mask.txt");
    FILE *file = fopen(path, "w");
    check(file && fputs("1\n", file) >= 0 && fclose(file) == 0, "%s cannot be written", path);
    hc_live *live = open_live(NULL);
    load(live, path);
    check(hc_live_mask(live, told, sizeof told) == strlen(path) && strcmp(told, path) == 0, "hc_live_mask: %s", told);
    hc_live_close(live);
}

static void rates_have_masks(int keep_rate)
{
    static const struct {
        int rate;
        float gain;
    } rates[] = {{48000, 0.25f}, {44100, 0.5f}, {48000, 0.25f}};
    float x[BLOCK], y[2 * BLOCK] = {0};
    char pattern[128], told[128];
    hc_live_config config;
    hc_live_config_init(&config);
    config.backend = "cpu";
    config.keep_rate = keep_rate;
    mask_file("m-44100.txt", "0.5\n");
    mask_file("m-48000.txt", "0.25\n");
    snprintf(pattern, sizeof pattern, "%s/m-%%r.txt", folder);
    hc_live *live = open_live(&config);
    for (int i = 0; i < BLOCK; i++) x[i] = 1;
    load(live, pattern);
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++) {
        hc_live_change change = {.size = sizeof change, .rate = rates[i].rate};
        check(hc_live_request(live, &change) == HC_OK, "%d Hz were refused", rates[i].rate);
        for (int block = 0; block < 100; block++) {
            while (hc_live_has_work(live)) check(hc_live_work(live) == HC_OK, "%d Hz", rates[i].rate);
            play(live, x, y);
        }
        check(y[BLOCK - 1] == rates[i].gain, "at %d Hz, keep_rate %d: %g", rates[i].rate, keep_rate,
              (double)y[BLOCK - 1]);
        hc_live_mask(live, told, sizeof told);
        check(strcmp(told, pattern) == 0, "the mask is %s", told);
    }
    hc_live_close(live);
}

static void a_new_rate_loads_the_mask_of_that_rate(const char *backend)
{
    rates_have_masks(0);
    rates_have_masks(1);
}

int main(void)
{
    static const struct test tests[] = {
        TEST(zero_and_null_mean_the_default, false),
        TEST(a_request_is_answered_by_its_number, false),
        TEST(a_load_replaces_the_requests_before, false),
        TEST(responses_of_the_caller_are_counted_and_reported, false),
        TEST(a_line_has_no_control_characters, false),
        TEST(a_refused_request_is_an_error_line, false),
        TEST(values_out_of_range_are_refused, false),
        TEST(statistics_are_of_one_block, false),
        TEST(requests_of_many_threads_are_whole, false),
        TEST(a_request_that_fails_is_not_tried_again, false),
        TEST(half_a_day_of_quiet_does_not_turn_the_output_down, false),
        TEST(the_slowest_rate_and_the_longest_fade_play, false),
        TEST(knobs_before_the_first_block_jump, false),
        TEST(an_overflow_is_silent_and_counted, false),
        TEST(forgotten_input_is_not_heard, false),
        TEST(a_host_is_shown_the_newest_frames_and_the_peaks_of_each_channel, false),
        TEST(the_first_mask_is_read_once, false),
        TEST(a_path_may_be_long, false),
        TEST(a_new_rate_loads_the_mask_of_that_rate, false),
    };
    const char *dir = getenv("TMPDIR");
    char command[128];
    message_set_quiet(true);
    snprintf(folder, sizeof folder, "%.40s/hc_live_XXXXXX", dir ? dir : "/tmp");
    if (!mkdtemp(folder)) return 1;
    int status = check_main("live", tests, sizeof tests / sizeof *tests);
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command) == 0 ? status : 1;
}
