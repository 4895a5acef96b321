/* haloconv design invert - makes the inverse of each response of a mask. */
#include "design_files.h"
#include "dsp/signal/transform.h"
#include "host/commands.h"
#include "host/json_print.h"
#include "host/masks/mask_write.h"
#include "host/message.h"
#include "host/option.h"
#include "host/plot/plot_masks.h"
#include "inversion.h"

#include <stdlib.h>

enum { NOT_GIVEN = -1, MAX_TAPS = 1 << 22 };

struct invert_settings {
    struct option_names names; /* MASK */
    const char *output;
    int format, rate; /* rate 0: not given */
    bool json;
    double band_hz[2];
    struct inversion_settings inversion;
    struct plot_choice plot;
};

static const struct option_row invert_options[] = {
    {"rate", 0, "HZ", "Sample rate; MASK is resampled to it [that of MASK]", option_int,
     OPTION_TO(struct invert_settings, rate), .min = 1000, .max = 1000000},
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
    MASK_WRITE_OPTIONS(struct invert_settings),
    PLOT_OPTIONS(struct invert_settings, plot),
    {0}};

static const struct command_line invert_line = {
    .command = "design invert",
    .usage = "MASK -o MASK",
    .text = "Makes the inverse of each response of a mask: both together are a delay. The inversion is regularised "
            "(Kirkeby and Nelson, 1999): it boosts no frequency that is outside of the band or too weak. Prints the "
            "largest gain, and the error of mask and inverse together in the band.\v"
            "  haloconv design invert speaker.wav --band 40,18000 --boost 12 -o inverse.wav",
    .groups = {{NULL, invert_options}},
    OPTION_NAMES("one MASK", 1, 1, struct invert_settings, names, 1)};

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
    message_note("%s: %d channel%s, %d tap%s at %d Hz, delay %d frame%s (%.2f ms)", s->output, n_channels,
                 message_s(n_channels), i->taps, message_s(i->taps), i->rate, i->delay, message_s(i->delay),
                 1e3 * i->delay / i->rate);
    for (int ch = 0; ch < n_channels; ch++) {
        message_note("%s: channel %d: largest gain %s; error %.1f dB in the band", s->output, ch + 1,
                     message_gain(figures[ch].largest_gain_db, 2).text, figures[ch].error_db);
        json_array_append_new(channels,
                              json_pack("{s:o, s:o}", "largest_gain_db", json_number(figures[ch].largest_gain_db),
                                        "error_db", json_number(figures[ch].error_db)));
    }
    json_t *all = json_pack("{s:i, s:i, s:i, s:[f, f], s:o}", "rate", i->rate, "taps", i->taps, "delay", i->delay,
                            "band_hz", i->low_hz, i->high_hz, "channels", channels);
    if (s->json) return json_print(all, 12, s->output);
    json_decref(all);
    return 0;
}

static int invert_make(struct invert_settings *s, const hc_responses *mask, int rate)
{
    int status = invert_choose(s, mask, rate);
    if (status < 0) status = design_silence_check(mask, s->names.list[0], "inverse");
    if (status) return status;
    size_t taps = (size_t)s->inversion.taps, n = (size_t)mask->n_channels;
    char why[MESSAGE_CAP];
    double *h = malloc(n * taps * sizeof *h);
    struct inversion_figures *figures = calloc(n, sizeof *figures);
    bool good = h && figures;
    for (size_t ch = 0; good && ch < n; ch++)
        good = inversion_make(&s->inversion, mask->channel[ch], mask->n_frames, h + ch * taps, &figures[ch]);
    struct mask_out out = {s->output, s->format, rate, mask->n_channels, s->inversion.taps, h};
    if (!good)
        status = message_error("%s: no memory for %zu taps; use fewer", s->output, taps);
    else
        status =
            mask_write(&out, why, sizeof why) ? invert_report(s, figures, mask->n_channels) : message_error("%s", why);
    free(h);
    free(figures);
    return status;
}

int design_invert_command(int argc, char **argv)
{
    struct invert_settings s = {.inversion = {.delay = NOT_GIVEN, .regularise_db = 100, .boost_db = 20},
                                .plot = PLOT_CHOICE_USUAL};
    hc_responses mask;
    char why[MESSAGE_CAP];
    int status = option_parse(&invert_line, argc, argv, &s), rate = s.rate;
    if (status < 0) status = mask_write_check("design invert", s.output, s.format, s.json);
    if (status < 0) status = plot_check("design invert", &s.plot, s.output, s.names.list, 1);
    if (status >= 0) return status;
    if (!design_mask_read(&mask, s.names.list[0], &rate, why, sizeof why)) return message_error("%s", why);
    status = invert_make(&s, &mask, rate);
    hc_responses_free(&mask);
    return plot_written(status, s.output, rate, &s.plot);
}
