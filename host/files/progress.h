/* progress - the status line of a command that takes over a second, and its estimate of the time that is left.
 *
 * The estimate counts work, not frames. An engine for files on the CPU multiplies only the taps that meet input, so a
 * frame near the start costs less than one in the middle, and the tail behind the input is not transformed forward:
 *
 *   taps that meet input     0 ____/^^^^^^^^\____ 0        rising for min(n_in, n_taps) frames, falling likewise
 *                            0     n_in     n_in + n_taps
 */
#ifndef PROGRESS_H
#define PROGRESS_H

#include "dsp/haloconv.h"

#include <stdbool.h>
#include <stdint.h>

struct progress_work {           /* the work of a convolution; only the ratios of the costs matter                 */
    int64_t n_in, n_taps;        /* frames of the input and of the mask                                            */
    int64_t end;                 /* frames of the convolution that are computed; -1: unknown                       */
    double in, out, tap;         /* cost of an input frame, an output frame, a tap that meets input                */
};

struct progress_rate { /* all zero at first */
    double first, first_done; /* the time in seconds and the work when a twentieth of the work was done. The estimate
                                 ignores the time before: waiting for the file, new memory, the first mask */
};

struct progress {
    bool on;
    double begun;       /* start of the command, before the mask is prepared; seconds of stopwatch_now              */
    double start, next; /* start of the convolution; time of the next status line; seconds of stopwatch_now         */
    struct progress_rate rate_seen;
    int rate;           /* Hz */
    struct progress_work work;
};

/* The work of n_routes routes through this engine; n_in < 0: unknown. */
struct progress_work progress_work_make(const hc_info *info, int n_channels_in, int n_channels_out, int n_routes,
                                        int64_t n_in, int n_taps, int64_t end);
/* The work from the start to this frame, of a convolution whose end is known. */
double progress_work_to(const struct progress_work *work, int64_t frame);

/* The seconds that are left. done, all: finished work and total work. -1: unknown, until a tenth is done. */
double progress_rate_left(struct progress_rate *rate, double done, double all, double now);

/* Starts the estimate. begun: when the command began; now: when the convolution begins. */
void progress_start(struct progress *progress, int rate, struct progress_work work, double begun, double now);
/* The seconds that are left when so many frames are done; -1: unknown. */
double progress_left(struct progress *progress, int64_t frames_done, double now);
void progress_report(struct progress *progress, int64_t frames_done); /* call it often: prints five times a second */
void progress_clear(struct progress *progress);

#endif
