/* bench_render [OPTIONS] - renders whole signals, each with one moving source, from memory to memory, as fast as possible.
 * bench_render.py compares it with a loop in PyTorch. */
#include "host/bench/bench_play.h"
#include "host/bench/bench_steer.h"
#include "host/json_print.h"
#include "host/message.h"
#include "host/splitmix64.h"
#include "host/stopwatch.h"

#include <stdio.h>
#include <stdlib.h>

struct render_settings {
    struct bench_settings common;
    int n_entries, every, step, n_jobs;
    double job_s;
};

static const struct option_row render_options[] = {
    {"outputs", 0, "N", "Outputs of each entry: 2 for ears [2]", option_int,
     OPTION_TO(struct render_settings, common.shape.n_out), .min = 1, .max = 65536},
    {"entries", 0, "N", "Entries of the bank [1000]", option_int, OPTION_TO(struct render_settings, n_entries),
     .min = 1, .max = 1 << 20},
    {"steer", 0, "N", "Another entry once in N steps [1]", option_int, OPTION_TO(struct render_settings, every),
     .min = 1, .max = 1 << 20},
    {"step", 0, "N", "Frames of a step [256]", option_int, OPTION_TO(struct render_settings, step), .min = 16,
     .max = 65536},
    {"jobs", 0, "N", "Signals in a call [256]", option_int, OPTION_TO(struct render_settings, n_jobs), .min = 1,
     .max = 1 << 20},
    {"length", 0, "S", "Seconds of each signal [10]", option_number, OPTION_TO(struct render_settings, job_s),
     .min = 0.01, .max = 86400},
    {0}};

static const struct command_line render_line = {
    .command = "bench_render",
    .text = "Renders whole signals, each with one moving source, from memory to memory, as fast as possible.\v"
            "  bench_render --rate 16000 --seconds 1",
    .groups = {{NULL, render_options}, {"Options of the bank:", bench_play_options}}};

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

static bool signals_make(struct signals *s, const struct render_settings *settings)
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

static bool render(const struct render_settings *s, struct moving_result *r, char *why, size_t cap)
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

int main(int argc, char **argv)
{
    struct render_settings all = {
        .common = bench_settings_usual(), .n_entries = 1000, .every = 1, .step = 256, .n_jobs = 256, .job_s = 10};
    const struct render_settings *s = &all;
    all.common.shape.n_out = 2;
    int status = option_parse(&render_line, argc, argv, &all);
    if (status >= 0) return status;
    bench_settings_complete(&all.common);
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
