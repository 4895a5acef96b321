#include "scene_file_stream.h"

#include "host/message.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- the steps of a path ---------------------------------------------------------------------- */

struct path_follower {
    size_t row;
    hc_step step; /* the last step; frame below 0: no step yet */
};

/* goes back to frame 0 */
static void path_steps_rewind(struct path_steps *s)
{
    for (int i = 0; i < s->path->n_sources; i++) {
        s->sources[i].row = s->path->first[i];
        s->sources[i].step.frame = -1;
    }
}

/* path and bank must outlive the steps. name: name of the bank, for an error. false: why has the reason. */
static bool path_steps_open(struct path_steps *s, const struct path *path, const hc_bank_data *bank,
                            const struct path_options *options, const char *name, char *why, size_t cap)
{
    *s = (struct path_steps){.path = path, .bank = bank, .options = *options};
    if (path->kind != PATH_ENTRIES && !bank->position)
        return message_write(why, cap, "%s: has no positions, but the path has; give the path the column entry", name);
    s->sources = calloc((size_t)path->n_sources, sizeof *s->sources);
    if (!s->sources)
        return message_write(why, cap, "no memory for %d source%s; free some memory", path->n_sources,
                             message_s(path->n_sources));
    path_steps_rewind(s);
    return true;
}

static void path_steps_close(struct path_steps *s)
{
    free(s->sources);
    free(s->steps);
    *s = (struct path_steps){0};
}

static hc_step step_at(struct path_steps *s, int source, int64_t frame)
{
    struct path_point point;
    hc_step step = {.frame = frame, .source = source, .n = 1, .weight = {1}};
    path_at(s->path, source, frame, &s->sources[source].row, &point);
    double gain = point.gain * s->options.gain;
    if (s->path->kind == PATH_ENTRIES) {
        step.entry[0] = point.entry;
    } else {
        const float *p = point.position;
        double distance = sqrt((double)p[0] * p[0] + (double)p[1] * p[1] + (double)p[2] * p[2]);
        if (s->options.mix >= 0)
            step.n = hc_bank_mix(s->bank, p, step.entry, step.weight);
        else
            step.entry[0] = hc_bank_nearest(s->bank, p);
        if (s->options.reference_m > 0) gain *= fmin(s->options.reference_m / fmax(distance, 1e-30), 10);
    }
    for (int i = 0; i < step.n; i++) step.weight[i] *= (float)gain;
    return step;
}

static bool plays_same(const hc_step *a, const hc_step *b)
{
    bool same = a->n == b->n;
    for (int i = 0; same && i < a->n; i++) same = a->entry[i] == b->entry[i] && a->weight[i] == b->weight[i];
    return same;
}

static bool step_append(struct path_steps *s, const hc_step *step)
{
    if ((size_t)s->n_steps == s->capacity) {
        size_t capacity = s->capacity ? 2 * s->capacity : 256;
        hc_step *steps = realloc(s->steps, capacity * sizeof *steps);
        if (!steps) return false;
        s->steps = steps;
        s->capacity = capacity;
    }
    s->steps[s->n_steps++] = *step;
    return true;
}

/* Makes the steps for frames [from, end), which follow the frames of the last call. from: a multiple of the step. The
 * list begins with the entries that play before `from`. false: no memory. */
static bool path_steps_make(struct path_steps *s, int64_t from, int64_t end)
{
    s->n_steps = 0;
    for (int i = 0; from > 0 && i < s->path->n_sources; i++) {
        hc_step before = s->sources[i].step;
        before.frame = from - s->options.step;
        if (!step_append(s, &before)) return false;
    }
    for (int64_t edge = from; edge < end; edge += s->options.step) {
        for (int i = 0; i < s->path->n_sources; i++) {
            hc_step step = step_at(s, i, edge);
            if (s->sources[i].step.frame >= 0 && plays_same(&step, &s->sources[i].step)) continue;
            s->sources[i].step = step;
            if (!step_append(s, &step)) return false;
        }
    }
    return true;
}

/* ---- the stream ------------------------------------------------------------------------------- */

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
                            const struct path_options *options, int64_t n_frames, const char *name, char *why,
                            size_t cap)
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
