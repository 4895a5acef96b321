/* Operations on the time axis: trim, fade, align, reverse, stretch, split. */
#include "dsp/masks/resample.h"
#include "dsp/signal/transform.h"
#include "host/acoustics/acoustics.h"
#include "mask_operation.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- trim --------------------------------------------------------------------------------------- */

/* The frame after the last one of a channel that is at least so loud, or, with NaN, at which its decay meets the noise
 * floor. A channel without noise ends with its last value that is not 0. false: no memory. */
static bool find_end(const struct mask_job *job, int ch, double least, int *end)
{
    const hc_responses *mask = &job->masks[0];
    const float *h = mask->channel[ch];
    struct acoustics acoustics;
    for (*end = mask->n_frames; *end > 0 && !(isnan(least) ? h[*end - 1] != 0 : fabs((double)h[*end - 1]) >= least);)
        --*end;
    if (!isnan(least) || *end == 0) return true;
    if (!acoustics_find(&acoustics, h, mask->n_frames, job->out.rate, false)) return false;
    double decay_s = acoustics.all.value[ACOUSTIC_NOISE_TIME];
    if (!isnan(decay_s)) *end = acoustics.start + (int)lrint(decay_s * job->out.rate);
    return true;
}

static bool trim(struct mask_job *job)
{
    const struct mask_settings *s = job->settings;
    const hc_responses *mask = &job->masks[0];
    int first = 0, end = 0, end_of_channel;
    double peak = 0;
    for (int ch = 0; ch < mask->n_channels; ch++) peak = fmax(peak, mask_peak(mask, ch));
    if (!(peak > 0)) return MASK_REFUSE(job, "%s: is silent; there is nothing to trim", s->names.list[0]);
    for (int ch = 0; ch < mask->n_channels; ch++) {
        if (!find_end(job, ch, peak * pow(10, -s->below_db / 20), &end_of_channel)) return mask_job_no_memory(job);
        if (end_of_channel > end) end = end_of_channel;
    }
    for (bool is_silent = s->start; is_silent && first < end - 1; first += is_silent)
        for (int ch = 0; ch < mask->n_channels; ch++)
            if (fabs((double)mask->channel[ch][first]) >= peak * 1e-3) is_silent = false;
    mask_job_tell(job, "cut_start", "%.0f frames cut at the start", first);
    mask_job_tell(job, "cut_end", "%.0f at the end", mask->n_frames - end);
    return mask_job_copy(job, end - first, -first);
}

static const struct option_row trim_options[] = {
    {"below", 0, "DB",
     "Cut what comes after the last frame within DB of the peak [from where the decay meets the noise floor]",
     option_number, OPTION_TO(struct mask_settings, below_db), .min = 1, .max = 300},
    {"start", 0, NULL, "Cut the silence in front, too: all before the first frame within 60 dB of the peak",
     option_flag, OPTION_TO(struct mask_settings, start)},
    {0}};

const struct mask_operation mask_trim = {
    .line = MASK_LINE("trim", "MASK",
                      "Cuts the end of a mask, from where its decay meets the noise floor (as info finds it). All "
                      "channels are cut at the same frame, the last one that a channel needs.",
                      "  haloconv mask trim hall.wav --start -o short.wav", trim_options, "one MASK", 1, 1),
    .summary = "cut the noise at the end, and the silence in front",
    .apply = trim};

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
        for (int i = 0; i < n_in; i++) h[i] *= mask_rise(i, n_in);
        for (int i = 0; i < n_out; i++) h[n - 1 - i] *= mask_rise(i, n_out);
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

/* ---- align -------------------------------------------------------------------------------------- */

enum { BY_ONSET, BY_PEAK };

/* h between the frames, at time t: a sum of sinc functions under a Hann window. */
static double value_at(const float *h, int n, double t)
{
    enum { REACH = 128 };
    int from = (int)floor(t) - REACH, to = (int)floor(t) + REACH;
    double sum = 0;
    for (int i = from < 0 ? 0 : from; i <= to && i < n; i++) {
        double x = M_PI * (t - i), window = 0.5 + 0.5 * cos(x / (REACH + 1));
        sum += (double)h[i] * window * (fabs(x) < 1e-9 ? 1 : sin(x) / x);
    }
    return sum;
}

/* The time of the largest |h| between the frames beside its largest frame, by golden section. */
static double refine_peak(const float *h, int n, int frame)
{
    const double golden = 0.6180339887498949;
    double from = frame - 1, to = frame + 1;
    while (to - from > 1e-6) {
        double a = to - golden * (to - from), b = from + golden * (to - from);
        if (fabs(value_at(h, n, a)) > fabs(value_at(h, n, b)))
            to = b;
        else
            from = a;
    }
    return (from + to) / 2;
}

/* The frame of the sound in channels first ... first + n - 1 of a mask that is placed; NaN: they are silent. */
static double find_sound(const struct mask_settings *s, const hc_responses *mask, int first, int n)
{
    int channel = -1, frame = -1;
    double loudest = 0;
    for (int ch = first; ch < first + n; ch++)
        for (int i = 0; i < mask->n_frames; i++) {
            double level = fabs((double)mask->channel[ch][i]);
            if (!(level > loudest)) continue;
            loudest = level;
            channel = ch;
            frame = i;
        }
    if (channel < 0) return NAN;
    if (!s->fractional && s->by == BY_ONSET) return acoustics_start(mask->channel + first, n, mask->n_frames);
    return s->fractional ? refine_peak(mask->channel[channel], mask->n_frames, frame) : frame;
}

/* Delays h[n] by 0 <= share < 1 frame: turns the phase of its spectrum by a straight line. */
static bool shift_by_share(double *h, int n, double share)
{
    struct transform t;
    if (!transform_open(&t, transform_size((size_t)n * 2))) return false;
    double complex *bins = malloc((t.size / 2 + 1) * sizeof *bins);
    if (bins) {
        transform_response(&t, h, (size_t)n, bins);
        for (size_t k = 0; k < t.size / 2; k++) bins[k] *= cexp(-2 * M_PI * I * (double)k / (double)t.size * share);
        bins[t.size / 2] *= cos(M_PI * share); /* half the rate has no phase */
        transform_inverse(&t, bins);
        memcpy(h, bins, (size_t)n * sizeof *h);
    }
    free(bins);
    transform_close(&t);
    return bins != NULL;
}

/* Writes a channel, later by `shift` frames, into the result. */
static bool shift_channel(struct mask_job *job, int ch, double shift)
{
    int n = job->masks[0].n_frames, whole = (int)floor(shift);
    double *moved = calloc((size_t)n + 1, sizeof *moved), *h = mask_job_result(job, ch);
    if (!moved) return mask_job_no_memory(job);
    for (int i = 0; i < n; i++) moved[i] = (double)job->masks[0].channel[ch][i];
    bool good = shift <= whole || shift_by_share(moved, n + 1, shift - whole) || mask_job_no_memory(job);
    for (int i = whole < 0 ? -whole : 0; i <= n && i + whole < job->out.n_frames; i++) h[i + whole] = moved[i];
    free(moved);
    return good;
}

static bool align(struct mask_job *job)
{
    const struct mask_settings *s = job->settings;
    const hc_responses *mask = &job->masks[0];
    int n_groups = s->each ? mask->n_channels : 1, of_group = mask->n_channels / n_groups;
    double shifts[MOST_PICKED], most = -INFINITY, to = s->at_ms * 1e-3 * job->out.rate;
    if (job->n_masks > 1) to = find_sound(s, &job->masks[1], 0, job->masks[1].n_channels);
    if (isnan(to)) return MASK_REFUSE(job, "%s: is silent; there is no sound to align to", s->names.list[1]);
    for (int i = 0; i < n_groups; i++) {
        double sound = find_sound(s, mask, i * of_group, of_group);
        if (isnan(sound))
            return MASK_REFUSE(job, "%s: channel %d is silent; there is no sound to align", s->names.list[0], i + 1);
        shifts[i] = s->fractional ? to - sound : round(to) - sound;
        most = fmax(most, shifts[i]);
    }
    double n_frames = mask->n_frames + ceil(most);
    if (!mask_job_make(job, mask->n_channels, n_frames > 1 ? n_frames : 1)) return false;
    for (int ch = 0; ch < mask->n_channels; ch++)
        if (!shift_channel(job, ch, shifts[ch / of_group])) return false;
    mask_job_tell(job, "shift", s->each ? "the latest channel shifted by %.3f frames" : "shifted by %.3f frames", most);
    return true;
}

static int check_align(const struct mask_settings *s)
{
    if (isnan(s->at_ms) == (s->names.n > 1)) return -1;
    return message_usage("mask align", "needs either --at MS or a REFERENCE mask");
}

static const struct option_row align_options[] = {
    {"at", 0, "MS", "Where the direct sound comes, in milliseconds from the start", option_number,
     OPTION_TO(struct mask_settings, at_ms), .max = LONGEST_MS},
    {"by", 0, "onset|peak",
     "What is placed there: the first frame within 20 dB of the peak (the direct sound in ISO 3382-1), or the peak "
     "[onset]",
     option_choice, OPTION_TO(struct mask_settings, by)},
    {"fractional", 0, NULL, "Place the peak between frames, by a shift of linear phase", option_flag,
     OPTION_TO(struct mask_settings, fractional)},
    {"each", 0, NULL, "Align every channel by itself; else all are shifted by the same time", option_flag,
     OPTION_TO(struct mask_settings, each)},
    {0}};

const struct mask_operation mask_align = {
    .line = MASK_LINE("align", "MASK [REFERENCE]",
                      "Shifts a mask such that its direct sound comes at a time, or when that of another mask, "
                      "REFERENCE, does. Silence is added in front; what would come before the start is cut.",
                      "  haloconv mask align hall.wav --at 5 -o hall5.wav\n"
                      "  haloconv mask align right.wav left.wav --fractional -o right2.wav",
                      align_options, "one MASK, and perhaps a REFERENCE", 1, 2),
    .summary = "put the direct sound at a time",
    .check = check_align,
    .apply = align};

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

/* Resampling to F times the rate gives F times the frames; at the old rate they take F times as long. */
static bool stretch(struct mask_job *job)
{
    enum { UNIT = 1000000 };
    hc_responses *mask = &job->masks[0];
    const char *name = job->settings->names.list[0];
    int to = (int)lrint(UNIT * job->settings->factor), length = 0;
    if (to == UNIT) return mask_job_copy(job, mask->n_frames, 0);
    int error = resample_length(UNIT, to, mask->n_frames, name, &length, job->why, sizeof job->why);
    if (error == HC_EUNSUPPORTED)
        return MASK_REFUSE(job, "mask stretch: this build has no resampler; build it with soxr");
    if (error || !mask_job_make(job, mask->n_channels, length)) return false;
    float *taps = malloc((size_t)length * sizeof *taps);
    if (!taps) return mask_job_no_memory(job);
    for (int ch = 0; !error && ch < mask->n_channels; ch++) {
        error = resample(UNIT, to, 1, (const float *const *)&mask->channel[ch], mask->n_frames, &taps, length, name,
                         job->why, sizeof job->why);
        for (int i = 0; !error && i < length; i++) mask_job_result(job, ch)[i] = (double)taps[i];
    }
    free(taps);
    return !error;
}

static const struct option_row stretch_options[] = {
    {"factor", 0, "F", "The length of the result, as a multiple of that of the mask; 2: a room of twice the size",
     option_number, OPTION_TO(struct mask_settings, factor), .min = 0.05, .max = 20},
    {0}};

const struct mask_operation mask_stretch = {
    .line =
        MASK_LINE("stretch", "MASK --factor F",
                  "Resamples a mask in time: every time in it becomes F times as long, and every frequency is divided "
                  "by F. The gain is kept: a low-pass of gain 1 stays one.",
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

/* late = h - early, of the early part as it is written: a float. Then the two floats add up to h, but for the last
 * rounding. */
static bool split(struct mask_job *job)
{
    const struct mask_settings *s = job->settings;
    const hc_responses *mask = &job->masks[0];
    int n = mask->n_frames, n_fade = mask_job_frames(job, s->fade_ms);
    int onset = acoustics_start(mask->channel, mask->n_channels, n);
    double middle = onset + (double)mask_job_frames(job, s->at_ms);
    int first = (int)fmin(fmax(middle - n_fade / 2, 0), n), end = (int)fmin((double)first + n_fade, n);
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
            float early = (float)(i < first ? *rest : *rest * mask_rise(n_fade - 1 - (i - first), n_fade));
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
    {"fade", 0, "MS", "Length of the crossfade, whose middle is there [2]", option_number,
     OPTION_TO(struct mask_settings, fade_ms), .max = LONGEST_MS},
    {"late", 0, "FILE", "The late part, with silence in front instead of the early one", option_text,
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
    .apply = split};
