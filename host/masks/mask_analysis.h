/* mask_analysis - the figures of a response. */
#ifndef MASK_ANALYSIS_H
#define MASK_ANALYSIS_H

struct mask_figures { /* of one channel; gains and levels are linear */
    double peak, rms;
    int peak_frame;
    int leading_silence; /* frames before the first one within 60 dB of the peak */
    double dc_gain;
    double l1;               /* sum of |h|: the most that any signal can be amplified */
    double response_peak;    /* the most that a sine can be; NaN where there is no FFT */
    double response_peak_hz; /* its frequency; share of the rate where rate is 0 */
    double t30_s;            /* decay time by 60 dB, from -5 to -35 dB; NaN: t30_reason says why */
    char t30_reason[96];
};

/* channel[n_channels][n_frames], all finite -> figures[n_channels]. rate: Hz, 0 = not known. */
void mask_analyse(float *const *channel, int n_channels, int n_frames, int rate, struct mask_figures *figures);

#endif
