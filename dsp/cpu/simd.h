/* simd - the inner loops of the CPU backend, built once for each instruction set and chosen at start. */
#ifndef HALOCONV_SIMD_H
#define HALOCONV_SIMD_H

#include "dsp/base/isa.h"
#include "dsp/device/scene_pieces.h"
#include "dsp/fft/fft.h"

#include <stddef.h>

/* Floats that `fir` may read past the end of x, because it loads whole vectors. */
#define SIMD_PAD 16

/* Moving sources: scene_bank.h has the layout. */
#define SCENE_PAIR 2 /* outputs of a pair, whose responses are adjacent in memory */

struct scene_sum { /* parameters of a sum of products in a chunk of bins                                        */
    const struct scene_piece *piece; /* the piece of source `from`; the next pieces follow                          */
    const struct scene_source *sources; /* the list's sources                                                       */
    int from, to;      /* sources [from, to) of the list; those of a piece are mixed first: H is read once          */
    const float *fdl;  /* [source][n_chunks]: a ring [n_entries][floats]                                            */
    size_t x_source;   /* floats of fdl from source to source                                                       */
    int chunk, floats; /* index of the chunk; floats of a chunk                                                     */
    float *mixed;      /* [n_entries][floats], scratch                                                                */
    int first, end;    /* partitions [first, end); a shorter response ends earlier                                  */
    int entry, n_entries; /* partition p meets entry (entry + p) % n_entries                                          */
    size_t x_step;     /* floats of fdl from chunk to chunk                                                         */
    size_t y_step;     /* floats from output to output of `now` and `next`                                          */
};

struct simd {
    const char *name; /* "avx512", "avx2", "baseline" */

    /* y[i] += sum_k h[k] x[i-k], i < n, k < n_taps. Reads x[-(n_taps-1)] to x[n-1 + SIMD_PAD]. Sums 64 taps at a time
     * before it adds the sums up, which keeps the rounding of long and of all-positive masks below -120 dB. */
    void (*fir)(float *y, const float *x, const float *h, int n, int n_taps);

    /* Adds the sum of weight * x * h to now[out], in a chunk of bins. Unless `next` is NULL, `first` is 0, and the next
     * block's sum from partition 1 on is added to next[out]: partition p meets entry (entry + p - 1) % n_entries. */
    void (*scene_sum)(float *now, float *next, const struct scene_sum *sum);
};

extern const struct simd simd_base, simd_v3, simd_v4;

/* Returns the fastest build that this processor runs. */
static inline const struct simd *simd_choose(void)
{
    static const struct simd *const builds[] = ISA_BUILDS(simd);
    return builds[isa_best()];
}

#endif
