#include "feedback_limiter.h"

static const float DOWN = 0.01f;
static const float LOUD_S = 0.5f, PAUSE_S = 0.02f, HOLD_S = 2.0f, FALL_S = 0.005f, RISE_S = 1.0f;

void feedback_limiter_open(struct feedback_limiter *limiter)
{
    *limiter = (struct feedback_limiter){.gain = 1};
}

void feedback_limiter_run(struct feedback_limiter *limiter, float *const *out, int n_out, int n, int rate_hz,
                          bool is_full)
{
    float rate = (float)rate_hz;
    /* A tone is below full scale between its crests: a pause of up to PAUSE_S does not end the run. */
    limiter->quiet = is_full ? 0 : limiter->quiet < rate_hz ? limiter->quiet + n : rate_hz;
    limiter->loud = (float)limiter->quiet > PAUSE_S * rate ? 0 : limiter->loud + n;
    if ((float)limiter->loud >= LOUD_S * rate && limiter->hold == 0) {
        limiter->hold = (int)(HOLD_S * rate);
        limiter->loud = 0;
        limiter->n++;
    }
    float target = limiter->hold > 0 ? DOWN : 1;
    limiter->hold = limiter->hold > n ? limiter->hold - n : 0;
    if (limiter->gain == target && target == 1) return;
    float step = (target < limiter->gain ? -1 / FALL_S : 1 / RISE_S) / rate, gain = limiter->gain;
    for (int i = 0; i < n; i++) {
        gain += step;
        if ((step < 0) == (gain < target)) gain = target;
        for (int o = 0; o < n_out; o++) out[o][i] *= gain;
    }
    limiter->gain = gain;
}
