#include "moving.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A GPU takes tenths of a second to start. The CPU computes this many multiplications in that time. */
static const double gpu_min_work = 1e10;

bool moving_load(struct moving *m, const struct moving_settings *s, uint64_t seed, const char *bank, int rate,
                 int n_sources, int64_t n_frames, char *why, size_t cap)
{
    struct path path;
    bool mixes;
    m->n_frames = n_frames;
    bool good = moving_path_read(&path, s->path, s, rate, n_sources, &mixes, why, cap) &&
                moving_bank_load(&m->data, bank, rate, &s->bank, mixes, why, cap) &&
                moving_path_finish(&path, s->path, seed, s, &m->data, rate, n_sources, n_frames, why, cap) &&
                moving_stream_open(&m->stream, &path, &m->data, &s->path_options, INT64_MAX, bank, why, cap);
    if (good) moving_bank_print(&m->data, bank);
    path_free(&path);
    return good;
}

bool moving_open(struct moving *m, const char *backend, char *why, size_t cap)
{
    const int step = m->stream.steps.options.step;
    double work = 8.0 * (double)m->n_frames * m->stream.n_sources * m->data.n_out * m->data.n_taps / step;
    bool is_small = m->n_frames >= 0 && work < gpu_min_work && strcmp(backend, "auto") == 0;
    hc_render_config config = {
        .size = sizeof config, .backend = is_small ? "cpu" : backend, .step = step, .device = m->device};
    return hc_renderer_open(&config, &m->data, &m->renderer, why, cap) == HC_OK;
}

static bool render(void *data, const float *const *in, float *const *out, int n, char *why, size_t cap)
{
    struct moving *m = data;
    hc_render_job job;
    for (int i = 0; i < m->stream.n_sources; i++) {
        memcpy(moving_stream_block(&m->stream, i), in[i], (size_t)n * sizeof *in[i]);
        for (int k = 0; k < n; k++) m->non_finite += !isfinite(in[i][k]);
    }
    if (!moving_stream_job(&m->stream, n, n, out, &job))
        return message_write(why, cap, "no memory for the steps of the path; use a larger --step");
    if (hc_render(m->renderer, &job, sizeof job, 1, why, cap) != HC_OK) return false;
    moving_stream_next(&m->stream, n, n);
    return true;
}

bool moving_run(struct moving *m, struct pipeline *pipeline, struct progress *progress)
{
    bool is_device = strncmp(m->device, "cpu", 3) != 0;
    struct pipeline_renderer renderer = {m->stream.block, is_device, render, m};
    return pipeline_render(pipeline, &renderer, progress);
}

void moving_close(struct moving *m)
{
    hc_renderer_close(m->renderer);
    moving_stream_close(&m->stream);
    hc_bank_data_free(&m->data);
    *m = (struct moving){0};
}
