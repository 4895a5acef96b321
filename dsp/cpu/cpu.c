/* cpu - the CPU backend: runs in place on the caller's thread.
 *
 * Each input keeps the block before and the block that is filling up:
 *
 *   history   [ previous block, P ][ current block, P ]           first P taps: time domain, from here
 *                                     ^ pos                       transform of all 2P when it is full -> spectra
 *   spectra   ring of n_slots transforms of 2P, newest at `head`; P+1 bins, interleaved, rows `stride` floats apart
 *
 * A call is cut at block edges. Whole blocks go through the partitions, several at once so that each spectrum of the
 * mask is loaded once for SIMD_BLOCKS of them. A part of a block is the far sum of its block (partitions 1...: the
 * mask's `tail`, made once a block) plus the first P taps, by FIR or by one transform of what is there, whichever is
 * less work. A direct plan is the same with P >= near_taps: no tail and no transform. Tail levels (tail_levels.h) are
 * added to either, and their work is done at the end of each hop.
 */
#include "dsp/costs/cpu_costs.h"
#include "dsp/engine/backend.h"

#include "fft.h"
#include "long_fft.h"
#include "memory.h"
#include "processors.h"
#include "simd.h"
#include "tail_levels.h"

#include <math.h>
#include <stdint.h>
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
    struct fft *fft;     /* NULL for direct */
    struct tail *levels; /* NULL: the plan has no far levels */
    int n_in, n_out;
    int pos;       /* frames of the current block so far */
    int64_t block; /* index of the current block */
    int head;      /* slot of the current block's spectrum */
    int n_slots;
    size_t stride;       /* floats of a spectrum's row */
    size_t history_size; /* floats of an input's history */
    float *history;      /* [n_in][history_size] */
    float *spectra;      /* [n_in][n_slots][stride] */
    float *sums;         /* [BATCH][stride]: an output's spectra before they are transformed back */
    float *frames;       /* [2P] */
    float *faded;        /* [n_out][plan.block]: output of the mask that a fade leaves */
    float **faded_rows;  /* [n_out]: its channels */
};

struct response {
    int n_near;     /* taps in `near` */
    int first, end; /* partitions with something in them: [first, end) */
    float *near;    /* [n_near]: the first P taps */
    float *spectra; /* [end - first][stride], scaled by 1 / 2P */
};

struct cpu_mask {
    int n_responses, n_cells;
    struct response *responses;
    struct cell *cells; /* sorted by out */
    int *first_cell;    /* [n_out + 1]: cells of an output */
    float *tail;        /* [n_out][P]: partitions 1... of block tail_block; audio thread only */
    int64_t tail_block;
    struct tail_mask *levels; /* NULL: the plan has no far levels */
};

/* Measured on one core of an EPYC (Zen 4), FFTW 3.3.10; only their ratios matter. */
static const struct plan_costs costs = {
    .min_partition = 64,
    .max_partition = 8192,
#ifdef HC_WITH_FFTW
    .min_far = LONG_MIN,
    .max_far = 32768,
#endif
    .mac_ns = 0.03,
    .cmac_ns = 0.25,
#ifdef HC_WITH_FFTW
    .fft_ns = 0.09,
#endif
    .far_fft_ns = 0.042,
    .far_cmac_ns = 0.4,
    .launch_ns = 50,
    .slice_ns = 60,
    .call_ns = 100,
    .file_block = 65536,
};

static size_t round_up(size_t n, size_t unit)
{
    return (n + unit - 1) / unit * unit;
}

static int describe(int device, char *text, size_t cap)
{
    if (device != 0) return HC_EINVAL;
    const char *fft = fft_library() ? fft_library() : "no-fft";
    const char *version = fft + strcspn(fft, "-") + 1;
    snprintf(text, cap, "%s, %.*s %.*s", simd_choose()->name, (int)strcspn(fft, "-"), fft, (int)strcspn(version, "-"),
             version);
    return HC_OK;
}

static int measure(int device, struct plan_costs *measured, char *why, size_t cap)
{
    (void)device;
    int error = cpu_costs_measure(measured);
    return error ? fail(error, why, cap, "cpu: no memory to measure in") : HC_OK;
}

static void cpu_close(void *state)
{
    struct cpu *cpu = state;
    if (!cpu) return;
    fft_close(cpu->fft);
    tail_close(cpu->levels);
    memory_place_free(cpu->history);
    memory_place_free(cpu->spectra);
    memory_place_free(cpu->sums);
    memory_place_free(cpu->frames);
    memory_place_free(cpu->faded);
    free(cpu->faded_rows);
    free(cpu);
}

/* Threads for the far levels: as many as keep each of them half idle, as far as there are processors. With one thread 8
 * x 8 of 1 s at 64 frames takes 20 us of the audio thread where it took 75, and of the process no more than before. An
 * engine of so little work that a host may run a hundred of them gets none: to save 8 us of 1333 is not worth a thread
 * each. */
static int far_threads(const hc_config *config, const struct plan *plan)
{
    const double little = 0.005, busy = 0.5;
    int n_channels = config->n_in > config->n_out ? config->n_in : config->n_out;
    struct plan_shape shape = {plan->max_taps, plan->block, config->n_in, config->n_out,
                               config->n_routes ? config->n_routes : n_channels};
    double load = 1e-9 * config->rate * plan_cost_ns(plan, &costs, &shape);
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
    /* Rows a multiple of 4 KiB apart would all fall into the same few sets of the cache. */
    cpu->stride = round_up(2 * (p + 1), SIMD_PAD) + SIMD_PAD;
    cpu->n_slots = plan->n_partitions + BATCH;
    cpu->history = memory_place((size_t)cpu->n_in * cpu->history_size);
    cpu->faded = memory_place((size_t)cpu->n_out * plan->block);
    cpu->faded_rows = calloc((size_t)cpu->n_out, sizeof *cpu->faded_rows);
    if (!cpu->history || !cpu->faded || !cpu->faded_rows) goto no_memory;
    for (int o = 0; o < cpu->n_out; o++) cpu->faded_rows[o] = cpu->faded + (size_t)o * plan->block;
    if (plan->n_far > 0) {
        cpu->levels = tail_open(plan, cpu->n_in, cpu->n_out, config->n_routes, far_threads(config, plan), cpu->simd);
        if (!cpu->levels) goto no_memory;
    }
    if (!plan->direct) {
        cpu->fft = fft_open(2 * plan->partition, config->block != 0);
        cpu->spectra = memory_place((size_t)cpu->n_in * cpu->n_slots * cpu->stride);
        cpu->sums = memory_place(BATCH * cpu->stride);
        cpu->frames = memory_place(2 * p);
        if (!cpu->fft || !cpu->spectra || !cpu->sums || !cpu->frames) goto no_memory;
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
    if (cpu->spectra) memset(cpu->spectra, 0, (size_t)cpu->n_in * cpu->n_slots * cpu->stride * sizeof(float));
    if (cpu->levels) tail_reset(cpu->levels);
    cpu->pos = 0;
    /* The block index goes on, past every tail that a mask may still hold. */
    cpu->block++;
    return HC_OK;
}

static void cpu_wait_set(void *state, bool waits)
{
    struct cpu *cpu = state;
    if (cpu->levels) tail_wait(cpu->levels, waits);
}

/* ---- masks ---------------------------------------------------------------------------------------------------------
 */

static void cpu_mask_free(void *state, void *impl)
{
    (void)state;
    struct cpu_mask *mask = impl;
    if (!mask) return;
    for (int r = 0; r < mask->n_responses; r++) {
        memory_place_free(mask->responses[r].near);
        memory_place_free(mask->responses[r].spectra);
    }
    tail_mask_free(mask->levels);
    free(mask->responses);
    free(mask->cells);
    free(mask->first_cell);
    memory_place_free(mask->tail);
    free(mask);
}

static bool all_zero(const float *taps, int n)
{
    for (int k = 0; k < n; k++)
        if (taps[k] != 0) return false;
    return true;
}

static int response_make(const struct cpu *cpu, struct response *r, const float *taps, int n_taps, float *frames)
{
    int p = cpu->plan->partition;
    if (n_taps > cpu->plan->near_taps) n_taps = cpu->plan->near_taps;
    r->n_near = n_taps < p ? n_taps : p;
    r->near = memory_place((size_t)r->n_near);
    if (!r->near) return HC_ENOMEM;
    memcpy(r->near, taps, (size_t)r->n_near * sizeof(float));
    if (cpu->plan->direct) return HC_OK;

    r->end = (n_taps + p - 1) / p;
    while (r->end > 0 &&
           all_zero(taps + (r->end - 1) * p, (r->end == (n_taps + p - 1) / p ? n_taps - (r->end - 1) * p : p)))
        r->end--;
    while (r->first < r->end && all_zero(taps + r->first * p, p)) r->first++;
    if (r->first == r->end) return HC_OK;
    r->spectra = memory_place((size_t)(r->end - r->first) * cpu->stride);
    if (!r->spectra) return HC_ENOMEM;
    float scale = 1.0f / (float)(2 * p);
    for (int i = r->first; i < r->end; i++) {
        int n = n_taps - i * p < p ? n_taps - i * p : p;
        memset(frames, 0, (size_t)(2 * p) * sizeof(float));
        for (int k = 0; k < n; k++) frames[k] = taps[i * p + k] * scale;
        fft_forward(cpu->fft, frames, r->spectra + (size_t)(i - r->first) * cpu->stride);
    }
    return HC_OK;
}

static int cpu_mask_make(void *state, const struct matrix *matrix, void **impl, char *why, size_t cap)
{
    const struct cpu *cpu = state;
    struct cpu_mask *mask = calloc(1, sizeof *mask);
    float *frames = memory_floats(2 * (size_t)cpu->plan->partition);
    if (!mask || !frames) goto no_memory;
    mask->tail_block = -1;
    mask->responses = calloc((size_t)matrix->n_responses + 1, sizeof *mask->responses);
    mask->cells = calloc((size_t)matrix->n_cells + 1, sizeof *mask->cells);
    mask->first_cell = calloc((size_t)cpu->n_out + 1, sizeof *mask->first_cell);
    if (!mask->responses || !mask->cells || !mask->first_cell) goto no_memory;
    if (!cpu->plan->direct) {
        mask->tail = memory_place((size_t)cpu->n_out * cpu->plan->partition);
        if (!mask->tail) goto no_memory;
    }
    memcpy(mask->cells, matrix->cells, (size_t)matrix->n_cells * sizeof *mask->cells);
    mask->n_cells = matrix->n_cells;
    for (int c = 0; c < mask->n_cells; c++) mask->first_cell[mask->cells[c].out + 1]++;
    for (int out = 0; out < cpu->n_out; out++) mask->first_cell[out + 1] += mask->first_cell[out];
    for (int r = 0; r < matrix->n_responses; r++) {
        mask->n_responses = r + 1;
        if (response_make(cpu, &mask->responses[r], matrix->taps[r], matrix->n_taps[r], frames)) goto no_memory;
    }
    if (cpu->levels) {
        mask->levels = tail_mask_make(cpu->levels, cpu->plan, matrix, mask->cells, mask->first_cell);
        if (!mask->levels) goto no_memory;
    }
    free(frames);
    *impl = mask;
    return HC_OK;
no_memory:
    free(frames);
    cpu_mask_free(state, mask);
    return fail(HC_ENOMEM, why, cap, "cpu: no memory for a mask of %d responses", matrix->n_responses);
}

static void cpu_mask_warm(void *state, void *impl)
{
    struct cpu *cpu = state;
    struct cpu_mask *mask = impl;
    if (cpu->levels) tail_warm(cpu->levels, mask->levels);
}

static bool cpu_mask_ready(void *state, const void *impl)
{
    const struct cpu *cpu = state;
    const struct cpu_mask *mask = impl;
    return !cpu->levels || tail_ready(cpu->levels, mask->levels);
}

static bool cpu_mask_idle(void *state, const void *impl)
{
    const struct cpu *cpu = state;
    const struct cpu_mask *mask = impl;
    return !cpu->levels || tail_idle(cpu->levels, mask->levels);
}

static void cpu_mask_rest(void *state, void *impl)
{
    struct cpu *cpu = state;
    struct cpu_mask *mask = impl;
    if (cpu->levels) tail_rest(cpu->levels, mask->levels);
}

/* ---- partitions ----------------------------------------------------------------------------------------------------
 */

static float *spectrum(const struct cpu *cpu, int in, int slot)
{
    return cpu->spectra + ((size_t)in * cpu->n_slots + slot) * cpu->stride;
}

static int slot_behind(const struct cpu *cpu, int slot, int p)
{
    int s = (slot - p) % cpu->n_slots;
    return s < 0 ? s + cpu->n_slots : s;
}

/* sums[t] += partitions [p0, p1) of one cell for n_t blocks, the first of them in slot `first`, over some bins. The
 * ring of slots is walked in runs that do not wrap; blocks go SIMD_BLOCKS at a time where all of them are in one run.
 */
static void add_cell(const struct cpu *cpu, float *sums, const struct response *r, int in, int first, int n_t, int p0,
                     int p1, size_t bin, int n_bins)
{
    for (int t = 0; t < n_t;) {
        int together = n_t - t >= SIMD_BLOCKS ? SIMD_BLOCKS : 1;
        int newest = (first + t) % cpu->n_slots;
        if (newest + together > cpu->n_slots) together = 1;
        for (int p = p0; p < p1;) {
            int slot = slot_behind(cpu, newest, p);
            if (together > 1 && slot + together > cpu->n_slots) {
                /* These blocks lie on both sides of the ring's end for this one partition. */
                for (int j = 0; j < together; j++)
                    cpu->simd->cmac(sums + (size_t)(t + j) * cpu->stride + 2 * bin,
                                    spectrum(cpu, in, (slot + j) % cpu->n_slots) + 2 * bin,
                                    r->spectra + (size_t)(p - r->first) * cpu->stride + 2 * bin, cpu->stride, 1, 1,
                                    n_bins);
                p++;
                continue;
            }
            int run = slot + 1 < p1 - p ? slot + 1 : p1 - p;
            cpu->simd->cmac(sums + (size_t)t * cpu->stride + 2 * bin, spectrum(cpu, in, slot) + 2 * bin,
                            r->spectra + (size_t)(p - r->first) * cpu->stride + 2 * bin, cpu->stride, run, together,
                            n_bins);
            p += run;
        }
        t += together;
    }
}

/* sums[0..n_t) = an output's partitions [from, to) for n_t blocks from slot `first` on. */
static void sum_partitions(struct cpu *cpu, const struct cpu_mask *mask, int out, int first, int n_t, int from, int to)
{
    int bins = (int)((cpu->stride - SIMD_PAD) / 2);
    int rows = 2 * cpu->plan->n_partitions + n_t;
    int chunk = L2_BYTES / (8 * rows) / 64 * 64;
    if (chunk < 64) chunk = 64;
    memset(cpu->sums, 0, (size_t)n_t * cpu->stride * sizeof(float));
    for (int bin = 0; bin < bins; bin += chunk)
        for (int c = mask->first_cell[out]; c < mask->first_cell[out + 1]; c++) {
            const struct response *r = &mask->responses[mask->cells[c].response];
            int p0 = r->first > from ? r->first : from, p1 = r->end < to ? r->end : to;
            add_cell(cpu, cpu->sums, r, mask->cells[c].in, first, n_t, p0, p1, (size_t)bin,
                     bins - bin < chunk ? bins - bin : chunk);
        }
}

/* The second half of the transform back of sums[t]: P frames of linear convolution (overlap-save). */
static const float *block_of_sums(struct cpu *cpu, int t)
{
    fft_inverse(cpu->fft, cpu->sums + (size_t)t * cpu->stride, cpu->frames);
    return cpu->frames + cpu->plan->partition;
}

/* ---- process -------------------------------------------------------------------------------------------------------
 */

static float *history(const struct cpu *cpu, int in)
{
    return cpu->history + (size_t)in * cpu->history_size;
}

/* n_t whole blocks of every input into the spectra: the first is transformed together with the history's block, the
 * others straight from the input, where a block and the one before it lie side by side. */
static void transform_blocks(struct cpu *cpu, const struct rows *rows, int at, int n_t)
{
    int p = cpu->plan->partition;
    for (int in = 0; in < cpu->n_in; in++) {
        const float *x = rows->in[in] + at;
        float *h = history(cpu, in);
        memcpy(h + p, x, (size_t)p * sizeof(float));
        fft_forward(cpu->fft, h, spectrum(cpu, in, cpu->head));
        for (int t = 1; t < n_t; t++) {
            const float *two = x + (size_t)(t - 1) * p;
            if ((uintptr_t)two % 64) { /* FFTW's plan expects alignment; an odd start of the whole blocks breaks it */
                memcpy(cpu->frames, two, 2 * (size_t)p * sizeof(float));
                two = cpu->frames;
            }
            fft_forward(cpu->fft, two, spectrum(cpu, in, (cpu->head + t) % cpu->n_slots));
        }
        memcpy(h, x + (size_t)(n_t - 1) * p, (size_t)p * sizeof(float));
    }
}

static void convolve_blocks(struct cpu *cpu, const struct cpu_mask *mask, float *const *out, int at, int n_t)
{
    int p = cpu->plan->partition;
    for (int o = 0; o < cpu->n_out; o++) {
        float *y = out[o] + at;
        if (mask->first_cell[o] == mask->first_cell[o + 1]) {
            memset(y, 0, (size_t)n_t * p * sizeof(float));
            continue;
        }
        sum_partitions(cpu, mask, o, cpu->head, n_t, 0, cpu->plan->n_partitions);
        for (int t = 0; t < n_t; t++) memcpy(y + (size_t)t * p, block_of_sums(cpu, t), (size_t)p * sizeof(float));
    }
}

/* The far part of the current block, for a mask that does not have it yet. */
static void make_tail(struct cpu *cpu, struct cpu_mask *mask)
{
    if (cpu->plan->direct || mask->tail_block == cpu->block) return;
    int p = cpu->plan->partition;
    for (int o = 0; o < cpu->n_out; o++) {
        sum_partitions(cpu, mask, o, cpu->head, 1, 1, cpu->plan->n_partitions);
        memcpy(mask->tail + (size_t)o * p, block_of_sums(cpu, 0), (size_t)p * sizeof(float));
    }
    mask->tail_block = cpu->block;
}

/* Is the near part of n frames less work by FIR than by one transform of the block so far? */
static bool near_by_fir(const struct cpu *cpu, const struct cpu_mask *mask, int n)
{
    if (cpu->plan->direct) return true;
    double p = cpu->plan->partition, transform = costs.fft_ns * 2 * p * 16;
    return costs.mac_ns * n * p * mask->n_cells <
           transform * (cpu->n_in + cpu->n_out) + costs.cmac_ns * p * mask->n_cells;
}

/* n frames inside the current block, at pos of it; they are in the history already. */
static void convolve_part(struct cpu *cpu, struct cpu_mask *mask, float *const *out, int at, int n)
{
    int p = cpu->plan->partition;
    bool fir = near_by_fir(cpu, mask, n);
    make_tail(cpu, mask);
    if (!fir)
        for (int in = 0; in < cpu->n_in; in++) {
            float *h = history(cpu, in);
            memset(h + p + cpu->pos + n, 0, (size_t)(p - cpu->pos - n) * sizeof(float));
            fft_forward(cpu->fft, h, spectrum(cpu, in, cpu->head));
        }
    for (int o = 0; o < cpu->n_out; o++) {
        float *y = out[o] + at;
        if (cpu->plan->direct)
            memset(y, 0, (size_t)n * sizeof(float));
        else
            memcpy(y, mask->tail + (size_t)o * p + cpu->pos, (size_t)n * sizeof(float));
        if (!fir) {
            sum_partitions(cpu, mask, o, cpu->head, 1, 0, 1);
            const float *near = block_of_sums(cpu, 0) + cpu->pos;
            for (int i = 0; i < n; i++) y[i] += near[i];
            continue;
        }
        for (int c = mask->first_cell[o]; c < mask->first_cell[o + 1]; c++) {
            const struct response *r = &mask->responses[mask->cells[c].response];
            cpu->simd->fir(y, history(cpu, mask->cells[c].in) + p + cpu->pos, r->near, n, r->n_near);
        }
    }
}

static void append_part(struct cpu *cpu, const struct rows *rows, int at, int n)
{
    for (int in = 0; in < cpu->n_in; in++)
        memcpy(history(cpu, in) + cpu->plan->partition + cpu->pos, rows->in[in] + at, (size_t)n * sizeof(float));
}

static void next_block(struct cpu *cpu)
{
    size_t p = (size_t)cpu->plan->partition;
    for (int in = 0; in < cpu->n_in; in++) {
        float *h = history(cpu, in);
        if (!cpu->plan->direct) fft_forward(cpu->fft, h, spectrum(cpu, in, cpu->head));
        memcpy(h, h + p, p * sizeof(float));
    }
    cpu->pos = 0;
    cpu->block++;
    cpu->head = (cpu->head + 1) % cpu->n_slots;
}

static void silence(const struct cpu *cpu, float *const *out, int at, int n)
{
    for (int o = 0; o < cpu->n_out; o++) memset(out[o] + at, 0, (size_t)n * sizeof(float));
}

static void blend(const struct cpu *cpu, float *const *out, int n, const struct fade *fade)
{
    for (int i = 0; i < n; i++) {
        float gain = fade_gain(fade->pos + i, fade->len);
        for (int o = 0; o < cpu->n_out; o++) {
            float from = cpu->faded_rows[o][i];
            out[o][i] = from + gain * (out[o][i] - from);
        }
    }
}

/* n frames of the far levels join what the near level has made of them: in ticks. */
static void add_far(struct cpu *cpu, const struct rows *rows, struct cpu_mask *const *masks, float *const *const *outs,
                    int n_masks, int at, int n)
{
    for (int end = at + n; at < end; at += n) {
        n = end - at < tail_left(cpu->levels) ? end - at : tail_left(cpu->levels);
        tail_begin(cpu->levels);
        for (int in = 0; in < cpu->n_in; in++) tail_push(cpu->levels, in, rows->in[in] + at, n);
        for (int m = 0; m < n_masks; m++)
            for (int o = 0; o < cpu->n_out && masks[m]; o++)
                tail_add(cpu->levels, masks[m]->levels, o, outs[m][o] + at, n);
        tail_advance(cpu->levels, n);
    }
}

static int cpu_play(void *state, const struct rows *rows, int n, const struct fade *fade, char *why, size_t cap)
{
    (void)why;
    (void)cap;
    struct cpu *cpu = state;
    int p = cpu->plan->partition;
    struct cpu_mask *masks[2] = {fade->to, fade->len > 0 ? fade->from : NULL};
    float *const *outs[2] = {rows->out, fade->apart ? fade->apart->rows.out : cpu->faded_rows};
    int n_masks = fade->len > 0 ? 2 : 1;

    for (int at = 0; at < n;) {
        int n_t = cpu->plan->direct || cpu->pos > 0 ? 0 : (n - at) / p;
        if (n_t > BATCH) n_t = BATCH;
        int part = n_t > 0 ? n_t * p : n - at < p - cpu->pos ? n - at : p - cpu->pos;
        if (n_t > 0)
            transform_blocks(cpu, rows, at, n_t);
        else
            append_part(cpu, rows, at, part);
        for (int m = 0; m < n_masks; m++) {
            if (!masks[m])
                silence(cpu, outs[m], at, part);
            else if (n_t > 0)
                convolve_blocks(cpu, masks[m], outs[m], at, n_t);
            else
                convolve_part(cpu, masks[m], outs[m], at, part);
        }
        if (cpu->levels) add_far(cpu, rows, masks, outs, n_masks, at, part);
        at += part;
        if (n_t > 0) {
            cpu->head = (cpu->head + n_t) % cpu->n_slots;
            cpu->block += n_t;
        } else {
            cpu->pos += part;
            if (cpu->pos == p) next_block(cpu);
        }
    }
    if (n_masks == 2 && !fade->apart) blend(cpu, rows->out, n, fade);
    return HC_OK;
}

const struct backend backend_cpu = {
    .name = "cpu",
    .files = &backend_cpu_files,
    .in_place = true,
    .costs = &costs,
    .describe = describe,
    .measure = measure,
    .open = cpu_open,
    .close = cpu_close,
    .mask_make = cpu_mask_make,
    .mask_free = cpu_mask_free,
    .mask_warm = cpu_mask_warm,
    .mask_ready = cpu_mask_ready,
    .mask_rest = cpu_mask_rest,
    .mask_idle = cpu_mask_idle,
    .swap_frames = tail_swap_frames,
    .play = cpu_play,
    .wait_set = cpu_wait_set,
    .reset = cpu_reset,
};
