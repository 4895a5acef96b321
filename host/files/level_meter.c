#include "level_meter.h"

#include <float.h>
#include <math.h>

void level_meter_add(struct level_meter *meter, const float *x, int64_t n)
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
    if ((double)peak > meter->peak) meter->peak = (double)peak;
    meter->sum += squares;
    meter->n += n;
}

/* Linear; level: not LEVEL_NONE. */
static double level_meter_value(const struct level_meter *meter, enum level level)
{
    return level == LEVEL_RMS ? sqrt(meter->sum / (double)meter->n) : meter->peak;
}

double level_meter_gain(const struct level_meter *in, const struct level_meter *out, enum level level)
{
    double from = level_meter_value(out, level), to = level_meter_value(in, level);
    return to > 0 && from > 0 && isfinite(to / from) ? to / from : 1;
}
