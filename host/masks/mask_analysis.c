#include "mask_analysis.h"

#include <math.h>

static void levels(const float *h, int n, struct mask_figures *f)
{
    double energy = 0;
    for (int i = 0; i < n; i++) {
        double size = fabs((double)h[i]);
        if (size > f->peak) {
            f->peak = size;
            f->peak_frame = i;
        }
        f->l1 += size;
        f->dc_gain += h[i];
        energy += size * size;
    }
    f->rms = sqrt(energy / n);
    while (f->leading_silence < n && fabs((double)h[f->leading_silence]) < f->peak * 1e-3) f->leading_silence++;
}

bool mask_analyse(float *const *channel, int n_channels, int n_frames, int rate, struct mask_figures *figures)
{
    for (int ch = 0; ch < n_channels; ch++) {
        struct mask_figures *f = &figures[ch];
        const struct sine_gain_part part = {channel[ch], n_frames, 1};
        levels(channel[ch], n_frames, f);
        if (!sine_gain_find(&part, 1, &f->response) ||
            !acoustics_find(&f->acoustics, channel[ch], n_frames, rate, true))
            return false;
    }
    return true;
}
