/* mask_report - the figures of a mask from a sound file or a text, for `haloconv info`. */
#ifndef MASK_REPORT_H
#define MASK_REPORT_H

#include "dsp/haloconv_masks.h"
#include "dsp/signal/sine_gain.h"
#include "dsp/signal/acoustics.h"

#include <jansson.h>

struct mask_figures {           /* figures of a channel; gains and levels are linear    */
    double peak, rms;
    double true_peak;           /* the largest value at 4 times the rate (ITU-R BS.1770-4, annex 2)     */
    int peak_frame;
    int leading_silence;        /* frames before the first one within 60 dB of the peak */
    double dc_gain;
    double l1;                  /* sum of |h|: the largest gain for any signal          */
    struct sine_gain response;  /* the largest gain for a sine                          */
    struct acoustics acoustics;
};

struct mask_report {
    const char *path, *format;      /* owned by the caller; format: "wav:float"                                  */
    const hc_responses *mask;       /* the caller's                                                              */
    struct mask_figures *figures;   /* [mask->n_channels]                                                        */
    int loudest;                    /* the channel with the largest sine gain                                    */
    struct sine_gain true_stereo;   /* largest gain of both outputs, for four channels; else the gain is 0        */
};

/* Computes the report; set path, format and mask before. false: no memory; free the report then, too. */
bool mask_report_make(struct mask_report *report);
void mask_report_free(struct mask_report *report);

void mask_report_print(const struct mask_report *report);

/* Makes an object that the caller owns; NULL: no memory. */
json_t *mask_report_json(const struct mask_report *report);

#endif
