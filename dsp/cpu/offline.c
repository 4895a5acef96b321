#include "offline.h"

#include "dsp/base/memory.h"
#include "simd.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_PRODUCTS = 64 }; /* products that are summed before they join the total: less rounding in long sums */

bool offline_open(struct offline *o, const struct fft *fft, int ratio, int n_rows, int n_entries)
{
    size_t floats = 2 * (size_t)fft->size;
    /* SIMD_PAD: spectra that lie a multiple of 4 KiB apart would share few sets of the cache. */
    *o = (struct offline){.fft = fft, .ratio = ratio, .n_entries = n_entries, .stride = floats + SIMD_PAD};
    o->spectra = memory_floats_uncleared((size_t)n_rows * (size_t)n_entries * o->stride);
    o->zeros = memory_floats(floats);
    o->ranges = calloc((size_t)n_rows, sizeof *o->ranges);
    for (int row = 0; row < n_rows && o->ranges; row++) o->ranges[row] = offline_silence;
    return o->spectra && o->zeros && o->ranges;
}

void offline_close(struct offline *o)
{
    free(o->spectra);
    free(o->zeros);
    free(o->ranges);
}

static int offline_entry_of(const struct offline *o, int64_t window)
{
    int entry = (int)(window % o->n_entries);
    return entry < 0 ? entry + o->n_entries : entry;
}

float *offline_spectrum(const struct offline *o, int row, int64_t window)
{
    return o->spectra + ((size_t)row * (size_t)o->n_entries + (size_t)offline_entry_of(o, window)) * o->stride;
}

struct sum {
    const struct offline *o;
    size_t stride;            /* floats from chunk to chunk, as in the list */
    int n_windows, from, end; /* chunks [from, end) */
    float *const *y;
    struct fft_blocks *products; /* [MAX_PRODUCTS] */
    int n;
    bool add; /* add to the sums of earlier products */
};

static void sum_flush(struct sum *s)
{
    const struct fft *fft = s->o->fft;
    size_t size = (size_t)fft->chunk;
    for (size_t chunk = (size_t)s->from; chunk < (size_t)s->end; chunk++) {
        float *y[FFT_BLOCKS];
        for (int t = 0; t < s->n_windows; t++) y[t] = s->y[t] + chunk * size;
        fft->products->blocks(y, s->n_windows, s->add, s->products, s->n, chunk * size, chunk * s->stride, fft->chunk);
    }
    s->add = true;
    s->n = 0;
}

/* Adds the partitions of a product that meet windows of the row's range. Flushes at the same partitions in all
 * windows: the order of a sum then does not depend on the windows that are computed together. */
static void sum_add(struct sum *s, const struct offline_product *product, int64_t window)
{
    const struct offline *o = s->o;
    const struct offline_range *range = &o->ranges[product->row];
    const float *row = o->spectra + (size_t)product->row * (size_t)o->n_entries * o->stride;
    /* before: from the row's first window to the last window of the sum; after: from the row's last to its first */
    int64_t before = window + s->n_windows - 1 - range->first, after = window - range->last;
    int64_t all = (int64_t)o->ratio * product->end;
    if (before < 0 || after >= all) return;
    int first = after > 0 ? ((int)after + o->ratio - 1) / o->ratio : 0;
    int end = before < all ? (int)before / o->ratio + 1 : product->end;
    if (first < product->first) first = product->first;
    int64_t w = window - (int64_t)o->ratio * first;
    int entry = offline_entry_of(o, w);
    for (int p = first; p < end; p++, w -= o->ratio) {
        if (s->n == MAX_PRODUCTS || (p > first && p % MAX_PRODUCTS == 0)) sum_flush(s);
        struct fft_blocks *next = &s->products[s->n++];
        next->h = product->h + (size_t)(p - product->first) * (size_t)o->fft->chunk;
        for (int t = 0; t < s->n_windows; t++) {
            int at = entry + t < o->n_entries ? entry + t : entry + t - o->n_entries;
            next->x[t] = w + t < range->first || w + t > range->last ? o->zeros : row + (size_t)at * o->stride;
        }
        entry -= o->ratio;
        if (entry < 0) entry += o->n_entries;
    }
}

bool offline_sum(const struct offline *o, const struct offline_list *list, int64_t window, int n, int from, int end,
                 float *const *y)
{
    struct fft_blocks products[MAX_PRODUCTS];
    struct sum s = {o, list->stride, n, from, end, y, products, 0, false};
    for (int i = 0; i < list->n; i++) sum_add(&s, &list->products[i], window);
    bool any = s.n > 0 || s.add;
    if (s.n > 0 || !any) sum_flush(&s);
    return any;
}

void offline_back(const struct offline *o, float *sum, int from, int n, float *out, float *scratch)
{
    bool whole = n == o->fft->size;
    fft_inverse(o->fft, sum, whole ? out : scratch);
    if (!whole) memcpy(out, scratch + from, (size_t)n * sizeof(float));
}
