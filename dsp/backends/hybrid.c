#include "hybrid.h"

#include "backends.h"
#include "dsp/base/await.h"
#include "dsp/device/delayed_tail.h"
#include "dsp/device/scene_backend.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

struct hybrid_mask {
    void *head, *tail;             /* masks of the two backends; tail NULL: the mask has no taps in the tail */
    uint64_t preparation;          /* number of the mask's last preparation; audio thread */
    bool from_start;               /* prepared before the first block: every job has its full tail; audio thread */
    uint64_t n_retirements;        /* how often this mask was retired; audio thread */
    atomic_uint_fast64_t released; /* number of the last retirement after which the device released the mask */
    bool is_prepared, is_ready;    /* the mask's state in the tail backend; device thread */
};

struct retirement {
    struct hybrid_mask *mask;
    uint64_t number; /* the mask's n_retirements */
};

struct hybrid_job {
    struct io_buffer second; /* second.out gets the output of a second mask, during a swap */
    int n_masks, n_retirements;
    struct hybrid_mask *masks[MAX_PREPARED];    /* masks prepared or playing when the job is posted */
    uint64_t preparation[MAX_PREPARED];         /* numbers of the preparations: another mask may reuse an address */
    bool full[MAX_PREPARED];                    /* the output has the mask's full tail. Set when the job is posted, if
                                                 that is known, else by the device thread */
    struct retirement retirements[MAX_RETIRED]; /* retirements that begin before the job is played */
};

struct hybrid {
    const struct backend *head_backend, *tail_backend;
    void *head, *tail; /* states of the two backends; tail NULL: the plan has no tail */
    int n_out;
    struct delayed_tail delayed;
    struct hybrid_job jobs[TAIL_JOBS]; /* job i is at i % TAIL_JOBS */
    atomic_bool waits;                 /* calls wait without bound */

    /* used by the audio thread */
    bool fresh; /* nothing was played since open or reset */
    uint64_t n_preparations;
    struct hybrid_mask *prepared[MAX_PREPARED];
    struct retirement retirements[MAX_RETIRED]; /* retirements to post with the next job */
    int n_retirements;

    /* used by the device thread */
    struct retirement retired[MAX_RETIRED]; /* masks retired in the tail backend, not released yet */
    int n_retired;
};

/* Returns T for calls of up to `block` frames: a power of two, at least 10 ms, so that engines can share a device; 5 ms
 * with a resident head, whose cost grows with T. */
static int hybrid_tail_block(const struct backend *backend, int rate, int block)
{
    int length = 64, shortest = backend == &backend_resident ? rate / 200 : rate / 100;
    while (length < block || length < shortest) length *= 2;
    return length;
}

bool hybrid_split(const struct backend *backend, int rate, const struct plan_shape *shape, struct plan_shape *head,
                  struct plan_shape *tail)
{
    const int tail_block = hybrid_tail_block(backend, rate, shape->block), head_taps = 2 * tail_block;
    *head = *tail = *shape;
    if (shape->max_taps <= head_taps) return false;
    head->max_taps = head_taps;
    tail->max_taps -= head_taps;
    tail->block = tail_block;
    return true;
}

double hybrid_memory(const struct plan *tail, const struct plan_shape *shape)
{
    const double second = (double)sizeof(float) * (shape->n_in + shape->n_out) * tail->block;
    return delayed_tail_memory(shape->n_in, shape->n_out, tail->block) + TAIL_JOBS * second;
}

/* ---- the device thread ------------------------------------------------------------------------------------------- */

static void retirement_begin(struct hybrid *h, const struct retirement *retirement)
{
    struct hybrid_mask *mask = retirement->mask;
    if (mask->is_prepared && h->tail_backend->mask_retire) h->tail_backend->mask_retire(h->tail, mask->tail);
    mask->is_prepared = mask->is_ready = false;
    h->retired[h->n_retired++] = *retirement;
}

/* Releases the retired masks that no thread of the tail backend works on, and those that are prepared again. */
static void retirements_sweep(struct hybrid *h, bool all)
{
    for (int i = 0; i < h->n_retired;) {
        const struct retirement *retirement = &h->retired[i];
        struct hybrid_mask *mask = retirement->mask;
        if (!all && !mask->is_prepared && h->tail_backend->mask_released &&
            !h->tail_backend->mask_released(h->tail, mask->tail)) {
            i++;
            continue;
        }
        atomic_store_explicit(&mask->released, retirement->number, memory_order_release);
        h->retired[i] = h->retired[--h->n_retired];
    }
}

static void job_prepare(struct hybrid *h, struct hybrid_job *job, int i)
{
    struct hybrid_mask *mask = job->masks[i];
    if (!mask->is_prepared && h->tail_backend->mask_prepare) h->tail_backend->mask_prepare(h->tail, mask->tail);
    mask->is_prepared = true;
    mask->is_ready = mask->is_ready || job->full[i] || !h->tail_backend->mask_ready ||
                     h->tail_backend->mask_ready(h->tail, mask->tail);
    job->full[i] = mask->is_ready;
}

static int job_play(void *data, int64_t i, struct io_buffer *buffer, int n, struct reason *why)
{
    struct hybrid *h = data;
    struct fade fade = {0};
    if (i == DEVICE_QUEUE_SILENCE) return io_buffer_play(h->tail_backend, h->tail, buffer, n, &fade, why);
    struct hybrid_job *job = &h->jobs[i % TAIL_JOBS];
    for (int k = 0; k < job->n_retirements; k++) retirement_begin(h, &job->retirements[k]);
    for (int k = 0; k < job->n_masks; k++) job_prepare(h, job, k);
    fade.to = job->n_masks > 0 ? job->masks[0]->tail : NULL;
    if (job->n_masks == MAX_PREPARED) {
        fade.from = job->masks[1]->tail;
        fade.len = 1;
        fade.apart = &job->second;
    }
    int error = io_buffer_play(h->tail_backend, h->tail, buffer, n, &fade, why);
    if (!error) retirements_sweep(h, false);
    return error;
}

/* ---- open and close ---------------------------------------------------------------------------------------------- */

static void hybrid_close(void *state)
{
    struct hybrid *h = state;
    if (!h) return;
    if (h->head) h->head_backend->close(h->head); /* first: what frees device memory would wait for a resident head */
    delayed_tail_close(&h->delayed);
    for (int i = 0; i < TAIL_JOBS; i++) io_buffer_free(h->tail_backend, h->tail, &h->jobs[i].second);
    if (h->tail) h->tail_backend->close(h->tail);
    free(h);
}

static int hybrid_tail_open(struct hybrid *h, const hc_config *config, const struct plan *plan, int device,
                            struct reason *why)
{
    hc_config c = *config;
    c.block = plan->block;
    c.max_taps = plan->max_taps;
    int error = h->tail_backend->open(&c, plan, device, &h->tail, why);
    for (int i = 0; i < TAIL_JOBS && !error; i++) /* not when a second mask comes: the device thread runs then */
        error =
            io_buffer_make(h->tail_backend, h->tail, config->n_in, config->n_out, plan->block, &h->jobs[i].second, why);
    if (error) return error;
    struct delayed_tail_setup setup = {.backend = h->tail_backend,
                                       .state = h->tail,
                                       .n_in = config->n_in,
                                       .n_out = config->n_out,
                                       .hop = plan->block,
                                       .play = job_play,
                                       .data = h};
    return delayed_tail_open(&h->delayed, &setup, why);
}

static int hybrid_open(const struct backend *self, const hc_config *config, const struct plan *plan, int device,
                       void **state, struct reason *why)
{
    struct hybrid *h = calloc(1, sizeof *h);
    if (!h) return fail(HC_ENOMEM, why, "hybrid: no memory for an engine; free some memory");
    *state = h;
    hc_config c = *config;
    c.max_taps = plan->max_taps;
    h->tail_backend = backend_find(self->tail);
    h->head_backend = backend_head(self);
    atomic_init(&h->waits, config->wait_us < 0);
    int error = plan->tail_plan ? hybrid_tail_open(h, config, plan->tail_plan, device, why) : HC_OK;
    if (!error) error = h->head_backend->open(&c, plan, backend_head_device(self, device), &h->head, why);
    h->fresh = true;
    h->n_out = config->n_out;
    return error;
}

static void hybrid_wait_set(void *state, bool waits)
{
    struct hybrid *h = state;
    atomic_store_explicit(&h->waits, waits, memory_order_relaxed);
    if (h->head_backend->wait_set) h->head_backend->wait_set(h->head, waits);
    if (h->tail && h->tail_backend->wait_set) h->tail_backend->wait_set(h->tail, waits);
}

/* ---- masks ------------------------------------------------------------------------------------------------------- */

static void hybrid_mask_free(void *state, void *impl)
{
    struct hybrid *h = state;
    struct hybrid_mask *mask = impl;
    if (mask->head) h->head_backend->mask_free(h->head, mask->head);
    if (mask->tail) h->tail_backend->mask_free(h->tail, mask->tail);
    free(mask);
}

/* The head and the tail of a matrix; both point to the matrix's taps. */
struct split {
    struct matrix head, tail;
    int *tail_of; /* [n_responses]: a response's index in the tail; -1: the response ends in the head */
};

static void split_free(struct split *split)
{
    free(split->head.n_taps);
    free(split->tail.taps);
    free(split->tail.n_taps);
    free(split->tail.cells);
    free(split->tail_of);
}

static bool split_make(struct split *split, const struct matrix *matrix, int from)
{
    size_t n = (size_t)matrix->n_responses + 1;
    *split = (struct split){.head = *matrix};
    split->head.n_taps = calloc(n, sizeof(int));
    split->tail.taps = calloc(n, sizeof(float *));
    split->tail.n_taps = calloc(n, sizeof(int));
    split->tail.cells = calloc((size_t)matrix->n_cells + 1, sizeof(struct cell));
    split->tail_of = calloc(n, sizeof(int));
    struct matrix *tail = &split->tail;
    if (!split->head.n_taps || !tail->taps || !tail->n_taps || !tail->cells || !split->tail_of) return false;
    for (int r = 0; r < matrix->n_responses; r++) {
        int n_taps = matrix->n_taps[r];
        split->head.n_taps[r] = n_taps < from ? n_taps : from;
        split->tail_of[r] = -1;
        if (n_taps <= from) continue;
        split->tail_of[r] = tail->n_responses;
        tail->taps[tail->n_responses] = matrix->taps[r] + from;
        tail->n_taps[tail->n_responses++] = n_taps - from;
    }
    for (int c = 0; c < matrix->n_cells; c++) {
        const struct cell *cell = &matrix->cells[c];
        int r = split->tail_of[cell->response];
        if (r >= 0) tail->cells[tail->n_cells++] = (struct cell){cell->in, cell->out, r};
    }
    return true;
}

static int hybrid_mask_make(void *state, const struct matrix *matrix, void **impl, struct reason *why)
{
    struct hybrid *h = state;
    struct split split = {0};
    struct hybrid_mask *mask = calloc(1, sizeof *mask);
    int error = HC_ENOMEM;
    if (!mask || !split_make(&split, matrix, h->tail ? 2 * h->delayed.setup.hop : INT_MAX))
        fail(HC_ENOMEM, why, "hybrid: no memory for a mask of %d response%s; free some memory", matrix->n_responses,
             PLURAL(matrix->n_responses));
    else
        error = h->head_backend->mask_make(h->head, &split.head, &mask->head, why);
    if (!error && split.tail.n_cells > 0) error = h->tail_backend->mask_make(h->tail, &split.tail, &mask->tail, why);
    split_free(&split);
    if (error && mask) hybrid_mask_free(h, mask);
    if (!error) *impl = mask;
    return error;
}

static void hybrid_mask_prepare(void *state, void *impl)
{
    struct hybrid *h = state;
    struct hybrid_mask *mask = impl;
    if (h->head_backend->mask_prepare) h->head_backend->mask_prepare(h->head, mask->head);
    if (!mask->tail) return;
    for (int i = 0; i < h->n_retirements; i++) /* a retirement that no job has yet is cancelled */
        if (h->retirements[i].mask == mask) h->retirements[i] = h->retirements[--h->n_retirements];
    mask->preparation = ++h->n_preparations;
    mask->from_start = h->fresh;
    h->prepared[h->prepared[0] ? 1 : 0] = mask;
}

static void hybrid_mask_retire(void *state, void *impl)
{
    struct hybrid *h = state;
    struct hybrid_mask *mask = impl;
    if (h->head_backend->mask_retire) h->head_backend->mask_retire(h->head, mask->head);
    if (!mask->tail) return;
    for (int i = 0; i < MAX_PREPARED; i++)
        if (h->prepared[i] == mask) h->prepared[i] = NULL;
    h->retirements[h->n_retirements++] = (struct retirement){mask, ++mask->n_retirements};
}

static bool hybrid_mask_released(void *state, const void *impl)
{
    const struct hybrid *h = state;
    const struct hybrid_mask *mask = impl;
    if (h->head_backend->mask_released && !h->head_backend->mask_released(h->head, mask->head)) return false;
    return !mask->tail || atomic_load_explicit(&mask->released, memory_order_acquire) == mask->n_retirements;
}

/* ---- play -------------------------------------------------------------------------------------------------------- */

/* Returns the tail output of a mask in a job, [n_out][T]; NULL: the job lacks the mask's full tail. */
static const float *hybrid_rows_of(const struct hybrid *h, int64_t i, const struct hybrid_mask *mask)
{
    const struct hybrid_job *job = &h->jobs[i % TAIL_JOBS];
    for (int k = 0; k < job->n_masks; k++)
        if (job->masks[k] == mask && job->preparation[k] == mask->preparation && job->full[k])
            return k == 0 ? h->delayed.buffers[i % TAIL_JOBS].out : job->second.out;
    return NULL;
}

static bool hybrid_mask_ready(void *state, const void *impl)
{
    struct hybrid *h = state;
    const struct hybrid_mask *mask = impl;
    if (h->head_backend->mask_ready && !h->head_backend->mask_ready(h->head, mask->head)) return false;
    if (!mask->tail || mask->from_start) return true;
    int64_t due = delayed_tail_due(&h->delayed);
    if (due < 0) return false;
    /* The result must not depend on the timing of threads. The next play waits for this job in any case. */
    if (atomic_load_explicit(&h->waits, memory_order_relaxed)) device_queue_await(h->delayed.queue, due, AWAIT_FOREVER);
    return device_queue_is_done(h->delayed.queue, due) && hybrid_rows_of(h, due, mask);
}

static void tail_mix(float *y, const float *from, const float *to, int n, const struct fade *fade, int at)
{
    if (fade->pos + at >= fade->len) {
        for (int i = 0; i < n && to; i++) y[i] += to[i];
        return;
    }
    for (int i = 0; i < n; i++) {
        float a = from ? from[i] : 0, b = to ? to[i] : 0;
        y[i] += a + fade_gain(fade->pos + at + i, fade->len) * (b - a);
    }
}

/* Adds the tail to frames [at, at + n) of the output, all in one hop. Fails as delayed_tail_await does. */
static int hybrid_tail_add(struct hybrid *h, const struct rows *rows, int at, int n, const struct fade *fade,
                           struct reason *why)
{
    const struct hybrid_mask *to = fade->to, *from = fade->pos < fade->len ? fade->from : NULL;
    bool has_tail = (to && to->tail) || (from && from->tail);
    int64_t due = delayed_tail_due(&h->delayed);
    int result = delayed_tail_await(&h->delayed, due, has_tail, rows->until_us, why);
    if (result != HC_OK || due < 0 || !has_tail) return result;
    const struct delayed_tail_setup *setup = &h->delayed.setup;
    const float *to_rows = to ? hybrid_rows_of(h, due, to) : NULL,
                *from_rows = from ? hybrid_rows_of(h, due, from) : NULL;
    for (int o = 0; o < setup->n_out && (to_rows || from_rows); o++) {
        size_t row = (size_t)o * (size_t)setup->hop + (size_t)h->delayed.pos;
        tail_mix(rows->out[o] + at, from_rows ? from_rows + row : NULL, to_rows ? to_rows + row : NULL, n, fade, at);
    }
    return HC_OK;
}

/* Adds the masks to the job of the hop that ends. */
static void job_fill(struct hybrid *h)
{
    struct hybrid_job *job = &h->jobs[delayed_tail_next(&h->delayed) % TAIL_JOBS];
    job->n_masks = 0;
    for (int i = 0; i < MAX_PREPARED; i++) {
        if (!h->prepared[i]) continue;
        job->masks[job->n_masks] = h->prepared[i];
        job->preparation[job->n_masks] = h->prepared[i]->preparation;
        job->full[job->n_masks++] = h->prepared[i]->from_start;
    }
    job->n_retirements = h->n_retirements;
    memcpy(job->retirements, h->retirements, sizeof h->retirements);
    h->n_retirements = 0;
}

/* Plays frames [at, at + n) of a call, all in one hop. */
static int hybrid_tail_play(struct hybrid *h, const struct rows *rows, int at, int n, const struct fade *fade,
                            struct reason *why)
{
    if (h->delayed.pos == 0) delayed_tail_begin(&h->delayed, rows->until_us);
    int result = hybrid_tail_add(h, rows, at, n, fade, why);
    if (result == HC_EDEVICE) return result;
    delayed_tail_input(&h->delayed, rows->in, at, n);
    if (h->delayed.pos < h->delayed.setup.hop) return result;
    if (h->delayed.has_job) job_fill(h);
    delayed_tail_end(&h->delayed);
    return result;
}

static int hybrid_play(void *state, const struct rows *rows, int n, const struct fade *fade, struct reason *why)
{
    struct hybrid *h = state;
    const struct hybrid_mask *to = fade->to, *from = fade->from;
    struct fade head = *fade;
    head.to = to ? to->head : NULL;
    head.from = from ? from->head : NULL;
    int worst = h->head_backend->play(h->head, rows, n, &head, why);
    for (int at = 0, len; h->tail && at < n && worst >= 0; at += len) {
        int left = h->delayed.setup.hop - h->delayed.pos;
        len = n - at < left ? n - at : left;
        int result = hybrid_tail_play(h, rows, at, len, fade, why);
        if (result != HC_OK) worst = result;
    }
    h->fresh = false;
    if (worst == HC_LATE && h->head_backend != &backend_cpu) outputs_silence(rows->out, h->n_out, 0, n); /* as "cuda" */
    return worst;
}

static const char *hybrid_mode(const void *state)
{
    const struct hybrid *h = state;
    return h->head_backend->mode ? h->head_backend->mode(h->head) : NULL;
}

static bool hybrid_await_all(void *state, int64_t until_us)
{
    struct hybrid *h = state;
    return !h->tail || device_queue_await_all(h->delayed.queue, until_us);
}

static int hybrid_reset(void *state, struct reason *why)
{
    struct hybrid *h = state;
    int error = h->head_backend->reset(h->head, why);
    if (!h->tail) return error;
    device_queue_drain(h->delayed.queue);
    for (int i = 0; i < h->n_retirements; i++) retirement_begin(h, &h->retirements[i]);
    h->n_retirements = 0;
    if (!error) error = h->tail_backend->reset(h->tail, why);
    retirements_sweep(h, true);
    for (int i = 0; i < MAX_PREPARED; i++)
        if (h->prepared[i]) h->prepared[i]->from_start = true;
    delayed_tail_restart(&h->delayed);
    h->fresh = true;
    return error;
}

/* ---- the backends: tail on a GPU, tail on a thread of the CPU, head and tail on a GPU --------------------------- */

static int open_with_gpu(const hc_config *config, const struct plan *plan, int device, void **state, struct reason *why)
{
    return hybrid_open(&backend_hybrid, config, plan, device, state, why);
}

static int open_resident(const hc_config *config, const struct plan *plan, int device, void **state, struct reason *why)
{
    return hybrid_open(&backend_resident, config, plan, device, state, why);
}

static int open_with_cpu(const hc_config *config, const struct plan *plan, int device, void **state, struct reason *why)
{
    return hybrid_open(&backend_hybrid_cpu, config, plan, device, state, why);
}

#define HYBRID                                                                                                         \
    .in_place = true, .close = hybrid_close, .mask_make = hybrid_mask_make, .mask_free = hybrid_mask_free,             \
    .mask_prepare = hybrid_mask_prepare, .mask_ready = hybrid_mask_ready, .mask_retire = hybrid_mask_retire,           \
    .mask_released = hybrid_mask_released, .play = hybrid_play, .mode = hybrid_mode, .await_all = hybrid_await_all,    \
    .reset = hybrid_reset, .wait_set = hybrid_wait_set

const struct backend backend_hybrid = {HYBRID,         .name = "hybrid",      .head = "cpu",
                                       .tail = "cuda", .open = open_with_gpu, .scene = &scene_hybrid};
const struct backend backend_resident = {
    HYBRID, .name = "cuda", .choice = "cuda:resident", .head = "resident", .tail = "cuda", .open = open_resident};
const struct backend backend_hybrid_cpu = {HYBRID,
                                           .name = "hybrid",
                                           .head = "cpu",
                                           .choice = "hybrid:cpu",
                                           .tail = "cpu",
                                           .open = open_with_cpu,
                                           .scene = &scene_hybrid_cpu};
