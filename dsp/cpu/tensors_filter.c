/* tensors_filter - filters the rows of a tensor: convolve, and gradient x, which filters with the reversed taps.
 *
 *   out[m] = sum over j of t[j] s[m + offset - j]      convolve    t[j] = h[j],             offset = from
 *                                                      gradient x  t[j] = h[n_taps - 1 - j], offset = n_taps - 1 - from
 *
 * Overlap-save with uniform partitions of S taps (dsp/fft/fft.h): block b of S frames of the output is the sum over
 * partitions p of the spectra of window b - p of the signal times partition p.
 *
 *   window w     frames [(w - 1) S + offset, (w + 1) S + offset) of the signal; outside the signal: no spectrum
 *   spectra      of the filters at once: [filter][chunk][partition][FFT_CHUNK], as a product reads them
 *   a job        some adjacent blocks of one row, up to FFT_BLOCKS at a time. Each thread has a row of offline.h, with
 *                n_partitions - 1 + FFT_BLOCKS windows, or all windows if they are fewer
 *
 * The order of a block's sum does not depend on its job.
 */
#include "tensors_cpu.h"

#include "dsp/base/memory.h"

#include <stdlib.h>
#include <string.h>

enum {
    JOBS_A_THREAD = 4,    /* min. jobs for each thread: a thread that starts late still finds jobs */
    MAX_FLOATS = 1 << 25, /* max. floats of all spectra; a longer filter is transformed alone */
};

struct filtering {
    const struct tensor_work *work;
    const void *signal, *taps;
    const struct tensor_rows *in, *out;
    bool by_bank;               /* a spectrum for each filter of the bank, not for each group of rows */
    int64_t first;              /* the first group of rows of those that are filtered at once */
    int64_t block;              /* frames of a block: S, or TENSOR_DIRECT_FRAMES if direct */
    int64_t n_blocks;           /* max. blocks of a row */
    int64_t n_jobs, job_blocks; /* jobs in a row; blocks in a job */
    int64_t sharers;            /* rows that share a filter */
    int64_t n_partitions;
    float *spectra;      /* [filters][chunks][n_partitions][FFT_CHUNK], scaled by 1 / S */
    struct offline rows; /* [threads] */
    size_t scratch_floats;
    float *scratch; /* [threads][scratch_floats] */
};

struct filter_job { /* some blocks of a row */
    struct tensor_filter filter;
    int64_t spectrum, offset;
    struct tensor_row in, taps, out;
    int64_t begin, end; /* blocks [begin, end) */
};

double tensor_filter_ns(const struct tensor_call *call, int size)
{
    bool reversed = call->op == HC_GRADIENT_X;
    double rows = (double)call->x.batch * (double)call->x.channels,
           filters = (double)tensor_min(call->h.batch * call->h.channels, tensor_n_filters(call));
    int64_t n_in = reversed ? call->y.frames : call->x.frames, n_out = reversed ? call->x.frames : call->y.frames;
    int64_t taps = call->h.frames;
    if (size == 0)
        return rows * (100 + (double)n_out * (0.4 + cpu_tensor_costs.tap_ns * (double)tensor_min(taps, n_in)));
    int64_t partitions = tensor_div_up(taps, size), blocks = tensor_div_up(n_out, size);
    int64_t windows = tensor_min(tensor_div_up(n_in, size) + 1, blocks + partitions - 1);
    double products = (double)blocks * (double)tensor_min(partitions, windows);
    return (filters * (double)partitions + rows * (double)(windows + blocks)) * tensor_transform_ns(size) +
           rows * products * size * cpu_tensor_costs.product_ns;
}

/* Returns the number of windows whose spectra a job keeps. */
static int64_t filter_entries(const struct tensor_call *call, int size)
{
    int64_t n_in = call->op == HC_GRADIENT_X ? call->y.frames : call->x.frames;
    return tensor_min(tensor_div_up(call->h.frames, size) - 1 + FFT_BLOCKS, tensor_div_up(n_in, size) + 2);
}

size_t tensor_filter_scratch(const struct tensor_call *call, int size)
{
    int64_t n_in = call->op == HC_GRADIENT_X ? call->y.frames : call->x.frames;
    if (size == 0)
        return round_up((size_t)(2 * tensor_min(call->h.frames, n_in) + 2 * TENSOR_DIRECT_FRAMES + 3 * SIMD_PAD),
                        SIMD_PAD);
    return (size_t)(2 + 2 * FFT_BLOCKS + 2 * filter_entries(call, size)) * (size_t)size;
}

/* Returns job i. Writes the zeros of a job without a sum, which has no blocks then. */
static struct filter_job job_begin(const struct filtering *f, int64_t i)
{
    const struct tensor_call *call = f->work->call;
    int64_t item, channel, at = i % f->n_jobs, index = i / f->n_jobs, group = f->first + index / f->sharers;
    struct filter_job job = {.filter = tensor_filter_at(f->work, tensor_filter_of(f->work, group))};
    job.spectrum = f->by_bank ? job.filter.number : index / f->sharers;
    tensor_sharer(call, group, index % f->sharers, &item, &channel);
    job.offset = call->op == HC_GRADIENT_X ? job.filter.n_taps - 1 - call->from : call->from;
    job.in = tensor_row(f->in, f->work->data->offsets, f->signal, item, channel);
    job.out = tensor_row(f->out, f->work->data->offsets, f->work->data->out, item, channel);
    job.taps = tensor_filter_row(f->work, &job.filter, f->taps);
    job.begin = at * f->job_blocks;
    job.end = tensor_min(job.begin + f->job_blocks, tensor_div_up(job.out.n, f->block));
    if (job.begin < job.end && (job.filter.n_taps == 0 || job.in.n == 0)) {
        int64_t first = job.begin * f->block;
        tensor_write(&job.out, first, NULL, tensor_min(job.end * f->block, job.out.n) - first);
        job.end = job.begin;
    }
    return job;
}

/* Copies t[j] for n taps from `from` on; taps outside [0, n_taps) are 0. */
static void filter_taps_copy(const struct filtering *f, const struct tensor_row *taps, float *frames, int64_t from,
                             int64_t n)
{
    if (f->work->call->op == HC_GRADIENT_X)
        tensor_copy_reversed(frames, taps, taps->n - from - n, n);
    else
        tensor_copy(frames, taps, from, n);
}

/* ---- direct ------------------------------------------------------------------------------------------------------ */

/* Computes a block of a row. The shorter one of filter and signal serves as the taps. */
static void filter_direct_block(const struct filtering *f, const struct filter_job *given, int64_t block, int thread)
{
    const struct filter_job job = *given;
    int64_t n_in = job.in.n, n_taps = job.filter.n_taps, at = block * f->block;
    int64_t n = tensor_min(at + f->block, job.out.n) - at;
    bool swapped = n_in < n_taps;
    int64_t n_short = swapped ? n_in : n_taps, first = at + job.offset - (n_short - 1), n_long = n + n_short - 1;
    tensor_write(&job.out, at, NULL, n);
    float *taps = f->scratch + (size_t)thread * f->scratch_floats, *frames = taps + n_short;
    bool in_place = job.out.type == HC_FLOAT32;
    float *out = in_place ? (float *)job.out.data + at : frames + n_long + SIMD_PAD + 1;
    if (swapped) {
        tensor_copy(taps, &job.in, 0, n_in);
        filter_taps_copy(f, &job.taps, frames, first, n_long);
    } else {
        filter_taps_copy(f, &job.taps, taps, 0, n_taps);
        tensor_copy(frames, &job.in, first, n_long);
    }
    memset(frames + n_long, 0, (SIMD_PAD + 1) * sizeof *frames);
    if (!in_place) memset(out, 0, (size_t)n * sizeof *out);
    f->work->simd->fir(out, frames + n_short - 1, taps, (int)n, (int)n_short);
    if (!in_place) tensor_write(&job.out, at, out, n);
}

static void filter_direct(void *data, int64_t i, int thread)
{
    struct filter_job job = job_begin(data, i);
    for (int64_t block = job.begin; block < job.end; block++) filter_direct_block(data, &job, block, thread);
}

/* ---- transforms -------------------------------------------------------------------------------------------------- */

/* Transforms one partition of a filter to its spectrum. */
static void transform_filter_partition(void *data, int64_t i, int thread)
{
    const struct filtering *f = data;
    const struct tensor_work *w = f->work;
    const struct fft *fft = w->fft;
    int64_t index = i / f->n_partitions, p = i % f->n_partitions, size = fft->size;
    int64_t number = f->by_bank ? index : tensor_filter_of(w, f->first + index);
    struct tensor_filter filter = tensor_filter_at(w, number);
    float *work = f->scratch + (size_t)thread * f->scratch_floats, *frames = work + 2 * size;
    struct tensor_row taps = tensor_filter_row(w, &filter, f->taps);
    if (p * size >= filter.n_taps) return; /* nothing reads the spectrum */
    filter_taps_copy(f, &taps, frames, p * size, size);
    for (int64_t j = 0; j < size; j++) frames[j] *= 1.0f / (float)size;
    memset(frames + size, 0, (size_t)size * sizeof *frames);
    float *spectrum = f->spectra + ((size_t)index * fft->n_chunks * f->n_partitions + (size_t)p) * FFT_CHUNK;
    fft_forward(fft, frames, frames + size, work, spectrum, (size_t)f->n_partitions * FFT_CHUNK);
}

/* Filters some blocks of a row. */
static void filter_row(void *data, int64_t i, int thread)
{
    const struct filtering *f = data;
    const struct tensor_work *w = f->work;
    struct filter_job job = job_begin(f, i);
    if (job.begin >= job.end) return;
    int64_t size = w->fft->size, partitions = tensor_div_up(job.filter.n_taps, size);
    const float *spectra = f->spectra + job.spectrum * f->n_partitions * 2 * size;
    struct offline_product product = {thread, 0, (int)partitions, spectra};
    struct offline_list list = {&product, 1, (size_t)f->n_partitions * FFT_CHUNK};
    float *frames = f->scratch + (size_t)thread * f->scratch_floats, *sums[FFT_BLOCKS];
    for (int t = 0; t < FFT_BLOCKS; t++) sums[t] = frames + 2 * (t + 1) * size;
    /* The windows [(w - 1) S + offset, (w + 1) S + offset) that have a frame of the signal */
    struct offline_range *with_signal = &f->rows.ranges[thread];
    *with_signal = (struct offline_range){tensor_div_down(-size - job.offset, size) + 1,
                                          tensor_div_up(job.in.n + size - job.offset, size) - 1};
    int64_t next = tensor_max(with_signal->first, job.begin - (partitions - 1)); /* the next window to transform */
    for (int64_t b = job.begin, n; b < job.end; b += n) {
        n = tensor_min(FFT_BLOCKS, job.end - b);
        for (; next < b + n && next <= with_signal->last; next++)
            tensor_window(w, &job.in, (next - 1) * size + job.offset, frames, offline_spectrum(&f->rows, thread, next));
        tensor_sums(&f->rows, &list, b, (int)n, sums);
        for (int t = 0; t < n; t++) {
            int64_t at = (b + t) * size, n_frames = tensor_min(size, job.out.n - at);
            bool in_place = job.out.type == HC_FLOAT32;
            bool has_signal = b + t >= with_signal->first && b + t - partitions < with_signal->last;
            float *out = in_place ? (float *)job.out.data + at : frames;
            if (has_signal) offline_back(&f->rows, sums[t], 0, (int)n_frames, out, frames + size);
            if (!has_signal || !in_place) tensor_write(&job.out, at, has_signal ? frames : NULL, n_frames);
        }
    }
}

/* ---- a run ------------------------------------------------------------------------------------------------------- */

/* Cuts a row into jobs if there are few rows. A cut costs the transforms of n_partitions - 1 windows. */
static void jobs_cut(struct filtering *f, int64_t n_rows)
{
    int64_t wanted = tensor_max(1, tensor_div_up(JOBS_A_THREAD * thread_pool_size(f->work->pool), n_rows));
    f->n_blocks = tensor_div_up(f->out->frames, f->block);
    f->job_blocks = tensor_max(1, tensor_max(tensor_div_up(f->n_blocks, wanted), f->n_partitions));
    f->n_jobs = tensor_div_up(f->n_blocks, f->job_blocks);
}

static bool run_direct(struct filtering *f, int64_t n_groups)
{
    const struct tensor_work *w = f->work;
    f->block = TENSOR_DIRECT_FRAMES;
    jobs_cut(f, n_groups * f->sharers);
    f->scratch_floats = tensor_filter_scratch(w->call, 0);
    f->scratch = memory_floats_uncleared((size_t)thread_pool_size(w->pool) * f->scratch_floats);
    if (f->scratch) thread_pool_run(w->pool, filter_direct, f, n_groups * f->sharers * f->n_jobs);
    bool ok = f->scratch;
    free(f->scratch);
    return ok;
}

static bool run_transforms(struct filtering *f, int64_t n_groups)
{
    const struct tensor_work *w = f->work;
    int64_t n_bank = tensor_n_filters(w->call);
    size_t size = (size_t)w->fft->size;
    f->block = w->fft->size;
    f->n_partitions = tensor_div_up(w->call->h.frames, w->fft->size);
    size_t filter_floats = (size_t)f->n_partitions * 2 * size;
    int64_t max = tensor_max(1, MAX_FLOATS / (int64_t)filter_floats);
    f->by_bank = w->call->has_index && n_bank <= tensor_min(n_groups, max);
    int64_t at_once = f->by_bank ? n_groups : tensor_min(n_groups, max);
    jobs_cut(f, at_once * f->sharers);
    f->scratch_floats = (2 + 2 * FFT_BLOCKS) * size;
    f->scratch = memory_floats_uncleared((size_t)thread_pool_size(w->pool) * f->scratch_floats);
    f->spectra = memory_floats_uncleared((size_t)(f->by_bank ? n_bank : at_once) * filter_floats);
    bool ok = offline_open(&f->rows, w->fft, 1, thread_pool_size(w->pool), (int)filter_entries(w->call, w->fft->size));
    ok = ok && f->scratch && f->spectra;
    for (; ok && f->first < n_groups; f->first += at_once) {
        at_once = tensor_min(at_once, n_groups - f->first);
        thread_pool_run(w->pool, transform_filter_partition, f, (f->by_bank ? n_bank : at_once) * f->n_partitions);
        thread_pool_run(w->pool, filter_row, f, at_once * f->sharers * f->n_jobs);
    }
    offline_close(&f->rows);
    free(f->scratch);
    free(f->spectra);
    return ok;
}

bool tensor_filter_run(const struct tensor_work *work)
{
    const struct tensor_call *call = work->call;
    bool reversed = call->op == HC_GRADIENT_X;
    struct filtering f = {.work = work,
                          .signal = work->data->a,
                          .taps = work->data->b,
                          .in = reversed ? &call->y : &call->x,
                          .out = reversed ? &call->x : &call->y,
                          .sharers = tensor_sharers(call)};
    return (work->fft ? run_transforms : run_direct)(&f, call->h.batch * call->h.channels);
}
