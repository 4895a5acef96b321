/* mask_analysis - peak, energy, gains and acoustics of the channels of a mask. */
#ifndef MASK_ANALYSIS_H
#define MASK_ANALYSIS_H

#include "dsp/signal/sine_gain.h"
#include "host/acoustics/acoustics.h"

struct mask_figures { /* of one channel; gains and levels are linear */
    double peak, rms;
    int peak_frame;
    int leading_silence; /* frames before the first one within 60 dB of the peak */
    double dc_gain;
    double l1;                 /* sum of |h|: the largest gain for any signal */
    struct sine_gain response; /* the largest gain for a sine */
    struct acoustics acoustics;
};

/* channel[n_channels][n_frames], all finite -> figures[n_channels], zeroed. rate: Hz, 0 = unknown. false: no memory. */
bool mask_analyse(float *const *channel, int n_channels, int n_frames, int rate, struct mask_figures *figures);

#endif
