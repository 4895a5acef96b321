/* haloconv design correct - makes filters that bring measured loudspeakers to a target. */
#include "correction.h"
#include "correction_curve.h"
#include "correction_report.h"
#include "design_files.h"
#include "dsp/haloconv_masks.h"
#include "dsp/signal/transform.h"
#include "host/commands.h"
#include "host/json_print.h"
#include "host/masks/mask_write.h"
#include "host/message.h"
#include "host/option.h"
#include "host/plot/plot_masks.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- files, loudspeakers and positions -------------------------------------------------------- */

/* Assigns the responses in files to loudspeakers and positions of the microphone. */

enum layout_choice {
    LAYOUT_BY_NAME,   /* files of one channel each are loudspeakers if their names say which: L.wav, R.wav   */
    LAYOUT_CHANNELS,  /* files of one channel each are loudspeakers                                          */
    LAYOUT_POSITIONS, /* each file is a position, with a channel for each loudspeaker                        */
};

struct measurement_layout {
    int n_positions, n_channels;
    struct correction_response *responses; /* [n_positions][n_channels]                                              */
};

enum { LOUDSPEAKER_CAP = 64, LINE_CAP = 400 };

/* Words for loudspeakers in names of files, and their short forms. */
static const char *const words[][2] = {
    {"l", "l"},   {"left", "l"},  {"r", "r"},     {"right", "r"}, {"c", "c"},          {"center", "c"}, {"centre", "c"},
    {"fl", "fl"}, {"fr", "fr"},   {"fc", "fc"},   {"lf", "fl"},   {"rf", "fr"},        {"sl", "sl"},    {"sr", "sr"},
    {"ls", "sl"}, {"rs", "sr"},   {"bl", "bl"},   {"br", "br"},   {"lb", "bl"},        {"rb", "br"},    {"rl", "bl"},
    {"rr", "br"}, {"lfe", "sub"}, {"sub", "sub"}, {"sw", "sub"},  {"subwoofer", "sub"}};

static const char *loudspeaker_word(const char *word, size_t length)
{
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strlen(words[i][0]) == length && strncasecmp(words[i][0], word, length) == 0) return words[i][1];
    return NULL;
}

/* The words of loudspeakers in the name of a file, without folder and extension: "l" for "room/Left seat 2.wav". */
static void find_loudspeaker(const char *path, char *loudspeaker, size_t cap)
{
    const char *slash = strrchr(path, '/'), *at = slash ? slash + 1 : path, *dot = strrchr(at, '.');
    const char *end = dot ? dot : at + strlen(at);
    size_t n = 0;
    *loudspeaker = 0;
    while (at < end) {
        const char *start = at;
        while (at < end && isalnum((unsigned char)*at)) at++;
        const char *word = loudspeaker_word(start, (size_t)(at - start));
        if (word && n < cap) n += (size_t)snprintf(loudspeaker + n, cap - n, "%s ", word);
        while (at < end && !isalnum((unsigned char)*at)) at++;
    }
}

/* Writes the loudspeaker of each file to channel[n]. Returns the number of loudspeakers; 0: a name has none. */
static int channels_by_name(char *const *names, int n, int *channel)
{
    int n_channels = 0;
    char mine[LOUDSPEAKER_CAP], other[LOUDSPEAKER_CAP];
    for (int i = 0; i < n; i++) {
        find_loudspeaker(names[i], mine, sizeof mine);
        if (!*mine) return 0;
        channel[i] = n_channels;
        for (int k = 0; k < i && channel[i] == n_channels; k++) {
            find_loudspeaker(names[k], other, sizeof other);
            if (strcmp(mine, other) == 0) channel[i] = channel[k];
        }
        n_channels += channel[i] == n_channels;
    }
    return n_channels;
}

/* Fills in the loudspeakers of files with one channel each. false: why has the reason. */
static bool assign_channels(struct measurement_layout *l, const hc_responses *files, char *const *names, int n,
                            const int *channel, char *why, size_t cap)
{
    char line[LINE_CAP] = "";
    size_t at = 0;
    for (int ch = 0; ch < l->n_channels; ch++) {
        int position = 0;
        if (at < sizeof line)
            at += (size_t)snprintf(line + at, sizeof line - at, "%schannel %d:", ch ? ", " : "", ch + 1);
        for (int i = 0; i < n; i++) {
            if (channel[i] != ch) continue;
            if (at < sizeof line) at += (size_t)snprintf(line + at, sizeof line - at, " %s", names[i]);
            if (position < l->n_positions)
                l->responses[position * l->n_channels + ch] =
                    (struct correction_response){files[i].channel[0], files[i].n_frames, names[i], 1, files[i].start};
            position++;
        }
        if (position != l->n_positions)
            return message_write(
                why, cap,
                "%s: its loudspeaker has %d file%s, but that of %s has %d; measure each loudspeaker at every "
                "position, or give --positions",
                l->responses[ch].name, position, message_s(position), l->responses[0].name, l->n_positions);
    }
    message_note("the files are loudspeakers, %s%s; --positions would read them as positions of the microphone", line,
                 at < sizeof line ? "" : " ...");
    return true;
}

/* Each file is a position. */
static bool assign_positions(struct measurement_layout *l, const hc_responses *files, char *const *names, int n,
                             char *why, size_t cap)
{
    for (int i = 0; i < n; i++) {
        if (files[i].n_channels != l->n_channels)
            return message_write(why, cap, "%s: has %d channel%s, and %s has %d; measure every position alike",
                                 names[i], files[i].n_channels, message_s(files[i].n_channels), names[0],
                                 l->n_channels);
        for (int ch = 0; ch < l->n_channels; ch++)
            l->responses[i * l->n_channels + ch] =
                (struct correction_response){files[i].channel[ch], files[i].n_frames, names[i], ch + 1, files[i].start};
    }
    if (n > 1)
        message_note("the files are %d positions of the microphone%s", n,
                     l->n_channels == 1 ? "; --channels would read them as loudspeakers" : "");
    return true;
}

static bool lay_out(struct measurement_layout *l, enum layout_choice choice, const hc_responses *files,
                    char *const *names, int n, int *channel, char *why, size_t cap)
{
    int others = 0, n_named = choice == LAYOUT_POSITIONS ? 0 : channels_by_name(names, n, channel);
    for (int i = 0; i < n; i++)
        if (files[i].n_channels != 1) others = i + 1;
    if (others && choice == LAYOUT_CHANNELS)
        return message_write(why, cap, "--channels: %s has %d channels; give files of one channel each",
                             names[others - 1], files[others - 1].n_channels);
    bool by_name = n_named > 1 && !others;
    for (int i = 0; i < n && !by_name; i++) channel[i] = i;
    bool as_channels = by_name || choice == LAYOUT_CHANNELS;
    l->n_channels = by_name ? n_named : as_channels ? n : files[0].n_channels;
    l->n_positions = 0;
    for (int i = 0; i < n; i++) l->n_positions += !as_channels || channel[i] == 0;
    l->responses = calloc((size_t)l->n_positions * (size_t)l->n_channels, sizeof *l->responses);
    if (!l->responses)
        return message_write(why, cap, "design correct: no memory for %d measurements; free some memory", n);
    return as_channels ? assign_channels(l, files, names, n, channel, why, cap)
                       : assign_positions(l, files, names, n, why, cap);
}

/* Arranges files[n], whose paths are names[n], and prints a line if there are several. Files named after one
 * loudspeaker are its positions, in their order. Both arrays must outlive the layout. false: why has the reason, and
 * nothing has to be freed. */
static bool measurement_layout_make(struct measurement_layout *l, enum layout_choice choice, const hc_responses *files,
                                    char *const *names, int n, char *why, size_t cap)
{
    *l = (struct measurement_layout){0};
    int *channel = calloc((size_t)n, sizeof *channel);
    bool good = channel ? lay_out(l, choice, files, names, n, channel, why, cap)
                        : message_write(why, cap, "design correct: no memory for %d measurements; free some memory", n);
    free(channel);
    if (!good) free(l->responses);
    return good;
}

/* ---- the command ------------------------------------------------------------------------------ */

enum { MIN_TAPS = 64, MAX_TAPS = 1 << 20, MAX_FILES = 256 };

/* Octaves, in the order of the words of --smooth. */
static const double smoothings[] = {
    CORRECTION_VARIABLE, 0, 1.0, 1.0 / 2, 1.0 / 3, 1.0 / 6, 1.0 / 12, 1.0 / 24, 1.0 / 48};

struct correct_settings {
    struct option_names names; /* MEASUREMENT... */
    const char *output, *target, *calibration;
    int format, rate; /* rate 0: not given */
    bool json;
    double band_hz[2];
    int smooth, average;
    bool as_channels, as_positions;
    struct correction_settings correction;
    struct frequency_curve curve; /* the curve of `target` */
    struct plot_choice plot;
};

static const struct option_row file_options[] = {
    {"channels", 0, NULL,
     "Each file has one channel and is a loudspeaker; the filter has a channel for each [if the names say so: L.wav "
     "R.wav]",
     option_flag, OPTION_TO(struct correct_settings, as_channels)},
    {"positions", 0, NULL, "Each file is a position of the microphone, even if its name is that of a loudspeaker",
     option_flag, OPTION_TO(struct correct_settings, as_positions)},
    {"rate", 0, "HZ", "Sample rate of the filter [that of the first measurement]", option_int,
     OPTION_TO(struct correct_settings, rate), .min = 1000, .max = 1000000},
    MASK_WRITE_OPTIONS(struct correct_settings),
    PLOT_FILE_OPTIONS(struct correct_settings, plot,
                      "the magnitude of each channel as measured, as corrected, and the target"),
    {0}};

static const struct option_row correction_options[] = {
    {"cycles", 0, "N",
     "Length of the window after the direct sound, in periods of the frequency; 0: the whole response [15]",
     option_number, OPTION_TO(struct correct_settings, correction.cycles), .max = 1000},
    {"smooth", 0, "variable|off|1/1|1/2|1/3|1/6|1/12|1/24|1/48",
     "Smoothing in octaves; variable: 1/48 up to 100 Hz, 1/6 at 1 kHz, 1/3 from 10 kHz on [1/12]", option_choice,
     OPTION_TO(struct correct_settings, smooth)},
    {"average", 0, "power|complex",
     "How the measurements of several positions are averaged; complex keeps only what they have in common [power]",
     option_choice, OPTION_TO(struct correct_settings, average)},
    {"target", 0, "CURVE",
     "Text with a frequency in Hz and a gain in dB on each line; only the shape counts, not the level [flat]",
     option_text, OPTION_TO(struct correct_settings, target)},
    CALIBRATION_OPTION(OPTION_TO(struct correct_settings, calibration)),
    {"band", 0, "LOW,HIGH",
     "Correct these frequencies [up to where the response has fallen by 10 dB; there the target falls as well]",
     option_band, OPTION_TO(struct correct_settings, band_hz)},
    {"boost", 0, "DB", "Largest boost [6]", option_number, OPTION_TO(struct correct_settings, correction.boost_db),
     .max = 60},
    {"cut", 0, "DB", "Largest cut [24]", option_number, OPTION_TO(struct correct_settings, correction.cut_db),
     .max = 100},
    {0}};

static const struct option_row filter_options[] = {
    {"phase", 0, "minimum|linear|mixed",
     "Phase of the filter; mixed: minimum, and the excess phase of the response reversed below 300 Hz [minimum]",
     option_choice, OPTION_TO(struct correct_settings, correction.phase)},
    {"preringing", 0, "MS",
     "Longest ringing before a sound with mixed phase, which is also the delay of the filter [40]", option_number,
     OPTION_TO(struct correct_settings, correction.preringing_ms), .min = 1, .max = 500},
    {"taps", 0, "N", "Length of the filter [32768 at 44100 and 48000 Hz]", option_int,
     OPTION_TO(struct correct_settings, correction.taps), .min = MIN_TAPS, .max = MAX_TAPS},
    CORRECTION_LEVELS_OPTION(option_choice, OPTION_TO(struct correct_settings, correction.levels), "each"),
    CORRECTION_DELAYS_OPTION(option_choice, OPTION_TO(struct correct_settings, correction.delays)),
    {"normalise", 0, NULL, "Scale the filter such that its largest gain is 0 dB", option_flag,
     OPTION_TO(struct correct_settings, correction.normalise)},
    {0}};

static const struct command_line correct_line = {
    .command = "design correct",
    .usage = "MEASUREMENT... -o MASK",
    .text =
        "Makes a filter for each channel that brings a measured response to a target. A MEASUREMENT is a sound file or "
        "a text with an impulse response for each channel; several are positions of the microphone, or loudspeakers if "
        "their names say so. Prints the band, the boost, levels and arrivals, and how far the response is from the "
        "target, before and after, in 1/6 octave means of the whole "
        "response.\v"
        "  haloconv design correct left_and_right.wav -o filter.wav\n"
        "  haloconv design correct L.wav R.wav --levels align --delays align \\\n"
        "    -o filter.wav\n"
        "  haloconv design correct seat1.wav seat2.wav seat3.wav --phase mixed \\\n"
        "    --target house.txt -o filter.wav",
    .groups = {{NULL, file_options}, {"Correction:", correction_options}, {"Filter:", filter_options}},
    OPTION_NAMES("measurements", 1, MAX_FILES, struct correct_settings, names, 1)};

static int correct_parse(int argc, char **argv, struct correct_settings *s)
{
    *s = (struct correct_settings){.smooth = 6,
                                   .correction = {.cycles = 15, .boost_db = 6, .cut_db = 24, .preringing_ms = 40}};
    int status = option_parse(&correct_line, argc, argv, s);
    if (status < 0 && s->as_channels && s->as_positions)
        return message_usage("design correct", "--channels and --positions exclude each other; give one of them");
    if (status < 0) status = mask_write_check("design correct", s->output, s->format, s->json);
    if (status >= 0) return status;
    char *inputs[MAX_FILES + 2] = {(char *)s->target, (char *)s->calibration};
    memcpy(inputs + 2, s->names.list, (size_t)s->names.n * sizeof *inputs);
    status = mask_write_check_read(s->output, inputs, s->names.n + 2);
    return status >= 0 ? status : plot_check("design correct", &s->plot, s->output, inputs, s->names.n + 2);
}

/* Fills in the settings that depend on the rate. -1: go on; else the exit status. */
static int correct_choose(struct correct_settings *s, int rate)
{
    struct correction_settings *c = &s->correction;
    int status = design_band_check("design correct", s->band_hz, rate);
    if (status >= 0) return status;
    c->rate = rate;
    if (!c->taps) c->taps = (int)transform_size((size_t)rate * 2 / 3);
    c->octaves = smoothings[s->smooth];
    c->with_curves = s->plot.path != NULL;
    c->complex_average = s->average == 1;
    c->low_hz = s->band_hz[0];
    c->high_hz = s->band_hz[1];
    if (c->phase == CORRECTION_MIXED && c->preringing_ms * 1e-3 * rate > c->taps / 2.0)
        return message_usage("design correct",
                             "--preringing %g: is longer than half the filter; use --taps %.0f or more",
                             c->preringing_ms, c->preringing_ms * 2e-3 * rate);
    return -1;
}

/* ---- the run ------------------------------------------------------------------------------------ */

static int correct_make(const struct correct_settings *s, const struct measurement_layout *layout)
{
    static const char *const names[CORRECTION_CURVES] = {
        [CORRECTION_MEASURED] = "measured", [CORRECTION_TARGET] = "target", [CORRECTION_CORRECTED] = "corrected"};
    const struct correction_settings *settings = &s->correction;
    struct correction c;
    char why[MESSAGE_CAP];
    if (!correction_make(&c, settings, layout->responses, layout->n_positions, layout->n_channels, why, sizeof why))
        return message_error("%s", why);
    struct mask_out out = {s->output, s->format, settings->rate, c.n_channels, c.n_frames, c.h};
    struct plot_powers powers = {names,    CORRECTION_CURVES, "channel",      c.n_channels,
                                 c.curves, c.n_bins,          settings->rate, 1.0 / 6};
    bool good = mask_write(&out, why, sizeof why) &&
                (!s->plot.path || plot_powers(s->plot.path, &powers, &s->plot.settings, why, sizeof why));
    int status = good ? 0 : message_error("%s", why);
    if (good) {
        correction_print(&c, settings, s->output);
        if (s->json) status = json_print(correction_json(&c, settings), 12, s->output);
    }
    correction_free(&c);
    return status;
}

static int correct_run(struct correct_settings *s, hc_responses *measurements)
{
    char why[MESSAGE_CAP];
    int rate = s->rate;
    for (int i = 0; i < s->names.n; i++)
        if (!design_mask_read(&measurements[i], s->names.list[i], &rate, why, sizeof why))
            return message_error("%s", why);
    int status = correct_choose(s, rate);
    if (status >= 0) return status;
    if (s->target && !design_curve_read(&s->curve, s->target, why, sizeof why)) return message_error("%s", why);
    s->correction.target = s->target ? &s->curve : NULL;
    if (!calibration_read(&s->correction.calibration, s->calibration, why, sizeof why)) return message_error("%s", why);
    calibration_check_band(&s->correction.calibration, CORRECTION_LOW_HZ, fmin(CORRECTION_HIGH_HZ, 0.5 * rate));
    struct measurement_layout layout;
    enum layout_choice choice = s->as_channels ? LAYOUT_CHANNELS : s->as_positions ? LAYOUT_POSITIONS : LAYOUT_BY_NAME;
    if (!measurement_layout_make(&layout, choice, measurements, s->names.list, s->names.n, why, sizeof why))
        return message_error("%s", why);
    status = correct_make(s, &layout);
    free(layout.responses);
    return status;
}

int design_correct_command(int argc, char **argv)
{
    struct correct_settings settings;
    int status = correct_parse(argc, argv, &settings);
    if (status >= 0) return status;
    int n = settings.names.n;
    hc_responses *measurements = calloc((size_t)n, sizeof *measurements);
    status = measurements ? correct_run(&settings, measurements)
                          : message_error("design correct: no memory for %d measurements; free some memory", n);
    for (int i = 0; measurements && i < n; i++) hc_responses_free(&measurements[i]);
    free(measurements);
    frequency_curve_free(&settings.curve);
    calibration_free(&settings.correction.calibration);
    return status;
}
