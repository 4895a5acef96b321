/* mask_operation - an operation of `haloconv mask`: one or several masks become one.
 *
 *   hc_responses, float  -->  apply(), in doubles  -->  struct mask_out, written as float
 */
#ifndef MASK_OPERATION_H
#define MASK_OPERATION_H

#include "dsp/haloconv_masks.h"
#include "dsp/signal/octave.h"
#include "host/message.h"
#include "host/option.h"
#include "mask_write.h"

enum { MAX_MASKS = 64, MAX_PICKED = 1024, MAX_FIGURES = 4, LONGEST_MS = 600000 };

struct mask_settings {
    struct option_names names;        /* MASK...                                                     */
    const char *output;
    int format, rate;                 /* rate: Hz; 0: that of the first mask                         */
    bool json;

    /* each field is for one or two operations; times are in ms, levels linear; NaN or 0: not given */
    double gains[MAX_MASKS]; /* [n_gains]                                                   */
    int n_gains;
    int channels[MAX_PICKED]; /* [n_channels], from 1                                        */
    int n_channels;
    bool mono, each, start, fractional;
    double below_db, in_ms, out_ms, at_ms, fade_ms, factor, to_s, from_s, mix, level;
    double octave_to_s[OCTAVES];      /* 0: not given                                                */
    int n_octaves;
    int by;                           /* index of the word of --by or --level                        */
    const char *late;                 /* second output                                               */
};

struct mask_job {
    const struct mask_operation *operation;
    const struct mask_settings *settings;
    hc_responses masks[MAX_MASKS]; /* [n_masks], all of one rate                                  */
    int n_masks;
    struct mask_out out;              /* out.h: h                                                    */
    double *h;                        /* [out.n_channels][out.n_frames], from malloc                 */
    struct {
        const char *name, *text;      /* in JSON, and for message_note: "gain %+.2f dB"              */
        double value;
    } figures[MAX_FIGURES]; /* measured or chosen values                                   */
    int n_figures;
    char why[MESSAGE_CAP];
};

struct mask_operation {
    struct command_line line;         /* the first group of options is mask_options                  */
    const char *summary;              /* for the list of operations                                  */
    int (*check)(const struct mask_settings *settings); /* -1: continue; else the exit status. NULL: no check      */
    bool (*apply)(struct mask_job *job);                /* false: job->why has the reason            */
};

/* The options of all operations, and the fields of their command lines. */
extern const struct option_row mask_options[];
#define MASK_LINE(name, arguments, help, example, own, what, min, max)                                                 \
    {                                                                                                                  \
        .command = "mask " name, .usage = arguments " -o MASK", .text = help "\v" example,                             \
        .groups = {{NULL, mask_options}, {NULL, own}}, .names = what, .min_names = min, .max_names = max,              \
        .names_to = offsetof(struct mask_settings, names), .masks_from = 1                                             \
    }

extern const struct mask_operation mask_convolve, mask_add, mask_blend, mask_channels, mask_trim, mask_fade, mask_align,
    mask_reverse, mask_stretch, mask_split, mask_decay, mask_normalise;

/* Makes the result, of zeros. false: it would be too long, or memory is short. */
bool mask_job_make(struct mask_job *job, int n_channels, double n_frames);
/* Makes the result, with the first mask in it, `first` frames later (below 0: its start is cut off). */
bool mask_job_copy(struct mask_job *job, double n_frames, int first);
/* Writes job->why; returns false. */
#define MASK_REFUSE(job, ...) message_write((job)->why, sizeof(job)->why, __VA_ARGS__)
bool mask_job_no_memory(struct mask_job *job);

/* Returns the channel count of the result, where a mask of one channel applies to all. 0: the counts do not fit. */
int mask_job_channels(struct mask_job *job);
int mask_job_longest(const struct mask_job *job); /* frames of the longest mask */
const float *mask_job_channel(const struct mask_job *job, int mask, int ch);
double *mask_job_result(const struct mask_job *job, int ch);

void mask_job_note(struct mask_job *job, const char *name, const char *text, double value);

/* mask_peak returns the largest |h| of a channel, mask_energy the sum of its squares. */
double mask_peak(const hc_responses *mask, int ch);
double mask_energy(const hc_responses *mask, int ch);

int mask_job_frames(const struct mask_job *job, double ms);

#endif
