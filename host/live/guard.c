#include "guard.h"

static const float DUCKED = 0.01f;
static const float LOUD_S = 0.5f, PAUSE_S = 0.02f, HOLD_S = 2.0f, FALL_S = 0.005f, RISE_S = 1.0f;

void guard_open(struct guard *guard)
{
    *guard = (struct guard){.gain = 1};
    atomic_init(&guard->ducked, 0);
}

void guard_run(struct guard *guard, float *const *out, int n_out, int n, int frames_a_second, bool is_full)
{
    float rate = (float)frames_a_second;
    /* A tone is below full scale between its crests: a pause of PAUSE_S belongs to the run. */
    guard->quiet = is_full ? 0 : guard->quiet + n;
    guard->loud = (float)guard->quiet > PAUSE_S * rate ? 0 : guard->loud + n;
    if ((float)guard->loud >= LOUD_S * rate && guard->hold == 0) {
        guard->hold = (int)(HOLD_S * rate);
        guard->loud = 0;
        atomic_fetch_add_explicit(&guard->ducked, 1, memory_order_relaxed);
    }
    float target = guard->hold > 0 ? DUCKED : 1;
    guard->hold = guard->hold > n ? guard->hold - n : 0;
    if (guard->gain == target && target == 1) return;
    float step = (target < guard->gain ? -1 / FALL_S : 1 / RISE_S) / rate, gain = guard->gain;
    for (int i = 0; i < n; i++) {
        gain += step;
        if ((step < 0) == (gain < target)) gain = target;
        for (int o = 0; o < n_out; o++) out[o][i] *= gain;
    }
    guard->gain = gain;
}
