/* render_cpu - hc_render on the CPU: uniform partitions of `ratio` steps, 1 or 2, as many as fit into a
 * transform of 2S frames. S is the smallest power of 2 that is not below `step`.
 *
 *   window w    zeros, then input frames [(w - ratio) step, (w + 1) step) -> FFT -> x[w], once for each source
 *   product     sum over partitions p of x[w - ratio p] * h[entry][out][p]; one product serves both sums of a window
 *               if an entry is in both of its lists
 *   window w    from and to: sums of weight * product -> IFFT each -> last `step` frames -> fade -> output
 *
 * Windows are computed in groups. The products of a group are sorted by entry, so that the spectra of an entry come from
 * the cache, and FFT_BLOCKS windows that follow each other share each load of them. The sums of a window have the same
 * order in every group, so the output does not depend on the groups, threads or jobs.
 *
 * Memory: for each work in progress, the spectra of a span of windows and of the windows before it that its partitions
 * meet.
 */
#include "dsp/device/render_backend.h"

#include "dsp/base/denormals.h"
#include "dsp/base/memory.h"
#include "dsp/base/samples.h"
#include "dsp/base/thread_pool.h"
#include "dsp/device/backend.h"
#include "dsp/fft/fft.h"
#include "partitions.h"
#include "scene_bank.h"
#include "simd.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_GROUP = 128,
    MIN_GROUP = 8,          /* windows of a group */
    GROUP_FLOATS = 1 << 19, /* sums of a group, about: they should lie in a cache of the second level */
    SPAN_FLOATS = 1 << 24,  /* spectra of a span, about */
    WINDOWS_A_JOB = 16,     /* that a thread transforms at once */
};

struct item { /* a product and what to do with it */
    int source, entry;
    int window;     /* of the group */
    float from, to; /* weights; 0: silent there */
};

struct scratch {               /* of a thread */
    float *sums;               /* [2: from, to][group][2S] */
    float *products;           /* [FFT_BLOCKS][2S] */
    float *frames;             /* [2S], of which the first ones stay 0 */
    struct item *items;        /* [n_items] */
    struct fft_blocks *blocks; /* [n_partitions] */
    float *spectra; /* as in struct window_span; NULL in threads other than 0 if all threads share each work */
};

struct render_state {
    int step, ratio, n_out, n_partitions, group;
    size_t floats; /* of a spectrum: 2S */
    float *bank;   /* [entry][out][chunk of bins][partition][fft->chunk], scaled by 1 / S */
    const struct fft *fft;
    const struct simd *simd;
    const struct samples *samples;
    struct thread_pool *pool;
    float *fade; /* [step] */
};

static void render_close(void *state)
{
    struct render_state *s = state;
    if (!s) return;
    if (s->pool) thread_pool_close(s->pool);
    fft_put(s->fft);
    free(s->bank);
    free(s->fade);
    free(s);
}

/* ---- the bank ---------------------------------------------------------------------------------------------------- */

struct bank_job {
    struct render_state *s;
    const hc_bank_data *data;
    float *work; /* [threads][2][2S] */
};

static void transform_response(void *data, int row, int thread)
{
    const struct bank_job *job = data;
    const struct render_state *s = job->s;
    float *work = job->work + 2 * (size_t)thread * s->floats;
    float *spectrum = s->bank + (size_t)row * (size_t)s->n_partitions * s->floats;
    size_t stride = (size_t)s->n_partitions * (size_t)s->fft->chunk;
    for (int p = 0; p < s->n_partitions; p++) {
        int size = s->ratio * s->step, at = p * size, n = job->data->n_taps - at < size ? job->data->n_taps - at : size;
        taps_transform(s->fft, job->data->taps[row] + at, n, work, spectrum + (size_t)(p * s->fft->chunk), stride);
    }
}

static int bank_transform(struct render_state *s, const hc_bank_data *data, struct reason *why)
{
    size_t n_rows = (size_t)data->n_entries * (size_t)data->n_out;
    double floats = (double)n_rows * s->n_partitions * (double)s->floats;
    int error = scene_bank_fits(floats, data, why);
    if (error) return error;
    if (n_rows > INT_MAX)
        return fail(HC_EINVAL, why, "a bank of %d entries times %d outputs has too many responses", data->n_entries,
                    data->n_out);
    struct bank_job job = {s, data, memory_floats(2 * (size_t)thread_pool_size(s->pool) * s->floats)};
    s->bank = memory_floats_uncleared(n_rows * (size_t)s->n_partitions * s->floats);
    bool ok = job.work && s->bank;
    if (ok) thread_pool_run(s->pool, transform_response, &job, (int)n_rows);
    free(job.work);
    return ok ? HC_OK : fail(HC_ENOMEM, why, "no memory for a bank of %d entries", data->n_entries);
}

static int render_open(const struct render_setup *setup, void **state, struct reason *why)
{
    const hc_bank_data *data = setup->data;
    struct render_state *s = calloc(1, sizeof *s);
    if (!s) return fail(HC_ENOMEM, why, "no memory for a renderer");
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
        render_close(s);
        return fail(HC_ENOMEM, why, "no memory for a renderer");
    }
    int error = bank_transform(s, data, why);
    if (error) {
        render_close(s);
        return error;
    }
    for (int i = 0; i < s->step; i++) s->fade[i] = (float)(i + 1) / (float)s->step;
    *state = s;
    return HC_OK;
}

/* ---- a span of windows -------------------------------------------------------------------------------------------- */

struct window_span {
    const struct render_state *s;
    const struct render_work *work;
    int64_t first;           /* its first window, counted in the work */
    int n;                   /* windows */
    int n_entries;           /* of a phase: n_partitions - 1 before `first`, then the span */
    float *spectra;          /* [n_sources][chunk of bins][phase: window % ratio][n_entries][fft->chunk] */
    int n_old;               /* spectra of a source that are there */
    struct scratch *scratch; /* [threads] */
};

/* Windows before `first` that its partitions meet. */
static int windows_before(const struct render_state *s)
{
    return s->ratio * (s->n_partitions - 1);
}

/* Floats from chunk to chunk of bins. */
static size_t stride_of(const struct window_span *c)
{
    return (size_t)c->s->ratio * (size_t)c->n_entries * (size_t)c->s->fft->chunk;
}

static float *spectrum_of(const struct window_span *c, int source, int at)
{
    size_t entry = (size_t)(at % c->s->ratio) * (size_t)c->n_entries + (size_t)(at / c->s->ratio);
    return c->spectra + (size_t)(source * c->s->fft->n_chunks) * stride_of(c) + entry * (size_t)c->s->fft->chunk;
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
static void transform_windows(void *data, int i, int thread)
{
    const struct window_span *c = data;
    const struct render_state *s = c->s;
    int n_new = windows_before(s) + c->n - c->n_old, n_jobs = div_up(n_new, WINDOWS_A_JOB);
    int source = i / n_jobs, at = c->n_old + i % n_jobs * WINDOWS_A_JOB, end = at + WINDOWS_A_JOB;
    if (end > c->n_old + n_new) end = c->n_old + n_new;
    int64_t window = c->work->job->from / s->step + c->first - windows_before(s);
    for (; at < end; at++) {
        float *frames = c->scratch[thread].frames;
        int n = (s->ratio + 1) * s->step;
        copy_frames(c, source, (window + at + 1) * s->step - n, n, frames + s->floats - n);
        fft_forward(s->fft, frames, frames + s->fft->size, c->scratch[thread].products, spectrum_of(c, source, at),
                    stride_of(c));
    }
}

static int compare_items(const void *left, const void *right)
{
    const struct item *a = left, *b = right;
    if (a->source != b->source) return a->source < b->source ? -1 : 1;
    if (a->entry != b->entry) return a->entry < b->entry ? -1 : 1;
    return (a->window > b->window) - (a->window < b->window);
}

static bool is_before(const struct render_term *a, const struct render_term *b)
{
    return a->source != b->source ? a->source < b->source : a->entry < b->entry;
}

/* Merges the two sorted lists of a window. Returns how many items. */
static int window_items(const struct render_window *window, int at, struct item *items)
{
    int n_from = window->n_from > 0 ? window->n_from : 0, n = 0;
    for (int f = 0, t = 0; f < n_from || t < window->n_to; n++) {
        bool has_from = f < n_from, has_to = t < window->n_to;
        if (has_from && has_to && is_before(&window->from[f], &window->to[t])) has_to = false;
        if (has_from && has_to && is_before(&window->to[t], &window->from[f])) has_from = false;
        const struct render_term *term = has_from ? &window->from[f] : &window->to[t];
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

/* Finds the partitions [*p_from, *p_end) that meet input in n windows of the stream, from `window` on. */
static void partitions_with_input(const struct render_state *s, const hc_render_job *job, int64_t window, int n,
                                  int64_t *p_from, int64_t *p_end)
{
    int64_t in_end = job->in_from + job->n_in_frames;
    int64_t first = (job->in_from >= 0 ? job->in_from : job->in_from - s->step + 1) / s->step;
    int64_t last = in_end > 0 ? (in_end - 1) / s->step + s->ratio : 0;
    *p_from = window > last ? (window - last) / s->ratio : 0;
    *p_end = 0;
    if (job->n_in_frames > 0 && window + n > first) *p_end = (window + n - 1 - first) / s->ratio + 1;
    if (*p_end > s->n_partitions) *p_end = s->n_partitions;
}

/* Adds the products of n items, 1, 2 or FFT_BLOCKS, of one source and entry, in windows that follow each other. */
static void add_products(const struct window_span *c, int first, const struct item *items, int n, int out,
                         const struct scratch *scratch)
{
    const struct render_state *s = c->s;
    const struct fft *fft = s->fft;
    int64_t p_from, p_end;
    partitions_with_input(s, c->work->job, c->work->job->from / s->step + c->first + first + items[0].window, n,
                          &p_from, &p_end);
    if (p_from >= p_end) return;
    int n_partitions = (int)(p_end - p_from), at = windows_before(s) + first + items[0].window - (int)p_from * s->ratio;
    size_t row = ((size_t)items[0].entry * (size_t)s->n_out + (size_t)out) * (size_t)s->n_partitions * s->floats;
    const float *h = s->bank + row + p_from * fft->chunk;
    for (int p = 0; n > 1 && p < n_partitions; p++) {
        scratch->blocks[p].h = h + p * fft->chunk;
        for (int t = 0; t < n; t++) scratch->blocks[p].x[t] = spectrum_of(c, items[0].source, at + t - p * s->ratio);
    }
    for (int i = 0; i < fft->n_chunks; i++) {
        size_t x_at = (size_t)i * stride_of(c), h_at = (size_t)i * (size_t)s->n_partitions * (size_t)fft->chunk;
        float *y[FFT_BLOCKS];
        for (int t = 0; t < FFT_BLOCKS; t++) y[t] = scratch->products + (size_t)t * s->floats + i * fft->chunk;
        struct fft_ring ring = {spectrum_of(c, items[0].source, at % s->ratio) + x_at, h + h_at, at / s->ratio,
                                c->n_entries, n_partitions};
        if (n == 1)
            fft->products->rings(y[0], &ring, 1, false, fft->chunk);
        else
            fft->products->blocks(y, n, false, scratch->blocks, n_partitions, x_at, h_at, fft->chunk);
    }
    for (int i = 0; i < n; i++) {
        const float *product = scratch->products + (size_t)i * s->floats;
        float *from = scratch->sums + (size_t)items[i].window * s->floats, *to = from + (size_t)s->group * s->floats;
        if (items[i].from != 0) add_scaled(from, product, items[i].from, s->floats);
        if (items[i].to != 0) add_scaled(to, product, items[i].to, s->floats);
    }
}

/* Fades the inverse transforms of the sums of a window into the output. */
static void finish_window(const struct window_span *c, int64_t window, int at, int out, const struct scratch *scratch)
{
    const struct render_state *s = c->s;
    const hc_render_job *job = c->work->job;
    const struct render_window *lists = &c->work->windows[window];
    int64_t left = job->n_out_frames - window * s->step;
    int n = left < s->step ? (int)left : s->step;
    float *y = job->out[out] + window * s->step, *from = scratch->products, *to = from + s->fft->size;
    float *sum = scratch->sums + (size_t)at * s->floats;
    memset(from, 0, s->floats * sizeof *from);
    if (lists->n_to > 0) fft_inverse(s->fft, sum + (size_t)s->group * s->floats, to);
    if (lists->n_from > 0) fft_inverse(s->fft, sum, from);
    from += s->fft->size - s->step;
    to += s->fft->size - s->step;
    if (lists->n_from < 0) memcpy(y, to, (size_t)n * sizeof *y);
    for (int i = 0; lists->n_from >= 0 && i < n; i++) y[i] = from[i] + s->fade[i] * (to[i] - from[i]);
}

/* Have n items one source and entry, in windows that follow each other? They are sorted. */
static bool is_run(const struct item *first, int n)
{
    const struct item *last = first + n - 1;
    return last->source == first->source && last->entry == first->entry && last->window == first->window + n - 1;
}

/* Computes one output of a group of windows. */
static void render_group(void *data, int i, int thread)
{
    const struct window_span *c = data;
    const struct render_state *s = c->s;
    const struct scratch *scratch = &c->scratch[thread];
    int out = i % s->n_out, first = i / s->n_out * s->group, n = c->n - first < s->group ? c->n - first : s->group;
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

/* Does job(data, i) for i in [0, n): on all threads of the pool, or all on `thread`. */
static void share(const struct render_state *s, int thread, void (*job)(void *, int, int), void *data, int n)
{
    if (thread < 0)
        thread_pool_run(s->pool, job, data, n);
    else
        for (int i = 0; i < n; i++) job(data, i, thread);
}

/* Windows of a span: whole groups, which max_items counts, or all windows of the work. */
static int span_windows(const struct render_state *s, const struct render_work *work)
{
    int64_t a_window = (int64_t)work->job->n_sources * (int64_t)s->floats;
    int64_t n = SPAN_FLOATS / (a_window > 0 ? a_window : 1) - windows_before(s);
    int64_t least = 4 * (int64_t)s->group;
    n = n < least ? least : n - n % s->group;
    if (n > work->n_windows) n = work->n_windows;
    return (int)n;
}

static int span_entries(const struct render_state *s, const struct render_work *work)
{
    return s->n_partitions - 1 + div_up(span_windows(s, work), s->ratio);
}

static size_t span_floats(const struct render_state *s, const struct render_work *work)
{
    return (size_t)work->job->n_sources * (size_t)(s->ratio * span_entries(s, work)) * s->floats;
}

/* thread: the one that computes the whole work; -1: all of them. */
static void work_run(const struct render_state *s, const struct render_work *work, int thread, float *spectra,
                     struct scratch *scratch)
{
    int size = span_windows(s, work), n_entries = span_entries(s, work), n_rows = s->fft->n_chunks * s->ratio;
    struct window_span c = {.s = s, .work = work, .spectra = spectra, .n_entries = n_entries, .scratch = scratch};
    for (; c.first < work->n_windows; c.first += size) {
        c.n = work->n_windows - c.first < size ? (int)(work->n_windows - c.first) : size;
        for (int i = 0; c.first > 0 && i < work->job->n_sources * n_rows; i++) {
            float *row = spectra + (size_t)i * (size_t)(n_entries * s->fft->chunk);
            memmove(row, row + size / s->ratio * s->fft->chunk,
                    (size_t)((s->n_partitions - 1) * s->fft->chunk) * sizeof *row);
        }
        c.n_old = c.first > 0 ? windows_before(s) : 0;
        share(s, thread, transform_windows, &c,
              work->job->n_sources * div_up(windows_before(s) + c.n - c.n_old, WINDOWS_A_JOB));
        share(s, thread, render_group, &c, div_up(c.n, s->group) * s->n_out);
    }
}

struct round {
    const struct render_state *s;
    const struct render_work *works;
    struct scratch *scratch;
};

static void whole_work(void *data, int i, int thread)
{
    const struct round *round = data;
    work_run(round->s, &round->works[i], thread, round->scratch[thread].spectra, round->scratch);
}

/* The most items of a group of one of the works. */
static size_t max_items(const struct render_state *s, const struct render_work *works, int n_works)
{
    size_t most = 0, n = 0;
    for (int i = 0; i < n_works; i++)
        for (int64_t w = 0; w < works[i].n_windows; w++) {
            const struct render_window *window = &works[i].windows[w];
            if (w % s->group == 0) n = 0;
            n += (size_t)window->n_to + (size_t)(window->n_from > 0 ? window->n_from : 0);
            if (n > most) most = n;
        }
    return most;
}

static bool scratch_make(const struct render_state *s, struct scratch *scratch, size_t n_items, size_t n_spectra)
{
    scratch->sums = memory_floats_uncleared(2 * (size_t)s->group * s->floats);
    scratch->products = memory_floats(FFT_BLOCKS * s->floats);
    scratch->blocks = calloc((size_t)s->n_partitions, sizeof *scratch->blocks);
    scratch->frames = memory_floats(s->floats);
    scratch->items = calloc(n_items + 1, sizeof *scratch->items);
    scratch->spectra = n_spectra > 0 ? memory_floats_uncleared(n_spectra) : NULL;
    return scratch->sums && scratch->products && scratch->frames && scratch->items && scratch->blocks &&
           (n_spectra == 0 || scratch->spectra);
}

static void scratch_free(struct scratch *scratch)
{
    free(scratch->sums);
    free(scratch->products);
    free(scratch->blocks);
    free(scratch->frames);
    free(scratch->items);
    free(scratch->spectra);
}

static int render_run(void *state, const struct render_work *works, int n_works, struct reason *why)
{
    const struct render_state *s = state;
    int n_threads = thread_pool_size(s->pool);
    bool is_whole = n_works >= 2 * n_threads; /* a thread computes whole works */
    size_t n_items = max_items(s, works, n_works), n_spectra = 1;
    for (int i = 0; i < n_works; i++)
        if (span_floats(s, &works[i]) > n_spectra) n_spectra = span_floats(s, &works[i]);
    struct scratch *scratch = calloc((size_t)n_threads, sizeof *scratch);
    bool ok = scratch != NULL;
    for (int t = 0; ok && t < n_threads; t++)
        ok = scratch_make(s, &scratch[t], n_items, t == 0 || is_whole ? n_spectra : 0);
    unsigned denormals = denormals_off();
    if (ok && is_whole)
        thread_pool_run(s->pool, whole_work, &(struct round){s, works, scratch}, n_works);
    else
        for (int i = 0; ok && i < n_works; i++) work_run(s, &works[i], -1, scratch[0].spectra, scratch);
    denormals_restore(denormals);
    for (int t = 0; scratch && t < n_threads; t++) scratch_free(&scratch[t]);
    free(scratch);
    return ok ? HC_OK : fail(HC_ENOMEM, why, "no memory to render %d jobs", n_works);
}

const struct render_backend render_cpu = {.name = "cpu", .open = render_open, .run = render_run, .close = render_close};
