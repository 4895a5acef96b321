/* haloconv bench scene - plays moving sources, steered all the time, and finds the largest number without a miss. */
#include "bench_play.h"
#include "bench_steer.h"
#include "host/commands.h"
#include "host/json_print.h"
#include "host/message.h"
#include "host/option.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREAD_SOURCES = 1024, SOURCES_A_THREAD = 8192, ATTEMPTS = 3, MAX_SOURCES = 65536 };

struct scene_settings {
    struct bench_settings common;
    int n_entries, n_mix, every, n_threads;
    bool find;
};

struct scene_trial {
    struct bench_result result;
    int64_t rounds, wanted; /* requests of every source: made, and due once each `every` blocks */
    uint64_t bank_bytes;
    int n_threads;
    bool held;
};

static const struct option_row scene_options[] = {
    {"sources", 0, "N", "Steered sources [128]", option_int, OPTION_TO(struct scene_settings, common.shape.n_in),
     .min = 1, .max = MAX_SOURCES},
    {"outputs", 0, "N", "Outputs of each entry: 2 for ears [2]", option_int,
     OPTION_TO(struct scene_settings, common.shape.n_out), .min = 1, .max = 65536},
    {"entries", 0, "N", "Entries of the bank [1000]", option_int, OPTION_TO(struct scene_settings, n_entries), .min = 1,
     .max = 1 << 20},
    {"mix", 0, "N", "Entries in each request [1]", option_int, OPTION_TO(struct scene_settings, n_mix), .min = 1,
     .max = HC_MAX_MIX},
    {"steer", 0, "N", "Send every source a request for random entries once in N blocks [1]", option_int,
     OPTION_TO(struct scene_settings, every), .min = 1, .max = 1 << 20},
    {"steer-threads", 0, "N",
     "Threads that make the requests; 0: the audio thread makes them, within the time of a block [0; with more than "
     "1024 sources one for each 8192]",
     option_int, OPTION_TO(struct scene_settings, n_threads), .min = 0, .max = STEER_MAX_THREADS},
    {"spin", 0, NULL, "The device thread of a GPU polls for the next block without sleeping", option_flag,
     OPTION_TO(struct scene_settings, common.shape.spin)},
    {"find", 0, NULL, "Find the largest number of sources with no missed block and with p99 below half of the period",
     option_flag, OPTION_TO(struct scene_settings, find)},
    {0}};

static const struct command_line scene_line = {
    .command = "bench scene",
    .text = "Plays sources that move all the time: every source plays an entry of a bank of decaying noise and gets a "
            "request for another entry before each block.\v"
            "Paced by the clock, as bench engine. --find doubles the number of sources until a trial of 2 seconds "
            "fails, halves the gap down to a sixteenth, and then plays the largest number that passed for the whole "
            "--time.\n\n"
            "  haloconv bench scene --sources 8192 --seconds 0.5 --backend cuda --time 60\n"
            "  haloconv bench scene --find --seconds 0.5 --backend cpu",
    .groups = {{NULL, scene_options}, {BENCH_PLAY_TITLE, bench_play_options}}};

static int threads_of(const struct scene_settings *s, int n_sources)
{
    if (s->n_threads >= 0) return s->n_threads;
    if (n_sources <= THREAD_SOURCES) return 0;
    int n = (n_sources + SOURCES_A_THREAD - 1) / SOURCES_A_THREAD;
    return n < STEER_MAX_THREADS ? n : STEER_MAX_THREADS;
}

static bool is_held(const struct bench_result *r)
{
    return r->by_engine == 0 && r->n_late == 0 && bench_is_judged(r) && r->p99_us <= r->period_us / 2;
}

/* Opens an engine with n sources and plays it for `seconds`. false: why has the reason. */
static bool trial_play(const struct scene_settings *s, int n, double seconds, struct scene_trial *trial, char *why,
                       size_t cap)
{
    struct bench_shape shape = s->common.shape;
    struct steer_bench *bench = calloc(1, sizeof *bench);
    hc_engine *engine;
    *trial = (struct scene_trial){.n_threads = threads_of(s, n)};
    shape.n_in = shape.n_sources = n;
    if (!bench) return message_write(why, cap, "bench: no memory for the requests; free some memory");
    bench->n_entries = s->n_entries;
    bench->n_mix = s->n_mix;
    bench->every = s->every;
    bench->n_threads = trial->n_threads;
    if (!bench_open(&shape, &engine, &trial->result, why, cap)) {
        free(bench);
        return false;
    }
    bool good = steer_open(bench, engine, &shape, why, cap);
    if (good) {
        hc_info info = {.size = sizeof info};
        hc_get_info(engine, &info);
        trial->bank_bytes = info.bank_memory;
        shape.each = (struct bench_each){steer_block, bench};
        for (int i = 0; i < ATTEMPTS && good; i++) {
            good = bench_play(&engine, &shape, seconds, true, s->find, &trial->result, why, cap);
            if (!s->find || trial->result.by_engine > 0 || bench_is_judged(&trial->result)) break;
        }
        trial->rounds = steer_rounds(bench);
        trial->wanted = bench->n_blocks / bench->every;
        trial->held = is_held(&trial->result);
        if (good && atomic_load(&bench->error) != HC_OK)
            good = message_write(why, cap, "bench: a request was refused: error %d", atomic_load(&bench->error));
        steer_close(bench);
    }
    bench_close(&shape, &engine);
    free(bench);
    return good;
}

/* Are n sources held for `seconds`? If so, *best is the trial. */
static bool search_try(const struct scene_settings *s, int n, double seconds, struct scene_trial *best, char *why,
                       size_t cap)
{
    struct scene_trial trial;
    why[0] = '\0';
    bool held = trial_play(s, n, seconds, &trial, why, cap) && trial.held;
    message_note("%d sources: %s, p99 %.0f of %.0f us %s", n, held ? "held" : "not held", trial.result.p99_us,
                 trial.result.period_us, why);
    if (held) *best = trial;
    return held;
}

/* Returns the largest number of sources that is held; 0: none. */
static int scene_search(const struct scene_settings *s, struct scene_trial *best, char *why, size_t cap)
{
    const double trial_s = s->common.time_s < 2 ? s->common.time_s : 2;
    int held = 0, not_held = 0;
    for (int n = s->common.shape.n_in; not_held == 0 && held < MAX_SOURCES; n *= 2) {
        int now = n < MAX_SOURCES ? n : MAX_SOURCES;
        if (search_try(s, now, trial_s, best, why, cap))
            held = now;
        else
            not_held = now;
    }
    while (not_held && not_held - held > (held / 16 > 1 ? held / 16 : 1)) {
        int now = held + (not_held - held) / 2;
        if (search_try(s, now, trial_s, best, why, cap))
            held = now;
        else
            not_held = now;
    }
    while (held > 0 && !search_try(s, held, s->common.time_s, best, why, cap)) held -= held / 32 > 1 ? held / 32 : 1;
    return held;
}

static void scene_print_text(const struct scene_settings *s, int n, const struct scene_trial *t)
{
    const struct bench_result *r = &t->result;
    const struct bench_shape *shape = &s->common.shape;
    printf("%d sources, %d outputs, %d entries of %d taps, seed %llu, blocks of %d frames (%.0f us) on %s\n", n,
           shape->n_out, s->n_entries, shape->taps, (unsigned long long)shape->seed, shape->block, r->period_us,
           r->info.device);
    printf("memory %.1f MB, %.1f of them the bank; %lld blocks, paced%s\n", (double)r->info.memory * 1e-6,
           (double)t->bank_bytes * 1e-6, (long long)r->n_blocks,
           r->real_time ? "" : ", without a real-time priority: the system granted none");
    printf("steered each %d block%s from %s: every source %lld times of %lld\n", s->every, s->every > 1 ? "s" : "",
           t->n_threads ? "separate threads" : "the audio thread", (long long)t->rounds, (long long)t->wanted);
    printf("a block: p50 %.1f us, p99 %.1f, p99.9 %.1f, max %.1f; p99 is %.1f %% of the period\n", r->p50_us, r->p99_us,
           r->p999_us, r->max_us, 100 * r->p99_us / r->period_us);
    printf("missed %lld: %lld by the engine, %lld by a late wake-up (p99.9 %.1f us); %lld blocks were late\n",
           (long long)r->n_missed, (long long)r->by_engine, (long long)r->by_wakeup, r->jitter_us,
           (long long)r->n_late);
}

static int scene_print_json(const struct scene_settings *s, int n, const struct scene_trial *t)
{
    struct bench_shape shape = s->common.shape;
    shape.n_in = n;
    json_t *all = bench_result_json(&shape, &t->result);
    if (all) {
        json_object_set_new(all, "sources", json_integer(n));
        json_object_set_new(all, "entries", json_integer(s->n_entries));
        json_object_set_new(all, "mix", json_integer(s->n_mix));
        json_object_set_new(all, "steered_each", json_integer(s->every));
        json_object_set_new(all, "steer_threads", json_integer(t->n_threads));
        json_object_set_new(all, "requests_a_source", json_integer((json_int_t)t->rounds));
        json_object_set_new(all, "bank_bytes", json_integer((json_int_t)t->bank_bytes));
        json_object_set_new(all, "p99_of_period", json_real(t->result.p99_us / t->result.period_us));
        json_object_set_new(all, "held", json_boolean(t->held));
    }
    return json_print(all, 6, "bench");
}

int bench_scene_command(int argc, char **argv)
{
    struct scene_settings s = {.common = bench_settings_usual(), .n_entries = 1000, .n_mix = 1, .every = 1};
    s.n_threads = -1;
    s.common.shape.n_in = 128;
    s.common.shape.n_out = 2;
    int status = option_parse(&scene_line, argc, argv, &s);
    if (status >= 0) return status;
    bench_settings_complete(&s.common);
    struct scene_trial trial = {0};
    char why[MESSAGE_CAP] = "";
    int n = s.common.shape.n_in;
    if (s.find) {
        n = scene_search(&s, &trial, why, sizeof why);
        if (n == 0) return message_error("%s", why[0] ? why : "one source already misses blocks; use a larger --block");
    } else if (!trial_play(&s, n, s.common.time_s, &trial, why, sizeof why)) {
        return message_error("%s", why);
    }
    if (s.common.json) return scene_print_json(&s, n, &trial);
    scene_print_text(&s, n, &trial);
    return 0;
}
