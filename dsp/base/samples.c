/* samples - copies and measures samples. The Makefile builds this file once for each instruction set (base, v3, v4). */
#include "samples.h"
#include "vec.h"

#include <string.h>

static uint32_t max_u32(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

/* max_bits: the bits of the largest magnitude that is kept. */
static inline size_t copy_up_to(float *dst, const float *src, int n, int32_t max_bits, uint32_t *peak_bits)
{
    uint32_t replaced = 0, peak = *peak_bits;
    for (int i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &src[i], 4);
        uint32_t bad = (int32_t)(bits & 0x7fffffffu) > max_bits; /* SSE2 and AVX2 compare signed integers only */
        bits &= bad - 1u;
        memcpy(&dst[i], &bits, 4);
        replaced += bad;
        peak = max_u32(peak, bits & 0x7fffffffu);
    }
    *peak_bits = peak;
    return replaced;
}

static size_t copy_finite(float *dst, const float *src, int n, uint32_t *peak_bits)
{
    return copy_up_to(dst, src, n, 0x7f7fffff, peak_bits); /* the bits of FLT_MAX */
}

static size_t copy_live(float *dst, const float *src, int n, uint32_t *peak_bits)
{
    return copy_up_to(dst, src, n, 0x71800000, peak_bits); /* the bits of SAMPLE_LIVE_MAX */
}

static size_t peak_measure(const float *x, int n, uint32_t *peak_bits)
{
    uint32_t clipped = 0, peak = *peak_bits;
    for (int i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], 4);
        bits &= 0x7fffffffu;
        clipped += bits > 0x3f800000u; /* the bits of 1.0f */
        peak = max_u32(peak, bits);
    }
    *peak_bits = peak;
    return clipped;
}

extern const struct samples FOR_ISA(samples_);
const struct samples FOR_ISA(samples_) = {copy_finite, copy_live, peak_measure};
