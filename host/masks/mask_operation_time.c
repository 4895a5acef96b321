/* mask_operation_time - operations on the time axis: trim, fade, reverse, stretch, split. */
#include "dsp/masks/resample.h"
#include "dsp/signal/hann.h"
#include "dsp/signal/acoustics.h"
#include "mask_operation.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- trim --------------------------------------------------------------------------------------- */

/* Finds the end of a channel: behind the last frame whose level is `min` or more, or, with NaN, where the decay meets
 * the noise floor; without noise, behind the last value that is not 0. false: no memory. */
static bool find_end(const struct mask_job *job, int ch, double min, int *end)
{
    const hc_responses *mask = &job->masks[0];
    const float *h = mask->channel[ch];
    struct acoustics acoustics;
    *end = mask->n_frames;
    while (*end > 0 && fabs((double)h[*end - 1]) < (isnan(min) ? DBL_TRUE_MIN : min)) --*end;
    if (!isnan(min) || *end == 0) return true;
    if (!acoustics_find(&acoustics, h, mask->n_frames, job->out.rate, false)) return false;
    double decay_s = acoustics.all.value[ACOUSTIC_NOISE_TIME];
    if (!isnan(decay_s)) *end = acoustics.start + (int)lrint(decay_s * job->out.rate);
    return true;
}

/* Returns the frame, at most `last`, at which the file says that t = 0 is, if the loudest frame is not before it; else
 * the first frame at which the level of a channel is `min` or more. */
static int find_first(const hc_responses *mask, int rate, int last, double peak, double min)
{
    double zero = floor(-mask->start * rate + 0.01); /* a printed number may be a little low */
    bool is_stated = zero > 0 && zero <= last;
    for (int i = 0; is_stated && i < zero; i++)
        for (int ch = 0; ch < mask->n_channels; ch++) is_stated &= fabs((double)mask->channel[ch][i]) < peak;
    if (is_stated) return (int)zero;
    for (int i = 0; i < last; i++)
        for (int ch = 0; ch < mask->n_channels; ch++)
            if (fabs((double)mask->channel[ch][i]) >= min) return i;
    return last;
}

static bool operation_trim(struct mask_job *job)
{
    const struct mask_settings *s = job->settings;
    const hc_responses *mask = &job->masks[0];
    int end = 0, end_of_channel;
    double peak = 0;
    for (int ch = 0; ch < mask->n_channels; ch++) peak = fmax(peak, mask_peak(mask, ch));
    if (!(peak > 0))
        return MASK_REFUSE(job, "%s: is silent and cannot be trimmed; give another mask", s->names.list[0]);
    for (int ch = 0; ch < mask->n_channels; ch++) {
        if (!find_end(job, ch, peak * pow(10, -s->below_db / 20), &end_of_channel)) return mask_job_no_memory(job);
        if (end_of_channel > end) end = end_of_channel;
    }
    int first = s->start ? find_first(mask, job->out.rate, end - 1, peak, peak * 1e-3) : 0;
    if (isnan(s->below_db) && end == mask->n_frames)
        message_note("%s: the decay does not meet a noise floor, and the end stays; give --below DB to cut at a level",
                     s->names.list[0]);
    mask_job_note(job, "cut_start", "%.0f frames cut at the start", first);
    mask_job_note(job, "cut_end", "%.0f at the end", mask->n_frames - end);
    return mask_job_copy(job, end - first, -first);
}

static const struct option_row trim_options[] = {
    {"below", 0, "DB", "Cut behind the last frame within DB of the peak [where the decay meets the noise floor]",
     option_number, OPTION_TO(struct mask_settings, below_db), .min = 1, .max = 300},
    {"start", 0, NULL,
     "Cut the front, too: all frames before t = 0 of a REW text, else before the first one within 60 dB of the peak",
     option_flag, OPTION_TO(struct mask_settings, start)},
    {0}};

const struct mask_operation mask_trim = {
    .line = MASK_LINE("trim", "MASK",
                      "Cuts the end of a mask, from where its decay meets the noise floor (as info finds it). All "
                      "channels are cut behind the last frame that any channel needs.",
                      "  haloconv mask trim hall.wav --start -o short.wav", trim_options, "one MASK", 1, 1),
    .summary = "cut the noise at the end, and the silence in front",
    .apply = operation_trim};

/* ---- fade --------------------------------------------------------------------------------------- */

static int check_fade(const struct mask_settings *s)
{
    return s->in_ms > 0 || s->out_ms > 0 ? -1 : message_usage("mask fade", "needs --in MS, --out MS or both");
}

static bool fade(struct mask_job *job)
{
    const struct mask_settings *s = job->settings;
    int n = job->masks[0].n_frames, n_in = mask_job_frames(job, s->in_ms), n_out = mask_job_frames(job, s->out_ms);
    if (n_in > n || n_out > n)
        return MASK_REFUSE(job, "%s: has %.1f ms, less than the fade; shorten the fade", s->names.list[0],
                           1e3 * n / job->out.rate);
    if (!mask_job_copy(job, n, 0)) return false;
    for (int ch = 0; ch < job->out.n_channels; ch++) {
        double *h = mask_job_result(job, ch);
        for (int i = 0; i < n_in; i++) h[i] *= hann_rise((i + 0.5) / n_in);
        for (int i = 0; i < n_out; i++) h[n - 1 - i] *= hann_rise((i + 0.5) / n_out);
    }
    return true;
}

static const struct option_row fade_options[] = {
    {"in", 0, "MS", "Rise from 0 in the first MS milliseconds [0]", option_number,
     OPTION_TO(struct mask_settings, in_ms), .max = LONGEST_MS},
    {"out", 0, "MS", "Fall to 0 in the last MS milliseconds [0]", option_number,
     OPTION_TO(struct mask_settings, out_ms), .max = LONGEST_MS},
    {0}};

const struct mask_operation mask_fade = {
    .line = MASK_LINE("fade", "MASK", "Fades a mask in or out, along half a cosine.",
                      "  haloconv mask fade hall.wav --out 50 -o soft.wav", fade_options, "one MASK", 1, 1),
    .summary = "fade in or out",
    .check = check_fade,
    .apply = fade};

/* ---- reverse ------------------------------------------------------------------------------------ */

static bool reverse(struct mask_job *job)
{
    const hc_responses *mask = &job->masks[0];
    if (!mask_job_make(job, mask->n_channels, mask->n_frames)) return false;
    for (int ch = 0; ch < mask->n_channels; ch++)
        for (int i = 0; i < mask->n_frames; i++)
            mask_job_result(job, ch)[i] = (double)mask->channel[ch][mask->n_frames - 1 - i];
    return true;
}

const struct mask_operation mask_reverse = {.line = MASK_LINE("reverse", "MASK", "Plays a mask backwards.",
                                                              "  haloconv mask reverse hall.wav -o rise.wav", NULL,
                                                              "one MASK", 1, 1),
                                            .summary = "backwards",
                                            .apply = reverse};

/* ---- stretch ------------------------------------------------------------------------------------ */

static int check_stretch(const struct mask_settings *s)
{
    return s->factor > 0 ? -1 : message_usage("mask stretch", "needs --factor F, such as 1.5");
}

/* Stretches a mask: resampling to F times the rate gives F times the frames, F times as long at the old rate. */
static bool stretch(struct mask_job *job)
{
    enum { UNIT = 1000000 };
    hc_responses *mask = &job->masks[0];
    const char *name = job->settings->names.list[0];
    int to = (int)lrint(UNIT * job->settings->factor), length = 0;
    if (to == UNIT) return mask_job_copy(job, mask->n_frames, 0);
    int error = resample_length(UNIT, to, mask->n_frames, name, &length, REASON(job->why, sizeof job->why));
    if (error == HC_EUNSUPPORTED)
        return MASK_REFUSE(job, "mask stretch: this build has no resampler; build it with soxr");
    if (error || !mask_job_make(job, mask->n_channels, length)) return false;
    float *taps = malloc((size_t)length * sizeof *taps);
    if (!taps) return mask_job_no_memory(job);
    for (int ch = 0; !error && ch < mask->n_channels; ch++) {
        error = resample(UNIT, to, 1, (const float *const *)&mask->channel[ch], mask->n_frames, &taps, length, name,
                         REASON(job->why, sizeof job->why));
        for (int i = 0; !error && i < length; i++) mask_job_result(job, ch)[i] = (double)taps[i];
    }
    free(taps);
    return !error;
}

static const struct option_row stretch_options[] = {
    {"factor", 0, "F", "The length of the result divided by that of the mask; 2: a room of twice the size",
     option_number, OPTION_TO(struct mask_settings, factor), .min = 0.05, .max = 20},
    {0}};

const struct mask_operation mask_stretch = {
    .line =
        MASK_LINE("stretch", "MASK --factor F",
                  "Resamples a mask in time: every time in it becomes F times as long, and every frequency is divided "
                  "by F. The gain is kept: a low-pass of gain 1 keeps gain 1.",
                  "  haloconv mask stretch room.wav --factor 1.5 -o larger.wav", stretch_options, "one MASK", 1, 1),
    .summary = "longer or shorter in time, as a larger or smaller room",
    .check = check_stretch,
    .apply = stretch};

/* ---- split -------------------------------------------------------------------------------------- */

static int check_split(const struct mask_settings *s)
{
    if (isnan(s->at_ms)) return message_usage("mask split", "needs --at MS");
    if (!s->late) return message_usage("mask split", "needs --late FILE, for the second part");
    if (strcmp(s->late, s->output ? s->output : "") == 0)
        return message_usage("mask split", "-o and --late are the same file; give two names");
    return mask_write_check("mask split", s->late, s->format, s->json);
}

/* Computes late = h - early, with `early` rounded to float as it is written: the two floats add up to h, except for the
 * last rounding. */
static bool operation_split(struct mask_job *job)
{
    const struct mask_settings *s = job->settings;
    const hc_responses *mask = &job->masks[0];
    int n = mask->n_frames, n_fade = mask_job_frames(job, s->fade_ms), half = n_fade / 2;
    int onset = acoustics_start(mask->channel, mask->n_channels, n);
    double middle = onset + (double)mask_job_frames(job, s->at_ms);
    int first = (int)fmin(fmax(middle - half, 0), n), end = (int)fmin((double)first + n_fade, n);
    if (first >= n)
        return MASK_REFUSE(job, "%s: ends %.1f ms after the direct sound; give a shorter --at", s->names.list[0],
                           1e3 * (n - onset) / job->out.rate);
    if (!mask_job_copy(job, n, 0)) return false;
    double *late = job->h;
    job->h = NULL;
    bool good = mask_job_make(job, mask->n_channels, end > 0 ? end : 1);
    for (int ch = 0; good && ch < mask->n_channels; ch++)
        for (int i = 0; i < end; i++) {
            double *rest = late + (size_t)ch * (size_t)n + i;
            float early = (float)(i < first ? *rest : *rest * hann_rise((n_fade - 0.5 - (i - first)) / n_fade));
            mask_job_result(job, ch)[i] = (double)early;
            *rest -= (double)early;
        }
    struct mask_out out = {s->late, s->format, job->out.rate, mask->n_channels, n, late};
    good = good && mask_write(&out, job->why, sizeof job->why);
    free(late);
    return good;
}

static const struct option_row split_options[] = {
    {"at", 0, "MS", "Where the late part begins, in milliseconds after the direct sound (see align)", option_number,
     OPTION_TO(struct mask_settings, at_ms), .max = LONGEST_MS},
    {"fade", 0, "MS", "Length of the crossfade, whose middle is at --at [2]", option_number,
     OPTION_TO(struct mask_settings, fade_ms), .max = LONGEST_MS},
    {"late", 0, "FILE", "The late part, with silence in front instead of the early part", option_text,
     OPTION_TO(struct mask_settings, late)},
    {0}};

const struct mask_operation mask_split = {
    .line = MASK_LINE(
        "split", "MASK --at MS --late MASK",
        "Splits a mask into its early and its late part, with a short crossfade. `haloconv mask add` of both "
        "is the mask again.",
        "  haloconv mask split hall.wav --at 80 -o early.wav --late late.wav", split_options, "one MASK", 1, 1),
    .summary = "early and late parts, which add up",
    .check = check_split,
    .apply = operation_split};
