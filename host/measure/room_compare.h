/* room_compare - how far measured responses are from a target, octave by octave. */
#ifndef ROOM_COMPARE_H
#define ROOM_COMPARE_H

#include "dsp/signal/frequency_curve.h"

#include <stdbool.h>

enum { ROOM_OCTAVES = 10 };
extern const double room_octave_hz[ROOM_OCTAVES]; /* centres: 31.5 ... 16000 */

/* Writes the largest deviation of 1/6 octave means of h[n] from the target in each octave, in dB, to db[ROOM_OCTAVES];
 * NAN above 0.42 of the rate. Both have the same mean level from 100 Hz to 10 kHz. target NULL: flat. false: no memory. */
bool room_deviation(const float *h, int n, int rate, const struct frequency_curve *target, double *db);

#endif
