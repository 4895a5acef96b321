/* haloconv bench scene - plays moving sources, steered all the time, and finds the largest number without a miss. */
#include "bench_play.h"
#include "bench_steer.h"
#include "host/commands.h"
#include "host/json_print.h"
#include "host/message.h"
#include "host/option.h"
#include "host/splitmix64.h"
#include "host/stopwatch.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREAD_SOURCES = 1024, SOURCES_A_THREAD = 8192, ATTEMPTS = 3, MAX_SOURCES = 65536 };

struct scene_settings {
    struct bench_settings common;
    int n_entries, n_mix, every, n_threads;
    bool find, offline;
    int step, n_jobs;
    double job_s;
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
    {"spin", 0, NULL, "The engine thread of a GPU polls for the next block without sleeping", option_flag,
     OPTION_TO(struct scene_settings, common.shape.spin)},
    {"find", 0, NULL, "Find the largest number of sources with no missed block and with p99 below half of the period",
     option_flag, OPTION_TO(struct scene_settings, find)},
    {0}};

static const struct option_row offline_options[] = {
    {"offline", 0, NULL, "Render whole signals, each with one moving source, from memory to memory as fast as possible",
     option_flag, OPTION_TO(struct scene_settings, offline)},
    {"step", 0, "N", "Frames of a step; --steer is then counted in steps [256]", option_int,
     OPTION_TO(struct scene_settings, step), .min = 16, .max = 65536},
    {"jobs", 0, "N", "Signals in a call [256]", option_int, OPTION_TO(struct scene_settings, n_jobs), .min = 1,
     .max = 1 << 20},
    {"length", 0, "S", "Seconds of each signal [10]", option_number, OPTION_TO(struct scene_settings, job_s),
     .min = 0.01, .max = 86400},
    {0}};

static const struct command_line scene_line = {
    .command = "bench scene",
    .text = "Plays sources that move all the time: every source plays an entry of a bank of decaying noise and gets a "
            "request for another entry before each block.\v"
            "Paced by the clock, as bench engine. --find doubles the number of sources until a trial of 2 seconds "
            "fails, halves the gap down to a sixteenth, and then plays the largest number that passed for the whole "
            "--time.\n\n"
            "  haloconv bench scene --sources 8192 --seconds 0.5 --backend cuda --time 60\n"
            "  haloconv bench scene --find --seconds 0.5 --backend cpu\n"
            "  haloconv bench scene --offline --rate 16000 --seconds 1",
    .groups = {{NULL, scene_options}, {"Whole signals:", offline_options}, {BENCH_PLAY_TITLE, bench_play_options}}};

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

/* ---- --offline: hc_render from memory to memory, many signals of one moving source each ------------ */

struct signals {
    int64_t n_frames;
    float *in, *out;   /* [n_jobs][n_frames], [n_jobs][n_out][n_frames] */
    const float **ins; /* [n_jobs] */
    float **outs;      /* [n_jobs][n_out] */
    hc_step *steps;    /* [n_jobs][n_steps] */
    hc_render_job *jobs;
};

static void signals_free(struct signals *s)
{
    free(s->in);
    free(s->out);
    free(s->ins);
    free(s->outs);
    free(s->steps);
    free(s->jobs);
}

static bool signals_make(struct signals *s, const struct scene_settings *settings)
{
    const struct bench_shape *shape = &settings->common.shape;
    size_t n_jobs = (size_t)settings->n_jobs, n_out = (size_t)shape->n_out;
    s->n_frames = (int64_t)(settings->job_s * shape->rate);
    size_t n = (size_t)s->n_frames, n_steps = n / ((size_t)settings->step * (size_t)settings->every) + 1;
    s->in = malloc(n_jobs * n * sizeof *s->in);
    s->out = calloc(n_jobs * n_out * n, sizeof *s->out);
    s->ins = calloc(n_jobs, sizeof *s->ins);
    s->outs = calloc(n_jobs * n_out, sizeof *s->outs);
    s->steps = calloc(n_jobs * n_steps, sizeof *s->steps);
    s->jobs = calloc(n_jobs, sizeof *s->jobs);
    if (!s->in || !s->out || !s->ins || !s->outs || !s->steps || !s->jobs) return false;
    uint32_t state = (uint32_t)shape->seed;
    for (size_t i = 0; i < n_jobs * n; i++) {
        state = state * 1664525u + 1013904223u;
        s->in[i] = (float)((double)state / 4294967296.0 - 0.5);
    }
    for (size_t i = 0; i < n_jobs * n_out * n; i += 1024) s->out[i] = 1; /* touches each page */
    uint64_t random = splitmix64(shape->seed);
    for (size_t j = 0; j < n_jobs; j++) {
        hc_step *steps = s->steps + j * n_steps;
        for (size_t k = 0; k < n_steps; k++) {
            random = splitmix64(random);
            steps[k] = (hc_step){.frame = (int64_t)k * settings->step * settings->every, .n = 1, .weight = {1}};
            steps[k].entry[0] = (int)(random % (uint64_t)settings->n_entries);
        }
        s->ins[j] = s->in + j * n;
        for (size_t o = 0; o < n_out; o++) s->outs[j * n_out + o] = s->out + (j * n_out + o) * n;
        s->jobs[j] = (hc_render_job){.n_sources = 1,
                                     .in = &s->ins[j],
                                     .n_in_frames = s->n_frames,
                                     .steps = steps,
                                     .step_size = sizeof *steps,
                                     .n_steps = (int)n_steps,
                                     .out = s->outs + j * n_out,
                                     .n_out_frames = s->n_frames};
    }
    return true;
}

struct moving_result {
    double setup_s, elapsed_s; /* seconds of all calls together */
    int n_calls;
    double hours; /* hours of rendered sound; a job counts once, with all of its outputs */
};

static bool render(const struct scene_settings *s, struct moving_result *r, char *why, size_t cap)
{
    const struct bench_shape *shape = &s->common.shape;
    struct signals signals = {0};
    hc_bank_data data;
    hc_renderer *renderer = NULL;
    *r = (struct moving_result){0};
    if (!steer_data_make(&data, s->n_entries, shape->n_out, shape->taps, shape->seed))
        return message_write(why, cap, "bench: no memory for a bank of %d entries; use fewer", s->n_entries);
    hc_render_config config = {
        .size = sizeof config, .backend = shape->backend, .step = s->step, .n_threads = shape->n_threads};
    double start = stopwatch_now();
    bool good = hc_renderer_open(&config, &data, &renderer, why, cap) == HC_OK;
    r->setup_s = stopwatch_now() - start;
    steer_data_free(&data);
    if (good && !signals_make(&signals, s))
        good = message_write(why, cap, "bench: no memory for %d signals; use fewer", s->n_jobs);
    if (good)
        good = hc_render(renderer, signals.jobs, sizeof *signals.jobs, s->n_jobs, why, cap) ==
               HC_OK; /* fills the caches */
    start = stopwatch_now();
    while (good && r->elapsed_s < s->common.time_s) {
        good = hc_render(renderer, signals.jobs, sizeof *signals.jobs, s->n_jobs, why, cap) == HC_OK;
        r->elapsed_s = stopwatch_now() - start;
        r->n_calls++;
    }
    r->hours = r->n_calls * (double)s->n_jobs * (double)signals.n_frames / shape->rate / 3600;
    signals_free(&signals);
    hc_renderer_close(renderer);
    return good;
}

static int offline(const struct scene_settings *s)
{
    const struct bench_shape *b = &s->common.shape;
    struct moving_result r;
    char why[MESSAGE_CAP];
    if (!render(s, &r, why, sizeof why)) return message_error("%s", why);
    double an_hour = r.hours / (r.elapsed_s / 3600);
    if (s->common.json)
        return json_print(json_pack("{s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:f, s:f, s:f, s:f, s:f}", "backend",
                                    b->backend, "rate", b->rate, "step", s->step, "entries", s->n_entries, "outputs",
                                    b->n_out, "taps", b->taps, "jobs", s->n_jobs, "job_s", s->job_s, "setup_s",
                                    r.setup_s, "hours", r.hours, "took_s", r.elapsed_s, "hours_an_hour", an_hour),
                          6, "bench");
    printf("%d signals of %g s at %d Hz, one moving source each, %d outputs, %d entries of %d taps, another entry each "
           "%lld frames, seed %llu, backend %s\n",
           s->n_jobs, s->job_s, b->rate, b->n_out, s->n_entries, b->taps, (long long)s->step * s->every,
           (unsigned long long)b->seed, b->backend);
    printf("bank made in %.2f s; %.2f hours of output in %.2f s, memory to memory: %.0f hours an hour\n", r.setup_s,
           r.hours, r.elapsed_s, an_hour);
    return 0;
}

int bench_scene_command(int argc, char **argv)
{
    struct scene_settings s = {.common = bench_settings_usual(), .n_entries = 1000, .n_mix = 1, .every = 1};
    s.n_threads = -1;
    s.step = 256;
    s.n_jobs = 256;
    s.job_s = 10;
    s.common.shape.n_in = 128;
    s.common.shape.n_out = 2;
    int status = option_parse(&scene_line, argc, argv, &s);
    if (status >= 0) return status;
    bench_settings_complete(&s.common);
    if (s.offline) return offline(&s);
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
