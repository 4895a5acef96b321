/* guard - against feedback: an output that stays at full scale for half a second is ducked by 40 dB for two seconds. */
#ifndef GUARD_H
#define GUARD_H

#include <stdatomic.h>
#include <stdbool.h>

struct guard {
    int loud;              /* frames of the present run at full scale     */
    int quiet;             /* frames since full scale was last reached    */
    int hold;              /* frames that the output stays ducked         */
    float gain;            /* 1, or on its way to DUCKED and back         */
    atomic_uint ducked;    /* how often; read by anyone                   */
};

void guard_open(struct guard *guard);

/* Look at n frames, turn them down where it must be; is_full: some of them are at full scale. [rt] */
void guard_run(struct guard *guard, float *const *out, int n_out, int n, int rate, bool is_full);

#endif
