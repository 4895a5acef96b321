/* hybrid_scene - steered sources on backend hybrid: the CPU plays the first taps inside the call, a device plays the
 * tail behind a queue of its own.
 *
 *   taps     [0 ........ 2S)[2S ................. bank_taps)
 *             head           tail: a bank of its own, shifted by 2S, in device calls of S frames
 *
 *   frames   ... T - S .......... T ........... T + S .......... T + 2S
 *   input         [=== a hop ======)
 *   mix                            * taken for the tail
 *   device                         [ S frames of time )
 *   output                                      [=== a hop ======)     fades from the mix of T - S to that of T
 *
 * At the edge T of a hop, the hop's input and the mix that the tail takes there are posted as a job to the device
 * thread (device_queue.h). S frames later its output is due and is added to the head's. For the device a hop is a block
 * of a scene whose plan has a head alone. As for masks (hybrid.h): if the output of a job is not complete, the call
 * waits until its deadline, at most once a job; the hop then has no tail, and play returns HC_LATE. If all jobs are in
 * use, a hop is skipped, and the device's history contains silence instead.
 *
 * A job may be late, so that the engine has given up its banks: each bank counts its `jobs`, and is not freed before.
 */
#include "dsp/device/backend.h"

#include "dsp/base/await.h"
#include "dsp/device/device_queue.h"
#include "backends.h"
#include "dsp/device/scene_backend.h"

#include <stdlib.h>
#include <string.h>

enum {
    MAX_JOBS = 4,            /* one that is filled, one that is due, and two that the device may be late with */
    MIN_HOPS_A_SECOND = 100, /* of a tail that cannot change within 20 ms, as far as the block allows */
    MAX_HOPS_A_SECOND = 200,
};

struct hybrid_bank {
    const struct scene_backend *tail_backend;
    void *head, *tail; /* banks of the two backends; tail NULL: no response is so long */
    atomic_int jobs;   /* posted jobs that name the bank */
};

struct list {                 /* a mix with the banks of one of the two backends */
    struct scene_term *terms; /* [n_sources * HC_MAX_SOUNDING] */
    int n;
};

struct scene_job {
    struct slot slot;
    int64_t hop;          /* of the input, counted from the start of the stream; -1: none */
    struct list from, to; /* the mixes of two edges, with hybrid's banks; a bank counts both in its `jobs` */
    bool is_still;        /* both are the same; `from` is empty then */
    bool follows;         /* `from` is the `to` of the job before, and no hop was skipped in between */
    bool sounds;          /* the output is not just silence */
    int n_heard;
};

struct scene_state {
    const struct scene_backend *head_backend, *tail_backend;
    void *head, *tail; /* their states; tail NULL: the plan has no tail */
    struct scene_plan plan;
    struct scene_shape shape;
    int hop; /* S frames */
    struct device_queue *queue;
    struct scene_job jobs[MAX_JOBS]; /* job i at i % MAX_JOBS */

    /* audio thread */
    struct list lists[2]; /* the head's mix in this block and in the last one that changed it */
    int now;
    struct scene_mix taken; /* by the tail at the last edge; it stays valid until the next one */
    bool taken_sounds;
    bool follows;    /* the last hop was posted, so the next job follows it */
    bool has_room;   /* for the current hop's input */
    bool has_waited; /* for the job that is due */

    /* device thread */
    struct slot silence;
    struct list tail_lists[2]; /* the tail's mix in the last job, and the one that it faded from */
    int tail_now;
    int64_t tail_frame; /* frames that the device has played */
};

/* ---- the plan ---------------------------------------------------------------------------------------------------- */

/* S is as long as the tail's change within 20 ms permits: 2S + the fade. */
static int tail_hop(int rate, int block, int steer_fade)
{
    const int least = rate / MAX_HOPS_A_SECOND, usual = rate / MIN_HOPS_A_SECOND;
    int hop = (rate / 50 - steer_fade) / 2 / block * block;
    if (hop >= least && hop > 0) return hop;
    return usual > block ? (usual + block - 1) / block * block : block;
}

static void hybrid_plan_make(struct scene_plan *plan, int rate, int block, int steer_fade, int bank_taps)
{
    const int hop = tail_hop(rate, block, steer_fade), offset = 2 * hop;
    *plan = (struct scene_plan){
        .rate = rate, .block = block, .steer_fade = steer_fade, .bank_taps = bank_taps, .n_levels = 1};
    const bool has_tail = bank_taps > offset + hop;
    struct scene_level *head = &plan->levels[0];
    *head = (struct scene_level){.n_taps = has_tail ? offset : bank_taps, .hop = block, .fft = 2 * block};
    head->fade = steer_fade < block ? steer_fade : block;
    head->n_partitions = (head->n_taps + block - 1) / block;
    if (!has_tail) return;
    plan->n_levels = 2;
    plan->levels[1] = (struct scene_level){.offset = offset,
                                           .n_taps = bank_taps - offset,
                                           .hop = hop,
                                           .delay = hop,
                                           .fade = steer_fade < hop ? steer_fade : hop,
                                           .fft = 2 * hop};
    plan->levels[1].n_partitions = (bank_taps - offset + hop - 1) / hop;
}

/* The plan of one of the two scenes: level l of the plan as a head alone. */
static struct scene_plan plan_of(const struct scene_plan *plan, int l)
{
    struct scene_plan part = {.rate = plan->rate, .n_levels = 1, .levels = {plan->levels[l]}};
    part.block = part.levels[0].hop;
    part.steer_fade = part.levels[0].fade;
    part.bank_taps = part.levels[0].n_taps;
    part.levels[0].offset = part.levels[0].delay = 0;
    return part;
}

static struct scene_shape tail_shape(const struct scene_plan *plan, const struct scene_shape *shape)
{
    struct scene_shape tail = *shape;
    tail.slot_stride = plan->levels[1].hop;
    return tail;
}

/* ---- banks ------------------------------------------------------------------------------------------------------- */

static const struct scene_backend *backend_of(const char *name)
{
    const struct backend *backend = backend_find(name);
    return backend ? backend->scene : NULL;
}

static void hybrid_bank_free(void *impl)
{
    struct hybrid_bank *bank = impl;
    if (bank->head) scene_cpu.bank_free(bank->head);
    if (bank->tail) bank->tail_backend->bank_free(bank->tail);
    free(bank);
}

static bool hybrid_bank_released(const void *impl)
{
    const struct hybrid_bank *bank = impl;
    return atomic_load_explicit(&bank->jobs, memory_order_acquire) == 0;
}

/* A caller's struct may be shorter than ours: it must not be copied as a whole. */
static hc_bank_data data_of(const hc_bank_data *data, const float *const *taps, int n_taps)
{
    return (hc_bank_data){.size = sizeof(hc_bank_data),
                          .n_entries = data->n_entries,
                          .n_out = data->n_out,
                          .n_taps = n_taps,
                          .taps = taps};
}

static int tail_bank_make(struct hybrid_bank *bank, const struct scene_plan *plan, int device, const hc_bank_data *data,
                          uint64_t *bytes, struct reason *why)
{
    const size_t n = (size_t)data->n_entries * (size_t)data->n_out;
    const int offset = plan->levels[1].offset;
    const struct scene_plan part = plan_of(plan, 1);
    const float **taps = malloc(n * sizeof *taps);
    if (!taps) return fail(HC_ENOMEM, why, "no memory for a bank of %d entries", data->n_entries);
    for (size_t i = 0; i < n; i++) taps[i] = data->taps[i] + offset;
    const hc_bank_data tail = data_of(data, taps, data->n_taps - offset);
    int error = bank->tail_backend->bank_make(&part, device, &tail, &bank->tail, bytes, why);
    free((void *)taps);
    return error;
}

static int hybrid_bank_make(const char *tail_name, const struct scene_plan *plan, int device, const hc_bank_data *data,
                            void **impl, uint64_t *bytes, struct reason *why)
{
    struct hybrid_bank *bank = calloc(1, sizeof *bank);
    if (!bank) return fail(HC_ENOMEM, why, "no memory for a bank of %d entries", data->n_entries);
    bank->tail_backend = backend_of(tail_name);
    const struct scene_plan part = plan_of(plan, 0);
    const int n_head = data->n_taps < part.bank_taps ? data->n_taps : part.bank_taps;
    const hc_bank_data head = data_of(data, data->taps, n_head);
    uint64_t head_bytes = 0, tail_bytes = 0;
    int error = scene_cpu.bank_make(&part, 0, &head, &bank->head, &head_bytes, why);
    if (!error && data->n_taps > part.bank_taps) error = tail_bank_make(bank, plan, device, data, &tail_bytes, why);
    if (error) {
        hybrid_bank_free(bank);
        return error;
    }
    *bytes = head_bytes + tail_bytes;
    *impl = bank;
    return HC_OK;
}

/* Counts a job of each bank of a mix, or takes the count back; the terms of one bank usually follow each other. */
static void job_banks_count(const struct list *mix, int by)
{
    for (int i = 0, end; i < mix->n; i = end) {
        struct hybrid_bank *bank = mix->terms[i].bank;
        for (end = i + 1; end < mix->n && mix->terms[end].bank == bank;) end++;
        atomic_fetch_add_explicit(&bank->jobs, by, memory_order_acq_rel);
    }
}

/* ---- the device thread ------------------------------------------------------------------------------------------- */

static void tail_list_make(struct list *list, const struct list *mix)
{
    list->n = 0;
    for (int i = 0; i < mix->n; i++) {
        const struct hybrid_bank *bank = mix->terms[i].bank;
        if (!bank->tail) continue;
        list->terms[list->n] = mix->terms[i];
        list->terms[list->n++].bank = bank->tail;
    }
}

static struct scene_mix mix_of(const struct list *list)
{
    return (struct scene_mix){.n = list->n, .terms = list->terms};
}

static int tail_call(struct scene_state *s, struct slot *slot, struct scene_call *call, struct reason *why)
{
    call->frame = s->tail_frame;
    call->n = s->hop;
    call->in = slot->rows.in;
    call->out = slot->rows.out;
    call->slot = slot;
    call->until_us = AWAIT_FOREVER;
    s->tail_frame += s->hop;
    int error = s->tail_backend->begin ? s->tail_backend->begin(s->tail, call, why) : HC_OK;
    return error ? error : s->tail_backend->play(s->tail, call, why);
}

static int job_convolve(struct scene_state *s, struct scene_job *job, struct reason *why)
{
    struct scene_call call = {.is_still = job->is_still, .n_heard = job->n_heard};
    if (!job->is_still) {
        if (!job->follows) tail_list_make(&s->tail_lists[s->tail_now], &job->from);
        s->tail_now = 1 - s->tail_now;
    }
    if (!job->is_still || !job->follows) tail_list_make(&s->tail_lists[s->tail_now], &job->to);
    call.to = mix_of(&s->tail_lists[s->tail_now]);
    call.from = job->is_still ? call.to : mix_of(&s->tail_lists[1 - s->tail_now]);
    memset(job->slot.out, 0, (size_t)s->shape.n_out * (size_t)s->hop * sizeof(float));
    return tail_call(s, &job->slot, &call, why);
}

/* Gives up the banks of a job. */
static void job_release(struct scene_job *job)
{
    job_banks_count(&job->from, -1);
    job_banks_count(&job->to, -1);
    job->from.n = job->to.n = 0;
}

static int job_play(void *data, int64_t i, int n, struct reason *why)
{
    struct scene_state *s = data;
    const char *reason;
    bool works = device_queue_failed(s->queue, &reason) < 0;
    (void)n; /* S frames */
    if (i == DEVICE_QUEUE_SILENCE) {
        struct scene_call call = {.is_still = true};
        return works ? tail_call(s, &s->silence, &call, why) : HC_EDEVICE;
    }
    struct scene_job *job = &s->jobs[i % MAX_JOBS];
    int error = works ? job_convolve(s, job, why) : HC_EDEVICE;
    job_release(job);
    return error;
}

/* ---- open and close ---------------------------------------------------------------------------------------------- */

static void stream_restart(struct scene_state *s)
{
    for (int i = 0; i < MAX_JOBS; i++) {
        job_release(&s->jobs[i]);
        s->jobs[i].hop = -1;
    }
    s->taken = (struct scene_mix){0};
    s->taken_sounds = s->follows = false;
    s->tail_frame = 0;
}

static void hybrid_close(void *state)
{
    struct scene_state *s = state;
    if (!s) return;
    device_queue_close(s->queue);
    stream_restart(s);
    for (int i = 0; i < MAX_JOBS; i++) {
        slot_free(&backend_cpu, NULL, &s->jobs[i].slot);
        free(s->jobs[i].from.terms);
        free(s->jobs[i].to.terms);
    }
    slot_free(&backend_cpu, NULL, &s->silence);
    for (int i = 0; i < 2; i++) {
        free(s->lists[i].terms);
        free(s->tail_lists[i].terms);
    }
    if (s->tail) s->tail_backend->close(s->tail);
    if (s->head) s->head_backend->close(s->head);
    free(s);
}

static bool list_open(struct list *list, int n_sources)
{
    list->terms = calloc((size_t)n_sources * HC_MAX_SOUNDING, sizeof *list->terms);
    return list->terms != NULL;
}

/* A device reads slots in the host's memory too. */
static int tail_slot_make(struct scene_state *s, struct slot *slot, struct reason *why)
{
    return slot_make(&backend_cpu, NULL, s->shape.n_sources, s->shape.n_out, s->hop, slot, why);
}

static int tail_open(struct scene_state *s, int device, struct reason *why)
{
    const struct scene_plan part = plan_of(&s->plan, 1);
    const struct scene_shape shape = tail_shape(&s->plan, &s->shape);
    s->hop = part.block;
    bool ok = true;
    for (int i = 0; i < MAX_JOBS; i++)
        ok = ok && list_open(&s->jobs[i].from, shape.n_sources) && list_open(&s->jobs[i].to, shape.n_sources);
    for (int i = 0; i < 2; i++) ok = ok && list_open(&s->tail_lists[i], shape.n_sources);
    if (!ok) return fail(HC_ENOMEM, why, "hybrid: no memory for %d source%s", shape.n_sources, PLURAL(shape.n_sources));
    int error = s->tail_backend->open(&part, &shape, device, &s->tail, why);
    if (!error && s->tail_backend->wait_set) s->tail_backend->wait_set(s->tail, true); /* no deadline in that thread */
    for (int i = 0; i < MAX_JOBS && !error; i++) error = tail_slot_make(s, &s->jobs[i].slot, why);
    if (!error) error = tail_slot_make(s, &s->silence, why);
    if (error) return error;
    /* The device thread has S frames of time. It sleeps at once, because many engines share the processors. */
    struct device_queue_setup setup = {.n_blocks = MAX_JOBS, .block = s->hop, .play = job_play, .data = s};
    s->queue = device_queue_open(&setup, why);
    return s->queue ? HC_OK : HC_ENOMEM;
}

static int hybrid_open(const char *tail_name, const struct scene_plan *plan, const struct scene_shape *shape,
                       int device, void **state, struct reason *why)
{
    struct scene_state *s = calloc(1, sizeof *s);
    if (!s) return fail(HC_ENOMEM, why, "hybrid: no memory");
    s->head_backend = &scene_cpu;
    s->tail_backend = backend_of(tail_name);
    s->plan = *plan;
    s->shape = *shape;
    const struct scene_plan part = plan_of(plan, 0);
    int error = HC_OK;
    if (!s->tail_backend)
        error = fail(HC_EUNSUPPORTED, why, "hybrid: \"%s\" has no steered sources; use \"cpu\"", tail_name);
    for (int i = 0; i < 2 && !error; i++)
        if (!list_open(&s->lists[i], shape->n_sources))
            error =
                fail(HC_ENOMEM, why, "hybrid: no memory for %d source%s", shape->n_sources, PLURAL(shape->n_sources));
    if (!error) error = s->head_backend->open(&part, shape, 0, &s->head, why);
    if (!error && plan->n_levels > 1) error = tail_open(s, device, why);
    if (error) {
        hybrid_close(s);
        return error;
    }
    stream_restart(s);
    *state = s;
    return HC_OK;
}

static double hybrid_memory(const char *tail_name, const struct scene_plan *plan, const struct scene_shape *shape)
{
    const struct scene_backend *tail = backend_of(tail_name);
    const struct scene_plan head_part = plan_of(plan, 0);
    double bytes = scene_cpu.memory(&head_part, shape);
    if (plan->n_levels < 2 || !tail) return bytes;
    const struct scene_plan tail_part = plan_of(plan, 1);
    const struct scene_shape tail_sizes = tail_shape(plan, shape);
    bytes += tail->memory(&tail_part, &tail_sizes);
    return bytes + 4.0 * (MAX_JOBS + 1) * tail_part.block * (shape->n_sources + shape->n_out);
}

static void hybrid_wait_set(void *state, bool waits)
{
    struct scene_state *s = state;
    if (s->head_backend->wait_set) s->head_backend->wait_set(s->head, waits);
}

/* ---- play: the head ---------------------------------------------------------------------------------------------- */

static void head_list_make(struct list *list, const struct scene_mix *mix)
{
    list->n = mix->n;
    for (int i = 0; i < mix->n; i++) {
        const struct hybrid_bank *bank = mix->terms[i].bank;
        list->terms[i] = mix->terms[i];
        list->terms[i].bank = bank->head;
    }
}

static int head_play(struct scene_state *s, const struct scene_call *call, struct reason *why)
{
    struct scene_call head = *call;
    /* `from` is the `to` of the block before: a mix that changes is made once */
    if (call->frame % s->plan.block == 0 && (call->frame == 0 || !call->is_still)) {
        s->now = 1 - s->now;
        head_list_make(&s->lists[s->now], &call->to);
    }
    head.to = mix_of(&s->lists[s->now]);
    head.from = call->is_still ? head.to : mix_of(&s->lists[1 - s->now]);
    memset(head.tail, 0, sizeof head.tail);
    return s->head_backend->play(s->head, &head, why);
}

/* ---- play: the tail ---------------------------------------------------------------------------------------------- */

static struct scene_job *job_next(struct scene_state *s)
{
    return &s->jobs[device_queue_next(s->queue) % MAX_JOBS];
}

static bool has_tail(const struct scene_mix *mix)
{
    for (int i = 0; i < mix->n; i++)
        if (((const struct hybrid_bank *)mix->terms[i].bank)->tail) return true;
    return false;
}

static void list_copy(struct list *list, const struct scene_mix *mix)
{
    list->n = mix->n;
    if (mix->n) memcpy(list->terms, mix->terms, (size_t)mix->n * sizeof *mix->terms);
    job_banks_count(list, 1);
}

/* Posts the input of the hop that ends here, with the mix that the tail takes here. */
static void job_post(struct scene_state *s, const struct scene_call *call, bool is_still, bool sounds)
{
    struct scene_job *job = job_next(s);
    job->hop = call->frame / s->hop - 1;
    job->is_still = is_still;
    job->follows = s->follows;
    job->sounds = sounds;
    job->n_heard = call->n_heard;
    if (!is_still) list_copy(&job->from, &s->taken);
    list_copy(&job->to, call->tail[1]);
    device_queue_post(s->queue, s->hop, 0);
}

static void edge(struct scene_state *s, const struct scene_call *call)
{
    const struct scene_mix *mix = call->tail[1];
    const bool is_still = call->frame > 0 && mix->terms == s->taken.terms && mix->n == s->taken.n;
    const bool sounds = is_still ? s->taken_sounds : has_tail(mix);
    if (call->frame > 0) {
        if (s->has_room)
            job_post(s, call, is_still, sounds || s->taken_sounds);
        else
            device_queue_skip(s->queue, s->hop);
        s->follows = s->has_room;
    }
    s->taken = *mix;
    s->taken_sounds = sounds;
    s->has_waited = false;
    s->has_room = device_queue_has_room(s->queue, call->until_us == AWAIT_FOREVER ? AWAIT_FOREVER : 0);
}

/* The job whose output is due in a hop. false: that hop was skipped. */
static bool due_find(const struct scene_state *s, int64_t hop, int64_t *i)
{
    const int64_t next = device_queue_next(s->queue);
    for (int back = 1; back < MAX_JOBS && back <= next; back++) {
        *i = next - back;
        if (s->jobs[*i % MAX_JOBS].hop == hop - 2) return true;
    }
    return false;
}

/* HC_LATE: the job is not done. HC_EDEVICE: it will never be done. Jobs that were done before the device was lost are
 * still used. */
static int tail_add(struct scene_state *s, const struct scene_call *call)
{
    const int64_t hop = call->frame / s->hop;
    const size_t pos = (size_t)(call->frame % s->hop);
    int64_t due;
    if (hop < 2) return HC_OK;
    const bool found = due_find(s, hop, &due);
    const struct scene_job *job = &s->jobs[found ? due % MAX_JOBS : 0];
    if (found && job->sounds && !s->has_waited) {
        device_queue_await(s->queue, due, call->until_us);
        s->has_waited = true;
    }
    const char *why;
    const int64_t failed = device_queue_failed(s->queue, &why);
    if (failed >= 0 && (!found || due >= failed)) return HC_EDEVICE;
    if (!found) return s->taken_sounds ? HC_LATE : HC_OK;
    if (!job->sounds) return HC_OK;
    if (!device_queue_is_done(s->queue, due)) return HC_LATE;
    for (int out = 0; out < job->n_heard; out++) {
        const float *from = job->slot.out + (size_t)out * (size_t)s->hop + pos;
        for (int i = 0; i < call->n; i++) call->out[out][i] += from[i];
    }
    return HC_OK;
}

static int tail_play(struct scene_state *s, const struct scene_call *call)
{
    const size_t pos = (size_t)(call->frame % s->hop);
    if (pos == 0) edge(s, call);
    for (int i = 0; i < s->shape.n_sources && s->has_room; i++)
        memcpy(job_next(s)->slot.in + (size_t)i * (size_t)s->hop + pos, call->in[i], (size_t)call->n * sizeof(float));
    return tail_add(s, call);
}

static int hybrid_play(void *state, const struct scene_call *call, struct reason *why)
{
    struct scene_state *s = state;
    int result = head_play(s, call, why);
    if (result < 0 || !s->tail) return result;
    int tail_result = tail_play(s, call);
    if (tail_result < 0) {
        const char *reason;
        device_queue_failed(s->queue, &reason);
        return fail(HC_EDEVICE, why, "%s", reason);
    }
    return tail_result ? tail_result : result;
}

static int hybrid_reset(void *state, struct reason *why)
{
    struct scene_state *s = state;
    int error = s->head_backend->reset(s->head, why);
    if (!s->tail) return error;
    device_queue_drain(s->queue);
    if (!error) error = s->tail_backend->reset(s->tail, why);
    stream_restart(s);
    return error;
}

/* ---- with a GPU, and with a thread of the CPU in its place ------------------------------------------------------- */

#define VARIANT(name, tail)                                                                                            \
    static int open_##name(const struct scene_plan *plan, const struct scene_shape *shape, int device, void **state,   \
                           struct reason *why)                                                                         \
    {                                                                                                                  \
        return hybrid_open(tail, plan, shape, device, state, why);                                                     \
    }                                                                                                                  \
    static int bank_make_##name(const struct scene_plan *plan, int device, const hc_bank_data *data, void **bank,      \
                                uint64_t *bytes, struct reason *why)                                                   \
    {                                                                                                                  \
        return hybrid_bank_make(tail, plan, device, data, bank, bytes, why);                                           \
    }                                                                                                                  \
    static double memory_##name(const struct scene_plan *plan, const struct scene_shape *shape)                        \
    {                                                                                                                  \
        return hybrid_memory(tail, plan, shape);                                                                       \
    }                                                                                                                  \
    const struct scene_backend scene_##name = {.plan_make = hybrid_plan_make,                                          \
                                               .open = open_##name,                                                    \
                                               .close = hybrid_close,                                                  \
                                               .bank_make = bank_make_##name,                                          \
                                               .bank_free = hybrid_bank_free,                                          \
                                               .bank_released = hybrid_bank_released,                                  \
                                               .memory = memory_##name,                                                \
                                               .play = hybrid_play,                                                    \
                                               .wait_set = hybrid_wait_set,                                            \
                                               .reset = hybrid_reset}

VARIANT(hybrid, "cuda");
VARIANT(hybrid_cpu, "cpu");
