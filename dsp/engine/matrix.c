#include "matrix.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static int check(const hc_config *config, const hc_route *route, int index, char *why, size_t cap)
{
    if (route->in < 0 || route->in >= config->n_in)
        return fail(HC_EINVAL, why, cap, "route %d: input %d is out of range; the engine has %d inputs", index,
                    route->in, config->n_in);
    if (route->out < 0 || route->out >= config->n_out)
        return fail(HC_EINVAL, why, cap, "route %d: output %d is out of range; the engine has %d outputs", index,
                    route->out, config->n_out);
    if (route->n_taps < 1 || !route->taps) return fail(HC_EINVAL, why, cap, "route %d: it has no taps", index);
    if (route->delay < 0) return fail(HC_EINVAL, why, cap, "route %d: delay %d is negative", index, route->delay);
    if (!isfinite(route->gain)) return fail(HC_EINVAL, why, cap, "route %d: the gain is not finite", index);
    if ((long long)route->n_taps + route->delay > config->max_taps)
        return fail(HC_EINVAL, why, cap, "route %d: %lld taps, delay included, but max_taps is %d; open with more",
                    index, (long long)route->n_taps + route->delay, config->max_taps);
    return HC_OK;
}

/* Of the taps of a route, the first that is not finite, or not with its gain. */
static int refuse_tap(const hc_route *route, int index, char *why, size_t cap)
{
    int k = 0;
    while (isfinite(route->taps[k] * route->gain) && isfinite(route->taps[k])) k++;
    if (!isfinite(route->taps[k]))
        return fail(HC_EINVAL, why, cap, "route %d: tap %d is %s; a mask must be finite", index, k,
                    isnan(route->taps[k]) ? "NaN" : "infinite");
    return fail(HC_EINVAL, why, cap, "route %d: tap %d times the gain %g overflows", index, k, (double)route->gain);
}

static int by_pair(const void *a, const void *b)
{
    const hc_route *p = *(const hc_route *const *)a, *q = *(const hc_route *const *)b;
    if (p->out != q->out) return p->out < q->out ? -1 : 1;
    if (p->in != q->in) return p->in < q->in ? -1 : 1;
    return p < q ? -1 : p > q; /* as given, so that sums do not depend on the sort */
}

static int by_response(const void *a, const void *b)
{
    const hc_route *p = *(const hc_route *const *)a, *q = *(const hc_route *const *)b;
    if (p->taps != q->taps) return p->taps < q->taps ? -1 : 1;
    if (p->n_taps != q->n_taps) return p->n_taps < q->n_taps ? -1 : 1;
    if (p->delay != q->delay) return p->delay < q->delay ? -1 : 1;
    if (p->gain != q->gain) return p->gain < q->gain ? -1 : 1;
    return 0;
}

/* The largest magnitude; infinite if one tap is NaN. */
static float peak_of(const hc_route *route)
{
    float peak = 0;
    for (int k = 0; k < route->n_taps; k++) {
        float size = fabsf(route->taps[k]);
        if (!(size <= peak)) peak = isnan(size) ? INFINITY : size;
    }
    return peak;
}

/* Every tap, once for all routes that share them: a million routes may play a few long responses. sorted[n] is room. */
static int check_taps(const hc_route *routes, int n, const hc_route **sorted, char *why, size_t cap)
{
    int bad = n;
    float peak = 0;
    for (int i = 0; i < n; i++) sorted[i] = &routes[i];
    qsort(sorted, (size_t)n, sizeof *sorted, by_response);
    for (int i = 0; i < n; i++) {
        const hc_route *last = i > 0 ? sorted[i - 1] : NULL;
        if (!last || last->taps != sorted[i]->taps || last->n_taps != sorted[i]->n_taps) peak = peak_of(sorted[i]);
        int index = (int)(sorted[i] - routes);
        if (!isfinite(peak * sorted[i]->gain) && index < bad) bad = index;
    }
    return bad < n ? refuse_tap(&routes[bad], bad, why, cap) : HC_OK;
}

static int response_add(struct matrix *m, int n_taps)
{
    float *taps = calloc((size_t)n_taps, sizeof *taps);
    if (!taps) return -1;
    m->taps[m->n_responses] = taps;
    m->n_taps[m->n_responses] = n_taps;
    return m->n_responses++;
}

static void response_mix(float *taps, const hc_route *route)
{
    for (int k = 0; k < route->n_taps; k++) taps[route->delay + k] += route->gain * route->taps[k];
}

int matrix_make(struct matrix *m, const hc_config *config, const hc_route *routes, int n, char *why, size_t cap)
{
    memset(m, 0, sizeof *m);
    if (n < 0) return fail(HC_EINVAL, why, cap, "%d routes; give 0 or more", n);
    if (n > 0 && !routes) return fail(HC_EINVAL, why, cap, "routes is NULL, and n is %d; pass n routes", n);
    for (int i = 0; i < n; i++) {
        int bad = check(config, &routes[i], i, why, cap);
        if (bad) return bad;
    }
    size_t room = n > 0 ? (size_t)n : 1;
    const hc_route **sorted = malloc(room * sizeof *sorted);
    int *shared = malloc(room * sizeof *shared); /* [route]: its response when it stands alone, or -1 */
    m->taps = calloc(room, sizeof *m->taps);
    m->n_taps = calloc(room, sizeof *m->n_taps);
    m->cells = calloc(room, sizeof *m->cells);
    if (!sorted || !shared || !m->taps || !m->n_taps || !m->cells) goto no_memory;
    int error = check_taps(routes, n, sorted, why, cap);
    if (error) {
        free(shared);
        free(sorted);
        matrix_free(m);
        return error;
    }

    /* Which routes are alone on their pair? Those may share a response; the others are summed into one of their own. */
    for (int i = 0; i < n; i++) sorted[i] = &routes[i], shared[i] = -1;
    qsort(sorted, (size_t)n, sizeof *sorted, by_pair);
    const hc_route **lone = malloc(room * sizeof *lone);
    if (!lone) goto no_memory;
    int n_lone = 0;
    for (int i = 0; i < n; i++) {
        bool with_last = i > 0 && sorted[i - 1]->in == sorted[i]->in && sorted[i - 1]->out == sorted[i]->out;
        bool with_next = i + 1 < n && sorted[i + 1]->in == sorted[i]->in && sorted[i + 1]->out == sorted[i]->out;
        if (!with_last && !with_next) lone[n_lone++] = sorted[i];
    }
    qsort(lone, (size_t)n_lone, sizeof *lone, by_response);
    for (int i = 0; i < n_lone; i++) {
        int r = i > 0 && by_response(&lone[i - 1], &lone[i]) == 0 ? m->n_responses - 1
                                                                  : response_add(m, lone[i]->delay + lone[i]->n_taps);
        if (r >= 0 && (i == 0 || by_response(&lone[i - 1], &lone[i]) != 0)) response_mix(m->taps[r], lone[i]);
        if (r < 0) {
            free(lone);
            goto no_memory;
        }
        shared[lone[i] - routes] = r;
    }
    free(lone);

    for (int i = 0; i < n;) {
        int end = i + 1, longest = sorted[i]->delay + sorted[i]->n_taps;
        for (; end < n && sorted[end]->in == sorted[i]->in && sorted[end]->out == sorted[i]->out; end++)
            if (sorted[end]->delay + sorted[end]->n_taps > longest) longest = sorted[end]->delay + sorted[end]->n_taps;
        int r = shared[sorted[i] - routes];
        if (r < 0) {
            r = response_add(m, longest);
            if (r < 0) goto no_memory;
            for (int j = i; j < end; j++) response_mix(m->taps[r], sorted[j]);
        }
        m->cells[m->n_cells++] = (struct cell){sorted[i]->in, sorted[i]->out, r};
        i = end;
    }
    free(shared);
    free(sorted);
    return HC_OK;

no_memory:
    free(shared);
    free(sorted);
    matrix_free(m);
    return fail(HC_ENOMEM, why, cap, "no memory for a mask of %d routes", n);
}

int matrix_of_noise(struct matrix *m, const hc_config *config, const struct noise *noise, char *why, size_t cap)
{
    int n_pairs = config->n_in < config->n_out ? config->n_in : config->n_out;
    size_t n = noise->diagonal ? (size_t)n_pairs : (size_t)config->n_in * (size_t)config->n_out;
    memset(m, 0, sizeof *m);
    if (n > INT_MAX) return fail(HC_EINVAL, why, cap, "%zu responses; 2147483647 are possible", n);
    m->taps = calloc(n, sizeof *m->taps);
    m->n_taps = calloc(n, sizeof *m->n_taps);
    m->cells = calloc(n, sizeof *m->cells);
    if (!m->taps || !m->n_taps || !m->cells) goto no_memory;
    for (int i = 0; i < (int)n; i++) {
        struct cell cell = {i, i, i};
        if (!noise->diagonal) cell.in = i % config->n_in, cell.out = i / config->n_in;
        int r = response_add(m, noise->n_taps);
        if (r < 0) goto no_memory;
        struct noise_key key = noise_key_of(noise->seed, noise_response(noise, config->n_in, cell.in, cell.out));
        for (int k = 0; k < noise->n_taps; k++) m->taps[r][k] = noise_tap(key, (uint32_t)k, noise->envelope[k]);
        m->cells[m->n_cells++] = cell;
    }
    return HC_OK;
no_memory:
    matrix_free(m);
    return fail(HC_ENOMEM, why, cap, "no memory for %zu responses of %d taps; make the matrix smaller", n,
                noise->n_taps);
}

void matrix_free(struct matrix *m)
{
    for (int r = 0; r < m->n_responses; r++) free(m->taps[r]);
    free(m->taps);
    free(m->n_taps);
    free(m->cells);
    memset(m, 0, sizeof *m);
}
