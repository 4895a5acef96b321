/* haloconv design - makes a filter or a room, and writes it as a mask. */
#include "host/commands.h"
#include "fir_design.h"
#include "host/json_print.h"
#include "host/message.h"
#include "host/option.h"
#include "host/files/part_file.h"
#include "host/files/room.h"
#include "host/files/sample.h"
#include "host/files/sound_format.h"
#include "host/files/sound_out.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

static const char help[] =
    "haloconv design KIND ... -o MASK - makes a filter or a room\n"
    "\n"
    "  lowpass, highpass     --cutoff HZ       linear-phase FIR by the window method; gain 1 in the pass band,\n"
    "  bandpass, bandstop    --cutoff HZ,HZ    1/2 at the cutoffs, (taps - 1) / 2 frames of delay\n"
    "  hilbert                                 90 degrees at all frequencies; odd taps\n"
    "  room                  --rt60 S          noise that decays by 60 dB in S seconds; energy 1\n"
    "\n"
    "  -o, --output FILE    where to: a sound file, or .txt or .csv for text; - is standard output\n"
    "      --rate HZ        sample rate                                                               [48000]\n"
    "      --format F       as in haloconv convolve                                  [by FILE's extension, float]\n"
    "      --json           what was made, as one object on standard output\n"
    "  -h, --help           this text\n"
    "\n"
    "Filters:\n"
    "      --taps N         length; highpass, bandstop and hilbert need it odd\n"
    "      --window W       rectangular, hann, hamming, blackman, blackmanharris or kaiser          [hamming]\n"
    "      --attenuation DB and --transition HZ: a Kaiser window of that attenuation, and as many taps as that\n"
    "                       width from pass band to stop band needs (Kaiser, 1974); --taps overrides the number\n"
    "      --beta B         the shape of a Kaiser window, instead of --attenuation\n"
    "\n"
    "Rooms:\n"
    "      --length S       seconds, without the predelay                                       [as --rt60]\n"
    "      --predelay MS    silence in front                                                              [0]\n"
    "      --channels N     independent of each other                                                     [2]\n"
    "      --seed N         the same seed gives the same room, everywhere                                 [1]\n"
    "\n"
    "  haloconv design lowpass --cutoff 8000 --attenuation 80 --transition 500 -o lowpass.wav\n"
    "  haloconv design room --rt60 1.8 --predelay 20 -o room.wav\n";

enum kind { KIND_LOWPASS, KIND_HIGHPASS, KIND_BANDPASS, KIND_BANDSTOP, KIND_HILBERT, KIND_ROOM, KINDS };
static const char *const kind_names[KINDS] = {"lowpass", "highpass", "bandpass", "bandstop", "hilbert", "room"};

enum { MAX_TAPS = 1 << 26, SAME_AS_RT60 = -1 };

struct settings {
    enum kind kind;
    const char *output;
    int format, rate;
    bool json;
    int n_cutoffs, taps; /* 0 = not given; likewise in what follows */
    double cutoff_hz[2];
    double transition_hz, attenuation_db, beta;
    bool has_beta, has_window;
    enum fir_window window;
    double rt60_s, length_s, predelay_ms;
    int channels;
    int seed;
};

struct design {
    int n_channels, n_frames;
    double *h;   /* [n_channels][n_frames] */
    double beta; /* of the Kaiser window; NaN for the others */
};

/* ---- options ------------------------------------------------------------------------------------ */

enum {
    OPT_RATE = 256,
    OPT_FORMAT,
    OPT_JSON,
    OPT_CUTOFF,
    OPT_TAPS,
    OPT_WINDOW,
    OPT_ATTENUATION,
    OPT_TRANSITION,
    OPT_BETA,
    OPT_RT60,
    OPT_LENGTH,
    OPT_PREDELAY,
    OPT_CHANNELS,
    OPT_SEED
};

static const struct option options[] = {
    {"output", required_argument, NULL, 'o'},
    {"rate", required_argument, NULL, OPT_RATE},
    {"format", required_argument, NULL, OPT_FORMAT},
    {"json", no_argument, NULL, OPT_JSON},
    {"cutoff", required_argument, NULL, OPT_CUTOFF},
    {"taps", required_argument, NULL, OPT_TAPS},
    {"window", required_argument, NULL, OPT_WINDOW},
    {"attenuation", required_argument, NULL, OPT_ATTENUATION},
    {"transition", required_argument, NULL, OPT_TRANSITION},
    {"beta", required_argument, NULL, OPT_BETA},
    {"rt60", required_argument, NULL, OPT_RT60},
    {"length", required_argument, NULL, OPT_LENGTH},
    {"predelay", required_argument, NULL, OPT_PREDELAY},
    {"channels", required_argument, NULL, OPT_CHANNELS},
    {"seed", required_argument, NULL, OPT_SEED},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

static bool parse_cutoff(const char *text, struct settings *s)
{
    char *end;
    s->n_cutoffs = 0;
    for (const char *at = text; s->n_cutoffs < 2; at = end + 1) {
        s->cutoff_hz[s->n_cutoffs++] = strtod(at, &end);
        if (end == at || (*end && *end != ',')) break;
        if (!*end) return true;
    }
    message_usage("design", "--cutoff %s: needs one frequency in Hz, or two with a comma between", text);
    return false;
}

static bool parse_window(const char *text, struct settings *s)
{
    for (int i = 0; i < FIR_WINDOWS; i++)
        if (strcmp(text, fir_window_names[i]) == 0) {
            s->window = (enum fir_window)i;
            return s->has_window = true;
        }
    message_usage("design", "--window %s: needs rectangular, hann, hamming, blackman, blackmanharris or kaiser", text);
    return false;
}

/* One option; -1 = go on, else the exit status. */
static int take_option(int option, struct settings *s)
{
    bool good = true;
    switch (option) {
    case 'o':
        s->output = optarg;
        break;
    case OPT_RATE:
        good = option_int("design", "--rate", optarg, 1, 100000000, &s->rate);
        break;
    case OPT_FORMAT:
        good = option_format("design", optarg, &s->format);
        break;
    case OPT_JSON:
        s->json = true;
        break;
    case OPT_CUTOFF:
        good = parse_cutoff(optarg, s);
        break;
    case OPT_TAPS:
        good = option_int("design", "--taps", optarg, 1, MAX_TAPS, &s->taps);
        break;
    case OPT_WINDOW:
        good = parse_window(optarg, s);
        break;
    case OPT_ATTENUATION:
        good = option_number("design", "--attenuation", optarg, 8, 300, &s->attenuation_db);
        break;
    case OPT_TRANSITION:
        good = option_number("design", "--transition", optarg, 1e-3, 1e8, &s->transition_hz);
        break;
    case OPT_BETA:
        good = s->has_beta = option_number("design", "--beta", optarg, 0, 100, &s->beta);
        break;
    case OPT_RT60:
        good = option_number("design", "--rt60", optarg, 1e-3, 600, &s->rt60_s);
        break;
    case OPT_LENGTH:
        good = option_number("design", "--length", optarg, 1e-5, 600, &s->length_s);
        break;
    case OPT_PREDELAY:
        good = option_number("design", "--predelay", optarg, 0, 60000, &s->predelay_ms);
        break;
    case OPT_CHANNELS:
        good = option_int("design", "--channels", optarg, 1, 1024, &s->channels);
        break;
    case OPT_SEED:
        good = option_int("design", "--seed", optarg, 0, 2147483647, &s->seed);
        break;
    case 'h':
        fputs(help, stdout);
        return 0;
    default:
        message_note("see `haloconv design --help`");
        return EXIT_USAGE;
    }
    return good ? -1 : EXIT_USAGE;
}

static int parse_kind(const char *text, enum kind *kind)
{
    for (int i = 0; i < KINDS; i++)
        if (strcmp(text, kind_names[i]) == 0) {
            *kind = (enum kind)i;
            return -1;
        }
    return message_usage("design", "%s: needs lowpass, highpass, bandpass, bandstop, hilbert or room", text);
}

static bool ends_with(const char *path, const char *extension)
{
    const char *slash = strrchr(path, '/'), *dot = strrchr(path, '.');
    return dot && (!slash || dot > slash) && strcasecmp(dot, extension) == 0;
}

static bool is_text(const char *path)
{
    return ends_with(path, ".txt") || ends_with(path, ".csv");
}

static int check_output(const struct settings *s)
{
    if (!option_output("design", s->output, s->json, "mask")) return EXIT_USAGE;
    if (is_text(s->output) && s->format)
        return message_usage("design", "%s: becomes a text, which has no --format; name it .wav", s->output);
    if (ends_with(s->output, ".conf"))
        return message_usage("design", "%s: would be read as a configuration; name it .wav or .txt", s->output);
    return -1;
}

static int parse(int argc, char **argv, struct settings *s)
{
    int option, status;
    *s = (struct settings){.rate = 48000, .window = FIR_HAMMING, .length_s = SAME_AS_RT60, .channels = 2, .seed = 1};
    argv[0] = "haloconv";
    while ((option = getopt_long(argc, argv, "o:h", options, NULL)) != -1)
        if ((status = take_option(option, s)) >= 0) return status;
    if (argc - optind != 1) return message_usage("design", "needs one KIND, and got %d names", argc - optind);
    status = parse_kind(argv[optind], &s->kind);
    return status >= 0 ? status : check_output(s);
}

/* ---- filters ------------------------------------------------------------------------------------ */

static int check_cutoffs(const struct settings *s)
{
    const char *kind = kind_names[s->kind];
    int needs = s->kind == KIND_HILBERT ? 0 : s->kind == KIND_BANDPASS || s->kind == KIND_BANDSTOP ? 2 : 1;
    if (s->n_cutoffs != needs && needs == 0) return message_usage("design", "%s: takes no --cutoff", kind);
    if (s->n_cutoffs != needs && needs == 1) return message_usage("design", "%s: needs --cutoff HZ", kind);
    if (s->n_cutoffs != needs) return message_usage("design", "%s: needs --cutoff HZ,HZ", kind);
    for (int i = 0; i < needs; i++)
        if (!(s->cutoff_hz[i] > 0 && s->cutoff_hz[i] < 0.5 * s->rate))
            return message_usage("design", "--cutoff %g: must be above 0 and below half the rate, %g Hz",
                                 s->cutoff_hz[i], 0.5 * s->rate);
    if (needs == 2 && !(s->cutoff_hz[0] < s->cutoff_hz[1]))
        return message_usage("design", "--cutoff %g,%g: the lower one comes first", s->cutoff_hz[0], s->cutoff_hz[1]);
    return -1;
}

/* Window, beta and length from what was given. */
static int settle_filter(struct settings *s, struct design *design)
{
    bool odd = s->kind == KIND_HIGHPASS || s->kind == KIND_BANDSTOP || s->kind == KIND_HILBERT;
    bool kaiser = s->attenuation_db > 0 || s->has_beta;
    if (kaiser && s->has_window && s->window != FIR_KAISER)
        return message_usage("design", "--attenuation and --beta shape a Kaiser window; leave --window %s out",
                             fir_window_names[s->window]);
    if (s->attenuation_db > 0 && s->has_beta)
        return message_usage("design", "--attenuation and --beta say the same; give one of them");
    if (kaiser) s->window = FIR_KAISER;
    if (s->window == FIR_KAISER && !kaiser)
        return message_usage("design", "--window kaiser: needs --attenuation DB or --beta B");
    if (!s->taps && !(s->attenuation_db > 0 && s->transition_hz > 0))
        return message_usage("design", "%s: needs --taps N, or --attenuation DB and --transition HZ",
                             kind_names[s->kind]);
    design->beta = s->has_beta ? s->beta : kaiser ? fir_kaiser_beta(s->attenuation_db) : NAN;
    if (s->taps) {
        design->n_frames = s->taps;
    } else {
        double width = s->transition_hz / (0.5 * s->rate);
        if (!(width < 1))
            return message_usage("design", "--transition %g: must be below half the rate, %g Hz", s->transition_hz,
                                 0.5 * s->rate);
        if ((s->attenuation_db - 7.95) / 2.285 / (3.14 * width) > MAX_TAPS)
            return message_usage("design", "--transition %g: needs more than %d taps; widen it", s->transition_hz,
                                 MAX_TAPS);
        design->n_frames = fir_kaiser_length(s->attenuation_db, width);
        if (odd) design->n_frames |= 1;
    }
    if (odd && design->n_frames % 2 == 0)
        return message_usage("design",
                             "--taps %d: %s needs an odd number, because an even filter has no gain at half "
                             "the rate; use %d",
                             s->taps, kind_names[s->kind], s->taps + 1);
    design->n_channels = 1;
    return -1;
}

static bool fill_filter(const struct settings *s, struct design *design)
{
    double edges[2] = {2 * s->cutoff_hz[0] / s->rate, 2 * s->cutoff_hz[1] / s->rate};
    double *w = malloc((size_t)design->n_frames * sizeof *w);
    if (!w) return false;
    fir_window_fill(s->window, design->beta, design->n_frames, w);
    if (s->kind == KIND_HILBERT)
        fir_hilbert_fill(w, design->n_frames, design->h);
    else
        fir_band_fill((enum fir_band)s->kind, edges, w, design->n_frames, design->h);
    free(w);
    return true;
}

/* ---- rooms -------------------------------------------------------------------------------------- */

static int predelay_frames(const struct settings *s)
{
    return (int)lrint(s->predelay_ms * 1e-3 * s->rate);
}

static int settle_room(struct settings *s, struct design *design)
{
    if (!(s->rt60_s > 0)) return message_usage("design", "room: needs --rt60 S");
    if (s->n_cutoffs || s->taps || s->has_window || s->has_beta || s->attenuation_db > 0 || s->transition_hz > 0)
        return message_usage("design", "room: takes no filter options; see --rt60 and --length");
    if (s->length_s == SAME_AS_RT60) s->length_s = s->rt60_s;
    double frames = s->predelay_ms * 1e-3 * s->rate + ceil(s->length_s * s->rate);
    if (frames * s->channels > MAX_TAPS)
        return message_usage("design", "room: %.0f frames of %d channels are too many; shorten --length", frames,
                             s->channels);
    design->n_frames = predelay_frames(s) + (int)ceil(s->length_s * s->rate);
    design->n_channels = s->channels;
    design->beta = NAN;
    return -1;
}

static void fill_room(const struct settings *s, struct design *design)
{
    for (int ch = 0; ch < design->n_channels; ch++)
        room_fill((uint64_t)s->seed, ch, s->rate, s->rt60_s, predelay_frames(s), design->n_frames,
                  design->h + (size_t)ch * (size_t)design->n_frames);
}

/* ---- writing ------------------------------------------------------------------------------------ */

static bool write_text(const struct settings *s, const struct design *design, char *why, size_t cap)
{
    struct part_file part;
    if (!part_file_open(&part, s->output, why, cap)) return false;
    const char *dot = strrchr(s->output, '.');
    char separator = strcasecmp(dot, ".csv") == 0 ? ',' : ' ';
    int kept = dup(part.fd);
    FILE *file = kept >= 0 ? fdopen(kept, "w") : NULL;
    bool good = file != NULL;
    for (int i = 0; good && i < design->n_frames; i++)
        for (int ch = 0; ch < design->n_channels; ch++) {
            /* Nine digits give every float back. */
            double value = (float)design->h[(size_t)ch * (size_t)design->n_frames + (size_t)i];
            good = fprintf(file, "%.9g%c", value, ch + 1 < design->n_channels ? separator : '\n') > 0;
        }
    int error = errno;
    if (file && fclose(file) != 0 && good) {
        error = errno;
        good = false;
    }
    if (good) return part_file_commit(&part, s->output, why, cap);
    part_file_abandon(&part);
    return message_write(why, cap, "%s: cannot be written: %s; free some space or choose another output", s->output,
                         strerror(error));
}

static bool write_frames(struct sound_out *out, const struct design *design, char *why, size_t cap)
{
    enum { PIECE = 4096 };
    size_t n_channels = (size_t)design->n_channels;
    float *planar = malloc(PIECE * n_channels * sizeof *planar);
    void *raw = malloc(PIECE * n_channels * sample_bytes(out->kind));
    bool good = planar && raw;
    if (!good) message_write(why, cap, "%s: no memory; free some", out->path);
    struct sample_peak seen = {0};
    for (int done = 0; good && done < design->n_frames; done += PIECE) {
        int n = design->n_frames - done < PIECE ? design->n_frames - done : PIECE;
        for (size_t ch = 0; ch < n_channels; ch++)
            for (int i = 0; i < n; i++)
                planar[ch * PIECE + (size_t)i] = (float)design->h[ch * (size_t)design->n_frames + (size_t)(done + i)];
        sample_join(out->kind, out->bits, planar, PIECE, design->n_channels, (size_t)n, raw, &seen);
        good = sound_out_write(out, raw, n, why, cap);
    }
    free(planar);
    free(raw);
    if (good && out->bits && seen.clipped)
        message_note("%s: %llu taps beyond full scale were limited; use --format float", out->path,
                     (unsigned long long)seen.clipped);
    return good;
}

static bool write_sound(const struct settings *s, const struct design *design, char *why, size_t cap)
{
    struct sound_out out;
    int format = sound_format_choose(s->format, s->output, SF_FORMAT_WAV | SF_FORMAT_FLOAT, s->rate, design->n_channels,
                                     why, cap);
    if (!format ||
        !sound_out_open(&out, s->output, format, s->rate, design->n_channels, design->n_frames, NULL, why, cap))
        return false;
    if (write_frames(&out, design, why, cap)) return sound_out_commit(&out, why, cap);
    sound_out_abandon(&out);
    return false;
}

static int print_json(const struct settings *s, const struct design *design)
{
    json_t *all = json_pack("{s:s, s:i, s:i, s:i, s:o}", "kind", kind_names[s->kind], "rate", s->rate, "channels",
                            design->n_channels, "taps", design->n_frames, "beta",
                            isnan(design->beta) ? json_null() : json_real(design->beta));
    if (s->kind == KIND_ROOM) {
        json_object_set_new(all, "rt60", json_real(s->rt60_s));
        json_object_set_new(all, "predelay", json_integer(predelay_frames(s)));
        json_object_set_new(all, "seed", json_integer(s->seed));
    } else {
        json_object_set_new(all, "window", json_string(fir_window_names[s->window]));
    }
    if (s->n_cutoffs) {
        json_t *cutoffs = json_array();
        for (int i = 0; i < s->n_cutoffs; i++) json_array_append_new(cutoffs, json_real(s->cutoff_hz[i]));
        json_object_set_new(all, "cutoff", cutoffs);
    }
    return json_print(all, 12, s->output);
}

int design_command(int argc, char **argv)
{
    struct settings settings;
    struct design design = {0};
    char why[MESSAGE_CAP];
    int status = parse(argc, argv, &settings);
    if (status >= 0) return status;
    if (settings.kind == KIND_ROOM) {
        status = settle_room(&settings, &design);
    } else {
        status = check_cutoffs(&settings);
        if (status < 0) status = settle_filter(&settings, &design);
    }
    if (status >= 0) return status;
    design.h = malloc((size_t)design.n_channels * (size_t)design.n_frames * sizeof *design.h);
    bool good = design.h && (settings.kind == KIND_ROOM || fill_filter(&settings, &design));
    if (!good) {
        free(design.h);
        return message_error("design: no memory for %d taps; use fewer", design.n_frames);
    }
    if (settings.kind == KIND_ROOM) fill_room(&settings, &design);
    good = is_text(settings.output) ? write_text(&settings, &design, why, sizeof why)
                                    : write_sound(&settings, &design, why, sizeof why);
    free(design.h);
    if (!good) return message_error("%s", why);
    return settings.json ? print_json(&settings, &design) : 0;
}
