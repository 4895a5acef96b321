#include "jconvolver_pairs.h"

#include <stdlib.h>
#include <string.h>

struct pair {
    struct response one;    /* the only response, or the sum of all                */
    struct response *added; /* [n_added] if the pair has several                */
    int n_added;
    int link; /* 1 + the pair whose data this pair plays; 0: its own */
    int line; /* line of the pair's first data, or of its copy       */
};

bool pairs_open(struct pairs *p, int n_in, int n_out)
{
    p->n_in = n_in;
    p->n_out = n_out;
    p->pairs = calloc((size_t)n_in * (size_t)n_out, sizeof *p->pairs);
    if (!p->pairs) p->net->c->arena->is_short = true;
    return p->pairs != NULL;
}

void pairs_free(struct pairs *p)
{
    free(p->pairs);
    p->pairs = NULL;
}

/* ---- responses and links ---------------------------------------------------------------------------- */

static struct pair *jconvolver_pair_of(const struct pairs *p, int in, int out)
{
    return &p->pairs[in * p->n_out + out];
}

/* Returns the pair whose data a pair plays. Shortens the links that it follows, so that a million links stay quick. */
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

void pairs_add(struct pairs *p, const struct excerpt *at, int in, int out, const float *taps, int n_taps, int delay)
{
    struct configuration *c = p->net->c;
    struct pair *pair = jconvolver_pair_of(p, in, out);
    size_t n = (size_t)pair->n_added;
    if (pair->link) {
        EXCERPT_WARN(
            c, at,
            "input %d, output %d is a copy since line %d, and a copy ignores added data; add the data to the pair "
            "that was copied",
            in + 1, out + 1, pair->line);
        return;
    }
    if (n && !network_adds(p->net, n_taps, in, out, at->line, at->command)) return;
    if (n && (n & (n - 1)) == 0) { /* a power of two: the array is full */
        struct response *more = arena_alloc(c->arena, 2 * n, sizeof *more);
        if (!more) return;
        memcpy(more, n == 1 ? &pair->one : pair->added, n * sizeof *more);
        pair->added = more;
    }
    *(n ? &pair->added[n] : &pair->one) = (struct response){in, taps, n_taps, delay, at->gain};
    if (n == 0) pair->line = at->line;
    pair->n_added++;
}

void pairs_link(struct pairs *p, const struct excerpt *at, int in, int out, int from_in, int from_out, bool is_complete)
{
    struct configuration *c = p->net->c;
    struct pair *to = jconvolver_pair_of(p, in, out), *from = root_of(p, jconvolver_pair_of(p, from_in, from_out));
    if (from == to) {
        EXCERPT_REFUSE(c, at,
                       "input %d, output %d is itself a copy of input %d, output %d; name the pair with the data",
                       from_in + 1, from_out + 1, in + 1, out + 1);
        return;
    }
    if (!from->n_added) {
        if (is_complete)
            EXCERPT_WARN(c, at,
                         "input %d, output %d has no data above this line, and nothing is copied; move its data above",
                         from_in + 1, from_out + 1);
        return;
    }
    if (!to->link && to->n_added)
        EXCERPT_WARN(c, at, "replaces the data that input %d, output %d has since line %d; remove one of them", in + 1,
                     out + 1, to->line);
    *to = (struct pair){.link = (int)(from - p->pairs) + 1, .line = at->line};
}

/* ---- the outputs -------------------------------------------------------------------------------- */

void pairs_play(struct pairs *p)
{
    struct configuration *c = p->net->c;
    struct response *responses = arena_alloc(c->arena, (size_t)p->n_in, sizeof *responses);
    for (int out = 0; out < c->n_out && responses && !c->arena->is_short; out++) {
        int n = 0;
        for (int in = 0; in < c->n_in; in++) {
            struct pair *data = root_of(p, jconvolver_pair_of(p, in, out));
            if (data->n_added > 1) /* the copies of the pair share the sum */
                data->n_added = response_sum(p->net, data->added, data->n_added, (int)(data - p->pairs) % p->n_out,
                                             data->line, &data->one);
            if (data->n_added == 0) continue;
            responses[n] = data->one;
            responses[n++].in = in;
        }
        network_output(p->net, out, signal_of_responses(p->net, responses, n));
    }
}
