/* tail_masks - makes the masks of tail_levels.h: tables of terms, head taps, spectra.
 *
 *   host taps -- pack --> pinned -- copy engine --> taps [rows][pitch] --> head taps, and the spectra of each level
 *
 * Responses are uploaded in batches. The device computes the taps of noise.
 */
#include "tail_masks.h"

#include "cuda_error.h"
#include "device_memory.h"
#include "kernels_load.h"
#include "response_spectra.h"

#include <stdlib.h>
#include <string.h>

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

/* ---- the layout -------------------------------------------------------------------------------------------------- */

struct draft_terms { int in, response[TAIL_OUTS]; }; /* an input's response to each output of a group; -1: none */

/* The layout of a mask, in host memory: the outputs that share an input, and the position of every partition. */
struct mask_draft {
    const struct matrix *matrix;
    const struct noise *noise;         /* replaces matrix->taps; NULL: the mask is not noise                        */
    int n_groups;
    int *first_term;                   /* [n_groups + 1]                                                            */
    struct draft_terms *terms;         /* [first_term[n_groups]]                                                    */
    int *n_parts, *part_at;            /* [n_levels][n_responses]                                                   */
    int all_parts[TAIL_LEVELS];
};

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
static int groups_make(struct mask_draft *draft)
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

static void draft_free(struct mask_draft *draft)
{
    free(draft->first_term);
    free(draft->terms);
    free(draft->n_parts);
    free(draft->part_at);
    memset(draft, 0, sizeof *draft);
}

static int draft_make(struct mask_draft *draft, const struct gpu_tail *tail, const struct matrix *matrix,
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
        draft_free(draft);
        return fail(HC_ENOMEM, why, "cuda: no host memory for a mask; free some memory");
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
                draft_free(draft);
                return fail(HC_ENOMEM, why, "cuda: the mask has over 2^31 partitions; use fewer or shorter responses");
            }
        }
        draft->all_parts[i] = (int)all;
    }
    return HC_OK;
}

/* Does the head use cells (head_sparse or the FIR) instead of terms? */
static bool has_cells(const struct gpu_tail *tail, const struct mask_draft *draft)
{
    return !tail->n_levels ||
           head_is_sparse((size_t)draft->matrix->n_cells, (size_t)draft->first_term[draft->n_groups], tail->n_out,
                          tail->n_sm);
}

static int chunks_of(const struct gpu_tail *tail) { return (tail->head_taps + HEAD_CHUNK - 1) / HEAD_CHUNK; }

static size_t mask_cut(struct gpu_tail_mask *mask, const struct gpu_tail *tail, const struct mask_draft *draft,
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

/* ---- uploads ----------------------------------------------------------------------------------------------------- */

/* Copies through pinned memory: a copy from other memory waits inside the driver and delays the launches of audio. A
 * full queue delays launches too: hence the wait for the device before each copy. */
cudaError_t gpu_tail_send(const struct gpu_tail *tail, void *to, const void *host, size_t bytes, cudaStream_t stream)
{
    const size_t capacity = gpu_tail_pinned_bytes(tail);
    for (size_t at = 0; at < bytes; at += capacity) {
        const size_t n = bytes - at < capacity ? bytes - at : capacity;
        TAIL_TRY(device_wait(stream));
        memcpy(tail->pinned, (const char *)host + at, n);
        TAIL_TRY(cudaMemcpyAsync((char *)to + at, tail->pinned, n, cudaMemcpyHostToDevice, stream));
    }
    return cudaSuccess;
}

/* Sends the taps and counts of responses first ... first + n - 1. */
static cudaError_t batch_send(const struct gpu_tail *tail, const struct mask_draft *draft, int first, int n,
                              cudaStream_t stream)
{
    const struct matrix *matrix = draft->matrix;
    const size_t stride = (size_t)matrix->n_responses + 1, rows_bytes = n * tail->pitch * sizeof(float);
    float *taps = (float *)tail->pinned;
    int *counts = (int *)(taps + tail->rows * tail->pitch);
    TAIL_TRY(device_wait(stream)); /* the previous batch still reads the pinned memory */
    for (int i = 0; i < tail->n_levels; i++) {
        memcpy(counts + (size_t)2 * i * tail->rows, draft->n_parts + i * stride + first, n * sizeof(int));
        memcpy(counts + (size_t)(2 * i + 1) * tail->rows, draft->part_at + i * stride + first, n * sizeof(int));
    }
    const size_t bytes = (size_t)2 * tail->n_levels * tail->rows * sizeof(int);
    if (bytes) TAIL_TRY(cudaMemcpyAsync(tail->counts, counts, bytes, cudaMemcpyHostToDevice, stream));
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
                              const struct mask_draft *draft, int first, int n, cudaStream_t stream)
{
    const size_t row_bytes = tail->pitch * sizeof(float),
                 head_bytes = (size_t)mask->n_chunks * HEAD_CHUNK * sizeof(float);
    const size_t stride = (size_t)draft->matrix->n_responses + 1;
    TAIL_TRY(batch_send(tail, draft, first, n, stream));
    TAIL_TRY(cudaMemcpy2DAsync(mask->head_taps + (size_t)first * mask->n_chunks * HEAD_CHUNK, head_bytes, tail->taps,
                               row_bytes, tail->head_taps * sizeof(float), n, cudaMemcpyDeviceToDevice, stream));
    for (int i = 0; i < tail->n_levels; i++) {
        struct response_spectra job = {};
        for (int r = 0; r < n; r++)
            if (draft->n_parts[i * stride + first + r] > job.n_parts)
                job.n_parts = draft->n_parts[i * stride + first + r];
        if (!job.n_parts) continue;
        job.taps = tail->taps;
        job.pitch = tail->pitch;
        job.n_rows = n;
        job.n_taps = (int)tail->pitch;
        job.offset = tail->level[i].offset;
        job.hop = tail->level[i].size;
        job.parts_of_row = tail->counts + (size_t)2 * i * tail->rows;
        job.part_at = job.parts_of_row + tail->rows;
        job.log2_P = tail->level[i].log2_size;
        job.spectra = mask->level[i].spectra;
        job.tw = tail->level[i].tw;
        TAIL_TRY(response_spectra_launch(&job, stream));
    }
    return cudaSuccess;
}

/* Makes and sends the tables of one level, without the terms that have no partition in it. terms, first_term: host
 * buffers for the tables. */
static cudaError_t level_tables(struct gpu_tail_mask *mask, const struct gpu_tail *tail,
                                const struct mask_draft *draft, int i_level, struct tail_terms *terms,
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
    const double all_parts = (double)tail->n_in * tail->level[i_level].n_parts; /* groups may share inputs */
    level->product_share =
        gpu_tail_product_share(cell_parts, input_parts < all_parts ? input_parts : all_parts, tail->n_out);
    TAIL_TRY(gpu_tail_send(tail, level->terms, terms, n * sizeof *terms, stream));
    return gpu_tail_send(tail, level->first_term, first_term, (draft->n_groups + 1) * sizeof(int), stream);
}

static const float *head_taps_of(const struct gpu_tail_mask *mask, int response)
{
    return mask->head_taps + (size_t)response * mask->n_chunks * HEAD_CHUNK;
}

static cudaError_t head_terms_send(struct gpu_tail_mask *mask, const struct gpu_tail *tail,
                                   const struct mask_draft *draft, struct head_terms *terms, cudaStream_t stream)
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
    TAIL_TRY(gpu_tail_send(tail, mask->head_terms, terms, draft->first_term[draft->n_groups] * sizeof *terms, stream));
    return gpu_tail_send(tail, mask->head_first, draft->first_term, (draft->n_groups + 1) * sizeof(int), stream);
}

/* Sends the cells of the head. cells, first_cell: host buffers for the tables. The cells of the matrix are sorted by
 * output. */
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
    TAIL_TRY(gpu_tail_send(tail, mask->head_cells, cells, n * sizeof *cells, stream));
    return gpu_tail_send(tail, mask->head_first, first_cell, (tail->n_out + 1) * sizeof(int), stream);
}

static cudaError_t head_tables(struct gpu_tail_mask *mask, const struct gpu_tail *tail,
                               const struct mask_draft *draft, cudaStream_t stream)
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

static cudaError_t mask_fill(struct gpu_tail_mask *mask, const struct gpu_tail *tail,
                               const struct mask_draft *draft, cudaStream_t stream)
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
        e = gpu_tail_send(tail, tail->envelope, draft->noise->envelope, draft->noise->n_taps * sizeof(float), stream);
    for (int r = 0; r < draft->matrix->n_responses && e == cudaSuccess; r += tail->rows) {
        const int left = draft->matrix->n_responses - r;
        e = batch_fill(mask, tail, draft, r, left < tail->rows ? left : tail->rows, stream);
    }
    return e;
}

cudaError_t gpu_tail_masks_load(void)
{
    TAIL_TRY(response_spectra_load());
    return kernels_load(noise_fill);
}

int gpu_tail_mask_make(struct gpu_tail_mask *mask, const struct gpu_tail *tail, const struct matrix *matrix,
                       const struct noise *noise, cudaStream_t stream, struct reason *why)
{
    struct mask_draft draft;
    PASS(draft_make(&draft, tail, matrix, noise, why));
    int rc = device_alloc(&mask->memory, mask_cut(mask, tail, &draft, NULL), "the mask", why);
    if (rc == HC_OK) {
        mask_cut(mask, tail, &draft, mask->memory);
        cudaError_t e = mask_fill(mask, tail, &draft, stream);
        const cudaError_t done = device_wait(stream);
        if (e == cudaSuccess) e = done;
        if (e != cudaSuccess) rc = cuda_fail(e, why, "making a mask");
    }
    draft_free(&draft);
    return rc;
}
