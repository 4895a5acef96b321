/* scene_render - hc_render: whole signals through a bank. Checks the jobs, resolves their steps into windows, each with
 * the terms before and after its fade, and passes the windows to a backend.
 *
 *   steps     frame ->   |  a        b     |          c |
 *   edges     |          |          |          |          |          |
 *   to        silence     a          b          b          c          c       the last step at or before the edge
 *   fade      -           0 to a     a to b     -          b to c     -
 */
#include "device_bank.h"
#include "dsp/backends/backends.h"
#include "dsp/base/struct_copy.h"
#include "dsp/device/scene_render_backend.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { DEFAULT_STEP = 256, MIN_STEP = 16, MAX_STEP = 65536 };
#define MAX_FRAME (INT64_C(1) << 61) /* two frame numbers and a window's length add up without overflow */

struct scene_render_bank {
    int n_entries, n_out;
};

struct scene_render_windows {
    int64_t n_windows;
    struct scene_render_window *windows; /* [n_windows] */
    struct scene_render_term *terms;     /* the terms of all lists; one list may belong to many windows */
};

struct source_terms { /* the terms that the last step of a source set */
    int n;
    struct scene_render_term
        terms[HC_MAX_MIX]; /* sorted by entry; each entry occurs once, with a weight other than 0 */
};

static int step_check(const hc_render_job *job, int i, const struct scene_render_bank *bank, struct reason *why)
{
    const hc_step *step = &job->steps[i];
    if (i > 0 && step->frame < job->steps[i - 1].frame)
        return fail(HC_EINVAL, why, "step %d is at frame %lld, before the step in front of it; sort the steps by frame",
                    i, (long long)step->frame);
    if (step->source < 0 || step->source >= job->n_sources)
        return fail(HC_EINVAL, why, "step %d: source %d is out of range; give 0 to %d", i, step->source,
                    job->n_sources - 1);
    if (step->n < 0 || step->n > HC_MAX_MIX)
        return fail(HC_EINVAL, why, "step %d: n %d is out of range; give 0 to %d", i, step->n, HC_MAX_MIX);
    for (int k = 0; k < step->n; k++) {
        if (step->entry[k] < 0 || step->entry[k] >= bank->n_entries)
            return fail(HC_EINVAL, why, "step %d: entry %d is out of range; give 0 to %d", i, step->entry[k],
                        bank->n_entries - 1);
        if (!isfinite(step->weight[k]))
            return fail(HC_EINVAL, why, "step %d: a weight is not a finite number; give one", i);
    }
    return HC_OK;
}

static int job_check(const hc_render_job *job, int step, const struct scene_render_bank *bank, struct reason *why)
{
    if (job->n_sources < 0 || job->n_steps < 0 || job->n_in_frames < 0 || job->n_out_frames < 0)
        return fail(HC_EINVAL, why, "a count is negative; give 0 or more");
    if (job->from > MAX_FRAME || job->n_out_frames > MAX_FRAME || job->n_in_frames > MAX_FRAME ||
        job->in_from > MAX_FRAME || job->in_from < -MAX_FRAME)
        return fail(HC_EINVAL, why, "from, in_from or a count of frames is larger than 2^61; give less");
    if ((job->n_sources > 0 && job->n_in_frames > 0 && !job->in) || (job->n_steps > 0 && !job->steps) ||
        (job->n_out_frames > 0 && !job->out))
        return fail(HC_EINVAL, why, "in, steps or out is NULL; pass all");
    if (job->from < 0 || job->from % step)
        return fail(HC_EINVAL, why, "from is frame %lld; give a multiple of step, %d", (long long)job->from, step);
    for (int s = 0; s < job->n_sources && job->n_in_frames > 0; s++)
        if (!job->in[s]) return fail(HC_EINVAL, why, "in[%d] is NULL; pass its frames", s);
    for (int o = 0; o < bank->n_out && job->n_out_frames > 0; o++)
        if (!job->out[o]) return fail(HC_EINVAL, why, "out[%d] is NULL; pass a buffer", o);
    if (job->n_steps > 0 && job->step_size != sizeof *job->steps)
        return fail(HC_EINVAL, why, "step_size is %zu; set it to sizeof(hc_step), %zu", job->step_size,
                    sizeof *job->steps);
    for (int i = 0; i < job->n_steps; i++) {
        int error = step_check(job, i, bank, why);
        if (error) return error;
    }
    return HC_OK;
}

static void source_terms_add(struct source_terms *source, struct scene_render_term term)
{
    int at = 0;
    while (at < source->n && source->terms[at].entry < term.entry) at++;
    if (at < source->n && source->terms[at].entry == term.entry) {
        source->terms[at].weight += term.weight;
        return;
    }
    for (int k = source->n++; k > at; k--) source->terms[k] = source->terms[k - 1];
    source->terms[at] = term;
}

static struct source_terms terms_of(const hc_step *step)
{
    struct source_terms sum = {0}, terms = {0};
    for (int k = 0; k < step->n; k++)
        source_terms_add(&sum, (struct scene_render_term){step->source, step->entry[k], step->weight[k]});
    for (int k = 0; k < sum.n; k++)
        if (sum.terms[k].weight != 0) terms.terms[terms.n++] = sum.terms[k];
    return terms;
}

static bool windows_are_same(const struct source_terms *a, const struct source_terms *b)
{
    bool same = a->n == b->n;
    for (int k = 0; same && k < a->n; k++)
        same = a->terms[k].entry == b->terms[k].entry && a->terms[k].weight == b->terms[k].weight;
    return same;
}

/* ---- the lists of terms at the edges ----------------------------------------------------------------------------- */

struct resolver {
    const hc_render_job *job;
    int next;                 /* index of the next step to apply */
    struct source_terms *now; /* [n_sources] */
    const hc_step **last;     /* [n_sources]: the source's last step before the edge; NULL: no step */
    int n_total;              /* number of terms of all sources together */
    struct scene_render_windows *windows;
    size_t n_terms, capacity; /* number and capacity of windows->terms */
};

/* Applies the steps up to frame `edge`. Returns true if a source now has other terms. */
static bool apply_steps(struct resolver *r, int64_t edge)
{
    int first = r->next;
    bool any = false;
    for (; r->next < r->job->n_steps && r->job->steps[r->next].frame <= edge; r->next++)
        r->last[r->job->steps[r->next].source] = &r->job->steps[r->next];
    for (int s = 0; s < r->job->n_sources && r->next > first; s++) {
        if (!r->last[s]) continue;
        struct source_terms terms = terms_of(r->last[s]);
        r->last[s] = NULL;
        if (windows_are_same(&r->now[s], &terms)) continue;
        r->n_total += terms.n - r->now[s].n;
        r->now[s] = terms;
        any = true;
    }
    return any;
}

/* Appends the list of the terms that sound now. Returns its position in windows->terms, or SIZE_MAX: no memory. */
static size_t append_list(struct resolver *r)
{
    size_t at = r->n_terms, need = at + (size_t)r->n_total;
    if (need > r->capacity) {
        size_t capacity = need + need / 2 + 64;
        struct scene_render_term *terms = realloc(r->windows->terms, capacity * sizeof *terms);
        if (!terms) return SIZE_MAX;
        r->windows->terms = terms;
        r->capacity = capacity;
    }
    for (int s = 0; s < r->job->n_sources; s++)
        for (int k = 0; k < r->now[s].n; k++) r->windows->terms[r->n_terms++] = r->now[s].terms[k];
    return at;
}

struct span {
    size_t at;
    int n;
}; /* a list */

/* Fills in the windows. A window holds positions of its lists, not addresses, while the array of terms may grow. */
static bool resolve(struct resolver *r, struct span *from, struct span *to, int step)
{
    int64_t first = r->job->from / step;
    struct span before;
    if (first > 0) apply_steps(r, (first - 1) * step);
    before = (struct span){append_list(r), r->n_total};
    if (before.at == SIZE_MAX) return false;
    for (int64_t w = 0; w < r->windows->n_windows; w++) {
        bool changed = apply_steps(r, (first + w) * step);
        struct span now = changed ? (struct span){append_list(r), r->n_total} : before;
        if (now.at == SIZE_MAX) return false;
        from[w] = before;
        if (!changed || first + w == 0) from[w].n = -1;
        to[w] = before = now;
    }
    for (int64_t w = 0; w < r->windows->n_windows; w++)
        r->windows->windows[w] = (struct scene_render_window){from[w].n, to[w].n, r->windows->terms + from[w].at,
                                                              r->windows->terms + to[w].at};
    return true;
}

static int make_windows(struct scene_render_windows *windows, const hc_render_job *job, int step, struct reason *why)
{
    size_t n = (size_t)job->n_sources + 1, n_windows;
    windows->n_windows = job->n_out_frames / step + (job->n_out_frames % step > 0);
    n_windows = (size_t)windows->n_windows + 1;
    struct resolver r = {
        .job = job, .windows = windows, .now = calloc(n, sizeof *r.now), .last = calloc(n, sizeof *r.last)};
    struct span *from = calloc(n_windows, sizeof *from), *to = calloc(n_windows, sizeof *to);
    windows->windows = calloc(n_windows, sizeof *windows->windows);
    /* Allocate at least one term, so that the address of a list is not NULL when nothing sounds. */
    windows->terms = calloc(n, sizeof *windows->terms);
    r.capacity = n;
    bool ok = r.now && r.last && from && to && windows->windows && windows->terms;
    if (ok) ok = resolve(&r, from, to, step);
    free(r.now);
    free(r.last);
    free(from);
    free(to);
    return ok ? HC_OK : fail(HC_ENOMEM, why, "no memory for %lld windows; use fewer", (long long)windows->n_windows);
}

/* Error texts name job_index. The caller may call scene_render_windows_free after a failure, too. [setup] */
static int scene_render_windows_make(struct scene_render_windows *windows, int job_index, const hc_render_job *job,
                                     int step, const struct scene_render_bank *bank, struct reason *why)
{
    char text[200];
    int error = job_check(job, step, bank, REASON(text, sizeof text));
    *windows = (struct scene_render_windows){0};
    if (error) return fail(error, why, "job %d: %s", job_index, text);
    return make_windows(windows, job, step, why);
}

static void scene_render_windows_free(struct scene_render_windows *windows)
{
    free(windows->windows);
    free(windows->terms);
}

/* ---- the calls --------------------------------------------------------------------------------------------------- */

struct hc_renderer {
    const struct scene_render_backend *backend;
    void *state;
    int step;
    struct scene_render_bank bank;
};

/* Finds the backend and the device by name ("auto": see gpu_rules.h). Writes its description to `text`, if not NULL. */
static int scene_render_choose_backend(hc_renderer *r, const char *name, int *device, char *text, struct reason *why)
{
    const struct backend *backend;
    char seen[HC_DEVICE_CAP];
    *device = 0;
    if (strcmp(name, "auto") == 0) {
        backend = backend_gpu_likely();
        if (!backend || !backend->render || backend->describe(0, seen, sizeof seen) != HC_OK)
            backend = backend_find("cpu");
    } else {
        hc_config config = {.size = sizeof config, .backend = name, .block = 1};
        int error = backend_choose(&config, &backend, device, why);
        if (error) return error;
    }
    r->backend = backend->render;
    if (text) backend_device_name(backend, *device, false, text, HC_DEVICE_CAP);
    if (r->backend) return HC_OK;
    return fail(HC_EUNSUPPORTED, why, "backend \"%s\" cannot render; use \"cpu\" or \"cuda\"", name);
}

int hc_renderer_open(const hc_render_config *config, const hc_bank_data *data, hc_renderer **renderer, char *why,
                     size_t cap)
{
    hc_render_config c;
    if (!renderer) return fail(HC_EINVAL, REASON(why, cap), "hc_renderer_open: renderer is NULL; pass a pointer");
    *renderer = NULL;
    int error = struct_copy(config, &c, sizeof c, "hc_render_config", REASON(why, cap));
    if (error) return error;
    if (!c.step) c.step = DEFAULT_STEP;
    if (c.step < MIN_STEP || c.step > MAX_STEP)
        return fail(HC_EINVAL, REASON(why, cap), "step %d is out of range; give %d to %d", c.step, MIN_STEP, MAX_STEP);
    if (c.n_threads < 0) return fail(HC_EINVAL, REASON(why, cap), "n_threads is %d; give 0 or more", c.n_threads);
    error = bank_check(data, REASON(why, cap));
    if (error) return error;
    hc_renderer *r = calloc(1, sizeof *r);
    if (!r) return fail(HC_ENOMEM, REASON(why, cap), "no memory for a renderer; free some memory");
    r->step = c.step;
    r->bank = (struct scene_render_bank){data->n_entries, data->n_out};
    struct scene_render_setup setup = {.step = c.step, .n_threads = c.n_threads, .data = data};
    const char *name = c.backend ? c.backend : "auto";
    error = scene_render_choose_backend(r, name, &setup.device, c.device, REASON(why, cap));
    if (!error) error = r->backend->open(&setup, &r->state, REASON(why, cap));
    if (error && strcmp(name, "auto") == 0) { /* the GPU fails, for example with long steps: use the CPU */
        error = scene_render_choose_backend(r, "cpu", &setup.device, c.device, REASON(why, cap));
        if (!error) error = r->backend->open(&setup, &r->state, REASON(why, cap));
    }
    if (error)
        free(r);
    else
        *renderer = r;
    return error;
}

int hc_render(hc_renderer *r, const hc_render_job *jobs, size_t job_size, int n_jobs, char *why, size_t cap)
{
    if (!r || n_jobs < 0 || (n_jobs > 0 && !jobs))
        return fail(HC_EINVAL, REASON(why, cap),
                    "hc_render: renderer or jobs is NULL, or n_jobs is negative; pass both, and 0 or more");
    if (n_jobs == 0) return HC_OK;
    if (job_size != sizeof *jobs)
        return fail(HC_EINVAL, REASON(why, cap), "job_size is %zu; give sizeof(hc_render_job), %zu", job_size,
                    sizeof *jobs);
    struct scene_render_windows *windows = calloc((size_t)n_jobs, sizeof *windows);
    struct scene_render_work *works = calloc((size_t)n_jobs, sizeof *works);
    if (!windows || !works) {
        free(windows);
        free(works);
        return fail(HC_ENOMEM, REASON(why, cap), "no memory for %d jobs; use fewer", n_jobs);
    }
    int error = HC_OK;
    for (int i = 0; i < n_jobs && !error; i++) {
        error = scene_render_windows_make(&windows[i], i, &jobs[i], r->step, &r->bank, REASON(why, cap));
        works[i] = (struct scene_render_work){&jobs[i], windows[i].n_windows, windows[i].windows};
    }
    if (!error) error = r->backend->run(r->state, works, n_jobs, REASON(why, cap));
    for (int i = 0; i < n_jobs; i++) scene_render_windows_free(&windows[i]);
    free(windows);
    free(works);
    return error;
}

void hc_renderer_close(hc_renderer *r)
{
    if (!r) return;
    r->backend->close(r->state);
    free(r);
}
