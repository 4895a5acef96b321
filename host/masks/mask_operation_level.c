/* Operations on levels: decay, normalise. */
#include "dsp/signal/k_weighting.h"
#include "mask_analysis.h"
#include "mask_operation.h"

#include <math.h>
#include <stdlib.h>

/* ---- decay -------------------------------------------------------------------------------------- */

static int check_decay(const struct mask_settings *s)
{
    return s->to_s > 0 ? -1 : message_usage("mask decay", "needs --to SECONDS, the new decay time");
}

/* The mean T30 of the channels that have one. */
static bool find_decay_time(struct mask_job *job, double *seconds)
{
    const hc_responses *mask = &job->masks[0];
    struct mask_figures *figures = calloc((size_t)mask->n_channels, sizeof *figures);
    int n = 0;
    *seconds = 0;
    if (!figures) return mask_job_no_memory(job);
    mask_find_decay(mask->channel, mask->n_channels, mask->n_frames, job->out.rate, figures);
    for (int ch = 0; ch < mask->n_channels; ch++)
        if (figures[ch].t30_s > 0) { /* not NaN */
            *seconds += figures[ch].t30_s;
            n++;
        }
    if (n == 0)
        MASK_REFUSE(job, "%s: its decay time is not known: %s; give it by --from", job->settings->names.list[0],
                    figures[0].t30_reason);
    *seconds /= n;
    free(figures);
    return n > 0;
}

static bool decay(struct mask_job *job)
{
    const struct mask_settings *s = job->settings;
    const hc_responses *mask = &job->masks[0];
    double from = s->from_s;
    if (!(from > 0) && !find_decay_time(job, &from)) return false;
    if (!mask_job_copy(job, mask->n_frames, 0)) return false;
    int onset = mask_find_onset(mask->channel, mask->n_channels, mask->n_frames);
    double a_frame = log(1e-3) * (1 / s->to_s - 1 / from) / job->out.rate;
    for (int ch = 0; ch < mask->n_channels; ch++)
        for (int i = onset < 0 ? 0 : onset; i < mask->n_frames; i++)
            mask_job_result(job, ch)[i] *= exp(a_frame * (i - onset));
    mask_job_tell(job, "from", "decay time %.3f s before", from);
    mask_job_tell(job, "to", "%.3f s now", s->to_s);
    double end_db = 20 / log(10) * a_frame * (mask->n_frames - 1 - onset);
    if (end_db > 0) mask_job_tell(job, "end_db", "the end, with its noise, raised by %.1f dB", end_db);
    return true;
}

static const struct option_row decay_options[] = {
    {"to", 0, "SECONDS", "The new decay time T60", option_number, OPTION_TO(struct mask_settings, to_s), .min = 1e-3,
     .max = 600},
    {"from", 0, "SECONDS", "The decay time that it has [T30 as in info, the mean of the channels]", option_number,
     OPTION_TO(struct mask_settings, from_s), .min = 1e-3, .max = 600},
    {0}};

const struct mask_operation mask_decay = {
    .line = MASK_LINE("decay", "MASK --to SECONDS",
                      "Changes the decay time of a mask: multiplies it by an exponential from the direct sound on.",
                      "  haloconv mask decay hall.wav --to 1.2 -o drier.wav", decay_options, "one MASK", 1, 1),
    .summary = "another decay time",
    .check = check_decay,
    .apply = decay};

/* ---- normalise ---------------------------------------------------------------------------------- */

enum { BY_PEAK, BY_ENERGY, BY_SINE, BY_LOUDNESS };

/* The root of the energy of a response behind the filters of the K-weighting (ITU-R BS.1770-4); n frames and the time
 * in which the filters end. */
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

/* The level of a channel, linear; 0: it is silent, NaN: no memory. */
static double level_of(const struct mask_job *job, int ch, const struct mask_figures *figures)
{
    const hc_responses *mask = &job->masks[0];
    const float one = 1;
    switch (job->settings->by) {
    case BY_PEAK:
        return figures->peak;
    case BY_ENERGY:
        return figures->rms * sqrt(mask->n_frames);
    case BY_SINE:
        return figures->peak > 0 ? figures->response_peak : 0;
    default:
        return k_weighted(mask->channel[ch], mask->n_frames, job->out.rate) / k_weighted(&one, 1, job->out.rate);
    }
}

/* levels[n_channels]; all the largest of them, unless each channel gets a gain of its own. */
static bool find_levels(struct mask_job *job, double *levels)
{
    const hc_responses *mask = &job->masks[0];
    struct mask_figures *figures = calloc((size_t)mask->n_channels, sizeof *figures);
    bool has_memory = figures != NULL;
    double most = 0;
    if (figures)
        (job->settings->by == BY_SINE ? mask_analyse : mask_find_decay)(mask->channel, mask->n_channels, mask->n_frames,
                                                                        job->out.rate, figures);
    for (int ch = 0; has_memory && ch < mask->n_channels; ch++) {
        levels[ch] = level_of(job, ch, &figures[ch]);
        has_memory = !isnan(levels[ch]);
        most = fmax(most, levels[ch]);
    }
    free(figures);
    if (!has_memory) return mask_job_no_memory(job);
    if (!(most > 0))
        return MASK_REFUSE(job, "%s: is silent, and has no level; give another mask", job->settings->names.list[0]);
    for (int ch = 0; !job->settings->each && ch < mask->n_channels; ch++) levels[ch] = most;
    return true;
}

static bool normalise(struct mask_job *job)
{
    const hc_responses *mask = &job->masks[0];
    double levels[MOST_PICKED];
    if (!find_levels(job, levels) || !mask_job_copy(job, mask->n_frames, 0)) return false;
    for (int ch = 0; ch < mask->n_channels; ch++) {
        double gain = levels[ch] > 0 ? job->settings->level / levels[ch] : 1; /* a silent channel stays so */
        for (int i = 0; i < mask->n_frames; i++) mask_job_result(job, ch)[i] *= gain;
    }
    if (!job->settings->each)
        mask_job_tell(job, "gain_db", "scaled by %+.2f dB", 20 * log10(job->settings->level / levels[0]));
    return true;
}

static const struct option_row normalise_options[] = {
    {"by", 0, "peak|energy|sine|loudness",
     "What is set: peak: the largest sample; energy: the gain of white noise; sine: the largest gain of a sine; "
     "loudness: the gain of white noise behind the K-weighting of ITU-R BS.1770 [peak]",
     option_choice, OPTION_TO(struct mask_settings, by)},
    {"to", 0, "DB", "Its level; a single sample of 1 has 0 dB in all of them [0]", option_db,
     OPTION_TO(struct mask_settings, level)},
    {"each", 0, NULL, "Scale each channel by itself; else all are scaled by one gain, for the loudest channel",
     option_flag, OPTION_TO(struct mask_settings, each)},
    {0}};

const struct mask_operation mask_normalise = {
    .line = MASK_LINE("normalise", "MASK", "Scales a mask to a level.",
                      "  haloconv mask normalise hall.wav --by sine --to -1 -o safe.wav", normalise_options, "one MASK",
                      1, 1),
    .summary = "set the level: peak, energy, sine gain or loudness",
    .apply = normalise};
