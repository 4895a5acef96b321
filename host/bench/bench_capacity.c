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
    int max_size;
    const char *which; /* NULL: both */
};

struct trial {
    enum { TRIAL_MISSED, TRIAL_HELD, TRIAL_UNJUDGED } verdict; /* did the engine play in time? */
    char why[MESSAGE_CAP]; /* the reason if nothing was played; "": a block was missed */
    struct bench_result result;
};

static const char no_judgement[] =
    "the system runs this program too late to judge the engine; close other programs, or grant it real-time priority";

static const struct option_row capacity_options[] = {
    {"which", 0, "matrix|channels", "Search for only one of the two [both]", option_word,
     OPTION_TO(struct capacity_settings, which)},
    {"most", 0, "N", "Largest N to try [65536]", option_int, OPTION_TO(struct capacity_settings, max_size), .min = 1,
     .max = 65536},
    {0}};

static const struct command_line capacity_line = {
    .command = "bench capacity",
    .text = "Finds the largest N x N matrix of different responses, and the largest number of channels with one "
            "response each, that play without a missed block, paced by the clock.\v"
            "Doubles N until a block is missed in 2 seconds (or the memory is too small), halves the gap down to a "
            "sixteenth, and then plays the largest N without a missed block for the whole --time. Blocks for which the "
            "system woke the program too late, or interrupted it, are counted separately; if these are over a tenth of "
            "a trial, three times in a row, the bench does not judge.\n\n"
            "  haloconv bench capacity --backend cpu --time 60",
    .groups = {{NULL, capacity_options}, {BENCH_PLAY_TITLE, bench_play_options}}};

/* If even the mean time of a few unpaced blocks exceeds the period, no paced trial is needed. */
static bool is_hopeless(hc_engine *engine, const struct bench_shape *shape, struct trial *trial)
{
    struct bench_result quick = trial->result;
    if (!bench_play(&engine, shape, 0.1, false, false, &quick, trial->why, sizeof trial->why)) return true;
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

static struct bench_shape capacity_shape(const struct capacity_settings *s, bool diagonal, int n)
{
    struct bench_shape shape = s->common.shape;
    shape.n_in = shape.n_out = n;
    shape.diagonal = diagonal;
    return shape;
}

static const char *const verdicts[] = {
    [TRIAL_MISSED] = "not held", [TRIAL_HELD] = "held", [TRIAL_UNJUDGED] = "not judged"};

/* Returns whether the engine held. */
static bool try_out(const struct capacity_settings *s, bool diagonal, int n, double seconds, struct trial *trial)
{
    const struct bench_shape shape = capacity_shape(s, diagonal, n);
    hc_engine *engine;
    *trial = (struct trial){0};
    if (bench_open(&shape, &engine, &trial->result, trial->why, sizeof trial->why)) {
        bool tries = !is_hopeless(engine, &shape, trial);
        for (int i = 0; i < ATTEMPTS && tries; i++) {
            bool played =
                bench_play(&engine, &shape, seconds, true, true, &trial->result, trial->why, sizeof trial->why);
            bool judged = trial->result.by_engine > 0 || bench_is_judged(&trial->result);
            trial->verdict = !played                       ? TRIAL_MISSED
                             : !judged                     ? TRIAL_UNJUDGED
                             : trial->result.by_engine > 0 ? TRIAL_MISSED
                                                           : TRIAL_HELD;
            tries = trial->verdict == TRIAL_UNJUDGED;
        }
        hc_close(engine);
    }
    char name[64];
    if (!s->common.json)
        message_note("%s: %s, p50 %.0f us, max %.0f of %.0f %s", size_name(diagonal, n, name, sizeof name),
                     verdicts[trial->verdict], trial->result.p50_us, trial->result.max_us, trial->result.period_us,
                     trial->why);
    return trial->verdict == TRIAL_HELD;
}

/* Returns the largest size that held. best: the last trial of this size; over: the last trial that did not hold. */
static int capacity_search(const struct capacity_settings *s, bool diagonal, struct trial *best, struct trial *over)
{
    const double trial_s = s->common.time_s < 2 ? s->common.time_s : 2;
    int held = 0, not_held = 0;
    struct trial trial;
    *best = *over = (struct trial){0};
    for (int next = diagonal ? 16 : 2; not_held == 0 && held < s->max_size; next *= 2) {
        int n = next < s->max_size ? next : s->max_size;
        if (try_out(s, diagonal, n, trial_s, &trial))
            held = n, *best = trial;
        else
            not_held = n, *over = trial;
    }
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
    const struct bench_shape shape = capacity_shape(s, diagonal, n);
    json_t *all = n > 0 ? bench_result_json(&shape, &best->result) : json_pack("{s:i, s:i}", "inputs", 0, "outputs", 0);
    bool judged = over->verdict != TRIAL_UNJUDGED;
    const char *limit = over->why[0] ? over->why : judged ? "a block was missed" : no_judgement;
    if (all) json_object_set_new(all, "limit", json_string(limit));
    if (all) json_object_set_new(all, "judged", json_boolean(n > 0 || judged));
    return all;
}

static void capacity_print_text(const struct capacity_settings *s, bool diagonal, int n, const struct trial *best,
                                const struct trial *over)
{
    const struct bench_result *r = n > 0 ? &best->result : &over->result;
    char name[64] = "one response";
    if (n > 0) size_name(diagonal, n, name, sizeof name);
    printf("%s of %d taps (seed %llu), blocks of %d frames, ", name, s->common.shape.taps,
           (unsigned long long)s->common.shape.seed, s->common.shape.block);
    if (n > 0)
        printf("%g s without a miss%s on %s", s->common.time_s, r->by_wakeup ? " by the engine" : "", r->info.device);
    else if (over->verdict == TRIAL_UNJUDGED)
        printf("on %s: %s", r->info.device, no_judgement);
    else
        printf("is more than %s plays in time", r->info.device);
    printf(": p50 %.1f us, p99 %.1f, p99.9 %.1f, max %.1f of %.1f", r->p50_us, r->p99_us, r->p999_us, r->max_us,
           r->period_us);
    if (r->by_wakeup > 0)
        printf("; the system ran this program too late for %lld of %lld blocks", (long long)r->by_wakeup,
               (long long)r->n_blocks);
    putchar('\n');
}

int bench_capacity_command(int argc, char **argv)
{
    struct capacity_settings s = {.common = bench_settings_usual(), .max_size = 65536};
    int status = option_parse(&capacity_line, argc, argv, &s);
    if (status >= 0) return status;
    bench_settings_complete(&s.common);
    json_t *all = json_object();
    for (int diagonal = 0; diagonal < 2; diagonal++) {
        struct trial best, over;
        if (s.which && strcmp(s.which, diagonal ? "channels" : "matrix") != 0) continue;
        int n = capacity_search(&s, diagonal, &best, &over);
        if (n == 0 && over.why[0]) {
            json_decref(all);
            return message_error("%s", over.why);
        }
        if (s.common.json) {
            json_object_set_new(all, diagonal ? "channels" : "matrix", search_json(&s, diagonal, n, &best, &over));
            continue;
        }
        capacity_print_text(&s, diagonal, n, &best, &over);
    }
    if (s.common.json) return json_print(all, 6, "bench");
    json_decref(all);
    return 0;
}
