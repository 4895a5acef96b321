#include "spectrum.h"

#ifdef HC_WITH_FFTW
#include <fftw3.h>
#include <string.h>

bool spectrum_open(struct spectrum *s, size_t n)
{
    size_t size = 16;
    while (size < n) size *= 2;
    s->size = size;
    s->x = fftwf_alloc_real(size + 2);
    s->plan = s->x ? fftwf_plan_dft_r2c_1d((int)size, s->x, (fftwf_complex *)s->x, FFTW_ESTIMATE) : NULL;
    if (!s->plan) spectrum_close(s);
    return s->plan != NULL;
}

void spectrum_close(struct spectrum *s)
{
    fftwf_destroy_plan(s->plan);
    fftwf_free(s->x);
    *s = (struct spectrum){0};
}

void spectrum_of(struct spectrum *s, const float *h, int n)
{
    memset(s->x, 0, (s->size + 2) * sizeof *s->x);
    memcpy(s->x, h, (size_t)n * sizeof *h);
    fftwf_execute(s->plan);
}
#else
bool spectrum_open(struct spectrum *s, size_t n)
{
    (void)n;
    *s = (struct spectrum){0};
    return false;
}

void spectrum_close(struct spectrum *s)
{
    (void)s;
}

void spectrum_of(struct spectrum *s, const float *h, int n)
{
    (void)s, (void)h, (void)n;
}
#endif

double spectrum_power(const struct spectrum *s, size_t bin)
{
    return (double)s->x[2 * bin] * s->x[2 * bin] + (double)s->x[2 * bin + 1] * s->x[2 * bin + 1];
}
