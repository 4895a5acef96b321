/* haloconv mask normalise - scales a mask to a level. */
#include "dsp/signal/recursive_filter.h"
#include "dsp/signal/sine_gain.h"
#include "mask_operation.h"

#include <math.h>
#include <stdlib.h>

enum { BY_PEAK, BY_ENERGY, BY_SINE, BY_LOUDNESS };

/* Returns the root of the energy of a K-weighted response (ITU-R BS.1770-4), over n frames and the filters' decay. */
static double k_weighted(const float *h, int n, int rate)
{
    struct biquad filters[2];
    k_weighting(rate, filters);
    int length = n + rate / 5;
    double energy = 0, *y = calloc((size_t)length, sizeof *y);
    if (!y) return NAN;
    for (int i = 0; i < n; i++) y[i] = (double)h[i];
    for (int i = 0; i < 2; i++) biquad_run(&filters[i], y, length);
    for (int i = 0; i < length; i++) energy += y[i] * y[i];
    free(y);
    return sqrt(energy);
}

/* Returns the linear level of a channel; 0: silent, NaN: no memory. */
static double normalise_level_of(const struct mask_job *job, int ch)
{
    const hc_responses *mask = &job->masks[0];
    const struct sine_gain_part part = {mask->channel[ch], mask->n_frames, 1};
    const float one = 1;
    struct sine_gain sine;
    switch (job->settings->by) {
    case BY_PEAK:
        return mask_peak(mask, ch);
    case BY_ENERGY:
        return sqrt(mask_energy(mask, ch));
    case BY_SINE:
        return sine_gain_find(&part, 1, &sine) ? sine.gain : NAN;
    default:
        return k_weighted(mask->channel[ch], mask->n_frames, job->out.rate) / k_weighted(&one, 1, job->out.rate);
    }
}

/* Computes levels[n_channels]; without --each all become the largest. */
static bool normalise_find_levels(struct mask_job *job, double *levels)
{
    int n_channels = job->masks[0].n_channels;
    double max = 0;
    for (int ch = 0; ch < n_channels; ch++) {
        levels[ch] = normalise_level_of(job, ch);
        if (isnan(levels[ch])) return mask_job_no_memory(job);
        max = fmax(max, levels[ch]);
    }
    if (!(max > 0))
        return MASK_REFUSE(job, "%s: is silent and has no level; give another mask", job->settings->names.list[0]);
    for (int ch = 0; !job->settings->each && ch < n_channels; ch++) levels[ch] = max;
    return true;
}

static bool operation_normalise(struct mask_job *job)
{
    const hc_responses *mask = &job->masks[0];
    double levels[MAX_PICKED] = {0};
    if (!normalise_find_levels(job, levels) || !mask_job_copy(job, mask->n_frames, 0)) return false;
    for (int ch = 0; ch < mask->n_channels; ch++) {
        double gain = levels[ch] > 0 ? job->settings->level / levels[ch] : 1; /* a silent channel stays silent */
        for (int i = 0; i < mask->n_frames; i++) mask_job_result(job, ch)[i] *= gain;
    }
    if (!job->settings->each)
        mask_job_note(job, "gain_db", "scaled by %+.2f dB", 20 * log10(job->settings->level / levels[0]));
    return true;
}

static const struct option_row normalise_options[] = {
    {"by", 0, "peak|energy|sine|loudness",
     "The level that is set: peak: the largest sample; energy: the gain of white noise; sine: the largest gain of a "
     "sine; "
     "loudness: the gain of white noise behind the K-weighting of ITU-R BS.1770 [peak]",
     option_choice, OPTION_TO(struct mask_settings, by)},
    {"to", 0, "DB", "The new level; a single sample of 1 has 0 dB by each definition [0]", option_db,
     OPTION_TO(struct mask_settings, level)},
    {"each", 0, NULL, "Scale each channel separately; without it all have one gain, for the loudest channel",
     option_flag, OPTION_TO(struct mask_settings, each)},
    {0}};

const struct mask_operation mask_normalise = {
    .line = MASK_LINE("normalise", "MASK", "Scales a mask to a level.",
                      "  haloconv mask normalise hall.wav --by sine --to -1 -o safe.wav", normalise_options, "one MASK",
                      1, 1),
    .summary = "set the level: peak, energy, sine gain or loudness",
    .apply = operation_normalise};
