/* cpu - the CPU backend for live work: runs in place on the caller's thread.
 *
 * This file convolves the head, taps [0, head_taps) of a response, in partitions of P taps. The tail levels
 * (tail_levels.h) convolve the taps after it and do their work at the end of each hop. A block is P frames. Each input
 * keeps two blocks, and the spectra of the latest ones:
 *
 *   history   [ previous block, P ][ current block, P ]           first P taps: time domain, from here
 *                                     ^ pos                       transform of all 2P when it is full -> FDL
 *   FDL       frequency-domain delay line (fdl.h): a ring of transforms of 2P
 *
 * A call is cut at block edges. Whole blocks go through the partitions, up to BATCH of them at once, so that each
 * spectrum of the mask is loaded once for FFT_BLOCKS of them. The output of an incomplete block is the sum of
 * partitions 1... (computed once a block: cpu_mask.past) plus partition 0: its P taps by FIR or by one transform of the
 * block so far, whichever is less work. A direct plan is the same with P >= head_taps, without FDL and `past`.
 */
#include "dsp/costs/cpu_costs.h"
#include "dsp/engine/backend.h"
#include "dsp/scene/render_backend.h"
#include "dsp/scene/scene_backend.h"
#include "dsp/tensors/tensor_backend.h"

#include "dsp/fft/fft.h"
#include "fdl.h"
#include "memory.h"
#include "outputs.h"
#include "partitions.h"
#include "planned_fft.h"
#include "processors.h"
#include "simd.h"
#include "tail_levels.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    BATCH = 16,            /* whole blocks that go through the partitions together */
    L2_BYTES = 512 * 1024, /* of spectra that a pass over the partitions may touch before it moves to the next bins */
};

struct cpu {
    const struct plan *plan;
    const struct simd *simd;
    struct planned_fft *fft; /* NULL for direct */
    struct tail *tail;       /* NULL: the plan has no tail levels */
    int n_in, n_out;
    int pos;       /* frames of the current block so far */
    int64_t block; /* index of the current block */
    struct fdl fdl;
    size_t history_size; /* floats of an input's history */
    float *history;      /* [n_in][history_size] */
    float *sums;         /* [BATCH][fdl.stride]: an output's spectra before they are transformed back */
    float *frames;       /* [2P] */
    float **fading_out;  /* [n_out][plan.block]: output of the mask that fades out */
};

struct cpu_response {
    int n_taps;
    float *taps;    /* [n_taps]: the first P */
    int first, end; /* partitions with a tap other than 0: [first, end) */
    float *spectra; /* [end - first][fdl.stride], scaled by 1 / 2P */
};

struct cpu_mask {
    int n_responses;
    struct cpu_response *responses;
    struct routing routing;
    float *past; /* [n_out][P]: the sum of partitions 1... for block past_block; audio thread only */
    int64_t past_block;
    struct tail_mask *tail; /* NULL: the plan has no tail levels */
};

/* Measured on one core of an EPYC (Zen 4), FFTW 3.3.10; only their ratios matter. */
static const struct plan_costs cpu_costs = {
    .min_partition = 64,
    .max_partition = 8192,
#ifdef HC_WITH_FFTW
    .min_tail = FFT_LONG,
    .max_tail = 32768,
#endif
    .mac_ns = 0.03,
    .cmac_ns = 0.25,
#ifdef HC_WITH_FFTW
    .fft_ns = 0.09,
#endif
    .tail_fft_ns = 0.042,
    .tail_cmac_ns = 0.4,
    .launch_ns = 50,
    .slice_ns = 60,
    .call_ns = 100,
    .file_block = 65536,
};

static int cpu_describe(int device, char *text, size_t cap)
{
    if (device != 0) return HC_EINVAL;
    const char *fft = fft_library() ? fft_library() : "no-fft";
    const char *version = fft + strcspn(fft, "-") + 1;
    snprintf(text, cap, "%s, %.*s %.*s", simd_choose()->name, (int)strcspn(fft, "-"), fft, (int)strcspn(version, "-"),
             version);
    return HC_OK;
}

static int cpu_measure(int device, struct plan_costs *measured, char *why, size_t cap)
{
    (void)device;
    int error = cpu_costs_measure(measured);
    return error ? fail(error, why, cap, "cpu: no memory to measure in") : HC_OK;
}

static void cpu_close(void *state)
{
    struct cpu *cpu = state;
    if (!cpu) return;
    planned_fft_close(cpu->fft);
    tail_close(cpu->tail);
    memory_place_free(cpu->history);
    memory_place_free(cpu->fdl.spectra);
    memory_place_free(cpu->sums);
    memory_place_free(cpu->frames);
    outputs_close(cpu->fading_out);
    free(cpu);
}

/* Threads for the tail levels: as many as keep each of them half busy, as far as there are processors. With one thread,
 * 8 x 8 of 1 s at 64 frames takes 20 us of the audio thread instead of 75, and no more of the process. An engine of so
 * little work that a host may run a hundred of them gets no thread: it would save 8 us of 1333. */
static int tail_threads(const hc_config *config, const struct plan *plan)
{
    const double little = 0.005, busy = 0.5;
    struct plan_shape shape = {plan->max_taps, plan->block, config->n_in, config->n_out, config->n_routes};
    double load = 1e-9 * config->rate * plan_cost_ns(plan, &cpu_costs, &shape);
    int most = (config->n_threads > 0 ? config->n_threads : processors_usable()) - 1, n = (int)ceil(load / busy);
    if (config->n_threads > 0) return most;
    return load < little ? 0 : n < most ? n : most;
}

static int cpu_open(const hc_config *config, const struct plan *plan, int device, void **state, char *why, size_t cap)
{
    (void)device;
    struct cpu *cpu = calloc(1, sizeof *cpu);
    if (!cpu) return fail(HC_ENOMEM, why, cap, "cpu: no memory");
    size_t p = (size_t)plan->partition;
    cpu->plan = plan;
    cpu->simd = simd_choose();
    cpu->n_in = config->n_in;
    cpu->n_out = config->n_out;
    cpu->history_size = round_up(2 * p + SIMD_PAD, SIMD_PAD);
    /* Spectra a multiple of 4 KiB apart would all fall into the same few sets of the cache. */
    cpu->fdl.stride = round_up(2 * (p + 1), SIMD_PAD) + SIMD_PAD;
    cpu->fdl.n_slots = plan->n_partitions + BATCH;
    cpu->history = memory_place((size_t)cpu->n_in * cpu->history_size);
    cpu->fading_out = outputs_open(cpu->n_out, plan->block);
    if (!cpu->history || !cpu->fading_out) goto no_memory;
    if (plan->n_tail_levels > 0) {
        cpu->tail = tail_open(plan, cpu->n_in, cpu->n_out, config->n_routes, tail_threads(config, plan));
        if (!cpu->tail) goto no_memory;
    }
    if (!plan->direct) {
        cpu->fft = planned_fft_open(2 * plan->partition);
        cpu->fdl.spectra = memory_place((size_t)cpu->n_in * cpu->fdl.n_slots * cpu->fdl.stride);
        cpu->sums = memory_place(BATCH * cpu->fdl.stride);
        cpu->frames = memory_place(2 * p);
        if (!cpu->fft || !cpu->fdl.spectra || !cpu->sums || !cpu->frames) goto no_memory;
    }
    *state = cpu;
    return HC_OK;
no_memory:
    cpu_close(cpu);
    return fail(HC_ENOMEM, why, cap, "cpu: no memory for %d inputs of %d taps; lower max_taps", config->n_in,
                plan->max_taps);
}

static int cpu_reset(void *state, char *why, size_t cap)
{
    (void)why;
    (void)cap;
    struct cpu *cpu = state;
    memset(cpu->history, 0, (size_t)cpu->n_in * cpu->history_size * sizeof(float));
    size_t floats = (size_t)cpu->n_in * cpu->fdl.n_slots * cpu->fdl.stride;
    if (cpu->fdl.spectra) memset(cpu->fdl.spectra, 0, floats * sizeof(float));
    if (cpu->tail) tail_reset(cpu->tail);
    cpu->pos = 0;
    cpu->block++; /* so that no mask's `past` is of this block */
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
    for (int r = 0; r < mask->n_responses; r++) {
        memory_place_free(mask->responses[r].taps);
        memory_place_free(mask->responses[r].spectra);
    }
    tail_mask_free(mask->tail);
    free(mask->responses);
    routing_free(&mask->routing);
    memory_place_free(mask->past);
    free(mask);
}

static bool cpu_response_make(const struct cpu *cpu, struct cpu_response *r, const float *taps, int n_taps,
                              float *frames)
{
    int p = cpu->plan->partition;
    if (n_taps > cpu->plan->head_taps) n_taps = cpu->plan->head_taps;
    r->n_taps = n_taps < p ? n_taps : p;
    r->taps = memory_place((size_t)r->n_taps);
    if (!r->taps) return false;
    memcpy(r->taps, taps, (size_t)r->n_taps * sizeof(float));
    if (cpu->plan->direct) return true;

    partitions_find(taps, n_taps, p, &r->first, &r->end);
    if (r->first == r->end) return true;
    r->spectra = memory_place((size_t)(r->end - r->first) * cpu->fdl.stride);
    if (!r->spectra) return false;
    for (int i = r->first; i < r->end; i++)
        partition_transform_planned(cpu->fft, taps, n_taps, p, i, frames,
                                    r->spectra + (size_t)(i - r->first) * cpu->fdl.stride);
    return true;
}

static int cpu_mask_make(void *state, const struct matrix *matrix, void **impl, char *why, size_t cap)
{
    const struct cpu *cpu = state;
    struct cpu_mask *mask = calloc(1, sizeof *mask);
    float *frames = memory_floats(2 * (size_t)cpu->plan->partition);
    if (!mask || !frames) goto no_memory;
    mask->past_block = -1;
    mask->responses = calloc((size_t)matrix->n_responses + 1, sizeof *mask->responses);
    if (!routing_make(&mask->routing, matrix, cpu->n_out) || !mask->responses) goto no_memory;
    if (!cpu->plan->direct) {
        mask->past = memory_place((size_t)cpu->n_out * cpu->plan->partition);
        if (!mask->past) goto no_memory;
    }
    for (int r = 0; r < matrix->n_responses; r++) {
        mask->n_responses = r + 1;
        if (!cpu_response_make(cpu, &mask->responses[r], matrix->taps[r], matrix->n_taps[r], frames)) goto no_memory;
    }
    if (cpu->tail) {
        mask->tail = tail_mask_make(cpu->tail, cpu->plan, matrix, &mask->routing);
        if (!mask->tail) goto no_memory;
    }
    free(frames);
    *impl = mask;
    return HC_OK;
no_memory:
    free(frames);
    cpu_mask_free(state, mask);
    return fail(HC_ENOMEM, why, cap, "cpu: no memory for a mask of %d response%s", matrix->n_responses,
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

/* sums[t] += partitions [p0, p1) of one cell, for n_t blocks from the current one on, over some bins. The loop walks
 * the FDL in runs that do not wrap around its end. Blocks go FFT_BLOCKS at a time if all of them are in one run. */
static void add_cell(const struct cpu *cpu, float *sums, const struct cpu_response *r, int in, int n_t, int p0, int p1,
                     size_t bin, int n_bins)
{
    const int n_slots = cpu->fdl.n_slots;
    const size_t stride = cpu->fdl.stride;
    for (int t = 0; t < n_t;) {
        int together = n_t - t >= FFT_BLOCKS ? FFT_BLOCKS : 1;
        int newest = fdl_slot_of(&cpu->fdl, t);
        if (newest + together > n_slots) together = 1;
        for (int p = p0; p < p1;) {
            int slot = newest >= p ? newest - p : newest - p + n_slots;
            const float *h = r->spectra + (size_t)(p - r->first) * stride + 2 * bin;
            if (together > 1 && slot + together > n_slots) {
                /* For this one partition, these blocks lie on both sides of the FDL's end. */
                for (int j = 0; j < together; j++)
                    cpu->simd->cmac(sums + (size_t)(t + j) * stride + 2 * bin,
                                    fdl_slot(&cpu->fdl, in, (slot + j) % n_slots) + 2 * bin, h, stride, 1, 1, n_bins);
                p++;
                continue;
            }
            int run = slot + 1 < p1 - p ? slot + 1 : p1 - p;
            cpu->simd->cmac(sums + (size_t)t * stride + 2 * bin, fdl_slot(&cpu->fdl, in, slot) + 2 * bin, h, stride,
                            run, together, n_bins);
            p += run;
        }
        t += together;
    }
}

/* sums[0..n_t) = an output's partitions [from, to) for n_t blocks, the first of them the current one. */
static void sum_partitions(struct cpu *cpu, const struct cpu_mask *mask, int out, int n_t, int from, int to)
{
    int bins = (int)((cpu->fdl.stride - SIMD_PAD) / 2);
    int rows = 2 * cpu->plan->n_partitions + n_t;
    int chunk = L2_BYTES / (8 * rows) / 64 * 64;
    if (chunk < 64) chunk = 64;
    memset(cpu->sums, 0, (size_t)n_t * cpu->fdl.stride * sizeof(float));
    for (int bin = 0; bin < bins; bin += chunk)
        for (int c = mask->routing.first_cell[out]; c < mask->routing.first_cell[out + 1]; c++) {
            const struct cell *cell = &mask->routing.cells[c];
            const struct cpu_response *r = &mask->responses[cell->response];
            int p0 = r->first > from ? r->first : from, p1 = r->end < to ? r->end : to;
            add_cell(cpu, cpu->sums, r, cell->in, n_t, p0, p1, (size_t)bin, bins - bin < chunk ? bins - bin : chunk);
        }
}

/* The second half of the transform back of sums[t]: P frames of linear convolution (overlap-save). */
static const float *block_of_sums(struct cpu *cpu, int t)
{
    planned_fft_inverse(cpu->fft, cpu->sums + (size_t)t * cpu->fdl.stride, cpu->frames);
    return cpu->frames + cpu->plan->partition;
}

/* ---- process ----------------------------------------------------------------------------------------------------- */

static float *cpu_history(const struct cpu *cpu, int in)
{
    return cpu->history + (size_t)in * cpu->history_size;
}

/* Transforms n_t whole blocks of every input into the FDL: the first together with the history's block, the others
 * straight from the input, where a block follows the one before it. */
static void transform_blocks(struct cpu *cpu, const struct rows *rows, int at, int n_t)
{
    int p = cpu->plan->partition;
    for (int in = 0; in < cpu->n_in; in++) {
        const float *x = rows->in[in] + at;
        float *h = cpu_history(cpu, in);
        memcpy(h + p, x, (size_t)p * sizeof(float));
        planned_fft_forward(cpu->fft, h, fdl_spectrum(&cpu->fdl, in, 0));
        for (int t = 1; t < n_t; t++) {
            const float *two = planned_fft_aligned(x + (size_t)(t - 1) * p, 2 * (size_t)p, cpu->frames);
            planned_fft_forward(cpu->fft, two, fdl_spectrum(&cpu->fdl, in, t));
        }
        memcpy(h, x + (size_t)(n_t - 1) * p, (size_t)p * sizeof(float));
    }
}

static void convolve_blocks(struct cpu *cpu, const struct cpu_mask *mask, float *const *out, int at, int n_t)
{
    int p = cpu->plan->partition;
    for (int o = 0; o < cpu->n_out; o++) {
        float *y = out[o] + at;
        if (mask->routing.first_cell[o] == mask->routing.first_cell[o + 1]) {
            memset(y, 0, (size_t)n_t * p * sizeof(float));
            continue;
        }
        sum_partitions(cpu, mask, o, n_t, 0, cpu->plan->n_partitions);
        for (int t = 0; t < n_t; t++) memcpy(y + (size_t)t * p, block_of_sums(cpu, t), (size_t)p * sizeof(float));
    }
}

/* Computes the output that past blocks add to the current one, unless the mask has it already. */
static void make_past(struct cpu *cpu, struct cpu_mask *mask)
{
    if (cpu->plan->direct || mask->past_block == cpu->block) return;
    int p = cpu->plan->partition;
    for (int o = 0; o < cpu->n_out; o++) {
        sum_partitions(cpu, mask, o, 1, 1, cpu->plan->n_partitions);
        memcpy(mask->past + (size_t)o * p, block_of_sums(cpu, 0), (size_t)p * sizeof(float));
    }
    mask->past_block = cpu->block;
}

/* For partition 0 of n frames: is FIR less work than a transform of the block so far? */
static bool is_fir_faster(const struct cpu *cpu, const struct cpu_mask *mask, int n)
{
    if (cpu->plan->direct) return true;
    double p = cpu->plan->partition, transform = cpu_costs.fft_ns * 2 * p * 16;
    return cpu_costs.mac_ns * n * p * mask->routing.n_cells <
           transform * (cpu->n_in + cpu->n_out) + cpu_costs.cmac_ns * p * mask->routing.n_cells;
}

/* Convolves n frames of the current block, from pos on. Their input is in the history already. */
static void convolve_incomplete(struct cpu *cpu, struct cpu_mask *mask, float *const *out, int at, int n)
{
    int p = cpu->plan->partition;
    bool fir = is_fir_faster(cpu, mask, n);
    make_past(cpu, mask);
    if (!fir)
        for (int in = 0; in < cpu->n_in; in++) {
            float *h = cpu_history(cpu, in);
            memset(h + p + cpu->pos + n, 0, (size_t)(p - cpu->pos - n) * sizeof(float));
            planned_fft_forward(cpu->fft, h, fdl_spectrum(&cpu->fdl, in, 0));
        }
    for (int o = 0; o < cpu->n_out; o++) {
        float *y = out[o] + at;
        if (cpu->plan->direct)
            memset(y, 0, (size_t)n * sizeof(float));
        else
            memcpy(y, mask->past + (size_t)o * p + cpu->pos, (size_t)n * sizeof(float));
        if (!fir) {
            sum_partitions(cpu, mask, o, 1, 0, 1);
            const float *sum = block_of_sums(cpu, 0) + cpu->pos;
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
    for (int in = 0; in < cpu->n_in; in++) {
        float *h = cpu_history(cpu, in);
        if (!cpu->plan->direct) planned_fft_forward(cpu->fft, h, fdl_spectrum(&cpu->fdl, in, 0));
        memcpy(h, h + p, p * sizeof(float));
    }
    cpu->pos = 0;
    cpu->block++;
    cpu->fdl.at = fdl_slot_of(&cpu->fdl, 1);
}

/* Adds n frames of the tail levels, hop by hop, to the output of the head. */
static void add_tail(struct cpu *cpu, const struct rows *rows, struct cpu_mask *const *masks, float *const *const *outs,
                     int n_masks, int at, int n)
{
    for (int end = at + n; at < end; at += n) {
        n = end - at < tail_left(cpu->tail) ? end - at : tail_left(cpu->tail);
        tail_begin(cpu->tail);
        for (int in = 0; in < cpu->n_in; in++) tail_push(cpu->tail, in, rows->in[in] + at, n);
        for (int m = 0; m < n_masks; m++)
            for (int o = 0; o < cpu->n_out && masks[m]; o++) tail_add(cpu->tail, masks[m]->tail, o, outs[m][o] + at, n);
        tail_advance(cpu->tail, n);
    }
}

static int cpu_play(void *state, const struct rows *rows, int n, const struct fade *fade, char *why, size_t cap)
{
    (void)why;
    (void)cap;
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
            transform_blocks(cpu, rows, at, n_t);
        else
            append_history(cpu, rows, at, frames);
        for (int m = 0; m < n_masks; m++) {
            if (!masks[m])
                outputs_silence(outs[m], cpu->n_out, at, frames);
            else if (n_t > 0)
                convolve_blocks(cpu, masks[m], outs[m], at, n_t);
            else
                convolve_incomplete(cpu, masks[m], outs[m], at, frames);
        }
        if (cpu->tail) add_tail(cpu, rows, masks, outs, n_masks, at, frames);
        at += frames;
        if (n_t > 0) {
            cpu->fdl.at = fdl_slot_of(&cpu->fdl, n_t);
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
    .render = &render_cpu,
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
