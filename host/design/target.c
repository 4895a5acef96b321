/* haloconv design target - makes a filter with the gain of a curve. */
#include "design_files.h"
#include "dsp/signal/transform.h"
#include "fir_design.h"
#include "host/commands.h"
#include "host/json_print.h"
#include "host/masks/mask_write.h"
#include "host/message.h"
#include "host/option.h"
#include "host/plot/plot_masks.h"

#include <math.h>
#include <stdlib.h>

enum target_phase { TARGET_MINIMUM, TARGET_LINEAR };

struct target_settings {
    struct option_names names; /* CURVE */
    const char *output;
    int format, rate, taps, window, phase; /* taps 0: not given */
    bool json;
    struct plot_choice plot;
};

static const struct option_row target_options[] = {
    {"rate", 0, "HZ", "Sample rate [48000]", option_int, OPTION_TO(struct target_settings, rate), .min = 1000,
     .max = 1000000},
    {"phase", 0, "minimum|linear", "Phase of the filter; linear delays by (taps - 1) / 2 frames [minimum]",
     option_choice, OPTION_TO(struct target_settings, phase)},
    {"taps", 0, "N", "Number of taps; odd for a linear phase with gain at half the rate [16384 or 16383 at 48000 Hz]",
     option_int, OPTION_TO(struct target_settings, taps), .min = 8, .max = 1 << 20},
    {"window", 0, "rectangular|hann|hamming|blackman|blackmanharris",
     "Window of the filter; with minimum phase, the second half of a window twice as long [hann]", option_choice,
     OPTION_TO(struct target_settings, window)},
    MASK_WRITE_OPTIONS(struct target_settings),
    PLOT_OPTIONS(struct target_settings, plot),
    {0}};

static const struct command_line target_line = {
    .command = "design target",
    .usage = "CURVE -o MASK",
    .text =
        "Makes a filter with the gain of a curve: a text with a frequency in Hz and a gain in dB on each line, or a "
        "line \"GraphicEQ: 20 -1.2; 25 0\". Between two points the gain in dB is a straight line over the logarithm "
        "of the frequency, and it is flat beyond the ends. Prints the delay, the largest gain, and how far the filter "
        "is from the curve.\v"
        "  haloconv design target house.txt --phase linear -o house.wav",
    .groups = {{NULL, target_options}},
    OPTION_NAMES("one CURVE", 1, 1, struct target_settings, names, 0)};

struct target_filter {
    struct frequency_curve curve;
    struct transform transform;
    double complex *bins; /* [size / 2 + 1] */
    double *h;            /* [taps] */
    double *window;       /* [2 taps - 1] of minimum phase, else [taps] */
    double largest_db, error_db, error_hz;
};

static void target_fill(struct target_filter *f, const struct target_settings *s)
{
    double hz = (double)s->rate / (double)f->transform.size;
    for (size_t k = 0; k <= f->transform.size / 2; k++)
        f->bins[k] = pow(10, frequency_curve_db(&f->curve, (double)k * hz) / 20);
    bool is_minimum = s->phase == TARGET_MINIMUM;
    if (is_minimum)
        magnitude_minimum_phase(&f->transform, 1e-15, f->bins);
    else
        transform_delay(&f->transform, f->bins, (s->taps - 1) / 2.0);
    magnitude_taps(&f->transform, f->bins, s->taps, f->h);
    int n = is_minimum ? 2 * s->taps - 1 : s->taps;
    fir_window_fill((enum fir_window)s->window, NAN, n, f->window);
    for (int i = 0; i < s->taps; i++) f->h[i] *= f->window[n - s->taps + i];
}

/* Measures the filter between the ends of the curve. */
static void target_measure(struct target_filter *f, const struct target_settings *s)
{
    const struct frequency_curve *c = &f->curve;
    double hz = (double)s->rate / (double)f->transform.size, max = 0;
    transform_response(&f->transform, f->h, (size_t)s->taps, f->bins);
    for (size_t k = 0; k <= f->transform.size / 2; k++) {
        double power = bin_power(f->bins[k]), at = (double)k * hz;
        double error = fabs(10 * log10(power) - frequency_curve_db(c, at));
        max = fmax(max, power);
        if (at < c->points[0].hz || at > c->points[c->n - 1].hz || !(error > f->error_db)) continue;
        f->error_db = error;
        f->error_hz = at;
    }
    f->largest_db = 10 * log10(max);
}

static int target_report(const struct target_filter *f, const struct target_settings *s)
{
    bool is_linear = s->phase == TARGET_LINEAR;
    const char *phase = is_linear ? "linear" : "minimum";
    double delay = is_linear ? (s->taps - 1) / 2.0 : 0;
    message_note("%s: %d taps at %d Hz, %s phase, delay %.10g frames (%.2f ms)", s->output, s->taps, s->rate, phase,
                 delay, 1e3 * delay / s->rate);
    message_note("%s: the largest gain is %s; the largest distance from the curve is %.2g dB, at %.0f Hz", s->output,
                 message_gain(f->largest_db, 2).text, f->error_db, f->error_hz);
    if (!s->json) return 0;
    json_t *all = json_pack("{s:s, s:i, s:i, s:f, s:o, s:o, s:o}", "phase", phase, "rate", s->rate, "taps", s->taps,
                            "delay", delay, "largest_gain_db", json_number(f->largest_db), "error_db",
                            json_number(f->error_db), "error_hz", json_number(f->error_hz));
    return json_print(all, 12, s->output);
}

static int target_make(struct target_filter *f, const struct target_settings *s)
{
    char why[MESSAGE_CAP];
    f->h = malloc((size_t)s->taps * sizeof *f->h);
    f->window = malloc((size_t)(2 * s->taps) * sizeof *f->window);
    if (transform_open(&f->transform, magnitude_fir_size(s->taps, s->rate)))
        f->bins = malloc((f->transform.size / 2 + 1) * sizeof *f->bins);
    if (!f->bins || !f->h || !f->window)
        return message_error("%s: no memory for %d taps; use fewer", s->output, s->taps);
    target_fill(f, s);
    target_measure(f, s);
    struct mask_out out = {s->output, s->format, s->rate, 1, s->taps, f->h};
    return mask_write(&out, why, sizeof why) ? target_report(f, s) : message_error("%s", why);
}

int design_target_command(int argc, char **argv)
{
    struct target_settings s = {.rate = 48000, .window = FIR_HANN, .plot = PLOT_CHOICE_USUAL};
    struct target_filter filter = {0};
    char why[MESSAGE_CAP];
    int status = option_parse(&target_line, argc, argv, &s);
    if (status < 0) status = mask_write_check("design target", s.output, s.format, s.json);
    if (status < 0) status = plot_check("design target", &s.plot, s.output, s.names.list, 1);
    if (status >= 0) return status;
    if (!s.taps) s.taps = (int)transform_size((size_t)s.rate / 3) - (s.phase == TARGET_LINEAR);
    if (!design_curve_read(&filter.curve, s.names.list[0], why, sizeof why)) return message_error("%s", why);
    status = target_make(&filter, &s);
    frequency_curve_free(&filter.curve);
    transform_close(&filter.transform);
    free(filter.bins);
    free(filter.h);
    free(filter.window);
    return plot_written(status, s.output, s.rate, &s.plot);
}
