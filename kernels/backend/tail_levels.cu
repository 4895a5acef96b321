/* tail_levels - the memory, the tables and the schedule of the tail levels. Its only kernel makes noise.
 *
 *   step      7  8  9 10 11 12 13 14 15 16
 *   S = hop   f* f* f* f* f* f* f* f* f* f*      f forward, * products, i inverse; here all three in each step
 *   S = 2 hop *i f* *i f* *i f* *i f* *i f*
 *   S = 8 hop *i f* ** ** ** ** ** ** *i f*     in a matrix mostly products; with independent channels a third each
 *
 * A step has at most three launches, each for all levels: forward, then products, then inverse. So one step may do the
 * end of a window's forward transforms and the start of its products.
 */
#include "tail_levels.h"

#include "cuda_error.h"
#include "device_memory.h"
#include "kernels_load.h"
#include "fft_block.cuh"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    BATCH_FLOATS = 1 << 22,     /* the taps of a batch of responses: 16 MiB                                         */
    CHEAP_BYTES = 48 << 20      /* the spectra of a mask that catches up at once: it reads them twice (25 us, H200) */
};

/* The cost of a bin, in bytes moved; a transform counts half as much again for its arithmetic. A product reads the bin
 * of the response from memory, and a quarter of the bin of the input from L2. L2 reads the input's bin from memory
 * once, for all responses. */
enum { FORWARD_COST = 24, CELL_COST = 10, INPUT_COST = 8, SUM_COST = 8, INVERSE_COST = 18 };

static double products_cost(double cell_parts, double input_parts, int n_out)
{
    return CELL_COST * cell_parts + INPUT_COST * input_parts + (double)SUM_COST * n_out;
}

/* ---- the state --------------------------------------------------------------------------------------------------- */

static int level_add(struct gpu_tail *tail, int offset, int size, int n_parts, double routes, struct reason *why)
{
    if (tail->n_levels == TAIL_LEVELS)
        return fail(HC_EINVAL, why, "cuda: a plan of more than %d levels", TAIL_LEVELS);
    if (size < TAIL_SIZE_LEAST || size > TAIL_SIZE_MOST || (size & (size - 1)))
        return fail(HC_EINVAL, why, "cuda: a level of %d frames: it must be a power of two from %d to %d", size,
                    TAIL_SIZE_LEAST, TAIL_SIZE_MOST);
    struct gpu_tail_level *level = &tail->level[tail->n_levels++];
    level->offset = offset;
    level->size = size;
    level->log2_size = log2_of(size);
    level->n_parts = n_parts;
    level->n_slices = size / tail->hop;
    level->n_slots = n_parts + 1;
    const double forward = (double)FORWARD_COST * tail->n_in;
    const double inputs = routes < tail->n_in ? routes : tail->n_in; /* inputs that have a route */
    const double products = products_cost(n_parts * routes, n_parts * inputs, tail->n_out);
    const double rest = products + (double)INVERSE_COST * tail->n_out;
    level->forward_share = forward / (forward + rest);
    return HC_OK;
}

/* Frames of the input history and of a call. */
static size_t ring_frames(const struct gpu_tail *tail, int block)
{
    size_t most = (size_t)(tail->head_taps + HEAD_CHUNK - 1) / HEAD_CHUNK * HEAD_CHUNK + HEAD_CHUNK;
    for (int i = 0; i < tail->n_levels; i++) {
        const struct gpu_tail_level *level = &tail->level[i];
        const size_t slices = (size_t)(level->forward_share * level->n_slices) + 1; /* in which they run */
        const size_t frames = 2 * (size_t)level->size + slices * tail->hop;
        if (frames > most) most = frames;
    }
    return most + block;
}

int gpu_tail_open(struct gpu_tail *tail, const struct plan *plan, const hc_config *config, int n_sm, struct reason *why)
{
    memset(tail, 0, sizeof *tail);
    tail->n_in = config->n_in;
    tail->n_out = config->n_out;
    tail->n_sm = n_sm;
    tail->hop = plan->hop;
    tail->head_taps = plan->direct ? plan->head_taps : plan->partition;
    const double routes = config->n_routes               ? config->n_routes
                          : config->n_in > config->n_out ? config->n_in
                                                         : config->n_out;
    if (!plan->direct && plan->n_partitions > 1)
        PASS(level_add(tail, plan->partition, plan->partition, plan->n_partitions - 1, routes, why));
    for (int i = 0; i < plan->n_tail_levels; i++) {
        const struct plan_level *level = &plan->tail_levels[i];
        PASS(level_add(tail, level->offset, level->size, level->n_partitions, routes, why));
    }
    if (!tail->n_levels) tail->hop = 1 << 30; /* no call is cut */
    tail->y_pitch = (size_t)plan->block;
    tail->ring_mask = 1;
    while (tail->ring_mask + (size_t)1 < ring_frames(tail, plan->block)) tail->ring_mask = 2 * tail->ring_mask + 1;
    const size_t head_taps = (size_t)(tail->head_taps + HEAD_CHUNK - 1) / HEAD_CHUNK * HEAD_CHUNK;
    tail->pitch = ((size_t)plan->max_taps + HEAD_CHUNK - 1) / HEAD_CHUNK * HEAD_CHUNK;
    if (tail->pitch < head_taps) tail->pitch = head_taps;
    size_t rows = BATCH_FLOATS / tail->pitch, pairs = (size_t)tail->n_in * tail->n_out;
    if (rows > pairs) rows = pairs;
    tail->rows = rows > 1 ? (int)rows : 1;
    return HC_OK;
}

static size_t ring_bytes(const struct gpu_tail *tail)
{
    return tail->n_in * ((size_t)tail->ring_mask + 1) * sizeof(float);
}

static size_t scratch_bytes(const struct gpu_tail *tail)
{
    return tail->n_levels ? head_scratch_bytes(tail->n_sm) : fir_scratch_bytes(tail->n_sm);
}

static size_t counts_bytes(const struct gpu_tail *tail)
{
    return (size_t)2 * tail->n_levels * tail->rows * sizeof(int);
}

size_t gpu_tail_cut(struct gpu_tail *tail, void *base)
{
    size_t used = 0;
    tail->ring = (float *)device_cut(base, &used, ring_bytes(tail));
    for (int i = 0; i < tail->n_levels; i++) {
        struct gpu_tail_level *level = &tail->level[i];
        level->tw = (float2 *)device_cut(base, &used, level->size * sizeof(float2));
        level->spectra =
            (float2 *)device_cut(base, &used, (size_t)tail->n_in * level->n_slots * level->size * sizeof(float2));
    }
    tail->scratch = device_cut(base, &used, scratch_bytes(tail));
    tail->taps = (float *)device_cut(base, &used, tail->rows * tail->pitch * sizeof(float));
    tail->envelope = (float *)device_cut(base, &used, tail->pitch * sizeof(float));
    tail->counts = (int *)device_cut(base, &used, counts_bytes(tail));
    return used;
}

size_t gpu_tail_pinned_bytes(const struct gpu_tail *tail)
{
    return tail->rows * tail->pitch * sizeof(float) + counts_bytes(tail);
}

/* ---- noise ------------------------------------------------------------------------------------------------------- */

/* taps[row][k] = tap k of the noise of response first + row; then zeros. grid: taps x rows */
static __global__ void noise_fill(float *taps, size_t pitch, int n_taps, const float *envelope, uint64_t seed,
                                  int first)
{
    const struct noise_key key = noise_key_of(seed, (uint32_t)(first + (int)blockIdx.y));
    const size_t k = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (k < pitch)
        taps[blockIdx.y * pitch + k] = k < (size_t)n_taps ? noise_tap(key, (uint32_t)k, envelope[k]) : 0.0f;
}

/* ---- masks ------------------------------------------------------------------------------------------------------- */

/* Merges the inputs of four outputs into one list of terms, and returns its length. at, end: the cells of each output.
 * to: receives the terms; NULL: only counts. */
static int group_merge(const struct matrix *matrix, int at[TAIL_OUTS], const int end[TAIL_OUTS], struct draft_terms *to)
{
    int n = 0;
    for (;; n++) {
        int in = INT32_MAX;
        for (int o = 0; o < TAIL_OUTS; o++)
            if (at[o] < end[o] && matrix->cells[at[o]].in < in) in = matrix->cells[at[o]].in;
        if (in == INT32_MAX) return n;
        if (to) to[n].in = in;
        for (int o = 0; o < TAIL_OUTS; o++) {
            const bool has_input = at[o] < end[o] && matrix->cells[at[o]].in == in;
            if (to) to[n].response[o] = has_input ? matrix->cells[at[o]].response : -1;
            at[o] += has_input;
        }
    }
}

/* Fills first_term and, unless it is NULL, terms. Returns the number of terms. */
static int groups_make(struct gpu_tail_draft *draft)
{
    const struct matrix *matrix = draft->matrix;
    int c = 0, n = 0;
    for (int g = 0; g < draft->n_groups; g++) {
        int at[TAIL_OUTS], end[TAIL_OUTS];
        for (int o = 0; o < TAIL_OUTS; o++) {
            at[o] = c;
            while (c < matrix->n_cells && matrix->cells[c].out == g * TAIL_OUTS + o) c++;
            end[o] = c;
        }
        draft->first_term[g] = n;
        n += group_merge(matrix, at, end, draft->terms ? draft->terms + n : NULL);
    }
    return draft->first_term[draft->n_groups] = n;
}

void gpu_tail_draft_free(struct gpu_tail_draft *draft)
{
    free(draft->first_term);
    free(draft->terms);
    free(draft->n_parts);
    free(draft->part_at);
    memset(draft, 0, sizeof *draft);
}

int gpu_tail_draft_make(struct gpu_tail_draft *draft, const struct gpu_tail *tail, const struct matrix *matrix,
                        const struct noise *noise, struct reason *why)
{
    const size_t n = (size_t)matrix->n_responses + 1;
    memset(draft, 0, sizeof *draft);
    draft->matrix = matrix;
    draft->noise = noise;
    draft->n_groups = (tail->n_out + TAIL_OUTS - 1) / TAIL_OUTS;
    draft->first_term = (int *)malloc((draft->n_groups + 1) * sizeof(int));
    draft->n_parts = (int *)malloc((tail->n_levels + 1) * n * sizeof(int));
    draft->part_at = (int *)malloc((tail->n_levels + 1) * n * sizeof(int));
    if (draft->first_term && draft->n_parts && draft->part_at) {
        const int n_terms = groups_make(draft);
        draft->terms = (struct draft_terms *)malloc((n_terms + 1) * sizeof *draft->terms);
    }
    if (!draft->terms) {
        gpu_tail_draft_free(draft);
        return fail(HC_ENOMEM, why, "cuda: out of memory for a mask");
    }
    groups_make(draft);
    for (int i = 0; i < tail->n_levels; i++) {
        const struct gpu_tail_level *level = &tail->level[i];
        int64_t all = 0;
        for (int r = 0; r < matrix->n_responses; r++) {
            const int left = matrix->n_taps[r] - level->offset;
            int parts = left <= 0 ? 0 : (left - 1) / level->size + 1;
            if (parts > level->n_parts) parts = level->n_parts;
            draft->n_parts[i * n + r] = parts;
            draft->part_at[i * n + r] = (int)all;
            all += parts;
            if (all > INT32_MAX) {
                gpu_tail_draft_free(draft);
                return fail(HC_ENOMEM, why, "cuda: a mask of over 2^31 partitions; use fewer or shorter responses");
            }
        }
        draft->all_parts[i] = (int)all;
    }
    return HC_OK;
}

/* Has the head cells, for head_sparse or the FIR? */
static bool has_cells(const struct gpu_tail *tail, const struct gpu_tail_draft *draft)
{
    return !tail->n_levels ||
           head_is_sparse((size_t)draft->matrix->n_cells, (size_t)draft->first_term[draft->n_groups], tail->n_out,
                          tail->n_sm);
}

static int chunks_of(const struct gpu_tail *tail) { return (tail->head_taps + HEAD_CHUNK - 1) / HEAD_CHUNK; }

size_t gpu_tail_mask_cut(struct gpu_tail_mask *mask, const struct gpu_tail *tail, const struct gpu_tail_draft *draft,
                         void *base)
{
    const size_t n_terms = draft->first_term[draft->n_groups], n_chunks = chunks_of(tail);
    size_t used = 0;
    if (has_cells(tail, draft)) {
        const size_t n_cells = draft->matrix->n_cells;
        mask->head_cells = (struct fir_cell *)device_cut(base, &used, n_cells * sizeof *mask->head_cells);
        mask->head_first = (int *)device_cut(base, &used, (tail->n_out + 1) * sizeof(int));
    } else {
        mask->head_terms = (struct head_terms *)device_cut(base, &used, n_terms * sizeof *mask->head_terms);
        mask->head_first = (int *)device_cut(base, &used, (draft->n_groups + 1) * sizeof(int));
    }
    mask->head_taps =
        (float *)device_cut(base, &used, draft->matrix->n_responses * n_chunks * HEAD_CHUNK * sizeof(float));
    mask->spectra_bytes = 0;
    for (int i = 0; i < tail->n_levels; i++) {
        struct gpu_tail_mask_level *level = &mask->level[i];
        const size_t size = tail->level[i].size, bytes = draft->all_parts[i] * size * sizeof(float2);
        level->terms = (struct tail_terms *)device_cut(base, &used, n_terms * sizeof *level->terms);
        level->first_term = (int *)device_cut(base, &used, (draft->n_groups + 1) * sizeof(int));
        level->spectra = (float2 *)device_cut(base, &used, bytes);
        level->sums = (float2 *)device_cut(base, &used, tail->n_out * size * sizeof(float2));
        level->due = (float *)device_cut(base, &used, tail->n_out * 2 * size * sizeof(float));
        mask->spectra_bytes += bytes;
    }
    return used;
}

#define TAIL_TRY(call)                                    \
    do {                                                  \
        const cudaError_t tail_error = (call);            \
        if (tail_error != cudaSuccess) return tail_error; \
    } while (0)

/* Copies through pinned memory: a copy from other memory waits inside the driver and delays the launches of audio.
 * Waits for the device before each copy, because a full queue delays launches too. */
static cudaError_t send(const struct gpu_tail *tail, void *to, const void *host, size_t bytes, cudaStream_t stream)
{
    const size_t room = gpu_tail_pinned_bytes(tail);
    for (size_t at = 0; at < bytes; at += room) {
        const size_t n = bytes - at < room ? bytes - at : room;
        TAIL_TRY(device_wait(stream));
        memcpy(tail->pinned, (const char *)host + at, n);
        TAIL_TRY(cudaMemcpyAsync((char *)to + at, tail->pinned, n, cudaMemcpyHostToDevice, stream));
    }
    return cudaSuccess;
}

/* Sends the taps and counts of responses first ... first + n - 1. */
static cudaError_t batch_send(const struct gpu_tail *tail, const struct gpu_tail_draft *draft, int first, int n,
                              cudaStream_t stream)
{
    const struct matrix *matrix = draft->matrix;
    const size_t stride = (size_t)matrix->n_responses + 1, rows_bytes = n * tail->pitch * sizeof(float);
    float *taps = (float *)tail->pinned;
    int *counts = (int *)(taps + tail->rows * tail->pitch);
    TAIL_TRY(device_wait(stream)); /* the batch before still reads the pinned memory */
    for (int i = 0; i < tail->n_levels; i++) {
        memcpy(counts + (size_t)2 * i * tail->rows, draft->n_parts + i * stride + first, n * sizeof(int));
        memcpy(counts + (size_t)(2 * i + 1) * tail->rows, draft->part_at + i * stride + first, n * sizeof(int));
    }
    if (tail->n_levels)
        TAIL_TRY(cudaMemcpyAsync(tail->counts, counts, counts_bytes(tail), cudaMemcpyHostToDevice, stream));
    if (draft->noise) {
        noise_fill<<<dim3((unsigned)((tail->pitch + 255) / 256), n), 256, 0, stream>>>(
            tail->taps, tail->pitch, draft->noise->n_taps, tail->envelope, draft->noise->seed, first);
        return cudaGetLastError();
    }
    for (int r = 0; r < n; r++) {
        const size_t used = matrix->n_taps[first + r];
        memcpy(taps + r * tail->pitch, matrix->taps[first + r], used * sizeof(float));
        memset(taps + r * tail->pitch + used, 0, (tail->pitch - used) * sizeof(float));
    }
    return cudaMemcpyAsync(tail->taps, taps, rows_bytes, cudaMemcpyHostToDevice, stream);
}

/* Makes the head taps and spectra of responses first ... first + n - 1. */
static cudaError_t batch_fill(struct gpu_tail_mask *mask, const struct gpu_tail *tail,
                              const struct gpu_tail_draft *draft, int first, int n, cudaStream_t stream)
{
    const size_t row_bytes = tail->pitch * sizeof(float),
                 head_bytes = (size_t)mask->n_chunks * HEAD_CHUNK * sizeof(float);
    const size_t stride = (size_t)draft->matrix->n_responses + 1;
    TAIL_TRY(batch_send(tail, draft, first, n, stream));
    TAIL_TRY(cudaMemcpy2DAsync(mask->head_taps + (size_t)first * mask->n_chunks * HEAD_CHUNK, head_bytes, tail->taps,
                               row_bytes, tail->head_taps * sizeof(float), n, cudaMemcpyDeviceToDevice, stream));
    for (int i = 0; i < tail->n_levels; i++) {
        struct tail_responses job = {};
        for (int r = 0; r < n; r++)
            if (draft->n_parts[i * stride + first + r] > job.max_parts)
                job.max_parts = draft->n_parts[i * stride + first + r];
        if (!job.max_parts) continue;
        job.taps = tail->taps;
        job.pitch = tail->pitch;
        job.n_rows = n;
        job.n_parts = tail->counts + (size_t)2 * i * tail->rows;
        job.part_at = job.n_parts + tail->rows;
        job.offset = tail->level[i].offset;
        job.log2_size = tail->level[i].log2_size;
        job.spectra = mask->level[i].spectra;
        job.tw = tail->level[i].tw;
        TAIL_TRY(tail_responses_launch(&job, stream));
    }
    return cudaSuccess;
}

/* Makes and sends the tables of one level, without the terms that have no partition in it. terms, first_term: host
 * buffers for the tables. */
static cudaError_t level_tables(struct gpu_tail_mask *mask, const struct gpu_tail *tail,
                                const struct gpu_tail_draft *draft, int i_level, struct tail_terms *terms,
                                int *first_term, cudaStream_t stream)
{
    struct gpu_tail_mask_level *level = &mask->level[i_level];
    const size_t row = i_level * ((size_t)draft->matrix->n_responses + 1), size = tail->level[i_level].size;
    const int *n_parts = draft->n_parts + row, *part_at = draft->part_at + row;
    int n = 0;
    double cell_parts = 0, input_parts = 0;
    for (int g = 0; g < draft->n_groups; g++) {
        first_term[g] = n;
        for (int i = draft->first_term[g]; i < draft->first_term[g + 1]; i++) {
            struct tail_terms *to = &terms[n];
            memset(to, 0, sizeof *to);
            to->in = draft->terms[i].in;
            for (int o = 0; o < TAIL_OUTS; o++) {
                const int r = draft->terms[i].response[o];
                if (r < 0) continue;
                to->h[o] = level->spectra + part_at[r] * size;
                to->n_parts[o] = n_parts[r];
                if (n_parts[r] > to->max_parts) to->max_parts = n_parts[r];
                cell_parts += n_parts[r];
            }
            input_parts += to->max_parts;
            n += to->max_parts > 0;
            if (to->max_parts > level->max_parts) level->max_parts = to->max_parts;
        }
        if (n - first_term[g] > level->max_terms) level->max_terms = n - first_term[g];
    }
    first_term[draft->n_groups] = n;
    const double all_parts = (double)tail->n_in * tail->level[i_level].n_parts; /* several groups may read the same */
    const double products = products_cost(cell_parts, input_parts < all_parts ? input_parts : all_parts, tail->n_out);
    level->product_share = products / (products + (double)INVERSE_COST * tail->n_out);
    TAIL_TRY(send(tail, level->terms, terms, n * sizeof *terms, stream));
    return send(tail, level->first_term, first_term, (draft->n_groups + 1) * sizeof(int), stream);
}

static const float *head_taps_of(const struct gpu_tail_mask *mask, int response)
{
    return mask->head_taps + (size_t)response * mask->n_chunks * HEAD_CHUNK;
}

static cudaError_t head_terms_send(struct gpu_tail_mask *mask, const struct gpu_tail *tail,
                                   const struct gpu_tail_draft *draft, struct head_terms *terms, cudaStream_t stream)
{
    for (int g = 0; g < draft->n_groups; g++) {
        const int n = draft->first_term[g + 1] - draft->first_term[g];
        if (n > mask->max_terms) mask->max_terms = n;
        for (int i = draft->first_term[g]; i < draft->first_term[g + 1]; i++) {
            terms[i].in = draft->terms[i].in;
            for (int o = 0; o < TAIL_OUTS; o++) {
                const int r = draft->terms[i].response[o];
                terms[i].taps[o] = r < 0 ? NULL : head_taps_of(mask, r);
            }
        }
    }
    TAIL_TRY(send(tail, mask->head_terms, terms, draft->first_term[draft->n_groups] * sizeof *terms, stream));
    return send(tail, mask->head_first, draft->first_term, (draft->n_groups + 1) * sizeof(int), stream);
}

/* cells, first_cell: host buffers for the tables. The cells of the matrix are sorted by output. */
static cudaError_t head_cells_send(struct gpu_tail_mask *mask, const struct gpu_tail *tail,
                                   const struct matrix *matrix, struct fir_cell *cells, int *first_cell,
                                   cudaStream_t stream)
{
    int n = 0;
    for (int out = 0; out <= tail->n_out; out++) {
        int n_taps = 0;
        first_cell[out] = n;
        for (; n < matrix->n_cells && matrix->cells[n].out == out; n++) {
            const int r = matrix->cells[n].response;
            cells[n].taps = head_taps_of(mask, r);
            cells[n].n_taps = matrix->n_taps[r] < tail->head_taps ? matrix->n_taps[r] : tail->head_taps;
            cells[n].in = matrix->cells[n].in;
            n_taps += cells[n].n_taps;
        }
        if (n_taps > mask->max_taps) mask->max_taps = n_taps;
        if (n - first_cell[out] > mask->max_cells) mask->max_cells = n - first_cell[out];
    }
    TAIL_TRY(send(tail, mask->head_cells, cells, n * sizeof *cells, stream));
    return send(tail, mask->head_first, first_cell, (tail->n_out + 1) * sizeof(int), stream);
}

static cudaError_t head_tables(struct gpu_tail_mask *mask, const struct gpu_tail *tail,
                               const struct gpu_tail_draft *draft, cudaStream_t stream)
{
    const size_t n_terms = draft->first_term[draft->n_groups], n_cells = draft->matrix->n_cells;
    cudaError_t e = cudaErrorMemoryAllocation;
    if (mask->head_cells) {
        struct fir_cell *cells = (struct fir_cell *)calloc(n_cells + 1, sizeof *cells);
        int *first_cell = (int *)calloc(tail->n_out + 1, sizeof *first_cell);
        if (cells && first_cell) e = head_cells_send(mask, tail, draft->matrix, cells, first_cell, stream);
        free(first_cell);
        free(cells);
    } else {
        struct head_terms *terms = (struct head_terms *)calloc(n_terms + 1, sizeof *terms);
        if (terms) e = head_terms_send(mask, tail, draft, terms, stream);
        free(terms);
    }
    return e;
}

cudaError_t gpu_tail_mask_fill(struct gpu_tail_mask *mask, const struct gpu_tail *tail,
                               const struct gpu_tail_draft *draft, cudaStream_t stream)
{
    const size_t n_terms = draft->first_term[draft->n_groups];
    struct tail_terms *terms = (struct tail_terms *)calloc(n_terms + 1, sizeof *terms);
    int *first_term = (int *)calloc(draft->n_groups + 1, sizeof(int));
    cudaError_t e = terms && first_term ? cudaSuccess : cudaErrorMemoryAllocation;
    mask->n_groups = draft->n_groups;
    mask->n_chunks = chunks_of(tail);
    if (e == cudaSuccess) e = head_tables(mask, tail, draft, stream);
    if (e == cudaSuccess) /* the taps of a response are padded with zeros */
        e = cudaMemsetAsync(mask->head_taps, 0,
                            (size_t)draft->matrix->n_responses * mask->n_chunks * HEAD_CHUNK * sizeof(float), stream);
    for (int i = 0; i < tail->n_levels && e == cudaSuccess; i++)
        e = level_tables(mask, tail, draft, i, terms, first_term, stream);
    free(first_term);
    free(terms);
    if (e == cudaSuccess && draft->noise)
        e = send(tail, tail->envelope, draft->noise->envelope, draft->noise->n_taps * sizeof(float), stream);
    for (int r = 0; r < draft->matrix->n_responses && e == cudaSuccess; r += tail->rows) {
        const int left = draft->matrix->n_responses - r;
        e = batch_fill(mask, tail, draft, r, left < tail->rows ? left : tail->rows, stream);
    }
    return e;
}

cudaError_t gpu_tail_load(struct gpu_tail *tail, int device, cudaStream_t stream)
{
    TAIL_TRY(kernels_load(noise_fill));
    TAIL_TRY(tail_transform_load(device));
    TAIL_TRY(tail_product_load());
    TAIL_TRY(tail->n_levels ? head_load() : fir_load());
    TAIL_TRY(cudaMemsetAsync(tail->scratch, 0, scratch_bytes(tail), stream));
    float2 *tw = (float2 *)malloc(TAIL_SIZE_MOST * sizeof *tw);
    if (!tw) return cudaErrorMemoryAllocation;
    cudaError_t e = cudaSuccess;
    for (int i = 0; i < tail->n_levels && e == cudaSuccess; i++) {
        fft_twiddles(tw, tail->level[i].size);
        e = send(tail, tail->level[i].tw, tw, tail->level[i].size * sizeof *tw, stream);
    }
    free(tw);
    return e;
}

/* ---- which slice has which work ---------------------------------------------------------------------------------- */

/* The number of items, of n, that are done at progress `at` of their stage (0: it begins, 1: it is complete). */
static int share_done(int n, double at)
{
    return at >= 1 ? n : at <= 0 ? 0 : (int)(n * at);
}

/* The stages of a window are forward, products, inverse; each begins in the slice in which the one before ends. The
 * following functions return the number of items that are done after slice k; k = -1: before the first slice. */
static int forwards_done(const struct gpu_tail *tail, const struct gpu_tail_level *level, int k)
{
    if (k == level->n_slices - 1) return tail->n_in;
    return share_done(tail->n_in, (k + 1.0) / level->n_slices / level->forward_share);
}

/* The progress of products and inverses together. */
static double progress_behind_forwards(const struct gpu_tail_level *level, int k)
{
    return ((k + 1.0) / level->n_slices - level->forward_share) / (1 - level->forward_share);
}

static int units_of(const struct gpu_tail_level *level, const struct gpu_tail_mask *mask)
{
    return (level->size + TAIL_BINS - 1) / TAIL_BINS * mask->n_groups;
}

static int products_done(const struct gpu_tail_level *level, const struct gpu_tail_mask *mask, int i, int k)
{
    const int n = units_of(level, mask);
    if (k == level->n_slices - 1) return n;
    return share_done(n, progress_behind_forwards(level, k) / mask->level[i].product_share);
}

static int inverses_done(const struct gpu_tail *tail, const struct gpu_tail_mask *mask, int i, int k)
{
    const struct gpu_tail_level *level = &tail->level[i];
    const double share = mask->level[i].product_share;
    if (k == level->n_slices - 1) return tail->n_out;
    return share_done(tail->n_out, (progress_behind_forwards(level, k) - share) / (1 - share));
}

/* The work of a mask in one step, for the launches. */
struct step_work {
    struct tail_products products;
    struct tail_inverses inverses;
};

/* Adds the work of a window of level i in slices k0 + 1 ... k1. */
static void work_add(struct step_work *work, const struct gpu_tail *tail, const struct gpu_tail_mask *mask, int i,
                     int64_t window, int k0, int k1)
{
    const struct gpu_tail_level *level = &tail->level[i];
    const struct gpu_tail_mask_level *of = &mask->level[i];
    if (!of->max_terms) return; /* all responses end before this level */
    const int unit = products_done(level, mask, i, k0), units = products_done(level, mask, i, k1) - unit;
    const int out = inverses_done(tail, mask, i, k0), outs = inverses_done(tail, mask, i, k1) - out;
    if (units > 0) {
        struct tail_product *to = &work->products.level[work->products.n++];
        to->terms = of->terms;
        to->first_term = of->first_term;
        to->x = level->spectra;
        to->sums = of->sums;
        to->log2_size = level->log2_size;
        to->slot = (int)(window % level->n_slots);
        to->n_slots = level->n_slots;
        to->n_windows = window < level->n_parts ? (int)window : level->n_parts;
        to->n_groups = mask->n_groups;
        to->n_out = tail->n_out;
        to->first_unit = unit;
        to->n_units = units;
        to->max_terms = of->max_terms;
        to->max_parts = of->max_parts;
    }
    if (outs > 0) {
        struct tail_inverse *to = &work->inverses.level[work->inverses.n++];
        to->tw = level->tw;
        to->sums = of->sums;
        to->due = of->due;
        to->log2_size = level->log2_size;
        to->first_out = out;
        to->n_out = outs;
        to->at = (unsigned)((window + 1) * level->size - tail->hop) & (2 * level->size - 1);
    }
}

static cudaError_t work_launch(struct step_work *work, const struct gpu_tail *tail, cudaStream_t stream)
{
    TAIL_TRY(tail_product_launch(&work->products, tail->n_sm, stream));
    return tail_inverse_launch(&work->inverses, stream);
}

/* ---- steps ------------------------------------------------------------------------------------------------------- */

cudaError_t gpu_tail_reset(struct gpu_tail *tail, cudaStream_t stream)
{
    tail->step = 0;
    for (int i = 0; i < TAIL_PREPARED; i++)
        for (int l = 0; tail->prepared[i] && l < tail->n_levels; l++) tail->prepared[i]->level[l].from_window = 1;
    return cudaMemsetAsync(tail->ring, 0, ring_bytes(tail), stream);
}

cudaError_t gpu_tail_step(struct gpu_tail *tail, cudaStream_t stream)
{
    const int64_t w = ++tail->step;
    struct tail_forwards job = {};
    job.x = tail->ring;
    job.ring_mask = tail->ring_mask;
    for (int i = tail->n_levels - 1; i >= 0; i--) { /* the largest level first */
        const struct gpu_tail_level *level = &tail->level[i];
        const int64_t window = w / level->n_slices;
        const int k = (int)(w % level->n_slices), ch = forwards_done(tail, level, k - 1);
        const int n_ch = forwards_done(tail, level, k) - ch;
        if (window < 1 || n_ch < 1) continue;
        struct tail_forward *to = &job.level[job.n++];
        to->tw = level->tw;
        to->spectra = level->spectra;
        to->log2_size = level->log2_size;
        to->first_ch = ch;
        to->n_ch = n_ch;
        to->slot = (int)(window % level->n_slots);
        to->n_slots = level->n_slots;
        to->from = (unsigned)((window - 2) * level->size);
    }
    TAIL_TRY(tail_forward_launch(&job, stream));
    for (int m = 0; m < TAIL_PREPARED; m++) {
        const struct gpu_tail_mask *mask = tail->prepared[m];
        struct step_work work = {};
        for (int i = tail->n_levels - 1; mask && i >= 0; i--) {
            const int n = tail->level[i].n_slices, k = (int)(w % n);
            if (w / n >= mask->level[i].from_window) work_add(&work, tail, mask, i, w / n, k - 1, k);
        }
        TAIL_TRY(work_launch(&work, tail, stream));
    }
    return cudaSuccess;
}

/* Computes all products of a mask for the window that is due and for the one under way. That is the work of two
 * windows, or if a window is complete within a hop, of one. */
static cudaError_t catch_up(struct gpu_tail *tail, struct gpu_tail_mask *mask, cudaStream_t stream)
{
    const int64_t w = tail->step;
    struct step_work due = {}, now = {}; /* of the window whose output is due, and of the one under way */
    for (int i = tail->n_levels - 1; i >= 0; i--) {
        const int n = tail->level[i].n_slices, k = (int)(w % n);
        const int64_t window = w / n;
        if (window > 1 && k < n - 1) work_add(&due, tail, mask, i, window - 1, -1, n - 1);
        if (window > 0) work_add(&now, tail, mask, i, window, -1, k);
        mask->level[i].from_window = 1;
    }
    TAIL_TRY(work_launch(&due, tail, stream));
    return work_launch(&now, tail, stream);
}

static bool is_prepared(const struct gpu_tail *tail, const struct gpu_tail_mask *mask)
{
    for (int i = 0; i < TAIL_PREPARED; i++)
        if (tail->prepared[i] == mask) return true;
    return false;
}

cudaError_t gpu_tail_prepare(struct gpu_tail *tail, struct gpu_tail_mask *mask, cudaStream_t stream)
{
    for (int i = 0; i < TAIL_PREPARED && !is_prepared(tail, mask); i++)
        if (!tail->prepared[i]) tail->prepared[i] = mask;
    const bool in_a_hop = !tail->n_levels || tail->level[tail->n_levels - 1].n_slices == 1;
    if (mask->spectra_bytes <= CHEAP_BYTES || in_a_hop) return catch_up(tail, mask, stream);
    for (int i = 0; i < tail->n_levels; i++) mask->level[i].from_window = tail->step / tail->level[i].n_slices + 1;
    return cudaSuccess;
}

/* The window of a level whose output is due in this hop; less than 1: none, the stream has just begun. */
static int64_t window_due(const struct gpu_tail *tail, const struct gpu_tail_level *level)
{
    return (tail->step + 1) / level->n_slices - 1;
}

bool gpu_tail_ready(const struct gpu_tail *tail, const struct gpu_tail_mask *mask)
{
    if (!is_prepared(tail, mask)) return false;
    for (int i = 0; i < tail->n_levels; i++) {
        const int64_t due = window_due(tail, &tail->level[i]);
        if (due > 0 && due < mask->level[i].from_window) return false;
    }
    return true;
}

void gpu_tail_retire(struct gpu_tail *tail, struct gpu_tail_mask *mask)
{
    for (int i = 0; i < TAIL_PREPARED; i++)
        if (tail->prepared[i] == mask) tail->prepared[i] = NULL;
}

/* As gpu_tail_play, without levels. */
static cudaError_t fir_play(const struct gpu_tail *tail, const struct gpu_tail_mask *mask, int64_t from, int n,
                            float *y, int first_group, int n_groups, cudaStream_t stream)
{
    const int first = first_group * HEAD_OUTS, left = tail->n_out - first, all = n_groups * HEAD_OUTS;
    struct fir_job job = {};
    job.x = tail->ring;
    job.ring_mask = tail->ring_mask;
    job.pos = (unsigned)from;
    job.cells = mask->head_cells;
    job.first_cell = mask->head_first + first;
    job.y = y + first * tail->y_pitch;
    job.y_pitch = tail->y_pitch;
    job.n = n;
    job.n_out = all < left ? all : left;
    job.max_taps = mask->max_taps;
    job.max_cells = mask->max_cells;
    job.scratch = tail->scratch;
    job.n_sm = tail->n_sm;
    return fir_launch(&job, stream);
}

cudaError_t gpu_tail_play(struct gpu_tail *tail, struct gpu_tail_mask *mask, int64_t from, int n, float *y,
                          int first_group, int n_groups, cudaStream_t stream)
{
    if (!tail->n_levels) return fir_play(tail, mask, from, n, y, first_group, n_groups, stream);
    if (!gpu_tail_ready(tail, mask)) TAIL_TRY(catch_up(tail, mask, stream));
    struct head_job job = {};
    job.x = tail->ring;
    job.ring_mask = tail->ring_mask;
    job.pos = (unsigned)from;
    job.terms = mask->head_terms;
    job.cells = mask->head_cells;
    job.first_term = job.first_cell = mask->head_first; /* the job uses one of the two */
    job.n_chunks = mask->n_chunks;
    job.max_terms = mask->max_terms;
    job.y = y;
    job.y_pitch = tail->y_pitch;
    job.n = n;
    job.n_out = tail->n_out;
    job.first_group = first_group;
    job.n_groups = n_groups;
    for (int i = 0; i < tail->n_levels; i++) {
        const struct gpu_tail_level *level = &tail->level[i];
        if (!mask->level[i].max_terms || window_due(tail, level) < 1) continue;
        struct head_due *due = &job.due[job.n_due++];
        due->frames = mask->level[i].due;
        due->ring_mask = 2 * level->size - 1;
        due->at = (unsigned)from & due->ring_mask;
    }
    job.scratch = tail->scratch;
    job.n_sm = tail->n_sm;
    return head_launch(&job, stream);
}
