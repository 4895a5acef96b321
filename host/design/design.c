/* haloconv design - makes a filter or a room, and writes the mask. */
#include "design_report.h"
#include "dsp/base/number.h"
#include "host/commands.h"
#include "host/masks/mask_write.h"
#include "host/message.h"
#include "host/option.h"
#include "host/plot/plot_masks.h"
#include "host/splitmix64.h"

#include <limits.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* ---- a synthetic room ------------------------------------------------------------------------- */

/* The impulse response of a synthetic room: white Gaussian noise that decays by 60 dB in rt60_s. The same
 * seed gives the same room on every machine. */

/* xoshiro256** 1.0 by Blackman and Vigna (2018), public domain, prng.di.unimi.it; seeded through splitmix64 as they
 * recommend. */
struct generator {
    uint64_t s[4];
};

static uint64_t rotate_left(uint64_t x, int k)
{
    return (x << k) | (x >> (64 - k));
}

static uint64_t generator_next(struct generator *g)
{
    uint64_t result = rotate_left(g->s[1] * 5, 7) * 9, t = g->s[1] << 17;
    g->s[2] ^= g->s[0];
    g->s[3] ^= g->s[1];
    g->s[1] ^= g->s[2];
    g->s[0] ^= g->s[3];
    g->s[2] ^= t;
    g->s[3] = rotate_left(g->s[3], 45);
    return result;
}

/* Returns a number in (0, 1]: its logarithm is finite. */
static double uniform(struct generator *g)
{
    return (double)((generator_next(g) >> 11) + 1) * 0x1p-53;
}

/* Box and Muller (1958); one of the two numbers is enough. */
static double gaussian(struct generator *g)
{
    double radius = sqrt(-2 * log(uniform(g)));
    return radius * cos(2 * 3.14159265358979323846 * uniform(g));
}

/* h[n_frames] of channel ch: `predelay` frames of silence, then the decaying noise; its energy (sum of squares) is 1.
 * */
static void random_room_fill(uint64_t seed, int ch, int rate, double rt60_s, int predelay, int n_frames, double *h)
{
    uint64_t first = seed + 0x632be59bd9b4e019u * (uint64_t)ch; /* each channel has its own noise */
    struct generator g;
    for (int i = 0; i < 4; i++) g.s[i] = splitmix64(first + (uint64_t)i * SPLITMIX64_STEP);
    double energy = 0, decay = -3 * log(10) / (rt60_s * rate); /* 60 dB are a factor of 10^3 */
    for (int i = 0; i < n_frames; i++) {
        h[i] = i < predelay ? 0 : gaussian(&g) * exp(decay * (i - predelay));
        energy += h[i] * h[i];
    }
    for (int i = 0; i < n_frames && energy > 0; i++) h[i] /= sqrt(energy);
}

/* ---- the command ------------------------------------------------------------------------------ */

enum { MAX_TAPS = 1 << 26, SAME_AS_RT60 = -1 };

/* ---- options ------------------------------------------------------------------------------------ */

static bool read_cutoff(const struct option_use *use, void *to)
{
    struct design_settings *s = to;
    s->n_cutoffs = number_list_read(use->text, s->cutoff_hz, 2);
    return s->n_cutoffs || option_refuse(use, "needs one frequency in Hz, or two with a comma between");
}

static const struct option_row design_options[] = {{"rate", 0, "HZ", "Sample rate [48000]", option_int,
                                                    OPTION_TO(struct design_settings, rate), .min = 1,
                                                    .max = 100000000},
                                                   MASK_WRITE_OPTIONS(struct design_settings),
                                                   PLOT_OPTIONS(struct design_settings, plot),
                                                   {0}};

static const struct option_row filter_options[] = {
    {"cutoff", 0, "HZ[,HZ]",
     "Cutoffs, at which the gain is 1/2: one frequency for lowpass and highpass, two for bandpass and bandstop",
     read_cutoff, .to = 0},
    {"taps", 0, "N", "Number of taps; odd for highpass, bandstop and hilbert", option_int,
     OPTION_TO(struct design_settings, taps), .min = 1, .max = MAX_TAPS},
    {"window", 0, "rectangular|hann|hamming|blackman|blackmanharris|kaiser", "Window of the FIR [hamming]",
     option_choice, OPTION_TO(struct design_settings, window)},
    {"attenuation", 0, "DB",
     "Use a Kaiser window of this attenuation; with --transition and without --taps, also use as many taps as it "
     "needs (Kaiser, 1974)",
     option_number, OPTION_TO(struct design_settings, attenuation_db), .min = 8, .max = 300},
    {"transition", 0, "HZ", "Width from pass band to stop band, for --attenuation", option_number,
     OPTION_TO(struct design_settings, transition_hz), .min = 1e-3, .max = 1e8},
    {"beta", 0, "B", "The shape of a Kaiser window, instead of --attenuation", option_number,
     OPTION_TO(struct design_settings, beta), .max = 100},
    {0}};

static const struct option_row room_options[] = {
    {"rt60", 0, "SECONDS", "Time in which the noise decays by 60 dB", option_number,
     OPTION_TO(struct design_settings, rt60_s), .min = 1e-3, .max = 600},
    {"length", 0, "SECONDS", "Length without the predelay [as --rt60]", option_number,
     OPTION_TO(struct design_settings, length_s), .min = 1e-5, .max = 600},
    {"predelay", 0, "MS", "Silence in front [0]", option_number, OPTION_TO(struct design_settings, predelay_ms),
     .max = 60000},
    {"channels", 0, "N", "Channels, independent of each other [2]", option_int,
     OPTION_TO(struct design_settings, channels), .min = 1, .max = 1024},
    {"seed", 0, "N", "The same seed gives the same room everywhere [1]", option_int,
     OPTION_TO(struct design_settings, seed), .max = INT_MAX},
    {0}};

static const struct command_line design_line = {
    .command = "design",
    .usage = "KIND -o MASK",
    .text =
        "Makes a filter or a room. KIND is lowpass, highpass, bandpass or bandstop: a linear-phase FIR by the window "
        "method, with gain 1 in the pass band and (taps - 1) / 2 frames of delay; hilbert: a filter that shifts the "
        "phase of every frequency by 90 degrees; or room: decaying noise, of energy 1. Prints taps, delay, ripple and "
        "attenuation; these are measured on the mask. The filters of design correct, design target, design invert, "
        "design minphase and design crossover have their own options: see `haloconv design correct --help`, ...\v"
        "  haloconv design lowpass --cutoff 8000 --attenuation 80 --transition 500 \\\n"
        "    -o lp.wav\n"
        "  haloconv design room --rt60 1.8 --predelay 20 -o room.wav",
    .groups = {{NULL, design_options}, {"Filters:", filter_options}, {"Rooms:", room_options}},
    OPTION_NAMES("one KIND", 1, 1, struct design_settings, names, 0)};

static int parse_kind(const char *text, enum design_kind *kind)
{
    for (int i = 0; i < KINDS; i++)
        if (strcmp(text, design_kind_names[i]) == 0) {
            *kind = (enum design_kind)i;
            return -1;
        }
    return message_usage("design",
                         "%s: is not a KIND; give lowpass, highpass, bandpass, bandstop, hilbert or room, or begin "
                         "with correct, target, invert, minphase or crossover",
                         text);
}

static int design_parse(int argc, char **argv, struct design_settings *s)
{
    *s = (struct design_settings){.rate = 48000,
                                  .window = -1,
                                  .beta = NAN,
                                  .length_s = SAME_AS_RT60,
                                  .channels = 2,
                                  .seed = 1,
                                  .plot = PLOT_CHOICE_USUAL};
    int status = option_parse(&design_line, argc, argv, s);
    if (status < 0) status = parse_kind(s->names.list[0], &s->kind);
    if (status < 0) status = mask_write_check("design", s->output, s->format, s->json);
    return status >= 0 ? status : plot_check("design", &s->plot, s->output, NULL, 0);
}

/* ---- filters ------------------------------------------------------------------------------------ */

static int check_cutoffs(const struct design_settings *s)
{
    const char *kind = design_kind_names[s->kind];
    int needs = s->kind == KIND_HILBERT ? 0 : s->kind == KIND_BANDPASS || s->kind == KIND_BANDSTOP ? 2 : 1;
    if (s->n_cutoffs != needs && needs == 0)
        return message_usage("design", "%s: has no cutoff; leave --cutoff out", kind);
    if (s->n_cutoffs != needs && needs == 1) return message_usage("design", "%s: needs --cutoff HZ", kind);
    if (s->n_cutoffs != needs) return message_usage("design", "%s: needs --cutoff HZ,HZ", kind);
    for (int i = 0; i < needs; i++)
        if (!(s->cutoff_hz[i] > 0 && s->cutoff_hz[i] < 0.5 * s->rate))
            return message_usage("design", "--cutoff %g: must be above 0 and below half the rate, %g Hz",
                                 s->cutoff_hz[i], 0.5 * s->rate);
    if (needs == 2 && !(s->cutoff_hz[0] < s->cutoff_hz[1]))
        return message_usage("design", "--cutoff %g,%g: must rise; give the lower one first", s->cutoff_hz[0],
                             s->cutoff_hz[1]);
    return -1;
}

/* Chooses window, beta and length by the options. -1: go on; else the exit status. */
static int choose_filter(struct design_settings *s, struct design *design)
{
    int status = check_cutoffs(s);
    if (status >= 0) return status;
    bool odd = s->kind == KIND_HIGHPASS || s->kind == KIND_BANDSTOP || s->kind == KIND_HILBERT;
    bool has_beta = !isnan(s->beta), kaiser = s->attenuation_db > 0 || has_beta;
    if (kaiser && s->window >= 0 && s->window != FIR_KAISER)
        return message_usage("design", "--attenuation and --beta shape a Kaiser window; leave --window %s out",
                             fir_window_names[s->window]);
    if (s->attenuation_db > 0 && has_beta)
        return message_usage("design", "--attenuation and --beta have the same effect; give one of them");
    if (s->window == FIR_KAISER && !kaiser)
        return message_usage("design", "--window kaiser: needs --attenuation DB or --beta B");
    if (!s->taps && !(s->attenuation_db > 0 && s->transition_hz > 0))
        return message_usage("design", "%s: needs --taps N, or --attenuation DB and --transition HZ",
                             design_kind_names[s->kind]);
    if (s->window < 0) s->window = kaiser ? FIR_KAISER : FIR_HAMMING;
    design->beta = has_beta ? s->beta : kaiser ? fir_kaiser_beta(s->attenuation_db) : NAN;
    if (s->taps) {
        design->n_frames = s->taps;
    } else {
        double width = s->transition_hz / (0.5 * s->rate);
        if (!(width < 1))
            return message_usage("design", "--transition %g: must be below half the rate, %g Hz", s->transition_hz,
                                 0.5 * s->rate);
        double taps = fir_kaiser_length(s->attenuation_db, width);
        if (taps > MAX_TAPS)
            return message_usage("design", "--transition %g: needs more than %d taps; widen it", s->transition_hz,
                                 MAX_TAPS);
        design->n_frames = odd ? (int)taps | 1 : (int)taps;
    }
    if (odd && design->n_frames % 2 == 0)
        return message_usage("design",
                             "--taps %d: %s needs an odd number, because an even filter has no gain at half "
                             "the rate; use %d",
                             s->taps, design_kind_names[s->kind], s->taps + 1);
    design->n_channels = 1;
    return -1;
}

static bool fill_filter(const struct design_settings *s, struct design *design)
{
    double edges[2] = {2 * s->cutoff_hz[0] / s->rate, 2 * s->cutoff_hz[1] / s->rate};
    double *w = malloc((size_t)design->n_frames * sizeof *w);
    if (!w) return false;
    fir_window_fill((enum fir_window)s->window, design->beta, design->n_frames, w);
    if (s->kind == KIND_HILBERT)
        fir_hilbert_fill(w, design->n_frames, design->h);
    else
        fir_band_fill((enum fir_band)s->kind, edges, w, design->n_frames, design->h);
    free(w);
    return true;
}

/* A window that is 0 at every tap, as hann is at 2 taps, leaves 0 / 0. */
static bool is_finite(const struct design *design)
{
    int i = 0;
    while (i < design->n_frames && isfinite(design->h[i])) i++;
    return i == design->n_frames;
}

/* ---- rooms -------------------------------------------------------------------------------------- */

static int choose_room(struct design_settings *s, struct design *design)
{
    if (!(s->rt60_s > 0)) return message_usage("design", "room: needs --rt60 S");
    if (s->n_cutoffs || s->taps || s->window >= 0 || !isnan(s->beta) || s->attenuation_db > 0 || s->transition_hz > 0)
        return message_usage("design", "room: filter options have no effect; use --rt60 and --length");
    if (s->length_s == SAME_AS_RT60) s->length_s = s->rt60_s;
    double frames = s->predelay_ms * 1e-3 * s->rate + ceil(s->length_s * s->rate);
    if (frames * s->channels > MAX_TAPS)
        return message_usage("design", "room: %.0f frames of %d channels are too many; shorten --length", frames,
                             s->channels);
    design->n_frames = design_predelay(s) + (int)ceil(s->length_s * s->rate);
    design->n_channels = s->channels;
    design->beta = NAN;
    return -1;
}

static bool fill_room(const struct design_settings *s, struct design *design)
{
    for (int ch = 0; ch < design->n_channels; ch++)
        random_room_fill((uint64_t)s->seed, ch, s->rate, s->rt60_s, design_predelay(s), design->n_frames,
                         design->h + (size_t)ch * (size_t)design->n_frames);
    return true;
}

/* ---- the command -------------------------------------------------------------------------------- */

static int design_make(const struct design_settings *s, struct design *design)
{
    char why[MESSAGE_CAP];
    if (!design->h || !(s->kind == KIND_ROOM ? fill_room(s, design) : fill_filter(s, design)))
        return message_error("design: no memory for %d taps; use fewer", design->n_frames);
    if (!is_finite(design))
        return message_error("design: the window %s is 0 at all %d taps; use more taps", fir_window_names[s->window],
                             design->n_frames);
    struct mask_out out = {s->output, s->format, s->rate, design->n_channels, design->n_frames, design->h};
    return mask_write(&out, why, sizeof why) ? design_report(s, design) : message_error("%s", why);
}

int design_command(int argc, char **argv)
{
    struct design_settings settings;
    struct design design = {0};
    int status = design_parse(argc, argv, &settings);
    if (status < 0)
        status = settings.kind == KIND_ROOM ? choose_room(&settings, &design) : choose_filter(&settings, &design);
    if (status >= 0) return status;
    design.h = malloc((size_t)design.n_channels * (size_t)design.n_frames * sizeof *design.h);
    status = design_make(&settings, &design);
    free(design.h);
    return plot_written(status, settings.output, settings.rate, &settings.plot);
}
