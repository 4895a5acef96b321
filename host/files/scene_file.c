#include "scene_file.h"

#include <stdlib.h>
#include <string.h>

/* A GPU takes tenths of a second to start. The CPU computes this many multiplications in that time. */
static const double gpu_min_work = 1e10;

bool scene_file_load(struct scene_file *m, const struct scene_file_settings *s, uint64_t seed, const char *bank, int rate,
                 int n_sources, int64_t n_frames, char *why, size_t cap)
{
    struct path path;
    bool mixes;
    m->n_frames = n_frames;
    bool good = scene_file_path_read(&path, s->path, s, rate, n_sources, &mixes, why, cap) &&
                scene_file_bank_load(&m->data, bank, rate, &s->bank, mixes, why, cap) &&
                scene_file_path_finish(&path, s->path, seed, s, &m->data, rate, n_sources, n_frames, why, cap) &&
                scene_file_stream_open(&m->stream, &path, &m->data, &s->path_options, INT64_MAX, bank, why, cap);
    if (good) scene_file_bank_print(&m->data, bank);
    path_free(&path);
    return good;
}

bool scene_file_open(struct scene_file *m, const char *backend, char *why, size_t cap)
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
    struct scene_file *m = data;
    hc_render_job job;
    for (int i = 0; i < m->stream.n_sources; i++)
        memcpy(scene_file_stream_block(&m->stream, i), in[i], (size_t)n * sizeof *in[i]);
    if (!scene_file_stream_job(&m->stream, n, n, out, &job))
        return message_write(why, cap, "no memory for the steps of the path; use a larger --step");
    if (hc_render(m->renderer, &job, sizeof job, 1, why, cap) != HC_OK) return false;
    scene_file_stream_next(&m->stream, n, n);
    return true;
}

bool scene_file_run(struct scene_file *m, struct pipeline *pipeline, struct progress *progress)
{
    bool is_device = strncmp(m->device, "cpu", 3) != 0;
    struct pipeline_renderer renderer = {m->stream.block, is_device, render, m};
    return pipeline_render(pipeline, &renderer, progress);
}

void scene_file_close(struct scene_file *m)
{
    hc_renderer_close(m->renderer);
    scene_file_stream_close(&m->stream);
    hc_bank_data_free(&m->data);
    *m = (struct scene_file){0};
}
