/* sweep_search - finds the sweeps in a recording whose start and clock are not known. */
#ifndef SWEEP_SEARCH_H
#define SWEEP_SEARCH_H

#include "sweep_analysis.h"

/* Sets a->delay, to within 20 ms, by the arrivals of all sections at one input. recordings: [n_outputs]. false: no
 * memory. */
bool sweep_find_delay(struct sweep_analysis *a, const struct sweep_recording *recordings, int input);

/* Measures how many seconds of the recorder's clock there are in one of the player's, less 1, by the first and the last
 * section of each output. *drift: NAN with less than two sections an output. false: no memory. */
bool sweep_find_clock(const struct sweep_analysis *a, const struct sweep_recording *recordings, int n_inputs,
                      double *drift);

/* Is the section shifted against the first one of its output, in the octave around a frequency, so that a part of the
 * recording is lost or doubled? *shift_s: the time. scratch: [size / 2 + 1] each. */
bool sweep_find_shift(const struct sweep_analysis *a, const struct sweep_recording *recording, int input, int section,
                      double hz, double complex *const scratch[2], double *shift_s);

#endif
