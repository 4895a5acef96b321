/* simd - the inner loops, built once for each SIMD_LEVEL (base, v3, v4) with that level's compiler flags; see the
 * Makefile. */
#include "simd.h"
#include "dsp/fft/vec.h"

#include <stdint.h>
#include <string.h>

#if LANES == 16
#define SWAP(v) __builtin_shufflevector(v, v, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14)
static const vec rotate_sign = {-1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1};
#elif LANES == 8
#define SWAP(v) __builtin_shufflevector(v, v, 1, 0, 3, 2, 5, 4, 7, 6)
static const vec rotate_sign = {-1, 1, -1, 1, -1, 1, -1, 1};
#else
#define SWAP(v) __builtin_shufflevector(v, v, 1, 0, 3, 2)
static const vec rotate_sign = {-1, 1, -1, 1};
#endif

static uint32_t max_u32(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

static size_t copy_finite(float *dst, const float *src, int n, uint32_t *peak_bits)
{
    uint32_t replaced = 0, peak = *peak_bits;
    for (int i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &src[i], 4);
        uint32_t bad = (bits & 0x7f800000u) == 0x7f800000u;
        bits &= bad - 1u;
        memcpy(&dst[i], &bits, 4);
        replaced += bad;
        peak = max_u32(peak, bits & 0x7fffffffu);
    }
    *peak_bits = peak;
    return replaced;
}

static size_t measure(const float *x, int n, uint32_t *peak_bits)
{
    uint32_t clipped = 0, peak = *peak_bits;
    for (int i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], 4);
        bits &= 0x7fffffffu;
        clipped += bits > 0x3f800000u; /* 1 */
        peak = max_u32(peak, bits);
    }
    *peak_bits = peak;
    return clipped;
}

enum {
    SUM_TAPS = 64,       /* taps summed before they join the total */
    PREFETCH_AHEAD = 32, /* floats; cmac reads more streams (one a partition) than the hardware prefetches */
};

/* N_VEC * LANES outputs; each tap is one broadcast and N_VEC multiply-adds with an unaligned load of x. CHAINS
 * independent sums hide the latency of the multiply-add when N_VEC is small. */
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
                for (int j = 0; j < n_vec; j++) sum[c * n_vec + j] += tap * load(x + j * LANES - (k + c));
            }
        for (; k < end; k++) {
            vec tap = broadcast(h[k]);
            for (int j = 0; j < n_vec; j++) sum[j] += tap * load(x + j * LANES - k);
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
        for (int j = 0; j < WIDE; j++) store(y + i + j * LANES, load(y + i + j * LANES) + total[j]);
    }
    for (; i + 4 * LANES <= n; i += 4 * LANES) {
        fir_tile(total, x + i, h, n_taps, 4, 2);
        for (int j = 0; j < 4; j++) store(y + i + j * LANES, load(y + i + j * LANES) + total[j]);
    }
    for (; i < n; i += LANES) {
        fir_tile(total, x + i, h, n_taps, 1, 8);
        int last = n - i < LANES ? n - i : LANES;
        for (int l = 0; l < last; l++) y[i + l] += total[0][l];
    }
}

/* x * h = x*re(h) + i*(x*im(h)): two real sums a bin; one rotation by i at the end suffices. */
ALWAYS_INLINE void cmac_tile(float *y, const float *x, const float *h, size_t stride, int n_p, int n_t, int n_vec)
{
    vec re[8], im[8]; /* [n_t][n_vec] */
    for (int j = 0; j < n_t * n_vec; j++) re[j] = im[j] = (vec){0};
    for (int p = 0; p < n_p; p++) {
        if (n_t > 1)
            for (int j = 0; j < n_vec * LANES; j += 16) { /* a cache line; x + t*stride was fetched for an earlier p */
                __builtin_prefetch(h + PREFETCH_AHEAD + j);
                __builtin_prefetch(x + PREFETCH_AHEAD + j);
            }
        for (int j = 0; j < n_vec; j++) {
            vec tap = load(h + j * LANES), tap_re = EVEN(tap), tap_im = ODD(tap);
            for (int t = 0; t < n_t; t++) {
                vec in = load(x + (size_t)t * stride + j * LANES);
                re[t * n_vec + j] += in * tap_re;
                im[t * n_vec + j] += in * tap_im;
            }
        }
        x -= stride;
        h += stride;
    }
    for (int t = 0; t < n_t; t++)
        for (int j = 0; j < n_vec; j++) {
            float *out = y + (size_t)t * stride + j * LANES;
            store(out, load(out) + re[t * n_vec + j] + rotate_sign * SWAP(im[t * n_vec + j]));
        }
}

static void cmac(float *y, const float *x, const float *h, size_t stride, int n_p, int n_t, int n_bins)
{
    int n = 2 * n_bins, i = 0;
    if (n_t == FFT_BLOCKS) {
        if (LANES == 16)
            for (; i + 2 * LANES <= n; i += 2 * LANES) cmac_tile(y + i, x + i, h + i, stride, n_p, FFT_BLOCKS, 2);
        for (; i < n; i += LANES) cmac_tile(y + i, x + i, h + i, stride, n_p, FFT_BLOCKS, 1);
        return;
    }
    if (n_t == 2) {
        if (LANES == 16)
            for (; i + 4 * LANES <= n; i += 4 * LANES) cmac_tile(y + i, x + i, h + i, stride, n_p, 2, 4);
        for (; i + 2 * LANES <= n; i += 2 * LANES) cmac_tile(y + i, x + i, h + i, stride, n_p, 2, 2);
        for (; i < n; i += LANES) cmac_tile(y + i, x + i, h + i, stride, n_p, 2, 1);
        return;
    }
    if (LANES == 16)
        for (; i + 8 * LANES <= n; i += 8 * LANES) cmac_tile(y + i, x + i, h + i, stride, n_p, 1, 8);
    for (; i + 4 * LANES <= n; i += 4 * LANES) cmac_tile(y + i, x + i, h + i, stride, n_p, 1, 4);
    for (; i < n; i += LANES) cmac_tile(y + i, x + i, h + i, stride, n_p, 1, 1);
}

extern const struct simd AT_LEVEL(simd_);
void AT_LEVEL(scene_sum_)(float *now, float *next, const struct scene_sum *sum);
const struct simd AT_LEVEL(simd_) = {LEVEL_NAME, copy_finite, measure, fir, cmac, AT_LEVEL(scene_sum_)};
