/* masks - masks of an engine: made, swapped in, given up, freed. */
#include "dsp/bench.h"
#include "engine_state.h"
#include "matrix.h"

#include <math.h>
#include <stdlib.h>

static void mask_delete(hc_engine *e, hc_mask *mask)
{
    e->backend->mask_free(e->state, mask->impl);
    free(mask);
}

/* Frees the masks that were given up and are no longer played. Under e->setup. */
static void sweep(hc_engine *e)
{
    for (hc_mask **link = &e->masks; *link;) {
        hc_mask *mask = *link;
        if (mask->released && atomic_load_explicit(&mask->uses, memory_order_acquire) == 0) {
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

/* Under e->setup. */
static void mask_enlist(hc_engine *e, hc_mask *mask)
{
    mask->engine = e;
    mask->next = e->masks;
    e->masks = mask;
}

int hc_mask_make(hc_engine *e, const hc_route *routes, int n, hc_mask **out, char *why, size_t cap)
{
    if (out) *out = NULL;
    if (!e || !out) return fail(HC_EINVAL, why, cap, "hc_mask_make: engine or mask is NULL; pass both");
    struct matrix matrix;
    int error = matrix_make(&matrix, &e->config, routes, n, why, cap);
    if (error) return error;
    hc_mask *mask = calloc(1, sizeof *mask);
    pthread_mutex_lock(&e->setup);
    sweep(e);
    error = mask ? e->backend->mask_make(e->state, &matrix, &mask->impl, why, cap)
                 : fail(HC_ENOMEM, why, cap, "no memory for a mask");
    if (!error) mask_enlist(e, *out = mask);
    pthread_mutex_unlock(&e->setup);
    matrix_free(&matrix);
    if (error) free(mask);
    return error;
}

static int impl_of_noise(hc_engine *e, const struct noise *noise, void **impl, char *why, size_t cap)
{
    if (e->backend->mask_make_noise) return e->backend->mask_make_noise(e->state, noise, impl, why, cap);
    struct matrix matrix;
    int error = matrix_of_noise(&matrix, &e->config, noise, why, cap);
    if (error) return error;
    error = e->backend->mask_make(e->state, &matrix, impl, why, cap);
    matrix_free(&matrix);
    return error;
}

/* 60 dB in rt60 frames; the squares of a response are expected to add up to 1. */
static void envelope_fill(float *envelope, int n_taps, double rt60)
{
    double decay = -3 * log(10) / rt60, energy = 0;
    for (int k = 0; k < n_taps; k++) energy += exp(2 * decay * k) / 3; /* a third: of numbers in -1...1 */
    for (int k = 0; k < n_taps; k++) envelope[k] = (float)(exp(decay * k) / sqrt(energy));
}

int hc_mask_make_noise(hc_engine *e, int diagonal, int n_taps, double rt60, uint64_t seed, hc_mask **out, char *why,
                       size_t cap)
{
    if (out) *out = NULL;
    if (!e || !out) return fail(HC_EINVAL, why, cap, "hc_mask_make_noise: engine or mask is NULL; pass both");
    if (n_taps < 1 || n_taps > e->config.max_taps)
        return fail(HC_EINVAL, why, cap, "noise of %d taps; 1 to max_taps (%d) are possible", n_taps,
                    e->config.max_taps);
    if (!(rt60 > 0) || !isfinite(rt60)) return fail(HC_EINVAL, why, cap, "rt60 %g; it must be positive", rt60);
    float *envelope = malloc((size_t)n_taps * sizeof *envelope);
    hc_mask *mask = calloc(1, sizeof *mask);
    int error = HC_ENOMEM;
    if (!envelope || !mask) {
        fail(HC_ENOMEM, why, cap, "no memory for a mask");
        goto end;
    }
    envelope_fill(envelope, n_taps, rt60);
    struct noise noise = {seed, diagonal != 0, n_taps, envelope};
    pthread_mutex_lock(&e->setup);
    sweep(e);
    error = impl_of_noise(e, &noise, &mask->impl, why, cap);
    if (!error) mask_enlist(e, *out = mask);
    pthread_mutex_unlock(&e->setup);
end:
    free(envelope);
    if (error) free(mask);
    return error;
}

void hc_mask_free(hc_engine *e, hc_mask *mask)
{
    if (!e || !mask) return;
    pthread_mutex_lock(&e->setup);
    mask->released = true;
    sweep(e);
    pthread_mutex_unlock(&e->setup);
}

int hc_mask_swap(hc_engine *e, hc_mask *mask)
{
    if (!e || (mask && mask->engine != e)) return HC_EINVAL;
    mask_swap_ask(&e->swap, mask);
    return HC_OK;
}
