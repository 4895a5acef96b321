/* masks - the public calls that make, swap and free the masks of an engine. routes.c checks the routes. */
#include "dsp/bench.h"
#include "engine_state.h"
#include "routes.h"

#include <math.h>
#include <stdlib.h>

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
