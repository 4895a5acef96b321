/* scene_cuda - moving sources on a CUDA GPU (dsp/device/scene_backend.h).
 *
 *   stream head   [new frames up] forward > [lists up] products > reduce > output -> pinned memory       each call
 *   stream tail   [list up] forward > products > reduce > window                                        at an edge
 *   host          [begin] apply requests [play] make the lists | the list of the tail's last edge | wait for the head
 *
 * The tail's work on a hop may last the level's delay. Its stream has a low priority and short thread blocks, so that
 * the head soon gets multiprocessors. The head waits on the device for the event of a window when the window's first
 * frame plays. A list of the head is uploaded once: `from` of a block is `to` of the previous block.
 *
 * cost     a block of n sources: 4 n B bytes up and 16 P n_parts bytes of X a fading source; at an edge 8 P n_parts
 *          bytes a source (scene_product.cu)
 * limits   blocks of up to 4096 frames
 * ceiling  many sources: the engine thread, which applies requests and makes lists: 40 ns a source that changes. Few:
 *          the latency of four kernels, two copies and the wait. On an H200 a block needs 75 us with 64 sources, 390
 *          with 8,192 and 720 with 16,384 (0.5 s, 2 outputs, all moving in each block)
 */
#include "scene_gpu.h"

#include "cuda_error.h"
#include "device_memory.h"
#include "fft_factors.h"
#include "partition.h"
#include "pinned_memory.h"
#include "scene_transform.h"

#include <stdlib.h>

enum { LISTS = 2 };         /* lists of a level, for its last two edges                                               */

struct list_buffers {
    char *pinned[LISTS], *device[LISTS];
    struct scene_list list[LISTS]; /* in device memory                                                               */
};

struct cuda_level {
    const struct scene_level *plan;
    int log2_P;
    float2 *tw;
    float2 *x;              /* [n_partitions][n_sources][P]: the FDL; hop i at i % n_partitions                       */
    float2 *partial, *sums; /* scene_product.h                                                                        */
    size_t capacity;
    struct list_buffers lists;
    int n_lists;            /* lists that a product sums: 2 in the head, 1 in a tail level                            */
    /* Tail levels only. Window j starts at frame j hop + delay and is at j % n_windows. */
    int n_windows;
    float *windows;         /* [n_windows][n_out][hop + fade]                                                         */
    cudaEvent_t *ready;     /* [n_windows]                                                                            */
    int *n_active;          /* [n_windows]                                                                           */
    int64_t awaited;        /* windows that the head's stream has waited for                                          */
    struct scene_mix waiting; /* the mix of an edge whose work begins in the next block                               */
    int64_t waiting_frame;  /* frame of that edge; -1: no edge                                                        */
    int waiting_active;
};

struct scene_gpu {
    int device;
    struct scene_plan plan;
    struct scene_shape shape;
    cudaStream_t head, tail;
    void *memory;           /* device memory; the pointers below point into it                                        */
    size_t history_bytes;   /* first bytes of `memory`: ring, FDLs, windows; all zero after a reset                   */
    float *ring;            /* [n_sources][ring_length], frame f at f & (ring_length - 1)                             */
    unsigned ring_length;
    float *receive;         /* [n_sources][n] of a call                                                               */
    struct cuda_level levels[HC_MAX_STEER_LEVELS];
    void *pinned;           /* pinned memory: the lists, then `out`                                                   */
    float *out;             /* [n_out][block]                                                                         */
    struct piece_maker maker;
    /* List `now` of the head was made of these terms, which played as `to` in block terms_block. */
    int now;
    const struct scene_term *terms;
    int n_terms;
    int64_t terms_block;
};

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static int terms_max(const struct scene_shape *shape)
{
    return shape->n_sources * HC_MAX_SOUNDING;
}
/* The bytes of a list of n terms: n sources, then up to n pieces. */
static size_t list_bytes(int n) { return (size_t)n * (sizeof(struct scene_source) + sizeof(struct scene_piece)); }
static size_t spectrum_bytes(const struct cuda_level *level) { return sizeof(float2) << level->log2_P; }

static int level_set(struct scene_gpu *s, int l, struct reason *why)
{
    struct cuda_level *level = &s->levels[l];
    level->plan = &s->plan.levels[l];
    PASS(level->log2_P = scene_log2_P(&s->plan, l, why));
    level->n_lists = l ? 1 : 2;
    level->capacity = scene_product_capacity(1 << level->log2_P, level->plan->n_partitions, s->shape.n_out);
    level->n_windows = l ? level->plan->delay / level->plan->hop + 3 : 0; /* ahead, playing, previous, one more */
    const unsigned block = (unsigned)s->plan.block;
    /* A tail level may read its frames until its window is due. */
    const unsigned frames = (2u << level->log2_P) + (l ? (unsigned)(level->plan->delay + level->plan->hop) : 0) + 2 * block;
    while (s->ring_length < frames) s->ring_length *= 2;
    return HC_OK;
}

/* Lays out the device memory at base, or (NULL) counts it. The memory that a reset clears comes first. */
static size_t scene_state_cut(struct scene_gpu *s, void *base)
{
    const size_t n = (size_t)s->shape.n_sources, n_out = (size_t)s->shape.n_out;
    size_t used = 0;
    s->ring = (float *)device_cut(base, &used, n * s->ring_length * sizeof(float));
    for (int l = 0; l < s->plan.n_levels; l++) {
        struct cuda_level *level = &s->levels[l];
        const struct scene_level *plan = level->plan;
        level->x = (float2 *)device_cut(base, &used, n * plan->n_partitions * spectrum_bytes(level));
        if (l)
            level->windows = (float *)device_cut(
                base, &used, level->n_windows * n_out * (size_t)(plan->hop + plan->fade) * sizeof(float));
    }
    s->history_bytes = used;
    s->receive = (float *)device_cut(base, &used, n * s->plan.block * sizeof(float));
    for (int l = 0; l < s->plan.n_levels; l++) {
        struct cuda_level *level = &s->levels[l];
        level->tw = (float2 *)device_cut(base, &used, fft_factors_bytes(level->log2_P));
        level->partial = (float2 *)device_cut(base, &used, level->capacity * spectrum_bytes(level));
        level->sums = (float2 *)device_cut(base, &used, level->n_lists * n_out * spectrum_bytes(level));
        for (int i = 0; i < LISTS; i++)
            level->lists.device[i] = (char *)device_cut(base, &used, list_bytes(terms_max(&s->shape)));
    }
    return used;
}

/* Lays out the pinned memory. The lists come first: their pieces contain pointers, which need alignment. */
static size_t pinned_cut(struct scene_gpu *s, char *base)
{
    const size_t list = list_bytes(terms_max(&s->shape));
    size_t used = 0;
    for (int l = 0; l < s->plan.n_levels; l++)
        for (int i = 0; i < LISTS; i++, used += list) s->levels[l].lists.pinned[i] = base ? base + used : NULL;
    s->out = base ? (float *)(base + used) : NULL;
    return used + (size_t)s->shape.n_out * s->plan.block * sizeof(float);
}

static int scene_sizes_set(struct scene_gpu *s, const struct scene_plan *plan, const struct scene_shape *shape,
                           struct reason *why)
{
    s->plan = *plan;
    s->shape = *shape;
    s->ring_length = 64;
    for (int l = 0; l < plan->n_levels; l++) PASS(level_set(s, l, why));
    return HC_OK;
}

static double scene_memory(const struct scene_plan *plan, const struct scene_shape *shape)
{
    struct scene_gpu s = {};
    return scene_sizes_set(&s, plan, shape, NULL) < 0 ? 0.0 : (double)scene_state_cut(&s, NULL);
}

/* ---- open, close, reset ------------------------------------------------------------------------------------------ */

static int gpu_reset(void *state, struct reason *why)
{
    struct scene_gpu *s = (struct scene_gpu *)state;
    TRY(cudaSetDevice(s->device), "cudaSetDevice(%d)", s->device);
    TRY(device_wait(s->tail), "waiting for the sources");
    TRY(cudaMemsetAsync(s->memory, 0, s->history_bytes, s->head), "cudaMemsetAsync(%zu)", s->history_bytes);
    TRY(device_wait(s->head), "clearing the input history");
    for (int l = 0; l < s->plan.n_levels; l++) {
        s->levels[l].awaited = 0;
        s->levels[l].waiting_frame = -1;
    }
    s->terms = NULL;
    s->terms_block = -2;
    return HC_OK;
}

static int scene_gpu_level_open(struct scene_gpu *s, int l, struct reason *why)
{
    struct cuda_level *level = &s->levels[l];
    TRY(fft_factors_make(level->tw, level->log2_P, s->head), "making the tables of a transform"); /* gpu_reset waits */
    if (!l) return HC_OK;
    level->ready = (cudaEvent_t *)calloc((size_t)level->n_windows, sizeof *level->ready);
    level->n_active = (int *)calloc((size_t)level->n_windows, sizeof *level->n_active);
    if (!level->ready || !level->n_active) return fail(HC_ENOMEM, why, "cuda: no host memory; free some memory");
    for (int i = 0; i < level->n_windows; i++)
        TRY(cudaEventCreateWithFlags(&level->ready[i], cudaEventDisableTiming), "cudaEventCreateWithFlags");
    return HC_OK;
}

static int scene_state_open(struct scene_gpu *s, const struct scene_plan *plan, const struct scene_shape *shape,
                            struct reason *why)
{
    PASS(device_use(s->device, why));
    PASS(scene_sizes_set(s, plan, shape, why));
    TRY(scene_transform_load(), "loading kernels");
    TRY(scene_product_load(), "loading kernels");
    PASS(live_stream_make(&s->head, true, why));
    PASS(live_stream_make(&s->tail, false, why));
    if (!piece_maker_open(&s->maker, shape, SCENE_PIECE_MAX, scene_bank_responses))
        return fail(HC_ENOMEM, why, "cuda: no memory to steer %d sources; use fewer", shape->n_sources);
    PASS(device_alloc(&s->memory, scene_state_cut(s, NULL), "the sources", why));
    scene_state_cut(s, s->memory);
    PASS(pinned_alloc(&s->pinned, pinned_cut(s, NULL), why));
    pinned_cut(s, (char *)s->pinned);
    for (int l = 0; l < plan->n_levels; l++) PASS(scene_gpu_level_open(s, l, why));
    return gpu_reset(s, why);
}

static void gpu_close(void *state)
{
    struct scene_gpu *s = (struct scene_gpu *)state;
    if (!s) return;
    cudaSetDevice(s->device);
    if (s->head) cudaStreamSynchronize(s->head);
    if (s->tail) cudaStreamSynchronize(s->tail);
    for (int l = 0; l < s->plan.n_levels; l++) {
        struct cuda_level *level = &s->levels[l];
        for (int i = 0; level->ready && i < level->n_windows; i++)
            if (level->ready[i]) cudaEventDestroy(level->ready[i]);
        free(level->ready);
        free(level->n_active);
    }
    piece_maker_close(&s->maker);
    pinned_free(s->pinned);
    device_free(s->memory);
    if (s->tail) cudaStreamDestroy(s->tail);
    if (s->head) cudaStreamDestroy(s->head);
    cudaGetLastError();
    free(s);
}

static int gpu_open(const struct scene_plan *plan, const struct scene_shape *shape, int device, void **state,
                    struct reason *why)
{
    struct scene_gpu *s = (struct scene_gpu *)calloc(1, sizeof *s);
    *state = NULL;
    if (!s) return fail(HC_ENOMEM, why, "cuda: no host memory; free some memory");
    s->device = device;
    int rc = scene_state_open(s, plan, shape, why);
    if (rc < 0) {
        if (!device_hangs(s->head)) gpu_close(s);
        return rc;
    }
    *state = s;
    return HC_OK;
}

/* ---- a call ------------------------------------------------------------------------------------------------------ */

static int input_upload(struct scene_gpu *s, const struct scene_call *call, struct reason *why)
{
    const size_t width = call->n * sizeof(float), pitch = s->shape.buffer_stride * sizeof(float);
    const float *in = call->buffer->in + call->buffer_offset;
    if (width == pitch)
        TRY(cudaMemcpyAsync(s->receive, in, s->shape.n_sources * width, cudaMemcpyHostToDevice, s->head),
            "cudaMemcpyAsync(%zu)", s->shape.n_sources * width);
    else
        TRY(cudaMemcpy2DAsync(s->receive, width, in, pitch, width, s->shape.n_sources, cudaMemcpyHostToDevice, s->head),
            "cudaMemcpy2DAsync(%zu)", width);
    return HC_OK;
}

/* Fills in a list of n terms that lies at `base`. */
static void list_set(struct scene_list *list, char *base, int n)
{
    list->sources = (struct scene_source *)base;
    list->pieces = (struct scene_piece *)(list->sources + n);
}

/* Makes the list of a mix and sends it to buffer i of a level. */
static int list_upload(struct scene_gpu *s, int l, int i, const struct scene_mix *mix, cudaStream_t stream,
                       struct reason *why)
{
    struct list_buffers *buffers = &s->levels[l].lists;
    struct scene_list *list = &buffers->list[i];
    list_set(list, buffers->pinned[i], mix->n);
    scene_list_make(&s->maker, mix, l, list);
    const size_t bytes = (char *)(list->pieces + list->n) - buffers->pinned[i];
    list_set(list, buffers->device[i], mix->n);
    if (list->n)
        TRY(cudaMemcpyAsync(buffers->device[i], buffers->pinned[i], bytes, cudaMemcpyHostToDevice, stream),
            "cudaMemcpyAsync(%zu)", bytes);
    return HC_OK;
}

/* Makes list `now` of the head `to`, and the other list `from`. */
static int head_lists_set(struct scene_gpu *s, const struct scene_call *call, int64_t block, struct reason *why)
{
    if (s->terms_block == block) return HC_OK; /* a later call of the block */
    const struct scene_mix *first = call->is_still ? &call->to : &call->from;
    const bool known = s->terms_block == block - 1 && s->terms == first->terms && s->n_terms == first->n;
    if (!known) PASS(list_upload(s, 0, s->now, first, s->head, why));
    if (!call->is_still) {
        s->now ^= 1;
        PASS(list_upload(s, 0, s->now, &call->to, s->head, why));
    }
    s->terms_block = block;
    s->terms = call->to.terms;
    s->n_terms = call->to.n;
    return HC_OK;
}

static struct scene_product product_of(const struct scene_gpu *s, const struct cuda_level *level, int64_t hop, int n_out)
{
    struct scene_product job = {};
    job.x = level->x;
    job.n_sources = s->shape.n_sources;
    job.n_parts = job.n_entries = level->plan->n_partitions;
    job.entry = (int)(hop % job.n_entries);
    job.log2_P = level->log2_P;
    job.n_out = n_out;
    job.partial = level->partial;
    job.capacity = level->capacity;
    job.sums = level->sums;
    return job;
}

static struct scene_forward forward_of(const struct scene_gpu *s, const struct cuda_level *level, int64_t hop)
{
    struct scene_forward job = {};
    job.tw = level->tw;
    job.ring = s->ring;
    job.ring_mask = s->ring_length - 1;
    job.n_sources = s->shape.n_sources;
    job.log2_P = level->log2_P;
    job.x = level->x + (((size_t)(hop % level->plan->n_partitions) * s->shape.n_sources) << level->log2_P);
    return job;
}

static float *scene_window_at(const struct scene_gpu *s, const struct cuda_level *level, int64_t j)
{
    const size_t row = (size_t)(level->plan->hop + level->plan->fade);
    return level->windows + (size_t)(j % level->n_windows) * s->shape.n_out * row;
}

/* Finds the two windows of a tail level that play in the block from frame `first` on. false: no window yet. */
static int tail_set(struct scene_gpu *s, struct cuda_level *level, int64_t first, struct scene_tail_windows *tail,
                    struct reason *why)
{
    const struct scene_level *plan = level->plan;
    if (first < plan->delay) return HC_OK;
    const int64_t j = (first - plan->delay) / plan->hop;
    for (; level->awaited <= j; level->awaited++)
        TRY(cudaStreamWaitEvent(s->head, level->ready[level->awaited % level->n_windows], 0), "cudaStreamWaitEvent");
    tail->now = scene_window_at(s, level, j);
    tail->n_now = level->n_active[j % level->n_windows];
    if (j > 0) {
        tail->before = scene_window_at(s, level, j - 1);
        tail->n_before = level->n_active[(j - 1) % level->n_windows];
    }
    tail->at = (int)(first - plan->delay - j * plan->hop);
    tail->hop = plan->hop;
    tail->fade = plan->fade;
    return HC_OK;
}

/* Launches the work of a call that needs no list. */
static int gpu_begin(void *state, const struct scene_call *call, struct reason *why)
{
    struct scene_gpu *s = (struct scene_gpu *)state;
    struct cuda_level *level = &s->levels[0];
    const int block = s->plan.block, P = 1 << level->log2_P;
    const int64_t b = call->frame / block;
    TRY(cudaSetDevice(s->device), "cudaSetDevice(%d)", s->device);
    PASS(input_upload(s, call, why));
    struct scene_forward forward = forward_of(s, level, b);
    forward.from = (unsigned)((b + 1) * block - 2 * P);
    forward.receive = s->receive;
    forward.new_at = 2 * P - block + (int)(call->frame % block);
    forward.n_new = call->n;
    TRY(scene_forward_launch(&forward, s->head), "the transforms of the sources");
    return HC_OK;
}

static int head_work_launch(struct scene_gpu *s, const struct scene_call *call, struct reason *why)
{
    struct cuda_level *level = &s->levels[0];
    const int block = s->plan.block;
    const int64_t b = call->frame / block;
    if (call->n_active == 0) { /* no request yet; but a tail level must read its frames before the ring's next turn */
        struct scene_tail_windows unused;
        for (int l = 1; l < s->plan.n_levels; l++) PASS(tail_set(s, &s->levels[l], b * block, &unused, why));
        return HC_OK;
    }
    PASS(head_lists_set(s, call, b, why));

    struct scene_product product = product_of(s, level, b, call->n_active);
    if (!call->is_still) product.lists[product.n_lists++] = level->lists.list[s->now ^ 1];
    product.lists[product.n_lists++] = level->lists.list[s->now];
    TRY(scene_product_launch(&product, s->head), "the products of the sources");

    struct scene_output output = {};
    output.tw = level->tw;
    output.sums = level->sums;
    output.n_lists = product.n_lists;
    output.n_out = call->n_active;
    output.log2_P = level->log2_P;
    output.block = block;
    output.fade = level->plan->fade;
    output.at = (int)(call->frame % block);
    output.n = call->n;
    output.out = s->out;
    output.n_tails = s->plan.n_levels - 1;
    for (int l = 1; l < s->plan.n_levels; l++) PASS(tail_set(s, &s->levels[l], b * block, &output.tails[l - 1], why));
    TRY(scene_output_launch(&output, s->head), "the output of the sources");
    return HC_OK;
}

/* Launches the work of the waiting edge. The frames before the edge are in the ring, because every call waits for the
 * head's stream. The pinned list is free again, because the head has waited for the window of two hops before. */
static int tail_launch(struct scene_gpu *s, int l, struct reason *why)
{
    struct cuda_level *level = &s->levels[l];
    const struct scene_level *plan = level->plan;
    const int64_t frame = level->waiting_frame, j = frame / plan->hop;
    const int n_active = level->waiting_active, i = (int)(j % LISTS), row = plan->hop + plan->fade;
    level->waiting_frame = -1;
    PASS(list_upload(s, l, i, &level->waiting, s->tail, why));

    struct scene_forward forward = forward_of(s, level, j);
    forward.from = (unsigned)frame - (2u << level->log2_P);
    forward.new_at = 2 << level->log2_P;
    TRY(scene_forward_launch(&forward, s->tail), "the transforms of the tail");
    if (n_active > 0) {
        struct scene_product product = product_of(s, level, j, n_active);
        product.lists[product.n_lists++] = level->lists.list[i];
        TRY(scene_product_launch(&product, s->tail), "the products of the tail");
        struct scene_window window = {level->tw, level->sums,   scene_window_at(s, level, j),
                                      n_active,  level->log2_P, row};
        TRY(scene_window_launch(&window, s->tail), "a window of the tail");
    }
    level->n_active[j % level->n_windows] = n_active;
    TRY(cudaEventRecord(level->ready[j % level->n_windows], s->tail), "cudaEventRecord");
    return HC_OK;
}

/* In the block of an edge the engine thread applies the requests of two levels. To spread its work, the tail's list is
 * made and its work launched in the next block, if the delay is long enough. */
static int tails_launch(struct scene_gpu *s, const struct scene_call *call, struct reason *why)
{
    const int64_t block = s->plan.block, first = call->frame / block * block;
    for (int l = 1; l < s->plan.n_levels; l++) {
        struct cuda_level *level = &s->levels[l];
        if (level->waiting_frame >= 0 && level->waiting_frame < first) PASS(tail_launch(s, l, why));
        if (!call->tail[l]) continue;
        level->waiting = *call->tail[l];
        level->waiting_frame = call->frame;
        level->waiting_active = call->n_active;
        if (level->plan->delay < 4 * block) PASS(tail_launch(s, l, why));
    }
    return HC_OK;
}

static void scene_gpu_output_add(const struct scene_gpu *s, const struct scene_call *call)
{
    const int at = (int)(call->frame % s->plan.block);
    for (int out = 0; out < call->n_active; out++) {
        float *to = call->buffer->out + (size_t)out * s->shape.buffer_stride + call->buffer_offset;
        const float *from = s->out + (size_t)out * s->plan.block + at;
        for (int i = 0; i < call->n; i++) to[i] += from[i];
    }
}

static int gpu_play(void *state, const struct scene_call *call, struct reason *why)
{
    struct scene_gpu *s = (struct scene_gpu *)state;
    TRY(cudaSetDevice(s->device), "cudaSetDevice(%d)", s->device);
    PASS(head_work_launch(s, call, why));
    PASS(tails_launch(s, call, why));
    TRY(cudaStreamSynchronize(s->head), "waiting for the sources");
    scene_gpu_output_add(s, call);
    return HC_OK;
}

static constexpr struct scene_backend scene_of_a_gpu(void)
{
    struct scene_backend scene = {};
    scene.open = gpu_open;
    scene.close = gpu_close;
    scene.bank_make = scene_bank_of_data;
    scene.bank_free = scene_bank_release;
    scene.memory = scene_memory;
    scene.begin = gpu_begin;
    scene.play = gpu_play;
    scene.reset = gpu_reset;
    return scene;
}
extern const struct scene_backend scene_cuda;
constexpr struct scene_backend scene_cuda = scene_of_a_gpu();
