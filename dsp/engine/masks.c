/* masks - the public calls that make, swap and free the masks of an engine, and the matrix of a mask's routes. */
#include "masks.h"
#include "dsp/bench.h"
#include "engine_state.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- the matrix -------------------------------------------------------------------------------------------------- */

static int route_check(const hc_config *config, const hc_route *route, int index, struct reason *why)
{
    if (route->in < 0 || route->in >= config->n_in)
        return fail(HC_EINVAL, why, "routes[%d].in is %d, but the engine has %d input%s; count from 0", index,
                    route->in, config->n_in, PLURAL(config->n_in));
    if (route->out < 0 || route->out >= config->n_out)
        return fail(HC_EINVAL, why, "routes[%d].out is %d, but the engine has %d output%s; count from 0", index,
                    route->out, config->n_out, PLURAL(config->n_out));
    if (route->n_taps < 1 || !route->taps)
        return fail(HC_EINVAL, why, "routes[%d] has no taps; give it one or more", index);
    if (route->delay < 0) return fail(HC_EINVAL, why, "routes[%d].delay is %d; give 0 or more", index, route->delay);
    if (!isfinite(route->gain)) return fail(HC_EINVAL, why, "routes[%d].gain is not finite; give a number", index);
    if ((long long)route->n_taps + route->delay > config->max_taps)
        return fail(HC_EINVAL, why,
                    "routes[%d] has %lld taps, delay included, but max_taps is %d; open the engine with more", index,
                    (long long)route->n_taps + route->delay, config->max_taps);
    return HC_OK;
}

/* Reports a route's first tap that is not finite, before or after the gain, which may come from the command line. */
static int refuse_tap(const hc_route *route, struct reason *why)
{
    int k = 0;
    while (isfinite(route->taps[k] * route->gain) && isfinite(route->taps[k])) k++;
    if (!isfinite(route->taps[k]))
        return fail(HC_EINVAL, why, "input %d to output %d: tap %d is %s; give finite taps", route->in + 1,
                    route->out + 1, k, isnan(route->taps[k]) ? "NaN" : "infinite");
    return fail(HC_EINVAL, why, "input %d to output %d: tap %d times the gain %g overflows; lower the gain",
                route->in + 1, route->out + 1, k, (double)route->gain);
}

static bool same_pair(const hc_route *p, const hc_route *q)
{
    return p->in == q->in && p->out == q->out;
}

static int by_pair(const void *a, const void *b)
{
    const hc_route *p = *(const hc_route *const *)a, *q = *(const hc_route *const *)b;
    if (p->out != q->out) return p->out < q->out ? -1 : 1;
    if (p->in != q->in) return p->in < q->in ? -1 : 1;
    return p < q ? -1 : p > q; /* by the caller's order, so that sums do not depend on the sort */
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

/* Returns the largest magnitude of a tap, or infinity if a tap is NaN. */
static float peak_of(const hc_route *route)
{
    float peak = 0;
    for (int k = 0; k < route->n_taps; k++) {
        float size = fabsf(route->taps[k]);
        if (!(size <= peak)) peak = isnan(size) ? INFINITY : size;
    }
    return peak;
}

/* Checks each tap once for all routes that share it: a million routes may share a few long responses. Fills and sorts
 * `sorted`. */
static int check_taps(const hc_route *routes, int n, const hc_route **sorted, struct reason *why)
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
    return bad < n ? refuse_tap(&routes[bad], why) : HC_OK;
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

/* Checks the sum of a pair's routes: finite routes may add up to an infinite tap. */
static int check_mix(const float *taps, int n_taps, const hc_route *route, struct reason *why)
{
    for (int k = 0; k < n_taps; k++)
        if (!isfinite(taps[k]))
            return fail(HC_EINVAL, why,
                        "input %d to output %d: the sum of the routes has an infinite tap %d; give smaller gains",
                        route->in + 1, route->out + 1, k);
    return HC_OK;
}

int matrix_make(struct matrix *m, const hc_config *config, const hc_route *routes, int n, struct reason *why)
{
    memset(m, 0, sizeof *m);
    if (n < 0) return fail(HC_EINVAL, why, "n is %d; give 0 or more", n);
    if (n > 0 && !routes) return fail(HC_EINVAL, why, "routes is NULL, but n is %d; pass n routes", n);
    for (int i = 0; i < n; i++) {
        int error = route_check(config, &routes[i], i, why);
        if (error) return error;
    }
    size_t size = n > 0 ? (size_t)n : 1;
    const hc_route **sorted = malloc(size * sizeof *sorted), **lone = malloc(size * sizeof *lone);
    int *shared = malloc(size * sizeof *shared); /* [route]: the response of a lone route; -1: not lone */
    int error = HC_ENOMEM, n_lone = 0;
    m->taps = calloc(size, sizeof *m->taps);
    m->n_taps = calloc(size, sizeof *m->n_taps);
    m->cells = calloc(size, sizeof *m->cells);
    if (!sorted || !lone || !shared || !m->taps || !m->n_taps || !m->cells) goto end;
    error = check_taps(routes, n, sorted, why);
    if (error) goto end;
    error = HC_ENOMEM;

    /* A route that is the only one on its pair is lone. Lone routes with the same data share a response. */
    for (int i = 0; i < n; i++) sorted[i] = &routes[i], shared[i] = -1;
    qsort(sorted, (size_t)n, sizeof *sorted, by_pair);
    for (int i = 0; i < n; i++)
        if ((i == 0 || !same_pair(sorted[i - 1], sorted[i])) && (i + 1 == n || !same_pair(sorted[i + 1], sorted[i])))
            lone[n_lone++] = sorted[i];
    qsort(lone, (size_t)n_lone, sizeof *lone, by_response);
    for (int i = 0; i < n_lone; i++) {
        if (i == 0 || by_response(&lone[i - 1], &lone[i]) != 0) {
            int r = response_add(m, lone[i]->delay + lone[i]->n_taps);
            if (r < 0) goto end;
            response_mix(m->taps[r], lone[i]);
        }
        shared[lone[i] - routes] = m->n_responses - 1;
    }

    /* The other routes are added up, pair by pair, in separate responses. */
    for (int i = 0, next; i < n; i = next) {
        int longest = 0, r = shared[sorted[i] - routes];
        for (next = i; next < n && same_pair(sorted[next], sorted[i]); next++)
            if (sorted[next]->delay + sorted[next]->n_taps > longest)
                longest = sorted[next]->delay + sorted[next]->n_taps;
        if (r < 0) {
            r = response_add(m, longest);
            if (r < 0) goto end;
            for (int j = i; j < next; j++) response_mix(m->taps[r], sorted[j]);
            error = check_mix(m->taps[r], longest, sorted[i], why);
            if (error) goto end;
            error = HC_ENOMEM;
        }
        m->cells[m->n_cells++] = (struct cell){sorted[i]->in, sorted[i]->out, r};
    }
    error = HC_OK;
end:
    free(shared);
    free(lone);
    free(sorted);
    if (error) matrix_free(m);
    return error == HC_ENOMEM
               ? fail(HC_ENOMEM, why, "no memory for a mask of %d route%s; free some memory", n, PLURAL(n))
               : error;
}

static void response_fill(float *taps, const struct noise *noise, uint32_t response)
{
    struct noise_key key = noise_key_of(noise->seed, response);
    for (int k = 0; k < noise->n_taps; k++) taps[k] = noise_tap(key, (uint32_t)k, noise->envelope[k]);
}

int matrix_of_noise(struct matrix *m, const hc_config *config, const struct noise *noise, bool has_taps,
                    struct reason *why)
{
    int n_pairs = config->n_in < config->n_out ? config->n_in : config->n_out;
    size_t n = noise->diagonal ? (size_t)n_pairs : (size_t)config->n_in * (size_t)config->n_out;
    memset(m, 0, sizeof *m);
    if (n > INT_MAX / 2) return fail(HC_EINVAL, why, "the matrix has %zu responses; give at most %d", n, INT_MAX / 2);
    if (has_taps) m->taps = calloc(n, sizeof *m->taps);
    m->n_taps = calloc(n, sizeof *m->n_taps);
    m->cells = calloc(n, sizeof *m->cells);
    if ((has_taps && !m->taps) || !m->n_taps || !m->cells) goto no_memory;
    for (int i = 0; i < (int)n; i++) { /* by output, then input, as noise_response numbers them */
        struct cell cell = {i, i, i};
        if (!noise->diagonal) cell.in = i % config->n_in, cell.out = i / config->n_in;
        m->n_taps[i] = noise->n_taps;
        if (has_taps && response_add(m, noise->n_taps) < 0) goto no_memory;
        if (has_taps) response_fill(m->taps[i], noise, noise_response(noise, config->n_in, cell.in, cell.out));
        m->cells[m->n_cells++] = cell;
    }
    m->n_responses = (int)n;
    return HC_OK;
no_memory:
    matrix_free(m);
    return fail(HC_ENOMEM, why, "no memory for %zu responses of %d taps; make the matrix smaller", n, noise->n_taps);
}

void matrix_free(struct matrix *m)
{
    for (int r = 0; m->taps && r < m->n_responses; r++) free(m->taps[r]);
    free(m->taps);
    free(m->n_taps);
    free(m->cells);
    memset(m, 0, sizeof *m);
}

/* ---- the calls --------------------------------------------------------------------------------------------------- */

static void mask_delete(hc_engine *e, hc_mask *mask)
{
    e->backend->mask_free(e->state, mask->impl);
    free(mask);
}

/* Deletes the masks that the caller has freed and that no longer play. Under e->masks_lock. */
static void masks_sweep(hc_engine *e)
{
    for (hc_mask **link = &e->masks; *link;) {
        hc_mask *mask = *link;
        if (mask->is_freed && atomic_load_explicit(&mask->uses, memory_order_acquire) == 0) {
            *link = mask->next;
            mask_delete(e, mask);
        } else {
            link = &mask->next;
        }
    }
}

void engine_masks_free(hc_engine *e)
{
    while (e->masks) {
        hc_mask *mask = e->masks;
        e->masks = mask->next;
        mask_delete(e, mask);
    }
}

/* Makes a mask of a matrix or, if noise is not NULL, of noise with the backend's mask_make_noise. */
static int mask_add(hc_engine *e, const struct matrix *matrix, const struct noise *noise, hc_mask **out,
                    struct reason *why)
{
    if (engine_is_left_behind(e)) return fail(HC_EDEVICE, why, "%s", engine_loss(e));
    hc_mask *mask = calloc(1, sizeof *mask);
    if (!mask) return fail(HC_ENOMEM, why, "no memory for a mask; free some memory");
    pthread_mutex_lock(&e->masks_lock);
    masks_sweep(e);
    int error = noise ? e->backend->mask_make_noise(e->state, matrix, noise, &mask->impl, why)
                      : e->backend->mask_make(e->state, matrix, &mask->impl, why);
    if (!error) {
        mask->engine = e;
        mask->next = e->masks;
        e->masks = *out = mask;
    }
    pthread_mutex_unlock(&e->masks_lock);
    if (error) free(mask);
    return error;
}

int hc_mask_make(hc_engine *e, const hc_route *routes, size_t route_size, int n, hc_mask **out, char *why, size_t cap)
{
    if (out) *out = NULL;
    if (!e || !out) return fail(HC_EINVAL, REASON(why, cap), "hc_mask_make: engine or mask is NULL; pass both");
    if (n > 0 && route_size != sizeof *routes)
        return fail(HC_EINVAL, REASON(why, cap), "route_size is %zu; give sizeof(hc_route), %zu", route_size,
                    sizeof *routes);
    struct matrix matrix;
    int error = matrix_make(&matrix, &e->config, routes, n, REASON(why, cap));
    if (error) return error;
    error = mask_add(e, &matrix, NULL, out, REASON(why, cap));
    matrix_free(&matrix);
    return error;
}

/* The envelope falls by 60 dB in rt60 frames; the expected energy of a response is 1. */
static void envelope_fill(float *envelope, int n_taps, double rt60)
{
    double decay = -3 * log(10) / rt60, energy = 0;
    for (int k = 0; k < n_taps; k++) energy += exp(2 * decay * k) / 3; /* 1/3: mean square of noise in -1...1 */
    for (int k = 0; k < n_taps; k++) envelope[k] = (float)(exp(decay * k) / sqrt(energy));
}

int hc_mask_make_noise(hc_engine *e, int diagonal, int n_taps, double rt60, uint64_t seed, hc_mask **out, char *why,
                       size_t cap)
{
    if (out) *out = NULL;
    if (!e || !out) return fail(HC_EINVAL, REASON(why, cap), "hc_mask_make_noise: engine or mask is NULL; pass both");
    if (n_taps < 1 || n_taps > e->config.max_taps)
        return fail(HC_EINVAL, REASON(why, cap), "n_taps is %d; give 1 to max_taps, %d", n_taps, e->config.max_taps);
    if (!(rt60 > 0) || !isfinite(rt60))
        return fail(HC_EINVAL, REASON(why, cap), "rt60 is %g; give seconds above 0", rt60);
    float *envelope = malloc((size_t)n_taps * sizeof *envelope);
    if (!envelope) return fail(HC_ENOMEM, REASON(why, cap), "no memory for a mask; free some memory");
    envelope_fill(envelope, n_taps, rt60);
    struct noise noise = {seed, diagonal != 0, n_taps, envelope};
    struct matrix matrix;
    bool on_device = e->backend->mask_make_noise != NULL;
    int error = matrix_of_noise(&matrix, &e->config, &noise, !on_device, REASON(why, cap));
    if (!error) error = mask_add(e, &matrix, on_device ? &noise : NULL, out, REASON(why, cap));
    matrix_free(&matrix); /* empty after an error */
    free(envelope);
    return error;
}

void hc_mask_free(hc_engine *e, hc_mask *mask)
{
    if (!e || !mask || engine_is_left_behind(e)) return;
    pthread_mutex_lock(&e->masks_lock);
    mask->is_freed = true;
    masks_sweep(e);
    pthread_mutex_unlock(&e->masks_lock);
}

int hc_mask_swap(hc_engine *e, hc_mask *mask)
{
    if (!e || (mask && mask->engine != e)) return HC_EINVAL;
    mask_swap_request(&e->swap, mask);
    return HC_OK;
}
