/* far_levels - see far_levels.h. Memory, tables and the order of work; no kernel but the one that makes noise.
 *
 *   step      7  8  9 10 11 12 13 14 15 16
 *   S = tick  f* f* f* f* f* f* f* f* f* f*      f forward, * products, i inverse: all in one step here
 *   S = 2 t   *i f* *i f* *i f* *i f* *i f*
 *   S = 8 t   *i f* ** ** ** ** ** ** *i f*      a matrix: products fill the line; independent channels: a third each
 *
 * Three launches a step at most, each for all levels: forward, then products, then inverse; so slices that follow one
 * another may share a step.
 */
#include "far_levels.h"

#include "device_memory.h"
#include "partition.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    BATCH_FLOATS = 1 << 22,     /* of responses that are transformed at once: 16 MiB                                */
    CHEAP_BYTES = 48 << 20      /* of spectra that a new mask may read twice in one go: 25 us on an H200            */
};

/* Bytes moved for a bin: a transform counts half as much again for its arithmetic. A product reads the response's from
 * memory and a quarter of the input's from L2, where it has come from memory once for all the responses to it. */
enum { FORWARD_COST = 24, ROUTE_COST = 10, INPUT_COST = 8, SUM_COST = 8, INVERSE_COST = 18 };

static double products_cost(double route_parts, double input_parts, int n_out)
{
    return ROUTE_COST * route_parts + INPUT_COST * input_parts + (double)SUM_COST * n_out;
}

static int log2_of(int n)
{
    int log2 = 0;
    while (1 << log2 < n) log2++;
    return log2;
}

/* ---- the state --------------------------------------------------------------------------------------------------- */

static void level_add(struct far *far, int offset, int size, int n_parts, double routes)
{
    struct far_level *level = &far->level[far->n_levels++];
    level->offset = offset;
    level->size = size;
    level->log2_size = log2_of(size);
    level->n_parts = n_parts;
    level->n_slices = size / far->tick;
    level->n_slots = n_parts + 1;
    const double forward = (double)FORWARD_COST * far->n_in;
    const double inputs = routes < far->n_in ? routes : far->n_in; /* that have a route */
    const double products = products_cost(n_parts * routes, n_parts * inputs, far->n_out);
    const double rest = products + (double)INVERSE_COST * far->n_out;
    level->forward_share = forward / (forward + rest);
}

int far_open(struct far *far, const struct plan *plan, const hc_config *config, int n_sm, char *why, size_t cap)
{
    memset(far, 0, sizeof *far);
    far->n_in = config->n_in;
    far->n_out = config->n_out;
    far->n_sm = n_sm;
    far->tick = plan->tick;
    far->max_taps = plan->max_taps;
    far->near_taps = plan->direct ? plan->near_taps : plan->partition;
    const double routes = config->n_routes               ? config->n_routes
                          : config->n_in > config->n_out ? config->n_in
                                                         : config->n_out;
    if (plan->n_far + !plan->direct > FAR_LEVELS)
        return fail(HC_EINVAL, why, cap, "cuda: a plan of %d far levels; %d are possible", plan->n_far, FAR_LEVELS - 1);
    if (!plan->direct) level_add(far, plan->partition, plan->partition, plan->n_partitions - 1, routes);
    for (int i = 0; i < plan->n_far; i++) {
        const struct plan_level *level = &plan->far[i];
        if (level->size < FAR_SIZE_LEAST || level->size > FAR_SIZE_MOST || (level->size & (level->size - 1)))
            return fail(HC_EINVAL, why, cap, "cuda: a far level of %d frames: it must be a power of two from %d to %d",
                        level->size, FAR_SIZE_LEAST, FAR_SIZE_MOST);
        level_add(far, level->offset, level->size, level->n_partitions, routes);
    }
    const size_t near_taps = (size_t)(far->near_taps + NEAR_CHUNK - 1) / NEAR_CHUNK * NEAR_CHUNK;
    far->pitch = ((size_t)plan->max_taps + NEAR_CHUNK - 1) / NEAR_CHUNK * NEAR_CHUNK;
    if (far->pitch < near_taps) far->pitch = near_taps;
    size_t rows = BATCH_FLOATS / far->pitch, pairs = (size_t)far->n_in * far->n_out;
    if (rows > pairs) rows = pairs;
    far->rows = rows > 1 ? (int)rows : 1;
    return HC_OK;
}

size_t far_ring_frames(const struct far *far, int block)
{
    size_t most = (size_t)(far->near_taps + NEAR_CHUNK - 1) / NEAR_CHUNK * NEAR_CHUNK + NEAR_CHUNK;
    for (int i = 0; i < far->n_levels; i++) {
        const struct far_level *level = &far->level[i];
        const size_t slices = (size_t)(level->forward_share * level->n_slices) + 1; /* while these run time goes on */
        const size_t frames = 2 * (size_t)level->size + slices * far->tick;
        if (frames > most) most = frames;
    }
    return most + block;
}

static size_t counts_bytes(const struct far *far) { return (size_t)2 * far->n_levels * far->rows * sizeof(int); }

size_t far_cut(struct far *far, void *base)
{
    size_t used = 0;
    for (int i = 0; i < far->n_levels; i++) {
        struct far_level *level = &far->level[i];
        level->tw = (float2 *)device_cut(base, &used, level->size * sizeof(float2));
        level->spectra =
            (float2 *)device_cut(base, &used, (size_t)far->n_in * level->n_slots * level->size * sizeof(float2));
    }
    far->near_scratch = device_cut(base, &used, near_scratch_bytes(far->n_sm));
    far->taps = (float *)device_cut(base, &used, far->rows * far->pitch * sizeof(float));
    far->envelope = (float *)device_cut(base, &used, far->pitch * sizeof(float));
    far->counts = (int *)device_cut(base, &used, counts_bytes(far));
    return used;
}

size_t far_pinned_bytes(const struct far *far) { return far->rows * far->pitch * sizeof(float) + counts_bytes(far); }

/* ---- noise ------------------------------------------------------------------------------------------------------- */

/* taps[row][k] = noise of response first + row; zeros behind it. grid: taps x rows */
static __global__ void noise_fill(float *taps, size_t pitch, int n_taps, const float *envelope, uint64_t seed,
                                  int first)
{
    const struct noise_key key = noise_key_of(seed, (uint32_t)(first + (int)blockIdx.y));
    const size_t k = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (k < pitch)
        taps[blockIdx.y * pitch + k] = k < (size_t)n_taps ? noise_tap(key, (uint32_t)k, envelope[k]) : 0.0f;
}

/* ---- masks ------------------------------------------------------------------------------------------------------- */

/* Outputs 4 g ... 4 g + 3 as one list of inputs. at: the next cell of each; the terms go to `to`, NULL = count them. */
static int group_merge(const struct matrix *matrix, int at[FAR_OUTS], const int end[FAR_OUTS], struct draft_terms *to)
{
    int n = 0;
    for (;; n++) {
        int in = INT32_MAX;
        for (int o = 0; o < FAR_OUTS; o++)
            if (at[o] < end[o] && matrix->cells[at[o]].in < in) in = matrix->cells[at[o]].in;
        if (in == INT32_MAX) return n;
        if (to) to[n].in = in;
        for (int o = 0; o < FAR_OUTS; o++) {
            const bool is = at[o] < end[o] && matrix->cells[at[o]].in == in;
            if (to) to[n].response[o] = is ? matrix->cells[at[o]].response : -1;
            at[o] += is;
        }
    }
}

/* Two passes over the cells: draft->terms is NULL in the first. */
static int groups_make(struct far_draft *draft)
{
    const struct matrix *matrix = draft->matrix;
    int c = 0, n = 0;
    for (int g = 0; g < draft->n_groups; g++) {
        int at[FAR_OUTS], end[FAR_OUTS];
        for (int o = 0; o < FAR_OUTS; o++) {
            at[o] = c;
            while (c < matrix->n_cells && matrix->cells[c].out == g * FAR_OUTS + o) c++;
            end[o] = c;
        }
        draft->first[g] = n;
        n += group_merge(matrix, at, end, draft->terms ? draft->terms + n : NULL);
    }
    return draft->first[draft->n_groups] = n;
}

void far_draft_free(struct far_draft *draft)
{
    free(draft->first);
    free(draft->terms);
    free(draft->n_parts);
    free(draft->part_at);
    memset(draft, 0, sizeof *draft);
}

int far_draft_make(struct far_draft *draft, const struct far *far, const struct matrix *matrix,
                   const struct noise *noise, char *why, size_t cap)
{
    const size_t n = (size_t)matrix->n_responses + 1;
    memset(draft, 0, sizeof *draft);
    draft->matrix = matrix;
    draft->noise = noise;
    draft->n_groups = (far->n_out + FAR_OUTS - 1) / FAR_OUTS;
    draft->first = (int *)malloc((draft->n_groups + 1) * sizeof(int));
    draft->n_parts = (int *)malloc(far->n_levels * n * sizeof(int));
    draft->part_at = (int *)malloc(far->n_levels * n * sizeof(int));
    if (draft->first && draft->n_parts && draft->part_at) {
        const int n_terms = groups_make(draft);
        draft->terms = (struct draft_terms *)malloc((n_terms + 1) * sizeof *draft->terms);
    }
    if (!draft->terms) {
        far_draft_free(draft);
        return fail(HC_ENOMEM, why, cap, "cuda: out of memory for a mask");
    }
    groups_make(draft);
    for (int i = 0; i < far->n_levels; i++) {
        const struct far_level *level = &far->level[i];
        int64_t all = 0;
        for (int r = 0; r < matrix->n_responses; r++) {
            const int left = matrix->n_taps[r] - level->offset;
            int parts = left <= 0 ? 0 : (left - 1) / level->size + 1;
            if (parts > level->n_parts) parts = level->n_parts;
            draft->n_parts[i * n + r] = parts;
            draft->part_at[i * n + r] = (int)all;
            all += parts;
            if (all > INT32_MAX) {
                far_draft_free(draft);
                return fail(HC_ENOMEM, why, cap,
                            "cuda: a mask of over 2^31 partitions; use fewer or shorter responses");
            }
        }
        draft->all_parts[i] = (int)all;
    }
    return HC_OK;
}

static bool is_sparse(const struct far *far, const struct far_draft *draft)
{
    return near_is_sparse((size_t)draft->matrix->n_cells, (size_t)draft->first[draft->n_groups], far->n_out, far->n_sm);
}

static int chunks_of(const struct far *far) { return (far->near_taps + NEAR_CHUNK - 1) / NEAR_CHUNK; }

size_t far_mask_cut(struct far_mask *mask, const struct far *far, const struct far_draft *draft, void *base)
{
    const size_t n_terms = draft->first[draft->n_groups], n_chunks = chunks_of(far);
    size_t used = 0;
    if (is_sparse(far, draft)) {
        const size_t n_routes = draft->matrix->n_cells;
        mask->near_routes = (struct near_route *)device_cut(base, &used, n_routes * sizeof *mask->near_routes);
        mask->near_first = (int *)device_cut(base, &used, (far->n_out + 1) * sizeof(int));
    } else {
        mask->near_terms = (struct near_terms *)device_cut(base, &used, n_terms * sizeof *mask->near_terms);
        mask->near_first = (int *)device_cut(base, &used, (draft->n_groups + 1) * sizeof(int));
    }
    mask->near_taps =
        (float *)device_cut(base, &used, draft->matrix->n_responses * n_chunks * NEAR_CHUNK * sizeof(float));
    mask->spectra_bytes = 0;
    for (int i = 0; i < far->n_levels; i++) {
        struct far_mask_level *level = &mask->level[i];
        const size_t size = far->level[i].size, bytes = draft->all_parts[i] * size * sizeof(float2);
        level->terms = (struct far_terms *)device_cut(base, &used, n_terms * sizeof *level->terms);
        level->first = (int *)device_cut(base, &used, (draft->n_groups + 1) * sizeof(int));
        level->spectra = (float2 *)device_cut(base, &used, bytes);
        level->sums = (float2 *)device_cut(base, &used, far->n_out * size * sizeof(float2));
        level->due = (float *)device_cut(base, &used, far->n_out * 2 * size * sizeof(float));
        mask->spectra_bytes += bytes;
    }
    return used;
}

#define TRY(call)                                     \
    do {                                              \
        cudaError_t try_error = (call);               \
        if (try_error != cudaSuccess) return try_error; \
    } while (0)

/* Through pinned memory: a copy from other memory waits inside the driver, and holds up the launches of audio. Beside audio
 * the thread that makes a mask is never far ahead of the device either: a full queue does the same. */
static cudaError_t send(const struct far *far, void *to, const void *host, size_t bytes, cudaStream_t stream)
{
    const size_t room = far_pinned_bytes(far);
    for (size_t at = 0; at < bytes; at += room) {
        const size_t n = bytes - at < room ? bytes - at : room;
        TRY(device_wait(stream));
        memcpy(far->pinned, (const char *)host + at, n);
        TRY(cudaMemcpyAsync((char *)to + at, far->pinned, n, cudaMemcpyHostToDevice, stream));
    }
    return cudaSuccess;
}

/* Responses first ... first + n - 1: their taps and counts to the device. */
static cudaError_t batch_send(const struct far *far, const struct far_draft *draft, int first, int n,
                              cudaStream_t stream)
{
    const struct matrix *matrix = draft->matrix;
    const size_t stride = (size_t)matrix->n_responses + 1, rows_bytes = n * far->pitch * sizeof(float);
    float *taps = (float *)far->pinned;
    int *counts = (int *)(taps + far->rows * far->pitch);
    TRY(device_wait(stream)); /* the batch before */
    for (int i = 0; i < far->n_levels; i++) {
        memcpy(counts + (size_t)2 * i * far->rows, draft->n_parts + i * stride + first, n * sizeof(int));
        memcpy(counts + (size_t)(2 * i + 1) * far->rows, draft->part_at + i * stride + first, n * sizeof(int));
    }
    TRY(cudaMemcpyAsync(far->counts, counts, counts_bytes(far), cudaMemcpyHostToDevice, stream));
    if (draft->noise) {
        noise_fill<<<dim3((unsigned)((far->pitch + 255) / 256), n), 256, 0, stream>>>(
            far->taps, far->pitch, draft->noise->n_taps, far->envelope, draft->noise->seed, first);
        return cudaGetLastError();
    }
    for (int r = 0; r < n; r++) {
        const size_t used = matrix->n_taps[first + r];
        memcpy(taps + r * far->pitch, matrix->taps[first + r], used * sizeof(float));
        memset(taps + r * far->pitch + used, 0, (far->pitch - used) * sizeof(float));
    }
    return cudaMemcpyAsync(far->taps, taps, rows_bytes, cudaMemcpyHostToDevice, stream);
}

/* Responses first ... first + n - 1: their near taps and spectra. */
static cudaError_t batch_fill(struct far_mask *mask, const struct far *far, const struct far_draft *draft, int first,
                              int n, cudaStream_t stream)
{
    const size_t row_bytes = far->pitch * sizeof(float),
                 near_bytes = (size_t)mask->n_chunks * NEAR_CHUNK * sizeof(float);
    const size_t stride = (size_t)draft->matrix->n_responses + 1;
    TRY(batch_send(far, draft, first, n, stream));
    TRY(cudaMemcpy2DAsync(mask->near_taps + (size_t)first * mask->n_chunks * NEAR_CHUNK, near_bytes, far->taps,
                          row_bytes, far->near_taps * sizeof(float), n, cudaMemcpyDeviceToDevice, stream));
    for (int i = 0; i < far->n_levels; i++) {
        struct far_responses job = {};
        for (int r = 0; r < n; r++)
            if (draft->n_parts[i * stride + first + r] > job.most_parts)
                job.most_parts = draft->n_parts[i * stride + first + r];
        if (!job.most_parts) continue;
        job.taps = far->taps;
        job.pitch = far->pitch;
        job.n_rows = n;
        job.n_parts = far->counts + (size_t)2 * i * far->rows;
        job.part_at = job.n_parts + far->rows;
        job.offset = far->level[i].offset;
        job.log2_size = far->level[i].log2_size;
        job.spectra = mask->level[i].spectra;
        job.tw = far->level[i].tw;
        TRY(far_responses_launch(&job, stream));
    }
    return cudaSuccess;
}

/* The tables of one level; terms and first: room for them, with those that have no partition here left out. */
static cudaError_t level_tables(struct far_mask *mask, const struct far *far, const struct far_draft *draft,
                                int i_level, struct far_terms *terms, int *first, cudaStream_t stream)
{
    struct far_mask_level *level = &mask->level[i_level];
    const size_t row = i_level * ((size_t)draft->matrix->n_responses + 1), size = far->level[i_level].size;
    const int *n_parts = draft->n_parts + row, *part_at = draft->part_at + row;
    int n = 0;
    double routes = 0, inputs = 0;
    for (int g = 0; g < draft->n_groups; g++) {
        first[g] = n;
        for (int i = draft->first[g]; i < draft->first[g + 1]; i++) {
            struct far_terms *to = &terms[n];
            memset(to, 0, sizeof *to);
            to->in = draft->terms[i].in;
            for (int o = 0; o < FAR_OUTS; o++) {
                const int r = draft->terms[i].response[o];
                if (r < 0) continue;
                to->h[o] = level->spectra + part_at[r] * size;
                to->n_parts[o] = n_parts[r];
                if (n_parts[r] > to->most_parts) to->most_parts = n_parts[r];
                routes += n_parts[r];
            }
            inputs += to->most_parts;
            n += to->most_parts > 0;
            if (to->most_parts > level->most_parts) level->most_parts = to->most_parts;
        }
        if (n - first[g] > level->most_terms) level->most_terms = n - first[g];
    }
    first[draft->n_groups] = n;
    const double all_inputs = (double)far->n_in * far->level[i_level].n_parts; /* several groups may read the same */
    const double products = products_cost(routes, inputs < all_inputs ? inputs : all_inputs, far->n_out);
    level->product_share = products / (products + (double)INVERSE_COST * far->n_out);
    TRY(send(far, level->terms, terms, n * sizeof *terms, stream));
    return send(far, level->first, first, (draft->n_groups + 1) * sizeof(int), stream);
}

static const float *near_taps_of(const struct far_mask *mask, int response)
{
    return mask->near_taps + (size_t)response * mask->n_chunks * NEAR_CHUNK;
}

static cudaError_t near_terms_send(struct far_mask *mask, const struct far *far, const struct far_draft *draft,
                                   struct near_terms *terms, cudaStream_t stream)
{
    for (int g = 0; g < draft->n_groups; g++) {
        const int n = draft->first[g + 1] - draft->first[g];
        if (n > mask->most_terms) mask->most_terms = n;
        for (int i = draft->first[g]; i < draft->first[g + 1]; i++) {
            terms[i].in = draft->terms[i].in;
            for (int o = 0; o < FAR_OUTS; o++) {
                const int r = draft->terms[i].response[o];
                terms[i].taps[o] = r < 0 ? NULL : near_taps_of(mask, r);
            }
        }
    }
    TRY(send(far, mask->near_terms, terms, draft->first[draft->n_groups] * sizeof *terms, stream));
    return send(far, mask->near_first, draft->first, (draft->n_groups + 1) * sizeof(int), stream);
}

/* The cells, which lie by outputs as they are. */
static cudaError_t near_routes_send(struct far_mask *mask, const struct far *far, const struct matrix *matrix,
                                    struct near_route *routes, int *first, cudaStream_t stream)
{
    int n = 0;
    for (int out = 0; out <= far->n_out; out++) {
        first[out] = n;
        for (; n < matrix->n_cells && matrix->cells[n].out == out; n++) {
            routes[n].taps = near_taps_of(mask, matrix->cells[n].response);
            routes[n].in = matrix->cells[n].in;
        }
    }
    TRY(send(far, mask->near_routes, routes, n * sizeof *routes, stream));
    return send(far, mask->near_first, first, (far->n_out + 1) * sizeof(int), stream);
}

static cudaError_t near_tables(struct far_mask *mask, const struct far *far, const struct far_draft *draft,
                               cudaStream_t stream)
{
    const size_t n_terms = draft->first[draft->n_groups], n_routes = draft->matrix->n_cells;
    cudaError_t e = cudaErrorMemoryAllocation;
    if (mask->near_routes) {
        struct near_route *routes = (struct near_route *)calloc(n_routes + 1, sizeof *routes);
        int *first = (int *)calloc(far->n_out + 1, sizeof *first);
        if (routes && first) e = near_routes_send(mask, far, draft->matrix, routes, first, stream);
        free(first);
        free(routes);
    } else {
        struct near_terms *terms = (struct near_terms *)calloc(n_terms + 1, sizeof *terms);
        if (terms) e = near_terms_send(mask, far, draft, terms, stream);
        free(terms);
    }
    return e;
}

cudaError_t far_mask_fill(struct far_mask *mask, const struct far *far, const struct far_draft *draft,
                          cudaStream_t stream)
{
    const size_t n_terms = draft->first[draft->n_groups];
    struct far_terms *terms = (struct far_terms *)calloc(n_terms + 1, sizeof *terms);
    int *first = (int *)calloc(draft->n_groups + 1, sizeof(int));
    cudaError_t e = terms && first ? cudaSuccess : cudaErrorMemoryAllocation;
    mask->n_groups = draft->n_groups;
    mask->n_chunks = chunks_of(far);
    if (e == cudaSuccess) e = near_tables(mask, far, draft, stream);
    if (e == cudaSuccess) /* behind the near taps a row goes on with zeros */
        e = cudaMemsetAsync(mask->near_taps, 0,
                            (size_t)draft->matrix->n_responses * mask->n_chunks * NEAR_CHUNK * sizeof(float), stream);
    for (int i = 0; i < far->n_levels && e == cudaSuccess; i++)
        e = level_tables(mask, far, draft, i, terms, first, stream);
    free(first);
    free(terms);
    if (e == cudaSuccess && draft->noise)
        e = send(far, far->envelope, draft->noise->envelope, draft->noise->n_taps * sizeof(float), stream);
    for (int r = 0; r < draft->matrix->n_responses && e == cudaSuccess; r += far->rows) {
        const int left = draft->matrix->n_responses - r;
        e = batch_fill(mask, far, draft, r, left < far->rows ? left : far->rows, stream);
    }
    return e;
}

cudaError_t far_load(struct far *far, int device, cudaStream_t stream)
{
    struct cudaFuncAttributes a;
    TRY(cudaFuncGetAttributes(&a, noise_fill));
    TRY(far_transform_load(device));
    TRY(far_product_load());
    TRY(near_load());
    TRY(cudaMemsetAsync(far->near_scratch, 0, near_scratch_bytes(far->n_sm), stream));
    float2 *tw = (float2 *)malloc(FAR_SIZE_MOST * sizeof *tw);
    if (!tw) return cudaErrorMemoryAllocation;
    cudaError_t e = cudaSuccess;
    for (int i = 0; i < far->n_levels && e == cudaSuccess; i++) {
        part_twiddles(tw, far->level[i].size);
        e = send(far, far->level[i].tw, tw, far->level[i].size * sizeof *tw, stream);
    }
    free(tw);
    return e;
}

/* ---- the line of work -------------------------------------------------------------------------------------------- */

/* How many of n pieces are done when a stage is at `at`: 0 or less = not begun, 1 or more = done. */
static int share_done(int n, double at)
{
    return at >= 1 ? n : at <= 0 ? 0 : (int)(n * at);
}

/* Done after slice k of a window; k = -1: nothing. A stage begins only in a slice in which the one before is finished. */
static int forwards_done(const struct far *far, const struct far_level *level, int k)
{
    if (k == level->n_slices - 1) return far->n_in;
    return share_done(far->n_in, (k + 1.0) / level->n_slices / level->forward_share);
}

static double line_at(const struct far_level *level, int k)
{
    return ((k + 1.0) / level->n_slices - level->forward_share) / (1 - level->forward_share);
}

static int units_of(const struct far_level *level, const struct far_mask *mask)
{
    return (level->size + FAR_BINS - 1) / FAR_BINS * mask->n_groups;
}

static int products_done(const struct far_level *level, const struct far_mask *mask, int i, int k)
{
    const int n = units_of(level, mask);
    return k == level->n_slices - 1 ? n : share_done(n, line_at(level, k) / mask->level[i].product_share);
}

static int inverses_done(const struct far *far, const struct far_mask *mask, int i, int k)
{
    const struct far_level *level = &far->level[i];
    const double share = mask->level[i].product_share;
    if (k == level->n_slices - 1) return far->n_out;
    return share_done(far->n_out, (line_at(level, k) - share) / (1 - share));
}

/* What a mask has to do in one go: units and outputs of windows. */
struct run {
    struct far_products products;
    struct far_inverses inverses;
};

/* Window `window` of level i: the work behind slice k0 up to the end of slice k1. */
static void run_add(struct run *run, const struct far *far, const struct far_mask *mask, int i, int64_t window, int k0,
                    int k1)
{
    const struct far_level *level = &far->level[i];
    const struct far_mask_level *of = &mask->level[i];
    if (!of->most_terms) return; /* all its responses are shorter */
    const int unit = products_done(level, mask, i, k0), units = products_done(level, mask, i, k1) - unit;
    const int out = inverses_done(far, mask, i, k0), outs = inverses_done(far, mask, i, k1) - out;
    if (units > 0) {
        struct far_product *to = &run->products.level[run->products.n++];
        to->terms = of->terms;
        to->first = of->first;
        to->x = level->spectra;
        to->sums = of->sums;
        to->log2_size = level->log2_size;
        to->slot = (int)(window % level->n_slots);
        to->n_slots = level->n_slots;
        to->n_windows = window < level->n_parts ? (int)window : level->n_parts;
        to->n_groups = mask->n_groups;
        to->n_out = far->n_out;
        to->first_unit = unit;
        to->n_units = units;
        to->most_terms = of->most_terms;
        to->most_parts = of->most_parts;
    }
    if (outs > 0) {
        struct far_inverse *to = &run->inverses.level[run->inverses.n++];
        to->tw = level->tw;
        to->sums = of->sums;
        to->due = of->due;
        to->log2_size = level->log2_size;
        to->first_out = out;
        to->n_out = outs;
        to->at = (unsigned)((window + 1) * level->size - far->tick) & (2 * level->size - 1);
    }
}

static cudaError_t run_launch(struct run *run, const struct far *far, cudaStream_t stream)
{
    TRY(far_product_launch(&run->products, far->n_sm, stream));
    return far_inverse_launch(&run->inverses, stream);
}

/* ---- the driver -------------------------------------------------------------------------------------------------- */

void far_reset(struct far *far)
{
    far->step = 0;
    for (int i = 0; i < FAR_WARM; i++)
        for (int l = 0; far->warm[i] && l < far->n_levels; l++) far->warm[i]->level[l].from_window = 1;
}

cudaError_t far_step(struct far *far, const float *ring, unsigned ring_mask, cudaStream_t stream)
{
    const int64_t w = ++far->step;
    struct far_forwards job = {};
    job.x = ring;
    job.ring_mask = ring_mask;
    for (int i = far->n_levels - 1; i >= 0; i--) { /* the longest first */
        const struct far_level *level = &far->level[i];
        const int64_t window = w / level->n_slices;
        const int k = (int)(w % level->n_slices), ch = forwards_done(far, level, k - 1);
        const int n_ch = forwards_done(far, level, k) - ch;
        if (window < 1 || n_ch < 1) continue;
        struct far_forward *to = &job.level[job.n++];
        to->tw = level->tw;
        to->spectra = level->spectra;
        to->log2_size = level->log2_size;
        to->first_ch = ch;
        to->n_ch = n_ch;
        to->slot = (int)(window % level->n_slots);
        to->n_slots = level->n_slots;
        to->from = (unsigned)((window - 2) * level->size);
    }
    TRY(far_forward_launch(&job, stream));
    for (int m = 0; m < FAR_WARM; m++) {
        const struct far_mask *mask = far->warm[m];
        struct run run = {};
        for (int i = far->n_levels - 1; mask && i >= 0; i--) {
            const int n = far->level[i].n_slices, k = (int)(w % n);
            if (w / n >= mask->level[i].from_window) run_add(&run, far, mask, i, w / n, k - 1, k);
        }
        TRY(run_launch(&run, far, stream));
    }
    return cudaSuccess;
}

cudaError_t far_catch_up(struct far *far, struct far_mask *mask, cudaStream_t stream)
{
    const int64_t w = far->step;
    struct run last = {}, now = {}; /* the window that is heard now, and the one under way */
    for (int i = far->n_levels - 1; i >= 0; i--) {
        const int n = far->level[i].n_slices, k = (int)(w % n);
        const int64_t window = w / n;
        if (window > 1 && k < n - 1) run_add(&last, far, mask, i, window - 1, -1, n - 1);
        if (window > 0) run_add(&now, far, mask, i, window, -1, k);
        mask->level[i].from_window = 1;
    }
    TRY(run_launch(&last, far, stream));
    return run_launch(&now, far, stream);
}

static bool is_warm(const struct far *far, const struct far_mask *mask)
{
    for (int i = 0; i < FAR_WARM; i++)
        if (far->warm[i] == mask) return true;
    return false;
}

cudaError_t far_warm(struct far *far, struct far_mask *mask, cudaStream_t stream)
{
    for (int i = 0; i < FAR_WARM && !is_warm(far, mask); i++)
        if (!far->warm[i]) far->warm[i] = mask;
    if (mask->spectra_bytes <= CHEAP_BYTES) return far_catch_up(far, mask, stream);
    for (int i = 0; i < far->n_levels; i++) mask->level[i].from_window = far->step / far->level[i].n_slices + 1;
    return cudaSuccess;
}

/* The window of a level that is heard in this tick; less than 1: silence from before the stream. */
static int64_t window_heard(const struct far *far, const struct far_level *level)
{
    return (far->step + 1) / level->n_slices - 1;
}

bool far_ready(const struct far *far, const struct far_mask *mask)
{
    if (!is_warm(far, mask)) return false;
    for (int i = 0; i < far->n_levels; i++) {
        const int64_t heard = window_heard(far, &far->level[i]);
        if (heard > 0 && heard < mask->level[i].from_window) return false;
    }
    return true;
}

void far_rest(struct far *far, struct far_mask *mask)
{
    for (int i = 0; i < FAR_WARM; i++)
        if (far->warm[i] == mask) far->warm[i] = NULL;
}

cudaError_t far_play(struct far *far, struct far_mask *mask, const float *ring, unsigned ring_mask, int64_t from, int n,
                     float *y, size_t y_pitch, int first_group, int n_groups, cudaStream_t stream)
{
    if (!far_ready(far, mask)) TRY(far_catch_up(far, mask, stream));
    struct near_job job = {};
    job.x = ring;
    job.ring_mask = ring_mask;
    job.pos = (unsigned)from;
    job.terms = mask->near_terms;
    job.routes = mask->near_routes;
    job.first = job.first_route = mask->near_first; /* of terms or of routes */
    job.n_chunks = mask->n_chunks;
    job.most_terms = mask->most_terms;
    job.y = y;
    job.y_pitch = y_pitch;
    job.n = n;
    job.n_out = far->n_out;
    job.first_group = first_group;
    job.n_groups = n_groups;
    for (int i = 0; i < far->n_levels; i++) {
        const struct far_level *level = &far->level[i];
        if (!mask->level[i].most_terms || window_heard(far, level) < 1) continue;
        struct near_due *due = &job.due[job.n_due++];
        due->frames = mask->level[i].due;
        due->mask = 2 * level->size - 1;
        due->at = (unsigned)from & due->mask;
    }
    job.scratch = far->near_scratch;
    job.n_sm = far->n_sm;
    return near_launch(&job, stream);
}
