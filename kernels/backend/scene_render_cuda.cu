/* scene_render_cuda - hc_render on a GPU (dsp/device/scene_render_backend.h): the CPU packs the frames of the jobs, made finite,
 * and their steps into batches, and unpacks the outputs. scene_render_kernels.cu computes a batch.
 *
 *   CPU       pack 0 | pack 1       | pack 2         | unpack 0 | pack 3         | unpack 1 ...
 *   GPU              | up 0, compute 0, down 0 | up 1, compute 1, down 1 | ...
 *
 * The windows of all jobs are cut into runs: successive windows of one job. A run uploads the input that its
 * windows and their partitions read, so runs are independent. Batches of runs go through the GPU in turn, each on a
 * stream with its own buffers.
 */
#include "dsp/base/order.h"
#include "dsp/device/scene_render_backend.h"

#include "cuda_error.h"
#include "device_memory.h"
#include "fft_factors.h"
#include "pinned_memory.h"
#include "scene_render_kernels.h"
#include "scene_gpu.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum {
    BATCHES = 3,                  /* one is packed, one computes, one is unpacked                                     */
    BATCH_FRAMES = 2 << 20,       /* approximate output frames of a batch                                             */
    RUN_PARTS = 8,                /* min. windows of a run, in units of n_parts, unless its job is shorter            */
};

struct scene_render_gpu_run { /* windows [first, first + n) of a work                                             */
    const struct scene_render_work *work;
    int64_t first;
    int n, out;                   /* out: position of the run's output in the batch                                   */
};

struct scene_render_gpu_batch {
    cudaStream_t stream;
    void *host, *device;          /* pinned; the same sizes                                                           */
    float *in, *out;              /* host                                                                             */
    int *rows;
    struct scene_render_line *lines;
    struct scene_render_span *spans;
    struct scene_render_batch job;      /* device                                                                           */
    size_t n_in, n_out_floats;    /* floats                                                                           */
    int n_lines;
    struct scene_render_gpu_run *runs; /* [max_spans]                                                                 */
    int n_runs;
};

struct scene_render_gpu {
    int device, step, n_out, n_parts, log2_P;
    struct scene_bank *bank;
    void *memory;                 /* device: the twiddle factors                                                      */
    float2 *tw;
    struct scene_render_gpu_batch batches[BATCHES];
    /* The sizes of each batch's buffers; 0: not allocated yet. */
    size_t max_in, max_rows, max_lines, max_spans;
};

/* ---- buffers ----------------------------------------------------------------------------------------------------- */

struct cut { char *base; size_t used; };

static void *cut_next(struct cut *cut, size_t bytes)
{
    void *p = cut->base ? cut->base + cut->used : NULL;
    cut->used += (bytes + 255) / 256 * 256;
    return p;
}

/* Lays out the host memory of a batch: first all buffers for uploads, then those for downloads. */
static size_t host_cut(const struct scene_render_gpu *s, struct scene_render_gpu_batch *b, char *base)
{
    struct cut cut = {base, 0};
    b->in = (float *)cut_next(&cut, s->max_in * sizeof(float));
    b->rows = (int *)cut_next(&cut, s->max_rows * sizeof(int));
    b->lines = (struct scene_render_line *)cut_next(&cut, s->max_lines * sizeof(struct scene_render_line));
    b->spans = (struct scene_render_span *)cut_next(&cut, s->max_spans * sizeof(struct scene_render_span));
    b->out = (float *)cut_next(&cut, s->max_spans * s->step * s->n_out * sizeof(float));
    return cut.used;
}

static size_t device_size(const struct scene_render_gpu *s, struct scene_render_gpu_batch *b, char *base)
{
    const size_t spectrum = sizeof(float2) << s->log2_P;
    struct cut cut = {base, 0};
    b->job.in = (float *)cut_next(&cut, s->max_in * sizeof(float));
    b->job.rows = (int *)cut_next(&cut, s->max_rows * sizeof(int));
    b->job.lines = (struct scene_render_line *)cut_next(&cut, s->max_lines * sizeof(struct scene_render_line));
    b->job.spans = (struct scene_render_span *)cut_next(&cut, s->max_spans * sizeof(struct scene_render_span));
    b->job.out = (float *)cut_next(&cut, s->max_spans * s->step * s->n_out * sizeof(float));
    b->job.x = (float2 *)cut_next(&cut, s->max_rows * spectrum);
    b->job.sums = (float2 *)cut_next(&cut, s->max_spans * 2 * s->n_out * spectrum);
    return cut.used;
}

static void batches_close(struct scene_render_gpu *s)
{
    for (int i = 0; i < BATCHES; i++) {
        struct scene_render_gpu_batch *b = &s->batches[i];
        if (b->stream) cudaStreamSynchronize(b->stream);
        pinned_free(b->host);
        device_free(b->device);
        free(b->runs);
        if (b->stream) cudaStreamDestroy(b->stream);
        *b = {};
    }
}

static int batches_open(struct scene_render_gpu *s, struct reason *why)
{
    for (int i = 0; i < BATCHES; i++) {
        struct scene_render_gpu_batch *b = &s->batches[i];
        TRY(cudaStreamCreateWithFlags(&b->stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
        PASS(pinned_alloc(&b->host, host_cut(s, b, NULL), why));
        host_cut(s, b, (char *)b->host);
        PASS(device_alloc(&b->device, device_size(s, b, NULL), "a renderer", why));
        device_size(s, b, (char *)b->device);
        b->runs = (struct scene_render_gpu_run *)calloc(s->max_spans, sizeof *b->runs);
        if (!b->runs) return fail(HC_ENOMEM, why, "cuda: no host memory; free some memory");
        b->job.tw = s->tw;
        b->job.h = s->bank->h[0];
        b->job.log2_P = s->log2_P;
        b->job.step = s->step;
        b->job.n_parts = s->n_parts;
        b->job.n_out = s->n_out;
    }
    return HC_OK;
}

static size_t larger(size_t a, size_t b) { return a > b ? a : b; }

/* The number of lines of a window. */
static size_t lines_of(const struct scene_render_window *w) { return (size_t)w->n_to + (w->n_from > 0 ? w->n_from : 0); }

/* Makes the buffers large enough for one window of each work. */
static int buffers_grow(struct scene_render_gpu *s, const struct scene_render_work *works, int n, struct reason *why)
{
    size_t spans = BATCH_FRAMES / s->step / s->n_out, sources = 1, lines = 0;
    if (spans < 64) spans = 64;
    for (int i = 0; i < n; i++) {
        sources = larger(sources, (size_t)works[i].job->n_sources);
        for (int64_t w = 0; w < works[i].n_windows; w++) lines = larger(lines, lines_of(&works[i].windows[w]));
    }
    lines = larger(4 * spans, lines);
    const size_t rows = larger(2 * spans, sources * (size_t)(s->n_parts + 64)), in = (rows + sources) * s->step;
    const size_t in_all = larger(in, 2 * rows * s->step);
    if (in_all > INT_MAX / 2)
        return fail(HC_EUNSUPPORTED, why, "cuda: %zu sources are too many for one job; use fewer, or the CPU", sources);
    if (spans <= s->max_spans && lines <= s->max_lines && rows <= s->max_rows && in_all <= s->max_in) return HC_OK;
    batches_close(s);
    s->max_spans = larger(spans, s->max_spans);
    s->max_lines = larger(lines, s->max_lines);
    s->max_rows = larger(rows, s->max_rows);
    s->max_in = larger(in_all, s->max_in);
    int rc = batches_open(s, why);
    if (rc < 0) {
        batches_close(s);
        s->max_spans = 0;
    }
    return rc;
}

/* ---- packing ----------------------------------------------------------------------------------------------------- */

static int64_t floor_div(int64_t a, int64_t b) { return a >= 0 ? a / b : -((-a + b - 1) / b); }

/* Finds windows [*first, *end) of the stream whose spectra are not 0. */
static void active_windows(const struct scene_render_gpu *s, const hc_render_job *job, int64_t *first, int64_t *end)
{
    *first = floor_div(job->in_from, s->step);
    *end = job->n_in_frames > 0 && job->n_sources > 0
               ? floor_div(job->in_from + job->n_in_frames - 1, s->step) + 2
               : *first;
}

/* Copies frames [from, from + n) of a source's stream. Frames outside the input, NaN and Inf become 0. */
static void frames_copy(const hc_render_job *job, int source, int64_t from, int n, float *to)
{
    const int64_t begin = max_of(from, job->in_from), end = min_of(from + n, job->in_from + job->n_in_frames);
    if (begin >= end) {
        memset(to, 0, n * sizeof *to);
        return;
    }
    const float *in = job->in[source] + (begin - job->in_from);
    const int n_before = (int)(begin - from), n_in = (int)(end - begin);
    memset(to, 0, n_before * sizeof *to);
    to += n_before;
    for (int i = 0; i < n_in; i++) to[i] = in[i] - in[i] == 0.0f ? in[i] : 0.0f;
    memset(to + n_in, 0, (n - n_before - n_in) * sizeof *to);
}

/* Returns how many of the n windows from `first` on still fit into the batch. */
static int run_size(const struct scene_render_gpu *s, const struct scene_render_gpu_batch *b, const struct scene_render_work *work,
                    int64_t first, int n)
{
    const size_t sources = (size_t)work->job->n_sources;
    const size_t rows = s->max_rows - b->job.n_rows, in = s->max_in - b->n_in;
    n = (int)min_of(n, (int64_t)(s->max_spans - b->job.n_spans));
    if (sources) {
        n = (int)min_of(n, (int64_t)(rows / sources) - (s->n_parts - 1));
        n = (int)min_of(n, (int64_t)(in / sources / s->step) - s->n_parts);
    }
    size_t lines = s->max_lines - b->n_lines;
    for (int i = 0; i < n; i++) {
        const size_t more = lines_of(&work->windows[first + i]);
        if (more > lines) return i;
        lines -= more;
    }
    return n > 0 ? n : 0;
}

static void run_pack(const struct scene_render_gpu *s, struct scene_render_gpu_batch *b, const struct scene_render_work *work,
                     int64_t first, int n)
{
    const hc_render_job *job = work->job;
    const int64_t w0 = job->from / s->step + first; /* first window, counted in the stream */
    int64_t active_first, active_end;
    active_windows(s, job, &active_first, &active_end);
    const int64_t x_first = max_of(w0 - (s->n_parts - 1), active_first), x_end = min_of(w0 + n, active_end);
    const int n_x = x_end > x_first ? (int)(x_end - x_first) : 0, row0 = b->job.n_rows;
    for (int source = 0; source < job->n_sources && n_x; source++) {
        for (int i = 0; i < n_x; i++) b->rows[b->job.n_rows++] = (int)b->n_in + i * s->step;
        frames_copy(job, source, (x_first - 1) * s->step, (n_x + 1) * s->step, b->in + b->n_in);
        b->n_in += (size_t)(n_x + 1) * s->step;
    }
    const int out = (int)b->n_out_floats;
    for (int i = 0; i < n; i++) {
        const struct scene_render_window *w = &work->windows[first + i];
        const int64_t p_first = n_x ? max_of(0, w0 + i - (x_end - 1)) : 0;
        const int64_t p_end = n_x ? min_of(s->n_parts, w0 + i - x_first + 1) : 0;
        b->spans[b->job.n_spans++] = {b->n_lines, w->n_from, w->n_to, out + i * s->step, n * s->step};
        for (int side = w->n_from > 0 ? 0 : 1; side < 2; side++) {
            const struct scene_render_term *terms = side ? w->to : w->from;
            for (int k = 0; k < (side ? w->n_to : w->n_from); k++) {
                struct scene_render_line *line = &b->lines[b->n_lines++];
                line->x = row0 + terms[k].source * n_x + (int)(w0 + i - x_first);
                line->entry = terms[k].entry;
                line->weight = terms[k].weight;
                line->first = (unsigned short)(p_first < p_end ? p_first : 0);
                line->end = (unsigned short)(p_first < p_end ? p_end : 0);
            }
        }
    }
    b->n_out_floats += (size_t)n * s->step * s->n_out;
    b->runs[b->n_runs++] = {work, first, n, out};
}

/* Queues a batch: its input up, the kernels, the output down. */
static int batch_order(struct scene_render_gpu_batch *b, struct reason *why)
{
    const struct { const void *to; const void *from; size_t bytes; } up[] = {
        {b->job.in, b->in, b->n_in * sizeof(float)},
        {b->job.rows, b->rows, b->job.n_rows * sizeof(int)},
        {b->job.lines, b->lines, b->n_lines * sizeof(struct scene_render_line)},
        {b->job.spans, b->spans, b->job.n_spans * sizeof(struct scene_render_span)},
    };
    for (int i = 0; i < 4; i++)
        if (up[i].bytes)
            TRY(cudaMemcpyAsync((void *)up[i].to, up[i].from, up[i].bytes, cudaMemcpyHostToDevice, b->stream),
                "cudaMemcpyAsync(%zu)", up[i].bytes);
    TRY(scene_render_batch_launch(&b->job, b->stream), "rendering");
    const size_t bytes = b->n_out_floats * sizeof(float);
    TRY(cudaMemcpyAsync(b->out, b->job.out, bytes, cudaMemcpyDeviceToHost, b->stream), "cudaMemcpyAsync(%zu)", bytes);
    return HC_OK;
}

/* Waits for a batch and copies its output to the callers' memory; empties it. */
static int batch_finish(const struct scene_render_gpu *s, struct scene_render_gpu_batch *b, struct reason *why)
{
    if (!b->n_runs) return HC_OK;
    TRY(cudaStreamSynchronize(b->stream), "rendering");
    for (int i = 0; i < b->n_runs; i++) {
        const struct scene_render_gpu_run *run = &b->runs[i];
        const hc_render_job *job = run->work->job;
        const int64_t at = run->first * s->step, left = job->n_out_frames - at;
        const int64_t n = min_of((int64_t)run->n * s->step, left);
        for (int o = 0; o < s->n_out; o++)
            memcpy(job->out[o] + at, b->out + run->out + (size_t)o * run->n * s->step, n * sizeof(float));
    }
    b->n_runs = b->n_lines = b->job.n_rows = b->job.n_spans = 0;
    b->n_in = b->n_out_floats = 0;
    return HC_OK;
}

/* Goes to the next batch, and empties it. */
static int batch_next(struct scene_render_gpu *s, struct scene_render_gpu_batch **b, struct reason *why)
{
    const int i = (int)(*b - s->batches);
    PASS(batch_order(*b, why));
    *b = &s->batches[(i + 1) % BATCHES];
    return batch_finish(s, *b, why);
}

static int works_render(struct scene_render_gpu *s, const struct scene_render_work *works, int n_works, struct reason *why)
{
    struct scene_render_gpu_batch *b = s->batches;
    for (int i = 0; i < n_works; i++) {
        for (int64_t first = 0; first < works[i].n_windows;) {
            const int wanted = (int)min_of(works[i].n_windows - first, (int64_t)s->max_spans);
            const int min_windows = (int)min_of(wanted, (int64_t)RUN_PARTS * s->n_parts);
            int n = run_size(s, b, &works[i], first, wanted);
            if (n < min_windows && b->n_runs) { /* a short run would transform its earlier windows again */
                PASS(batch_next(s, &b, why));
                n = run_size(s, b, &works[i], first, wanted);
            }
            run_pack(s, b, &works[i], first, n);
            first += n;
        }
    }
    if (b->n_runs) PASS(batch_order(b, why));
    for (int i = 1; i <= BATCHES; i++) PASS(batch_finish(s, &s->batches[(b - s->batches + i) % BATCHES], why));
    return HC_OK;
}

static int gpu_render_run(void *state, const struct scene_render_work *works, int n_works, struct reason *why)
{
    struct scene_render_gpu *s = (struct scene_render_gpu *)state;
    TRY(cudaSetDevice(s->device), "cudaSetDevice(%d)", s->device);
    PASS(buffers_grow(s, works, n_works, why));
    int rc = works_render(s, works, n_works, why);
    for (int i = 0; i < BATCHES && rc < 0; i++) { /* no batch may still use memory of the caller's jobs */
        struct scene_render_gpu_batch *b = &s->batches[i];
        cudaStreamSynchronize(b->stream);
        b->n_runs = b->n_lines = b->job.n_rows = b->job.n_spans = 0;
        b->n_in = b->n_out_floats = 0;
    }
    return rc;
}

/* ---- open and close ---------------------------------------------------------------------------------------------- */

static void gpu_render_close(void *state)
{
    struct scene_render_gpu *s = (struct scene_render_gpu *)state;
    if (!s) return;
    cudaSetDevice(s->device);
    batches_close(s);
    device_free(s->memory);
    cudaGetLastError();
    scene_bank_release(s->bank);
    free(s);
}

static int scene_render_state_open(struct scene_render_gpu *s, const struct scene_render_setup *setup, struct reason *why)
{
    const hc_bank_data *data = setup->data;
    struct scene_plan plan = {};
    void *bank;
    uint64_t bytes;
    if (setup->step > FFT_MAX)
        return fail(HC_EUNSUPPORTED, why, "cuda: steps of %d frames are too long; use %d or fewer, or the CPU",
                    setup->step, FFT_MAX);
    s->device = setup->device;
    s->step = setup->step;
    s->n_out = data->n_out;
    s->n_parts = (data->n_taps - 1) / s->step + 1;
    if (s->n_parts > USHRT_MAX)
        return fail(HC_EUNSUPPORTED, why,
                    "cuda: %d taps are too many for steps of %d frames; use longer steps, or the CPU", data->n_taps,
                    s->step);
    /* One level, of partitions as long as a step. */
    plan.block = plan.steer_fade = s->step;
    plan.bank_taps = data->n_taps;
    plan.n_levels = 1;
    plan.levels[0].n_taps = data->n_taps;
    plan.levels[0].hop = plan.levels[0].fade = s->step;
    plan.levels[0].n_partitions = s->n_parts;
    PASS(scene_bank_of_data(&plan, s->device, data, &bank, &bytes, why));
    s->bank = (struct scene_bank *)bank;
    s->log2_P = s->bank->log2_P[0];
    TRY(scene_render_kernels_load(), "loading kernels");
    PASS(device_alloc(&s->memory, fft_factors_bytes(s->log2_P), "a renderer", why));
    s->tw = (float2 *)s->memory;
    TRY(fft_factors_make(s->tw, s->log2_P, NULL), "making the table of a transform");
    TRY(cudaStreamSynchronize(NULL), "cudaStreamSynchronize");
    return HC_OK;
}

static int gpu_render_open(const struct scene_render_setup *setup, void **state, struct reason *why)
{
    struct scene_render_gpu *s = (struct scene_render_gpu *)calloc(1, sizeof *s);
    if (!s) return fail(HC_ENOMEM, why, "cuda: no host memory; free some memory");
    int rc = scene_render_state_open(s, setup, why);
    if (rc < 0) {
        gpu_render_close(s);
        return rc;
    }
    *state = s;
    return HC_OK;
}

static constexpr struct scene_render_backend scene_render_of_a_gpu(void)
{
    struct scene_render_backend render = {};
    render.name = "cuda";
    render.open = gpu_render_open;
    render.run = gpu_render_run;
    render.close = gpu_render_close;
    return render;
}
extern const struct scene_render_backend scene_render_cuda;
constexpr struct scene_render_backend scene_render_cuda = scene_render_of_a_gpu();
