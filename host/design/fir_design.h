/* fir_design - linear-phase FIR filters by the window method, in double precision; the same numbers as
 * scipy.signal.firwin(..., scale=True). Oppenheim and Schafer, Discrete-Time Signal Processing, section 7.6.
 */
#ifndef FIR_DESIGN_H
#define FIR_DESIGN_H

enum fir_window { FIR_RECTANGULAR, FIR_HANN, FIR_HAMMING, FIR_BLACKMAN, FIR_BLACKMANHARRIS, FIR_KAISER, FIR_WINDOWS };
enum fir_band { FIR_LOWPASS, FIR_HIGHPASS, FIR_BANDPASS, FIR_BANDSTOP };

extern const char *const fir_window_names[FIR_WINDOWS];

/* Kaiser's formulas (1974): the shape of the window for an attenuation in dB, and the number of taps for it and a
 * transition width, given as a share of half the rate. The number is whole, and may be larger than an int. */
double fir_kaiser_beta(double attenuation_db);
double fir_kaiser_length(double attenuation_db, double transition);

/* Fills w[n]. beta: for the Kaiser window. */
void fir_window_fill(enum fir_window window, double beta, int n, double *w);

/* Fills h[n]. edges: shares of half the rate; one edge for lowpass and highpass. The gain is 1 in the middle of the
 * first pass band, or at 0 or half the rate if the band ends there. highpass and bandstop need an odd n. */
void fir_band_fill(enum fir_band band, const double *edges, const double *w, int n, double *h);

/* Fills h[n] with a Hilbert transformer of odd length n, type III: 90 degrees, zero at 0 and at half the rate. */
void fir_hilbert_fill(const double *w, int n, double *h);

#endif
