/* fft_products - products of spectra (fft.h), built once for each SIMD_LEVEL; see the Makefile.
 *
 * Sums stay in registers over all products. A level with vectors of fewer lanes takes the lanes of a group in turns.
 */
#include "fft_passes.h"

enum { POINT = 2 * FFT_LANES }; /* floats of a group of bins */

/* Loads a vector into a register: a compiler would read memory anew for each of its two products. */
ALWAYS_INLINE struct cvec c_load_once(const float *p)
{
    struct cvec a = c_load(p);
#if defined __x86_64__
    __asm__("" : "+v"(a.re), "+v"(a.im));
#endif
    return a;
}

/* Where vector i of a chunk begins: the vectors of a group follow each other, so that a tile reads whole cache lines. */
ALWAYS_INLINE int at_vector(int i)
{
    enum { TURNS = FFT_LANES / LANES };
    return i / TURNS * POINT + i % TURNS * LANES;
}

/* `tile` vectors of a chunk of `floats`, from `at` on. */
ALWAYS_INLINE void rings_tile(float *y, const struct fft_ring *rings, int n, bool add, int floats, int at, int tile)
{
    struct cvec sum[8];
    for (int i = 0; i < tile; i++) sum[i] = add ? c_load(y + at + at_vector(i)) : (struct cvec){{0}, {0}};
    for (int c = 0; c < n; c++) {
        const struct fft_ring *ring = &rings[c];
        const float *x = ring->x + (size_t)ring->slot * (size_t)floats + at;
        const float *h = ring->h + at;
        for (int p = 0, left = ring->slot; p < ring->n_partitions; p++, left--) {
            if (left < 0) { /* around the end of the FDL */
                left += ring->slots;
                x += (size_t)ring->slots * (size_t)floats;
            }
            for (int i = 0; i < tile; i++)
                c_add_product(&sum[i], c_load_once(x + at_vector(i)), c_load_once(h + at_vector(i)));
            x -= floats;
            h += floats;
        }
    }
    for (int i = 0; i < tile; i++) c_store(y + at + at_vector(i), sum[i]);
}

static void rings(float *y, const struct fft_ring *list, int n, bool add, int floats)
{
    int n_vectors = floats / (2 * LANES);
    if (LANES == 16 && floats == FFT_CHUNK)
        rings_tile(y, list, n, add, FFT_CHUNK, 0, 8);
    else if (n_vectors % 4 == 0)
        for (int i = 0; i < n_vectors; i += 4) rings_tile(y, list, n, add, floats, at_vector(i), 4);
    else
        for (int i = 0; i < n_vectors; i++) rings_tile(y, list, n, add, floats, at_vector(i), 1);
}

/* n_groups groups of a chunk, for FFT_BLOCKS time blocks: each h that is loaded is used for all of them. */
ALWAYS_INLINE void blocks_tile(float *const *y, bool add, const struct fft_blocks *list, int n, size_t x_at,
                               size_t h_at, size_t at, int n_groups)
{
    struct cvec sum[2 * FFT_BLOCKS];
    for (int i = 0; i < n_groups * FFT_BLOCKS; i++) sum[i] = (struct cvec){{0}, {0}};
    for (int k = 0; k < n; k++)
        for (int j = 0; j < n_groups; j++) {
            const float *h_j = list[k].h + h_at + at + j * POINT, *next = h_j + n_groups * POINT; /* of the next tile */
            struct cvec h = c_load_once(h_j);
            __builtin_prefetch(next);
            __builtin_prefetch(next + FFT_LANES);
            for (int t = 0; t < FFT_BLOCKS; t++)
                c_add_product(&sum[j * FFT_BLOCKS + t], c_load(list[k].x[t] + x_at + at + j * POINT), h);
        }
    for (int i = 0; i < n_groups * FFT_BLOCKS; i++) {
        float *out = y[i % FFT_BLOCKS] + at + i / FFT_BLOCKS * POINT;
        c_store(out, add ? c_add(c_load(out), sum[i]) : sum[i]);
    }
}

static void blocks(float *const *y, bool add, const struct fft_blocks *list, int n, size_t x_at, size_t h_at,
                   int floats)
{
    int tile = LANES == 16 && floats > POINT ? 2 : 1;
    for (int at = 0; at < floats; at += tile * POINT)
        for (int l = 0; l < FFT_LANES; l += LANES)
            if (tile == 2)
                blocks_tile(y, add, list, n, x_at, h_at, (size_t)at, 2);
            else
                blocks_tile(y, add, list, n, x_at, h_at, (size_t)(at + l), 1);
}

extern const struct fft_products AT_LEVEL(fft_products_);
const struct fft_products AT_LEVEL(fft_products_) = {rings, blocks};
