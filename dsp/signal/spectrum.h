/* spectrum - the spectrum of a response, padded with zeros. */
#ifndef SPECTRUM_H
#define SPECTRUM_H

#include <stdbool.h>
#include <stddef.h>

struct spectrum {
    size_t size;     /* of the transform; bins 0 to size / 2 */
    float *x;        /* [size + 2], complex */
    void *plan;
};

/* Makes the transform n frames long, or more: a power of two. false: memory is short, or the build has no FFTW. */
bool spectrum_open(struct spectrum *spectrum, size_t n);
void spectrum_close(struct spectrum *spectrum);

/* Transforms h[n], n <= size. */
void spectrum_of(struct spectrum *spectrum, const float *h, int n);

/* The squared magnitude of a bin. */
double spectrum_power(const struct spectrum *spectrum, size_t bin);

#endif
