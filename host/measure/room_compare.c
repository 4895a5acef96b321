#include "room_compare.h"

#include "dsp/haloconv_masks.h"
#include "dsp/signal/smoothing.h"
#include "dsp/signal/transform.h"
#include "host/design/design_files.h"
#include "host/message.h"
#include "host/plot/plot.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { PER_OCTAVE = 24, OCTAVES = 10 };

static const double octave_hz[OCTAVES] = {31.5, 63, 125, 250, 500, 1000, 2000, 4000, 8000, 16000};

struct curve { /* a power over frequency, and its target */
    const double *power;
    double bin_hz;
    const struct frequency_curve *target;
};

static double excess_db(const struct curve *c, double hz)
{
    double at = hz / c->bin_hz, share = at - floor(at), power;
    size_t k = (size_t)at;
    power = (1 - share) * c->power[k] + share * c->power[k + 1];
    return 10 * log10(fmax(power, 1e-30)) - (c->target ? frequency_curve_db(c->target, hz) : 0);
}

static double mean_db(const struct curve *c, double low_hz, double high_hz)
{
    double sum = 0;
    int n = 1 + (int)(PER_OCTAVE * log2(high_hz / low_hz));
    for (int i = 0; i < n; i++) sum += excess_db(c, low_hz * exp2((double)i / PER_OCTAVE));
    return sum / n;
}

/* Returns the largest deviation from level_db in an octave. */
static double max_db(const struct curve *c, double centre_hz, double highest_hz, double level_db)
{
    double max = NAN;
    for (int i = -PER_OCTAVE / 2; i <= PER_OCTAVE / 2; i++) {
        double hz = centre_hz * exp2((double)i / PER_OCTAVE);
        if (hz <= highest_hz) max = fmax(max, fabs(excess_db(c, hz) - level_db)); /* fmax ignores NAN */
    }
    return max;
}

enum { BEFORE, TARGET, AFTER, CURVES };

struct comparison {
    const struct frequency_curve *target; /* NULL: flat */
    int rate, n_channels;
    size_t n_bins;
    struct transform transform;
    double complex *bins; /* [n_bins] */
    double *raw;          /* [n_bins]: the power of a response, not smoothed */
    double *power;        /* [n_channels][CURVES][n_bins] */
};

static double bin_hz(const struct comparison *all)
{
    return (double)all->rate / (double)all->transform.size;
}

/* Writes the largest deviation of 1/6 octave means of h[n] from the target in each octave, in dB, to db[OCTAVES]; NAN
 * above 0.42 of the rate. Response and target have the same mean level from 100 Hz to 10 kHz. Writes the means at that
 * level, in which the target is around 0 dB, to smoothed[n_bins]. */
static void find_deviation(const struct comparison *all, const float *h, int n, double *smoothed, double *db)
{
    transform_response_float(&all->transform, h, (size_t)n, all->bins);
    for (size_t k = 0; k < all->n_bins; k++) all->raw[k] = bin_power(all->bins[k]);
    smooth_octaves(all->raw, smoothed, all->n_bins, 1.0 / 6);
    struct curve c = {smoothed, bin_hz(all), all->target};
    double highest_hz = fmin(19000, 0.42 * all->rate), level_db = mean_db(&c, 100, fmin(10000, highest_hz));
    for (int i = 0; i < OCTAVES; i++) db[i] = max_db(&c, octave_hz[i], highest_hz, level_db);
    for (size_t k = 0; k < all->n_bins; k++) smoothed[k] *= pow(10, -level_db / 10);
}

static void fill_target_power(const struct comparison *all, double *power)
{
    for (size_t k = 0; k < all->n_bins; k++)
        power[k] = all->target ? pow(10, frequency_curve_db(all->target, (double)k * bin_hz(all)) / 10) : 1;
}

/* Prints a line of the table, 80 characters. db NULL: the line of the octaves. */
static void print_octaves(const char *title, const double *db)
{
    char line[MESSAGE_CAP];
    size_t at = (size_t)snprintf(line, sizeof line, "%-20s", title);
    for (int i = 0; i < OCTAVES; i++) {
        char text[16] = "-";
        bool is_k = octave_hz[i] >= 1000;
        if (!db)
            snprintf(text, sizeof text, "%g%s", octave_hz[i] / (is_k ? 1000 : 1), is_k ? "k" : "");
        else if (!isnan(db[i]))
            snprintf(text, sizeof text, "%.1f", db[i]);
        at += (size_t)snprintf(line + at, sizeof line - at, " %5s", text);
    }
    message_note("%s", line);
}

static void compare_channels(const struct comparison *all, const hc_responses *before, const hc_responses *after)
{
    double db[OCTAVES];
    char title[64];
    message_note("Largest deviation from the target in each octave, in 1/6 octave means, dB:");
    print_octaves("octave, Hz", NULL);
    for (int ch = 0; ch < all->n_channels; ch++) {
        double *power = all->power + (size_t)ch * CURVES * all->n_bins;
        fill_target_power(all, power + TARGET * all->n_bins);
        for (int is_after = 0; is_after < 2; is_after++) {
            const hc_responses *m = is_after ? after : before;
            double *smoothed = power + (is_after ? AFTER : BEFORE) * all->n_bins;
            find_deviation(all, m->channel[ch], m->n_frames, smoothed, db);
            snprintf(title, sizeof title, "loudspeaker %d %s", ch + 1, is_after ? "after" : "before");
            print_octaves(title, db);
        }
    }
}

static bool compare_files(const hc_responses *before, const hc_responses *after, const struct frequency_curve *target,
                          const char *picture, char *why, size_t cap)
{
    static const char *const names[CURVES] = {[BEFORE] = "before", [TARGET] = "target", [AFTER] = "after"};
    int n = before->n_frames > after->n_frames ? before->n_frames : after->n_frames;
    struct comparison all = {.target = target, .rate = before->rate};
    all.n_channels = before->n_channels < after->n_channels ? before->n_channels : after->n_channels;
    if (after->rate != before->rate)
        return message_write(why, cap, "room: the rate changed from %d to %d Hz; measure again", before->rate,
                             after->rate);
    size_t size = transform_size((size_t)(n > all.rate ? n : all.rate));
    bool good = transform_open(&all.transform, size);
    all.n_bins = size / 2 + 1;
    all.bins = malloc(all.n_bins * sizeof *all.bins);
    all.raw = malloc(all.n_bins * sizeof *all.raw);
    all.power = malloc((size_t)all.n_channels * CURVES * all.n_bins * sizeof *all.power);
    struct plot_powers powers = {names,     CURVES,     "loudspeaker", all.n_channels,
                                 all.power, all.n_bins, all.rate,      1.0 / 6};
    good = good && all.bins && all.raw && all.power;
    if (good)
        compare_channels(&all, before, after);
    else
        message_write(why, cap, "room: no memory to compare; free some memory");
    good = good && plot_powers(picture, &powers, &(struct plot_settings){0}, why, cap);
    free(all.bins);
    free(all.raw);
    free(all.power);
    transform_close(&all.transform);
    return good;
}

bool room_compare(const char *before_path, const char *after_path, const char *curve, const char *picture, char *why,
                  size_t cap)
{
    hc_responses before = {0}, after = {0};
    struct frequency_curve target = {0};
    bool good = hc_responses_load(before_path, 0, 0, HC_KEEP_RATE, &before, why, cap) == HC_OK &&
                hc_responses_load(after_path, 0, 0, HC_KEEP_RATE, &after, why, cap) == HC_OK &&
                (!*curve || design_curve_read(&target, curve, why, cap)) &&
                compare_files(&before, &after, *curve ? &target : NULL, picture, why, cap);
    frequency_curve_free(&target);
    hc_responses_free(&before);
    hc_responses_free(&after);
    return good;
}
