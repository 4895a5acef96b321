/* haloconv info - prints the figures of a mask, and the plan for it. It opens no GPU, so it answers at once. */
#include "bank_report.h"
#include "configuration_report.h"
#include "dsp/haloconv_masks.h"
#include "dsp/haloconv_scenes.h"
#include "host/commands.h"
#include "host/files/mask_diagnostics.h"
#include "host/files/sound_format.h"
#include "host/files/sound_in.h"
#include "host/json_print.h"
#include "host/message.h"
#include "host/option.h"
#include "host/plot/plot_masks.h"
#include "mask_report.h"
#include "plan_report.h"

#include <fnmatch.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct info_settings {
    struct option_names names; /* MASK, or several */
    const char *path;
    int rate, block;
    const char *backend;
    double grid_deg;
    bool plan, normalise, entries, json;
    struct plot_choice plot;
};

struct mask_info {
    const struct info_settings *settings;
    char file[PATH_MAX]; /* file that is read, with a rate in place of %r */
    hc_responses mask;
    char format[64];
    struct mask_report report;    /* report of a mask that is not a configuration */
    struct headroom headroom;     /* of a configuration     */
    struct source_report sources; /* of a configuration */
    struct plan_report plan;
    char why[MESSAGE_CAP];
};

static bool read_backend(const struct option_use *use, void *to)
{
    if (strcmp(use->text, "cpu") != 0 && strcmp(use->text, "cuda") != 0 && strncmp(use->text, "hybrid", 6) != 0)
        return option_refuse(use, "needs cpu, cuda or hybrid");
    return option_text(use, to);
}

static const struct option_row info_options[] = {
    {"rate", 0, "HZ", "Rate to resample the mask to; for a text, its rate [the file's]", option_int,
     OPTION_TO(struct info_settings, rate), .min = 1, .max = 100000000},
    {"backend", 0, "cpu|cuda|hybrid", "Backend that the plan is for [cpu]", read_backend,
     OPTION_TO(struct info_settings, backend)},
    {"block", 0, "N", "Block size in frames that the plan is for; 0: the plan for a file [64]", option_int,
     OPTION_TO(struct info_settings, block), .max = 1 << 20},
    {"plan", 0, NULL, "Print the plan, too: how an engine cuts the mask, its memory and its work", option_flag,
     OPTION_TO(struct info_settings, plan)},
    {"grid", 0, "DEG", "Interpolate a bank to a grid of directions, DEG degrees apart, before it is measured",
     option_number, OPTION_TO(struct info_settings, grid_deg), .min = 0.5, .max = 45},
    {"normalise", 0, NULL, "Scale a bank to a largest gain of 0 dB before it is measured", option_flag,
     OPTION_TO(struct info_settings, normalise)},
    {"entries", 0, NULL, "List the entries of a bank, too: position, onset and level of each", option_flag,
     OPTION_TO(struct info_settings, entries)},
    OPTION_JSON(OPTION_TO(struct info_settings, json)),
    PLOT_OPTIONS(struct info_settings, plot),
    {"pair", 0, "IN:OUT,...", "Responses of a configuration to plot, by input and output [the first 16]",
     plot_option_pairs, OPTION_TO(struct info_settings, plot.pairs)},
    {0}};

static const struct command_line info_line = {
    .command = "info",
    .usage = "MASK...",
    .text =
        "Prints the figures of a mask or a bank of responses. A mask is a sound file, a text of coefficients (.txt, "
        ".csv) or a configuration (.conf). A bank is a SOFA file, a list (.csv) or a folder of sound files.\v"
        "Each channel has its peak and RMS (dBFS), its true peak (dBTP), the silence before the first sound (60 dB "
        "below the peak), the gain "
        "at 0 Hz, and the largest gain: to a sine (the peak of the frequency response), and to any signal (L1, the sum "
        "of |h|). A room also has its acoustics by ISO 3382-1, broadband and by octave: decay times EDT, T20 and T30, "
        "clarity C50 and C80, definition D50, centre time Ts, direct-to-reverberant ratio DRR and noise floor. A "
        "configuration has its channels, the number, length and memory of its responses, its banks and sources. The "
        "last line is the gain that keeps sines below full scale. A bank has its entries, outputs and taps, the "
        "changes made to the file's responses, the range of its positions, and its largest gain.\n\n"
        "  haloconv info hall.wav --json\n"
        "  haloconv info kemar.sofa --grid 2\n"
        "  haloconv info kemar.sofa --entries --plot directions.svg\n"
        "  haloconv info before.wav after.wav --plot both.svg --smooth 1/6 \\\n"
        "    --panels magnitude,phase",
    .groups = {{NULL, info_options}},
    OPTION_NAMES("MASK", 1, INT_MAX, struct info_settings, names, 1)};

/* ---- the figures and the plan ------------------------------------------------------------------- */

static bool name_format(struct mask_info *subject)
{
    static const struct {
        const char *names, *format;
    } no_headers[] = {{"*.@(txt|csv)", "text"}, {"*.@(pcm|raw|bin|f32|dbl|f64)", "floats without a header"}};
    struct sound_in in;
    for (int i = 0; i < 2; i++) {
        if (fnmatch(no_headers[i].names, subject->file, FNM_CASEFOLD | FNM_EXTMATCH) != 0) continue;
        snprintf(subject->format, sizeof subject->format, "%s", no_headers[i].format);
        return true;
    }
    if (!sound_in_open(&in, subject->file, NULL, subject->why, sizeof subject->why)) return false;
    sound_format_name(in.format, subject->format, sizeof subject->format);
    sound_in_close(&in);
    return true;
}

static bool is_configuration(const struct mask_info *subject)
{
    return subject->mask.in_port != NULL;
}

/* Makes the plan of an engine for the mask; for a sound file with one response for each channel. */
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

static bool info_no_memory(struct mask_info *subject)
{
    return message_write(subject->why, sizeof subject->why, "%s: no memory for its figures; free some memory",
                         subject->file);
}

static bool examine(struct mask_info *subject)
{
    hc_responses *mask = &subject->mask;
    const struct info_settings *s = subject->settings;
    if (hc_responses_find(s->path, s->rate, subject->file, sizeof subject->file, subject->why, sizeof subject->why) !=
            HC_OK ||
        hc_responses_load(s->path, 0, s->rate, HC_WITH_SOURCES, mask, subject->why, sizeof subject->why) != HC_OK)
        return false;
    if (mask->rate == 0) mask->rate = s->rate;
    mask_diagnostics_print(mask, subject->file);
    if (!source_report_make(&subject->sources, mask, s->rate, subject->why, sizeof subject->why)) return false;
    if (is_configuration(subject)) return headroom_make(&subject->headroom, mask) || info_no_memory(subject);
    if (!name_format(subject)) return false;
    subject->report = (struct mask_report){.path = subject->file, .format = subject->format, .mask = mask};
    return mask_report_make(&subject->report) || info_no_memory(subject);
}

static int info_print_json(struct mask_info *subject)
{
    make_plan(subject);
    json_t *all = is_configuration(subject)
                      ? configuration_report_json(subject->file, &subject->mask, &subject->headroom, &subject->sources)
                      : mask_report_json(&subject->report);
    if (all) json_object_set_new(all, "plan", plan_report_json(&subject->plan));
    return json_print(all, 9, subject->file);
}

static void info_print_text(struct mask_info *subject)
{
    if (is_configuration(subject))
        configuration_report_print(subject->file, &subject->mask, &subject->headroom, &subject->sources);
    else
        mask_report_print(&subject->report);
    if (!subject->settings->plan) return;
    make_plan(subject);
    plan_report_print(&subject->plan, subject->mask.rate ? subject->mask.rate : 48000);
}

static int print_bank(const struct info_settings *s)
{
    hc_bank_options options = {.size = sizeof options, .grid_deg = s->grid_deg, .normalise = s->normalise};
    hc_bank_data bank = {.size = sizeof bank};
    char why[MESSAGE_CAP];
    int status = 0;
    if (s->plan) return message_usage("info", "--plan is for masks only, not for banks");
    if (s->plot.path && s->names.n > 1) return message_usage("info", "--plot draws one bank at a time");
    if (hc_bank_load(s->path, s->rate, &options, &bank, why, sizeof why) != HC_OK) return message_error("%s", why);
    if (s->plot.path && !bank.position) {
        hc_bank_data_free(&bank);
        return message_usage("info", "--plot is for banks with positions and for masks only");
    }
    if (s->json) {
        json_t *report = bank_report_json(s->path, &bank);
        if (report && s->entries) json_object_set_new(report, "entry_list", bank_entries_json(&bank));
        status = json_print(report, 9, s->path);
    } else {
        bank_report_print(s->path, &bank);
        if (s->entries) bank_entries_print(&bank);
    }
    if (status == 0 && s->plot.path && !bank_entries_plot(s->plot.path, s->path, &bank, why, sizeof why))
        status = message_error("%s", why);
    hc_bank_data_free(&bank);
    return status;
}

static int print_one(const struct info_settings *settings)
{
    if (hc_bank_is_file(settings->path)) return print_bank(settings);
    if (settings->grid_deg != 0 || settings->normalise || settings->entries)
        return message_usage("info", "--grid, --normalise and --entries are for banks only");
    struct mask_info subject = {.settings = settings};
    int status = 0;
    if (!examine(&subject))
        status = message_error("%s", subject.why);
    else if (settings->json)
        status = info_print_json(&subject);
    else
        info_print_text(&subject);
    mask_report_free(&subject.report);
    headroom_free(&subject.headroom);
    source_report_free(&subject.sources);
    hc_responses_free(&subject.mask);
    return status;
}

int info_command(int argc, char **argv)
{
    struct info_settings settings = {.block = 64, .backend = "cpu", .plot = PLOT_CHOICE_USUAL};
    int status = option_parse(&info_line, argc, argv, &settings);
    if (status >= 0) return status;
    if (settings.names.n > 1 && (!settings.plot.path || settings.json))
        return message_usage("info", "several masks can only be plotted; give --plot, and leave --json out");
    for (int i = 0; i < settings.names.n && status <= 0; i++) {
        settings.path = settings.names.list[i];
        status = print_one(&settings);
    }
    char why[MESSAGE_CAP];
    if (status == 0 && settings.plot.path && !hc_bank_is_file(settings.path) &&
        !plot_masks(settings.names.list, settings.names.n, settings.rate, &settings.plot, why, sizeof why))
        status = message_error("%s", why);
    return status;
}
