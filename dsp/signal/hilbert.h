/* hilbert - the taps of a Hilbert transformer, as jconvolver and PipeWire window it. */
#ifndef HALOCONV_HILBERT_H
#define HALOCONV_HILBERT_H

#include <math.h>

/* Returns the tap k frames before the middle of 2 * half frames, for odd k < half. The tap k frames behind the middle
 * is its negative; taps at even k are 0. */
static inline double hilbert_tap(int k, int half)
{
    return 2 / (M_PI * k) * (0.43 + 0.57 * cos(k * M_PI / half));
}

#endif
