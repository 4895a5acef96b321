/* haloconv mask align - shifts a mask in time, also by fractions of a frame. */
#include "dsp/signal/transform.h"
#include "dsp/signal/acoustics.h"
#include "mask_operation.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BY_ONSET, BY_PEAK };

/* Returns h at time t between the frames: a sum of sinc functions under a Hann window. */
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

/* Finds by golden section the time of the largest |h| near the largest frame. */
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

/* Returns the frame that --by aligns, of channels first ... first + n - 1 of a mask; NaN: they are silent. */
static double find_sound(const struct mask_settings *s, const hc_responses *mask, int first, int n)
{
    const float *loudest = mask->channel[first];
    int frame = 0;
    for (int ch = first; ch < first + n; ch++)
        for (int i = 0; i < mask->n_frames; i++)
            if (fabsf(mask->channel[ch][i]) > fabsf(loudest[frame])) loudest = mask->channel[ch], frame = i;
    if (loudest[frame] == 0) return NAN;
    if (s->fractional) return refine_peak(loudest, mask->n_frames, frame);
    return s->by == BY_PEAK ? frame : acoustics_start(mask->channel + first, n, mask->n_frames);
}

/* Delays h[n] by 0 <= share < 1 frame. */
static bool shift_by_share(double *h, int n, double share)
{
    struct transform t;
    if (!transform_open(&t, transform_size((size_t)n * 2))) return false;
    double complex *bins = malloc((t.size / 2 + 1) * sizeof *bins);
    if (bins) {
        transform_response(&t, h, (size_t)n, bins);
        transform_delay(&t, bins, share);
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
    double shifts[MAX_PICKED] = {0}, max = -INFINITY, to = s->at_ms * 1e-3 * job->out.rate;
    if (job->n_masks > 1) to = find_sound(s, &job->masks[1], 0, job->masks[1].n_channels);
    if (isnan(to)) return MASK_REFUSE(job, "%s: is silent; give a mask with sound", s->names.list[1]);
    for (int i = 0; i < n_groups; i++) {
        double sound = find_sound(s, mask, i * of_group, of_group);
        if (isnan(sound))
            return MASK_REFUSE(
                job, "%s: channel %d is silent and cannot be aligned; give a mask with sound in every channel",
                s->names.list[0], i + 1);
        shifts[i] = s->fractional ? to - sound : round(to) - sound;
        max = fmax(max, shifts[i]);
    }
    double n_frames = mask->n_frames + ceil(max);
    if (!mask_job_make(job, mask->n_channels, n_frames > 1 ? n_frames : 1)) return false;
    for (int ch = 0; ch < mask->n_channels; ch++)
        if (!shift_channel(job, ch, shifts[ch / of_group])) return false;
    mask_job_note(job, "shift", s->each ? "the latest channel shifted by %.3f frames" : "shifted by %.3f frames", max);
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
     "The frame that is aligned: the first frame within 20 dB of the peak (the direct sound in ISO 3382-1), or the "
     "peak "
     "[onset]",
     option_choice, OPTION_TO(struct mask_settings, by)},
    {"fractional", 0, NULL, "Put the peak between frames, by a shift of linear phase", option_flag,
     OPTION_TO(struct mask_settings, fractional)},
    {"each", 0, NULL, "Align every channel separately; without it all are shifted by the same time", option_flag,
     OPTION_TO(struct mask_settings, each)},
    {0}};

const struct mask_operation mask_align = {
    .line = MASK_LINE("align", "MASK [REFERENCE]",
                      "Shifts a mask such that its direct sound comes at a given time, or at that of the direct sound "
                      "of another mask, REFERENCE. Silence is added in front; what would come before the start is cut.",
                      "  haloconv mask align hall.wav --at 5 -o hall5.wav\n"
                      "  haloconv mask align right.wav left.wav --fractional -o right2.wav",
                      align_options, "one MASK, and perhaps a REFERENCE", 1, 2),
    .summary = "move the direct sound to a time",
    .check = check_align,
    .apply = align};
