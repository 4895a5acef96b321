/* acoustics - the figures of ISO 3382-1:2009 of one response, broadband and by octave.
 *
 * The figures count from the start of the response: the first frame within 20 dB of its peak. decay.h describes noise,
 * octave.h the octaves. Frames after 120 s are ignored.
 */
#ifndef ACOUSTICS_H
#define ACOUSTICS_H

#include "decay.h"
#include "octave.h"

enum acoustic_figure {
    /* The time to fall by 60 dB, in seconds, of the line from one level of the decay curve to another. */
    ACOUSTIC_EDT,       /* 0 to -10 dB: early decay time, A.2.2                                        */
    ACOUSTIC_T20,       /* -5 to -25 dB                                                                */
    ACOUSTIC_T30,       /* -5 to -35 dB                                                                */
    /* Early and late energy, A.2.3. */
    ACOUSTIC_C50,       /* dB: clarity, the energy of the first 50 ms over the rest; (A.10)            */
    ACOUSTIC_C80,       /* dB: clarity at 80 ms                                                        */
    ACOUSTIC_D50,       /* 0 to 1: definition, the share of the first 50 ms; (A.11)                    */
    ACOUSTIC_TS,        /* seconds: centre time, the centre of gravity of the energy; (A.13)           */
    /* Not in the standard. */
    ACOUSTIC_DRR,       /* dB: direct to reverberant, the energy of the first 2.5 ms over the rest (Zahorik 2002) */
    ACOUSTIC_NOISE_DBFS, /* the RMS of the noise: a square wave at full scale has 0 dB                 */
    ACOUSTIC_NOISE_DB,  /* dB: the RMS of the noise relative to the response's largest sample          */
    ACOUSTIC_NOISE_TIME, /* seconds from the start until the decay meets the noise                     */
    ACOUSTIC_FIGURES
};
enum { ACOUSTIC_TIMES = ACOUSTIC_T30 + 1, ACOUSTIC_REASON = 96 };

extern const char *const acoustic_names[ACOUSTIC_FIGURES]; /* names in JSON: "edt_s" */

struct acoustic_band {
    int hz;                                /* 0: broadband                                             */
    double value[ACOUSTIC_FIGURES];        /* NaN: absent                                              */
    char reason[ACOUSTIC_FIGURES][ACOUSTIC_REASON]; /* why it is absent: "it is silent"                */
    struct decay_fit fit[ACOUSTIC_TIMES];  /* the lines of EDT, T20 and T30, also if they are refused  */
    double level_db;                       /* mean power over the octave's bandwidth, relative to the passband, which
                                              is the median of the octaves at most 20 dB below the loudest */
    bool is_outside;                       /* the level is 25 dB or more below the passband: the figures are those
                                              of the octaves beside it, or of noise                    */
};

struct acoustics {
    int start;                             /* frame                                                    */
    struct acoustic_band all;              /* broadband                                                */
    int n_octaves; /* 0: not requested, or not the response of a room                             */
    struct acoustic_band octave[OCTAVES];  /* the octaves that fit the rate, from 63 Hz on             */
};

/* The first frame at which a channel is within 20 dB of the peak of all channels; 0: they are silent. */
int acoustics_start(float *const *channel, int n_channels, int n_frames);

/* h[n], finite. rate: Hz, 0 = unknown. Finds octaves only for a room: a response with a T20 or a T30. false: no
 * memory. */
bool acoustics_find(struct acoustics *acoustics, const float *h, int n, int rate, bool with_octaves);

/* The broadband decay curve of a response that is not silent, at a known rate, from its start on. Free it with
 * decay_free. false: no memory. */
bool acoustics_curve(struct decay *decay, const float *h, int n, int rate);

#endif
