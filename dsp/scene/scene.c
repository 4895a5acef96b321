#include "scene.h"

#include "device_bank.h"
#include "dsp/base/mailbox.h"
#include "dsp/base/memory.h"
#include "dsp/device/backend.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    PREFETCH = 12,        /* mailboxes to prefetch ahead: they are in another core's cache */
    PREFETCH_SOURCES = 8, /* sources to prefetch ahead */
    CACHE_LINE = 64
};

/* ---- the terms of each source in one level: the fades between requests, hop by hop ------------------------------- */

/* At each edge of a hop the weights of a source's terms move towards those of its last request, in equal steps over
 * n_hops hops. Within a hop the backend fades between the lists of two edges. */

struct steer_request {
    hc_bank *bank; /* NULL if n is 0. The request counts as a use of the bank */
    int n;
    int entry[HC_MAX_MIX];
    float weight[HC_MAX_MIX];
};

struct wanted { /* the last request that the engine thread applied; fills a cache line */
    _Alignas(CACHE_LINE) struct steer_request request;
    unsigned number; /* number of requests of the source so far */
};

struct term_list {
    struct scene_term *terms; /* [n_sources * HC_MAX_SOUNDING], by source; each counts as a use of a bank */
    int n, n_active;          /* n: terms; n_active: outputs of the largest bank */
};

struct steering { /* the steering of one level */
    int n_sources, n_hops;
    struct source_mix *mixes;  /* [n_sources] */
    struct term_list lists[2]; /* of the last edge, and of the edge before until the next call */
    int now;                   /* the list of the last edge */
    unsigned n_changes;        /* how often this list, or that of the head it follows, changed */
};

struct source_mix {                       /* aligned: with up to two entries it takes one cache line */
    _Alignas(CACHE_LINE) unsigned number; /* number of the request that set the targets */
    int n, hops_left;
    struct scene_term terms[HC_MAX_SOUNDING];
};

static void list_clear(struct term_list *list)
{
    terms_use(list->terms, list->n, -1);
    list->n = list->n_active = 0;
}

/* false: no memory. [setup] */
static bool steering_open(struct steering *s, int n_sources, int n_hops)
{
    s->n_sources = n_sources;
    s->n_hops = n_hops;
    s->mixes = memory_lines((size_t)n_sources, sizeof *s->mixes);
    for (int i = 0; i < 2; i++)
        s->lists[i].terms = memory_lines((size_t)n_sources * HC_MAX_SOUNDING, sizeof *s->lists[i].terms);
    return s->mixes && s->lists[0].terms && s->lists[1].terms;
}

static void steering_close(struct steering *s)
{
    for (int i = 0; i < 2; i++) {
        list_clear(&s->lists[i]);
        free(s->lists[i].terms);
    }
    free(s->mixes);
}

/* Returns the bytes of the mixes and lists of a level. */
static double steering_memory(int n_sources)
{
    return n_sources * (double)(sizeof(struct source_mix) + sizeof(struct scene_term) * 2 * HC_MAX_SOUNDING);
}

static struct scene_term *steering_find(struct source_mix *mix, const hc_bank *bank, int entry)
{
    for (int i = 0; i < mix->n; i++)
        if (mix->terms[i].bank == bank && mix->terms[i].entry == entry) return &mix->terms[i];
    return NULL;
}

/* Counts the entries of a request that do not sound yet, each once. */
static int count_new(struct source_mix *mix, const struct steer_request *request)
{
    int n = 0;
    for (int i = 0; i < request->n; i++) {
        bool is_first = true;
        for (int k = 0; k < i; k++) is_first = is_first && request->entry[k] != request->entry[i];
        n += is_first && !steering_find(mix, request->bank, request->entry[i]);
    }
    return n;
}

/* Makes a request the target. *changed: the target differs from the earlier one. Returns false if too many entries
 * sound: then the fade under way must end first. */
static bool aim(struct source_mix *mix, int source, const struct steer_request *request, bool *changed)
{
    float before[HC_MAX_SOUNDING] = {0};
    const int n_before = mix->n;
    *changed = false;
    if (mix->n + count_new(mix, request) > HC_MAX_SOUNDING) return false;
    for (int i = 0; i < mix->n; i++) {
        before[i] = mix->terms[i].target;
        mix->terms[i].target = 0;
    }
    for (int i = 0; i < request->n; i++) {
        struct scene_term *term = steering_find(mix, request->bank, request->entry[i]);
        if (!term) {
            term = &mix->terms[mix->n++];
            *term = (struct scene_term){.bank = request->bank, .source = source, .entry = request->entry[i]};
        }
        term->target += request->weight[i];
    }
    for (int i = 0; i < mix->n; i++) *changed = *changed || mix->terms[i].target != before[i];
    if (!*changed) mix->n = n_before; /* the new entries have weight 0, and no list counts a use of their bank */
    return true;
}

static void steering_move(struct source_mix *mix)
{
    int n = 0, left = mix->hops_left--;
    for (int i = 0; i < mix->n; i++) {
        struct scene_term *term = &mix->terms[i];
        if (left == 1)
            term->weight = term->target;
        else
            term->weight += (term->target - term->weight) / (float)left;
        if (left > 1 || term->weight != 0) mix->terms[n++] = *term;
    }
    mix->n = n;
}

/* Plays a request at once, without a fade. Returns true if entries or weights changed. */
static bool jump(struct source_mix *mix, int source, const struct steer_request *request)
{
    struct scene_term next[HC_MAX_MIX];
    int n_next = 0, n = 0;
    bool same = true;
    for (int i = 0; i < request->n; i++) {
        int k = 0;
        while (k < n_next && next[k].entry != request->entry[i]) k++;
        if (k == n_next)
            next[n_next++] = (struct scene_term){.bank = request->bank, .source = source, .entry = request->entry[i]};
        next[k].weight = next[k].target += request->weight[i];
    }
    for (int i = 0; i < n_next; i++)
        if (next[i].weight != 0) next[n++] = next[i];
    for (int i = 0; i < n; i++) {
        const struct scene_term *old = &mix->terms[i], *new = &next[i];
        same = same && i < mix->n && old->bank == new->bank && old->entry == new->entry && old->weight == new->weight;
        mix->terms[i] = *new;
    }
    same = same && n == mix->n;
    mix->n = n;
    mix->hops_left = 0;
    return !same;
}

/* Moves a source's mix to the next edge. Returns true if weights change there. */
static bool mix_step(struct source_mix *mix, int source, const struct wanted *wanted, int n_hops, bool at_once)
{
    bool changed = false;
    if (at_once || n_hops == 1) {
        if (!at_once && mix->number == wanted->number) return false;
        mix->number = wanted->number;
        return jump(mix, source, &wanted->request) || at_once;
    }
    if (mix->number != wanted->number && aim(mix, source, &wanted->request, &changed)) {
        mix->number = wanted->number;
        if (changed) mix->hops_left = n_hops;
    }
    if (mix->hops_left == 0) return false;
    steering_move(mix);
    return true;
}

static void list_add(struct term_list *list, const struct source_mix *mix)
{
    for (int k = 0; k < mix->n; k++) {
        list->terms[list->n++] = mix->terms[k];
        if (mix->terms[k].bank->n_out > list->n_active) list->n_active = mix->terms[k].bank->n_out;
    }
}

/* Goes to the next edge. at_once: without a fade. Returns true if the list differs from the previous edge's list, which
 * stays valid until the next call. [rt], engine thread */
static bool steering_step(struct steering *s, const struct wanted *wanted, bool at_once)
{
    struct term_list *other = &s->lists[1 - s->now];
    bool changed = false;
    list_clear(other);
    for (int i = 0; i < s->n_sources; i++) {
        if (i + PREFETCH_SOURCES < s->n_sources) {
            __builtin_prefetch(&s->mixes[i + PREFETCH_SOURCES], 1);
            __builtin_prefetch(&wanted[i + PREFETCH_SOURCES]);
        }
        if (mix_step(&s->mixes[i], i, &wanted[i], s->n_hops, at_once) && !changed) {
            changed = true;
            for (int k = 0; k < i; k++) list_add(other, &s->mixes[k]);
        }
        if (changed) list_add(other, &s->mixes[i]);
    }
    if (!changed) return false;
    terms_use(other->terms, other->n, 1);
    s->now = 1 - s->now;
    s->n_changes++;
    return true;
}

/* If the fades of a level and of the head last one hop each, both have the same list at a common edge: the entries of
 * the last requests. steering_follow copies the head's list instead of calling steering_step. If the head has not
 * changed since the previous edge, the level keeps its list: a backend sees that nothing fades. [rt], engine thread */
static bool steering_can_follow(const struct steering *s, const struct steering *head)
{
    return s->n_hops == 1 && head->n_hops == 1;
}

static void steering_follow(struct steering *s, const struct steering *head)
{
    const struct term_list *from = &head->lists[head->now];
    struct term_list *to = &s->lists[1 - s->now];
    list_clear(to);
    if (s->n_changes == head->n_changes) return;
    s->n_changes = head->n_changes;
    memcpy(to->terms, from->terms, (size_t)from->n * sizeof *to->terms);
    to->n = from->n;
    to->n_active = from->n_active;
    terms_use(to->terms, to->n, 1);
    s->now = 1 - s->now;
}

/* ---- the scene --------------------------------------------------------------------------------------------------- */

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
