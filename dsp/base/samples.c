/* samples - copies and measures samples. The Makefile builds this file once for each instruction set (base, v3, v4). */
#include "samples.h"
#include "vec.h"

#include <string.h>

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
        clipped += bits > 0x3f800000u; /* the bits of 1.0f */
        peak = max_u32(peak, bits);
    }
    *peak_bits = peak;
    return clipped;
}

extern const struct samples FOR_ISA(samples_);
const struct samples FOR_ISA(samples_) = {copy_finite, measure};
