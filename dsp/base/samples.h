/* samples - loops that copy and measure samples, built once for each instruction set. */
#ifndef HALOCONV_SAMPLES_H
#define HALOCONV_SAMPLES_H

#include <stddef.h>
#include <stdint.h>

struct samples {
    /* Copies src to dst with NaN and Inf replaced by 0; returns the number replaced. Raises *peak_bits to the bits of
     * the largest magnitude: the bits of non-negative floats sort as unsigned integers do. */
    size_t (*copy_finite)(float *dst, const float *src, int n, uint32_t *peak_bits);
    /* Returns how many samples of x are beyond full scale, and raises *peak_bits as copy_finite does. */
    size_t (*measure)(const float *x, int n, uint32_t *peak_bits);
};

/* Returns the fastest build that this processor runs. */
const struct samples *samples_choose(void);

#endif
