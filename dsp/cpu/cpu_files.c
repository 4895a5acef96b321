/* cpu_files - the CPU backend for files: nobody waits for a block, so the transforms are large, many blocks go through
 * them together, and all processors work on them.
 *
 *   a call     [ block 0, P ][ block 1 ] ... [ block T-1 ]           T transforms of 2P an input
 *   spectra    ring of n_slots transforms, newest at `head`; P+1 bins, interleaved re im, in chunks of CHUNK floats
 *
 * Three steps, each a list of pieces that the team shares out: transforms of (input, block); products of chunks of
 * bins; transforms back of (output, block). The products are the work of a matrix. A mask's spectra lie chunk by chunk,
 * so that a piece reads them in one line through memory and uses what it read for all T blocks:
 *
 *   mask     [chunk 0: response 0 partition 0, 1 ...; response 1 ...][chunk 1: ...] ...
 *
 * What a piece does depends on the call alone, never on the thread: any number of threads gives the same output. A call
 * that is no whole number of blocks transforms what there is of its last block with zeros behind it, and does so again
 * when the rest comes: right, but no fast way to go in small steps. A direct plan runs in the time domain, in slices.
 */
#include "dsp/engine/backend.h"
#include "fft.h"
#include "simd.h"
#include "team.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum {
    CHUNK = 256,    /* floats of a row that lie together: 1 KiB; 16 inputs of 4 blocks stay in the second-level cache */
    PIECE = 8,      /* chunks a piece of the products, so that taking a piece costs nothing beside it */
    MOST_ROWS = 64, /* summed in registers before they join the total; keeps the rounding of long sums small */
    PIECES_A_THREAD = 4, /* of the products, at least: threads that are late find some left */
    SLICE = 4096,        /* frames of a direct plan's piece */
};

struct files {
    const struct plan *plan;
    const struct simd *simd;
    struct team *team;
    struct fft *fft; /* NULL for direct */
    int n_in, n_out;
    int most_blocks; /* T: whole blocks a step, a multiple of SIMD_BLOCKS */
    int pos;         /* frames of the current block so far */
    int head;        /* slot of the current block's spectrum */
    int n_slots;
    int n_chunks;  /* of a spectrum */
    size_t stride; /* floats of a spectrum's row */
    size_t past;   /* frames of history kept in front of a call: P, for direct all of max_taps - 1, rounded up */
    size_t history_size;
    float *history;     /* [n_in][history_size]: past, then the current block (direct: the call) */
    float *spectra;     /* [n_in][n_slots][stride] */
    float *sums;        /* [n_out][most_blocks][stride] */
    float *frames;      /* [threads][2P] */
    float *faded;       /* [n_out][plan.block]: output of the mask that a fade leaves */
    float **faded_rows; /* [n_out]: its channels */
    int64_t block;      /* index of the current block */
    int64_t *loud;      /* [n_in][2]: first and last block whose transform is not 0; all between count as such */
    bool *is_loud;      /* [n_in][most_blocks]: of the step */
};

struct response {
    int first, end; /* partitions with something in them: [first, end) */
    int row;        /* of its first partition in a chunk of the mask */
    int n_taps;     /* direct */
    float *taps;    /* [n_taps]; direct */
};

struct files_mask {
    int n_responses, n_cells, n_rows;
    struct response *responses;
    struct cell *cells; /* sorted by out */
    int *first_cell;    /* [n_out + 1]: cells of an output */
    float *spectra;     /* [n_chunks][n_rows][CHUNK], scaled by 1 / 2P */
};

/* Measured on an EPYC (Zen 4), FFTW 3.3.10 with its wisdom; only their ratios matter. */
static const struct plan_costs costs = {
    .min_partition = 64,
    .max_partition = 65536,
    .mac_ns = 0.03,
    .cmac_ns = 0.12,
#ifdef HC_WITH_FFTW
    .fft_ns = 0.07,
#endif
    .launch_ns = 500,
    .file_block = 262144,
    .file_parts = SIMD_BLOCKS,
};

static void *aligned_zeros(size_t bytes)
{
    void *p = NULL;
    bytes = (bytes + 63) / 64 * 64;
    if (bytes == 0 || posix_memalign(&p, 64, bytes) != 0) return NULL;
    return memset(p, 0, bytes);
}

static size_t round_up(size_t n, size_t unit)
{
    return (n + unit - 1) / unit * unit;
}

static int files_describe(int device, char *text, size_t cap)
{
    return backend_cpu.describe(device, text, cap);
}

/* ---- open and close ------------------------------------------------------------------------------------------------
 */

static void files_close(void *state)
{
    struct files *f = state;
    if (!f) return;
    team_close(f->team);
    fft_close(f->fft);
    free(f->history);
    free(f->spectra);
    free(f->sums);
    free(f->frames);
    free(f->faded);
    free(f->faded_rows);
    free(f->loud);
    free(f->is_loud);
    free(f);
}

static void forget_loud(struct files *f)
{
    for (int in = 0; in < f->n_in && f->loud; in++) f->loud[2 * in] = f->loud[2 * in + 1] = INT64_MIN / 2;
}

static bool transforms_open(struct files *f)
{
    size_t p = (size_t)f->plan->partition;
    f->n_chunks = (int)((2 * (p + 1) + CHUNK - 1) / CHUNK);
    /* Rows a multiple of 4 KiB apart would all fall into the same few sets of the cache. */
    f->stride = (size_t)f->n_chunks * CHUNK + SIMD_PAD;
    int blocks = f->plan->block / f->plan->partition;
    f->most_blocks = blocks < SIMD_BLOCKS ? SIMD_BLOCKS : blocks / SIMD_BLOCKS * SIMD_BLOCKS;
    f->n_slots = f->plan->n_partitions - 1 + f->most_blocks;
    f->fft = fft_open(2 * f->plan->partition, false);
    f->spectra = aligned_zeros((size_t)f->n_in * f->n_slots * f->stride * sizeof(float));
    f->sums = aligned_zeros((size_t)f->n_out * f->most_blocks * f->stride * sizeof(float));
    f->frames = aligned_zeros((size_t)team_size(f->team) * 2 * p * sizeof(float));
    f->loud = calloc((size_t)f->n_in * 2, sizeof *f->loud);
    f->is_loud = calloc((size_t)f->n_in * f->most_blocks, sizeof *f->is_loud);
    if (!f->fft || !f->spectra || !f->sums || !f->frames || !f->loud || !f->is_loud) return false;
    forget_loud(f);
    return true;
}

static int files_open(const hc_config *config, const struct plan *plan, int device, void **state, char *why, size_t cap)
{
    (void)device;
    struct files *f = calloc(1, sizeof *f);
    if (!f) return fail(HC_ENOMEM, why, cap, "cpu: no memory");
    f->plan = plan;
    f->simd = simd_choose();
    f->n_in = config->n_in;
    f->n_out = config->n_out;
    f->team = team_open(config->n_threads);
    f->past = plan->direct ? round_up((size_t)plan->max_taps - 1, SIMD_PAD) : (size_t)plan->partition;
    f->history_size = f->past + (size_t)(plan->direct ? plan->block : plan->partition) + SIMD_PAD;
    f->history_size = round_up(f->history_size, SIMD_PAD);
    f->history = aligned_zeros((size_t)f->n_in * f->history_size * sizeof(float));
    f->faded = aligned_zeros((size_t)f->n_out * plan->block * sizeof(float));
    f->faded_rows = calloc((size_t)f->n_out, sizeof *f->faded_rows);
    for (int o = 0; o < f->n_out && f->faded && f->faded_rows; o++)
        f->faded_rows[o] = f->faded + (size_t)o * plan->block;
    if (f->team && f->history && f->faded && f->faded_rows && (plan->direct || transforms_open(f))) {
        *state = f;
        return HC_OK;
    }
    files_close(f);
    return fail(HC_ENOMEM, why, cap, "cpu: no memory for %d inputs of %d taps; lower max_taps", config->n_in,
                plan->max_taps);
}

static int files_reset(void *state, char *why, size_t cap)
{
    (void)why;
    (void)cap;
    struct files *f = state;
    memset(f->history, 0, (size_t)f->n_in * f->history_size * sizeof(float));
    /* Of the spectra only those behind `head` are still to be read: many small files reset often. */
    size_t rows = f->spectra ? (size_t)f->plan->n_partitions - 1 : 0;
    for (int in = 0; in < f->n_in && rows > 0; in++)
        memset(f->spectra + (((size_t)in + 1) * (size_t)f->n_slots - rows) * f->stride, 0,
               rows * f->stride * sizeof(float));
    f->head = f->pos = 0;
    f->block = 0;
    forget_loud(f);
    return HC_OK;
}

/* ---- masks ---------------------------------------------------------------------------------------------------------
 */

static void files_mask_free(void *state, void *impl)
{
    (void)state;
    struct files_mask *mask = impl;
    if (!mask) return;
    for (int r = 0; r < mask->n_responses; r++) free(mask->responses[r].taps);
    free(mask->responses);
    free(mask->cells);
    free(mask->first_cell);
    free(mask->spectra);
    free(mask);
}

static bool all_zero(const float *taps, int n)
{
    for (int k = 0; k < n; k++)
        if (taps[k] != 0) return false;
    return true;
}

/* Taps of partition i. */
static int taps_of(int n_taps, int p, int i)
{
    return n_taps - i * p < p ? n_taps - i * p : p;
}

static void find_partitions(const struct files *f, struct files_mask *mask, const struct matrix *matrix)
{
    int p = f->plan->partition;
    for (int i = 0; i < matrix->n_responses; i++) {
        struct response *r = &mask->responses[i];
        const float *taps = matrix->taps[i];
        int n = matrix->n_taps[i];
        r->end = (n + p - 1) / p;
        while (r->end > 0 && all_zero(taps + (r->end - 1) * p, taps_of(n, p, r->end - 1))) r->end--;
        while (r->first < r->end && all_zero(taps + r->first * p, taps_of(n, p, r->first))) r->first++;
        r->row = mask->n_rows;
        mask->n_rows += r->end - r->first;
    }
}

struct spectra_job {
    struct files *f;
    struct files_mask *mask;
    const struct matrix *matrix;
    float *rooms; /* [threads][2P + stride] */
};

/* One response to spectra, cut into chunks. */
static void transform_response(void *data, int i, int thread)
{
    struct spectra_job *job = data;
    struct files *f = job->f;
    const struct response *r = &job->mask->responses[i];
    int p = f->plan->partition;
    float *frames = job->rooms + (size_t)thread * (2 * (size_t)p + f->stride), *row = frames + 2 * p;
    float scale = 1.0f / (float)(2 * p);
    for (int part = r->first; part < r->end; part++) {
        const float *taps = job->matrix->taps[i] + (size_t)part * p;
        int n = taps_of(job->matrix->n_taps[i], p, part);
        for (int k = 0; k < n; k++) frames[k] = taps[k] * scale;
        memset(frames + n, 0, (size_t)(2 * p - n) * sizeof(float));
        fft_forward(f->fft, frames, row);
        for (int chunk = 0; chunk < f->n_chunks; chunk++)
            memcpy(job->mask->spectra + ((size_t)chunk * job->mask->n_rows + r->row + part - r->first) * CHUNK,
                   row + (size_t)chunk * CHUNK, CHUNK * sizeof(float));
    }
}

static bool spectra_make(struct files *f, struct files_mask *mask, const struct matrix *matrix)
{
    find_partitions(f, mask, matrix);
    if (mask->n_rows == 0) return true;
    size_t room = 2 * (size_t)f->plan->partition + f->stride;
    struct spectra_job job = {f, mask, matrix, aligned_zeros((size_t)team_size(f->team) * room * sizeof(float))};
    size_t bytes = (size_t)f->n_chunks * mask->n_rows * CHUNK * sizeof(float);
    if (posix_memalign((void **)&mask->spectra, 64, bytes) != 0) mask->spectra = NULL;
    if (job.rooms && mask->spectra) team_run(f->team, transform_response, &job, matrix->n_responses);
    free(job.rooms);
    return job.rooms && mask->spectra;
}

static bool taps_copy(struct files_mask *mask, const struct matrix *matrix)
{
    for (int i = 0; i < matrix->n_responses; i++) {
        struct response *r = &mask->responses[i];
        r->n_taps = matrix->n_taps[i];
        r->taps = aligned_zeros((size_t)r->n_taps * sizeof(float));
        if (!r->taps) return false;
        memcpy(r->taps, matrix->taps[i], (size_t)r->n_taps * sizeof(float));
    }
    return true;
}

static int files_mask_make(void *state, const struct matrix *matrix, void **impl, char *why, size_t cap)
{
    struct files *f = state;
    struct files_mask *mask = calloc(1, sizeof *mask);
    if (!mask) goto no_memory;
    mask->responses = calloc((size_t)matrix->n_responses + 1, sizeof *mask->responses);
    mask->cells = calloc((size_t)matrix->n_cells + 1, sizeof *mask->cells);
    mask->first_cell = calloc((size_t)f->n_out + 1, sizeof *mask->first_cell);
    if (!mask->responses || !mask->cells || !mask->first_cell) goto no_memory;
    mask->n_responses = matrix->n_responses;
    mask->n_cells = matrix->n_cells;
    memcpy(mask->cells, matrix->cells, (size_t)matrix->n_cells * sizeof *mask->cells);
    for (int c = 0; c < mask->n_cells; c++) mask->first_cell[mask->cells[c].out + 1]++;
    for (int out = 0; out < f->n_out; out++) mask->first_cell[out + 1] += mask->first_cell[out];
    if (!(f->plan->direct ? taps_copy(mask, matrix) : spectra_make(f, mask, matrix))) goto no_memory;
    *impl = mask;
    return HC_OK;
no_memory:
    files_mask_free(state, mask);
    return fail(HC_ENOMEM, why, cap, "cpu: no memory for a mask of %d responses", matrix->n_responses);
}

/* ---- transforms ----------------------------------------------------------------------------------------------------
 */

struct step { /* n_blocks blocks of one call; n frames of them are new and leave from pos of the first on */
    struct files *f;
    const struct files_mask *mask;
    const struct rows *rows;
    float *const *out;   /* the mask's */
    int at, n, n_blocks; /* at: the step's first frame */
};

static float *history(const struct files *f, int in)
{
    return f->history + (size_t)in * f->history_size;
}

static float *spectrum(const struct files *f, int in, int slot)
{
    return f->spectra + ((size_t)in * f->n_slots + (size_t)(slot % f->n_slots)) * f->stride;
}

static float *sum(const struct files *f, int out, int t)
{
    return f->sums + ((size_t)out * f->most_blocks + t) * f->stride;
}

/* Block t of an input: the first is transformed from the history, the others straight from the input, where a block and
 * the one before it lie side by side. */
static void transform_input(void *data, int i, int thread)
{
    const struct step *step = data;
    struct files *f = step->f;
    size_t p = (size_t)f->plan->partition;
    int in = i / step->n_blocks, t = i % step->n_blocks;
    const float *two = history(f, in);
    if (t > 0) {
        two = step->rows->in[in] + step->at + (size_t)(t - 1) * p;
        if ((uintptr_t)two % 64) { /* FFTW's plan expects alignment; an odd start of the whole blocks breaks it */
            float *frames = f->frames + (size_t)thread * 2 * p;
            two = memcpy(frames, two, 2 * p * sizeof(float));
        }
    }
    float *to = spectrum(f, in, f->head + t);
    bool is_loud = !all_zero(two, 2 * (int)p);
    f->is_loud[(size_t)in * f->most_blocks + t] = is_loud;
    if (is_loud)
        fft_forward(f->fft, two, to);
    else
        memset(to, 0, f->stride * sizeof(float));
}

/* What comes before the first loud block or after the last is not multiplied: of a short file through long responses
 * that is nearly all. Blocks that no partition meets any more are forgotten. */
static void note_loud(struct files *f, int n_blocks)
{
    for (int in = 0; in < f->n_in; in++)
        for (int t = 0; t < n_blocks; t++) {
            int64_t *first = &f->loud[2 * in], *last = first + 1, block = f->block + t;
            if (!f->is_loud[(size_t)in * f->most_blocks + t]) continue;
            if (f->block - *last >= f->plan->n_partitions) *first = block;
            *last = block;
        }
}

/* Block t of an output: the second half of the transform back is the linear convolution (overlap-save). */
static void transform_output(void *data, int i, int thread)
{
    const struct step *step = data;
    struct files *f = step->f;
    int p = f->plan->partition, out = i / step->n_blocks, t = i % step->n_blocks;
    float *frames = f->frames + (size_t)thread * 2 * p;
    bool part = step->n_blocks == 1;
    fft_inverse(f->fft, sum(f, out, t), frames);
    memcpy(step->out[out] + step->at + (size_t)t * p, frames + p + (part ? f->pos : 0),
           (size_t)(part ? step->n : p) * sizeof(float));
}

/* ---- products ------------------------------------------------------------------------------------------------------
 */

/* Partitions of a cell that meet a loud block in one of SIMD_BLOCKS blocks from t0 of the step on: [*from, return). */
static int loud_partitions(const struct step *step, int t0, const struct cell *cell, int *from)
{
    const struct files *f = step->f;
    const struct response *r = &step->mask->responses[cell->response];
    int64_t block = f->block + t0, *loud = &f->loud[2 * cell->in];
    int64_t first = block - loud[1], end = block + SIMD_BLOCKS - loud[0];
    *from = first > r->first ? (int)(first < r->end ? first : r->end) : r->first;
    return end < r->end ? (int)end : r->end;
}

/* The next rows of an output, its cells' partitions one after another, at blocks t0 ... of the step. Returns how many
 * there are. *cell and *part: where to go on; a part of -1: with the cell's first. */
static int list_rows(const struct step *step, int out, int t0, int *cell, int *part, struct simd_row *rows)
{
    const struct files *f = step->f;
    const struct files_mask *mask = step->mask;
    int n = 0, from;
    for (; *cell < mask->first_cell[out + 1]; ++*cell, *part = -1) {
        const struct response *r = &mask->responses[mask->cells[*cell].response];
        int end = loud_partitions(step, t0, &mask->cells[*cell], &from);
        if (*part < from) *part = from;
        for (; *part < end; ++*part) {
            if (n == MOST_ROWS) return n;
            struct simd_row *row = &rows[n++];
            row->h = mask->spectra + (size_t)(r->row + *part - r->first) * CHUNK;
            for (int t = 0; t < SIMD_BLOCKS; t++) { /* blocks that are not there: the last one again, for nobody */
                int block = t0 + t < step->n_blocks ? t0 + t : step->n_blocks - 1;
                row->x[t] = spectrum(f, mask->cells[*cell].in, f->head + block + f->n_slots - *part);
            }
        }
    }
    return n;
}

/* Small transforms have few chunks: then outputs are shared out too, so that there is a piece for every thread. */
static int output_groups(const struct files *f)
{
    int pieces = (f->n_chunks + PIECE - 1) / PIECE;
    int groups = (PIECES_A_THREAD * team_size(f->team) + pieces - 1) / pieces;
    return groups < f->n_out ? groups : f->n_out;
}

static void multiply(void *data, int i, int thread)
{
    (void)thread;
    const struct step *step = data;
    const struct files *f = step->f;
    const struct files_mask *mask = step->mask;
    int n_groups = output_groups(f), group = i % n_groups;
    int from = i / n_groups * PIECE, end = from + PIECE < f->n_chunks ? from + PIECE : f->n_chunks;
    int first = (int)((int64_t)f->n_out * group / n_groups), last = (int)((int64_t)f->n_out * (group + 1) / n_groups);
    struct simd_row rows[MOST_ROWS];
    for (int out = first; out < last; out++)
        for (int t0 = 0; t0 < step->n_blocks; t0 += SIMD_BLOCKS) {
            int cell = mask->first_cell[out], part = -1, n;
            bool add = false;
            while ((n = list_rows(step, out, t0, &cell, &part, rows)) > 0 || !add) {
                for (int chunk = from; chunk < end; chunk++) {
                    float *y[SIMD_BLOCKS];
                    for (int t = 0; t < SIMD_BLOCKS; t++) y[t] = sum(f, out, t0 + t) + (size_t)chunk * CHUNK;
                    f->simd->cmac_rows(y, add, rows, n, (size_t)chunk * CHUNK, (size_t)chunk * mask->n_rows * CHUNK,
                                       CHUNK / 2);
                }
                add = true;
            }
        }
}

/* ---- process -------------------------------------------------------------------------------------------------------
 */

static void silence(const struct step *step)
{
    for (int o = 0; o < step->f->n_out; o++) memset(step->out[o] + step->at, 0, (size_t)step->n * sizeof(float));
}

/* A step of whole blocks, or of a part of one, through each mask. */
static void convolve_step(struct step *step, struct files_mask *const *masks, float *const *const *outs, int n_masks)
{
    struct files *f = step->f;
    team_run(f->team, transform_input, step, f->n_in * step->n_blocks);
    note_loud(f, step->n_blocks);
    for (int m = 0; m < n_masks; m++) {
        step->mask = masks[m];
        step->out = outs[m];
        if (!step->mask || step->mask->n_rows == 0) {
            silence(step);
            continue;
        }
        team_run(f->team, multiply, step, (f->n_chunks + PIECE - 1) / PIECE * output_groups(f));
        team_run(f->team, transform_output, step, f->n_out * step->n_blocks);
    }
}

/* The step's frames become history. */
static void advance(struct step *step)
{
    struct files *f = step->f;
    size_t p = (size_t)f->plan->partition;
    bool whole = f->pos + step->n >= f->plan->partition;
    for (int in = 0; in < f->n_in && whole; in++) {
        float *h = history(f, in);
        if (step->n_blocks > 1)
            memcpy(h, step->rows->in[in] + step->at + step->n - p, p * sizeof(float));
        else
            memcpy(h, h + p, p * sizeof(float));
    }
    f->pos = whole ? 0 : f->pos + step->n;
    if (whole) f->head = (f->head + step->n_blocks) % f->n_slots;
    if (whole) f->block += step->n_blocks;
}

static void process_blocks(struct files *f, const struct rows *rows, int n, struct files_mask *const *masks,
                           float *const *const *outs, int n_masks)
{
    int p = f->plan->partition;
    struct step step = {.f = f, .rows = rows};
    for (; step.at < n; step.at += step.n) {
        int left = n - step.at;
        step.n_blocks = f->pos == 0 && left >= p ? left / p : 1;
        if (step.n_blocks > f->most_blocks) step.n_blocks = f->most_blocks;
        step.n = step.n_blocks > 1 ? step.n_blocks * p : left < p - f->pos ? left : p - f->pos;
        for (int in = 0; in < f->n_in; in++) {
            int head = step.n < p ? step.n : p, end = f->pos + head;
            float *h = history(f, in) + p;
            memcpy(h + f->pos, rows->in[in] + step.at, (size_t)head * sizeof(float));
            memset(h + end, 0, (size_t)(p - end) * sizeof(float));
        }
        convolve_step(&step, masks, outs, n_masks);
        advance(&step);
    }
}

/* ---- the time domain -----------------------------------------------------------------------------------------------
 */

static void fir_slice(void *data, int i, int thread)
{
    (void)thread;
    const struct step *step = data;
    const struct files *f = step->f;
    const struct files_mask *mask = step->mask;
    int n_slices = (step->n + SLICE - 1) / SLICE, out = i / n_slices, from = i % n_slices * SLICE;
    int n = step->n - from < SLICE ? step->n - from : SLICE;
    float *y = step->out[out] + from;
    memset(y, 0, (size_t)n * sizeof(float));
    for (int c = mask->first_cell[out]; c < mask->first_cell[out + 1]; c++) {
        const struct response *r = &mask->responses[mask->cells[c].response];
        f->simd->fir(y, history(f, mask->cells[c].in) + f->past + from, r->taps, n, r->n_taps);
    }
}

static void process_direct(struct files *f, const struct rows *rows, int n, struct files_mask *const *masks,
                           float *const *const *outs, int n_masks)
{
    struct step step = {.f = f, .rows = rows, .n = n};
    for (int in = 0; in < f->n_in; in++) memcpy(history(f, in) + f->past, rows->in[in], (size_t)n * sizeof(float));
    for (int m = 0; m < n_masks; m++) {
        step.mask = masks[m];
        step.out = outs[m];
        if (step.mask)
            team_run(f->team, fir_slice, &step, f->n_out * ((n + SLICE - 1) / SLICE));
        else
            silence(&step);
    }
    for (int in = 0; in < f->n_in; in++) memmove(history(f, in), history(f, in) + n, f->past * sizeof(float));
}

static void blend(const struct files *f, float *const *out, int n, const struct fade *fade)
{
    for (int i = 0; i < n; i++) {
        float gain = fade_gain(fade->pos + i, fade->len);
        for (int o = 0; o < f->n_out; o++) {
            float from = f->faded_rows[o][i];
            out[o][i] = from + gain * (out[o][i] - from);
        }
    }
}

static int files_play(void *state, const struct rows *rows, int n, const struct fade *fade, char *why, size_t cap)
{
    (void)why;
    (void)cap;
    struct files *f = state;
    struct files_mask *masks[2] = {fade->to, fade->len > 0 ? fade->from : NULL};
    float *const *outs[2] = {rows->out, f->faded_rows};
    int n_masks = fade->len > 0 ? 2 : 1;
    (f->plan->direct ? process_direct : process_blocks)(f, rows, n, masks, outs, n_masks);
    if (n_masks == 2) blend(f, rows->out, n, fade);
    return HC_OK;
}

const struct backend backend_cpu_files = {
    .name = "cpu",
    .in_place = true,
    .costs = &costs,
    .describe = files_describe,
    .open = files_open,
    .close = files_close,
    .mask_make = files_mask_make,
    .mask_free = files_mask_free,
    .play = files_play,
    .reset = files_reset,
};
