#include "moving.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK_SAMPLES = 1 << 20, MOST_BLOCK = 1 << 18 };

/* A GPU takes tenths of a second to start. The CPU computes this many multiplications in that time. */
static const double gpu_least_work = 1e10;

static bool path_open(struct moving *m, const struct moving_settings *s, int rate, int n_sources, int64_t n_frames,
                      char *why, size_t cap)
{
    if (!path_is_random(s->path)) return path_read(&m->path, s->path, rate, n_sources, m->data.n_entries, why, cap);
    if (n_frames < 0)
        return message_write(why, cap, "%s: a random path needs an input of known length; give a file", s->path);
    return path_random(&m->path, s->path, s->seed, rate, n_frames + m->data.n_taps, n_sources, why, cap);
}

bool moving_load(struct moving *m, const struct moving_settings *s, const char *bank, int rate, int n_sources,
                 int64_t n_frames, char *why, size_t cap)
{
    m->n_sources = n_sources;
    m->n_frames = n_frames;
    if (!moving_bank_load(&m->data, bank, rate, &s->bank, why, cap)) return false;
    if (!path_open(m, s, rate, n_sources, n_frames, why, cap)) return false;
    m->path.holds = s->holds;
    if (!path_steps_open(&m->steps, &m->path, &m->data, &s->path_options, bank, why, cap)) return false;
    moving_bank_print(&m->data, bank);
    return true;
}

static bool buffers_open(struct moving *m, int step)
{
    int widest = m->n_sources > m->data.n_out ? m->n_sources : m->data.n_out, block = BLOCK_SAMPLES / widest;
    if (block > MOST_BLOCK) block = MOST_BLOCK;
    m->block = block < step ? step : block / step * step;
    m->history = (size_t)m->data.n_taps + 2 * (size_t)step;
    m->stride = m->history + (size_t)m->block;
    m->frames = calloc((size_t)m->n_sources * m->stride, sizeof *m->frames);
    m->ins = calloc((size_t)m->n_sources, sizeof *m->ins);
    for (int i = 0; m->ins && m->frames && i < m->n_sources; i++) m->ins[i] = m->frames + (size_t)i * m->stride;
    return m->frames && m->ins;
}

bool moving_open(struct moving *m, const char *backend, char *why, size_t cap)
{
    const int step = m->steps.options.step;
    double work = 8.0 * (double)m->n_frames * m->n_sources * m->data.n_out * m->data.n_taps / step;
    bool is_small = m->n_frames >= 0 && work < gpu_least_work && strcmp(backend, "auto") == 0;
    hc_render_config config = {.size = sizeof config, .backend = is_small ? "cpu" : backend, .step = step};
    if (!buffers_open(m, step)) return message_write(why, cap, "no memory for %d sources; free some", m->n_sources);
    return hc_renderer_open(&config, &m->data, &m->renderer, why, cap) == HC_OK;
}

static bool render(void *data, const float *const *in, float *const *out, int n, char *why, size_t cap)
{
    struct moving *m = data;
    for (int i = 0; i < m->n_sources; i++) {
        float *frames = m->frames + (size_t)i * m->stride;
        memcpy(frames + m->history, in[i], (size_t)n * sizeof *frames);
        for (int k = 0; k < n; k++) m->non_finite += !isfinite(in[i][k]);
    }
    if (!path_steps_make(&m->steps, m->n_done, m->n_done + n))
        return message_write(why, cap, "no memory for the steps of the path; use a larger --step");
    hc_render_job job = {.n_sources = m->n_sources,
                         .in = m->ins,
                         .in_from = m->n_done - (int64_t)m->history,
                         .n_in_frames = (int64_t)m->history + n,
                         .steps = m->steps.steps,
                         .n_steps = m->steps.n_steps,
                         .out = out,
                         .from = m->n_done,
                         .n_out_frames = n};
    if (hc_render(m->renderer, &job, 1, why, cap) != HC_OK) return false;
    for (int i = 0; i < m->n_sources; i++) {
        float *frames = m->frames + (size_t)i * m->stride;
        memmove(frames, frames + n, m->history * sizeof *frames);
    }
    m->n_done += n;
    return true;
}

bool moving_run(struct moving *m, struct pipeline *pipeline, struct progress *progress)
{
    bool is_device = strncmp(hc_renderer_device(m->renderer), "cpu", 3) != 0;
    struct pipeline_renderer renderer = {m->block, is_device, render, m};
    return pipeline_render(pipeline, &renderer, progress);
}

void moving_close(struct moving *m)
{
    hc_renderer_close(m->renderer);
    path_steps_close(&m->steps);
    path_free(&m->path);
    hc_bank_data_free(&m->data);
    free(m->frames);
    free(m->ins);
    *m = (struct moving){0};
}
