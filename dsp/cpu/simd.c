/* simd - the inner loops, built once for each instruction set (base, v3, v4) with its compiler flags; see the
 * Makefile. */
#include "simd.h"
#include "dsp/base/vec.h"

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

extern const struct simd FOR_ISA(simd_);
void FOR_ISA(scene_sum_)(float *now, float *next, const struct scene_sum *sum);
const struct simd FOR_ISA(simd_) = {ISA_NAME, fir, FOR_ISA(scene_sum_)};
