#include "hybrid.h"

#include "await.h"
#include "device_queue.h"
#include "dsp/backends.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_JOBS = 4, /* one that is filled, one that is heard, and two for the device to be late with */
    MOST_WARM = 2,
    MOST_RESTING = 4, /* masks that the engine has heard the last of and that the device may still work on */
};

struct hybrid_mask {
    void *near, *tail;      /* the two backends'; tail NULL: it has no taps that far */
    uint64_t warmth;        /* which of the engine's warmings its last one was; driver */
    bool whole;             /* warm since nothing had been heard: it lacks nothing; driver */
    int rests;              /* how often it was given to rest; driver */
    atomic_int idle;        /* after which of these the device has let go of it */
    bool is_warm, is_ready; /* on the device; the device's thread */
};

struct rest {
    struct hybrid_mask *mask;
    int number;
};

struct job {
    struct slot slot, other; /* other.out: what a second warm mask plays */
    int64_t block;           /* of the stream; -1: none */
    int n_masks, n_rests;
    struct hybrid_mask *masks[MOST_WARM]; /* warm when it was posted */
    uint64_t warmth[MOST_WARM];           /* theirs: a mask may be freed and another be made at its address */
    bool full[MOST_WARM];                 /* with the full tail; in: known at once, out: by now */
    struct rest rests[MOST_RESTING];      /* to rest before it */
};

struct hybrid {
    const struct backend *near_backend, *tail_backend;
    void *near, *tail;       /* their states; tail NULL: the plan has none */
    int n_in, n_out, length; /* length: T */
    struct device_queue *queue;
    struct job jobs[MOST_JOBS]; /* job i at i % MOST_JOBS */
    atomic_bool waits;          /* without bound */

    /* driver */
    int pos; /* frames of the current block so far */
    int64_t block_index;
    bool fresh;      /* nothing heard since open or reset */
    bool has_begun;  /* the current block */
    bool has_room;   /* for its input */
    bool has_waited; /* for the job that is due */
    uint64_t n_warmed;
    struct hybrid_mask *warm[MOST_WARM];
    struct rest resting[MOST_RESTING]; /* to go with the next job */
    int n_resting;

    /* the device's thread */
    struct slot silence;
    struct rest leaving[MOST_RESTING]; /* rest on the device, not idle yet */
    int n_leaving;

    int n_tails;     /* masks with a tail; setup */
    bool has_others; /* setup: before a second such mask can be warm */
};

int hybrid_tail_block(int rate, int block)
{
    int length = 64;
    while (length < block || length < rate / 100) length *= 2;
    return length;
}

double hybrid_memory(const struct plan *tail, const struct plan_shape *shape)
{
    return 4.0 * MOST_JOBS * tail->block * (shape->n_in + shape->n_out);
}

/* ---- the device's thread -------------------------------------------------------------------------------------------
 */

static void rest_begin(struct hybrid *h, const struct rest *rest)
{
    if (rest->mask->is_warm && h->tail_backend->mask_rest) h->tail_backend->mask_rest(h->tail, rest->mask->tail);
    rest->mask->is_warm = rest->mask->is_ready = false;
    h->leaving[h->n_leaving++] = *rest;
}

/* Those that the device's own threads are done with may go. One that is warm again has another rest before it. */
static void let_go(struct hybrid *h, bool all)
{
    for (int i = 0; i < h->n_leaving;) {
        const struct rest *rest = &h->leaving[i];
        if (!all && !rest->mask->is_warm && h->tail_backend->mask_idle &&
            !h->tail_backend->mask_idle(h->tail, rest->mask->tail)) {
            i++;
            continue;
        }
        atomic_store_explicit(&rest->mask->idle, rest->number, memory_order_release);
        h->leaving[i] = h->leaving[--h->n_leaving];
    }
}

static void warm_up(struct hybrid *h, struct job *job, int i)
{
    struct hybrid_mask *mask = job->masks[i];
    if (!mask->is_warm && h->tail_backend->mask_warm) h->tail_backend->mask_warm(h->tail, mask->tail);
    mask->is_warm = true;
    mask->is_ready = mask->is_ready || job->full[i] || !h->tail_backend->mask_ready ||
                     h->tail_backend->mask_ready(h->tail, mask->tail);
    job->full[i] = mask->is_ready;
}

static int job_play(void *data, int64_t i, int n, char *why, size_t cap)
{
    struct hybrid *h = data;
    const char *lost;
    struct fade fade = {0};
    if (device_queue_lost(h->queue, &lost) >= 0) return HC_EDEVICE;
    if (i == DEVICE_QUEUE_SILENCE) return slot_play(h->tail_backend, h->tail, &h->silence, n, &fade, why, cap);
    struct job *job = &h->jobs[i % MOST_JOBS];
    for (int k = 0; k < job->n_rests; k++) rest_begin(h, &job->rests[k]);
    for (int k = 0; k < job->n_masks; k++) warm_up(h, job, k);
    fade.to = job->n_masks > 0 ? job->masks[0]->tail : NULL;
    if (job->n_masks == MOST_WARM) {
        fade.from = job->masks[1]->tail;
        fade.len = 1;
        fade.apart = &job->other;
    }
    int error = slot_play(h->tail_backend, h->tail, &job->slot, n, &fade, why, cap);
    if (!error) let_go(h, false);
    return error;
}

/* ---- open and close ------------------------------------------------------------------------------------------------
 */

static void start_over(struct hybrid *h)
{
    for (int i = 0; i < MOST_JOBS; i++) h->jobs[i].block = -1;
    h->block_index = 0;
    h->pos = 0;
    h->has_begun = false;
    h->fresh = true;
}

static void hybrid_close(void *state)
{
    struct hybrid *h = state;
    if (!h) return;
    device_queue_close(h->queue);
    for (int i = 0; i < MOST_JOBS; i++) {
        slot_free(h->tail_backend, h->tail, &h->jobs[i].slot);
        slot_free(h->tail_backend, h->tail, &h->jobs[i].other);
    }
    slot_free(h->tail_backend, h->tail, &h->silence);
    if (h->tail) h->tail_backend->close(h->tail);
    if (h->near) h->near_backend->close(h->near);
    free(h);
}

static int tail_slot_make(struct hybrid *h, struct slot *slot, char *why, size_t cap)
{
    return slot_make(h->tail_backend, h->tail, h->n_in, h->n_out, h->length, slot, why, cap);
}

static int tail_open(struct hybrid *h, const hc_config *config, const struct plan *plan, int device, char *why,
                     size_t cap)
{
    hc_config c = *config;
    c.block = h->length = plan->block;
    c.max_taps = plan->max_taps;
    int error = h->tail_backend->open(&c, plan, device, &h->tail, why, cap);
    if (error) return error;
    for (int i = 0; i < MOST_JOBS && !error; i++) error = tail_slot_make(h, &h->jobs[i].slot, why, cap);
    if (!error) error = tail_slot_make(h, &h->silence, why, cap);
    if (error) return error;
    /* The thread has T frames of time: it sleeps at once, because many engines share the processors. */
    struct device_queue_setup setup = {.n_blocks = MOST_JOBS, .block = h->length, .play = job_play, .data = h};
    h->queue = device_queue_open(&setup, why, cap);
    return h->queue ? HC_OK : HC_ENOMEM;
}

static int hybrid_open(const struct backend *self, const hc_config *config, const struct plan *plan, int device,
                       void **state, char *why, size_t cap)
{
    struct hybrid *h = calloc(1, sizeof *h);
    if (!h) return fail(HC_ENOMEM, why, cap, "hybrid: no memory");
    hc_config c = *config;
    c.max_taps = plan->max_taps;
    h->near_backend = backend_find(self->near);
    h->tail_backend = backend_find(self->tail);
    h->n_in = config->n_in;
    h->n_out = config->n_out;
    atomic_init(&h->waits, config->wait_us < 0);
    int error = h->near_backend->open(&c, plan, 0, &h->near, why, cap);
    if (!error && plan->tail) error = tail_open(h, config, plan->tail, device, why, cap);
    if (error) {
        hybrid_close(h);
        return error;
    }
    start_over(h);
    *state = h;
    return HC_OK;
}

static void wait_set(void *state, bool waits)
{
    struct hybrid *h = state;
    atomic_store_explicit(&h->waits, waits, memory_order_relaxed);
    if (h->near_backend->wait_set) h->near_backend->wait_set(h->near, waits);
    if (h->tail && h->tail_backend->wait_set) h->tail_backend->wait_set(h->tail, waits);
}

/* ---- masks ---------------------------------------------------------------------------------------------------------
 */

static void hybrid_mask_free(void *state, void *impl)
{
    struct hybrid *h = state;
    struct hybrid_mask *mask = impl;
    if (mask->near) h->near_backend->mask_free(h->near, mask->near);
    if (mask->tail) h->tail_backend->mask_free(h->tail, mask->tail);
    if (mask->tail) h->n_tails--;
    free(mask);
}

/* Both parts of a matrix, which go on pointing to its taps. */
struct parts {
    struct matrix near, tail;
    int *tail_of; /* [n_responses]: a response's number in the tail; -1: it is too short */
};

static void parts_free(struct parts *parts)
{
    free(parts->near.n_taps);
    free(parts->tail.taps);
    free(parts->tail.n_taps);
    free(parts->tail.cells);
    free(parts->tail_of);
}

static bool parts_make(struct parts *parts, const struct matrix *matrix, int from)
{
    size_t n = (size_t)matrix->n_responses + 1;
    *parts = (struct parts){.near = *matrix};
    parts->near.n_taps = calloc(n, sizeof(int));
    parts->tail.taps = calloc(n, sizeof(float *));
    parts->tail.n_taps = calloc(n, sizeof(int));
    parts->tail.cells = calloc((size_t)matrix->n_cells + 1, sizeof(struct cell));
    parts->tail_of = calloc(n, sizeof(int));
    struct matrix *tail = &parts->tail;
    if (!parts->near.n_taps || !tail->taps || !tail->n_taps || !tail->cells || !parts->tail_of) return false;
    for (int r = 0; r < matrix->n_responses; r++) {
        int n_taps = matrix->n_taps[r];
        parts->near.n_taps[r] = n_taps < from ? n_taps : from;
        parts->tail_of[r] = -1;
        if (n_taps <= from) continue;
        parts->tail_of[r] = tail->n_responses;
        tail->taps[tail->n_responses] = matrix->taps[r] + from;
        tail->n_taps[tail->n_responses++] = n_taps - from;
    }
    for (int c = 0; c < matrix->n_cells; c++) {
        const struct cell *cell = &matrix->cells[c];
        int r = parts->tail_of[cell->response];
        if (r >= 0) tail->cells[tail->n_cells++] = (struct cell){cell->in, cell->out, r};
    }
    return true;
}

/* Room for what a second mask plays beside the first. */
static int others_make(struct hybrid *h, char *why, size_t cap)
{
    int error = HC_OK;
    for (int i = 0; i < MOST_JOBS && !error; i++)
        if (!h->jobs[i].other.in) error = tail_slot_make(h, &h->jobs[i].other, why, cap);
    h->has_others = !error;
    return error;
}

static int tail_make(struct hybrid *h, struct hybrid_mask *mask, const struct matrix *tail, char *why, size_t cap)
{
    int error = h->n_tails > 0 && !h->has_others ? others_make(h, why, cap) : HC_OK;
    if (!error) error = h->tail_backend->mask_make(h->tail, tail, &mask->tail, why, cap);
    if (!error) h->n_tails++;
    return error;
}

static int hybrid_mask_make(void *state, const struct matrix *matrix, void **impl, char *why, size_t cap)
{
    struct hybrid *h = state;
    struct parts parts = {0};
    struct hybrid_mask *mask = calloc(1, sizeof *mask);
    int error = HC_ENOMEM;
    if (!mask || !parts_make(&parts, matrix, h->tail ? 2 * h->length : INT_MAX))
        fail(HC_ENOMEM, why, cap, "hybrid: no memory for a mask of %d responses", matrix->n_responses);
    else
        error = h->near_backend->mask_make(h->near, &parts.near, &mask->near, why, cap);
    if (!error && parts.tail.n_cells > 0) error = tail_make(h, mask, &parts.tail, why, cap);
    parts_free(&parts);
    if (error && mask) hybrid_mask_free(h, mask);
    if (!error) *impl = mask;
    return error;
}

static void hybrid_mask_warm(void *state, void *impl)
{
    struct hybrid *h = state;
    struct hybrid_mask *mask = impl;
    if (h->near_backend->mask_warm) h->near_backend->mask_warm(h->near, mask->near);
    if (!mask->tail) return;
    for (int i = 0; i < h->n_resting; i++) /* the device has not heard of its rest yet */
        if (h->resting[i].mask == mask) h->resting[i] = h->resting[--h->n_resting];
    mask->warmth = ++h->n_warmed;
    mask->whole = h->fresh;
    h->warm[h->warm[0] ? 1 : 0] = mask;
}

static void hybrid_mask_rest(void *state, void *impl)
{
    struct hybrid *h = state;
    struct hybrid_mask *mask = impl;
    if (h->near_backend->mask_rest) h->near_backend->mask_rest(h->near, mask->near);
    if (!mask->tail) return;
    for (int i = 0; i < MOST_WARM; i++)
        if (h->warm[i] == mask) h->warm[i] = NULL;
    h->resting[h->n_resting++] = (struct rest){mask, ++mask->rests};
}

static bool hybrid_mask_idle(void *state, const void *impl)
{
    const struct hybrid *h = state;
    const struct hybrid_mask *mask = impl;
    if (h->near_backend->mask_idle && !h->near_backend->mask_idle(h->near, mask->near)) return false;
    return !mask->tail || atomic_load_explicit(&mask->idle, memory_order_acquire) == mask->rests;
}

/* ---- process -------------------------------------------------------------------------------------------------------
 */

/* The job that is due in the current block. false: its block was lost. */
static bool due_find(const struct hybrid *h, int64_t *i)
{
    int64_t next = device_queue_next(h->queue);
    for (int back = 1; back < MOST_JOBS && back <= next; back++) {
        *i = next - back;
        if (h->jobs[*i % MOST_JOBS].block == h->block_index - 2) return true;
    }
    return false;
}

/* What a mask plays in a job, [n_out][T]; NULL: the job does not have it with its full tail. */
static const float *rows_of(const struct job *job, const struct hybrid_mask *mask)
{
    for (int i = 0; i < job->n_masks; i++)
        if (job->masks[i] == mask && job->warmth[i] == mask->warmth && job->full[i])
            return i == 0 ? job->slot.out : job->other.out;
    return NULL;
}

static bool hybrid_mask_ready(void *state, const void *impl)
{
    struct hybrid *h = state;
    const struct hybrid_mask *mask = impl;
    int64_t due;
    if (h->near_backend->mask_ready && !h->near_backend->mask_ready(h->near, mask->near)) return false;
    if (!mask->tail || mask->whole) return true;
    if (!due_find(h, &due)) return false;
    /* Play is about to: and so it does not depend on the threads' timing. */
    if (atomic_load_explicit(&h->waits, memory_order_relaxed)) device_queue_await(h->queue, due, AWAIT_FOREVER);
    return device_queue_is_done(h->queue, due) && rows_of(&h->jobs[due % MOST_JOBS], mask);
}

static void add(float *y, const float *from, const float *to, int n, const struct fade *fade, int at)
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

/* Frames [at, at + n) of the output, which lie in one block, get their tail. HC_LATE: it is not there; HC_EDEVICE: nor
 * will it ever be. What a device did before it was lost is heard to the end. */
static int tail_add(struct hybrid *h, const struct rows *rows, int at, int n, const struct fade *fade)
{
    const struct hybrid_mask *to = fade->to, *from = fade->pos < fade->len ? fade->from : NULL;
    bool has_tail = (to && to->tail) || (from && from->tail);
    int64_t due;
    if (h->block_index < 2) return HC_OK;
    bool found = due_find(h, &due);
    if (found && has_tail && !h->has_waited) {
        device_queue_await(h->queue, due, rows->until_us);
        h->has_waited = true;
    }
    const char *why;
    int64_t failed = device_queue_lost(h->queue, &why);
    if (failed >= 0 && (!found || due >= failed)) return HC_EDEVICE;
    if (!has_tail) return HC_OK;
    if (!found || !device_queue_is_done(h->queue, due)) return HC_LATE;
    const struct job *job = &h->jobs[due % MOST_JOBS];
    const float *to_rows = to ? rows_of(job, to) : NULL, *from_rows = from ? rows_of(job, from) : NULL;
    for (int o = 0; o < h->n_out && (to_rows || from_rows); o++) {
        size_t row = (size_t)o * (size_t)h->length + (size_t)h->pos;
        add(rows->out[o] + at, from_rows ? from_rows + row : NULL, to_rows ? to_rows + row : NULL, n, fade, at);
    }
    return HC_OK;
}

static struct job *job_filled(struct hybrid *h)
{
    return &h->jobs[device_queue_next(h->queue) % MOST_JOBS];
}

static void block_begin(struct hybrid *h, int64_t until_us)
{
    h->has_begun = true;
    h->has_waited = false;
    h->has_room = device_queue_room(h->queue, until_us == AWAIT_FOREVER ? until_us : 0);
}

static void input_take(struct hybrid *h, const struct rows *rows, int at, int n)
{
    for (int ch = 0; ch < h->n_in && h->has_room; ch++)
        memcpy(job_filled(h)->slot.in + (size_t)ch * (size_t)h->length + h->pos, rows->in[ch] + at,
               (size_t)n * sizeof(float));
}

static void job_post(struct hybrid *h)
{
    struct job *job = job_filled(h);
    job->block = h->block_index;
    job->n_masks = 0;
    for (int i = 0; i < MOST_WARM; i++) {
        if (!h->warm[i]) continue;
        job->masks[job->n_masks] = h->warm[i];
        job->warmth[job->n_masks] = h->warm[i]->warmth;
        job->full[job->n_masks++] = h->warm[i]->whole;
    }
    job->n_rests = h->n_resting;
    memcpy(job->rests, h->resting, sizeof h->resting);
    h->n_resting = 0;
    device_queue_post(h->queue, h->length, 0);
}

static void block_end(struct hybrid *h)
{
    if (h->has_room)
        job_post(h);
    else
        device_queue_lose(h->queue, h->length);
    h->pos = 0;
    h->block_index++;
    h->has_begun = false;
}

static int hybrid_play(void *state, const struct rows *rows, int n, const struct fade *fade, char *why, size_t cap)
{
    struct hybrid *h = state;
    const struct hybrid_mask *to = fade->to, *from = fade->from;
    struct fade near = *fade;
    near.to = to ? to->near : NULL;
    near.from = from ? from->near : NULL;
    int worst = h->near_backend->play(h->near, rows, n, &near, why, cap);
    for (int at = 0, part; h->tail && at < n && worst >= 0; at += part) {
        part = n - at < h->length - h->pos ? n - at : h->length - h->pos;
        if (!h->has_begun) block_begin(h, rows->until_us);
        input_take(h, rows, at, part);
        int result = tail_add(h, rows, at, part, fade);
        if (result == HC_EDEVICE) {
            const char *lost;
            device_queue_lost(h->queue, &lost);
            return fail(HC_EDEVICE, why, cap, "%s", lost);
        }
        if (result == HC_LATE) worst = HC_LATE;
        h->pos += part;
        if (h->pos == h->length) block_end(h);
    }
    h->fresh = false;
    return worst;
}

static int hybrid_reset(void *state, char *why, size_t cap)
{
    struct hybrid *h = state;
    int error = h->near_backend->reset(h->near, why, cap);
    if (!h->tail) return error;
    device_queue_drain(h->queue);
    for (int i = 0; i < h->n_resting; i++) rest_begin(h, &h->resting[i]);
    h->n_resting = 0;
    if (!error) error = h->tail_backend->reset(h->tail, why, cap);
    let_go(h, true);
    for (int i = 0; i < MOST_WARM; i++)
        if (h->warm[i]) h->warm[i]->whole = true;
    start_over(h);
    return error;
}

/* ---- with a GPU, and with a thread of the CPU in its place ---------------------------------------------------------
 */

static int open_with_gpu(const hc_config *config, const struct plan *plan, int device, void **state, char *why,
                         size_t cap)
{
    return hybrid_open(&backend_hybrid, config, plan, device, state, why, cap);
}

static int open_with_cpu(const hc_config *config, const struct plan *plan, int device, void **state, char *why,
                         size_t cap)
{
    return hybrid_open(&backend_hybrid_cpu, config, plan, device, state, why, cap);
}

#define HYBRID                                                                                                         \
    .name = "hybrid", .in_place = true, .near = "cpu", .close = hybrid_close, .mask_make = hybrid_mask_make,           \
    .mask_free = hybrid_mask_free, .mask_warm = hybrid_mask_warm, .mask_ready = hybrid_mask_ready,                     \
    .mask_rest = hybrid_mask_rest, .mask_idle = hybrid_mask_idle, .play = hybrid_play, .reset = hybrid_reset,          \
    .wait_set = wait_set

const struct backend backend_hybrid = {HYBRID, .tail = "cuda", .open = open_with_gpu};
const struct backend backend_hybrid_cpu = {HYBRID, .choice = "hybrid:cpu", .tail = "cpu", .open = open_with_cpu};
