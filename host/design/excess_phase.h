/* excess_phase - the phase that a response has beyond that of minimum phase, reversed in time: the all-pass filter that
 * removes this phase. A listener beside the measured position hears its length as pre-ringing, so the filter is cut.
 */
#ifndef EXCESS_PHASE_H
#define EXCESS_PHASE_H

#include "dsp/signal/transform.h"

/* The spectrum of a response whose direct sound is at frame 0 -> the reversed all-pass filter of its excess phase. It
 * begins at frame -max, fades in up to -max / 2, and changes nothing above 600 Hz. scratch: [size / 2 + 1]. */
void excess_phase_reverse(const struct transform *transform, double complex *bins, int max, int rate,
                          double complex *scratch);

/* bins[size / 2 + 1], the gain of a filter -> its spectrum: minimum phase, times the reversed all-pass filter, delayed
 * by `delay` frames. The cut lowers the magnitude of the reversed filter; minimum phase restores up to 6 dB. */
void excess_phase_apply(const struct transform *transform, const double complex *reversed, int delay,
                        double complex *bins);

#endif
