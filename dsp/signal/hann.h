/* hann - half a Hann window, the curve of fades. */
#ifndef HALOCONV_HANN_H
#define HALOCONV_HANN_H

#include <math.h>

/* Returns a curve that rises from 0 at x <= 0 to 1 at x >= 1; hann_rise(1 - x) falls. */
static inline double hann_rise(double x)
{
    return 0.5 - 0.5 * cos(M_PI * fmin(fmax(x, 0), 1));
}

#endif
