/* haloconv info - what a mask is, and the plan for it. No GPU is touched: the answer comes at once. */
#include "configuration_report.h"
#include "dsp/haloconv_masks.h"
#include "host/commands.h"
#include "host/files/sound_format.h"
#include "host/files/sound_in.h"
#include "host/json_print.h"
#include "host/message.h"
#include "host/option.h"
#include "mask_analysis.h"
#include "mask_remarks.h"
#include "plan_report.h"

#include <getopt.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char help[] =
    "haloconv info MASK - what a mask is, and the plan for it\n"
    "\n"
    "MASK is a sound file, a text of coefficients (.txt, .csv) or a configuration (.conf).\n"
    "\n"
    "      --rate HZ        as it will be in a session of that rate; for a text, its rate            [the file's]\n"
    "      --backend NAME   the plan for cpu, for cuda or for hybrid, both                                    [cpu]\n"
    "      --block N        frames a call of the session that the plan is for, 0 = for files               [64]\n"
    "      --json           all of it as one object on standard output\n"
    "  -h, --help           this text\n"
    "\n"
    "For each channel: peak and RMS (dBFS), silence before the first sound (60 dB below the peak), decay time T30\n"
    "(60 dB, from the fall from -5 to -35 dB of the backward integral), the gain at 0 Hz, and the largest gain that\n"
    "the mask can give: to a sine (the peak of the frequency response), and to any signal (L1, the sum of |h|).\n"
    "For a configuration: its channels, how many responses it has and how long and large they are.\n"
    "\n"
    "  haloconv info hall.wav --json\n";

struct settings {
    const char *path;
    int rate, block;
    const char *backend;
    bool json;
};

struct subject {
    const struct settings *settings;
    hc_responses mask;
    char format[64];
    struct mask_figures *figures; /* [n_channels] */
    struct plan_report plan;
    char why[MESSAGE_CAP];
};

static int parse(int argc, char **argv, struct settings *s)
{
    static const struct option options[] = {
        {"rate", required_argument, NULL, 'r'},    {"block", required_argument, NULL, 'b'},
        {"backend", required_argument, NULL, 'k'}, {"json", no_argument, NULL, 'j'},
        {"help", no_argument, NULL, 'h'},          {NULL, 0, NULL, 0}};
    int option;
    *s = (struct settings){.block = 64, .backend = "cpu"};
    argv[0] = "haloconv";
    while ((option = getopt_long(argc, argv, "h", options, NULL)) != -1) {
        bool good = true;
        switch (option) {
        case 'r':
            good = option_int("info", "--rate", optarg, 1, 100000000, &s->rate);
            break;
        case 'b':
            good = option_int("info", "--block", optarg, 0, 1 << 20, &s->block);
            break;
        case 'k':
            s->backend = optarg;
            if (strcmp(optarg, "cpu") != 0 && strcmp(optarg, "cuda") != 0 && strncmp(optarg, "hybrid", 6) != 0)
                return message_usage("info", "--backend %s: needs cpu, cuda or hybrid", optarg);
            break;
        case 'j':
            s->json = true;
            break;
        case 'h':
            fputs(help, stdout);
            return 0;
        default:
            message_note("see `haloconv info --help`");
            return EXIT_USAGE;
        }
        if (!good) return EXIT_USAGE;
    }
    if (argc - optind != 1) return message_usage("info", "needs one MASK, and got %d names", argc - optind);
    s->path = argv[optind];
    return -1;
}

/* ---- looking ------------------------------------------------------------------------------------ */

static void name_format(struct subject *subject)
{
    struct sound_in in;
    char why[MESSAGE_CAP];
    snprintf(subject->format, sizeof subject->format, "text");
    if (subject->mask.file_rate == 0 || !sound_in_open(&in, subject->settings->path, NULL, why, sizeof why)) return;
    sound_format_name(in.format, subject->format, sizeof subject->format);
    sound_in_close(&in);
}

static bool is_configuration(const struct subject *subject)
{
    return subject->mask.in_port != NULL;
}

/* What an engine for it would do; of a file, a response a channel. */
static void ask_for_plan(struct subject *subject)
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
    config.max_taps = subject->mask.n_frames > 0 ? subject->mask.n_frames : 1; /* one without responses has none */
    config.backend = subject->settings->backend;
    plan_report_make(&subject->plan, &config);
}

static bool look(struct subject *subject)
{
    hc_responses *mask = &subject->mask;
    const struct settings *s = subject->settings;
    if (hc_responses_load(s->path, 0, s->rate, 0, mask, subject->why, sizeof subject->why) != HC_OK) return false;
    if (mask->rate == 0) mask->rate = s->rate;
    if (is_configuration(subject)) {
        mask_remarks_print(mask, s->path);
        ask_for_plan(subject);
        return true;
    }
    name_format(subject);
    subject->figures = calloc((size_t)mask->n_channels, sizeof *subject->figures);
    if (!subject->figures) return message_write(subject->why, sizeof subject->why, "%s: no memory; free some", s->path);
    mask_analyse(mask->channel, mask->n_channels, mask->n_frames, mask->rate, subject->figures);
    ask_for_plan(subject);
    return true;
}

/* ---- telling ------------------------------------------------------------------------------------ */

static double db(double linear)
{
    return linear > 0 ? 20 * log10(linear) : -INFINITY;
}

static json_t *number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *channel_json(const struct mask_figures *f, int rate)
{
    return json_pack("{s:o, s:o, s:i, s:o, s:o, s:o, s:i, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "peak",
                     number(f->peak), "peak_db", number(db(f->peak)), "peak_frame", f->peak_frame, "peak_s",
                     number(rate ? (double)f->peak_frame / rate : NAN), "rms", number(f->rms), "rms_db",
                     number(db(f->rms)), "leading_silence", f->leading_silence, "t30_s", number(f->t30_s), "t30_reason",
                     isnan(f->t30_s) ? json_string(f->t30_reason) : json_null(), "dc_gain", number(f->dc_gain),
                     "dc_gain_db", number(db(fabs(f->dc_gain))), "l1", number(f->l1), "l1_db", number(db(f->l1)),
                     "response_peak", number(f->response_peak), "response_peak_db", number(db(f->response_peak)),
                     "response_peak_hz", number(rate ? f->response_peak_hz : NAN));
}

/* The largest gain of all the channels, of what at() picks. */
static double largest(const struct subject *subject, double (*at)(const struct mask_figures *))
{
    double most = -INFINITY;
    for (int ch = 0; ch < subject->mask.n_channels; ch++) most = fmax(most, at(&subject->figures[ch]));
    return most;
}
static double l1_of(const struct mask_figures *f)
{
    return f->l1;
}
static double response_peak_of(const struct mask_figures *f)
{
    return f->response_peak;
}

static json_t *mask_json(const struct subject *subject)
{
    const hc_responses *mask = &subject->mask;
    json_t *channels = json_array(), *path = json_string(subject->settings->path);
    for (int ch = 0; ch < mask->n_channels; ch++)
        json_array_append_new(channels, channel_json(&subject->figures[ch], mask->rate));
    double seconds = mask->rate ? (double)mask->n_frames / mask->rate : NAN;
    return json_pack("{s:o, s:s, s:i, s:o, s:o, s:i, s:o, s:o, s:o, s:o}", "file", path ? path : json_null(), "format",
                     subject->format, "channels", mask->n_channels, "rate",
                     mask->rate ? json_integer(mask->rate) : json_null(), "file_rate",
                     mask->file_rate ? json_integer(mask->file_rate) : json_null(), "frames", mask->n_frames, "seconds",
                     number(seconds), "largest_gain_db", number(db(largest(subject, l1_of))), "largest_response_db",
                     number(db(largest(subject, response_peak_of))), "channel", channels);
}

static int print_json(const struct subject *subject)
{
    json_t *all = is_configuration(subject) ? configuration_report_json(subject->settings->path, &subject->mask)
                                            : mask_json(subject);
    if (all) json_object_set_new(all, "plan", plan_report_json(&subject->plan));
    return json_print(all, 9, subject->settings->path);
}

static void print_frames(const char *name, int frames, int rate)
{
    printf("  %-16s %d frames", name, frames);
    if (rate) printf(" (%.2f ms)", 1000.0 * frames / rate);
    putchar('\n');
}

static void print_channel(int ch, const struct mask_figures *f, int rate)
{
    printf("channel %d\n", ch);
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

static void print_mask(const struct subject *subject)
{
    const hc_responses *mask = &subject->mask;
    printf("%s: %d channel%s, ", subject->settings->path, mask->n_channels, mask->n_channels == 1 ? "" : "s");
    if (mask->rate)
        printf("%d Hz, %d frames (%.3f s), ", mask->rate, mask->n_frames, (double)mask->n_frames / mask->rate);
    else
        printf("%d frames, ", mask->n_frames);
    printf("%s\n", subject->format);
    if (mask->file_rate != 0 && mask->file_rate != mask->rate) printf("resampled from %d Hz\n", mask->file_rate);
    for (int ch = 0; ch < mask->n_channels; ch++) print_channel(ch, &subject->figures[ch], mask->rate);
}

static void print_text(const struct subject *subject)
{
    if (is_configuration(subject))
        configuration_report_print(subject->settings->path, &subject->mask);
    else
        print_mask(subject);
    plan_report_print(&subject->plan, subject->mask.rate ? subject->mask.rate : 48000);
}

int info_command(int argc, char **argv)
{
    struct settings settings;
    int status = parse(argc, argv, &settings);
    if (status >= 0) return status;
    struct subject subject = {.settings = &settings};
    status = 0;
    if (!look(&subject))
        status = message_error("%s", subject.why);
    else if (settings.json)
        status = print_json(&subject);
    else
        print_text(&subject);
    free(subject.figures);
    hc_responses_free(&subject.mask);
    return status;
}
