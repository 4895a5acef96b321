#include "hybrid.h"

#include "backends.h"
#include "dsp/base/await.h"
#include "dsp/device/device_queue.h"
#include "dsp/device/scene_backend.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_JOBS = 4 }; /* one that is filled, one that is due, and two that the device may be late with */

struct hybrid_mask {
    void *head, *tail;             /* masks of the two backends; tail NULL: the mask has no taps there */
    uint64_t preparation;          /* number of its last preparation; audio thread */
    bool from_start;               /* prepared before the first block: every job has its full tail; audio thread */
    uint64_t n_retirements;        /* audio thread */
    atomic_uint_fast64_t released; /* number of the last retirement after which the device released the mask */
    bool is_prepared, is_ready;    /* in the tail backend; device thread */
};

struct retirement {
    struct hybrid_mask *mask;
    uint64_t number; /* the mask's n_retirements */
};

struct hybrid_job {
    struct slot slot, second; /* second.out: the output of a second mask */
    int64_t block;            /* of T frames, counted from the start of the stream; -1: none */
    int n_masks, n_retirements;
    struct hybrid_mask *masks[MAX_PREPARED]; /* those prepared or playing when the job is posted */
    uint64_t preparation[MAX_PREPARED];      /* of the masks: an address may be used again for another mask */
    bool full[MAX_PREPARED];                 /* is the mask's full tail in the output? Set when the job is posted, if
                                                 that is known, else by the device thread */
    struct retirement retirements[MAX_RETIRED]; /* to begin before the job is played */
};

struct hybrid {
    const struct backend *head_backend, *tail_backend;
    void *head, *tail; /* their states; tail NULL: the plan has no tail */
    int n_in, n_out;
    int tail_block; /* T frames (hybrid.h) */
    struct device_queue *queue;
    struct hybrid_job jobs[MAX_JOBS];  /* job i at i % MAX_JOBS */
    atomic_bool waits;                 /* calls wait without bound */

    /* audio thread */
    int pos; /* frames of the current block so far */
    int64_t block_index;
    bool fresh;      /* nothing was played since open or reset */
    bool has_room;   /* for the current block's input */
    bool has_waited; /* for the job that is due */
    uint64_t n_preparations;
    struct hybrid_mask *prepared[MAX_PREPARED];
    struct retirement retirements[MAX_RETIRED]; /* to post with the next job */
    int n_retirements;

    /* device thread */
    struct slot silence;
    struct retirement retired[MAX_RETIRED]; /* in the tail backend, not released yet */
    int n_retired;

    /* setup */
    int n_tails; /* masks with a tail; before there are two, every job gets its `second` slot */
};

int hybrid_tail_block(int rate, int block)
{
    int length = 64;
    while (length < block || length < rate / 100) length *= 2;
    return length;
}

double hybrid_memory(const struct plan *tail, const struct plan_shape *shape)
{
    return 4.0 * MAX_JOBS * tail->block * (shape->n_in + shape->n_out);
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

static int job_play(void *data, int64_t i, int n, struct reason *why)
{
    struct hybrid *h = data;
    const char *reason;
    struct fade fade = {0};
    if (device_queue_failed(h->queue, &reason) >= 0) return HC_EDEVICE;
    if (i == DEVICE_QUEUE_SILENCE) return slot_play(h->tail_backend, h->tail, &h->silence, n, &fade, why);
    struct hybrid_job *job = &h->jobs[i % MAX_JOBS];
    for (int k = 0; k < job->n_retirements; k++) retirement_begin(h, &job->retirements[k]);
    for (int k = 0; k < job->n_masks; k++) job_prepare(h, job, k);
    fade.to = job->n_masks > 0 ? job->masks[0]->tail : NULL;
    if (job->n_masks == MAX_PREPARED) {
        fade.from = job->masks[1]->tail;
        fade.len = 1;
        fade.apart = &job->second;
    }
    int error = slot_play(h->tail_backend, h->tail, &job->slot, n, &fade, why);
    if (!error) retirements_sweep(h, false);
    return error;
}

/* ---- open and close ---------------------------------------------------------------------------------------------- */

static void stream_restart(struct hybrid *h)
{
    for (int i = 0; i < MAX_JOBS; i++) h->jobs[i].block = -1;
    h->block_index = 0;
    h->pos = 0;
    h->fresh = true;
}

static void hybrid_close(void *state)
{
    struct hybrid *h = state;
    if (!h) return;
    device_queue_close(h->queue);
    for (int i = 0; i < MAX_JOBS; i++) {
        slot_free(h->tail_backend, h->tail, &h->jobs[i].slot);
        slot_free(h->tail_backend, h->tail, &h->jobs[i].second);
    }
    slot_free(h->tail_backend, h->tail, &h->silence);
    if (h->tail) h->tail_backend->close(h->tail);
    if (h->head) h->head_backend->close(h->head);
    free(h);
}

static int hybrid_slot_make(struct hybrid *h, struct slot *slot, struct reason *why)
{
    return slot_make(h->tail_backend, h->tail, h->n_in, h->n_out, h->tail_block, slot, why);
}

static int hybrid_tail_open(struct hybrid *h, const hc_config *config, const struct plan *plan, int device,
                            struct reason *why)
{
    hc_config c = *config;
    c.block = h->tail_block = plan->block;
    c.max_taps = plan->max_taps;
    int error = h->tail_backend->open(&c, plan, device, &h->tail, why);
    if (error) return error;
    for (int i = 0; i < MAX_JOBS && !error; i++) error = hybrid_slot_make(h, &h->jobs[i].slot, why);
    if (!error) error = hybrid_slot_make(h, &h->silence, why);
    if (error) return error;
    /* The device thread has T frames of time. It sleeps at once, because many engines share the processors. */
    struct device_queue_setup setup = {.n_blocks = MAX_JOBS, .block = h->tail_block, .play = job_play, .data = h};
    h->queue = device_queue_open(&setup, why);
    return h->queue ? HC_OK : HC_ENOMEM;
}

static int hybrid_open(const struct backend *self, const hc_config *config, const struct plan *plan, int device,
                       void **state, struct reason *why)
{
    struct hybrid *h = calloc(1, sizeof *h);
    if (!h) return fail(HC_ENOMEM, why, "hybrid: no memory");
    hc_config c = *config;
    c.max_taps = plan->max_taps;
    h->head_backend = backend_find(self->head);
    h->tail_backend = backend_find(self->tail);
    h->n_in = config->n_in;
    h->n_out = config->n_out;
    atomic_init(&h->waits, config->wait_us < 0);
    int error = h->head_backend->open(&c, plan, 0, &h->head, why);
    if (!error && plan->tail_plan) error = hybrid_tail_open(h, config, plan->tail_plan, device, why);
    if (error) {
        hybrid_close(h);
        return error;
    }
    stream_restart(h);
    *state = h;
    return HC_OK;
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
    if (mask->tail) h->n_tails--;
    free(mask);
}

/* The head and the tail of a matrix; both point to the matrix's taps. */
struct split {
    struct matrix head, tail;
    int *tail_of; /* [n_responses]: a response's index in the tail; -1: it is too short */
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

static int hybrid_tail_mask_make(struct hybrid *h, struct hybrid_mask *mask, const struct matrix *tail,
                                 struct reason *why)
{
    int error = HC_OK;
    for (int i = 0; i < MAX_JOBS && h->n_tails > 0 && !error; i++)
        if (!h->jobs[i].second.in) error = hybrid_slot_make(h, &h->jobs[i].second, why);
    if (!error) error = h->tail_backend->mask_make(h->tail, tail, &mask->tail, why);
    if (!error) h->n_tails++;
    return error;
}

static int hybrid_mask_make(void *state, const struct matrix *matrix, void **impl, struct reason *why)
{
    struct hybrid *h = state;
    struct split split = {0};
    struct hybrid_mask *mask = calloc(1, sizeof *mask);
    int error = HC_ENOMEM;
    if (!mask || !split_make(&split, matrix, h->tail ? 2 * h->tail_block : INT_MAX))
        fail(HC_ENOMEM, why, "hybrid: no memory for a mask of %d response%s", matrix->n_responses,
             PLURAL(matrix->n_responses));
    else
        error = h->head_backend->mask_make(h->head, &split.head, &mask->head, why);
    if (!error && split.tail.n_cells > 0) error = hybrid_tail_mask_make(h, mask, &split.tail, why);
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

/* Finds the job whose output is due in the current block. false: that block was skipped. */
static bool due_find(const struct hybrid *h, int64_t *i)
{
    int64_t next = device_queue_next(h->queue);
    for (int back = 1; back < MAX_JOBS && back <= next; back++) {
        *i = next - back;
        if (h->jobs[*i % MAX_JOBS].block == h->block_index - 2) return true;
    }
    return false;
}

/* The output of a mask in a job, [n_out][T]; NULL: the job does not have it with the full tail. */
static const float *rows_of(const struct hybrid_job *job, const struct hybrid_mask *mask)
{
    for (int i = 0; i < job->n_masks; i++)
        if (job->masks[i] == mask && job->preparation[i] == mask->preparation && job->full[i])
            return i == 0 ? job->slot.out : job->second.out;
    return NULL;
}

static bool hybrid_mask_ready(void *state, const void *impl)
{
    struct hybrid *h = state;
    const struct hybrid_mask *mask = impl;
    int64_t due;
    if (h->head_backend->mask_ready && !h->head_backend->mask_ready(h->head, mask->head)) return false;
    if (!mask->tail || mask->from_start) return true;
    if (!due_find(h, &due)) return false;
    /* The answer must not depend on the timing of threads. The play that follows waits for this job in any case. */
    if (atomic_load_explicit(&h->waits, memory_order_relaxed)) device_queue_await(h->queue, due, AWAIT_FOREVER);
    return device_queue_is_done(h->queue, due) && rows_of(&h->jobs[due % MAX_JOBS], mask);
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

/* Adds the tail to frames [at, at + n) of the output, which are in one block. HC_LATE: the job is not done. HC_EDEVICE:
 * it will never be done. Jobs that were done before the device was lost are still used. */
static int hybrid_tail_add(struct hybrid *h, const struct rows *rows, int at, int n, const struct fade *fade)
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
    int64_t failed = device_queue_failed(h->queue, &why);
    if (failed >= 0 && (!found || due >= failed)) return HC_EDEVICE;
    if (!has_tail) return HC_OK;
    if (!found || !device_queue_is_done(h->queue, due)) return HC_LATE;
    const struct hybrid_job *job = &h->jobs[due % MAX_JOBS];
    const float *to_rows = to ? rows_of(job, to) : NULL, *from_rows = from ? rows_of(job, from) : NULL;
    for (int o = 0; o < h->n_out && (to_rows || from_rows); o++) {
        size_t row = (size_t)o * (size_t)h->tail_block + (size_t)h->pos;
        tail_mix(rows->out[o] + at, from_rows ? from_rows + row : NULL, to_rows ? to_rows + row : NULL, n, fade, at);
    }
    return HC_OK;
}

static struct hybrid_job *job_next(struct hybrid *h)
{
    return &h->jobs[device_queue_next(h->queue) % MAX_JOBS];
}

static void job_post(struct hybrid *h)
{
    struct hybrid_job *job = job_next(h);
    job->block = h->block_index;
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
    device_queue_post(h->queue, h->tail_block, 0);
}

/* Plays frames [at, at + n) of a call, which are in one block: copies their input to the next job, and adds the tail to
 * their output. */
static int hybrid_tail_play(struct hybrid *h, const struct rows *rows, int at, int n, const struct fade *fade)
{
    if (h->pos == 0) {
        h->has_waited = false;
        h->has_room = device_queue_has_room(h->queue, rows->until_us == AWAIT_FOREVER ? AWAIT_FOREVER : 0);
    }
    for (int ch = 0; ch < h->n_in && h->has_room; ch++)
        memcpy(job_next(h)->slot.in + (size_t)ch * (size_t)h->tail_block + h->pos, rows->in[ch] + at,
               (size_t)n * sizeof(float));
    int result = hybrid_tail_add(h, rows, at, n, fade);
    if (result == HC_EDEVICE) return result;
    h->pos += n;
    if (h->pos < h->tail_block) return result;
    if (h->has_room)
        job_post(h);
    else
        device_queue_skip(h->queue, h->tail_block);
    h->pos = 0;
    h->block_index++;
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
        len = n - at < h->tail_block - h->pos ? n - at : h->tail_block - h->pos;
        int result = hybrid_tail_play(h, rows, at, len, fade);
        if (result == HC_EDEVICE) {
            const char *reason;
            device_queue_failed(h->queue, &reason);
            return fail(HC_EDEVICE, why, "%s", reason);
        }
        if (result == HC_LATE) worst = HC_LATE;
    }
    h->fresh = false;
    return worst;
}

static int hybrid_reset(void *state, struct reason *why)
{
    struct hybrid *h = state;
    int error = h->head_backend->reset(h->head, why);
    if (!h->tail) return error;
    device_queue_drain(h->queue);
    for (int i = 0; i < h->n_retirements; i++) retirement_begin(h, &h->retirements[i]);
    h->n_retirements = 0;
    if (!error) error = h->tail_backend->reset(h->tail, why);
    retirements_sweep(h, true);
    for (int i = 0; i < MAX_PREPARED; i++)
        if (h->prepared[i]) h->prepared[i]->from_start = true;
    stream_restart(h);
    return error;
}

/* ---- with a GPU, and with a thread of the CPU in its place ------------------------------------------------------- */

static int open_with_gpu(const hc_config *config, const struct plan *plan, int device, void **state, struct reason *why)
{
    return hybrid_open(&backend_hybrid, config, plan, device, state, why);
}

static int open_with_cpu(const hc_config *config, const struct plan *plan, int device, void **state, struct reason *why)
{
    return hybrid_open(&backend_hybrid_cpu, config, plan, device, state, why);
}

#define HYBRID                                                                                                         \
    .name = "hybrid", .in_place = true, .head = "cpu", .close = hybrid_close, .mask_make = hybrid_mask_make,           \
    .mask_free = hybrid_mask_free, .mask_prepare = hybrid_mask_prepare, .mask_ready = hybrid_mask_ready,               \
    .mask_retire = hybrid_mask_retire, .mask_released = hybrid_mask_released, .play = hybrid_play,                     \
    .reset = hybrid_reset, .wait_set = hybrid_wait_set

const struct backend backend_hybrid = {HYBRID, .tail = "cuda", .open = open_with_gpu, .scene = &scene_hybrid};
const struct backend backend_hybrid_cpu = {HYBRID, .choice = "hybrid:cpu", .tail = "cpu", .open = open_with_cpu,
                                           .scene = &scene_hybrid_cpu};
