/* haloconv info - prints the figures of a mask and the plan for it. It opens no GPU, so it answers at once. */
#include "configuration_report.h"
#include "dsp/haloconv_masks.h"
#include "host/commands.h"
#include "host/files/sound_format.h"
#include "host/files/sound_in.h"
#include "host/json_print.h"
#include "host/message.h"
#include "host/option.h"
#include "host/plot/plot_masks.h"
#include "mask_analysis.h"
#include "mask_diagnostics.h"
#include "plan_report.h"

#include <fnmatch.h>
#include <jansson.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct info_settings {
    struct option_names names; /* MASK, or several */
    const char *path;
    int rate, block;
    const char *backend;
    bool json;
    struct plot_choice plot;
    struct plot_pairs pairs;
};

struct mask_info {
    const struct info_settings *settings;
    char file[PATH_MAX]; /* that is read, of a path with %r */
    hc_responses mask;
    char format[64];
    struct mask_figures *figures; /* [n_channels] */
    struct plan_report plan;
    char why[MESSAGE_CAP];
};

static bool take_backend(const struct option_use *use, void *to)
{
    if (strcmp(use->text, "cpu") != 0 && strcmp(use->text, "cuda") != 0 && strncmp(use->text, "hybrid", 6) != 0)
        return option_refuse(use, "needs cpu, cuda or hybrid");
    return option_text(use, to);
}

static const struct option_row info_options[] = {
    {"rate", 0, "HZ", "Rate to resample the mask to; for a text, its rate [the file's]", option_int,
     OPTION_TO(struct info_settings, rate), .min = 1, .max = 100000000},
    {"backend", 0, "cpu|cuda|hybrid", "Backend that the plan is for [cpu]", take_backend,
     OPTION_TO(struct info_settings, backend)},
    {"block", 0, "N", "Block size in frames that the plan is for; 0: the plan for a file [64]", option_int,
     OPTION_TO(struct info_settings, block), .max = 1 << 20},
    OPTION_JSON(OPTION_TO(struct info_settings, json)),
    PLOT_OPTIONS(struct info_settings, plot),
    PLOT_PAIRS_OPTION(OPTION_TO(struct info_settings, pairs)),
    {0}};

static const struct command_line info_line = {
    .command = "info",
    .usage = "MASK...",
    .text =
        "Prints the figures of a mask and the plan for it. MASK is a sound file, a text of coefficients (.txt, .csv) "
        "or a configuration (.conf).\v"
        "For each channel: peak and RMS (dBFS), silence before the first sound (60 dB below the peak), decay time T30 "
        "(60 dB, from the fall from -5 to -35 dB of the backward integral), the gain at 0 Hz, and the largest gain "
        "that the mask can give: to a sine (the peak of the frequency response), and to any signal (L1, the sum of "
        "|h|). For a configuration: its channels, the number of its responses, their length and their memory.\n\n"
        "  haloconv info hall.wav --json\n"
        "  haloconv info before.wav after.wav --plot both.svg --panels magnitude,phase --smooth 1/6",
    .groups = {{NULL, info_options}},
    .names = "MASK",
    .least_names = 1,
    .most_names = INT_MAX,
    .names_to = offsetof(struct info_settings, names)};

/* ---- the figures and the plan ------------------------------------------------------------------- */

static bool name_format(struct mask_info *subject)
{
    struct sound_in in;
    snprintf(subject->format, sizeof subject->format, "text");
    if (fnmatch("*.@(txt|csv)", subject->file, FNM_CASEFOLD | FNM_EXTMATCH) == 0) return true;
    if (!sound_in_open(&in, subject->file, NULL, subject->why, sizeof subject->why)) return false;
    sound_format_name(in.format, subject->format, sizeof subject->format);
    sound_in_close(&in);
    return true;
}

static bool is_configuration(const struct mask_info *subject)
{
    return subject->mask.in_port != NULL;
}

/* The plan of an engine for the mask; for a file, with a response a channel. */
static void make_plan(struct mask_info *subject)
{
    hc_config config;
    hc_config_init(&config);
    if (subject->mask.rate) config.rate = subject->mask.rate;
    config.block = subject->settings->block > 0 ? subject->settings->block : HC_BLOCK_FILES;
    config.n_in = config.n_out = config.n_routes = subject->mask.n_channels;
    if (is_configuration(subject)) {
        config.n_in = subject->mask.n_in;
        config.n_out = subject->mask.n_out;
        config.n_routes = subject->mask.n_routes;
    }
    /* A configuration may have no responses. */
    config.max_taps = subject->mask.n_frames > 0 ? subject->mask.n_frames : 1;
    config.backend = subject->settings->backend;
    plan_report_make(&subject->plan, &config);
}

static bool examine(struct mask_info *subject)
{
    hc_responses *mask = &subject->mask;
    const struct info_settings *s = subject->settings;
    if (hc_responses_find(s->path, s->rate, subject->file, sizeof subject->file, subject->why, sizeof subject->why) !=
            HC_OK ||
        hc_responses_load(s->path, 0, s->rate, 0, mask, subject->why, sizeof subject->why) != HC_OK)
        return false;
    if (mask->rate == 0) mask->rate = s->rate;
    mask_diagnostics_print(mask, subject->file);
    if (is_configuration(subject)) {
        make_plan(subject);
        return true;
    }
    if (!name_format(subject)) return false;
    subject->figures = calloc((size_t)mask->n_channels, sizeof *subject->figures);
    if (!subject->figures) return message_write(subject->why, sizeof subject->why, "%s: no memory; free some", s->path);
    mask_analyse(mask->channel, mask->n_channels, mask->n_frames, mask->rate, subject->figures);
    make_plan(subject);
    return true;
}

/* ---- the report --------------------------------------------------------------------------------- */

static double db(double linear)
{
    return linear > 0 ? 20 * log10(linear) : -INFINITY;
}

static json_t *channel_json(const struct mask_figures *f, int rate)
{
    return json_pack("{s:o, s:o, s:i, s:o, s:o, s:o, s:i, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "peak",
                     json_number(f->peak), "peak_db", json_number(db(f->peak)), "peak_frame", f->peak_frame, "peak_s",
                     json_number(rate ? (double)f->peak_frame / rate : NAN), "rms", json_number(f->rms), "rms_db",
                     json_number(db(f->rms)), "leading_silence", f->leading_silence, "t30_s", json_number(f->t30_s),
                     "t30_reason", isnan(f->t30_s) ? json_string(f->t30_reason) : json_null(), "dc_gain",
                     json_number(f->dc_gain), "dc_gain_db", json_number(db(fabs(f->dc_gain))), "l1", json_number(f->l1),
                     "l1_db", json_number(db(f->l1)), "response_peak", json_number(f->response_peak),
                     "response_peak_db", json_number(db(f->response_peak)), "response_peak_hz",
                     json_number(rate ? f->response_peak_hz : NAN));
}

static json_t *mask_json(const struct mask_info *subject)
{
    const hc_responses *mask = &subject->mask;
    json_t *channels = json_array();
    double l1 = 0, response_peak = 0; /* the largest of all channels */
    for (int ch = 0; ch < mask->n_channels; ch++) {
        const struct mask_figures *f = &subject->figures[ch];
        json_array_append_new(channels, channel_json(f, mask->rate));
        l1 = fmax(l1, f->l1);
        response_peak = fmax(response_peak, f->response_peak);
    }
    double seconds = mask->rate ? (double)mask->n_frames / mask->rate : NAN;
    return json_pack("{s:o, s:s, s:i, s:o, s:o, s:i, s:o, s:o, s:o, s:o, s:o}", "file", json_text(subject->file),
                     "format", subject->format, "channels", mask->n_channels, "rate", json_known(mask->rate),
                     "file_rate", json_known(mask->file_rate), "frames", mask->n_frames, "seconds",
                     json_number(seconds), "largest_gain_db", json_number(db(l1)), "largest_response_db",
                     json_number(db(response_peak)), "channel", channels, "diagnostics", mask_diagnostics_json(mask));
}

static int print_json(const struct mask_info *subject)
{
    json_t *all =
        is_configuration(subject) ? configuration_report_json(subject->file, &subject->mask) : mask_json(subject);
    if (all) json_object_set_new(all, "plan", plan_report_json(&subject->plan));
    return json_print(all, 9, subject->file);
}

static void print_frames(const char *name, int frames, int rate)
{
    printf("  %-16s %d frames", name, frames);
    if (rate) printf(" (%.2f ms)", 1000.0 * frames / rate);
    putchar('\n');
}

static void print_channel(int ch, const struct mask_figures *f, int rate)
{
    printf("channel %d\n", ch + 1);
    printf("  %-16s %.2f dBFS\n", "peak", db(f->peak));
    print_frames("peak after", f->peak_frame, rate);
    printf("  %-16s %.2f dBFS\n", "RMS", db(f->rms));
    print_frames("leading silence", f->leading_silence, rate);
    if (isnan(f->t30_s))
        printf("  %-16s none: %s\n", "decay time T30", f->t30_reason);
    else
        printf("  %-16s %.3f s\n", "decay time T30", f->t30_s);
    printf("  %-16s %+.2f dB at 0 Hz", "gain", db(fabs(f->dc_gain)));
    if (!isnan(f->response_peak) && rate)
        printf(", at most %+.2f dB for a sine (%.0f Hz)", db(f->response_peak), f->response_peak_hz);
    else if (!isnan(f->response_peak))
        printf(", at most %+.2f dB for a sine", db(f->response_peak));
    printf(", at most %+.2f dB for any signal (L1)\n", db(f->l1));
}

static void print_mask(const struct mask_info *subject)
{
    const hc_responses *mask = &subject->mask;
    printf("%s: %d channel%s, ", subject->file, mask->n_channels, message_s(mask->n_channels));
    if (mask->rate)
        printf("%d Hz, %d frames (%.3f s), ", mask->rate, mask->n_frames, (double)mask->n_frames / mask->rate);
    else
        printf("%d frames, ", mask->n_frames);
    printf("%s\n", subject->format);
    if (mask->file_rate != 0 && mask->file_rate != mask->rate) printf("resampled from %d Hz\n", mask->file_rate);
    for (int ch = 0; ch < mask->n_channels; ch++) print_channel(ch, &subject->figures[ch], mask->rate);
}

static void print_text(const struct mask_info *subject)
{
    if (is_configuration(subject))
        configuration_report_print(subject->file, &subject->mask);
    else
        print_mask(subject);
    plan_report_print(&subject->plan, subject->mask.rate ? subject->mask.rate : 48000);
}

static int print_one(const struct info_settings *settings)
{
    struct mask_info subject = {.settings = settings};
    int status = 0;
    if (!examine(&subject))
        status = message_error("%s", subject.why);
    else if (settings->json)
        status = print_json(&subject);
    else
        print_text(&subject);
    free(subject.figures);
    hc_responses_free(&subject.mask);
    return status;
}

int info_command(int argc, char **argv)
{
    struct info_settings settings = {.block = 64, .backend = "cpu", .plot = PLOT_CHOICE_USUAL};
    int status = option_parse(&info_line, argc, argv, &settings);
    if (status >= 0) return status;
    if (settings.names.n > 1 && (!settings.plot.path || settings.json))
        return message_usage("info", "takes several masks with --plot and without --json only");
    for (int i = 0; i < settings.names.n && status <= 0; i++) {
        settings.path = settings.names.list[i];
        status = print_one(&settings);
    }
    char why[MESSAGE_CAP];
    if (status == 0 && settings.plot.path &&
        !plot_masks(settings.names.list, settings.names.n, settings.rate, &settings.plot, &settings.pairs, why,
                    sizeof why))
        status = message_error("%s", why);
    return status;
}
