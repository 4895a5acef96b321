#include "network.h"

#include "dsp/base/error.h"
#include "dsp/signal/recursive_filter.h"
#include "dsp/signal/transform.h"

#include <math.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_TERMS = 1 << 22,  /* terms of all signals; a sum of n inputs, built input by input, counts n^2 / 2  */
    MAX_FRAMES = 1 << 27, /* frames of all computed taps: 16 filters on 22 s of 8 channels; about 10 s of work */
    FEW_CHAINS = 64       /* more chains: frames are counted first, and each filter is computed twice            */
};

/* Frames that one configuration may add up, about half a minute of work. */
static const int64_t MAX_ADDED = (int64_t)1 << 36;

struct filter {
    struct excerpt at; /* line and command; a file: also its excerpt     */
    filter_make *make; /* NULL: the text has the taps, or a file         */
    const void *data;
    bool is_ready;       /* filter_ready has run                                                            */
    const double *taps;  /* [n_taps]; at the text's rate until is_ready, then at the session's; NULL: a file */
    const float *floats; /* [n_taps]: taps of a file; both NULL: not ready, or an error was reported        */
    int n_taps;
};

/* Filters in series. Signals through the same filters share a chain, and so its taps. */
struct chain {
    struct chain *before; /* NULL: `last` is the first */
    const struct filter *last;
    int index;          /* in order of creation: the order of a sum must not depend on addresses    */
    struct chain *next; /* the next in a list of chains to count or make                   */
    bool is_counted, is_made;
    const float *taps;   /* [n_taps], for a term; NULL: an error was reported              */
    const double *exact; /* the taps before rounding; NULL for a file                      */
    int n_taps;
};

struct term {
    int in;
    struct chain *chain; /* NULL: no filter                             */
    const float *taps;   /* [n_taps] if no filter: a response, or the tap 1 */
    int n_taps;
    double gain, delay_s;
};

struct signal {
    int n;
    struct term terms[]; /* all different; sorted by input, chain and delay */
};

bool network_open(struct network *net, struct configuration *c)
{
    *net = (struct network){.c = c, .outputs = arena_alloc(c->arena, MASK_MAX_CHANNELS, sizeof *net->outputs)};
    return net->outputs != NULL;
}

void network_close(struct network *net)
{
    tdestroy(net->chains, arena_keeps_node);
}

double network_seconds(const struct network *net, double frames)
{
    return frames / (net->c->rate ? net->c->rate : 48000);
}

/* Returns the rate of the taps. Without a session's rate each file keeps its rate, and a delay in frames stays. */
static int rate_of(const struct network *net)
{
    return net->c->session_rate ? net->c->session_rate : 48000;
}

/* ---- filters ------------------------------------------------------------------------------------ */

static struct filter *filter_new(struct network *net, int line, const char *command)
{
    struct filter *f = arena_alloc(net->c->arena, 1, sizeof *f);
    if (f) *f = (struct filter){.at = {.line = line, .command = command, .gain = 1}};
    return f;
}

const struct filter *filter_computed(struct network *net, filter_make *make, const void *data, int line,
                                     const char *command)
{
    struct filter *f = filter_new(net, line, command);
    if (!f) return NULL;
    f->make = make;
    f->data = data;
    return f;
}

const struct filter *filter_of_taps(struct network *net, const double *taps, int n, int line, const char *command)
{
    struct filter *f = filter_new(net, line, command);
    double *copy = f ? arena_alloc(net->c->arena, (size_t)n, sizeof *copy) : NULL;
    if (!copy) return NULL;
    memcpy(copy, taps, (size_t)n * sizeof *copy);
    f->taps = copy;
    f->n_taps = n;
    return f;
}

const struct filter *filter_of_file(struct network *net, const struct excerpt *excerpt)
{
    struct filter *f = filter_new(net, excerpt->line, excerpt->command);
    if (f) f->at = *excerpt;
    return f;
}

/* ---- signals ------------------------------------------------------------------------------------ */

static int by_chain(const void *a, const void *b)
{
    const struct chain *p = a, *q = b;
    if (p->before != q->before) return p->before < q->before ? -1 : 1;
    return p->last == q->last ? 0 : p->last < q->last ? -1 : 1;
}

/* Returns the chain of `before` with one more filter. NULL: no memory. */
static struct chain *chain_extend(struct network *net, struct chain *before, const struct filter *last)
{
    struct chain key = {.before = before, .last = last};
    void *known = tfind(&key, &net->chains, by_chain);
    if (known) return *(struct chain **)known;
    struct chain *new = arena_alloc(net->c->arena, 1, sizeof *new);
    if (!new) return NULL;
    *new = key;
    new->index = ++net->n_chains;
    if (!tsearch(new, &net->chains, by_chain)) net->c->arena->is_short = true;
    return new;
}

static int term_order(const struct term *p, const struct term *q)
{
    int a = p->chain ? p->chain->index : 0, b = q->chain ? q->chain->index : 0;
    if (p->in != q->in) return p->in < q->in ? -1 : 1;
    if (a != b) return a < b ? -1 : 1;
    return (p->delay_s > q->delay_s) - (p->delay_s < q->delay_s);
}

bool signal_is_equal(const struct signal *a, const struct signal *b)
{
    int n = a && b && a->n == b->n ? a->n : 0;
    for (int i = 0; i < n; i++)
        if (term_order(&a->terms[i], &b->terms[i]) != 0 || a->terms[i].gain != b->terms[i].gain) return false;
    return n > 0 || a == b;
}

static int by_term(const void *a, const void *b)
{
    return term_order(a, b);
}

/* Allocates a signal of n terms, not filled in. NULL: no memory, or too many terms. */
static struct signal *signal_new(struct network *net, int n)
{
    if (net->is_too_large || n == 0) return NULL;
    if (n > MAX_TERMS - net->n_terms) {
        net->is_too_large = true;
        diagnostic(&net->c->diagnostics, HC_EINVAL, 0, NULL,
                   "its mixers make more than %d paths from inputs to outputs; merge mixers in series", MAX_TERMS);
        return NULL;
    }
    net->n_terms += n;
    struct signal *s = arena_alloc(net->c->arena, 1, sizeof *s + (size_t)n * sizeof *s->terms);
    if (s) s->n = n;
    return s;
}

/* Sorts the terms, and adds up terms that differ only in gain. */
static const struct signal *signal_tidy(struct signal *s)
{
    int kept = 0;
    qsort(s->terms, (size_t)s->n, sizeof *s->terms, by_term);
    for (int i = 0; i < s->n; i++)
        if (kept > 0 && term_order(&s->terms[kept - 1], &s->terms[i]) == 0)
            s->terms[kept - 1].gain += s->terms[i].gain;
        else
            s->terms[kept++] = s->terms[i];
    s->n = kept;
    return s;
}

static struct signal *signal_copy(struct network *net, const struct signal *from)
{
    struct signal *s = from ? signal_new(net, from->n) : NULL;
    if (s) memcpy(s->terms, from->terms, (size_t)from->n * sizeof *s->terms);
    return s;
}

static const float one = 1;

const struct signal *signal_input(struct network *net, int in)
{
    struct signal *s = signal_new(net, 1);
    if (s) s->terms[0] = (struct term){.in = in, .taps = &one, .n_taps = 1, .gain = 1};
    return s;
}

const struct signal *signal_add(struct network *net, const struct signal *a, const struct signal *b)
{
    if (!a || !b) return a ? a : b;
    struct signal *s = signal_new(net, a->n + b->n);
    if (!s) return NULL;
    memcpy(s->terms, a->terms, (size_t)a->n * sizeof *s->terms);
    memcpy(s->terms + a->n, b->terms, (size_t)b->n * sizeof *s->terms);
    return signal_tidy(s);
}

const struct signal *signal_gain(struct network *net, const struct signal *from, double gain)
{
    struct signal *s = gain == 0 ? NULL : signal_copy(net, from);
    for (int i = 0; s && i < s->n; i++) s->terms[i].gain *= gain;
    return s;
}

const struct signal *signal_delay(struct network *net, const struct signal *from, double seconds)
{
    struct signal *s = signal_copy(net, from);
    for (int i = 0; s && i < s->n; i++) s->terms[i].delay_s += seconds;
    return s;
}

const struct signal *signal_filter(struct network *net, const struct signal *from, const struct filter *filter)
{
    struct signal *s = filter ? signal_copy(net, from) : NULL;
    for (int i = 0; s && i < s->n; i++)
        if (!(s->terms[i].chain = chain_extend(net, s->terms[i].chain, filter))) return NULL;
    return s ? signal_tidy(s) : NULL;
}

const struct signal *signal_of_responses(struct network *net, const struct response *r, int n)
{
    struct signal *s = signal_new(net, n);
    for (int i = 0; s && i < n; i++)
        s->terms[i] = (struct term){.in = r[i].in,
                                    .taps = r[i].taps,
                                    .n_taps = r[i].n_taps,
                                    .gain = (double)r[i].gain,
                                    .delay_s = (double)r[i].delay / rate_of(net)};
    return s;
}

void network_output(struct network *net, int out, const struct signal *signal)
{
    net->outputs[out] = signal;
}

/* ---- taps --------------------------------------------------------------------------------------- */

/* Counts n frames before they are computed. false: too many, and one error was reported. */
static bool has_budget(struct network *net, const struct filter *f, int64_t frames)
{
    if (net->is_too_large) return false;
    net->n_frames += frames;
    if (net->n_frames <= MAX_FRAMES) return true;
    net->is_too_large = true;
    EXCERPT_REFUSE(net->c, &f->at, "the filters in series need more than %d taps in all; use shorter filters",
                   MAX_FRAMES);
    return false;
}

static double *doubles_of(struct network *net, const float *taps, int n, double gain)
{
    double *all = arena_alloc(net->c->arena, (size_t)n, sizeof *all);
    for (int i = 0; all && i < n; i++) all[i] = gain * (double)taps[i];
    return all;
}

/* Rounds taps[n] to floats. NULL: no memory, or a tap is not finite; an error was reported. */
static float *filter_floats_of(struct network *net, const struct filter *f, const double *taps, int n)
{
    float *all = arena_alloc(net->c->arena, (size_t)n, sizeof *all);
    for (int i = 0; all && i < n; i++) {
        all[i] = (float)taps[i];
        if (isfinite(all[i])) continue;
        EXCERPT_REFUSE(net->c, &f->at, "its taps are not finite; lower its gains");
        return NULL;
    }
    return all;
}

/* Resamples the taps of a text for another rate. NULL: an error was reported. */
static double *resampled(struct network *net, const struct filter *f, int *n)
{
    struct configuration *c = net->c;
    const float *taps = filter_floats_of(net, f, f->taps, f->n_taps);
    bool good = taps && sounds_resample(c, &f->at, c->diagnostics.path, c->rate, &taps, 1, n);
    return good ? doubles_of(net, taps, *n, 1) : NULL;
}

static const double *computed(struct network *net, const struct filter *f, int *n)
{
    double rest_db, *taps = NULL;
    *n = f->make(f->data, rate_of(net), &taps, &rest_db);
    double *kept =
        *n ? arena_alloc(net->c->arena, (size_t)*n, sizeof *kept) : NULL; /* a copy without unused capacity */
    if (kept) memcpy(kept, taps, (size_t)*n * sizeof *kept);
    free(taps);
    if (!kept) {
        net->c->arena->is_short = true;
        return NULL;
    }
    if (rest_db > NETWORK_REST_DB) {
        EXCERPT_WARN(net->c, &f->at, "becomes %d tap%s: the rest that is cut off is only %.0f dB below the filter", *n,
                     PLURAL(*n), -rest_db);
        return kept;
    }
    if (net->computed.n++ == 0 || rest_db > net->computed.rest_db) net->computed.rest_db = rest_db;
    if (*n > net->computed.longest) net->computed.longest = *n;
    net->computed.line = f->at.line;
    net->computed.command = f->at.command;
    return kept;
}

/* Adds the note about all computed filters. */
static void note_computed(struct network *net)
{
    char rest[80] = "nothing is cut off";
    int n = net->computed.n;
    bool is_one = n == 1;
    if (!net->notes_filters || n == 0) return;
    if (net->computed.rest_db > -400)
        snprintf(rest, sizeof rest, "the rest that is cut off is %.0f dB %sbelow %s", -net->computed.rest_db,
                 is_one ? "" : "or more ", is_one ? "the filter" : "each filter");
    if (is_one)
        diagnostic(&net->c->diagnostics, HC_NOTE, net->computed.line, net->computed.command, "becomes %d tap%s, and %s",
                   net->computed.longest, PLURAL(net->computed.longest), rest);
    else
        diagnostic(&net->c->diagnostics, HC_NOTE, 0, NULL, "%d filters became FIRs of up to %d taps, and %s", n,
                   net->computed.longest, rest);
}

/* Makes the taps of a filter at the session's rate, once: all chains that use the filter share them. */
static void filter_ready(struct network *net, struct filter *f)
{
    int text_rate = net->c->rate, n = f->n_taps;
    if (f->is_ready) return;
    f->is_ready = true;
    if (f->make)
        f->taps = computed(net, f, &n);
    else if (!f->taps)
        f->floats = sounds_taps(net->c, &f->at, &n);
    else if (text_rate && text_rate != rate_of(net))
        f->taps = resampled(net, f, &n);
    f->n_taps = n;
}

/* Convolves taps[n] with the taps of the chain in front, which exist. NULL: no memory. */
static double *in_series(struct network *net, struct chain *before, const double *taps, int n)
{
    double *both = arena_alloc(net->c->arena, (size_t)before->n_taps + (size_t)n - 1, sizeof *both);
    if (!before->exact) before->exact = doubles_of(net, before->taps, before->n_taps, 1);
    if (both && before->exact && transform_convolve(before->exact, (size_t)before->n_taps, taps, (size_t)n, both))
        return both;
    net->c->arena->is_short = true;
    return NULL;
}

/* Makes the taps of a chain; those of the chain in front exist. */
static void chain_make(struct network *net, struct chain *chain)
{
    struct chain *before = chain->before;
    struct filter *f = (struct filter *)chain->last;
    chain->is_made = true;
    if (before && !before->taps) return;
    filter_ready(net, f);
    chain->n_taps = f->n_taps;
    if (!before && f->floats && f->at.gain == 1) { /* share the taps of the file */
        chain->taps = f->floats;
        return;
    }
    if (before) chain->n_taps += before->n_taps - 1;
    if ((!f->taps && !f->floats) || !has_budget(net, f, chain->n_taps)) return;
    const double *taps = f->taps ? f->taps : doubles_of(net, f->floats, f->n_taps, (double)f->at.gain);
    if (before && taps) {
        double *both = in_series(net, before, taps, f->n_taps);
        /* Cut the end: lengths of filters in series add up, their decays do not. */
        if (both && f->make) chain->n_taps = response_cut(both, chain->n_taps, NETWORK_TRIM_DB, chain->n_taps, NULL);
        taps = both;
    }
    if (taps) chain->taps = filter_floats_of(net, f, taps, chain->n_taps);
    chain->exact = taps;
}

/* Lists `last` and the chains in front of it that are not made (or counted) yet. Returns the first; `next` leads to the
 * others. There may be too many for recursion. */
static struct chain *chains_begin(struct chain *last, bool is_count)
{
    struct chain *first = NULL;
    for (struct chain *c = last; c && !(is_count ? c->is_counted : c->is_made); c = c->before) {
        c->next = first;
        first = c;
    }
    return first;
}

static void chains_make(struct network *net, struct chain *last)
{
    for (struct chain *c = chains_begin(last, false); c && !net->c->arena->is_short; c = c->next) chain_make(net, c);
}

/* Returns the length of a filter, without keeping its taps; 1 for a file, which is not read yet. */
static int filter_length(const struct network *net, const struct filter *f)
{
    double rest_db, *taps = NULL;
    if (!f->make) return f->n_taps > 0 ? f->n_taps : 1;
    int n = f->make(f->data, rate_of(net), &taps, &rest_db);
    free(taps);
    return n;
}

/* Adds up the frames of all chains before the first is made: making them may take a gigabyte and many seconds. A filter
 * behind another counts twice: the product is as long as both. false: too many; an error was reported. */
static bool chains_count(struct network *net, struct chain *last, int64_t *frames)
{
    for (struct chain *c = chains_begin(last, true); c; c = c->next) {
        *frames += (int64_t)filter_length(net, c->last) * (c->before && c->last->make ? 2 : 1);
        c->is_counted = true;
        if (*frames > MAX_FRAMES) return has_budget(net, c->last, *frames);
    }
    return true;
}

static int line_of(const struct term *term)
{
    return term->chain ? term->chain->last->at.line : 0;
}

/* Sets the response of a term, whose chain has taps. false: an error was reported. */
static bool term_response(struct network *net, int out, const struct term *term, struct response *r)
{
    const struct chain *chain = term->chain;
    double delay = rint(term->delay_s * rate_of(net));
    *r = (struct response){.in = term->in,
                           .taps = chain ? chain->taps : term->taps,
                           .n_taps = chain ? chain->n_taps : term->n_taps,
                           .gain = (float)term->gain};
    if (!r->taps) return false;
    if (isfinite(r->gain) && delay >= 0 && delay + r->n_taps <= CONFIGURATION_TAPS) {
        r->delay = (int)delay;
        return true;
    }
    diagnostic(&net->c->diagnostics, HC_EINVAL, line_of(term), chain ? chain->last->at.command : NULL,
               "input %d to output %d: the gain is %g, and the response has %.0f frames with its delay; give a finite "
               "gain and at most %d frames",
               term->in + 1, out + 1, term->gain, delay + r->n_taps, CONFIGURATION_TAPS);
    return false;
}

/* Makes the taps of an output, and counts its routes. */
static void output_make(struct network *net, int out)
{
    const struct signal *s = net->outputs[out];
    struct response r;
    for (int i = 0; s && i < s->n && !net->c->arena->is_short; i++) {
        const struct term *term = &s->terms[i];
        if (term->chain) chains_make(net, term->chain);
        if (!term_response(net, out, term, &r)) continue;
        if (i == 0 || s->terms[i - 1].in != term->in)
            net->n_routes++;
        else if (!network_adds(net, r.n_taps, term->in, out, line_of(term), NULL))
            return;
    }
}

void network_make(struct network *net)
{
    int64_t frames = 0;
    for (int out = 0; out < net->c->n_out && net->n_chains > FEW_CHAINS; out++)
        for (int i = 0; net->outputs[out] && i < net->outputs[out]->n; i++)
            if (net->outputs[out]->terms[i].chain && !chains_count(net, net->outputs[out]->terms[i].chain, &frames))
                return;
    for (int out = 0; out < net->c->n_out; out++) output_make(net, out);
    note_computed(net);
}

/* ---- routes ------------------------------------------------------------------------------------- */

bool network_adds(struct network *net, int n_taps, int in, int out, int line, const char *command)
{
    net->n_added += n_taps;
    if (net->n_added <= MAX_ADDED) return true;
    diagnostic(
        &net->c->diagnostics, HC_EINVAL, line, command,
        "input %d, output %d: the responses to add up have more than %lld frames; put their sum into a sound file",
        in + 1, out + 1, (long long)MAX_ADDED);
    return false;
}

bool response_sum(struct network *net, const struct response *added, int n, int out, int line, struct response *sum)
{
    int start = added->delay, end = 0;
    *sum = *added;
    if (n == 1) return true;
    for (int i = 0; i < n; i++) {
        if (added[i].delay < start) start = added[i].delay;
        if (added[i].delay + added[i].n_taps > end) end = added[i].delay + added[i].n_taps;
    }
    float *taps = arena_alloc(net->c->arena, (size_t)(end - start), sizeof *taps);
    *sum = (struct response){.in = added->in, .taps = taps, .n_taps = end - start, .delay = start, .gain = 1};
    for (int i = 0; taps && i < n; i++) {
        float *to = taps + added[i].delay - start;
        bool is_finite = true;
        for (int k = 0; k < added[i].n_taps; k++) {
            to[k] += added[i].gain * added[i].taps[k];
            is_finite &= !!isfinite(to[k]);
        }
        if (is_finite) continue;
        diagnostic(&net->c->diagnostics, HC_EINVAL, line, NULL,
                   "the responses from input %d to output %d add up to an infinite sample; give smaller gains",
                   added->in + 1, out + 1);
        return false;
    }
    return taps != NULL;
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

/* Adds the route of an input and an output, if the output plays the input. *at: the output's first term for this
 * input or a higher one; it moves on to the next input. added: scratch for all terms of a signal. */
static void route_add(struct network *net, int in, int out, int *at, struct response *added, hc_responses *r)
{
    const struct signal *s = net->outputs[out];
    struct response sum;
    int n = 0, line = s && *at < s->n ? line_of(&s->terms[*at]) : 0;
    for (; s && *at < s->n && s->terms[*at].in == in; ++*at) n += term_response(net, out, &s->terms[*at], &added[n]);
    if (n == 0 || !response_sum(net, added, n, out, line, &sum)) return;
    r->routes[r->n_routes++] =
        (hc_route){.in = in, .out = out, .taps = sum.taps, .n_taps = sum.n_taps, .gain = sum.gain, .delay = sum.delay};
    if (sum.delay + sum.n_taps > r->n_frames) r->n_frames = sum.delay + sum.n_taps;
}

void network_routes(struct network *net, hc_responses *r)
{
    struct configuration *c = net->c;
    int max = 0;
    for (int out = 0; out < c->n_out; out++)
        if (net->outputs[out] && net->outputs[out]->n > max) max = net->outputs[out]->n;
    r->routes = arena_alloc(c->arena, (size_t)net->n_routes, sizeof *r->routes);
    struct response *added = arena_alloc(c->arena, (size_t)max, sizeof *added);
    int *at = arena_alloc(c->arena, (size_t)c->n_out, sizeof *at);
    for (int in = 0; in < c->n_in && at; in++)
        for (int out = 0; out < c->n_out && !c->arena->is_short; out++) route_add(net, in, out, &at[out], added, r);
    if (c->arena->is_short) return;
    count_distinct(c->arena, r);
    if (r->n_routes == 0 && r->n_sources == 0)
        diagnostic(&c->diagnostics, HC_OK, 0, NULL, "has no responses; its outputs are silent");
}
