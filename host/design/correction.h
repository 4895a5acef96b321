/* correction - filters that bring the measured responses of loudspeakers in a room to a target.
 *
 *   responses --> windows that shorten as the frequency rises --> level of the windows, matched to that of the whole
 *             response --> mean of the positions --> smoothing
 *             --> target - response, limited --> filter of minimum, linear or mixed phase
 *
 * All gains in dB are relative to the measured level, which is the mean over the logarithm of the frequency.
 */
#ifndef CORRECTION_H
#define CORRECTION_H

#include "calibration.h"
#include "dsp/signal/frequency_curve.h"

#include <stdbool.h>

enum correction_phase {
    CORRECTION_MINIMUM,       /* no delay                                                                            */
    CORRECTION_LINEAR,        /* delay: half the filter; rings before every sound                                  */
    CORRECTION_MIXED,         /* minimum, and below 300 Hz the excess phase of the response is reversed in time; this
                                 adds preringing_ms of delay                                                         */
};

/* A value of struct correction_settings.octaves: 1/48 octave up to 100 Hz, 1/6 at 1 kHz, 1/3 from 10 kHz on. */
#define CORRECTION_VARIABLE (-1.0)

enum correction_levels {      /* levels of several channels: means over the octaves of the band that all share       */
    CORRECTION_EACH,          /* each filter has a mean gain of 0 dB in its own band                                 */
    CORRECTION_KEEP,          /* the differences stay as they were measured                                          */
    CORRECTION_ALIGN,         /* all channels are as loud as the quietest                                            */
};

enum correction_delays {
    CORRECTION_DELAYS_KEEP,
    CORRECTION_DELAYS_ALIGN,  /* the filters delay all direct sounds to the arrival of the last                      */
};

struct correction_response {  /* the response of a loudspeaker at a position                                         */
    const float *h;           /* [n_frames]                                                                          */
    int n_frames;
    const char *name;         /* name of its file                                                                    */
    int channel;              /* channel of the file, from 1                                                         */
    double start_s;           /* time of frame 0, as the file states it; 0: no statement                             */
};

struct correction_settings {
    int rate;                 /* rate of the measurements and of the filter, Hz                                      */
    int taps;
    enum correction_phase phase;
    struct calibration calibration; /* calibration of the microphone                                                  */
    const struct frequency_curve *target; /* only its shape counts; NULL: flat                                       */
    double low_hz, high_hz;   /* correct this band; 0: up to where the response has fallen by 10 dB. No frequency
                                 beyond a limit that was found is boosted                                            */
    double cycles;            /* length of the window after the direct sound, in periods; 0: the whole response      */
    double octaves;           /* width of the smoothing; 0: none; CORRECTION_VARIABLE                                */
    double boost_db, cut_db;  /* limits, both positive                                                               */
    double preringing_ms;     /* largest pre-ringing of mixed phase                                                  */
    bool complex_average;     /* add the responses of the positions, not their powers                                */
    enum correction_levels levels;
    enum correction_delays delays;
    bool with_curves;         /* make struct correction.curves                                                       */
    bool normalise;           /* scale all channels by one factor such that the largest gain is 0 dB                 */
};

struct correction_deviation { /* deviation of 1/6 octave means from the target, in the band and from 20 to 20000 Hz  */
    double max_db, rms_db;
};

struct correction_channel {
    double low_hz, high_hz;   /* the band                                                                            */
    bool low_is_found, high_is_found; /* the response falls there, and the target with it */
    struct correction_deviation before, after; /* deviation of the whole response, without the window                */
    double boost_db, cut_db;  /* the largest and the smallest gain in the band, cut_db > 0 for a cut                 */
    double largest_gain_db;   /* largest gain for a sine of any frequency                                            */
    /* In the band that all channels share, as measured and behind the filters; relative to the first channel. NAN: they
     * share no octave                                                                                               */
    double level_db, level_after_db;
    double gain_db;           /* added to the filter to match levels; boost_db and cut_db are without it             */
    double arrival_s;         /* arrival of the direct sound, after that of the first channel; mean of the positions */
    int delay_frames;         /* added to the filter to match arrivals                                               */
};

/* Powers over frequency, relative to the measured level. Those of the responses are 1/6 octave means of the whole
 * response; the target is 0 outside the band. */
enum { CORRECTION_MEASURED, CORRECTION_TARGET, CORRECTION_CORRECTED, CORRECTION_CURVES };

struct correction {
    int n_channels, n_frames; /* n_frames: taps + the largest delay_frames                                           */
    double delay;             /* frames                                                                              */
    double *h;                /* [n_channels][n_frames]                                                              */
    struct correction_channel *channel; /* [n_channels]                                                              */
    double largest_gain_db;   /* largest of all channels; all gains and curves are those before normalise      */
    double *curves;           /* [n_channels][CORRECTION_CURVES][n_bins], from 0 Hz to half the rate; or NULL       */
    size_t n_bins;
    double shared_hz[2];      /* the band that all channels share; 0, 0: less than an octave, or one channel         */
};

/* Makes a filter for each channel from responses[n_positions][n_channels]. false: why has the reason, and nothing has
 * to be freed. */
bool correction_make(struct correction *correction, const struct correction_settings *settings,
                     const struct correction_response *responses, int n_positions, int n_channels, char *why,
                     size_t cap);
void correction_free(struct correction *correction);

#endif
