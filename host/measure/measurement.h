/* measurement - from the recordings of sweeps to impulse responses and their figures. */
#ifndef MEASUREMENT_H
#define MEASUREMENT_H

#include "host/design/calibration.h"
#include "sweep_analysis.h"

enum { HARMONIC_FIRST = 2, HARMONIC_LAST = 5, N_HARMONICS = 4, MAX_OCTAVES = 21 };

struct harmonic {                  /* distortion of one order: amplitudes over the linear response                  */
    double share, noise;           /* share in the band, thirds of octaves with equal weight; noise: its share, or
                                      NAN: there was too little silence                                            */
    int n_octaves;
    struct {
        double hz, share;          /* band of the fundamental; a third of an octave wide                            */
    } octave[MAX_OCTAVES];
};

struct measured_pair {             /* an output and an input                                                        */
    bool has_signal;
    double direct_s;               /* time of the direct sound, after the reference                                 */
    double peak;                   /* peak of the response                                                          */
    double silence_rms;            /* RMS of the recording before the sweep; NAN: too little silence                */
    double noise_before, noise_tail; /* RMS in the response: as that silence predicts it (or NAN), and at its end   */
    struct harmonic harmonics[N_HARMONICS];
    /* The RMS distance of the sweeps from their mean over that mean, in the third of an octave where it is largest. 0:
     * the noise explains it; NAN: a single sweep, or too little silence                                            */
    double repeat_error, repeat_hz;
};

struct measured_input {            /* figures over all recordings                                                   */
    double peak;
    int64_t n_clipped;             /* samples at full scale                                                         */
};

struct measurement {
    int rate, n_outputs, n_inputs; /* n_inputs: without the loopback                                                */
    int n_frames;
    int reference_frame;           /* frame of the responses at which direct_s is 0                                 */
    double latency_s;              /* time from the play to the reference                                           */
    double drift;                  /* the recorder's clock over the player's, less 1; NAN: not known                */
    double *h;                     /* [n_outputs][n_inputs][n_frames]                                               */
    struct measured_pair *pairs;   /* [n_outputs][n_inputs]                                                         */
    struct measured_input *inputs; /* [n_inputs], and behind them the loopback                                      */
};

struct measurement_settings {
    const struct sweep *sweep;
    int rate, n_inputs;            /* those of the recordings, the loopback included                                */
    int loopback;                  /* the input with the loopback, from 1; 0: none                                  */
    bool keep_latency;
    struct calibration calibration; /* calibration of the microphones at all inputs but the loopback                */
};

/* Makes *m from recordings[n_outputs]. false: why has the reason. Free *m in either case. */
bool measurement_make(const struct measurement_settings *settings, const struct sweep_recording *recordings,
                      struct measurement *m, char *why, size_t cap);
void measurement_free(struct measurement *m);

/* Do the sweeps of a pair differ more than a time-invariant system lets them? */
bool measurement_differs(const struct measured_pair *pair);

/* Returns the noise floor over the peak of a pair. */
double measurement_noise(const struct measured_pair *pair);

#endif
