#include "delay.h"

#include <math.h>

void delay_bins(const struct transform *t, double complex *bins, double frames)
{
    size_t half = t->size / 2;
    for (size_t k = 0; k <= half; k++) bins[k] *= cexp(-I * 2 * M_PI * (double)k * frames / (double)t->size);
    bins[half] = creal(bins[half]);
}
