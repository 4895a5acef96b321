/* scene_render_cpu - hc_render on the CPU: uniform partitions of `ratio` steps, 1 or 2, as many as fit into a
 * transform of 2S frames. S is the smallest power of 2 that is not below `step`.
 *
 *   window w    zeros, then input frames [(w - ratio) step, (w + 1) step) -> FFT -> x[w], once for each source
 *   product     sum over partitions p of x[w - ratio p] * h[entry][out][p]; one product serves both sums of a window
 *               if an entry is in both of its lists
 *   window w    from and to: sums of weight * product -> IFFT each -> last `step` frames -> fade -> output
 *
 * Windows are computed in groups. The products of a group are sorted by entry, so that the spectra of an entry come from
 * the cache, and FFT_BLOCKS adjacent windows share each load of a spectrum. The sums of a window have the same order in
 * every group, so the output does not depend on the groups, threads or jobs.
 *
 * Memory: for each work in progress, the spectra of a span of windows and of the windows before it that its partitions
 * meet (offline.h).
 */
#include "dsp/device/scene_render_backend.h"

#include "dsp/base/denormals.h"
#include "dsp/base/memory.h"
#include "dsp/base/samples.h"
#include "dsp/base/thread_pool.h"
#include "dsp/device/backend.h"
#include "dsp/fft/fft.h"
#include "offline.h"
#include "mask_partitions.h"
#include "scene_bank.h"
#include "simd.h"

#include <stdlib.h>
#include <string.h>

enum {
    MAX_GROUP = 128,
    MIN_GROUP = 8,          /* min. windows of a group */
    GROUP_FLOATS = 1 << 19, /* approximate floats of a group's sums: they should fit into the second-level cache */
    SPAN_FLOATS = 1 << 24,  /* approximate floats of a span's spectra */
    WINDOWS_A_JOB = 16,     /* windows that a job transforms */
};

struct item { /* a product and its weights in a window's two sums */
    int source, entry;
    int window;     /* index of the window in the group */
    float from, to; /* weights in the two sums; 0: not in that sum */
};

struct scratch {         /* buffers of one thread */
    float *sums;         /* [2: from, to][group][2S] */
    float *products;     /* [FFT_BLOCKS][2S] */
    float *frames;       /* [2S], of which the first ones stay 0 */
    struct item *items;  /* [n_items] */
    struct offline rows; /* spectra of a work's sources; if all threads share each work, only thread 0 has them */
};

struct scene_render_state {
    int step, ratio, n_out, n_partitions, group;
    size_t floats; /* floats of a spectrum: 2S */
    float *bank;   /* [entry][out][chunk of bins][partition][fft->chunk], scaled by 1 / S */
    const struct fft *fft;
    const struct simd *simd;
    const struct samples *samples;
    struct thread_pool *pool;
    float *fade; /* [step] */
};

static void scene_render_close(void *state)
{
    struct scene_render_state *s = state;
    if (!s) return;
    if (s->pool) thread_pool_close(s->pool);
    fft_put(s->fft);
    free(s->bank);
    free(s->fade);
    free(s);
}

/* ---- the bank ---------------------------------------------------------------------------------------------------- */

struct bank_job {
    struct scene_render_state *s;
    const hc_bank_data *data;
    float *work; /* [threads][2][2S] */
};

static void scene_render_transform_response(void *data, int64_t row, int thread)
{
    const struct bank_job *job = data;
    const struct scene_render_state *s = job->s;
    float *work = job->work + 2 * (size_t)thread * s->floats;
    float *spectrum = s->bank + (size_t)row * (size_t)s->n_partitions * s->floats;
    size_t stride = (size_t)s->n_partitions * (size_t)s->fft->chunk;
    for (int p = 0; p < s->n_partitions; p++) {
        int size = s->ratio * s->step, at = p * size, n = job->data->n_taps - at < size ? job->data->n_taps - at : size;
        taps_transform(s->fft, job->data->taps[row] + at, n, work, spectrum + (size_t)(p * s->fft->chunk), stride);
    }
}

static int bank_transform(struct scene_render_state *s, const hc_bank_data *data, struct reason *why)
{
    size_t n_rows = (size_t)data->n_entries * (size_t)data->n_out;
    double floats = (double)n_rows * s->n_partitions * (double)s->floats;
    int error = scene_bank_fits(floats, data, why);
    if (error) return error;
    struct bank_job job = {s, data, memory_floats(2 * (size_t)thread_pool_size(s->pool) * s->floats)};
    s->bank = memory_floats_uncleared(n_rows * (size_t)s->n_partitions * s->floats);
    bool ok = job.work && s->bank;
    if (ok) thread_pool_run(s->pool, scene_render_transform_response, &job, (int64_t)n_rows);
    free(job.work);
    return ok ? HC_OK : fail(HC_ENOMEM, why, "no memory for a bank of %d entries; free some memory", data->n_entries);
}

static int scene_render_open(const struct scene_render_setup *setup, void **state, struct reason *why)
{
    const hc_bank_data *data = setup->data;
    struct scene_render_state *s = calloc(1, sizeof *s);
    if (!s) return fail(HC_ENOMEM, why, "no memory for a renderer; free some memory");
    s->step = setup->step;
    s->n_out = data->n_out;
    s->floats = 2 * FFT_MIN;
    while (s->floats < 2 * (size_t)s->step) s->floats *= 2;
    s->ratio = (int)s->floats / s->step - 1; /* a window of the input has ratio + 1 steps */
    s->n_partitions = (data->n_taps - 1) / (s->ratio * s->step) + 1;
    s->group = (int)(GROUP_FLOATS / (2 * s->floats));
    if (s->group > MAX_GROUP) s->group = MAX_GROUP;
    if (s->group < MIN_GROUP) s->group = MIN_GROUP;
    s->simd = simd_choose();
    s->samples = samples_choose();
    s->fft = fft_get((int)(s->floats / 2));
    s->pool = thread_pool_open(setup->n_threads);
    s->fade = memory_floats((size_t)s->step);
    if (!s->fft || !s->pool || !s->fade) {
        scene_render_close(s);
        return fail(HC_ENOMEM, why, "no memory for a renderer; free some memory");
    }
    int error = bank_transform(s, data, why);
    if (error) {
        scene_render_close(s);
        return error;
    }
    for (int i = 0; i < s->step; i++) s->fade[i] = steer_gain(i, s->step);
    *state = s;
    return HC_OK;
}

/* ---- a span of windows -------------------------------------------------------------------------------------------- */

struct window_span {
    const struct scene_render_state *s;
    const struct scene_render_work *work;
    const struct offline *rows; /* window w of a row is window w of the work, w >= -windows_before */
    int64_t first, from;        /* the span's first window; the first window to transform */
    int n, n_new;               /* number of the span's windows; number of windows to transform */
    struct scratch *scratch;    /* [threads] */
};

/* Returns the number of earlier windows that the partitions of a window meet. */
static int windows_before(const struct scene_render_state *s)
{
    return s->ratio * (s->n_partitions - 1);
}

/* Copies frames [from, from + n) of a source's stream; those outside the input are 0. */
static void copy_frames(const struct window_span *c, int source, int64_t from, int n, float *frames)
{
    const hc_render_job *job = c->work->job;
    int64_t begin = from > job->in_from ? from : job->in_from, end = job->in_from + job->n_in_frames;
    uint32_t peak = 0;
    if (end > from + n) end = from + n;
    memset(frames, 0, (size_t)n * sizeof *frames);
    if (begin < end)
        c->s->samples->copy_finite(frames + (begin - from), job->in[source] + (begin - job->in_from),
                                   (int)(end - begin), &peak);
}

static int div_up(int n, int size)
{
    return (n + size - 1) / size;
}

/* Transforms WINDOWS_A_JOB windows of a source. */
static void transform_windows(void *data, int64_t i, int thread)
{
    const struct window_span *c = data;
    const struct scene_render_state *s = c->s;
    int n_jobs = div_up(c->n_new, WINDOWS_A_JOB), source = (int)(i / n_jobs), at = (int)(i % n_jobs) * WINDOWS_A_JOB;
    int n_frames = (s->ratio + 1) * s->step, end = at + WINDOWS_A_JOB < c->n_new ? at + WINDOWS_A_JOB : c->n_new;
    for (; at < end; at++) {
        float *frames = c->scratch[thread].frames, *spectrum = offline_spectrum(c->rows, source, c->from + at);
        copy_frames(c, source, c->work->job->from + (c->from + at + 1) * s->step - n_frames, n_frames,
                    frames + s->floats - n_frames);
        fft_forward(s->fft, frames, frames + s->fft->size, spectrum, spectrum, (size_t)s->fft->chunk);
    }
}

static int compare_items(const void *left, const void *right)
{
    const struct item *a = left, *b = right;
    if (a->source != b->source) return a->source < b->source ? -1 : 1;
    if (a->entry != b->entry) return a->entry < b->entry ? -1 : 1;
    return (a->window > b->window) - (a->window < b->window);
}

static bool is_before(const struct scene_render_term *a, const struct scene_render_term *b)
{
    return a->source != b->source ? a->source < b->source : a->entry < b->entry;
}

/* Merges the two sorted lists of a window. Returns the number of items. */
static int window_items(const struct scene_render_window *window, int at, struct item *items)
{
    int n_from = window->n_from > 0 ? window->n_from : 0, n = 0;
    for (int f = 0, t = 0; f < n_from || t < window->n_to; n++) {
        bool has_from = f < n_from, has_to = t < window->n_to;
        if (has_from && has_to && is_before(&window->from[f], &window->to[t])) has_to = false;
        if (has_from && has_to && is_before(&window->to[t], &window->from[f])) has_from = false;
        const struct scene_render_term *term = has_from ? &window->from[f] : &window->to[t];
        items[n] = (struct item){.source = term->source, .entry = term->entry, .window = at};
        if (has_from) items[n].from = window->from[f++].weight;
        if (has_to) items[n].to = window->to[t++].weight;
    }
    return n;
}

static void add_scaled(float *sum, const float *x, float gain, size_t n)
{
    for (size_t i = 0; i < n; i++) sum[i] += gain * x[i];
}

/* Adds the products of n items (1, 2 or FFT_BLOCKS) of one source and entry, in adjacent windows. */
static void add_products(const struct window_span *c, int first, const struct item *items, int n, int out,
                         const struct scratch *scratch)
{
    const struct scene_render_state *s = c->s;
    size_t response = (size_t)items[0].entry * (size_t)s->n_out + (size_t)out;
    struct offline_product product = {items[0].source, 0, s->n_partitions,
                                      s->bank + response * (size_t)s->n_partitions * s->floats};
    struct offline_list list = {&product, 1, (size_t)s->n_partitions * (size_t)s->fft->chunk};
    float *y[FFT_BLOCKS];
    for (int t = 0; t < n; t++) y[t] = scratch->products + (size_t)t * s->floats;
    if (!offline_sum(c->rows, &list, c->first + first + items[0].window, n, 0, s->fft->n_chunks, y)) return;
    for (int i = 0; i < n; i++) {
        float *from = scratch->sums + (size_t)items[i].window * s->floats, *to = from + (size_t)s->group * s->floats;
        if (items[i].from != 0) add_scaled(from, y[i], items[i].from, s->floats);
        if (items[i].to != 0) add_scaled(to, y[i], items[i].to, s->floats);
    }
}

/* Transforms a sum of n products back. Returns its last `step` frames. */
static const float *sum_back(const struct scene_render_state *s, int n, float *sum, float *frames)
{
    if (n > 0)
        fft_inverse(s->fft, sum, frames);
    else
        memset(frames, 0, (size_t)s->fft->size * sizeof *frames);
    return frames + s->fft->size - s->step;
}

/* Transforms both sums of a window back and writes the fade between them to the output. */
static void finish_window(const struct window_span *c, int64_t window, int at, int out, const struct scratch *scratch)
{
    const struct scene_render_state *s = c->s;
    const hc_render_job *job = c->work->job;
    const struct scene_render_window *lists = &c->work->windows[window];
    int64_t left = job->n_out_frames - window * s->step;
    int n = left < s->step ? (int)left : s->step;
    float *y = job->out[out] + window * s->step, *sum = scratch->sums + (size_t)at * s->floats;
    const float *to = sum_back(s, lists->n_to, sum + (size_t)s->group * s->floats, scratch->products);
    if (lists->n_from < 0) {
        memcpy(y, to, (size_t)n * sizeof *y);
        return;
    }
    const float *from = sum_back(s, lists->n_from, sum, scratch->products + s->floats);
    for (int i = 0; i < n; i++) y[i] = from[i] + s->fade[i] * (to[i] - from[i]);
}

/* Returns true if n sorted items have the same source and entry, in adjacent windows. */
static bool is_run(const struct item *first, int n)
{
    const struct item *last = first + n - 1;
    return last->source == first->source && last->entry == first->entry && last->window == first->window + n - 1;
}

/* Computes one output of a group of windows. */
static void scene_render_group(void *data, int64_t i, int thread)
{
    const struct window_span *c = data;
    const struct scene_render_state *s = c->s;
    const struct scratch *scratch = &c->scratch[thread];
    int out = (int)(i % s->n_out), first = (int)(i / s->n_out) * s->group,
        n = c->n - first < s->group ? c->n - first : s->group;
    int n_items = 0;
    for (int w = 0; w < n; w++)
        n_items += window_items(&c->work->windows[c->first + first + w], w, scratch->items + n_items);
    qsort(scratch->items, (size_t)n_items, sizeof *scratch->items, compare_items);
    for (int side = 0; side < 2; side++)
        memset(scratch->sums + (size_t)(side * s->group) * s->floats, 0, (size_t)n * s->floats * sizeof(float));
    for (int at = 0, n_same; at < n_items; at += n_same) {
        n_same = FFT_BLOCKS;
        while (n_same > 1 && !(at + n_same <= n_items && is_run(&scratch->items[at], n_same))) n_same /= 2;
        add_products(c, first, &scratch->items[at], n_same, out, scratch);
    }
    for (int w = 0; w < n; w++) finish_window(c, c->first + first + w, w, out, scratch);
}

/* ---- works ------------------------------------------------------------------------------------------------------- */

/* Calls job(data, i, thread) for i in [0, n): on all threads of the pool if thread is -1, else on `thread` alone. */
static void share(const struct scene_render_state *s, int thread, void (*job)(void *, int64_t, int), void *data, int n)
{
    if (thread < 0)
        thread_pool_run(s->pool, job, data, n);
    else
        for (int i = 0; i < n; i++) job(data, i, thread);
}

/* Returns the number of windows of a span: whole groups, as max_items assumes, or all windows. */
static int64_t span_windows(const struct scene_render_state *s, int n_sources, int64_t n_windows)
{
    int64_t n = SPAN_FLOATS / ((int64_t)n_sources * (int64_t)s->floats) - windows_before(s),
            min = 4 * (int64_t)s->group;
    n = n < min ? min : n - n % s->group;
    return n < n_windows ? n : n_windows;
}

static int64_t div_down(int64_t a, int64_t b)
{
    return a / b - (a % b < 0);
}

/* Returns the range of a work's windows that contain input. */
static struct offline_range input_range(const struct scene_render_state *s, const hc_render_job *job)
{
    if (job->n_in_frames == 0) return offline_silence;
    int64_t first = div_down(job->in_from, s->step), last = div_down(job->in_from + job->n_in_frames - 1, s->step);
    return (struct offline_range){first - job->from / s->step, last + s->ratio - job->from / s->step};
}

struct run {
    const struct scene_render_state *s;
    const struct scene_render_work *works;
    int64_t span;            /* max. windows of a span */
    struct scratch *scratch; /* [threads] */
};

/* Computes work i, span by span. thread: the thread that computes the whole work; -1: all threads share it. */
static void work_run(void *data, int64_t i, int thread)
{
    const struct run *r = data;
    const struct scene_render_state *s = r->s;
    const struct scene_render_work *work = &r->works[i];
    const struct offline *rows = &r->scratch[thread < 0 ? 0 : thread].rows;
    struct window_span c = {.s = s, .work = work, .rows = rows, .scratch = r->scratch};
    struct offline_range input = input_range(s, work->job);
    int64_t next = -windows_before(s); /* the next window to transform */
    for (int source = 0; source < work->job->n_sources; source++) rows->ranges[source] = input;
    for (; c.first < work->n_windows; c.first += r->span, next = c.first) {
        int64_t end = work->n_windows - c.first < r->span ? work->n_windows : c.first + r->span;
        int64_t new_end = end <= input.last ? end : input.last + 1;
        c.n = (int)(end - c.first);
        c.from = next > input.first ? next : input.first;
        c.n_new = c.from < new_end ? (int)(new_end - c.from) : 0;
        share(s, thread, transform_windows, &c, work->job->n_sources * div_up(c.n_new, WINDOWS_A_JOB));
        share(s, thread, scene_render_group, &c, div_up(c.n, s->group) * s->n_out);
    }
}

/* The largest number of items of any group of the works. */
static size_t max_items(const struct scene_render_state *s, const struct scene_render_work *works, int n_works)
{
    size_t max = 0, n = 0;
    for (int i = 0; i < n_works; i++)
        for (int64_t w = 0; w < works[i].n_windows; w++) {
            const struct scene_render_window *window = &works[i].windows[w];
            if (w % s->group == 0) n = 0;
            n += (size_t)window->n_to + (size_t)(window->n_from > 0 ? window->n_from : 0);
            if (n > max) max = n;
        }
    return max;
}

/* Allocates a thread's scratch. n_sources: rows of the thread; may be 0. */
static bool scratch_make(const struct scene_render_state *s, struct scratch *scratch, size_t n_items, int n_sources,
                         int n_entries)
{
    scratch->sums = memory_floats_uncleared(2 * (size_t)s->group * s->floats);
    scratch->products = memory_floats(FFT_BLOCKS * s->floats);
    scratch->frames = memory_floats(s->floats);
    scratch->items = calloc(n_items + 1, sizeof *scratch->items);
    return scratch->sums && scratch->products && scratch->frames && scratch->items &&
           (n_sources == 0 || offline_open(&scratch->rows, s->fft, s->ratio, n_sources, n_entries));
}

static void scratch_free(struct scratch *scratch)
{
    free(scratch->sums);
    free(scratch->products);
    free(scratch->frames);
    free(scratch->items);
    offline_close(&scratch->rows);
}

static int scene_render_run(void *state, const struct scene_render_work *works, int n_works, struct reason *why)
{
    const struct scene_render_state *s = state;
    int n_threads = thread_pool_size(s->pool), n_sources = 1;
    bool is_whole = n_works >= 2 * n_threads; /* each thread computes whole works */
    size_t n_items = max_items(s, works, n_works);
    int64_t n_windows = 0;
    for (int i = 0; i < n_works; i++) {
        if (works[i].job->n_sources > n_sources) n_sources = works[i].job->n_sources;
        if (works[i].n_windows > n_windows) n_windows = works[i].n_windows;
    }
    int64_t span = span_windows(s, n_sources, n_windows);
    struct scratch *scratch = calloc((size_t)n_threads, sizeof *scratch);
    struct run run = {s, works, span, scratch};
    bool ok = scratch != NULL;
    for (int t = 0; ok && t < n_threads; t++)
        ok = scratch_make(s, &scratch[t], n_items, t == 0 || is_whole ? n_sources : 0, windows_before(s) + (int)span);
    unsigned denormals = denormals_off();
    if (ok && is_whole)
        thread_pool_run(s->pool, work_run, &run, n_works);
    else
        for (int i = 0; ok && i < n_works; i++) work_run(&run, i, -1);
    denormals_restore(denormals);
    for (int t = 0; scratch && t < n_threads; t++) scratch_free(&scratch[t]);
    free(scratch);
    return ok ? HC_OK : fail(HC_ENOMEM, why, "no memory to render %d jobs; use fewer", n_works);
}

const struct scene_render_backend scene_render_cpu = {
    .name = "cpu", .open = scene_render_open, .run = scene_render_run, .close = scene_render_close};
