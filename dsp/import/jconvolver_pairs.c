#include "jconvolver_pairs.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>

/* Frames that one configuration may add up, about half a minute of work. Lines are cheap: without this limit a few
 * megabytes of them would take days. */
static const int64_t MAX_ADDED = (int64_t)1 << 36;

struct term {
    const float *taps;
    int n_taps, delay;
    float gain;
    int next; /* next term of the pair: index of terms + 1; 0 = this is the last */
};

struct pair {
    int first, last; /* index of terms + 1; 0 = no data                        */
    int link;        /* the pair whose data this pair plays, + 1; 0 = its own  */
    int line;        /* line of its first data, or of its copy                 */
};

bool pairs_open(struct pairs *p, struct configuration *c)
{
    *p = (struct pairs){.c = c, .pairs = calloc((size_t)c->n_in * (size_t)c->n_out, sizeof *p->pairs)};
    return p->pairs != NULL;
}

void pairs_free(struct pairs *p)
{
    free(p->pairs);
    free(p->terms);
}

/* ---- terms and links ---------------------------------------------------------------------------- */

static struct pair *pair_of(const struct pairs *p, int in, int out)
{
    return &p->pairs[in * p->c->n_out + out];
}

/* The pair whose data a pair plays. Shortens the links on the way, so that a million of them stay quick. */
static struct pair *root_of(const struct pairs *p, struct pair *pair)
{
    struct pair *root = pair;
    while (root->link) root = &p->pairs[root->link - 1];
    while (pair->link) {
        struct pair *next = &p->pairs[pair->link - 1];
        pair->link = (int)(root - p->pairs) + 1;
        pair = next;
    }
    return root;
}

void pairs_add(struct pairs *p, const struct impulse *i, int in, int out, const float *taps, int n_taps, int delay)
{
    struct pair *pair = pair_of(p, in, out);
    if (pair->link) {
        IMPULSE_WARN(p->c, i,
                     "input %d, output %d is a copy since line %d, and what is added to a copy is ignored; "
                     "add it to the pair that it copies",
                     in + 1, out + 1, pair->line);
        return;
    }
    if (pair->last && (p->n_added += n_taps) > MAX_ADDED) {
        IMPULSE_REFUSE(p->c, i, "input %d, output %d: more than %lld frames to add up; add them in a sound file",
                       in + 1, out + 1, (long long)MAX_ADDED);
        return;
    }
    struct term *terms = array_grow(p->c->arena, p->terms, (size_t)p->n_terms, &p->terms_cap, sizeof *terms);
    if (!terms) return;
    p->terms = terms;
    p->terms[p->n_terms++] = (struct term){.taps = taps, .n_taps = n_taps, .delay = delay, .gain = i->gain};
    if (pair->last) {
        p->terms[pair->last - 1].next = p->n_terms;
    } else {
        pair->first = p->n_terms;
        pair->line = i->line;
    }
    pair->last = p->n_terms;
}

void pairs_link(struct pairs *p, const struct impulse *i, bool is_complete)
{
    struct pair *to = pair_of(p, i->in, i->out), *from = root_of(p, pair_of(p, i->from_in, i->from_out));
    if (from == to) {
        IMPULSE_REFUSE(p->c, i,
                       "input %d, output %d is itself a copy of input %d, output %d; name the pair with the data",
                       i->from_in + 1, i->from_out + 1, i->in + 1, i->out + 1);
        return;
    }
    if (!from->first) {
        if (is_complete)
            IMPULSE_WARN(p->c, i, "input %d, output %d has no data so far, and nothing is copied; give it data above",
                         i->from_in + 1, i->from_out + 1);
        return;
    }
    if (!to->link && to->first)
        IMPULSE_WARN(p->c, i, "replaces the data that input %d, output %d has since line %d; leave one of them",
                     i->in + 1, i->out + 1, to->line);
    *to = (struct pair){.link = (int)(from - p->pairs) + 1, .line = i->line};
}

/* ---- routes ------------------------------------------------------------------------------------- */

/* Replaces the terms of a pair by one: their sum, from the smallest delay to the last end. */
static void pair_add_up(struct pairs *p, struct pair *pair)
{
    struct configuration *c = p->c;
    int start = INT_MAX, end = 0;
    for (int t = pair->first; t; t = p->terms[t - 1].next) {
        const struct term *term = &p->terms[t - 1];
        if (term->delay < start) start = term->delay;
        if (term->delay + term->n_taps > end) end = term->delay + term->n_taps;
    }
    float *sum = arena_alloc(c->arena, (size_t)(end - start), sizeof *sum);
    if (!sum) return;
    for (int t = pair->first; t; t = p->terms[t - 1].next) {
        const struct term *term = &p->terms[t - 1];
        float *to = sum + term->delay - start;
        bool is_finite = true;
        for (int k = 0; k < term->n_taps; k++) {
            to[k] += term->gain * term->taps[k];
            is_finite &= !!isfinite(to[k]);
        }
        if (is_finite) continue;
        int at = (int)(pair - p->pairs);
        diagnostic(&c->diagnostics, HC_EINVAL, pair->line, NULL,
                   "the responses from input %d to output %d add up to an infinite sample; give smaller gains",
                   at / c->n_out + 1, at % c->n_out + 1);
        return;
    }
    p->terms[pair->first - 1] = (struct term){.taps = sum, .n_taps = end - start, .delay = start, .gain = 1.0f};
    pair->last = pair->first;
}

static int by_route_response(const void *a, const void *b)
{
    const hc_route *p = *(const hc_route *const *)a, *q = *(const hc_route *const *)b;
    if (p->taps != q->taps) return p->taps < q->taps ? -1 : 1;
    if (p->n_taps != q->n_taps) return p->n_taps < q->n_taps ? -1 : 1;
    if (p->delay != q->delay) return p->delay < q->delay ? -1 : 1;
    return (p->gain > q->gain) - (p->gain < q->gain);
}

static void count_distinct(struct arena *arena, hc_responses *r)
{
    const hc_route **sorted = calloc((size_t)r->n_routes + 1, sizeof *sorted);
    if (!sorted) {
        arena->is_short = true;
        return;
    }
    for (int i = 0; i < r->n_routes; i++) sorted[i] = &r->routes[i];
    qsort(sorted, (size_t)r->n_routes, sizeof *sorted, by_route_response);
    for (int i = 0; i < r->n_routes; i++) {
        if (i > 0 && by_route_response(&sorted[i - 1], &sorted[i]) == 0) continue;
        r->n_distinct++;
        r->distinct_frames += (int64_t)sorted[i]->delay + sorted[i]->n_taps;
    }
    free(sorted);
}

void pairs_routes(struct pairs *p, hc_responses *r)
{
    struct arena *arena = p->c->arena;
    int n = 0, n_pairs = p->c->n_in * p->c->n_out;
    for (int k = 0; k < n_pairs && !arena->is_short; k++) {
        struct pair *pair = &p->pairs[k];
        if (pair->first != pair->last) pair_add_up(p, pair);
        n += pair->first || pair->link;
    }
    r->routes = arena_alloc(arena, (size_t)n, sizeof *r->routes);
    if (!r->routes || arena->is_short) return;
    for (int k = 0; k < n_pairs; k++) {
        const struct pair *data = root_of(p, &p->pairs[k]);
        if (!data->first) continue;
        const struct term *term = &p->terms[data->first - 1];
        r->routes[r->n_routes++] = (hc_route){.in = k / p->c->n_out,
                                              .out = k % p->c->n_out,
                                              .taps = term->taps,
                                              .n_taps = term->n_taps,
                                              .gain = term->gain,
                                              .delay = term->delay};
        if (term->delay + term->n_taps > r->n_frames) r->n_frames = term->delay + term->n_taps;
    }
    count_distinct(arena, r);
    if (r->n_routes == 0 && r->n_sources == 0)
        diagnostic(&p->c->diagnostics, HC_OK, 0, NULL, "has no responses; its outputs are silent");
}
