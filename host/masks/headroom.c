#include "headroom.h"

#include "host/json_print.h"
#include "host/message.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The responses of an output. Responses with the same taps are one, because only magnitudes are added. */
struct output {
    struct sine_gain_part *parts;
    int n_parts;
};

static int compare_routes(const void *a, const void *b)
{
    const hc_route *x = a, *y = b;
    if (x->out != y->out) return x->out < y->out ? -1 : 1;
    if (x->taps != y->taps) return x->taps < y->taps ? -1 : 1;
    return (x->n_taps > y->n_taps) - (x->n_taps < y->n_taps);
}

/* Converts routes[n_routes], sorted, to parts[n_routes], and outputs[n_out], which point into parts. */
static void join_routes(const hc_route *routes, int n_routes, struct sine_gain_part *parts, struct output *outputs)
{
    for (int i = 0; i < n_routes; i++) {
        const hc_route *r = &routes[i];
        struct output *output = &outputs[r->out];
        double gain = fabs((double)r->gain);
        if (i > 0 && compare_routes(r, r - 1) == 0) {
            output->parts[output->n_parts - 1].gain += gain;
            continue;
        }
        if (output->n_parts == 0) output->parts = parts;
        *parts++ = (struct sine_gain_part){r->taps, r->n_taps, gain};
        output->n_parts++;
    }
}

static bool are_equal(const struct output *a, const struct output *b)
{
    if (a->n_parts != b->n_parts) return false;
    for (int i = 0; i < a->n_parts; i++)
        if (a->parts[i].taps != b->parts[i].taps || a->parts[i].n_taps != b->parts[i].n_taps ||
            a->parts[i].gain != b->parts[i].gain)
            return false;
    return true;
}

/* Computes the gains. Outputs are often equal, so it computes the gain of equal outputs once. */
static bool find_gains(const struct output *outputs, int n_out, struct sine_gain *gains)
{
    for (int i = 0; i < n_out; i++) {
        int same = 0;
        while (same < i && !are_equal(&outputs[same], &outputs[i])) same++;
        if (same < i)
            gains[i] = gains[same];
        else if (!sine_gain_find(outputs[i].parts, outputs[i].n_parts, &gains[i]))
            return false;
    }
    return true;
}

bool headroom_find(const hc_route *routes, int n_routes, int n_out, struct sine_gain *gains)
{
    hc_route *sorted = malloc(((size_t)n_routes + 1) * sizeof *sorted);
    struct sine_gain_part *parts = malloc(((size_t)n_routes + 1) * sizeof *parts);
    struct output *outputs = calloc((size_t)n_out + 1, sizeof *outputs);
    bool good = sorted && parts && outputs;
    if (good) {
        if (n_routes) memcpy(sorted, routes, (size_t)n_routes * sizeof *sorted);
        qsort(sorted, (size_t)n_routes, sizeof *sorted, compare_routes);
        join_routes(sorted, n_routes, parts, outputs);
        good = find_gains(outputs, n_out, gains);
    }
    free(sorted);
    free(parts);
    free(outputs);
    return good;
}

bool headroom_make(struct headroom *headroom, const hc_responses *mask)
{
    headroom->outputs = calloc((size_t)mask->n_out, sizeof *headroom->outputs);
    if (!headroom->outputs || !headroom_find(mask->routes, mask->n_routes, mask->n_out, headroom->outputs))
        return false;
    for (int i = 1; i < mask->n_out; i++)
        if (headroom->outputs[i].gain > headroom->outputs[headroom->loudest].gain) headroom->loudest = i;
    return true;
}

void headroom_free(struct headroom *headroom)
{
    free(headroom->outputs);
}

int headroom_gain_db(double largest_gain)
{
    const double exact_db = 1e-3; /* the largest gain is exact to this */
    return largest_gain > 1 ? -(int)ceil(20 * log10(largest_gain) - exact_db) : 0;
}

void headroom_print(const struct sine_gain *largest, int rate, const char *where)
{
    if (largest->gain <= 0) return;
    printf("largest gain %s (%s", message_gain(20 * log10(largest->gain), 1).text, where);
    if (rate) printf(", %.0f Hz", largest->frequency * rate);
    int gain_db = headroom_gain_db(largest->gain);
    if (gain_db < 0)
        printf("): use --gain %d\n", gain_db);
    else
        puts("): no sine clips, and no --gain is needed");
}

json_t *headroom_json(const struct sine_gain *largest, int rate)
{
    return json_pack("{s:o, s:o, s:i}", "response_peak_db", json_db(largest->gain), "response_peak_hz",
                     json_number(rate ? largest->frequency * rate : NAN), "suggested_gain_db",
                     headroom_gain_db(largest->gain));
}
