/* feedback_limiter - turns an output that stays at full scale for half a second down by 40 dB for two seconds. */
#ifndef FEEDBACK_LIMITER_H
#define FEEDBACK_LIMITER_H

#include <stdbool.h>
#include <stdint.h>

struct feedback_limiter {
    int loud;        /* frames of the present run at full scale          */
    int quiet;       /* frames since full scale was last reached         */
    int hold;        /* frames that the output stays turned down         */
    float gain;      /* 1, or on its way down and back                   */
    uint64_t n;      /* how often                                        */
};

void feedback_limiter_open(struct feedback_limiter *limiter);

/* Turn n frames down where that is due. is_full: some of them are at full scale. [rt] */
void feedback_limiter_run(struct feedback_limiter *limiter, float *const *out, int n_out, int n, int rate,
                          bool is_full);

#endif
