/* haloconv design invert - makes the inverse of each response of a mask. */
#include "design_files.h"
#include "dsp/signal/transform.h"
#include "fir_design.h"
#include "host/commands.h"
#include "host/json_print.h"
#include "host/message.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

/* ---- the inverse of a response ---------------------------------------------------------------- */

/* The inverse of a response, regularised: O. Kirkeby and P. A. Nelson, "Digital filter design for inversion
 * problems in sound reproduction", J. Audio Eng. Soc. 47 (1999).
 *
 *   C = conj(H) / (|H|^2 + beta) e^(-i w delay)
 *
 * beta is small inside the band and large outside. It also grows as the response gets weaker, such that the gain stays
 * below the boost limit. It is relative to the level of the response, which is the mean of its magnitude in dB over the
 * octaves of the band.
 */

struct inversion_settings {
    int rate, taps;
    int delay;              /* frames, below taps                                                                */
    double low_hz, high_hz; /* the band                                                                          */
    double regularise_db;   /* beta in the band is so far below the level                                        */
    double boost_db;        /* largest gain, relative to the gain at the level                                   */
};

struct inversion_figures {
    double error_db;        /* RMS over the band of response * inverse - delayed impulse                         */
    double largest_gain_db; /* at any frequency                                                                  */
};

#define OUTSIDE_DB 20.0 /* beta outside the band, above the level: the gain is -40 dB */
enum { PER_OCTAVE = 48 };
#define FADE_OCTAVES 0.5 /* from the edge of the band to the full beta */

static double response_level(const double complex *bins, double bin_hz, const struct inversion_settings *s)
{
    double sum = 0, low = fmax(s->low_hz, bin_hz);
    int n = (int)(PER_OCTAVE * log2(s->high_hz / low)) + 1;
    for (int i = 0; i < n; i++)
        sum += log(fmax(bin_power(bins[lrint(low * exp2((double)i / PER_OCTAVE) / bin_hz)]), 1e-40));
    return exp(sum / n);
}

/* beta, relative to the power of the level. share: |H| relative to the level. */
static double beta_of(const struct inversion_settings *s, double hz, double share)
{
    double inside = fmin(fmax(hz, s->low_hz), s->high_hz);
    double beyond = hz > 0 ? fabs(log2(hz / inside)) / FADE_OCTAVES : s->low_hz > 0;
    double db = -s->regularise_db + (OUTSIDE_DB + s->regularise_db) * fmin(beyond, 1);
    /* With g / share^2 the gain is share^3 / (share^4 + g). Its maximum, 3^(3/4) / 4 g^(-1/4), is the limit. The
     * gain is 0 at a zero of the response, where the phase turns: a gain of any other size would step there. */
    double weak = pow(pow(3, 0.75) / 4 / pow(10, s->boost_db / 20), 4);
    return pow(10, db / 10) + weak / fmax(share * share, 1e-100);
}

static void invert(const struct inversion_settings *s, const struct transform *t, const double complex *response,
                   double complex *bins)
{
    double bin_hz = (double)s->rate / (double)t->size, level = response_level(response, bin_hz, s);
    for (size_t k = 0; k <= t->size / 2; k++) {
        double power = bin_power(response[k]), beta = level * beta_of(s, (double)k * bin_hz, sqrt(power / level));
        bins[k] = power + beta > 0 ? conj(response[k]) / (power + beta) : 0;
    }
    transform_delay(t, bins, s->delay);
}

/* Measures the inverse. bins: the spectrum of the inverse, overwritten. */
static void measure_inverse(const struct inversion_settings *s, const struct transform *t,
                            const double complex *response, double complex *bins, struct inversion_figures *figures)
{
    double bin_hz = (double)s->rate / (double)t->size, error = 0, max = 0;
    int n = 0;
    transform_delay(t, bins, -s->delay);
    for (size_t k = 0; k <= t->size / 2; k++) {
        double hz = (double)k * bin_hz;
        max = fmax(max, bin_power(bins[k]));
        if (hz < s->low_hz || hz > s->high_hz) continue;
        error += bin_power(response[k] * bins[k] - 1);
        n++;
    }
    figures->error_db = 10 * log10(error / fmax(n, 1) + 1e-40);
    figures->largest_gain_db = 10 * log10(max);
}

/* response[n], not silent -> h[taps]. false: no memory. */
static bool inversion_make(const struct inversion_settings *s, const float *response, int n, double *h,
                           struct inversion_figures *figures)
{
    struct transform t;
    size_t size = magnitude_fir_size(s->taps, s->rate), whole = transform_size((size_t)n + (size_t)s->taps);
    if (!transform_open(&t, size > whole ? size : whole)) return false;
    double complex *spectrum = malloc((t.size / 2 + 1) * sizeof *spectrum);
    double complex *bins = malloc((t.size / 2 + 1) * sizeof *bins);
    bool good = spectrum && bins;
    if (good) {
        int fade = s->taps / 16, before = s->delay / 4 < fade ? s->delay / 4 : fade;
        transform_response_float(&t, response, (size_t)n, spectrum);
        invert(s, &t, spectrum, bins);
        magnitude_taps(&t, bins, s->taps, h);
        taps_fade_in(h, before);
        taps_fade_out(h + s->taps - fade, fade);
        transform_response(&t, h, (size_t)s->taps, bins);
        measure_inverse(s, &t, spectrum, bins, figures);
    }
    free(spectrum);
    free(bins);
    transform_close(&t);
    return good;
}

/* ---- the command ------------------------------------------------------------------------------ */

enum { NOT_GIVEN = -1, MAX_TAPS = 1 << 22 };

struct invert_settings {
    struct design_mask_settings mask;
    double band_hz[2];
    struct inversion_settings inversion;
};

static const struct option_row invert_options[] = {
    {"taps", 0, "N", "Length of the inverse [twice that of MASK or more, a power of two]", option_int,
     OPTION_TO(struct invert_settings, inversion.taps), .min = 16, .max = MAX_TAPS},
    {"delay", 0, "N",
     "Delay of MASK and inverse together, in frames; a MASK of mixed phase needs a delay [half the taps]", option_int,
     OPTION_TO(struct invert_settings, inversion.delay), .max = MAX_TAPS},
    {"band", 0, "LOW,HIGH", "Invert these frequencies; the gain falls to -40 dB within half an octave [all]",
     option_band, OPTION_TO(struct invert_settings, band_hz)},
    {"boost", 0, "DB", "Largest gain, relative to that for the mean level of the response in the band [20]",
     option_number, OPTION_TO(struct invert_settings, inversion.boost_db), .max = 200},
    {"regularise", 0, "DB", "Regularisation in the band, in dB below the mean level [100]", option_number,
     OPTION_TO(struct invert_settings, inversion.regularise_db), .max = 200},
    {0}};

static const struct command_line invert_line = {
    .command = "design invert",
    .usage = "MASK -o MASK",
    .text = "Makes the inverse of each response of a mask: both together are a delay. The inversion is regularised "
            "(Kirkeby and Nelson, 1999): it boosts no frequency that is outside of the band or too weak. Prints the "
            "largest gain, and the error of mask and inverse together in the band.\v"
            "  haloconv design invert speaker.wav --band 40,18000 --boost 12 -o inverse.wav",
    .groups = {{NULL, invert_options}, {NULL, design_mask_options}},
    OPTION_NAMES("one MASK", 1, 1, struct design_mask_settings, names, 1)};

/* Fills in the settings that depend on the mask. -1: go on; else the exit status. */
static int invert_choose(struct invert_settings *s, const hc_responses *mask, int rate)
{
    struct inversion_settings *i = &s->inversion;
    int status = design_band_check("design invert", s->band_hz, rate);
    if (status >= 0) return status;
    i->rate = rate;
    i->low_hz = s->band_hz[0];
    i->high_hz = s->band_hz[1] > 0 ? s->band_hz[1] : 0.5 * rate;
    if (!i->taps) {
        size_t taps = transform_size((size_t)mask->n_frames * 2);
        i->taps = taps < 4096 ? 4096 : taps > MAX_TAPS ? MAX_TAPS : (int)taps;
    }
    if (i->delay == NOT_GIVEN) i->delay = i->taps / 2;
    if (i->delay >= i->taps)
        return message_usage("design invert", "--delay %d: must be below the number of taps, %d", i->delay, i->taps);
    return -1;
}

static int invert_report(const struct invert_settings *s, const struct inversion_figures *figures, int n_channels)
{
    const struct inversion_settings *i = &s->inversion;
    json_t *channels = json_array();
    message_note("%s: %d channel%s, %d tap%s at %d Hz, delay %d frame%s (%.2f ms)", s->mask.output, n_channels,
                 message_s(n_channels), i->taps, message_s(i->taps), i->rate, i->delay, message_s(i->delay),
                 1e3 * i->delay / i->rate);
    for (int ch = 0; ch < n_channels; ch++) {
        message_note("%s: channel %d: largest gain %s; error %.1f dB in the band", s->mask.output, ch + 1,
                     message_gain(figures[ch].largest_gain_db, 2).text, figures[ch].error_db);
        json_array_append_new(channels,
                              json_pack("{s:o, s:o}", "largest_gain_db", json_number(figures[ch].largest_gain_db),
                                        "error_db", json_number(figures[ch].error_db)));
    }
    json_t *all = json_pack("{s:i, s:i, s:i, s:[f, f], s:o}", "rate", i->rate, "taps", i->taps, "delay", i->delay,
                            "band_hz", i->low_hz, i->high_hz, "channels", channels);
    if (s->mask.json) return json_print(all, 12, s->mask.output);
    json_decref(all);
    return 0;
}

static int invert_make(void *settings, const hc_responses *mask, int rate)
{
    struct invert_settings *s = settings;
    int status = invert_choose(s, mask, rate);
    if (status < 0) status = design_silence_check(mask, s->mask.names.list[0], "inverse");
    if (status) return status;
    size_t taps = (size_t)s->inversion.taps, n = (size_t)mask->n_channels;
    char why[MESSAGE_CAP];
    double *h = malloc(n * taps * sizeof *h);
    struct inversion_figures *figures = calloc(n, sizeof *figures);
    bool good = h && figures;
    for (size_t ch = 0; figures && good && ch < n; ch++)
        good = inversion_make(&s->inversion, mask->channel[ch], mask->n_frames, h + ch * taps, &figures[ch]);
    struct mask_out out = {s->mask.output, s->mask.format, rate, mask->n_channels, s->inversion.taps, h};
    if (!good)
        status = message_error("%s: no memory for %zu taps; use fewer", s->mask.output, taps);
    else
        status =
            mask_write(&out, why, sizeof why) ? invert_report(s, figures, mask->n_channels) : message_error("%s", why);
    free(h);
    free(figures);
    return status;
}

int design_invert_command(int argc, char **argv)
{
    struct invert_settings s = {.inversion = {.delay = NOT_GIVEN, .regularise_db = 100, .boost_db = 20}};
    return design_mask_run(&invert_line, argc, argv, &s, invert_make);
}
