/* mask_analysis - peak, energy, gains and decay time of the channels of a mask. */
#ifndef MASK_ANALYSIS_H
#define MASK_ANALYSIS_H

struct mask_figures { /* of one channel; gains and levels are linear */
    double peak, rms;
    int peak_frame;
    int leading_silence; /* frames before the first one within 60 dB of the peak */
    double dc_gain;
    double l1;               /* sum of |h|: the largest gain for any signal */
    double response_peak;    /* the largest gain for a sine; NaN: no memory */
    double response_peak_hz; /* its frequency; if the rate is 0, as a share of the rate */
    double t30_s;            /* time to fall by 60 dB, from the fall from -5 to -35 dB; NaN: t30_reason says why */
    char t30_reason[96];
};

/* channel[n_channels][n_frames], all finite -> figures[n_channels]. rate: Hz, 0 = unknown. */
void mask_analyse(float *const *channel, int n_channels, int n_frames, int rate, struct mask_figures *figures);

/* The same without the response, which takes longest: response_peak stays NaN. */
void mask_find_decay(float *const *channel, int n_channels, int n_frames, int rate, struct mask_figures *figures);

/* The frame of the direct sound: the first one at which a channel is within 20 dB of the peak of all channels (as in ISO
 * 3382-1). -1: they are silent. */
int mask_find_onset(float *const *channel, int n_channels, int n_frames);

#endif
