/* fft_products - products of spectra (fft.h), built once for each instruction set; see the Makefile.
 *
 * Sums stay in registers over all products. A build with narrower vectors computes a group's lanes in several vectors.
 */
#include "fft_butterflies.h"

enum { TILE = 8 }; /* sums in a tile; if 16 registers are too few, spills cost less than reading half cache lines */

/* Loads a vector into a register; otherwise compilers read memory again for each of two products. */
ALWAYS_INLINE struct cvec c_load_once(const float *p)
{
    struct cvec a = c_load(p);
#if defined __x86_64__
    __asm__("" : "+v"(a.re), "+v"(a.im));
#endif
    return a;
}

/* Returns the offset of vector i in a chunk. A group's vectors are consecutive: a tile reads whole cache lines. */
ALWAYS_INLINE int at_vector(int i)
{
    enum { TURNS = FFT_LANES / LANES };
    return i / TURNS * FFT_GROUP + i % TURNS * LANES;
}

/* Sums the rings in `tile` vectors of a chunk of `floats`, from vector `at` on. */
ALWAYS_INLINE void rings_tile(float *y, const struct fft_ring *rings, int n, bool add, int floats, int at, int tile)
{
    struct cvec sum[TILE];
    for (int i = 0; i < tile; i++) sum[i] = add ? c_load(y + at + at_vector(i)) : (struct cvec){{0}, {0}};
    for (int c = 0; c < n; c++) {
        const struct fft_ring *ring = &rings[c];
        for (int p = 0, entry = ring->entry; p < ring->n_partitions; p++, entry--) {
            if (entry < 0) entry += ring->n_entries; /* wrap at the end of the FDL */
            const float *x = ring->x + (size_t)entry * (size_t)floats + at;
            const float *h = ring->h + (size_t)p * (size_t)floats + at;
            for (int i = 0; i < tile; i++)
                c_add_product(&sum[i], c_load_once(x + at_vector(i)), c_load_once(h + at_vector(i)));
        }
    }
    for (int i = 0; i < tile; i++) c_store(y + at + at_vector(i), sum[i]);
}

static void rings(float *y, const struct fft_ring *list, int n, bool add, int floats)
{
    int n_vectors = floats / (2 * LANES);
    if (LANES == 16 && n_vectors == TILE)
        rings_tile(y, list, n, add, FFT_CHUNK, 0, TILE);
    else if (n_vectors % 4 == 0)
        for (int i = 0; i < n_vectors; i += 4) rings_tile(y, list, n, add, floats, at_vector(i), 4);
    else
        for (int i = 0; i < n_vectors; i++) rings_tile(y, list, n, add, floats, at_vector(i), 1);
}

/* Sums `tile` vectors of a chunk, from vector `at` on, for n_t time blocks: each h is loaded once for all blocks. */
ALWAYS_INLINE void blocks_tile(float *const *y, int n_t, bool add, const struct fft_blocks *list, int n, size_t x_at,
                               size_t h_at, int at, int tile)
{
    const int ahead = at_vector(tile) > FFT_GROUP ? at_vector(tile) : FFT_GROUP;
    struct cvec sum[TILE];
    for (int i = 0; i < tile * n_t; i++) sum[i] = (struct cvec){{0}, {0}};
    for (int k = 0; k < n; k++)
        for (int j = 0; j < tile; j++) {
            int here = at + at_vector(j);
            const float *h_here = list[k].h + h_at + here;
            struct cvec h = c_load_once(h_here);
            if (here % FFT_GROUP == 0) { /* prefetch the next tile: hardware prefetch does not follow so many streams */
                __builtin_prefetch(h_here + ahead);
                __builtin_prefetch(h_here + ahead + FFT_LANES);
            }
            for (int t = 0; t < n_t; t++) c_add_product(&sum[j * n_t + t], c_load(list[k].x[t] + x_at + here), h);
        }
    for (int i = 0; i < tile * n_t; i++) {
        float *out = y[i % n_t] + at + at_vector(i / n_t);
        c_store(out, add ? c_add(c_load(out), sum[i]) : sum[i]);
    }
}

ALWAYS_INLINE void blocks_of(float *const *y, int n_t, bool add, const struct fft_blocks *list, int n, size_t x_at,
                             size_t h_at, int floats)
{
    /* A single block does not share loads of h: its sums must not spill. */
    const int tile = n_t == 1 && LANES < 16 ? TILE / 2 : TILE / n_t, n_vectors = floats / (2 * LANES);
    if (n_vectors % tile == 0)
        for (int i = 0; i < n_vectors; i += tile) blocks_tile(y, n_t, add, list, n, x_at, h_at, at_vector(i), tile);
    else
        for (int i = 0; i < n_vectors; i++) blocks_tile(y, n_t, add, list, n, x_at, h_at, at_vector(i), 1);
}

static void blocks(float *const *y, int n_t, bool add, const struct fft_blocks *list, int n, size_t x_at, size_t h_at,
                   int floats)
{
    if (n_t == 1)
        blocks_of(y, 1, add, list, n, x_at, h_at, floats);
    else if (n_t == 2)
        blocks_of(y, 2, add, list, n, x_at, h_at, floats);
    else
        blocks_of(y, FFT_BLOCKS, add, list, n, x_at, h_at, floats);
}

extern const struct fft_products FOR_ISA(fft_products_);
const struct fft_products FOR_ISA(fft_products_) = {rings, blocks};
