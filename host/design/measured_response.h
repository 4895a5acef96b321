/* measured_response - the spectrum of a measured impulse response, with a window that shortens as the frequency rises.
 *
 *   window   1 |      ___________              cycles / hz long: it holds the room at low frequencies, and only the
 *              |     /           \___          direct sound at high ones, as the ear does
 *            0 |____/                \____
 *                  direct sound
 *
 * A window for every third of an octave is transformed, and a bin between two of them is interpolated.
 */
#ifndef MEASURED_RESPONSE_H
#define MEASURED_RESPONSE_H

#include "dsp/signal/transform.h"

/* The frame of the direct sound in h[n]: the largest frame within 1 ms of the start (acoustics.h). -1: h is silent. */
int direct_sound_find(const float *h, int n, int rate);

/* Writes the spectrum of h[n], as if the direct sound were at frame 0, to bins[size / 2 + 1]; scratch is as long.
 * cycles 0: no window. The transform must hold h. */
void measured_response(const struct transform *transform, const float *h, int n, int direct, int rate, double cycles,
                       double complex *bins, double complex *scratch);

/* ---- excess phase ----------------------------------------------------------------------------- */

/* The phase that a response has beyond that of minimum phase, reversed in time: the all-pass filter that
 * removes this phase. A listener beside the measured position hears its length as pre-ringing, so the filter is cut.
 */

/* The spectrum of a response whose direct sound is at frame 0 -> the reversed all-pass filter of its excess phase. It
 * begins at frame -max, fades in up to -max / 2, and changes nothing above 600 Hz. scratch: [size / 2 + 1]. */
void excess_phase_reverse(const struct transform *transform, double complex *bins, int max, int rate,
                          double complex *scratch);

/* bins[size / 2 + 1], the gain of a filter -> its spectrum: minimum phase, times the reversed all-pass filter, delayed
 * by `delay` frames. The cut lowers the magnitude of the reversed filter; minimum phase restores up to 6 dB. */
void excess_phase_apply(const struct transform *transform, const double complex *reversed, int delay,
                        double complex *bins);

#endif
