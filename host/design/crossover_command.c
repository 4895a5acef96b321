/* haloconv design crossover - makes the filters of a crossover, and a configuration that plays them. */
#include "crossover.h"
#include "dsp/base/number.h"
#include "host/commands.h"
#include "host/files/sound_format.h"
#include "host/files/text_out.h"
#include "host/json_print.h"
#include "host/masks/mask_write.h"
#include "host/message.h"
#include "host/option.h"
#include "host/plot/plot_masks.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_FRAMES = 1 << 24, MAX_INPUTS = 512, MAX_OUTPUTS = 1024 }; /* limits of a configuration */

struct crossover_settings {
    const char *output;
    int format, channels;
    int order; /* 0, 1, 2 mean order 2, 4, 8; -1: not given */
    bool json;
    struct crossover crossover;
    struct plot_choice plot;
    struct way_list {
        double value[CROSSOVER_MAX_CUTOFFS + 1];
        int n;                    /* 0: not given */
    } delays_ms, gains_db, signs; /* of the ways in the configuration; a sign is 1 or -1 */
    char configuration[PATH_MAX];
};

/* ---- options ------------------------------------------------------------------------------------ */

static bool read_cutoffs(const struct option_use *use, void *to)
{
    struct crossover *c = to;
    int n = c->n_cutoffs = number_list_read(use->text, c->cutoff_hz, CROSSOVER_MAX_CUTOFFS), i = 0;
    while (i < n && c->cutoff_hz[i] > (i ? c->cutoff_hz[i - 1] : 0)) i++;
    if (n && i == n) return true;
    return option_refuse(use, "needs at most %d rising frequencies in Hz with commas between, such as 300,3000",
                         CROSSOVER_MAX_CUTOFFS);
}

/* Reads a number for each way, from option->min to max. */
static bool read_way_numbers(const struct option_use *use, void *to)
{
    struct way_list *list = to;
    list->n = number_list_read(use->text, list->value, CROSSOVER_MAX_CUTOFFS + 1);
    int i = 0;
    while (i < list->n && list->value[i] >= use->row->min && list->value[i] <= use->row->max) i++;
    return (list->n && i == list->n) || option_refuse(use,
                                                      "needs numbers from %g to %g with commas between, one for "
                                                      "each way",
                                                      use->row->min, use->row->max);
}

static bool read_way_signs(const struct option_use *use, void *to)
{
    struct way_list *list = to;
    const char *at = use->text;
    for (list->n = 0; list->n <= CROSSOVER_MAX_CUTOFFS && *at && strchr("+-", *at); at += at[1] == ',' ? 2 : 1) {
        list->value[list->n++] = *at == '-' ? -1 : 1;
        if (at[1] == 0) return true;
        if (at[1] != ',') break;
    }
    return option_refuse(use, "needs + or - for each way with commas between, such as +,-,+");
}

static const struct option_row crossover_options[] = {
    {"output", 'o', "FILE",
     "A sound file with a channel for each way, or .txt or .csv for text; the configuration is beside it, with the "
     "extension .conf",
     option_text, OPTION_TO(struct crossover_settings, output)},
    {"cutoff", 0, "HZ,HZ,...", "Where the ways meet; N ways have N - 1 cutoffs", read_cutoffs,
     OPTION_TO(struct crossover_settings, crossover)},
    {"type", 0, "linkwitz-riley|linear|steep",
     "linkwitz-riley: no latency, the ways add up to an all-pass; linear: the same magnitudes with linear phase, the "
     "ways add up to a delay; steep: linear phase, with as many taps as --transition needs [linkwitz-riley]",
     option_choice, OPTION_TO(struct crossover_settings, crossover.type)},
    {"order", 0, "2|4|8", "Slopes of 12, 24 or 48 dB an octave, of linkwitz-riley and linear [4]", option_choice,
     OPTION_TO(struct crossover_settings, order)},
    {"error", 0, "DB",
     "Cut the end of a filter: the cut part has at most this energy, relative to the whole filter [-170]",
     option_number, OPTION_TO(struct crossover_settings, crossover.error_db), .min = -200, .max = -20},
    {"attenuation", 0, "DB", "Attenuation of the stop bands of steep [80]", option_number,
     OPTION_TO(struct crossover_settings, crossover.attenuation_db), .min = 21, .max = 140},
    {"transition", 0, "HZ", "Width from pass band to stop band of steep [half of each cutoff]", option_number,
     OPTION_TO(struct crossover_settings, crossover.transition_hz), .min = 0.1, .max = 1e8},
    {"delays", 0, "MS,MS,...", "Delay of each way in the configuration, in whole frames [0]", read_way_numbers,
     OPTION_TO(struct crossover_settings, delays_ms), .max = 1000},
    {"gains", 0, "DB,DB,...", "Gain of each way in the configuration [0]", read_way_numbers,
     OPTION_TO(struct crossover_settings, gains_db), .min = -100, .max = 40},
    {"polarity", 0, "+|-,...", "Polarity of each way in the configuration; - inverts it [+]", read_way_signs,
     OPTION_TO(struct crossover_settings, signs)},
    {"channels", 0, "N", "Channels that the configuration cuts into bands [2]", option_int,
     OPTION_TO(struct crossover_settings, channels), .min = 1, .max = MAX_INPUTS},
    {"rate", 0, "HZ", "Sample rate [48000]", option_int, OPTION_TO(struct crossover_settings, crossover.rate), .min = 1,
     .max = 100000000},
    OPTION_FORMAT(OPTION_TO(struct crossover_settings, format), "OUTPUT's extension and float"),
    OPTION_JSON(OPTION_TO(struct crossover_settings, json)),
    PLOT_OPTIONS(struct crossover_settings, plot),
    {0}};

static const struct command_line crossover_line = {
    .command = "design crossover",
    .usage = "--cutoff HZ,... -o MASK",
    .text = "Makes the filters of a crossover, and a configuration (.conf) that plays them: each of its inputs has an "
            "output for each way, with the band in its name. Prints taps, delay, and how exact filters and their sum "
            "are; these are measured on the taps as floats.\v"
            "  haloconv design crossover --cutoff 300,3000 -o xo.wav\n"
            "  haloconv design crossover --cutoff 2000 --delays 0.2,0 -o xo.wav\n"
            "  haloconv jack xo.conf",
    .groups = {{NULL, crossover_options}}};

/* Sets options that are not given, and refuses options that the type does not use. -1: go on; else the exit status. */
static int choose_filters(struct crossover_settings *s)
{
    struct crossover *c = &s->crossover;
    bool is_steep = c->type == CROSSOVER_STEEP;
    if (is_steep && (s->order >= 0 || c->error_db < 0))
        return message_usage("design crossover", "--type steep: --order and --error have no effect; use --transition");
    if (!is_steep && (c->attenuation_db > 0 || c->transition_hz > 0))
        return message_usage("design crossover", "--attenuation and --transition are for --type steep; give that "
                                                 "type, or leave them out");
    c->order = s->order >= 0 ? 2 << s->order : 4;
    if (!(c->error_db < 0)) c->error_db = -170;
    if (!(c->attenuation_db > 0)) c->attenuation_db = 80;
    return -1;
}

static int check_steep(const struct crossover *c)
{
    for (int i = 0; i < c->n_cutoffs; i++) {
        double width = crossover_transition(c, i), below = c->cutoff_hz[i];
        double above = (i + 1 < c->n_cutoffs ? c->cutoff_hz[i + 1] : 0.5 * c->rate) - c->cutoff_hz[i];
        if (width > 2 * fmin(below, above))
            return message_usage("design crossover", "--transition %g: must be at most %g at the cutoff %g", width,
                                 2 * fmin(below, above), c->cutoff_hz[i]);
        if (crossover_steep_taps(c, i) > MAX_FRAMES / 2)
            return message_usage("design crossover", "--transition %g: needs too many taps; widen it", width);
    }
    return -1;
}

static int crossover_check(const struct crossover_settings *s)
{
    const struct crossover *c = &s->crossover;
    if (!c->n_cutoffs) return message_usage("design crossover", "needs --cutoff HZ, or several with commas between");
    const struct way_list *lists[] = {&s->delays_ms, &s->gains_db, &s->signs};
    static const char *const names[] = {"--delays", "--gains", "--polarity"};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        if (lists[i]->n && lists[i]->n != c->n_cutoffs + 1)
            return message_usage("design crossover", "%s: has %d value%s, but there are %d ways; give one for each way",
                                 names[i], lists[i]->n, message_s(lists[i]->n), c->n_cutoffs + 1);
    double max = c->cutoff_hz[c->n_cutoffs - 1];
    if (!(max < 0.5 * c->rate))
        return message_usage("design crossover", "--cutoff %g: must be below half the rate, %g Hz", max, 0.5 * c->rate);
    if (s->channels * (c->n_cutoffs + 1) > MAX_OUTPUTS)
        return message_usage("design crossover",
                             "--channels %d: makes too many outputs; a configuration has at most %d", s->channels,
                             MAX_OUTPUTS);
    if (s->output && strcmp(s->output, "-") == 0)
        return message_usage("design crossover", "-o -: the configuration needs the name of a file; give one");
    for (const char *at = s->output; at && *at; at++)
        if ((unsigned char)*at < ' ')
            return message_usage("design crossover", "-o: a configuration cannot name a file with control characters");
    int status = c->type == CROSSOVER_STEEP ? check_steep(c) : -1;
    if (status < 0) status = mask_write_check("design crossover", s->output, s->format, s->json);
    return status >= 0 ? status : plot_check("design crossover", &s->plot, s->output, NULL, 0);
}

static int crossover_parse(int argc, char **argv, struct crossover_settings *s)
{
    *s = (struct crossover_settings){
        .channels = 2, .order = -1, .crossover = {.rate = 48000}, .plot = PLOT_CHOICE_USUAL};
    int status = option_parse(&crossover_line, argc, argv, s);
    if (status < 0) status = choose_filters(s);
    if (status < 0) status = crossover_check(s);
    if (status >= 0) return status;
    const char *slash = strrchr(s->output, '/'), *dot = strrchr(s->output, '.');
    int stem =
        (int)(dot && (!slash || dot > slash + 1) && dot > s->output ? (size_t)(dot - s->output) : strlen(s->output));
    if (snprintf(s->configuration, sizeof s->configuration, "%.*s.conf", stem, s->output) < PATH_MAX) return -1;
    return message_usage("design crossover", "%s: the name is too long; give a shorter one", s->output);
}

/* ---- the configuration -------------------------------------------------------------------------- */

/* Returns "to-300Hz", "300-3000Hz" or "from-3000Hz". */
static const char *band_name(const struct crossover *c, int way, char *text, size_t cap)
{
    if (way == 0)
        snprintf(text, cap, "to-%.10gHz", c->cutoff_hz[0]);
    else if (way == c->n_cutoffs)
        snprintf(text, cap, "from-%.10gHz", c->cutoff_hz[way - 1]);
    else
        snprintf(text, cap, "%.10g-%.10gHz", c->cutoff_hz[way - 1], c->cutoff_hz[way]);
    return text;
}

/* Writes the name of a file, in quotes if it needs them. */
static void print_file_name(FILE *file, const char *name)
{
    const char *quote = strpbrk(name, " \t\"'\\#") ? "\"" : "";
    fputs(quote, file);
    for (; *name; name++) fprintf(file, strchr("\"\\", *name) ? "\\%c" : "%c", *name);
    fputs(quote, file);
}

static int way_delay_frames(const struct crossover_settings *s, int way)
{
    return (int)rint(s->delays_ms.value[way] * 1e-3 * s->crossover.rate);
}

static double way_gain(const struct crossover_settings *s, int way)
{
    return (s->signs.n ? s->signs.value[way] : 1) * exp10(s->gains_db.value[way] / 20);
}

static void print_crossover_configuration(FILE *file, const void *data)
{
    const struct crossover_settings *s = data;
    static const char *const types[] = {"Linkwitz-Riley", "linear phase", "linear phase, steep"};
    const struct crossover *c = &s->crossover;
    const char *slash = strrchr(s->output, '/'), *name = slash ? slash + 1 : s->output;
    char band[64];
    int last = 0; /* the longest delay */
    for (int way = 0; way < c->n_ways; way++) last = way_delay_frames(s, way) > last ? way_delay_frames(s, way) : last;
    fprintf(file, "# A crossover of %d ways, %s, delay %d frames at %d Hz, made by haloconv design crossover\n",
            c->n_ways, types[c->type], c->delay, c->rate);
    fprintf(file, "/convolver/new %d %d 256 %d\n", s->channels, s->channels * c->n_ways, c->n_frames + last);
    for (int ch = 1; ch <= s->channels; ch++) fprintf(file, "/input/name %d in-%d\n", ch, ch);
    for (int ch = 1, out = 1; ch <= s->channels; ch++)
        for (int way = 0; way < c->n_ways; way++, out++)
            fprintf(file, "/output/name %d %d-%s\n", out, ch, band_name(c, way, band, sizeof band));
    for (int ch = 1, out = 1; ch <= s->channels; ch++)
        for (int way = 0; way < c->n_ways; way++, out++) {
            fprintf(file, "/impulse/read %d %d %.9g %d 0 0 %d ", ch, out, way_gain(s, way), way_delay_frames(s, way),
                    way + 1);
            print_file_name(file, name);
            fputc('\n', file);
        }
}

/* The user may have edited the configuration, or it plays another output of the same name. */
static bool may_write(const struct crossover_settings *s, char *why, size_t cap)
{
    const char *slash = strrchr(s->output, '/');
    char *words = NULL;
    size_t n;
    FILE *memory = open_memstream(&words, &n);
    if (memory) {
        fputc(' ', memory);
        print_file_name(memory, slash ? slash + 1 : s->output);
        fputc('\n', memory);
    }
    bool good = memory && fclose(memory) == 0;
    good = good ? text_out_may_replace(s->configuration, words, why, cap)
                : message_write(why, cap, "%s: no memory; free some memory", s->configuration);
    free(words);
    return good;
}

/* ---- the command -------------------------------------------------------------------------------- */

static int crossover_report(const struct crossover_settings *s)
{
    const struct crossover *c = &s->crossover;
    struct crossover_figures figures;
    if (message_is_quiet() && !s->json) return 0;
    if (!crossover_measure(c, &figures)) return message_error("%s: no memory to measure it; use --quiet", s->output);
    bool is_steep = c->type == CROSSOVER_STEEP;
    double error_db = 20 * log10(figures.error), attenuation_db = -error_db;
    message_note("%s: %d ways, %d taps at %d Hz, delay %d frame%s (%.2f ms)", s->output, c->n_ways, c->n_frames,
                 c->rate, c->delay, message_s(c->delay), 1e3 * c->delay / c->rate);
    if (is_steep)
        message_note("%s: attenuates the stop bands by %.1f dB", s->output, attenuation_db);
    else
        message_note("%s: every filter is within %.1f dB of the exact response", s->output, error_db);
    bool is_changed = s->delays_ms.n || s->gains_db.n || s->signs.n;
    message_note("%s: the ways add up to %s within %.2g dB%s", s->output,
                 c->type == CROSSOVER_LINKWITZ_RILEY ? "an all-pass" : "a delay", figures.sum_db,
                 is_changed ? ", without the delays, gains and polarity of the configuration" : "");
    for (int way = 0; way < c->n_ways; way++)
        if (way_gain(s, way) != 1 || way_delay_frames(s, way))
            message_note("%s: way %d: %s, delay %d frame%s (%.3f ms)%s", s->configuration, way + 1,
                         message_db(s->gains_db.value[way], 1, "dB").text, way_delay_frames(s, way),
                         message_s(way_delay_frames(s, way)), 1e3 * way_delay_frames(s, way) / c->rate,
                         way_gain(s, way) < 0 ? ", inverted" : "");
    message_note("%s: %d input%s, %d outputs", s->configuration, s->channels, message_s(s->channels),
                 s->channels * c->n_ways);
    if (!s->json) return 0;
    json_t *cutoffs = json_array();
    for (int i = 0; i < c->n_cutoffs; i++) json_array_append_new(cutoffs, json_real(c->cutoff_hz[i]));
    return json_print(json_pack("{s:s, s:i, s:i, s:i, s:i, s:o, s:o, s:f, s:o}", "kind", "crossover", "rate", c->rate,
                                "ways", c->n_ways, "taps", c->n_frames, "delay", c->delay, "cutoff", cutoffs,
                                is_steep ? "attenuation_db" : "error_db",
                                json_number(is_steep ? attenuation_db : error_db), "sum_db", figures.sum_db,
                                "configuration", json_text(s->configuration)),
                      12, s->output);
}

int design_crossover_command(int argc, char **argv)
{
    struct crossover_settings settings;
    char why[MESSAGE_CAP];
    int status = crossover_parse(argc, argv, &settings);
    if (status >= 0) return status;
    struct crossover *c = &settings.crossover;
    bool good = may_write(&settings, why, sizeof why);
    if (good && !crossover_make(c))
        good = message_write(why, sizeof why, "%s: no memory; raise the lowest cutoff", settings.output);
    if (good && c->n_frames > MAX_FRAMES)
        good = message_write(why, sizeof why, "%s: would have %d taps, and a configuration holds %d; raise --error",
                             settings.output, c->n_frames, MAX_FRAMES);
    struct mask_out out = {settings.output, settings.format, c->rate, c->n_ways, c->n_frames, c->h};
    good = good && mask_write(&out, why, sizeof why) &&
           text_out_marked(settings.configuration, print_crossover_configuration, &settings, why, sizeof why);
    status = good ? crossover_report(&settings) : message_error("%s", why);
    free(c->h);
    return plot_written(status, settings.output, c->rate, &settings.plot);
}
