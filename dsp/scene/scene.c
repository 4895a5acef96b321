#include "scene.h"

#include "dsp/base/mailbox.h"
#include "dsp/base/memory.h"
#include "dsp/device/backend.h"
#include "scene_steering.h"

#include <math.h>
#include <stdlib.h>

enum { PREFETCH = 12 }; /* mailboxes to prefetch ahead: they are in another core's cache */

struct scene {
    struct scene_setup setup;
    void *state; /* the backend's state */
    struct bank_meter *meter;
    struct mailboxes requests; /* [n_sources]: struct steer_request */

    /* The engine thread writes the fields below often; all threads that steer read the fields above. If they shared a
     * cache line, or in a pair of lines that is loaded together, these threads would wait for each other. */
    char apart[128];
    struct wanted *wanted; /* [n_sources] */
    struct steering levels[HC_MAX_STEER_LEVELS];
    int64_t frame;    /* frames played since open or reset */
    bool is_prepared; /* the requests for the next block are applied */
    bool is_still;    /* no weight of the head changes in this block */
    int n_active;     /* outputs of the largest bank played since open or reset: its tail may still be due */
    const float **in; /* [n_sources] */
    float **out;      /* [n_out] */
};

void scene_close(struct scene *s)
{
    if (!s) return;
    const struct scene_shape *shape = &s->setup.shape;
    if (s->state) s->setup.backend->close(s->state);
    for (int l = 0; l < s->setup.plan.n_levels; l++) steering_close(&s->levels[l]);
    for (int i = 0; s->requests.memory && i < shape->n_sources; i++) {
        struct steer_request request;
        if (mailbox_remove(&s->requests, i, &request)) bank_unuse(request.bank, 1);
        if (s->wanted) bank_unuse(s->wanted[i].request.bank, 1);
    }
    bank_meter_release(s->meter);
    mailboxes_close(&s->requests);
    free(s->wanted);
    free(s->in);
    free(s->out);
    free(s);
    banks_sweep();
}

static bool memory_open(struct scene *s)
{
    const struct scene_shape *shape = &s->setup.shape;
    const struct scene_plan *plan = &s->setup.plan;
    size_t n = (size_t)shape->n_sources;
    s->meter = bank_meter_make();
    bool ok = mailboxes_open(&s->requests, shape->n_sources, sizeof(struct steer_request));
    s->wanted = memory_lines(n, sizeof *s->wanted);
    s->in = calloc(n, sizeof *s->in);
    s->out = calloc((size_t)shape->n_out, sizeof *s->out);
    if (!ok || !s->meter || !s->wanted || !s->in || !s->out) return false;
    for (int l = 0; l < plan->n_levels; l++) {
        int hop = plan->levels[l].hop;
        if (!steering_open(&s->levels[l], shape->n_sources, (plan->steer_fade + hop - 1) / hop)) return false;
    }
    return true;
}

int scene_open(const struct scene_setup *setup, struct scene **scene, struct reason *why)
{
    struct scene *s = calloc(1, sizeof *s);
    int error = HC_ENOMEM;
    if (!s) return fail(HC_ENOMEM, why, "no memory for moving sources; use fewer than %d", setup->shape.n_sources);
    s->setup = *setup;
    if (memory_open(s))
        error = setup->backend->open(&setup->plan, &setup->shape, setup->device, &s->state, why);
    else
        fail(HC_ENOMEM, why, "no memory for moving sources; use fewer than %d", setup->shape.n_sources);
    if (error)
        scene_close(s);
    else
        *scene = s;
    return error;
}

/* ---- requests ---------------------------------------------------------------------------------------------------- */

/* Makes *request the wanted one. Returns the bank that the earlier request used: the caller ends that use. */
static hc_bank *request_apply(struct wanted *wanted, const struct steer_request *request)
{
    hc_bank *before = wanted->request.bank;
    wanted->request = *request;
    wanted->number++;
    return before;
}

int scene_steer(struct scene *s, int source, const hc_bank *bank, const int *entry, const float *weight, int n,
                bool from_engine_thread)
{
    if (source < 0 || source >= s->setup.shape.n_sources || n < 0 || n > HC_MAX_MIX) return HC_EINVAL;
    if (n > 0 && (!bank || !entry)) return HC_EINVAL;
    if (n > 0 && (bank->backend != s->setup.backend || bank->device != s->setup.device ||
                  !scene_plan_is_same(&bank->plan, &s->setup.plan) || bank->n_out > s->setup.shape.n_out))
        return HC_EINVAL;
    struct steer_request request = {.bank = n > 0 ? (hc_bank *)bank : NULL, .n = n}, unread;
    for (int i = 0; i < n; i++) {
        request.entry[i] = entry[i];
        request.weight[i] = weight ? weight[i] : 1;
        if (entry[i] < 0 || entry[i] >= bank->n_entries || !isfinite(request.weight[i])) return HC_EINVAL;
    }
    bank_use(request.bank, 1);
    if (from_engine_thread)
        bank_unuse(request_apply(&s->wanted[source], &request), 1);
    else if (mailbox_put(&s->requests, source, &request, &unread))
        bank_unuse(unread.bank, 1);
    return HC_OK;
}

static void apply_requests(struct scene *s)
{
    hc_bank *unused = NULL; /* replaced requests usually share a bank: its n_unused uses end together */
    int n_unused = 0;
    for (int i = 0; i < s->setup.shape.n_sources; i++) {
        struct steer_request request;
        if (i + PREFETCH < s->setup.shape.n_sources) {
            mailbox_prefetch(&s->requests, i + PREFETCH);
            __builtin_prefetch(&s->wanted[i + PREFETCH], 1);
        }
        if (!mailbox_remove(&s->requests, i, &request)) continue;
        hc_bank *before = request_apply(&s->wanted[i], &request);
        if (before != unused) {
            bank_unuse(unused, n_unused);
            unused = before;
            n_unused = 0;
        }
        n_unused++;
    }
    bank_unuse(unused, n_unused);
}

void scene_prepare(struct scene *s)
{
    if (s->is_prepared || s->frame % s->setup.plan.block) return;
    apply_requests(s);
    s->is_prepared = true;
}

/* ---- audio ------------------------------------------------------------------------------------------------------- */

static struct scene_mix mix_of(const struct term_list *list)
{
    return (struct scene_mix){.n = list->n, .terms = list->terms};
}

/* Applies requests at the first frame of a block, for the levels that have an edge there. Sets the tail mixes of *call,
 * which point into tail[]. */
static void apply_edges(struct scene *s, struct scene_call *call, struct scene_mix tail[])
{
    const struct scene_plan *plan = &s->setup.plan;
    scene_prepare(s);
    s->is_prepared = false;
    s->is_still = true;
    for (int l = 0; l < plan->n_levels; l++) {
        if (s->frame % plan->levels[l].hop) continue;
        bool follows = l > 0 && steering_can_follow(&s->levels[l], &s->levels[0]), changed = true;
        if (follows)
            steering_follow(&s->levels[l], &s->levels[0]);
        else
            changed = steering_step(&s->levels[l], s->wanted, s->frame == 0);
        const struct term_list *now = &s->levels[l].lists[s->levels[l].now];
        if (now->n_active > s->n_active) s->n_active = now->n_active;
        if (l == 0) {
            s->is_still = !changed || s->frame == 0;
        } else {
            tail[l] = mix_of(now);
            call->tail[l] = &tail[l];
        }
    }
}

/* Plays n frames from frame `from` of the call, all in one block. */
static int play_segment(struct scene *s, const struct rows *rows, struct io_buffer *buffer, int from, int n,
                        struct reason *why)
{
    const struct scene_shape *shape = &s->setup.shape;
    struct scene_call call = {
        .frame = s->frame, .n = n, .in = s->in, .out = s->out, .buffer = buffer, .buffer_offset = from};
    struct scene_mix tail[HC_MAX_STEER_LEVELS];
    if (rows) call.until_us = rows->until_us;
    for (int i = 0; rows && i < shape->n_sources; i++) s->in[i] = rows->in[i] + from;
    for (int i = 0; rows && i < shape->n_out; i++) s->out[i] = rows->out[i] + from;
    if (s->setup.backend->begin) {
        int error = s->setup.backend->begin(s->state, &call, why);
        if (error) return error;
    }
    if (s->frame % s->setup.plan.block == 0) apply_edges(s, &call, tail);
    const struct steering *head = &s->levels[0];
    call.to = mix_of(&head->lists[head->now]);
    call.from = s->is_still ? call.to : mix_of(&head->lists[1 - head->now]);
    call.is_still = s->is_still;
    call.n_active = s->n_active;
    s->frame += n;
    return s->setup.backend->play(s->state, &call, why);
}

int scene_play(struct scene *s, const struct rows *rows, struct io_buffer *buffer, int n, struct reason *why)
{
    int worst = HC_OK;
    for (int from = 0; from < n;) {
        int left = s->setup.plan.block - (int)(s->frame % s->setup.plan.block);
        int segment = left < n - from ? left : n - from;
        int result = play_segment(s, rows, buffer, from, segment, why);
        if (result < 0) return result;
        if (result > worst) worst = result;
        from += segment;
    }
    return worst;
}

bool scene_await_all(struct scene *s, int64_t until_us)
{
    const struct scene_backend *backend = s->setup.backend;
    return !backend->await_all || backend->await_all(s->state, until_us);
}

int scene_reset(struct scene *s, struct reason *why)
{
    s->frame = 0;
    s->n_active = 0;
    return s->setup.backend->reset(s->state, why);
}

/* ---- banks and properties ---------------------------------------------------------------------------------------- */

int scene_bank_make(struct scene *s, const hc_bank_data *data, hc_bank **bank, struct reason *why)
{
    return bank_prepare(s->setup.backend, s->setup.device, &s->setup.plan, s->setup.shape.n_out, s->meter, data, bank,
                        why);
}

/* Returns the bytes that memory_open and the backend's state use. */
static double memory_of(const struct scene *s)
{
    const struct scene_setup *setup = &s->setup;
    double a_source = (double)(s->requests.stride + sizeof *s->wanted + sizeof *s->in);
    return setup->shape.n_sources * a_source + setup->shape.n_out * (double)sizeof *s->out +
           setup->plan.n_levels * steering_memory(setup->shape.n_sources) +
           setup->backend->memory(&setup->plan, &setup->shape);
}

void scene_report(struct scene *s, hc_info *info)
{
    const struct scene_plan *plan = &s->setup.plan;
    info->n_sources = s->setup.shape.n_sources;
    info->n_steer_levels = plan->n_levels;
    for (int l = 0; l < plan->n_levels; l++) {
        const struct scene_level *level = &plan->levels[l];
        info->steer_levels[l] = (hc_steer_level){level->offset, level->n_taps, level->hop, level->delay, level->fade};
    }
    info->bank_memory = atomic_load(&s->meter->bytes);
    info->memory += info->bank_memory + (uint64_t)memory_of(s);
}
