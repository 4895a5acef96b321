/* mask_operation_combine - operations on the channels of several masks: convolve, add, blend, channels. */
#include "dsp/base/number.h"
#include "dsp/signal/transform.h"
#include "mask_operation.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Adds a channel of a mask, with a gain, to a channel of the result. */
static void combine_add_channel(struct mask_job *job, int mask, int from, double gain, int to)
{
    const float *h = mask_job_channel(job, mask, from);
    double *sum = mask_job_result(job, to);
    for (int i = 0; i < job->masks[mask].n_frames; i++) sum[i] += gain * (double)h[i];
}

/* Makes the sum of all masks, each with its gain. */
static bool combine_add_all(struct mask_job *job, const double *gains)
{
    int n_channels = mask_job_channels(job);
    if (!n_channels || !mask_job_make(job, n_channels, mask_job_longest(job))) return false;
    for (int i = 0; i < job->n_masks; i++)
        for (int ch = 0; ch < n_channels; ch++) combine_add_channel(job, i, ch, gains[i], ch);
    return true;
}

/* ---- convolve ----------------------------------------------------------------------------------- */

static bool convolve(struct mask_job *job)
{
    double n_frames = 1;
    for (int i = 0; i < job->n_masks; i++) n_frames += job->masks[i].n_frames - 1;
    int n_channels = mask_job_channels(job);
    if (!n_channels || !mask_job_make(job, n_channels, n_frames)) return false;
    double *h = malloc((size_t)mask_job_longest(job) * sizeof *h);
    bool good = h != NULL;
    for (int ch = 0; ch < n_channels; ch++) {
        double *y = mask_job_result(job, ch);
        size_t length = 1;
        y[0] = 1;
        for (int i = 0; good && i < job->n_masks; i++) {
            size_t n = (size_t)job->masks[i].n_frames;
            for (size_t k = 0; k < n; k++) h[k] = (double)mask_job_channel(job, i, ch)[k];
            if (i == 0)
                memcpy(y, h, n * sizeof *h);
            else
                good = transform_convolve(y, length, h, n, y);
            length += n - 1;
        }
    }
    free(h);
    return good || mask_job_no_memory(job);
}

const struct mask_operation mask_convolve = {
    .line =
        MASK_LINE("convolve", "MASK MASK...",
                  "Convolves masks, channel by channel: the result sounds like all masks in series. A mask of one "
                  "channel applies to all channels.",
                  "  haloconv mask convolve hall.wav speaker.wav -o both.wav", NULL, "two MASKs or more", 2, MAX_MASKS),
    .summary = "several masks in series",
    .apply = convolve};

/* ---- add ---------------------------------------------------------------------------------------- */

static bool read_gains(const struct option_use *use, void *to)
{
    struct mask_settings *s = to;
    const char *at = use->text;
    for (s->n_gains = 0; s->n_gains < MAX_MASKS; at++) {
        double db;
        bool is_off = strncmp(at, "off", 3) == 0;
        const char *end = is_off ? at + 3 : number_read(at, -300, 300, &db);
        if (!end || (*end && *end != ',')) break;
        s->gains[s->n_gains++] = is_off ? 0 : pow(10, db / 20);
        at = end;
        if (!*at) return true;
    }
    return option_refuse(use, "needs gains in dB, or off, with commas between, such as 0,-6");
}

static int check_add(const struct mask_settings *s)
{
    if (!s->n_gains || s->n_gains == s->names.n) return -1;
    return message_usage("mask add", "--gains has %d gain%s for %d masks; give one for each", s->n_gains,
                         message_s(s->n_gains), s->names.n);
}

static bool combine_add(struct mask_job *job)
{
    double gains[MAX_MASKS];
    for (int i = 0; i < job->n_masks; i++) gains[i] = job->settings->n_gains ? job->settings->gains[i] : 1;
    return combine_add_all(job, gains);
}

static const struct option_row add_options[] = {
    {"gains", 0, "DB,DB,...", "A gain for each mask, or off [0 for all]", read_gains, .to = 0}, {0}};

const struct mask_operation mask_add = {
    .line = MASK_LINE("add", "MASK MASK...",
                      "Adds masks, channel by channel: the result sounds like all masks in parallel. A mask of one "
                      "channel is added to all channels.",
                      "  haloconv mask add early.wav late.wav --gains 0,-6 -o drier.wav", add_options,
                      "two MASKs or more", 2, MAX_MASKS),
    .summary = "several masks in parallel, with gains",
    .check = check_add,
    .apply = combine_add};

/* ---- blend -------------------------------------------------------------------------------------- */

enum { BLEND_NONE, BLEND_PEAK, BLEND_ENERGY };

/* Returns the peak of a mask, or the root of its energy, over all channels. */
static double combine_level_of(const hc_responses *mask, int by)
{
    double peak = 0, energy = 0;
    for (int ch = 0; ch < mask->n_channels; ch++) {
        peak = fmax(peak, mask_peak(mask, ch));
        energy += mask_energy(mask, ch);
    }
    return by == BLEND_PEAK ? peak : sqrt(energy / mask->n_channels);
}

static int check_blend(const struct mask_settings *s)
{
    return isnan(s->mix) ? message_usage("mask blend", "needs --mix SHARE, from 0 to 1") : -1;
}

static bool combine_blend(struct mask_job *job)
{
    const struct mask_settings *s = job->settings;
    double match = 1;
    if (s->by != BLEND_NONE) {
        double own = combine_level_of(&job->masks[1], s->by);
        if (!(own > 0)) return MASK_REFUSE(job, "%s: is silent and has no level; use --level none", s->names.list[1]);
        match = combine_level_of(&job->masks[0], s->by) / own;
        mask_job_note(job, "gain_db", "second mask scaled by %+.2f dB", 20 * log10(match));
    }
    return combine_add_all(job, (double[]){1 - s->mix, s->mix * match});
}

static const struct option_row blend_options[] = {
    {"mix", 0, "SHARE", "Share of the second mask, from 0 (the first alone) to 1 (the second alone)", option_number,
     OPTION_TO(struct mask_settings, mix), .max = 1},
    {"level", 0, "none|peak|energy",
     "First scale the second mask to the peak of the first, or to its energy (the mean of the channels) [none]",
     option_choice, OPTION_TO(struct mask_settings, by)},
    {0}};

const struct mask_operation mask_blend = {
    .line =
        MASK_LINE("blend", "MASK MASK --mix SHARE",
                  "Adds 1 - SHARE times the first mask and SHARE times the second one. The result is as long as the "
                  "longer one; a mask of one channel goes to all channels.",
                  "  haloconv mask blend hall.wav plate.wav --mix 0.3 --level energy -o rich.wav", blend_options,
                  "two MASKs", 2, 2),
    .summary = "a mix of two masks",
    .check = check_blend,
    .apply = combine_blend};

/* ---- channels ----------------------------------------------------------------------------------- */

static bool combine_read_channels(const struct option_use *use, void *to)
{
    struct mask_settings *s = to;
    double list[MAX_PICKED];
    int n = s->n_channels = number_list_read(use->text, list, MAX_PICKED), i = 0;
    for (; i < n && list[i] >= 1 && list[i] <= INT_MAX && list[i] == floor(list[i]); i++) s->channels[i] = (int)list[i];
    if (n && i == n) return true;
    return option_refuse(use, "needs channel numbers, counted from 1 and separated by commas, as in 1,1,2; at most %d numbers",
                         MAX_PICKED);
}

/* Finds the mask, and its channel from 0, for `channel`, which counts from 1 over all masks. */
static bool find_channel(const struct mask_job *job, int channel, int *mask, int *of_mask)
{
    *of_mask = channel - 1;
    for (*mask = 0; *mask < job->n_masks && *of_mask >= job->masks[*mask].n_channels; (*mask)++)
        *of_mask -= job->masks[*mask].n_channels;
    return *mask < job->n_masks;
}

static bool pick_channels(struct mask_job *job)
{
    const struct mask_settings *s = job->settings;
    int all = 0, mask, of_mask;
    for (int i = 0; i < job->n_masks; i++) all += job->masks[i].n_channels;
    int n = s->n_channels ? s->n_channels : all;
    if (!s->mono && n > MAX_PICKED)
        return MASK_REFUSE(job, "%s: would have %d channels, but a mask has at most %d; give --channels", s->output, n,
                           MAX_PICKED);
    if (!mask_job_make(job, s->mono ? 1 : n, mask_job_longest(job))) return false;
    for (int i = 0; i < n; i++) {
        int channel = s->n_channels ? s->channels[i] : i + 1;
        if (!find_channel(job, channel, &mask, &of_mask))
            return MASK_REFUSE(job, "--channels %d: there %s only %d channel%s; give a number from 1 to %d", channel,
                               all == 1 ? "is" : "are", all, message_s(all), all);
        combine_add_channel(job, mask, of_mask, s->mono ? 1.0 / n : 1, s->mono ? 0 : i);
    }
    return true;
}

static const struct option_row channels_options[] = {
    {"channels", 0, "N,N,...",
     "Channels of the result, by their numbers from 1; those of a second mask follow those of the first [all]",
     combine_read_channels, .to = 0},
    {"mono", 0, NULL, "Mix all channels to one, their mean", option_flag, OPTION_TO(struct mask_settings, mono)},
    {0}};

const struct mask_operation mask_channels = {
    .line = MASK_LINE("channels", "MASK...",
                      "Picks, reorders, duplicates, joins or mixes channels. Shorter masks are padded with silence.",
                      "  haloconv mask channels stereo.wav --channels 1,1,2,2 -o four.wav\n"
                      "  haloconv mask channels left.wav right.wav -o stereo.wav",
                      channels_options, "one MASK or more", 1, MAX_MASKS),
    .summary = "pick, reorder, join or mix channels",
    .apply = pick_channels};
