/* tensors_gradient - the gradient of filters: the correlation of x and gy, summed over the rows that share a filter.
 *
 *   gh[k] = sum over rows and n of x[n] gy[n + k - from]
 *
 * Blocks of S frames (dsp/fft/fft.h). Block p of x, reversed, serves as a filter's partition:
 *
 *   block p      frames [pS, (p + 1) S) of x, the last one first
 *   window w     frames [wS - 1 - from, (w + 2) S - 1 - from) of gy
 *   block q      taps of gh: the sum over rows and p of the spectra of block p times window p + q; the last block of a
 *                pass is the first partition
 *
 * A pass covers up to PASS_BLOCKS blocks of one row. The passes of a filter are divided into slices, each a job with
 * separate sums; the number of slices depends on the sizes alone. The sums of passes are added in double precision: a
 * filter that many rows share has thousands of passes.
 */
#include "tensors_cpu.h"

#include "dsp/base/memory.h"

#include <stdlib.h>
#include <string.h>

enum {
    PASS_BLOCKS = 16, /* blocks of x whose products are summed in single precision */
    MAX_SLICES = 64,  /* approx. max. slices of all filters at once, so also max. threads; more filters have one each */
    MAX_DOUBLES = 1 << 25, /* max. doubles of all sums; a longer filter is computed alone */
};

struct gradient {
    const struct tensor_work *work;
    int64_t first;       /* number of the first filter of `sums` */
    int64_t *starts;     /* with an index, [filters + 1]: filter f has the rows users[starts[f]], ..., or NULL */
    int64_t *users;      /* groups of rows, sorted by their filter */
    int64_t sharers;     /* rows that share a filter */
    int64_t pass_blocks; /* blocks of a pass; a block is TENSOR_DIRECT_FRAMES if direct */
    int64_t row_passes;  /* max. passes of a row */
    int64_t n_slices;    /* slices of a filter's passes */
    int64_t gh_blocks;   /* blocks of a filter's gradient; if direct, one block has all taps */
    size_t slice_doubles;
    double *sums;        /* [filters][n_slices][slice_doubles]; blocks of gh in dsp/fft/fft.h's order */
    struct offline rows; /* [threads]: of gy */
    size_t scratch_floats;
    float *scratch; /* [threads][scratch_floats] */
};

double tensor_gradient_ns(const struct tensor_call *call, int size)
{
    double rows = (double)call->x.batch * (double)call->x.channels, filters = (double)tensor_n_filters(call);
    if (size == 0)
        return rows * (100 +
                       (double)call->x.frames * (0.4 + 2 * cpu_tensor_costs.tap_ns * (double)(call->h.frames + 16))) +
               filters * (double)call->h.frames;
    int64_t blocks = tensor_div_up(call->x.frames, size), gh_blocks = tensor_div_up(call->h.frames, size);
    int64_t n_passes = tensor_div_up(blocks, PASS_BLOCKS);
    int64_t windows =
        n_passes * tensor_min(tensor_min(blocks, PASS_BLOCKS) + gh_blocks - 1, tensor_div_up(call->y.frames, size) + 1);
    return (filters * (double)gh_blocks + rows * (double)(windows + blocks)) * tensor_transform_ns(size) +
           rows * (double)blocks * (double)gh_blocks * size * 1.5 * cpu_tensor_costs.product_ns;
}

static int64_t blocks_a_pass(const struct tensor_call *call, int size)
{
    return tensor_min(tensor_div_up(call->x.frames, size), PASS_BLOCKS);
}

/* Returns the number of windows whose spectra a pass keeps. */
static int64_t gradient_entries(const struct tensor_call *call, int size)
{
    return blocks_a_pass(call, size) + tensor_div_up(call->h.frames, size) - 1;
}

/* Returns the floats of scratch for a pass: frames [2S], sums [FFT_BLOCKS][2S], blocks of x. */
static size_t pass_floats(const struct tensor_call *call, int size)
{
    return 2 * (size_t)(1 + FFT_BLOCKS + blocks_a_pass(call, size)) * (size_t)size;
}

size_t tensor_gradient_scratch(const struct tensor_call *call, int size)
{
    if (size == 0) return round_up((size_t)(2 * TENSOR_DIRECT_FRAMES + 2 * call->h.frames + 2 * SIMD_PAD), SIMD_PAD);
    return pass_floats(call, size) + 2 * (size_t)(gradient_entries(call, size) * size);
}

/* Sorts the groups of rows by their filter. */
static bool users_sort(struct gradient *g, int64_t n_filters, int64_t n_groups)
{
    g->starts = calloc((size_t)(n_filters + 2 + n_groups), sizeof *g->starts);
    if (!g->starts) return false;
    int64_t *next = g->starts + 1;
    g->users = g->starts + n_filters + 2;
    /* next[f + 1]: the number of users of filter f */
    for (int64_t i = 0, f; i < n_groups; i++)
        if ((f = tensor_filter_of(g->work, i)) >= 0) next[f + 1]++;
    /* next[f]: the position of the first user of filter f */
    for (int64_t f = 0; f < n_filters; f++) next[f + 1] += next[f];
    /* next[f]: the position of the next user of filter f; in the end starts[f + 1] */
    for (int64_t i = 0, f; i < n_groups; i++)
        if ((f = tensor_filter_of(g->work, i)) >= 0) g->users[next[f]++] = i;
    return true;
}

/* Returns the number of passes of a filter. */
static int64_t passes_of(const struct gradient *g, const struct tensor_filter *filter)
{
    int64_t users = g->starts ? g->starts[filter->number + 1] - g->starts[filter->number] : 1;
    return users * g->sharers * g->row_passes;
}

/* A pass of a filter: a row, and blocks of x in that row. */
struct pass {
    struct tensor_row x, gy;
    int64_t begin, end;
};

static struct pass pass_at(const struct gradient *g, const struct tensor_filter *filter, int64_t i)
{
    const struct tensor_work *w = g->work;
    int64_t item, channel, at = i % g->row_passes, row = i / g->row_passes;
    int64_t group = g->starts ? g->users[g->starts[filter->number] + row / g->sharers] : filter->number;
    tensor_sharer(w->call, group, row % g->sharers, &item, &channel);
    struct pass pass = {.gy = tensor_row(&w->call->y, w->data->offsets, w->data->a, item, channel),
                        .x = tensor_row(&w->call->x, w->data->offsets, w->data->b, item, channel),
                        .begin = at * g->pass_blocks};
    int64_t block = w->fft ? w->fft->size : TENSOR_DIRECT_FRAMES;
    pass.end = tensor_min(pass.begin + g->pass_blocks, tensor_div_up(pass.x.n, block));
    return pass;
}

/* ---- direct ------------------------------------------------------------------------------------------------------ */

static void pass_direct(const struct gradient *g, const struct tensor_filter *filter, const struct pass *pass,
                        double *sums, int thread)
{
    const struct tensor_call *call = g->work->call;
    int64_t n0 = pass->begin * TENSOR_DIRECT_FRAMES, n_taps = filter->n_taps;
    int64_t n1 = tensor_min(n0 + TENSOR_DIRECT_FRAMES, pass->x.n), n = n1 - n0;
    float *x = g->scratch + (size_t)thread * g->scratch_floats, *gh = x + TENSOR_DIRECT_FRAMES,
          *gy = gh + call->h.frames;
    tensor_copy_reversed(x, &pass->x, n0, n);
    tensor_copy(gy, &pass->gy, n0 - call->from, n + n_taps - 1);
    memset(gy + n + n_taps - 1, 0, (SIMD_PAD + 1) * sizeof *gy);
    memset(gh, 0, (size_t)n_taps * sizeof *gh);
    g->work->simd->fir(gh, gy + n - 1, x, (int)n_taps, (int)n);
    for (int64_t k = 0; k < n_taps; k++) sums[k] += (double)gh[k];
}

/* ---- transforms -------------------------------------------------------------------------------------------------- */

static void pass_transforms(const struct gradient *g, const struct tensor_filter *filter, const struct pass *pass,
                            double *sums, int thread)
{
    const struct tensor_work *w = g->work;
    const struct tensor_call *call = w->call;
    int64_t size = w->fft->size, gh_blocks = tensor_div_up(filter->n_taps, size), n_blocks = pass->end - pass->begin;
    float *frames = g->scratch + (size_t)thread * g->scratch_floats, *y[FFT_BLOCKS];
    for (int t = 0; t < FFT_BLOCKS; t++) y[t] = frames + 2 * (t + 1) * size;
    float *blocks = frames + 2 * (FFT_BLOCKS + 1) * size;
    struct offline_product product = {thread, 0, (int)n_blocks, blocks};
    struct offline_list list = {&product, 1, (size_t)g->pass_blocks * FFT_CHUNK};
    memset(frames + size, 0, (size_t)size * sizeof *frames);
    for (int64_t p = pass->begin; p < pass->end; p++) {
        tensor_copy_reversed(frames, &pass->x, p * size, size);
        fft_forward(w->fft, frames, frames + size, y[0], blocks + (pass->end - 1 - p) * FFT_CHUNK, list.stride);
    }
    struct offline_range *with_gy = &g->rows.ranges[thread]; /* the windows that have a frame of gy */
    with_gy->first = tensor_max(tensor_div_down(call->from + 1, size) - 1, pass->begin);
    with_gy->last = tensor_min(tensor_div_up(pass->gy.n + call->from + 1, size) - 1, pass->end - 1 + gh_blocks - 1);
    for (int64_t v = with_gy->first; v <= with_gy->last; v++)
        tensor_window(w, &pass->gy, v * size - 1 - call->from, frames, offline_spectrum(&g->rows, thread, v));
    for (int64_t q = 0, n; q < gh_blocks; q += n) {
        n = tensor_min(FFT_BLOCKS, gh_blocks - q);
        tensor_sums(&g->rows, &list, q + pass->end - 1, (int)n, y);
        for (int t = 0; t < n; t++)
            for (int64_t i = 0; i < 2 * size; i++) sums[(q + t) * 2 * size + i] += (double)y[t][i];
    }
}

/* ---- jobs -------------------------------------------------------------------------------------------------------- */

static void sum_slice(void *data, int64_t i, int thread)
{
    const struct gradient *g = data;
    struct tensor_filter filter = tensor_filter_at(g->work, g->first + i / g->n_slices);
    int64_t slice = i % g->n_slices, n_passes = passes_of(g, &filter);
    double *sums = g->sums + (size_t)i * g->slice_doubles;
    memset(sums, 0, g->slice_doubles * sizeof *sums);
    if (filter.n_taps == 0) return;
    for (int64_t at = n_passes * slice / g->n_slices; at < n_passes * (slice + 1) / g->n_slices; at++) {
        struct pass pass = pass_at(g, &filter, at);
        if (pass.begin < pass.end) (g->work->fft ? pass_transforms : pass_direct)(g, &filter, &pass, sums, thread);
    }
}

/* Adds up the slices of a block of gh and writes the block. */
static void finish_gradient_block(void *data, int64_t i, int thread)
{
    const struct gradient *g = data;
    const struct tensor_work *w = g->work;
    int64_t index = i / g->gh_blocks, q = i % g->gh_blocks, size = w->fft ? w->fft->size : w->call->h.frames;
    struct tensor_filter filter = tensor_filter_at(w, g->first + index);
    struct tensor_row out = tensor_filter_row(w, &filter, w->data->out);
    int64_t n_out = tensor_min(size, w->call->h.frames - q * size);
    int64_t n = tensor_max(0, tensor_min(n_out, filter.n_taps - q * size)); /* taps of the filter */
    if (passes_of(g, &filter) == 0) n = 0;
    float *sum = g->scratch + (size_t)thread * g->scratch_floats, *frames = w->fft ? sum + 2 * size : sum;
    size_t block = w->fft ? 2 * (size_t)size : (size_t)size;
    double *total = g->sums + (size_t)(index * g->n_slices) * g->slice_doubles + (size_t)q * block;
    tensor_write(&out, q * size + n, NULL, n_out - n);
    if (n == 0) return;
    for (int64_t slice = 1; slice < g->n_slices; slice++)
        for (size_t k = 0; k < block; k++) total[k] += total[(size_t)slice * g->slice_doubles + k];
    double scale = w->fft ? 1.0 / (double)size : 1;
    for (size_t k = 0; k < block; k++) sum[k] = (float)(total[k] * scale);
    if (w->fft) fft_inverse(w->fft, sum, frames);
    tensor_write(&out, q * size, frames, n);
}

/* ---- a run ------------------------------------------------------------------------------------------------------- */

bool tensor_gradient_run(const struct tensor_work *work)
{
    const struct tensor_call *call = work->call;
    int64_t size = work->fft ? work->fft->size : TENSOR_DIRECT_FRAMES, n_filters = tensor_n_filters(call);
    int64_t n_groups = call->h.batch * call->h.channels;
    struct gradient g = {.work = work, .sharers = tensor_sharers(call), .gh_blocks = 1};
    int64_t x_blocks = tensor_div_up(call->x.frames, size);
    if (work->fft) {
        g.gh_blocks = tensor_div_up(call->h.frames, size);
        g.pass_blocks = blocks_a_pass(call, work->fft->size);
        g.row_passes = tensor_div_up(x_blocks, g.pass_blocks);
        g.slice_doubles = (size_t)g.gh_blocks * 2 * (size_t)size;
    } else {
        g.pass_blocks = 1;
        g.row_passes = x_blocks;
        g.slice_doubles = round_up((size_t)call->h.frames, SIMD_PAD);
    }
    int64_t max = tensor_max(1, MAX_DOUBLES / (int64_t)g.slice_doubles); /* slices of all filters at once */
    int64_t at_once = tensor_min(n_filters, max);
    g.n_slices = tensor_min(tensor_min(max / at_once, tensor_div_up(MAX_SLICES, at_once)),
                            (call->has_index ? n_groups : 1) * g.sharers * g.row_passes);
    g.scratch_floats = work->fft ? pass_floats(call, work->fft->size) : tensor_gradient_scratch(call, 0);
    g.scratch = memory_floats_uncleared((size_t)thread_pool_size(work->pool) * g.scratch_floats);
    g.sums = (double *)(void *)memory_floats_uncleared(2 * (size_t)(at_once * g.n_slices) * g.slice_doubles);
    bool ok = g.scratch && g.sums && (!call->has_index || users_sort(&g, n_filters, n_groups));
    if (work->fft)
        ok = offline_open(&g.rows, work->fft, 1, thread_pool_size(work->pool),
                          (int)gradient_entries(call, work->fft->size)) &&
             ok;
    for (; ok && g.first < n_filters; g.first += at_once) {
        at_once = tensor_min(at_once, n_filters - g.first);
        thread_pool_run(work->pool, sum_slice, &g, at_once * g.n_slices);
        thread_pool_run(work->pool, finish_gradient_block, &g, at_once * g.gh_blocks);
    }
    offline_close(&g.rows);
    free(g.scratch);
    free(g.sums);
    free(g.starts);
    return ok;
}
