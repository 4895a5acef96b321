/* transpose - transposes SUB x SUB floats in the lanes of vectors, LANES / SUB such matrices side by side. */
#ifndef HALOCONV_FFT_TRANSPOSE_H
#define HALOCONV_FFT_TRANSPOSE_H

#include "dsp/base/vec.h"

/* LOW interleaves the first halves, HIGH the second halves, of each SUB lanes of a and b. */
#if LANES == 16 && SUB == 16
#define LOW(a, b) __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define HIGH(a, b) __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
#elif LANES == 16 && SUB == 8
#define LOW(a, b) __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 8, 24, 9, 25, 10, 26, 11, 27)
#define HIGH(a, b) __builtin_shufflevector(a, b, 4, 20, 5, 21, 6, 22, 7, 23, 12, 28, 13, 29, 14, 30, 15, 31)
#elif LANES == 16
#define LOW(a, b) __builtin_shufflevector(a, b, 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29)
#define HIGH(a, b) __builtin_shufflevector(a, b, 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31)
#elif LANES == 8 && SUB == 8
#define LOW(a, b) __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define HIGH(a, b) __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15)
#elif LANES == 8
#define LOW(a, b) __builtin_shufflevector(a, b, 0, 8, 1, 9, 4, 12, 5, 13)
#define HIGH(a, b) __builtin_shufflevector(a, b, 2, 10, 3, 11, 6, 14, 7, 15)
#else
#define LOW(a, b) __builtin_shufflevector(a, b, 0, 4, 1, 5)
#define HIGH(a, b) __builtin_shufflevector(a, b, 2, 6, 3, 7)
#endif

/* Transposes SUB vectors in place: each round interleaves two halves. */
ALWAYS_INLINE void transpose_lanes(vec *a)
{
    vec b[SUB];
    for (int round = 1; round < SUB; round *= 2) {
        for (int i = 0; i < SUB / 2; i++) {
            b[2 * i] = LOW(a[i], a[i + SUB / 2]);
            b[2 * i + 1] = HIGH(a[i], a[i + SUB / 2]);
        }
        for (int i = 0; i < SUB; i++) a[i] = b[i];
    }
}

#endif
