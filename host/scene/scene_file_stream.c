#include "scene_file_stream.h"

#include "host/message.h"

#include <stdlib.h>
#include <string.h>

enum { BLOCK_SAMPLES = 1 << 20, MAX_BLOCK = 1 << 18 /* frames; holds a whole file of 10 s at 16 kHz */ };

/* The buffers of a block hold about BLOCK_SAMPLES each: banks may have 1024 outputs. */
static int block_choose(int n_sources, int n_out, int step, int64_t n_frames)
{
    int64_t block = BLOCK_SAMPLES / (n_sources > n_out ? n_sources : n_out);
    if (block > MAX_BLOCK) block = MAX_BLOCK;
    if (block > n_frames) block = n_frames;
    return block < step ? step : (int)(block / step * step);
}

bool scene_file_stream_open(struct scene_file_stream *m, struct path *path, const hc_bank_data *bank,
                        const struct path_options *options, int64_t n_frames, const char *name, char *why, size_t cap)
{
    const int step = options->step;
    m->path = *path;
    *path = (struct path){0};
    m->n_sources = m->path.n_sources;
    m->block = block_choose(m->n_sources, bank->n_out, step, n_frames);
    m->history = (size_t)bank->n_taps + 2 * (size_t)step;
    m->stride = m->history + (size_t)m->block;
    if (!path_steps_open(&m->steps, &m->path, bank, options, name, why, cap)) return false;
    m->frames = calloc((size_t)m->n_sources * m->stride, sizeof *m->frames);
    m->ins = calloc((size_t)m->n_sources, sizeof *m->ins);
    return (m->frames && m->ins) || message_write(why, cap, "no memory for %d moving source%s; free some memory",
                                                  m->n_sources, message_s(m->n_sources));
}

void scene_file_stream_close(struct scene_file_stream *m)
{
    path_steps_close(&m->steps);
    path_free(&m->path);
    free(m->frames);
    free(m->ins);
    *m = (struct scene_file_stream){0};
}

bool scene_file_stream_job(struct scene_file_stream *m, int n_in, int n, float *const *out, hc_render_job *job)
{
    const int64_t history = (int64_t)m->history, before = m->n_done < history ? m->n_done : history;
    if (!path_steps_make(&m->steps, m->n_done, m->n_done + n)) return false;
    for (int i = 0; i < m->n_sources; i++) m->ins[i] = scene_file_stream_block(m, i) - before;
    *job = (hc_render_job){.n_sources = m->n_sources,
                           .in = m->ins,
                           .in_from = m->n_done - before,
                           .n_in_frames = before + n_in,
                           .steps = m->steps.steps,
                           .step_size = sizeof *m->steps.steps,
                           .n_steps = m->steps.n_steps,
                           .out = out,
                           .from = m->n_done,
                           .n_out_frames = n};
    return true;
}

void scene_file_stream_next(struct scene_file_stream *m, int n_in, int n)
{
    m->n_done += n;
    if (n < m->block) return; /* the last block */
    for (int i = 0; i < m->n_sources; i++) {
        float *frames = m->frames + (size_t)i * m->stride;
        memset(frames + m->history + n_in, 0, (size_t)(n - n_in) * sizeof *frames);
        memmove(frames, frames + n, m->history * sizeof *frames);
    }
}

void scene_file_stream_rewind(struct scene_file_stream *m)
{
    m->n_done = 0;
    path_steps_rewind(&m->steps);
    memset(m->frames, 0, (size_t)m->n_sources * m->stride * sizeof *m->frames);
}
