#include "loudness.h"

#include <float.h>
#include <math.h>

void loudness_add(struct loudness *loudness, const float *x, int64_t n)
{
    float peak = 0;
    double squares = 0;
    for (int64_t done = 0; done < n;) { /* short sums in floats: the compiler vectorises them */
        int64_t end = done + 1024 < n ? done + 1024 : n;
        float sum = 0;
        for (; done < end; done++) {
            float size = fabsf(x[done]);
            size = size <= FLT_MAX ? size : 0;
            peak = size > peak ? size : peak;
            sum += size * size;
        }
        squares += (double)sum;
    }
    if ((double)peak > loudness->peak) loudness->peak = (double)peak;
    loudness->sum += squares;
    loudness->n += n;
}

double loudness_level(const struct loudness *loudness, enum level level)
{
    return level == LEVEL_RMS ? sqrt(loudness->sum / (double)loudness->n) : loudness->peak;
}

double loudness_gain(const struct loudness *in, const struct loudness *out, enum level level)
{
    double from = loudness_level(out, level), to = loudness_level(in, level);
    return to > 0 && from > 0 && isfinite(to / from) ? to / from : 1;
}
