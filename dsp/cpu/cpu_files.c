/* cpu_files - the CPU backend for files: without a deadline, the transforms are large, many blocks are computed
 * together, and all processors work on them.
 *
 *   a call     [ block 0, P ][ block 1 ] ... [ block T-1 ]           T transforms of 2P an input (dsp/fft/fft.h)
 *   FDL        frequency-domain delay line: a row of offline.h for each input; block b is window b
 *
 * Three phases, each a list of jobs for the thread pool: transforms of (input, block); products of chunks of bins with
 * the partitions (an output's list has a product for each cell); inverse transforms of (output, block). In a matrix,
 * the products are most of the work. A mask's spectra lie chunk by chunk: a job reads them in one pass through memory
 * and uses them for all T blocks:
 *
 *   mask     [chunk 0: response 0 partition 0, 1 ...; response 1 ...][chunk 1: ...] ...
 *
 * A job's result depends on the call alone, never on the thread: any number of threads gives the same output. In a call
 * that is not a whole number of blocks, the last block is padded with zeros for its transform, and is transformed again
 * when the missing frames come: correct, but slow in small calls. A direct plan runs in the time domain, in slices.
 */
#include "cpu_costs.h"
#include "dsp/base/memory.h"
#include "dsp/base/thread_pool.h"
#include "dsp/device/backend.h"
#include "mask_partitions.h"
#include "offline.h"
#include "simd.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum {
    JOB_CHUNKS = 8,    /* chunks of a product job: enough work that starting it costs little */
    JOBS_A_THREAD = 4, /* min. product jobs for each thread: a thread that starts late still finds jobs */
    SLICE = 4096,      /* frames of a direct plan's job */
};

struct files {
    const struct plan *plan;
    const struct simd *simd;
    struct thread_pool *threads;
    const struct fft *fft; /* NULL for direct */
    struct offline fdl;    /* the spectra of the latest blocks of each input */
    int n_in, n_out;
    int max_blocks;   /* T: whole blocks a batch, a multiple of FFT_BLOCKS */
    int pos;          /* frames of the current block that have arrived */
    size_t n_earlier; /* earlier frames in front of the current block: P; for direct, max_taps - 1 rounded up */
    size_t history_size;
    float *history;     /* [n_in][history_size]: earlier frames, then the current block (direct: the call) */
    float *sums;        /* [n_out][max_blocks][fdl.stride] */
    float *frames;      /* [threads][P]: the output of an incomplete block */
    float **fading_out; /* [n_out][plan.block]: output of the mask that fades out */
    int64_t block;      /* index of the current block */
    bool *is_nonzero;   /* [n_in][max_blocks]: the transform of this block of the batch is not 0 */
};

struct files_response {
    int first, end; /* partitions with a tap other than 0: [first, end) */
    int at;         /* index of the response's first partition among the mask's */
    int n_taps;     /* direct */
    float *taps;    /* [n_taps]; direct */
};

struct files_mask {
    int n_responses, n_partitions;
    struct files_response *responses;
    struct routing routing;
    struct offline_product *products; /* [routing.n_cells] */
    float *spectra;                   /* [chunks][n_partitions][FFT_CHUNK], scaled by 1 / P */
};

static int files_describe(int device, char *text, size_t cap)
{
    return backend_cpu.describe(device, text, cap);
}

/* ---- open and close ---------------------------------------------------------------------------------------------- */

static void files_close(void *state)
{
    struct files *f = state;
    if (!f) return;
    thread_pool_close(f->threads);
    fft_put(f->fft);
    free(f->history);
    offline_close(&f->fdl);
    free(f->sums);
    free(f->frames);
    outputs_close(f->fading_out);
    free(f->is_nonzero);
    free(f);
}

static bool transforms_open(struct files *f)
{
    size_t p = (size_t)f->plan->partition;
    int blocks = f->plan->block / f->plan->partition;
    f->max_blocks = blocks < FFT_BLOCKS ? FFT_BLOCKS : blocks / FFT_BLOCKS * FFT_BLOCKS;
    f->fft = fft_get(f->plan->partition);
    if (!f->fft || !offline_open(&f->fdl, f->fft, 1, f->n_in, f->plan->n_partitions - 1 + f->max_blocks)) return false;
    f->sums = memory_floats_uncleared((size_t)f->n_out * f->max_blocks * f->fdl.stride);
    f->frames = memory_floats_uncleared((size_t)thread_pool_size(f->threads) * p);
    f->is_nonzero = calloc((size_t)f->n_in * f->max_blocks, sizeof *f->is_nonzero);
    return f->sums && f->frames && f->is_nonzero;
}

static int files_open(const hc_config *config, const struct plan *plan, int device, void **state, struct reason *why)
{
    (void)device;
    struct files *f = calloc(1, sizeof *f);
    if (!f) return fail(HC_ENOMEM, why, "cpu: no memory for an engine; free some memory");
    f->plan = plan;
    f->simd = simd_choose();
    f->n_in = config->n_in;
    f->n_out = config->n_out;
    f->threads = thread_pool_open(config->n_threads);
    f->n_earlier = plan->direct ? round_up((size_t)plan->max_taps - 1, SIMD_PAD) : (size_t)plan->partition;
    f->history_size = f->n_earlier + (size_t)(plan->direct ? plan->block : plan->partition) + SIMD_PAD;
    f->history_size = round_up(f->history_size, SIMD_PAD);
    f->history = memory_floats((size_t)f->n_in * f->history_size);
    f->fading_out = outputs_open(f->n_out, plan->block);
    if (f->threads && f->history && f->fading_out && (plan->direct || transforms_open(f))) {
        *state = f;
        return HC_OK;
    }
    files_close(f);
    return fail(HC_ENOMEM, why, "cpu: no memory for %d inputs of %d taps; lower max_taps", config->n_in,
                plan->max_taps);
}

static int files_reset(void *state, struct reason *why)
{
    (void)why;
    struct files *f = state;
    memset(f->history, 0, (size_t)f->n_in * f->history_size * sizeof(float));
    f->pos = 0;
    f->block = 0;
    for (int in = 0; in < f->n_in && f->fft; in++) f->fdl.ranges[in] = offline_silence;
    return HC_OK;
}

/* ---- masks ------------------------------------------------------------------------------------------------------- */

static void files_mask_free(void *state, void *impl)
{
    (void)state;
    struct files_mask *mask = impl;
    if (!mask) return;
    for (int r = 0; r < mask->n_responses; r++) free(mask->responses[r].taps);
    free(mask->responses);
    routing_free(&mask->routing);
    free(mask->spectra);
    free(mask->products);
    free(mask);
}

struct transform_job {
    struct files *f;
    struct files_mask *mask;
    const struct matrix *matrix;
    int max_partitions; /* max. partitions of a response */
    float *work;        /* [threads][4P] */
};

/* Transforms one partition of a response to its spectrum, chunk by chunk. */
static void transform_files_partition(void *data, int64_t i, int thread)
{
    const struct transform_job *job = data;
    const struct files *f = job->f;
    const struct files_mask *mask = job->mask;
    int64_t response = i / job->max_partitions;
    int p = (int)(i % job->max_partitions);
    const struct files_response *r = &mask->responses[response];
    if (r->first + p >= r->end) return;
    partition_transform(f->fft, job->matrix->taps[response], job->matrix->n_taps[response], r->first + p,
                        job->work + 4 * (size_t)thread * (size_t)f->plan->partition,
                        mask->spectra + (size_t)(r->at + p) * FFT_CHUNK, (size_t)mask->n_partitions * FFT_CHUNK);
}

static bool files_spectra_make(struct files *f, struct files_mask *mask, const struct matrix *matrix)
{
    struct transform_job job = {.f = f, .mask = mask, .matrix = matrix};
    size_t size = (size_t)f->plan->partition;
    for (int i = 0; i < matrix->n_responses; i++) {
        struct files_response *r = &mask->responses[i];
        partitions_find(matrix->taps[i], matrix->n_taps[i], f->plan->partition, &r->first, &r->end);
        r->at = mask->n_partitions;
        mask->n_partitions += r->end - r->first;
        if (r->end - r->first > job.max_partitions) job.max_partitions = r->end - r->first;
    }
    if (mask->n_partitions == 0) return true;
    job.work = memory_floats_uncleared((size_t)thread_pool_size(f->threads) * 4 * size);
    mask->spectra = memory_floats_uncleared((size_t)mask->n_partitions * 2 * size);
    mask->products = calloc((size_t)matrix->n_cells, sizeof *mask->products);
    bool ok = job.work && mask->spectra && mask->products;
    if (ok)
        thread_pool_run(f->threads, transform_files_partition, &job, (int64_t)matrix->n_responses * job.max_partitions);
    for (int c = 0; ok && c < matrix->n_cells; c++) {
        const struct files_response *r = &mask->responses[matrix->cells[c].response];
        mask->products[c] =
            (struct offline_product){matrix->cells[c].in, r->first, r->end, mask->spectra + (size_t)r->at * FFT_CHUNK};
    }
    free(job.work);
    return ok;
}

static bool files_taps_copy(struct files_mask *mask, const struct matrix *matrix)
{
    for (int i = 0; i < matrix->n_responses; i++) {
        struct files_response *r = &mask->responses[i];
        r->n_taps = matrix->n_taps[i];
        r->taps = memory_floats((size_t)r->n_taps);
        if (!r->taps) return false;
        memcpy(r->taps, matrix->taps[i], (size_t)r->n_taps * sizeof(float));
    }
    return true;
}

static int cpu_files_mask_make(void *state, const struct matrix *matrix, void **impl, struct reason *why)
{
    struct files *f = state;
    struct files_mask *mask = calloc(1, sizeof *mask);
    if (!mask) goto no_memory;
    mask->responses = calloc((size_t)matrix->n_responses + 1, sizeof *mask->responses);
    if (!routing_make(&mask->routing, matrix, f->n_out) || !mask->responses) goto no_memory;
    mask->n_responses = matrix->n_responses;
    if (!(f->plan->direct ? files_taps_copy(mask, matrix) : files_spectra_make(f, mask, matrix))) goto no_memory;
    *impl = mask;
    return HC_OK;
no_memory:
    files_mask_free(state, mask);
    return fail(HC_ENOMEM, why, "cpu: no memory for a mask of %d response%s; free some memory", matrix->n_responses,
                PLURAL(matrix->n_responses));
}

/* ---- transforms -------------------------------------------------------------------------------------------------- */

struct files_batch { /* n_blocks blocks of one call; n of their frames are new, from `pos` of the first block on */
    struct files *f;
    const struct files_mask *mask;
    const struct rows *rows;
    float *const *out;   /* output rows of the mask */
    int at, n, n_blocks; /* at: the batch's first frame */
};

static float *files_history(const struct files *f, int in)
{
    return f->history + (size_t)in * f->history_size;
}

static float *cpu_files_sum(const struct files *f, int out, int t)
{
    return f->sums + ((size_t)out * f->max_blocks + t) * f->fdl.stride;
}

/* Transforms block t of an input: the first block from the history, the other blocks directly from the input, which
 * contains the block before each. */
static void transform_input(void *data, int64_t i, int thread)
{
    (void)thread;
    const struct files_batch *batch = data;
    struct files *f = batch->f;
    size_t p = (size_t)f->plan->partition;
    int in = (int)(i / batch->n_blocks), t = (int)(i % batch->n_blocks);
    const float *two = t > 0 ? batch->rows->in[in] + batch->at + (size_t)(t - 1) * p : files_history(f, in);
    float *to = offline_spectrum(&f->fdl, in, f->block + t);
    bool is_nonzero = !all_zero(two, 2 * (int)p);
    f->is_nonzero[(size_t)in * f->max_blocks + t] = is_nonzero;
    if (is_nonzero) fft_forward(f->fft, two, two + p, to, to, FFT_CHUNK);
}

/* Updates the range of nonzero blocks. Blocks outside it are not multiplied, and their FDL entries are not written:
 * this saves most work in a short file with long responses. A zero block is written when a nonzero one follows it.
 * The range restarts when no partition meets any of its blocks. */
static void nonzero_update(struct files *f, int n_blocks)
{
    for (int in = 0; in < f->n_in; in++)
        for (int t = 0; t < n_blocks; t++) {
            struct offline_range *range = &f->fdl.ranges[in];
            int64_t block = f->block + t;
            if (!f->is_nonzero[(size_t)in * f->max_blocks + t]) continue;
            if (f->block - range->last >= f->plan->n_partitions) range->first = range->last = block;
            for (int64_t gap = range->last + 1; gap < block; gap++)
                memset(offline_spectrum(&f->fdl, in, gap), 0, f->fdl.stride * sizeof(float));
            range->last = block;
        }
}

/* Does the inverse transform of block t of an output. */
static void transform_output(void *data, int64_t i, int thread)
{
    const struct files_batch *batch = data;
    struct files *f = batch->f;
    int p = f->plan->partition, out = (int)(i / batch->n_blocks), t = (int)(i % batch->n_blocks);
    offline_back(&f->fdl, cpu_files_sum(f, out, t), f->pos, batch->n < p ? batch->n : p,
                 batch->out[out] + batch->at + (size_t)t * p, f->frames + (size_t)thread * p);
}

/* ---- products ---------------------------------------------------------------------------------------------------- */

/* Returns the number of groups of outputs. Small transforms have few chunks: each group is a job, so jobs suffice. */
static int output_groups(const struct files *f)
{
    int jobs = (f->fft->n_chunks + JOB_CHUNKS - 1) / JOB_CHUNKS;
    int groups = (JOBS_A_THREAD * thread_pool_size(f->threads) + jobs - 1) / jobs;
    return groups < f->n_out ? groups : f->n_out;
}

static void multiply(void *data, int64_t i, int thread)
{
    (void)thread;
    const struct files_batch *batch = data;
    const struct files *f = batch->f;
    const struct files_mask *mask = batch->mask;
    int n_groups = output_groups(f), group = (int)(i % n_groups);
    int n_chunks = f->fft->n_chunks, from = (int)(i / n_groups) * JOB_CHUNKS;
    int end = from + JOB_CHUNKS < n_chunks ? from + JOB_CHUNKS : n_chunks;
    int first = (int)((int64_t)f->n_out * group / n_groups), last = (int)((int64_t)f->n_out * (group + 1) / n_groups);
    for (int out = first; out < last; out++) {
        int cell = mask->routing.first_cell[out], n;
        struct offline_list list = {mask->products + cell, mask->routing.first_cell[out + 1] - cell,
                                    (size_t)mask->n_partitions * FFT_CHUNK};
        for (int t = 0; t < batch->n_blocks; t += n) {
            float *y[FFT_BLOCKS];
            n = offline_windows(batch->n_blocks - t);
            for (int k = 0; k < n; k++) y[k] = cpu_files_sum(f, out, t + k);
            offline_sum(&f->fdl, &list, f->block + t, n, from, end, y);
        }
    }
}

/* ---- process ----------------------------------------------------------------------------------------------------- */

/* Convolves a batch of whole blocks, or one incomplete block, with each mask. */
static void convolve_batch(struct files_batch *batch, struct files_mask *const *masks, float *const *const *outs,
                           int n_masks)
{
    struct files *f = batch->f;
    thread_pool_run(f->threads, transform_input, batch, f->n_in * batch->n_blocks);
    nonzero_update(f, batch->n_blocks);
    for (int m = 0; m < n_masks; m++) {
        batch->mask = masks[m];
        batch->out = outs[m];
        if (!batch->mask || batch->mask->n_partitions == 0) {
            outputs_silence(batch->out, f->n_out, batch->at, batch->n);
            continue;
        }
        int jobs = (f->fft->n_chunks + JOB_CHUNKS - 1) / JOB_CHUNKS * output_groups(f);
        thread_pool_run(f->threads, multiply, batch, jobs);
        thread_pool_run(f->threads, transform_output, batch, f->n_out * batch->n_blocks);
    }
}

/* Copies the batch's last frames to the history. */
static void advance(struct files_batch *batch)
{
    struct files *f = batch->f;
    size_t p = (size_t)f->plan->partition;
    bool whole = f->pos + batch->n >= f->plan->partition;
    for (int in = 0; in < f->n_in && whole; in++) {
        float *h = files_history(f, in);
        if (batch->n_blocks > 1)
            memcpy(h, batch->rows->in[in] + batch->at + batch->n - p, p * sizeof(float));
        else
            memcpy(h, h + p, p * sizeof(float));
    }
    f->pos = whole ? 0 : f->pos + batch->n;
    if (whole) f->block += batch->n_blocks;
}

static void process_blocks(struct files *f, const struct rows *rows, int n, struct files_mask *const *masks,
                           float *const *const *outs, int n_masks)
{
    int p = f->plan->partition;
    struct files_batch batch = {.f = f, .rows = rows};
    for (; batch.at < n; batch.at += batch.n) {
        int left = n - batch.at;
        batch.n_blocks = f->pos == 0 && left >= p ? left / p : 1;
        if (batch.n_blocks > f->max_blocks) batch.n_blocks = f->max_blocks;
        batch.n = batch.n_blocks > 1 ? batch.n_blocks * p : left < p - f->pos ? left : p - f->pos;
        for (int in = 0; in < f->n_in; in++) {
            int n_first = batch.n < p ? batch.n : p, end = f->pos + n_first; /* new frames and end of the first block */
            float *h = files_history(f, in) + p;
            memcpy(h + f->pos, rows->in[in] + batch.at, (size_t)n_first * sizeof(float));
            memset(h + end, 0, (size_t)(p - end) * sizeof(float));
        }
        convolve_batch(&batch, masks, outs, n_masks);
        advance(&batch);
    }
}

/* ---- the time domain --------------------------------------------------------------------------------------------- */

static void fir_slice(void *data, int64_t i, int thread)
{
    (void)thread;
    const struct files_batch *batch = data;
    const struct files *f = batch->f;
    const struct files_mask *mask = batch->mask;
    int n_slices = (batch->n + SLICE - 1) / SLICE, out = (int)(i / n_slices), from = (int)(i % n_slices) * SLICE;
    int n = batch->n - from < SLICE ? batch->n - from : SLICE;
    float *y = batch->out[out] + from;
    memset(y, 0, (size_t)n * sizeof(float));
    for (int c = mask->routing.first_cell[out]; c < mask->routing.first_cell[out + 1]; c++) {
        const struct cell *cell = &mask->routing.cells[c];
        const struct files_response *r = &mask->responses[cell->response];
        f->simd->fir(y, files_history(f, cell->in) + f->n_earlier + from, r->taps, n, r->n_taps);
    }
}

static void process_direct(struct files *f, const struct rows *rows, int n, struct files_mask *const *masks,
                           float *const *const *outs, int n_masks)
{
    struct files_batch batch = {.f = f, .rows = rows, .n = n};
    for (int in = 0; in < f->n_in; in++)
        memcpy(files_history(f, in) + f->n_earlier, rows->in[in], (size_t)n * sizeof(float));
    for (int m = 0; m < n_masks; m++) {
        batch.mask = masks[m];
        batch.out = outs[m];
        if (batch.mask)
            thread_pool_run(f->threads, fir_slice, &batch, f->n_out * ((n + SLICE - 1) / SLICE));
        else
            outputs_silence(batch.out, f->n_out, 0, n);
    }
    for (int in = 0; in < f->n_in; in++)
        memmove(files_history(f, in), files_history(f, in) + n, f->n_earlier * sizeof(float));
}

static int cpu_files_play(void *state, const struct rows *rows, int n, const struct fade *fade, struct reason *why)
{
    (void)why;
    struct files *f = state;
    struct files_mask *masks[2] = {fade->to, fade->len > 0 ? fade->from : NULL};
    float *const *outs[2] = {rows->out, f->fading_out};
    int n_masks = fade->len > 0 ? 2 : 1;
    (f->plan->direct ? process_direct : process_blocks)(f, rows, n, masks, outs, n_masks);
    if (n_masks == 2) outputs_crossfade(rows->out, f->fading_out, f->n_out, n, fade);
    return HC_OK;
}

const struct backend backend_cpu_files = {
    .name = "cpu",
    .in_place = true,
    .costs = &cpu_files_costs,
    .describe = files_describe,
    .open = files_open,
    .close = files_close,
    .mask_make = cpu_files_mask_make,
    .mask_free = files_mask_free,
    .play = cpu_files_play,
    .reset = files_reset,
};
