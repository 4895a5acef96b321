#include "path_steps.h"

#include "host/message.h"

#include <math.h>
#include <stdlib.h>

struct path_follower {
    size_t row;
    hc_step step; /* the last step; frame below 0: no step yet */
};

void path_steps_rewind(struct path_steps *s)
{
    for (int i = 0; i < s->path->n_sources; i++) {
        s->sources[i].row = s->path->first[i];
        s->sources[i].step.frame = -1;
    }
}

bool path_steps_open(struct path_steps *s, const struct path *path, const hc_bank_data *bank,
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

void path_steps_close(struct path_steps *s)
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

bool path_steps_make(struct path_steps *s, int64_t from, int64_t end)
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
