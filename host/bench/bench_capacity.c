/* haloconv bench capacity - finds the largest engines that this machine plays without a miss. */
#include "bench_play.h"
#include "host/commands.h"
#include "host/json_print.h"
#include "host/message.h"
#include "host/option.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { ATTEMPTS = 3 };

struct capacity_settings {
    struct bench_settings common;
    int most;
    const char *which; /* NULL: both */
};

struct trial {
    bool held;
    char why[MESSAGE_CAP]; /* the reason if it was not held; "": a block was missed */
    struct bench_result result;
};

static const struct option_row capacity_options[] = {
    {"which", 0, "matrix|channels", "Search for only one of the two [both]", option_word,
     OPTION_TO(struct capacity_settings, which)},
    {"most", 0, "N", "Do not try more [65536]", option_int, OPTION_TO(struct capacity_settings, most), .min = 1,
     .max = 65536},
    {0}};

static const struct command_line capacity_line = {
    .command = "bench capacity",
    .text = "Finds the largest N x N matrix of different responses, and the most channels with one each, that are "
            "played for a while, paced by the clock, without a single missed block.\v"
            "Doubles N until a block is missed in 2 seconds (or the memory is too small), halves the gap down to a "
            "sixteenth, and then plays the largest that held for the whole --time.\n\n"
            "  haloconv bench capacity --backend cpu --time 60",
    .groups = {{NULL, capacity_options}, {BENCH_PLAY_TITLE, bench_play_options}}};

/* If even the mean time of a few unpaced blocks exceeds the period, no paced trial is needed. */
static bool is_hopeless(hc_engine *engine, const struct bench_shape *shape, struct trial *trial)
{
    struct bench_result quick = trial->result;
    if (!bench_play(&engine, shape, 0.1, false, -1, &quick, trial->why, sizeof trial->why)) return true;
    if (quick.mean_us <= quick.period_us) return false;
    quick.n_missed = quick.by_engine = quick.n_blocks;
    trial->result = quick;
    return true;
}

static const char *size_name(bool diagonal, int n, char *text, size_t cap)
{
    if (diagonal)
        snprintf(text, cap, "%d channels", n);
    else
        snprintf(text, cap, "%d x %d", n, n);
    return text;
}

static struct bench_shape shape_of(const struct capacity_settings *s, bool diagonal, int n)
{
    struct bench_shape shape = s->common.shape;
    shape.n_in = shape.n_out = n;
    shape.diagonal = diagonal;
    return shape;
}

static bool try_out(const struct capacity_settings *s, bool diagonal, int n, double seconds, struct trial *trial)
{
    const struct bench_shape shape = shape_of(s, diagonal, n);
    hc_engine *engine;
    *trial = (struct trial){0};
    if (bench_open(&shape, &engine, &trial->result, trial->why, sizeof trial->why)) {
        /* A late wake-up of this program is not the engine's fault: try again. */
        for (int i = 0; i < ATTEMPTS && !trial->held && trial->result.by_engine == 0; i++) {
            if ((i == 0 && is_hopeless(engine, &shape, trial)) ||
                !bench_play(&engine, &shape, seconds, true, 0, &trial->result, trial->why, sizeof trial->why))
                break;
            trial->held = trial->result.n_missed == 0;
        }
        hc_close(engine);
    }
    char name[64];
    if (!s->common.json)
        message_note("%s: %s, p50 %.0f us, max %.0f of %.0f %s", size_name(diagonal, n, name, sizeof name),
                     trial->held ? "held" : "not held", trial->result.p50_us, trial->result.max_us,
                     trial->result.period_us, trial->why);
    return trial->held;
}

/* The largest size that held. best: its last trial; over: the last trial that did not hold. */
static int search(const struct capacity_settings *s, bool diagonal, struct trial *best, struct trial *over)
{
    const double trial_s = s->common.time_s < 2 ? s->common.time_s : 2;
    int held = 0, not_held = 0;
    struct trial trial;
    *best = *over = (struct trial){0};
    for (int n = diagonal ? 16 : 2; not_held == 0 && held < s->most; n = 2 * n < s->most ? 2 * n : s->most)
        if (try_out(s, diagonal, n < s->most ? n : s->most, trial_s, &trial))
            held = n < s->most ? n : s->most, *best = trial;
        else
            not_held = n, *over = trial;
    while (not_held - held > (held / 16 > 1 ? held / 16 : 1)) {
        int n = held + (not_held - held) / 2;
        if (try_out(s, diagonal, n, trial_s, &trial))
            held = n, *best = trial;
        else
            not_held = n, *over = trial;
    }
    while (held > 0 && !try_out(s, diagonal, held, s->common.time_s, best)) {
        *over = *best;
        held -= held / 32 > 1 ? held / 32 : 1;
    }
    return held;
}

static json_t *search_json(const struct capacity_settings *s, bool diagonal, int n, const struct trial *best,
                           const struct trial *over)
{
    const struct bench_shape shape = shape_of(s, diagonal, n);
    json_t *all = n > 0 ? bench_result_json(&shape, &best->result) : json_pack("{s:i, s:i}", "inputs", 0, "outputs", 0);
    if (all) json_object_set_new(all, "limit", json_string(over->why[0] ? over->why : "a block was missed"));
    return all;
}

int bench_capacity_command(int argc, char **argv)
{
    struct capacity_settings s = {.common = bench_settings_usual(), .most = 65536};
    int status = option_parse(&capacity_line, argc, argv, &s);
    if (status >= 0) return status;
    bench_settings_complete(&s.common);
    json_t *all = json_object();
    for (int diagonal = 0; diagonal < 2; diagonal++) {
        struct trial best, over;
        if (s.which && strcmp(s.which, diagonal ? "channels" : "matrix") != 0) continue;
        int n = search(&s, diagonal, &best, &over);
        if (n == 0 && over.why[0]) {
            json_decref(all);
            return message_error("%s", over.why);
        }
        if (s.common.json) {
            json_object_set_new(all, diagonal ? "channels" : "matrix", search_json(&s, diagonal, n, &best, &over));
            continue;
        }
        char name[64];
        printf("%s of %d taps (seed %llu), blocks of %d frames, %g s without a miss on %s: p50 %.1f us, p99 %.1f, "
               "p99.9 %.1f, max %.1f of %.1f\n",
               size_name(diagonal, n, name, sizeof name), s.common.shape.taps, (unsigned long long)s.common.shape.seed,
               s.common.shape.block, s.common.time_s, best.result.info.device, best.result.p50_us, best.result.p99_us,
               best.result.p999_us, best.result.max_us, best.result.period_us);
    }
    if (s.common.json) return json_print(all, 6, "bench");
    json_decref(all);
    return 0;
}
