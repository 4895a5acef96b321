/* tail_levels - the memory and the schedule of the tail levels.
 *
 *   step      7  8  9 10 11 12 13 14 15 16
 *   S = hop   f* f* f* f* f* f* f* f* f* f*      f forward, * products, i inverse; here all three in each step
 *   S = 2 hop *i f* *i f* *i f* *i f* *i f*
 *   S = 8 hop *i f* ** ** ** ** ** ** *i f*     in a matrix mostly products; with independent channels a third each
 *
 * A step has at most three launches, each for all levels: forward, then products, then inverse. So one step may contain
 * the last forward transforms and the first products of a window.
 */
#include "tail_levels.h"

#include "cuda_error.h"
#include "device_memory.h"
#include "fft_factors.h"
#include "tail_masks.h"

#include <string.h>

enum {
    BATCH_FLOATS = 1 << 22,     /* max. taps of a batch of responses: 16 MiB                                        */
    CHEAP_BYTES = 48 << 20      /* max. spectra of a mask that catches up at once: two reads of them (25 us, H200)  */
};

/* The cost of a bin, in bytes moved; a transform counts 50 % more, for its arithmetic. A product reads the bin of the
 * response from memory, and a quarter of the bin of the input from L2. L2 reads the input's bin from memory once, for
 * all responses. */
enum { FORWARD_COST = 24, CELL_COST = 10, INPUT_COST = 8, SUM_COST = 8, INVERSE_COST = 18 };

static double products_cost(double cell_parts, double input_parts, int n_out)
{
    return CELL_COST * cell_parts + INPUT_COST * input_parts + (double)SUM_COST * n_out;
}

double gpu_tail_product_share(double cell_parts, double input_parts, int n_out)
{
    const double products = products_cost(cell_parts, input_parts, n_out);
    return products / (products + (double)INVERSE_COST * n_out);
}

/* ---- the state --------------------------------------------------------------------------------------------------- */

static int level_add(struct gpu_tail *tail, int offset, int size, int n_parts, double routes, struct reason *why)
{
    if (tail->n_levels == TAIL_LEVELS)
        return fail(HC_EINVAL, why, "cuda: the plan has more than %d levels; use the CPU", TAIL_LEVELS);
    if (size < TAIL_SIZE_MIN || size > TAIL_SIZE_MAX || (size & (size - 1)))
        return fail(HC_EINVAL, why, "cuda: a level has %d frames, not a power of two from %d to %d; use the CPU", size,
                    TAIL_SIZE_MIN, TAIL_SIZE_MAX);
    struct gpu_tail_level *level = &tail->level[tail->n_levels++];
    level->offset = offset;
    level->size = size;
    level->log2_size = log2_of(size);
    level->n_parts = n_parts;
    level->n_slices = size / tail->hop;
    level->n_entries = n_parts + 1;
    const double forward = (double)FORWARD_COST * tail->n_in;
    const double inputs = routes < tail->n_in ? routes : tail->n_in; /* inputs that have a route */
    const double products = products_cost(n_parts * routes, n_parts * inputs, tail->n_out);
    const double rest = products + (double)INVERSE_COST * tail->n_out;
    level->forward_share = forward / (forward + rest);
    return HC_OK;
}

/* The number of frames of the ring: input history and one call. */
static size_t ring_frames(const struct gpu_tail *tail, int block)
{
    size_t max_frames = (size_t)(tail->head_taps + HEAD_CHUNK - 1) / HEAD_CHUNK * HEAD_CHUNK + HEAD_CHUNK;
    for (int i = 0; i < tail->n_levels; i++) {
        const struct gpu_tail_level *level = &tail->level[i];
        const size_t slices = (size_t)(level->forward_share * level->n_slices) + 1; /* slices with forwards */
        const size_t frames = 2 * (size_t)level->size + slices * tail->hop;
        if (frames > max_frames) max_frames = frames;
    }
    return max_frames + block;
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
    tail->n_behind = tail->n_levels;
    if (plan->whole_hops) PASS(level_add(tail, 0, plan->partition, 1, routes, why));
    if (!tail->n_levels) tail->hop = 1 << 30; /* no call is cut */
    tail->y_pitch = (size_t)plan->block;
    tail->ring_mask = 1;
    while (tail->ring_mask + (size_t)1 < ring_frames(tail, plan->block)) tail->ring_mask = 2 * tail->ring_mask + 1;
    const size_t head_taps = (size_t)(tail->head_taps + HEAD_CHUNK - 1) / HEAD_CHUNK * HEAD_CHUNK;
    tail->pitch = ((size_t)plan->max_taps + HEAD_CHUNK - 1) / HEAD_CHUNK * HEAD_CHUNK;
    if (tail->pitch < head_taps) tail->pitch = head_taps;
    size_t rows = BATCH_FLOATS / tail->pitch, pairs = (size_t)tail->n_in * tail->n_out;
    if (rows > pairs) rows = pairs;
    if (rows > 65535) rows = 65535; /* of a grid's y */
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
        level->tw = (float2 *)device_cut(base, &used, fft_factors_bytes(level->log2_size));
        level->spectra =
            (float2 *)device_cut(base, &used, (size_t)tail->n_in * level->n_entries * level->size * sizeof(float2));
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

cudaError_t gpu_tail_load(struct gpu_tail *tail, cudaStream_t stream)
{
    TAIL_TRY(gpu_tail_masks_load());
    TAIL_TRY(tail_transform_load());
    TAIL_TRY(tail_product_load());
    TAIL_TRY(tail->n_levels ? head_load() : fir_load());
    TAIL_TRY(cudaMemsetAsync(tail->scratch, 0, scratch_bytes(tail), stream));
    for (int i = 0; i < tail->n_levels; i++)
        TAIL_TRY(fft_factors_make(tail->level[i].tw, tail->level[i].log2_size, stream));
    return cudaSuccess;
}

/* ---- which slice has which work ---------------------------------------------------------------------------------- */

/* The number of a stage's n items that are done when its progress is `at` (0: the stage begins, 1: it is complete). */
static int share_done(int n, double at)
{
    return at >= 1 ? n : at <= 0 ? 0 : (int)(n * at);
}

/* The stages of a window are forward, products, inverse; each begins in the slice in which the previous stage ends. The
 * next functions return the number of items that are done after slice k; k = -1: before the first slice. */
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

static int units_of(const struct gpu_tail_level *level, int n_groups)
{
    return (level->size + TAIL_BINS - 1) / TAIL_BINS * n_groups;
}

static int products_done(const struct gpu_tail_level *level, const struct gpu_tail_mask *mask, int i, int k)
{
    const int n = units_of(level, mask->n_groups);
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

static void forward_add(struct tail_forwards *job, const struct gpu_tail_level *level, int64_t window, int first_ch,
                        int n_ch)
{
    struct tail_forward *to = &job->level[job->n++];
    to->tw = level->tw;
    to->spectra = level->spectra;
    to->log2_size = level->log2_size;
    to->first_ch = first_ch;
    to->n_ch = n_ch;
    to->entry = (int)(window % level->n_entries);
    to->n_entries = level->n_entries;
    to->from = (unsigned)((window - 2) * level->size);
}

static void product_add(struct tail_products *job, const struct gpu_tail *tail, const struct gpu_tail_mask *mask, int i,
                        int64_t window, int first_group, int n_groups, int first_unit, int n_units)
{
    const struct gpu_tail_level *level = &tail->level[i];
    const struct gpu_tail_mask_level *of = &mask->level[i];
    struct tail_product *to = &job->level[job->n++];
    to->terms = of->terms;
    to->first_term = of->first_term;
    to->x = level->spectra;
    to->sums = of->sums;
    to->log2_size = level->log2_size;
    to->entry = (int)(window % level->n_entries);
    to->n_entries = level->n_entries;
    to->n_windows = window < level->n_parts ? (int)window : level->n_parts;
    to->first_group = first_group;
    to->n_groups = n_groups;
    to->n_out = tail->n_out;
    to->first_unit = first_unit;
    to->n_units = n_units;
    to->max_terms = of->max_terms;
    to->max_parts = of->max_parts;
}

/* Adds an inverse of level i. at: the frame of the stream at which the first output frame is due. */
static void inverse_add(struct tail_inverses *job, const struct gpu_tail *tail, const struct gpu_tail_mask *mask, int i,
                        int64_t at, int first_out, int n_out)
{
    const struct gpu_tail_level *level = &tail->level[i];
    struct tail_inverse *to = &job->level[job->n++];
    to->tw = level->tw;
    to->sums = mask->level[i].sums;
    to->due = mask->level[i].due;
    to->log2_size = level->log2_size;
    to->first_out = first_out;
    to->n_out = n_out;
    to->at = (unsigned)at & (2 * level->size - 1);
}

/* Adds the work of a window of level i in slices k0 + 1 ... k1. */
static void work_add(struct step_work *work, const struct gpu_tail *tail, const struct gpu_tail_mask *mask, int i,
                     int64_t window, int k0, int k1)
{
    const struct gpu_tail_level *level = &tail->level[i];
    if (!mask->level[i].max_terms) return; /* all responses end before this level */
    const int unit = products_done(level, mask, i, k0), units = products_done(level, mask, i, k1) - unit;
    const int out = inverses_done(tail, mask, i, k0), outs = inverses_done(tail, mask, i, k1) - out;
    if (units > 0) product_add(&work->products, tail, mask, i, window, 0, mask->n_groups, unit, units);
    if (outs > 0) inverse_add(&work->inverses, tail, mask, i, (window + 1) * level->size - tail->hop, out, outs);
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
    tail->whole_step = -1;
    for (int i = 0; i < TAIL_PREPARED; i++)
        for (int l = 0; tail->prepared[i] && l < tail->n_behind; l++) tail->prepared[i]->level[l].from_window = 1;
    return cudaMemsetAsync(tail->ring, 0, ring_bytes(tail), stream);
}

cudaError_t gpu_tail_step(struct gpu_tail *tail, cudaStream_t stream)
{
    const int64_t w = ++tail->step;
    struct tail_forwards job = {};
    job.x = tail->ring;
    job.ring_mask = tail->ring_mask;
    for (int i = tail->n_behind - 1; i >= 0; i--) { /* the largest level first */
        const struct gpu_tail_level *level = &tail->level[i];
        const int64_t window = w / level->n_slices;
        const int k = (int)(w % level->n_slices), ch = forwards_done(tail, level, k - 1);
        const int n_ch = forwards_done(tail, level, k) - ch;
        if (window >= 1 && n_ch >= 1) forward_add(&job, level, window, ch, n_ch);
    }
    TAIL_TRY(tail_forward_launch(&job, stream));
    for (int m = 0; m < TAIL_PREPARED; m++) {
        const struct gpu_tail_mask *mask = tail->prepared[m];
        struct step_work work = {};
        for (int i = tail->n_behind - 1; mask && i >= 0; i--) {
            const int n = tail->level[i].n_slices, k = (int)(w % n);
            if (w / n >= mask->level[i].from_window) work_add(&work, tail, mask, i, w / n, k - 1, k);
        }
        TAIL_TRY(work_launch(&work, tail, stream));
    }
    return cudaSuccess;
}

/* Computes all products of a mask for the due window and for the window under way. This is the work of two windows, or
 * of one window if a window is complete within a hop. */
static cudaError_t gpu_tail_catch_up(struct gpu_tail *tail, struct gpu_tail_mask *mask, cudaStream_t stream)
{
    const int64_t w = tail->step;
    struct step_work due = {}, now = {}; /* work on the due window; on the window under way */
    for (int i = tail->n_behind - 1; i >= 0; i--) {
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
    const bool in_a_hop = !tail->n_behind || tail->level[tail->n_behind - 1].n_slices == 1;
    if (mask->spectra_bytes <= CHEAP_BYTES || in_a_hop) return gpu_tail_catch_up(tail, mask, stream);
    for (int i = 0; i < tail->n_behind; i++) mask->level[i].from_window = tail->step / tail->level[i].n_slices + 1;
    return cudaSuccess;
}

/* The window of a level whose output is due in this hop; less than 1: no window, the stream has just begun. */
static int64_t window_due(const struct gpu_tail *tail, const struct gpu_tail_level *level)
{
    return (tail->step + 1) / level->n_slices - 1;
}

bool gpu_tail_ready(const struct gpu_tail *tail, const struct gpu_tail_mask *mask)
{
    if (!is_prepared(tail, mask)) return false;
    for (int i = 0; i < tail->n_behind; i++) {
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

/* gpu_tail_play for a plan without levels. */
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

/* Convolves hop number tail->step with the first partition, for n_groups groups of outputs, into the level's `due`. */
static cudaError_t whole_hop_convolve(struct gpu_tail *tail, const struct gpu_tail_mask *mask, int first_group,
                                      int n_groups, int n_needed, cudaStream_t stream)
{
    const int i = tail->n_behind, out = first_group * HEAD_OUTS, outs = n_groups * HEAD_OUTS;
    const int64_t window = tail->step + 1; /* the window that ends with this hop */
    struct tail_forwards forwards = {};
    struct step_work work = {};
    if (tail->whole_step != tail->step) tail->whole_step = tail->step, tail->n_whole = 0;
    if (n_needed > tail->n_whole) {
        forwards.x = tail->ring;
        forwards.ring_mask = tail->ring_mask;
        forward_add(&forwards, &tail->level[i], window, tail->n_whole, n_needed - tail->n_whole);
        TAIL_TRY(tail_forward_launch(&forwards, stream));
        tail->n_whole = n_needed;
    }
    product_add(&work.products, tail, mask, i, window, first_group, n_groups, 0, units_of(&tail->level[i], n_groups));
    inverse_add(&work.inverses, tail, mask, i, tail->step * tail->hop, out,
                out + outs < tail->n_out ? outs : tail->n_out - out);
    return work_launch(&work, tail, stream);
}

cudaError_t gpu_tail_play(struct gpu_tail *tail, struct gpu_tail_mask *mask, int64_t from, int n, float *y,
                          int first_group, int n_groups, int n_needed, cudaStream_t stream)
{
    if (!tail->n_levels) return fir_play(tail, mask, from, n, y, first_group, n_groups, stream);
    if (!gpu_tail_ready(tail, mask)) TAIL_TRY(gpu_tail_catch_up(tail, mask, stream));
    const bool whole = n == tail->hop && tail->n_behind < tail->n_levels && mask->level[tail->n_behind].max_terms;
    if (whole) TAIL_TRY(whole_hop_convolve(tail, mask, first_group, n_groups, n_needed, stream));
    struct head_job job = {};
    job.x = tail->ring;
    job.ring_mask = tail->ring_mask;
    job.pos = (unsigned)from;
    job.terms = mask->head_terms;
    job.cells = mask->head_cells;
    job.first_term = job.first_cell = mask->head_first; /* the kernel uses one of the two */
    job.n_chunks = whole ? 0 : mask->n_chunks;
    job.max_terms = mask->max_terms;
    job.y = y;
    job.y_pitch = tail->y_pitch;
    job.n = n;
    job.n_out = tail->n_out;
    job.first_group = first_group;
    job.n_groups = n_groups;
    for (int i = 0; i < tail->n_behind + whole; i++) {
        const struct gpu_tail_level *level = &tail->level[i];
        if (!mask->level[i].max_terms || (i < tail->n_behind && window_due(tail, level) < 1)) continue;
        struct head_due *due = &job.due[job.n_due++];
        due->frames = mask->level[i].due;
        due->ring_mask = 2 * level->size - 1;
        due->at = (unsigned)from & due->ring_mask;
    }
    job.scratch = tail->scratch;
    job.n_sm = tail->n_sm;
    return head_launch(&job, stream);
}
