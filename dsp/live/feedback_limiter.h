/* feedback_limiter - turns the output down by 40 dB for two seconds after it stayed at full scale for half a second. */
#ifndef FEEDBACK_LIMITER_H
#define FEEDBACK_LIMITER_H

#include <stdbool.h>
#include <stdint.h>

struct feedback_limiter {
    int loud;        /* frames of the present run at full scale             */
    int quiet;       /* frames since the last sample at full scale          */
    int hold;        /* frames for which the output remains turned down     */
    float gain;      /* 1, or less while the output is turned down          */
    uint64_t n;      /* how often the output was turned down                */
};

void feedback_limiter_open(struct feedback_limiter *limiter);

/* Applies the gain to out[n_out][n]. is_full: some of these samples are at full scale. [rt] */
void feedback_limiter_run(struct feedback_limiter *limiter, float *const *out, int n_out, int n, int rate,
                          bool is_full);

#endif
