/* spectrum - the levels of a signal in bands of a sixth of an octave, for the panel. */
#ifndef SPECTRUM_H
#define SPECTRUM_H

#include "dsp/signal/transform.h"

enum { SPECTRUM_FRAMES = 4096, SPECTRUM_BANDS = 61 };

struct spectrum {
    struct transform transform;
    double window[SPECTRUM_FRAMES]; /* Hann                                                             */
    double complex bins[SPECTRUM_FRAMES / 2 + 1];
};

/* Returns the centre of a band, from 20 Hz to 20 kHz. */
double spectrum_centre(int band);

/* false: no memory. */
bool spectrum_open(struct spectrum *spectrum);
void spectrum_close(struct spectrum *spectrum);

/* Computes the levels db[SPECTRUM_BANDS] of x[n_channels][SPECTRUM_FRAMES] at a rate in Hz: the mean power of the
 * channels; a sine at full scale has 0 dB, silence and bands above half the rate -150. Low bands are narrower than a
 * bin, and share its power. */
void spectrum_measure(struct spectrum *spectrum, const float *const *x, int n_channels, int rate, double *db);

#endif
