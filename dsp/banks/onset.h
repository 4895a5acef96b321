/* onset - the frame at which a response begins, with a fraction.
 *
 * The response is low-passed at 3 kHz and upsampled by 8; the onset is where it first comes within 20 dB of its peak.
 * A. Andreopoulou and B. Katz (JASA 142, 2017) found that of several methods a threshold on the response below 3 kHz
 * gives the interaural delays nearest to those that listeners hear. The low-pass is a Gaussian of zero phase, which
 * does not ring; it moves all onsets by the same time, which does not change their differences.
 */
#ifndef HALOCONV_ONSET_H
#define HALOCONV_ONSET_H

/* Finds *onset in frames; NaN for a response of zeros. rate 0 counts as 48000 Hz. Returns HC_OK or HC_ENOMEM. */
int onset_find(const float *taps, int n_taps, int rate, double *onset);

#endif
