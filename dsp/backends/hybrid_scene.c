/* hybrid_scene - moving sources on backend hybrid: the CPU plays the first taps inside the call, a device plays the
 * tail behind it (delayed_tail.h).
 *
 *   taps     [0 ........ 2S)[2S ................. bank_taps)
 *             head           tail: a separate bank, shifted by 2S, in device calls of S frames
 *
 *   frames   ... T - S .......... T ........... T + S .......... T + 2S
 *   input         [=== a hop ======)
 *   mix                            * of the tail
 *   output                                      [=== a hop ======)     fades from the mix of T - S to that of T
 *
 * At the edge T of a hop, the hop's input is posted with the tail's mix at T. For the device, a hop is a block of a
 * scene whose plan has only a head.
 *
 * A late job may need banks that the engine no longer uses: so each term of a job counts as a use of its bank.
 */
#include "backends.h"
#include "dsp/base/await.h"
#include "dsp/device/delayed_tail.h"
#include "dsp/device/hc_bank.h"

#include <stdlib.h>
#include <string.h>

enum {
    MIN_HOPS_A_SECOND = 100, /* if the tail cannot change within 20 ms; fewer if the block is longer */
    MAX_HOPS_A_SECOND = 200,
};

struct hybrid_list {          /* a mix; its terms count uses of their banks */
    struct scene_term *terms; /* [n_sources * HC_MAX_SOUNDING] */
    int n;
};

struct scene_job {
    struct hybrid_list from, to; /* the mixes of two edges, for the device thread; see scene_job_play */
    bool is_still;               /* both mixes are the same */
    bool follows;                /* `from` is the `to` of the job before, and no hop was skipped in between */
    bool sounds;                 /* the output is not silence */
    int n_active;
};

struct hybrid_scene {
    const struct scene_backend *tail_backend;
    void *head, *tail; /* states of scene_cpu and of tail_backend; tail NULL: the plan has no tail */
    struct scene_plan plan;
    struct scene_shape shape;
    struct delayed_tail delayed;
    struct scene_job jobs[TAIL_JOBS]; /* job i is at i % TAIL_JOBS */

    /* used by the audio thread */
    struct scene_mix edge_mix; /* the tail's mix at the last edge; valid until the next edge */
    bool edge_sounds;
    bool follows; /* the last hop was posted: the next job follows that hop */

    /* used by the device thread */
    struct hybrid_list playing; /* the tail's mix in the last job */
    int64_t tail_frame;         /* frames that the device has played */
};

/* ---- the plan ---------------------------------------------------------------------------------------------------- */

/* Returns the largest S for which the tail changes within 20 ms; a change takes 2S + the fade. */
static int tail_hop(int rate, int block, int steer_fade)
{
    const int min_hop = rate / MAX_HOPS_A_SECOND, usual = rate / MIN_HOPS_A_SECOND;
    int hop = (rate / 50 - steer_fade) / 2 / block * block;
    if (hop >= min_hop && hop > 0) return hop;
    return usual > block ? (usual + block - 1) / block * block : block;
}

static void hybrid_scene_plan_make(struct scene_plan *plan, int rate, int block, int steer_fade, int bank_taps)
{
    const int hop = tail_hop(rate, block, steer_fade);
    *plan = (struct scene_plan){.rate = rate, .block = block, .steer_fade = steer_fade, .bank_taps = bank_taps};
    scene_plan_divide(plan, 2 * hop, hop, 2 * hop);
}

/* Returns the plan of one of the two scenes, head or tail: level l of the plan as a head without tail levels. */
static struct scene_plan level_plan_of(const struct scene_plan *plan, int l)
{
    struct scene_plan half = {.rate = plan->rate, .n_levels = 1, .levels = {plan->levels[l]}};
    half.block = half.levels[0].hop;
    half.steer_fade = half.levels[0].fade;
    half.bank_taps = half.levels[0].n_taps;
    half.levels[0].offset = half.levels[0].delay = 0;
    return half;
}

static struct scene_shape tail_shape(const struct scene_plan *plan, const struct scene_shape *shape)
{
    struct scene_shape tail = *shape;
    tail.buffer_stride = plan->levels[1].hop;
    tail.part = 1;
    return tail;
}

/* ---- banks ------------------------------------------------------------------------------------------------------- */

static const struct scene_backend *backend_of(const char *name)
{
    const struct backend *backend = backend_find(name);
    return backend ? backend->scene : NULL;
}

static void head_bank_free(void *bank)
{
    scene_cpu.bank_free(bank);
}

/* Copies field by field: a caller's struct may be shorter than ours. */
static hc_bank_data data_of(const hc_bank_data *data, const float *const *taps, int n_taps)
{
    return (hc_bank_data){.size = sizeof(hc_bank_data),
                          .n_entries = data->n_entries,
                          .n_out = data->n_out,
                          .n_taps = n_taps,
                          .taps = taps};
}

static int tail_bank_make(const struct scene_backend *backend, const struct scene_plan *plan, int device,
                          const hc_bank_data *data, void **bank, uint64_t *bytes, struct reason *why)
{
    const size_t n = (size_t)data->n_entries * (size_t)data->n_out;
    const int offset = plan->levels[1].offset;
    const struct scene_plan half = level_plan_of(plan, 1);
    const float **taps = malloc(n * sizeof *taps);
    if (!taps) return fail(HC_ENOMEM, why, "no memory for a bank of %d entries; free some memory", data->n_entries);
    for (size_t i = 0; i < n; i++) taps[i] = data->taps[i] + offset;
    const hc_bank_data tail = data_of(data, taps, data->n_taps - offset);
    int error = backend->bank_make(&half, device, &tail, bank, bytes, why);
    free((void *)taps);
    return error;
}

static int hybrid_scene_bank_make(const char *tail_name, const struct scene_plan *plan, int device,
                                  const hc_bank_data *data, void **bank, uint64_t *bytes, struct reason *why)
{
    const struct scene_plan half = level_plan_of(plan, 0);
    const int n_head = data->n_taps < half.bank_taps ? data->n_taps : half.bank_taps;
    const hc_bank_data head = data_of(data, data->taps, n_head);
    uint64_t tail_bytes = 0;
    int error = scene_cpu.bank_make(&half, 0, &head, &bank[0], bytes, why);
    if (error || data->n_taps <= half.bank_taps) return error;
    error = tail_bank_make(backend_of(tail_name), plan, device, data, &bank[1], &tail_bytes, why);
    if (error) scene_cpu.bank_free(bank[0]);
    *bytes += tail_bytes;
    return error;
}

/* ---- lists ------------------------------------------------------------------------------------------------------- */

static double list_memory(int n_sources)
{
    return (double)n_sources * HC_MAX_SOUNDING * sizeof(struct scene_term);
}

static bool list_open(struct hybrid_list *list, int n_sources)
{
    list->terms = calloc((size_t)n_sources * HC_MAX_SOUNDING, sizeof *list->terms);
    return list->terms != NULL;
}

static void hybrid_list_clear(struct hybrid_list *list)
{
    terms_use(list->terms, list->n, -1);
    list->n = 0;
}

/* Copies a mix to an empty list, and counts uses of its banks. */
static void list_copy(struct hybrid_list *list, const struct scene_mix *mix)
{
    list->n = mix->n;
    if (mix->n) memcpy(list->terms, mix->terms, (size_t)mix->n * sizeof *mix->terms);
    terms_use(list->terms, list->n, 1);
}

static void lists_exchange(struct hybrid_list *a, struct hybrid_list *b)
{
    const struct hybrid_list c = *a;
    *a = *b;
    *b = c;
}

static struct scene_mix hybrid_mix_of(const struct hybrid_list *list)
{
    return (struct scene_mix){.n = list->n, .terms = list->terms};
}

/* ---- the device thread ------------------------------------------------------------------------------------------- */

static int tail_call(struct hybrid_scene *s, struct io_buffer *buffer, int n, struct scene_call *call,
                     struct reason *why)
{
    call->frame = s->tail_frame;
    call->n = n;
    call->in = buffer->rows.in;
    call->out = buffer->rows.out;
    call->buffer = buffer;
    call->until_us = AWAIT_FOREVER;
    s->tail_frame += n;
    int error = s->tail_backend->begin ? s->tail_backend->begin(s->tail, call, why) : HC_OK;
    return error ? error : s->tail_backend->play(s->tail, call, why);
}

/* The job's list becomes `playing`; the job keeps the earlier list until the job ends. So `from` stays at the address
 * that the tail backend knows. */
static int scene_job_play(void *data, int64_t i, struct io_buffer *buffer, int n, struct reason *why)
{
    struct hybrid_scene *s = data;
    if (i == DEVICE_QUEUE_SILENCE) return tail_call(s, buffer, n, &(struct scene_call){.is_still = true}, why);
    struct scene_job *job = &s->jobs[i % TAIL_JOBS];
    if (!job->follows && !job->is_still) lists_exchange(&s->playing, &job->from);
    if (!job->follows || !job->is_still) lists_exchange(&s->playing, &job->to);
    struct scene_call call = {.is_still = job->is_still, .n_active = job->n_active, .to = hybrid_mix_of(&s->playing)};
    call.from = job->is_still ? call.to : hybrid_mix_of(&job->to);
    memset(buffer->out, 0, (size_t)s->shape.n_out * (size_t)n * sizeof(float));
    return tail_call(s, buffer, n, &call, why);
}

static void job_clear(struct scene_job *job)
{
    hybrid_list_clear(&job->from);
    hybrid_list_clear(&job->to);
}

static void job_end(void *data, int64_t i)
{
    struct hybrid_scene *s = data;
    job_clear(&s->jobs[i % TAIL_JOBS]);
}

/* ---- open and close ---------------------------------------------------------------------------------------------- */

static void stream_restart(struct hybrid_scene *s)
{
    for (int i = 0; i < TAIL_JOBS; i++) job_clear(&s->jobs[i]);
    hybrid_list_clear(&s->playing);
    s->edge_mix = (struct scene_mix){0};
    s->edge_sounds = s->follows = false;
    s->tail_frame = 0;
}

static void hybrid_scene_close(void *state)
{
    struct hybrid_scene *s = state;
    if (!s) return;
    delayed_tail_close(&s->delayed);
    stream_restart(s);
    for (int i = 0; i < TAIL_JOBS; i++) {
        free(s->jobs[i].from.terms);
        free(s->jobs[i].to.terms);
    }
    free(s->playing.terms);
    if (s->tail) s->tail_backend->close(s->tail);
    if (s->head) scene_cpu.close(s->head);
    free(s);
}

static int hybrid_scene_tail_open(struct hybrid_scene *s, int device, struct reason *why)
{
    const struct scene_plan half = level_plan_of(&s->plan, 1);
    const struct scene_shape shape = tail_shape(&s->plan, &s->shape);
    bool ok = list_open(&s->playing, shape.n_sources);
    for (int i = 0; i < TAIL_JOBS; i++)
        ok = ok && list_open(&s->jobs[i].from, shape.n_sources) && list_open(&s->jobs[i].to, shape.n_sources);
    if (!ok) return fail(HC_ENOMEM, why, "hybrid: no memory for moving sources; use fewer than %d", shape.n_sources);
    int error = s->tail_backend->open(&half, &shape, device, &s->tail, why);
    if (error) return error;
    struct delayed_tail_setup setup = {.backend = &backend_cpu, /* a device can read the host's memory, too */
                                       .n_in = shape.n_sources,
                                       .n_out = shape.n_out,
                                       .hop = half.block,
                                       .play = scene_job_play,
                                       .job_end = job_end,
                                       .data = s};
    return delayed_tail_open(&s->delayed, &setup, why);
}

static int hybrid_scene_open(const char *tail_name, const struct scene_plan *plan, const struct scene_shape *shape,
                             int device, void **state, struct reason *why)
{
    struct hybrid_scene *s = calloc(1, sizeof *s);
    if (!s) return fail(HC_ENOMEM, why, "hybrid: no memory for moving sources; free some memory");
    s->tail_backend = backend_of(tail_name);
    s->plan = *plan;
    s->shape = *shape;
    const struct scene_plan half = level_plan_of(plan, 0);
    int error = HC_OK;
    if (!s->tail_backend)
        error = fail(HC_EUNSUPPORTED, why, "hybrid: backend \"%s\" cannot play moving sources; use \"cpu\"", tail_name);
    if (!error) error = scene_cpu.open(&half, shape, 0, &s->head, why);
    if (!error && plan->n_levels > 1) error = hybrid_scene_tail_open(s, device, why);
    if (error) {
        hybrid_scene_close(s);
        return error;
    }
    stream_restart(s);
    *state = s;
    return HC_OK;
}

static double hybrid_scene_memory(const char *tail_name, const struct scene_plan *plan, const struct scene_shape *shape)
{
    const struct scene_backend *tail = backend_of(tail_name);
    const struct scene_plan head_part = level_plan_of(plan, 0);
    double bytes = scene_cpu.memory(&head_part, shape);
    if (plan->n_levels < 2 || !tail) return bytes;
    const struct scene_plan tail_part = level_plan_of(plan, 1);
    const struct scene_shape tail_sizes = tail_shape(plan, shape);
    bytes += tail->memory(&tail_part, &tail_sizes);
    bytes += (2 * TAIL_JOBS + 1) * list_memory(shape->n_sources); /* those of the jobs, and the one that plays */
    return bytes + delayed_tail_memory(shape->n_sources, shape->n_out, tail_part.block);
}

/* ---- play ---------------------------------------------------------------------------------------------- */

static int head_play(struct hybrid_scene *s, const struct scene_call *call, struct reason *why)
{
    struct scene_call head = *call;
    memset(head.tail, 0, sizeof head.tail);
    return scene_cpu.play(s->head, &head, why);
}

static bool has_tail(const struct scene_mix *mix)
{
    for (int i = 0; i < mix->n; i++)
        if (mix->terms[i].bank->impl[1]) return true;
    return false;
}

/* Adds the mixes to the job of the hop that ends here. */
static void scene_job_fill(struct hybrid_scene *s, const struct scene_call *call, bool is_still, bool sounds)
{
    struct scene_job *job = &s->jobs[delayed_tail_next(&s->delayed) % TAIL_JOBS];
    job->is_still = is_still;
    job->follows = s->follows;
    job->sounds = sounds;
    job->n_active = call->n_active;
    if (!job->follows && !is_still) list_copy(&job->from, &s->edge_mix);
    if (!job->follows || !is_still) list_copy(&job->to, call->tail[1]);
}

static void edge(struct hybrid_scene *s, const struct scene_call *call)
{
    const struct scene_mix *mix = call->tail[1];
    const bool is_still = call->frame > 0 && mix->terms == s->edge_mix.terms && mix->n == s->edge_mix.n;
    const bool sounds = is_still ? s->edge_sounds : has_tail(mix);
    if (call->frame > 0) {
        if (s->delayed.has_job) scene_job_fill(s, call, is_still, sounds || s->edge_sounds);
        s->follows = s->delayed.has_job;
        delayed_tail_end(&s->delayed);
    }
    s->edge_mix = *mix;
    s->edge_sounds = sounds;
    delayed_tail_begin(&s->delayed, call->until_us);
}

static int tail_play(struct hybrid_scene *s, const struct scene_call *call, struct reason *why)
{
    const int hop = s->delayed.setup.hop;
    if (call->frame % hop == 0) edge(s, call);
    const int64_t due = delayed_tail_due(&s->delayed);
    const struct scene_job *job = due >= 0 ? &s->jobs[due % TAIL_JOBS] : NULL;
    const bool sounds = job ? job->sounds : s->edge_sounds;
    const int result = delayed_tail_await(&s->delayed, due, sounds, call->until_us, why);
    for (int out = 0; result == HC_OK && job && sounds && out < job->n_active; out++) {
        const float *from = s->delayed.buffers[due % TAIL_JOBS].out + (size_t)out * (size_t)hop + s->delayed.pos;
        for (int i = 0; i < call->n; i++) call->out[out][i] += from[i];
    }
    delayed_tail_input(&s->delayed, call->in, 0, call->n);
    return result;
}

static int hybrid_scene_play(void *state, const struct scene_call *call, struct reason *why)
{
    struct hybrid_scene *s = state;
    int result = head_play(s, call, why);
    if (result < 0 || !s->tail) return result;
    int tail_result = tail_play(s, call, why);
    return tail_result ? tail_result : result;
}

static bool hybrid_scene_await_all(void *state, int64_t until_us)
{
    struct hybrid_scene *s = state;
    return !s->tail || device_queue_await_all(s->delayed.queue, until_us);
}

static int hybrid_scene_reset(void *state, struct reason *why)
{
    struct hybrid_scene *s = state;
    int error = scene_cpu.reset(s->head, why);
    if (!s->tail) return error;
    device_queue_drain(s->delayed.queue);
    delayed_tail_restart(&s->delayed);
    if (!error) error = s->tail_backend->reset(s->tail, why);
    stream_restart(s);
    return error;
}

/* ---- the backends: tail on a GPU, tail on a thread of the CPU ---------------------------------------------------- */

#define VARIANT(name, tail)                                                                                            \
    static int open_##name(const struct scene_plan *plan, const struct scene_shape *shape, int device, void **state,   \
                           struct reason *why)                                                                         \
    {                                                                                                                  \
        return hybrid_scene_open(tail, plan, shape, device, state, why);                                               \
    }                                                                                                                  \
    static int bank_make_##name(const struct scene_plan *plan, int device, const hc_bank_data *data, void **bank,      \
                                uint64_t *bytes, struct reason *why)                                                   \
    {                                                                                                                  \
        return hybrid_scene_bank_make(tail, plan, device, data, bank, bytes, why);                                     \
    }                                                                                                                  \
    static double memory_##name(const struct scene_plan *plan, const struct scene_shape *shape)                        \
    {                                                                                                                  \
        return hybrid_scene_memory(tail, plan, shape);                                                                 \
    }                                                                                                                  \
    static void tail_bank_free_##name(void *bank)                                                                      \
    {                                                                                                                  \
        backend_of(tail)->bank_free(bank);                                                                             \
    }                                                                                                                  \
    const struct scene_backend scene_##name = {.plan_make = hybrid_scene_plan_make,                                    \
                                               .open = open_##name,                                                    \
                                               .close = hybrid_scene_close,                                            \
                                               .bank_make = bank_make_##name,                                          \
                                               .bank_free = head_bank_free,                                            \
                                               .tail_bank_free = tail_bank_free_##name,                                \
                                               .memory = memory_##name,                                                \
                                               .play = hybrid_scene_play,                                              \
                                               .await_all = hybrid_scene_await_all,                                    \
                                               .reset = hybrid_scene_reset}

VARIANT(hybrid, "cuda");
VARIANT(hybrid_cpu, "cpu");
