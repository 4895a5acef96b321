/* sweep_clock - delays between the sections of one recording: the drift between the clocks of the player and the
 * recorder, frames that were lost or doubled, and the way from one clock to the other. */
#ifndef SWEEP_CLOCK_H
#define SWEEP_CLOCK_H

#include "sweep_analysis.h"

/* Measures the seconds of the recorder's clock in a second of the player's, less 1, by the first and the last section
 * of each output. *drift: NAN with less than two sections an output. false: no memory. */
bool sweep_find_clock(const struct sweep_analysis *a, const struct sweep_recording *recordings, int n_inputs,
                      double *drift);

/* Is the section shifted against the first one of its output, in the octave around a frequency, so that a part of the
 * recording is lost or doubled? *shift_s: the time. scratch: [size / 2 + 1] each. */
bool sweep_find_shift(const struct sweep_analysis *a, const struct sweep_recording *recording, int input, int section,
                      double hz, double complex *const scratch[2], double *shift_s);

/* Resamples a response to the frames of the other clock: y[n] at i is the value of x[n_x] at first + i * ratio, by a
 * windowed sinc; x counts as 0 beyond its ends. It must have little above 0.49 of its rate: the error is then below
 * -110 dB. */
void sweep_stretch(const double *x, size_t n_x, double first, double ratio, double *y, size_t n);

#endif
