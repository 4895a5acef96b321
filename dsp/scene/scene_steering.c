#include "scene_steering.h"

#include "dsp/base/memory.h"

#include <stdlib.h>
#include <string.h>

enum { PREFETCH = 8 }; /* sources to prefetch ahead */

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

bool steering_open(struct steering *s, int n_sources, int n_hops)
{
    s->n_sources = n_sources;
    s->n_hops = n_hops;
    s->mixes = memory_lines((size_t)n_sources, sizeof *s->mixes);
    for (int i = 0; i < 2; i++)
        s->lists[i].terms = memory_lines((size_t)n_sources * HC_MAX_SOUNDING, sizeof *s->lists[i].terms);
    return s->mixes && s->lists[0].terms && s->lists[1].terms;
}

void steering_close(struct steering *s)
{
    for (int i = 0; i < 2; i++) {
        list_clear(&s->lists[i]);
        free(s->lists[i].terms);
    }
    free(s->mixes);
}

double steering_memory(int n_sources)
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

bool steering_step(struct steering *s, const struct wanted *wanted, bool at_once)
{
    struct term_list *other = &s->lists[1 - s->now];
    bool changed = false;
    list_clear(other);
    for (int i = 0; i < s->n_sources; i++) {
        if (i + PREFETCH < s->n_sources) {
            __builtin_prefetch(&s->mixes[i + PREFETCH], 1);
            __builtin_prefetch(&wanted[i + PREFETCH]);
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

bool steering_can_follow(const struct steering *s, const struct steering *head)
{
    return s->n_hops == 1 && head->n_hops == 1;
}

void steering_follow(struct steering *s, const struct steering *head)
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
