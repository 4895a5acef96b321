#include "bench_moving.h"

#include "bench_steer.h"
#include "dsp/haloconv_scenes.h"
#include "host/message.h"
#include "host/splitmix64.h"
#include "host/stopwatch.h"

#include <stdlib.h>

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

static bool signals_make(struct signals *s, const struct moving_shape *shape)
{
    size_t n_jobs = (size_t)shape->n_jobs, n_out = (size_t)shape->n_out;
    s->n_frames = (int64_t)(shape->job_s * shape->rate);
    size_t n = (size_t)s->n_frames, n_steps = n / ((size_t)shape->step * (size_t)shape->every) + 1;
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
            steps[k] = (hc_step){.frame = (int64_t)k * shape->step * shape->every, .n = 1, .weight = {1}};
            steps[k].entry[0] = (int)(random % (uint64_t)shape->n_entries);
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

bool bench_moving(const struct moving_shape *shape, struct moving_result *r, char *why, size_t cap)
{
    struct signals signals = {0};
    hc_bank_data data;
    hc_renderer *renderer = NULL;
    *r = (struct moving_result){0};
    if (!steer_data_make(&data, shape->n_entries, shape->n_out, shape->n_taps, shape->seed))
        return message_write(why, cap, "bench: no memory for a bank of %d entries; use fewer", shape->n_entries);
    hc_render_config config = {
        .size = sizeof config, .backend = shape->backend, .step = shape->step, .n_threads = shape->n_threads};
    double start = stopwatch_now();
    bool good = hc_renderer_open(&config, &data, &renderer, why, cap) == HC_OK;
    r->setup_s = stopwatch_now() - start;
    steer_data_free(&data);
    if (good && !signals_make(&signals, shape))
        good = message_write(why, cap, "bench: no memory for %d signals; use fewer", shape->n_jobs);
    if (good)
        good = hc_render(renderer, signals.jobs, sizeof *signals.jobs, shape->n_jobs, why, cap) ==
               HC_OK; /* fills the caches */
    start = stopwatch_now();
    while (good && r->elapsed_s < shape->time_s) {
        good = hc_render(renderer, signals.jobs, sizeof *signals.jobs, shape->n_jobs, why, cap) == HC_OK;
        r->elapsed_s = stopwatch_now() - start;
        r->n_calls++;
    }
    r->hours = r->n_calls * (double)shape->n_jobs * (double)signals.n_frames / shape->rate / 3600;
    signals_free(&signals);
    hc_renderer_close(renderer);
    return good;
}
