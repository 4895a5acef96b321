/* simd - the inner loops, built once for each instruction set (base, v3, v4) with its compiler flags; see the
 * Makefile. */
#include "simd.h"
#include "dsp/fft/fft_butterflies.h"

enum { SUM_TAPS = 64 }; /* taps summed before they join the total */

/* Computes n_vec * LANES outputs; each tap is one broadcast and n_vec multiply-adds with an unaligned load of x.
 * `chains` independent sums hide the latency of the multiply-add when n_vec is small. */
ALWAYS_INLINE void fir_tile(vec *total, const float *x, const float *h, int n_taps, int n_vec, int chains)
{
    vec lost[8];
    for (int j = 0; j < n_vec; j++) total[j] = lost[j] = (vec){0};
    for (int k0 = 0; k0 < n_taps; k0 += SUM_TAPS) {
        int end = n_taps - k0 < SUM_TAPS ? n_taps : k0 + SUM_TAPS, k = k0;
        vec sum[8];
        for (int j = 0; j < n_vec * chains; j++) sum[j] = (vec){0};
        for (; k + chains <= end; k += chains)
            for (int c = 0; c < chains; c++) {
                vec tap = broadcast(h[k + c]);
                for (int j = 0; j < n_vec; j++) sum[c * n_vec + j] += tap * vec_load(x + j * LANES - (k + c));
            }
        for (; k < end; k++) {
            vec tap = broadcast(h[k]);
            for (int j = 0; j < n_vec; j++) sum[j] += tap * vec_load(x + j * LANES - k);
        }
        for (int c = 1; c < chains; c++)
            for (int j = 0; j < n_vec; j++) sum[j] += sum[c * n_vec + j];
        for (int j = 0; j < n_vec; j++) { /* Kahan: a long response adds hundreds of sums to a large total */
            vec add = sum[j] - lost[j], next = total[j] + add;
            lost[j] = (next - total[j]) - add;
            total[j] = next;
        }
    }
}

static void fir(float *y, const float *x, const float *h, int n, int n_taps)
{
    enum { WIDE = 8 };
    vec total[WIDE];
    int i = 0;
    for (; i + WIDE * LANES <= n; i += WIDE * LANES) {
        fir_tile(total, x + i, h, n_taps, WIDE, 1);
        for (int j = 0; j < WIDE; j++) vec_store(y + i + j * LANES, vec_load(y + i + j * LANES) + total[j]);
    }
    for (; i + 4 * LANES <= n; i += 4 * LANES) {
        fir_tile(total, x + i, h, n_taps, 4, 2);
        for (int j = 0; j < 4; j++) vec_store(y + i + j * LANES, vec_load(y + i + j * LANES) + total[j]);
    }
    for (; i < n; i += LANES) {
        fir_tile(total, x + i, h, n_taps, 1, 8);
        int last = n - i < LANES ? n - i : LANES;
        for (int l = 0; l < last; l++) y[i + l] += total[0][l];
    }
}

/* ---- the products of moving sources ------------------------------------------------------------------------------ */

enum { GROUP = 2 * FFT_LANES, MAX_TILE = 4 }; /* GROUP: floats of a group of bins; MAX_TILE: groups of a tile */

struct streams { /* addresses in one chunk. x: an FDL's entries; h: the responses of a pair of outputs */
    const float *x, *h;
};

/* Sums `tile` groups of a chunk, for a pair of outputs or the last output. Prefetches the next tile's x and h, `ahead`:
 * hardware prefetch cannot predict these addresses. */
ALWAYS_INLINE void sum_tile(float *now, float *next, const struct scene_sum *s, int n_partitions, float gain,
                            struct streams at, struct streams ahead, int n_outs, int tile, bool twice)
{
    struct cvec here[SCENE_PAIR * MAX_TILE], after[SCENE_PAIR * MAX_TILE], before[MAX_TILE];
    for (int j = 0; j < n_outs * tile; j++) here[j] = after[j] = (struct cvec){{0}, {0}};
    for (int i = 0; i < tile; i++) before[i] = (struct cvec){{0}, {0}};
    int end = s->end < n_partitions ? s->end : n_partitions, entry = (s->entry + s->first) % s->n_entries;
    for (int p = s->first; p < end; p++) {
        int x_at = entry * s->floats, h_at = p * n_outs * s->floats;
        struct cvec x[MAX_TILE];
        for (int i = 0; i < tile; i++) {
            x[i] = c_load(at.x + x_at + i * GROUP);
            __builtin_prefetch(ahead.x + x_at + i * GROUP);
            __builtin_prefetch(ahead.x + x_at + i * GROUP + FFT_LANES);
        }
        for (int j = 0; j < n_outs * tile; j++) {
            int i = j % tile, h_i = h_at + j / tile * s->floats + i * GROUP;
            struct cvec h = c_load(at.h + h_i);
            __builtin_prefetch(ahead.h + h_i);
            __builtin_prefetch(ahead.h + h_i + FFT_LANES);
            c_add_product(&here[j], x[i], h);
            if (twice) c_add_product(&after[j], before[i], h);
        }
        for (int i = 0; i < tile; i++) before[i] = x[i];
        if (++entry == s->n_entries) entry = 0;
    }
    vec weight = broadcast(gain);
    for (int j = 0; j < n_outs * tile; j++) {
        size_t y = (size_t)(j / tile) * s->y_step + (size_t)(j % tile * GROUP);
        struct cvec a = c_load(now + y);
        c_store(now + y, (struct cvec){a.re + weight * here[j].re, a.im + weight * here[j].im});
        if (!twice) continue;
        a = c_load(next + y);
        c_store(next + y, (struct cvec){a.re + weight * after[j].re, a.im + weight * after[j].im});
    }
}

/* Sums a chunk in tiles whose sums fit into the 32 or 16 registers. A build with narrower vectors computes a group's
 * lanes in several vectors. */
ALWAYS_INLINE void sum_chunk(float *now, float *next, const struct scene_sum *s, int n_partitions, float gain,
                             struct streams at, struct streams ahead, int n_outs, bool twice)
{
    enum { ONCE = LANES == 16 ? 4 : 2 };
    const int tile = twice ? ONCE / 2 : ONCE, fits = s->floats % (tile * GROUP) == 0,
              step = fits ? tile * GROUP : GROUP;
    for (int i = 0; i < s->floats; i += step)
        for (int l = i; l < i + FFT_LANES; l += LANES) {
            struct streams here = {at.x + l, at.h + l}, soon = {here.x + step, here.h + step};
            if (i + step == s->floats) soon = ahead;
            if (fits)
                sum_tile(now + l, next + l, s, n_partitions, gain, here, soon, n_outs, tile, twice);
            else
                sum_tile(now + l, next + l, s, n_partitions, gain, here, soon, n_outs, 1, twice);
        }
}

/* Writes the weighted sum of the FDLs of n sources to `mixed`, for the entries that the partitions meet. */
static void scene_sources_mix(float *mixed, const struct scene_piece *piece, const struct scene_source *sources, int n,
                              const struct scene_sum *s)
{
    int end = s->end < piece->n_partitions ? s->end : piece->n_partitions;
    for (int p = s->first; p < end; p++) {
        size_t at = (size_t)((s->entry + p) % s->n_entries) * (size_t)s->floats;
        const float *x = s->fdl + (size_t)s->chunk * s->x_step + at;
        for (int i = 0; i < s->floats; i += 2 * LANES) {
            vec total[2] = {{0}};
            for (int k = 0; k < n; k++) {
                const float *from = x + (size_t)sources[k].source * s->x_source + i;
                for (int j = 0; j < 2; j++) total[j] += broadcast(sources[k].weight) * vec_load(from + j * LANES);
            }
            for (int j = 0; j < 2; j++) vec_store(mixed + at + i + j * LANES, total[j]);
        }
    }
}

/* Returns the addresses of a source's FDL and of a piece's responses, in the chunk of *s. */
static struct streams streams_of(const struct scene_piece *piece, int source, const struct scene_sum *s)
{
    size_t floats = (size_t)piece->n_out * (size_t)(piece->n_partitions * s->floats);
    return (struct streams){s->fdl + (size_t)source * s->x_source + (size_t)s->chunk * s->x_step,
                            (const float *)piece->h + (size_t)s->chunk * floats};
}

ALWAYS_INLINE void sum_products(float *now, float *next, const struct scene_sum *s, bool twice)
{
    const struct scene_piece *piece = s->piece;
    for (int from = s->from, to; from < s->to; from = to, piece++) {
        to = piece->first + piece->n < s->to ? piece->first + piece->n : s->to;
        int n_partitions = piece->n_partitions;
        struct streams at = streams_of(piece, s->sources[from].source, s), then = at;
        float gain = s->sources[from].weight;
        if (to < s->to) then = streams_of(piece + 1, s->sources[to].source, s);
        if (to - from > 1) {
            scene_sources_mix(s->mixed, piece, s->sources + from, to - from, s);
            at.x = s->mixed;
            gain = 1;
        }
        for (int out = 0; out < piece->n_out; out += SCENE_PAIR) {
            struct streams ahead = {at.x, at.h + (size_t)(n_partitions * s->floats) * SCENE_PAIR};
            float *y = now + (size_t)out * s->y_step, *z = twice ? next + (size_t)out * s->y_step : now;
            if (out + SCENE_PAIR >= piece->n_out) ahead = then;
            if (out + 1 < piece->n_out)
                sum_chunk(y, z, s, n_partitions, gain, at, ahead, SCENE_PAIR, twice);
            else
                sum_chunk(y, z, s, n_partitions, gain, at, ahead, 1, twice);
            at = ahead;
        }
    }
}

static void scene_sum(float *now, float *next, const struct scene_sum *s)
{
    if (next)
        sum_products(now, next, s, true);
    else
        sum_products(now, now, s, false);
}

const struct simd FOR_ISA(simd_) = {ISA_NAME, fir, scene_sum};
