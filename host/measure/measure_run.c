#include "measure_run.h"

#include "dsp/haloconv.h"
#include "dsp/haloconv_masks.h"
#include "dsp/signal/transform.h"
#include "host/message.h"

#include <math.h>
#include <stdlib.h>

static const double longest_latency_s = 0.5; /* latency of a sound card and of the sound in the air */
static const double check_share = 0.25;      /* share of the level, for the check of levels */

/* The takes of a sweep. */
struct takes {
    struct take *take;
    const struct sweep *sweep;
    const hc_responses *filter; /* NULL: none */
    const char *what;           /* text for the status line */
    int n_inputs;
    int64_t n_play, n_record;
    float *play;      /* [n_play] */
    float *memory;    /* [n_outputs][n_inputs][n_record] */
    float **channels; /* [n_outputs][n_inputs] */
    struct sweep_recording recordings[SWEEP_MAX_OUTPUTS];
    int output;     /* the output that plays */
    double later_s; /* seconds of the takes that follow these takes */
};

static void show_progress(void *data, int64_t frames)
{
    const struct takes *t = data;
    double take_s = (double)t->n_record / take_rate(t->take), done_s = (double)frames / take_rate(t->take);
    message_status("%s: output %d of %d, %.0f s left", t->what, t->output + 1, t->sweep->n_outputs,
                   take_s * (t->sweep->n_outputs - t->output) - done_s + t->later_s);
}

static bool takes_open(struct takes *t, int rate, char *why, size_t cap)
{
    size_t n = (size_t)t->sweep->n_outputs * (size_t)t->n_inputs;
    t->n_play = (int64_t)(rate * sweep_take_s(t->sweep));
    t->n_record = t->n_play + (int64_t)(rate * longest_latency_s);
    t->play = malloc((size_t)t->n_play * sizeof *t->play);
    t->memory = malloc(n * (size_t)t->n_record * sizeof *t->memory);
    t->channels = malloc(n * sizeof *t->channels);
    if (!t->play || !t->memory || !t->channels)
        return message_write(why, cap, "measure: no memory for the recording; use a shorter --length");
    for (size_t i = 0; i < n; i++) t->channels[i] = t->memory + i * (size_t)t->n_record;
    for (int o = 0; o < t->sweep->n_outputs; o++)
        t->recordings[o] = (struct sweep_recording){t->channels + (size_t)o * (size_t)t->n_inputs, t->n_record, 0};
    return true;
}

static void takes_close(struct takes *t)
{
    free(t->play);
    free(t->memory);
    free(t->channels);
}

/* Convolves play[n_play] with the filter of the output, and cuts the end. false: no memory, or the sound clips. */
static bool filter_play(const struct takes *t, char *why, size_t cap)
{
    const hc_responses *filter = t->filter;
    const float *h = filter->channel[filter->n_channels == 1 ? 0 : t->output];
    size_t n = (size_t)t->n_play, taps = (size_t)filter->n_frames;
    double *sound = malloc((n + taps) * sizeof *sound), *wide = malloc(taps * sizeof *wide), peak = 0;
    bool good = false;
    if (sound && wide) {
        for (size_t i = 0; i < n; i++) sound[i] = t->play[i];
        for (size_t i = 0; i < taps; i++) wide[i] = h[i];
        good = transform_convolve(sound, n, wide, taps, sound);
    }
    for (size_t i = 0; good && i < n; i++) {
        t->play[i] = (float)sound[i];
        if (fabs(sound[i]) > peak) peak = fabs(sound[i]);
    }
    free(sound);
    free(wide);
    if (!good) return message_write(why, cap, "measure: no memory for the filter; use a shorter --length");
    return peak <= 1 ||
           message_write(why, cap, "--filter: the sweep would clip by %.1f dB; lower --level", db_of_gain(peak));
}

/* Fills play with the sound of an output. */
static bool fill_play(const struct takes *t, char *why, size_t cap)
{
    sweep_fill(t->sweep, take_rate(t->take), 0, t->play, (int)t->n_play);
    return !t->filter || filter_play(t, why, cap);
}

static bool play_output(struct takes *t, char *why, size_t cap)
{
    return take_play(t->take, t->output, t->play, t->n_play, t->recordings[t->output].channel, t->n_record,
                     show_progress, t, why, cap);
}

/* Plays all takes; repeats a take with a gap once. */
static bool takes_play(struct takes *t, char *why, size_t cap)
{
    char first[MESSAGE_CAP];
    for (t->output = 0; t->output < t->sweep->n_outputs; t->output++) {
        if (!fill_play(t, why, cap)) return false;
        if (play_output(t, first, sizeof first)) continue;
        if (!play_output(t, why, cap)) return false;
        message_note("output %d was measured again: %s", t->output + 1, first);
    }
    return true;
}

static bool measure_takes(struct takes *t, struct measurement_settings *settings, struct measurement *m, char *why,
                          size_t cap)
{
    settings->sweep = t->sweep;
    settings->rate = take_rate(t->take);
    bool good = takes_open(t, settings->rate, why, cap) && takes_play(t, why, cap);
    if (good) message_status("%s: computing", t->what);
    good = good && measurement_make(settings, t->recordings, m, why, cap);
    takes_close(t);
    message_status("%s", "");
    return good;
}

/* ---- levels ------------------------------------------------------------------------------------------------------ */

/* Judges the levels that the sweep will reach, by a sweep at check_share of its level. */
static bool judge(const struct measurement *m, int n_inputs, char *why, size_t cap)
{
    const double loudest = 0.9, quietest = 0.003; /* -50 dBFS */
    for (int i = 0; i < n_inputs; i++) {
        double peak = m->inputs[i].peak, expected = peak / check_share;
        if (m->inputs[i].n_clipped > 0)
            return message_write(why, cap,
                                 "input %d was clipped by a sweep %.0f dB below --level; lower the gain of the input "
                                 "by %.0f dB or more",
                                 i + 1, -db_of_gain(check_share), 6 - db_of_gain(check_share));
        if (expected > loudest)
            return message_write(
                why, cap,
                "input %d is too loud: the sweep would reach %.1f dBFS; lower --level or the gain of the input by "
                "%.0f dB",
                i + 1, db_of_gain(expected), ceil(db_of_gain(expected) + 6));
        if (expected < quietest)
            message_note(
                "input %d is quiet: the sweep will reach %.1f dBFS; raise the gain of the input by up to %.0f dB",
                i + 1, db_of_gain(expected), floor(-12 - db_of_gain(expected)));
    }
    return true;
}

static bool check_levels(struct take *take, const struct sweep *sweep, const hc_responses *filter,
                         struct measurement_settings *settings, char *why, size_t cap)
{
    struct measurement m = {0};
    struct sweep quiet = *sweep;
    quiet.level *= check_share;
    quiet.averages = 1;
    quiet.length_s = fmin(sweep->length_s, fmax(1, 10 / sweep->from_hz));
    quiet.silence_s = fmin(sweep->silence_s, 0.5);
    struct takes takes = {
        .take = take, .sweep = &quiet, .filter = filter, .what = "level check", .n_inputs = settings->n_inputs};
    takes.later_s = sweep->n_outputs * (sweep_take_s(sweep) + longest_latency_s);
    bool good = measure_takes(&takes, settings, &m, why, cap) && judge(&m, settings->n_inputs, why, cap);
    measurement_free(&m);
    return good;
}

static bool load_filter(const char *path, int rate, int n_outputs, hc_responses *filter, char *why, size_t cap)
{
    if (hc_responses_load(path, 0, rate, 0, filter, why, cap) != HC_OK) return false;
    if (!filter->channel)
        return message_write(why, cap, "--filter %s: is a configuration; give a sound file, or a text file of coefficients", path);
    return filter->n_channels == 1 || filter->n_channels == n_outputs ||
           message_write(why, cap, "--filter %s: has %d channels; it needs 1, or one for each measured output (%d)",
                         path, filter->n_channels, n_outputs);
}

bool measure_run(struct take_settings take_settings, struct sweep *sweep, const char *filter_path,
                 struct measurement_settings *settings, struct measurement *m, char *why, size_t cap)
{
    *m = (struct measurement){0};
    hc_responses filter = {0};
    struct take *take = take_open(&take_settings, why, cap);
    if (!take) return false;
    struct takes takes = {.take = take,
                          .sweep = sweep,
                          .filter = filter_path ? &filter : NULL,
                          .what = "sweep",
                          .n_inputs = settings->n_inputs};
    bool good = sweep_complete(sweep, take_rate(take), why, cap) &&
                (!filter_path || load_filter(filter_path, take_rate(take), sweep->n_outputs, &filter, why, cap));
    if (good)
        message_note("%d output%s, %.0f s, peak %s; a check of the levels comes first", sweep->n_outputs,
                     message_s(sweep->n_outputs), sweep->n_outputs * (sweep_take_s(sweep) + longest_latency_s),
                     message_db(db_of_gain(sweep->level), 1, "dBFS").text);
    good = good && check_levels(take, sweep, takes.filter, settings, why, cap) &&
           measure_takes(&takes, settings, m, why, cap);
    take_close(take);
    hc_responses_free(&filter);
    return good;
}
