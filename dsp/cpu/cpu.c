/* cpu - the CPU backend for live work: runs in place on the caller's thread.
 *
 * This file convolves the head, taps [0, head_taps) of a response, in partitions of P taps. The tail levels
 * (tail_levels.h) convolve the taps after the head, at the end of each hop. A block is P frames. Each input
 * keeps two blocks of frames, and the spectra of the latest blocks:
 *
 *   history   [ previous block, P ][ current block, P ]           first P taps: in the time domain, from the history
 *                                     ^ pos                       current block full: transform of all 2P -> FDL
 *   FDL       frequency-domain delay line: the spectra of the latest blocks of each input (dsp/fft/fft.h). Partition p
 *             of a response meets the block p before the current one; `newest` is the entry of the current block:
 *             [n_in][n_chunks][n_entries: a ring][chunk]
 *   mask      [n_chunks][n_partitions of all responses][chunk]: a chunk's products read memory in one stream
 *
 * A call is cut at block edges. Whole blocks go through the partitions, up to BATCH blocks at once, so that each
 * spectrum of the mask is loaded once for FFT_BLOCKS blocks. The output of an incomplete block is the sum of
 * partitions 1... (computed once a block: cpu_mask.past) plus partition 0: its P taps by FIR or by one transform of the
 * incomplete block, whichever is less work. A direct plan has P >= head_taps, and so needs no FDL and no `past`.
 */
#include "cpu_costs.h"
#include "dsp/device/backend.h"
#include "dsp/device/scene_backend.h"
#include "dsp/device/scene_render_backend.h"
#include "dsp/device/tensor_backend.h"
#include "dsp/fft/fft.h"

#include "dsp/base/memory.h"
#include "dsp/base/processors.h"
#include "mask_partitions.h"
#include "simd.h"
#include "tail_levels.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    BATCH = 16,    /* whole blocks that go through the partitions together */
    MAX_LIST = 64, /* max. entries of the list in a call of fft_products */
};

struct cpu {
    const struct plan *plan;
    const struct simd *simd;
    const struct fft *fft; /* NULL for direct */
    struct tail *tail;     /* NULL: the plan has no tail levels */
    int n_in, n_out;
    int pos;               /* frames of the current block that have arrived */
    int64_t block;         /* index of the current block */
    int n_entries, newest; /* number of entries of each FDL ring; index of the current block's entry */
    size_t ring_stride;    /* floats from one ring to the next */
    float *fdl;
    size_t history_size; /* floats of an input's history */
    float *history;      /* [n_in][history_size] */
    float *sums;         /* [BATCH][2P]: spectra of outputs */
    float *work;         /* [2P] */
    float **frames;      /* [n_out][P]: output of partition 0 for an incomplete block */
    float **fading_out;  /* [n_out][plan.block]: output of the mask that fades out */
};

struct cpu_response {
    int n_taps;
    float *taps;    /* [n_taps]: the response's first taps, at most P */
    int first, end; /* partitions with a tap other than 0: [first, end) */
    int at;         /* index of the response's first partition among the mask's */
};

struct cpu_mask {
    int n_responses, n_partitions;
    struct cpu_response *responses;
    struct routing routing;
    float *spectra; /* scaled by 1 / P */
    float **past;   /* [n_out][P]: the sum of partitions 1... for block past_block; audio thread only */
    int64_t past_block;
    struct tail_mask *tail; /* NULL: the plan has no tail levels */
};

static int cpu_describe(int device, char *text, size_t cap)
{
    if (device != 0) return HC_EINVAL;
    snprintf(text, cap, "%s", simd_choose()->name);
    return HC_OK;
}

static int cpu_measure(int device, struct plan_costs *measured, struct reason *why)
{
    (void)device;
    int error = cpu_costs_measure(measured);
    return error ? fail(error, why, "cpu: no memory to measure the costs; free some memory") : HC_OK;
}

static void cpu_close(void *state)
{
    struct cpu *cpu = state;
    if (!cpu) return;
    fft_put(cpu->fft);
    tail_close(cpu->tail);
    memory_packed_free(cpu->history);
    memory_packed_free(cpu->fdl);
    memory_packed_free(cpu->sums);
    memory_packed_free(cpu->work);
    outputs_close(cpu->frames);
    outputs_close(cpu->fading_out);
    free(cpu);
}

/* Returns the number of threads for the tail levels, besides the caller: config.n_threads - 1, or as many as keep each
 * thread half busy, at most one for each other processor. With one thread, 8 x 8 of 1 s at 64 frames costs the audio
 * thread 20 us instead of 75, and the process no more. An engine with so little work that a host may run a hundred of
 * them gets no thread: a thread would save 8 us of 1333. */
static int tail_threads(const hc_config *config, const struct plan *plan)
{
    const double little = 0.005, busy = 0.5;
    struct plan_shape shape = {plan->max_taps, plan->block, config->n_in, config->n_out, config->n_routes};
    double load = 1e-9 * config->rate * plan_cost_ns(plan, &plan->costs, &shape);
    int max = (config->n_threads > 0 ? config->n_threads : processors_usable()) - 1, n = (int)ceil(load / busy);
    if (config->n_threads > 0) return max;
    return load < little ? 0 : n < max ? n : max;
}

static size_t fdl_floats(const struct cpu *cpu)
{
    return (size_t)cpu->n_in * (size_t)cpu->fft->n_chunks * cpu->ring_stride;
}

static int cpu_open(const hc_config *config, const struct plan *plan, int device, void **state, struct reason *why)
{
    (void)device;
    struct cpu *cpu = calloc(1, sizeof *cpu);
    if (!cpu) return fail(HC_ENOMEM, why, "cpu: no memory for an engine; free some memory");
    size_t p = (size_t)plan->partition;
    cpu->plan = plan;
    cpu->simd = simd_choose();
    cpu->n_in = config->n_in;
    cpu->n_out = config->n_out;
    cpu->history_size = round_up(2 * p + SIMD_PAD, SIMD_PAD);
    cpu->history = memory_packed((size_t)cpu->n_in * cpu->history_size);
    cpu->fading_out = outputs_open(cpu->n_out, plan->block);
    if (!cpu->history || !cpu->fading_out) goto no_memory;
    if (plan->n_tail_levels > 0) {
        cpu->tail = tail_open(plan, cpu->n_in, cpu->n_out, config->n_routes, tail_threads(config, plan));
        if (!cpu->tail) goto no_memory;
    }
    if (!plan->direct) {
        cpu->fft = fft_get(plan->partition);
        if (!cpu->fft) goto no_memory;
        cpu->n_entries = plan->n_partitions + BATCH;
        /* The stride is not a power of two: rings that lie a power of two apart share few sets of the cache. */
        cpu->ring_stride = (size_t)(cpu->n_entries * cpu->fft->chunk) + FFT_LANES;
        cpu->fdl = memory_packed(fdl_floats(cpu));
        cpu->sums = memory_packed(BATCH * 2 * p);
        cpu->work = memory_packed(2 * p);
        cpu->frames = outputs_open(cpu->n_out, plan->partition);
        if (!cpu->fdl || !cpu->sums || !cpu->work || !cpu->frames) goto no_memory;
    }
    *state = cpu;
    return HC_OK;
no_memory:
    cpu_close(cpu);
    return fail(HC_ENOMEM, why, "cpu: no memory for %d inputs of %d taps; lower max_taps", config->n_in,
                plan->max_taps);
}

static int cpu_reset(void *state, struct reason *why)
{
    (void)why;
    struct cpu *cpu = state;
    memset(cpu->history, 0, (size_t)cpu->n_in * cpu->history_size * sizeof(float));
    if (cpu->fdl) memset(cpu->fdl, 0, fdl_floats(cpu) * sizeof(float));
    if (cpu->tail) tail_reset(cpu->tail);
    cpu->pos = 0;
    cpu->block++; /* invalidates `past` of every mask */
    return HC_OK;
}

static void cpu_wait_set(void *state, bool waits)
{
    struct cpu *cpu = state;
    if (cpu->tail) tail_wait_set(cpu->tail, waits);
}

/* ---- masks ------------------------------------------------------------------------------------------------------- */

static void cpu_mask_free(void *state, void *impl)
{
    (void)state;
    struct cpu_mask *mask = impl;
    if (!mask) return;
    for (int r = 0; r < mask->n_responses; r++) memory_packed_free(mask->responses[r].taps);
    memory_packed_free(mask->spectra);
    tail_mask_free(mask->tail);
    free(mask->responses);
    routing_free(&mask->routing);
    outputs_close(mask->past);
    free(mask);
}

static int head_taps(const struct cpu *cpu, int n_taps)
{
    return n_taps < cpu->plan->head_taps ? n_taps : cpu->plan->head_taps;
}

/* false: no memory. */
static bool taps_copy(const struct cpu *cpu, struct cpu_response *r, const float *taps, int n_taps)
{
    n_taps = head_taps(cpu, n_taps);
    r->n_taps = n_taps < cpu->plan->partition ? n_taps : cpu->plan->partition;
    r->taps = memory_packed((size_t)r->n_taps);
    if (r->taps) memcpy(r->taps, taps, (size_t)r->n_taps * sizeof(float));
    return r->taps != NULL;
}

static float *mask_spectra(const struct cpu *cpu, const struct cpu_mask *mask, int chunk, int partition)
{
    return mask->spectra + ((size_t)chunk * (size_t)mask->n_partitions + (size_t)partition) * (size_t)cpu->fft->chunk;
}

/* false: no memory. */
static bool cpu_spectra_make(const struct cpu *cpu, struct cpu_mask *mask, const struct matrix *matrix)
{
    int p = cpu->plan->partition;
    for (int i = 0; i < matrix->n_responses; i++) {
        struct cpu_response *r = &mask->responses[i];
        partitions_find(matrix->taps[i], head_taps(cpu, matrix->n_taps[i]), p, &r->first, &r->end);
        r->at = mask->n_partitions;
        mask->n_partitions += r->end - r->first;
    }
    float *work = memory_floats(4 * (size_t)p);
    mask->spectra = memory_packed((size_t)mask->n_partitions * 2 * (size_t)p);
    mask->past = outputs_open(cpu->n_out, p);
    bool ok = work && mask->spectra && mask->past;
    for (int i = 0; ok && i < matrix->n_responses; i++) {
        const struct cpu_response *r = &mask->responses[i];
        for (int k = r->first; k < r->end; k++)
            partition_transform(cpu->fft, matrix->taps[i], head_taps(cpu, matrix->n_taps[i]), k, work,
                                mask_spectra(cpu, mask, 0, r->at + k - r->first),
                                (size_t)mask->n_partitions * (size_t)cpu->fft->chunk);
    }
    free(work);
    return ok;
}

static int cpu_mask_make(void *state, const struct matrix *matrix, void **impl, struct reason *why)
{
    const struct cpu *cpu = state;
    struct cpu_mask *mask = calloc(1, sizeof *mask);
    if (!mask) goto no_memory;
    mask->past_block = -1;
    mask->responses = calloc((size_t)matrix->n_responses + 1, sizeof *mask->responses);
    if (!routing_make(&mask->routing, matrix, cpu->n_out) || !mask->responses) goto no_memory;
    for (int r = 0; r < matrix->n_responses; r++) {
        mask->n_responses = r + 1;
        if (!taps_copy(cpu, &mask->responses[r], matrix->taps[r], matrix->n_taps[r])) goto no_memory;
    }
    if (!cpu->plan->direct && !cpu_spectra_make(cpu, mask, matrix)) goto no_memory;
    if (cpu->tail) {
        mask->tail = tail_mask_make(cpu->tail, cpu->plan, matrix, &mask->routing);
        if (!mask->tail) goto no_memory;
    }
    *impl = mask;
    return HC_OK;
no_memory:
    cpu_mask_free(state, mask);
    return fail(HC_ENOMEM, why, "cpu: no memory for a mask of %d response%s; free some memory", matrix->n_responses,
                PLURAL(matrix->n_responses));
}

static void cpu_mask_prepare(void *state, void *impl)
{
    struct cpu *cpu = state;
    struct cpu_mask *mask = impl;
    if (cpu->tail) tail_prepare(cpu->tail, mask->tail);
}

static bool cpu_mask_ready(void *state, const void *impl)
{
    const struct cpu *cpu = state;
    const struct cpu_mask *mask = impl;
    return !cpu->tail || tail_ready(cpu->tail, mask->tail);
}

static bool cpu_mask_released(void *state, const void *impl)
{
    const struct cpu *cpu = state;
    const struct cpu_mask *mask = impl;
    return !cpu->tail || tail_released(cpu->tail, mask->tail);
}

static void cpu_mask_retire(void *state, void *impl)
{
    struct cpu *cpu = state;
    struct cpu_mask *mask = impl;
    if (cpu->tail) tail_retire(cpu->tail, mask->tail);
}

/* ---- partitions -------------------------------------------------------------------------------------------------- */

/* Returns the FDL entry of the block `after` blocks after the current one; -n_entries < after < n_entries. */
static int cpu_entry_of(const struct cpu *cpu, int after)
{
    return (cpu->newest + after + cpu->n_entries) % cpu->n_entries;
}

static float *fdl_ring(const struct cpu *cpu, int in, int chunk)
{
    return cpu->fdl + ((size_t)in * (size_t)cpu->fft->n_chunks + (size_t)chunk) * cpu->ring_stride;
}

/* Writes to sum[2P] the sum over partitions [from, to) of an output, for the block t blocks after the current one. */
static void sum_block(const struct cpu *cpu, const struct cpu_mask *mask, int out, int t, int from, int to, float *sum)
{
    const struct fft *fft = cpu->fft;
    int newest = cpu_entry_of(cpu, t);
    for (int chunk = 0; chunk < fft->n_chunks; chunk++) {
        struct fft_ring list[MAX_LIST];
        float *y = sum + chunk * fft->chunk;
        bool add = false;
        int n = 0;
        for (int c = mask->routing.first_cell[out]; c < mask->routing.first_cell[out + 1]; c++) {
            const struct cell *cell = &mask->routing.cells[c];
            const struct cpu_response *r = &mask->responses[cell->response];
            int p0 = r->first > from ? r->first : from, p1 = r->end < to ? r->end : to;
            if (p0 >= p1) continue;
            if (n == MAX_LIST) {
                fft->products->rings(y, list, n, add, fft->chunk);
                add = true;
                n = 0;
            }
            list[n++] = (struct fft_ring){.x = fdl_ring(cpu, cell->in, chunk),
                                          .h = mask_spectra(cpu, mask, chunk, r->at + p0 - r->first),
                                          .entry = newest >= p0 ? newest - p0 : newest - p0 + cpu->n_entries,
                                          .n_entries = cpu->n_entries,
                                          .n_partitions = p1 - p0};
        }
        fft->products->rings(y, list, n, add, fft->chunk);
    }
}

struct product_list { /* products of one output */
    struct fft_blocks list[MAX_LIST];
    int n;
    bool add; /* the sums of an earlier list exist: add to them */
};

/* Writes the products of the list to sums[FFT_BLOCKS][2P], or adds them if products->add. Empties the list. */
static void products_flush(const struct cpu *cpu, const struct cpu_mask *mask, struct product_list *products,
                           float *sums)
{
    const struct fft *fft = cpu->fft;
    size_t h_chunk = (size_t)mask->n_partitions * (size_t)fft->chunk;
    for (int chunk = 0; chunk < fft->n_chunks; chunk++) {
        float *y[FFT_BLOCKS];
        for (int i = 0; i < FFT_BLOCKS; i++)
            y[i] = sums + 2 * (size_t)i * (size_t)cpu->plan->partition + chunk * fft->chunk;
        fft->products->blocks(y, FFT_BLOCKS, products->add, products->list, products->n,
                              (size_t)chunk * cpu->ring_stride, (size_t)chunk * h_chunk, fft->chunk);
    }
    products->n = 0;
    products->add = true;
}

/* Writes to sums[FFT_BLOCKS][2P] the sum over all partitions of an output, for FFT_BLOCKS blocks from t on. */
static void sum_blocks(const struct cpu *cpu, const struct cpu_mask *mask, int out, int t, float *sums)
{
    struct product_list products;
    products.n = 0;
    products.add = false;
    for (int c = mask->routing.first_cell[out]; c < mask->routing.first_cell[out + 1]; c++) {
        const struct cell *cell = &mask->routing.cells[c];
        const struct cpu_response *r = &mask->responses[cell->response];
        const float *x = fdl_ring(cpu, cell->in, 0);
        for (int p = r->first; p < r->end; p++) {
            if (products.n == MAX_LIST) products_flush(cpu, mask, &products, sums);
            struct fft_blocks *product = &products.list[products.n++];
            product->h = mask_spectra(cpu, mask, 0, r->at + p - r->first);
            for (int i = 0; i < FFT_BLOCKS; i++) product->x[i] = x + cpu_entry_of(cpu, t + i - p) * cpu->fft->chunk;
        }
    }
    products_flush(cpu, mask, &products, sums);
}

/* Writes the output of partitions [from, to) to rows[n_out][at ...], for n_t blocks, current first. If n_t > 1,
 * [from, to) must be all partitions. Overlap-save: only the second half of an inverse transform, P frames, is valid. */
static void convolve_partitions(struct cpu *cpu, const struct cpu_mask *mask, int n_t, int from, int to,
                                float *const *rows, int at)
{
    size_t p = (size_t)cpu->plan->partition;
    float *sums[BATCH], *frames[BATCH];
    int n = 0;
    for (int o = 0; o < cpu->n_out; o++) {
        float *row = rows[o] + at;
        bool is_silent = mask->routing.first_cell[o] == mask->routing.first_cell[o + 1];
        if (is_silent) memset(row, 0, (size_t)n_t * p * sizeof(float));
        for (int t = 0; t < n_t && !is_silent; t++, n++) {
            sums[n] = cpu->sums + 2 * (size_t)n * p;
            frames[n] = row + (size_t)t * p;
            if (t >= n_t - n_t % FFT_BLOCKS)
                sum_block(cpu, mask, o, t, from, to, sums[n]);
            else if (t % FFT_BLOCKS == 0)
                sum_blocks(cpu, mask, o, t, sums[n]);
        }
        if (n + n_t <= BATCH && o + 1 < cpu->n_out) continue;
        fft_inverse_batch(cpu->fft, n, sums, frames);
        n = 0;
    }
}

/* ---- process ----------------------------------------------------------------------------------------------------- */

static float *cpu_history(const struct cpu *cpu, int in)
{
    return cpu->history + (size_t)in * cpu->history_size;
}

/* Transforms n_t blocks of every input, from the current block on, into the FDL. x NULL: one block, which is in the
 * history. The block before the first one is always there. */
static void transform_blocks(struct cpu *cpu, const float *const *x, int at, int n_t)
{
    size_t p = (size_t)cpu->plan->partition;
    const float *before[BATCH], *now[BATCH];
    float *spectra[BATCH];
    int n = 0;
    for (int in = 0; in < cpu->n_in; in++)
        for (int t = 0; t < n_t; t++) {
            now[n] = x ? x[in] + at + (size_t)t * p : cpu_history(cpu, in) + p;
            before[n] = t > 0 ? now[n] - p : cpu_history(cpu, in);
            spectra[n++] = fdl_ring(cpu, in, 0) + cpu_entry_of(cpu, t) * cpu->fft->chunk;
            if (n < BATCH && (in + 1 < cpu->n_in || t + 1 < n_t)) continue;
            fft_forward_batch(cpu->fft, n, before, now, cpu->work, spectra, cpu->ring_stride);
            n = 0;
        }
}

/* Reads whole blocks, and keeps the last one in the history. */
static void push_blocks(struct cpu *cpu, const struct rows *rows, int at, int n_t)
{
    size_t p = (size_t)cpu->plan->partition;
    transform_blocks(cpu, rows->in, at, n_t);
    for (int in = 0; in < cpu->n_in; in++)
        memcpy(cpu_history(cpu, in), rows->in[in] + at + (size_t)(n_t - 1) * p, p * sizeof(float));
}

/* Computes what past blocks contribute to the current block (`past`), unless the mask has it already. */
static void make_past(struct cpu *cpu, struct cpu_mask *mask)
{
    if (cpu->plan->direct || mask->past_block == cpu->block) return;
    convolve_partitions(cpu, mask, 1, 1, cpu->plan->n_partitions, mask->past, 0);
    mask->past_block = cpu->block;
}

/* Returns true if partition 0 of n frames is less work by FIR than by a transform of the incomplete block. */
static bool is_fir_faster(const struct cpu *cpu, const struct cpu_mask *mask, int n)
{
    if (cpu->plan->direct) return true;
    const struct plan_costs *costs = &cpu->plan->costs;
    double p = cpu->plan->partition, transform = costs->fft_ns * 2 * p * log2(2 * p);
    return costs->mac_ns * n * p * mask->routing.n_cells <
           transform * (cpu->n_in + cpu->n_out) + costs->cmac_ns * p * mask->routing.n_cells;
}

/* Convolves n frames of the current block, from pos on. The input of these frames is in the history already. */
static void convolve_incomplete(struct cpu *cpu, struct cpu_mask *mask, float *const *out, int at, int n)
{
    int p = cpu->plan->partition;
    bool fir = is_fir_faster(cpu, mask, n);
    make_past(cpu, mask);
    if (!fir) {
        for (int in = 0; in < cpu->n_in; in++)
            memset(cpu_history(cpu, in) + p + cpu->pos + n, 0, (size_t)(p - cpu->pos - n) * sizeof(float));
        transform_blocks(cpu, NULL, 0, 1);
        convolve_partitions(cpu, mask, 1, 0, 1, cpu->frames, 0);
    }
    for (int o = 0; o < cpu->n_out; o++) {
        float *y = out[o] + at;
        if (cpu->plan->direct)
            memset(y, 0, (size_t)n * sizeof(float));
        else
            memcpy(y, mask->past[o] + cpu->pos, (size_t)n * sizeof(float));
        if (!fir) {
            const float *sum = cpu->frames[o] + cpu->pos;
            for (int i = 0; i < n; i++) y[i] += sum[i];
            continue;
        }
        for (int c = mask->routing.first_cell[o]; c < mask->routing.first_cell[o + 1]; c++) {
            const struct cell *cell = &mask->routing.cells[c];
            const struct cpu_response *r = &mask->responses[cell->response];
            cpu->simd->fir(y, cpu_history(cpu, cell->in) + p + cpu->pos, r->taps, n, r->n_taps);
        }
    }
}

static void append_history(struct cpu *cpu, const struct rows *rows, int at, int n)
{
    for (int in = 0; in < cpu->n_in; in++)
        memcpy(cpu_history(cpu, in) + cpu->plan->partition + cpu->pos, rows->in[in] + at, (size_t)n * sizeof(float));
}

static void next_block(struct cpu *cpu)
{
    size_t p = (size_t)cpu->plan->partition;
    if (!cpu->plan->direct) {
        transform_blocks(cpu, NULL, 0, 1);
        cpu->newest = cpu_entry_of(cpu, 1);
    }
    for (int in = 0; in < cpu->n_in; in++) memcpy(cpu_history(cpu, in), cpu_history(cpu, in) + p, p * sizeof(float));
    cpu->pos = 0;
    cpu->block++;
}

/* Adds n frames of the tail levels, hop by hop, to the output of the head. */
static void add_tail(struct cpu *cpu, const struct rows *rows, struct cpu_mask *const *masks, float *const *const *outs,
                     int n_masks, int at, int n)
{
    for (int end = at + n, len; at < end; at += len) {
        len = end - at < tail_left(cpu->tail) ? end - at : tail_left(cpu->tail);
        tail_begin(cpu->tail);
        tail_push(cpu->tail, rows->in, at, len);
        for (int m = 0; m < n_masks; m++)
            for (int o = 0; o < cpu->n_out && masks[m]; o++)
                tail_add(cpu->tail, masks[m]->tail, o, outs[m][o] + at, len);
        tail_advance(cpu->tail, len);
    }
}

static int cpu_play(void *state, const struct rows *rows, int n, const struct fade *fade, struct reason *why)
{
    (void)why;
    struct cpu *cpu = state;
    int p = cpu->plan->partition;
    struct cpu_mask *masks[2] = {fade->to, fade->len > 0 ? fade->from : NULL};
    float *const *outs[2] = {rows->out, fade->apart ? fade->apart->rows.out : cpu->fading_out};
    int n_masks = fade->len > 0 ? 2 : 1;

    for (int at = 0; at < n;) {
        int n_t = cpu->plan->direct || cpu->pos > 0 ? 0 : (n - at) / p;
        if (n_t > BATCH) n_t = BATCH;
        int frames = n_t > 0 ? n_t * p : n - at < p - cpu->pos ? n - at : p - cpu->pos;
        if (n_t > 0)
            push_blocks(cpu, rows, at, n_t);
        else
            append_history(cpu, rows, at, frames);
        for (int m = 0; m < n_masks; m++) {
            if (!masks[m])
                outputs_silence(outs[m], cpu->n_out, at, frames);
            else if (n_t > 0)
                convolve_partitions(cpu, masks[m], n_t, 0, cpu->plan->n_partitions, outs[m], at);
            else
                convolve_incomplete(cpu, masks[m], outs[m], at, frames);
        }
        if (cpu->tail) add_tail(cpu, rows, masks, outs, n_masks, at, frames);
        at += frames;
        if (n_t > 0) {
            cpu->newest = cpu_entry_of(cpu, n_t);
            cpu->block += n_t;
        } else {
            cpu->pos += frames;
            if (cpu->pos == p) next_block(cpu);
        }
    }
    if (n_masks == 2 && !fade->apart) outputs_crossfade(rows->out, cpu->fading_out, cpu->n_out, n, fade);
    return HC_OK;
}

const struct backend backend_cpu = {
    .name = "cpu",
    .scene = &scene_cpu,
    .render = &scene_render_cpu,
    .tensors = &tensors_cpu,
    .files = &backend_cpu_files,
    .in_place = true,
    .costs = &cpu_costs,
    .describe = cpu_describe,
    .measure = cpu_measure,
    .open = cpu_open,
    .close = cpu_close,
    .mask_make = cpu_mask_make,
    .mask_free = cpu_mask_free,
    .mask_prepare = cpu_mask_prepare,
    .mask_ready = cpu_mask_ready,
    .mask_retire = cpu_mask_retire,
    .mask_released = cpu_mask_released,
    .swap_frames = tail_swap_frames,
    .play = cpu_play,
    .wait_set = cpu_wait_set,
    .reset = cpu_reset,
};
