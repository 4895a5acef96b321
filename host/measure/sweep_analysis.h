/* sweep_analysis - turns the recording of a sweep into an impulse response, by division of spectra.
 *
 *   recording        guard | sweep, convolved with the room ....... | silence
 *   response         -guard ..... 0 = sweep's start ..... direct sound, decay ...... section's end
 *   its order n      L ln(n) earlier than the linear response; earlier than 0 is at the end of the transform
 *
 * The sweep's spectrum is known in double precision, so the division is exact wherever the sweep has energy. The
 * response is the room's within these limits: a high pass of second order (Butterworth, like the coupling of an
 * amplifier) at from_hz / 4, and at the top a skirt between to_hz and 1.1 to_hz whose phase is linear.
 */
#ifndef SWEEP_ANALYSIS_H
#define SWEEP_ANALYSIS_H

#include "sweep.h"
#include "dsp/signal/transform.h"

struct sweep_recording {            /* the recording of one output                                      */
    float *const *channel;          /* [n_inputs][n_frames]                                             */
    int64_t n_frames;
    double begins_s;                /* the time of its first frame, on the player's clock from the start of the take */
};

struct sweep_analysis {
    const struct sweep *sweep;
    int rate;                       /* rate of the recorder, Hz                                         */
    double stretch;                 /* seconds of the recorder's clock in a second of the player's      */
    int64_t delay;                  /* recorder frames from the play to the response                    */
    int guard;                      /* frames of a section before the sweep's start                     */
    int reach;                      /* frames before the direct sound that are free of harmonics        */
    int n_section;                  /* frames of a section, guard included                              */
    struct transform transform;
    double complex *inverse;        /* [size / 2 + 1]: the limits of the response / the sweep's spectrum */
};

/* Returns the limits of the response at a frequency. */
double complex sweep_limits(const struct sweep *sweep, double hz);

/* Opens an analysis. n_frames: length of the longest recording that is divided at once; 0: that of a section. false: no
 * memory. */
bool sweep_analysis_open(struct sweep_analysis *a, const struct sweep *sweep, int rate, int64_t n_frames);
void sweep_analysis_close(struct sweep_analysis *a);

/* Applies the ratio of the clocks from now on. */
void sweep_analysis_set_clock(struct sweep_analysis *a, double stretch);

/* Computes the spectrum of a section's response in bins[size / 2 + 1]; frame 0 of the response is `guard` frames before
 * the sweep's start. The recording counts as silent beyond its ends. */
void sweep_section_bins(const struct sweep_analysis *a, const struct sweep_recording *recording, int input, int section,
                        double complex *bins);

/* Divides the spectrum of the silence before a take by the sweep's. power[size / 2 + 1]: the power that a frame of this
 * noise adds to a bin. bins: scratch, of the same length. Returns the RMS of the silence. With too little silence, the
 * RMS and the powers are NAN. */
double sweep_noise_power(const struct sweep_analysis *a, const struct sweep_recording *recording, int input,
                         double complex *bins, double *power);

/* Returns the mean of powers[size / 2 + 1] over the third of an octave around a frequency, up to half the rate. */
double sweep_band_power(const struct sweep_analysis *a, const double *powers, double hz);

/* Returns the direct sound of a response in frames 0 ... n - 1 of h: the largest frame within two periods of to_hz of
 * the first that is within 20 dB of the peak (ISO 3382-1). *peak: the peak's frame. */
int64_t sweep_direct(const struct sweep_analysis *a, const double *h, int64_t n, int64_t *peak);

/* ---- where the sweeps begin ------------------------------------------------------------------- */

/* Sets a->delay, to within 20 ms, by the arrivals of all sections at one input. recordings: [n_outputs]. false: no
 * memory. */
bool sweep_find_delay(struct sweep_analysis *a, const struct sweep_recording *recordings, int input);

/* ---- clocks ----------------------------------------------------------------------------------- */

/* Delays between the sections of one recording: the drift between the clocks of the player and the
 * recorder, frames that were lost or doubled, and the way from one clock to the other. */

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
