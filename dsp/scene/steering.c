#include "steering.h"

#include <stdlib.h>

struct sounding {
    hc_bank *bank;
    int entry;
    float weight, target;
};

struct source_mix {
    unsigned number; /* of the request that the targets are from */
    int n, hops_left;
    struct sounding sounding[HC_MOST_SOUNDING];
};

static bool list_open(struct term_list *list, int n_sources)
{
    size_t n = (size_t)n_sources * HC_MOST_SOUNDING;
    list->terms = calloc(n, sizeof *list->terms);
    list->banks = calloc(n, sizeof *list->banks);
    return list->terms && list->banks;
}

/* Gives up the uses of the banks; terms of one bank usually follow each other. */
static void list_clear(struct term_list *list)
{
    for (int i = 0, end; i < list->n; i = end) {
        for (end = i + 1; end < list->n && list->banks[end] == list->banks[i];) end++;
        bank_unuse(list->banks[i], end - i);
    }
    list->n = list->n_heard = 0;
}

static void list_add(struct term_list *list, int source, const struct sounding *sounding)
{
    list->banks[list->n] = sounding->bank;
    list->terms[list->n++] = (struct scene_term){sounding->bank->impl, source, sounding->entry, sounding->weight};
    if (sounding->bank->n_out > list->n_heard) list->n_heard = sounding->bank->n_out;
}

static void list_count_uses(const struct term_list *list)
{
    for (int i = 0, end; i < list->n; i = end) {
        for (end = i + 1; end < list->n && list->banks[end] == list->banks[i];) end++;
        bank_use(list->banks[i], end - i);
    }
}

bool steering_open(struct steering *s, int n_sources, int n_hops)
{
    s->n_sources = n_sources;
    s->n_hops = n_hops;
    s->mixes = calloc((size_t)n_sources, sizeof *s->mixes);
    return list_open(&s->lists[0], n_sources) && list_open(&s->lists[1], n_sources) && s->mixes;
}

void steering_close(struct steering *s)
{
    for (int i = 0; i < 2; i++) {
        list_clear(&s->lists[i]);
        free(s->lists[i].terms);
        free(s->lists[i].banks);
    }
    free(s->mixes);
}

static struct sounding *find(struct source_mix *mix, const hc_bank *bank, int entry)
{
    for (int i = 0; i < mix->n; i++)
        if (mix->sounding[i].bank == bank && mix->sounding[i].entry == entry) return &mix->sounding[i];
    return NULL;
}

/* Makes a request the target. false: too many entries sound; the fade under way must end first. */
static bool aim(struct source_mix *mix, const struct steer_request *request)
{
    int n_new = 0;
    for (int i = 0; i < request->n; i++) n_new += !find(mix, request->bank, request->entry[i]);
    if (mix->n + n_new > HC_MOST_SOUNDING) return false;
    for (int i = 0; i < mix->n; i++) mix->sounding[i].target = 0;
    for (int i = 0; i < request->n; i++) {
        struct sounding *sounding = find(mix, request->bank, request->entry[i]);
        if (!sounding) {
            sounding = &mix->sounding[mix->n++];
            *sounding = (struct sounding){request->bank, request->entry[i], 0, 0};
        }
        sounding->target += request->weight[i];
    }
    return true;
}

static bool is_at_target(const struct source_mix *mix)
{
    for (int i = 0; i < mix->n; i++)
        if (mix->sounding[i].weight != mix->sounding[i].target) return false;
    return true;
}

static void move(struct source_mix *mix)
{
    int n = 0, left = mix->hops_left--;
    for (int i = 0; i < mix->n; i++) {
        struct sounding *sounding = &mix->sounding[i];
        sounding->weight += (sounding->target - sounding->weight) / (float)left;
        if (left == 1) sounding->weight = sounding->target;
        if (left > 1 || sounding->weight != 0) mix->sounding[n++] = *sounding;
    }
    mix->n = n;
}

bool steering_take(struct steering *s, const struct wanted *wanted, bool at_once)
{
    bool changed = false;
    for (int i = 0; i < s->n_sources; i++) {
        struct source_mix *mix = &s->mixes[i];
        if (mix->number != wanted[i].number && aim(mix, &wanted[i].request)) {
            mix->number = wanted[i].number;
            if (mix->hops_left > 0 || !is_at_target(mix)) mix->hops_left = at_once ? 1 : s->n_hops;
        }
        if (mix->hops_left == 0) continue;
        if (at_once) mix->hops_left = 1;
        move(mix);
        changed = true;
    }
    struct term_list *other = &s->lists[1 - s->now];
    list_clear(other);
    if (!changed) return false;
    for (int i = 0; i < s->n_sources; i++)
        for (int k = 0; k < s->mixes[i].n; k++) list_add(other, i, &s->mixes[i].sounding[k]);
    list_count_uses(other);
    s->now = 1 - s->now;
    return true;
}
