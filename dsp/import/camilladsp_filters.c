/* camilladsp_filters - reads the filters of CamillaDSP; Biquad and BiquadCombo become second-order sections. */
#include "camilladsp.h"

#ifdef HC_WITH_YAML

#include "dsp/signal/recursive_filter.h"
#include "sections.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SOUND_M_PER_S 343.0
enum {
    MAX_STEPS = 1 << 26, /* of all filters together: as many as the longest text has numbers */
    NUMBER_STEPS = 8     /* steps for a number in a list; a tap of a recursion takes a step for each coefficient a */
};

enum {
    MAX_ORDER = 64,    /* order of a Butterworth or Linkwitz-Riley filter */
    MAX_SECTIONS = 128 /* sections of an equaliser                        */
};

struct reading { /* state of reading one filter */
    struct camilladsp *d;
    const yaml_node_t *node; /* the filter                   */
    const yaml_node_t *map;  /* parameters; NULL: none       */
    const char *type;        /* the type of the parameters   */
    struct camilladsp_filter *filter;
    int line;
    const char *command; /* the filter's name in diagnostics */
};

/* Reads a number; reports an error if it is missing. */
#define NUMBER(r, key) yaml_number(&(r)->d->yaml, (r)->map, key, NAN)
#define REFUSE(r, ...) YAML_REFUSE(&(r)->d->yaml, (r)->node, __VA_ARGS__)
#define NOTE(r, ...) IMPORT_NOTE((r)->d->yaml.import, yaml_line((r)->node), (r)->d->yaml.statement, __VA_ARGS__)
#define WARN(r, ...) YAML_WARN(&(r)->d->yaml, (r)->node, __VA_ARGS__)

/* The errors so far: a check of values that were refused would only add a second error. */
#define N_ERRORS(r) (r)->d->yaml.import->c->diagnostics.n_errors

static struct network *reading_network(const struct reading *r)
{
    return &r->d->yaml.import->network;
}

static bool reading_has(const struct reading *r, const char *key)
{
    return yaml_value(&r->d->yaml, r->map, key) != NULL;
}

static void reading_set_filter(struct reading *r, const struct filter *filter)
{
    r->filter->filter = filter;
    r->filter->has_filter = true;
}

/* Counts n steps before they are done. false: too many; an error was reported. */
static bool camilladsp_has_budget(struct reading *r, int64_t n_steps)
{
    r->d->n_steps += n_steps;
    if (r->d->n_steps <= MAX_STEPS) return true;
    REFUSE(r, "the lists and recursions of all filters need more than %d steps; read them from files, or use fewer filters",
           MAX_STEPS);
    return false;
}

/* Reads a list of numbers, from malloc. NULL: *n is 0 (an empty list, or none), or an error was reported, or memory is
 * short. */
static double *reading_numbers(struct reading *r, const char *key, int *n)
{
    struct yaml *y = &r->d->yaml;
    const yaml_node_t *list = yaml_list(y, r->map, key, false);
    char item[48];
    snprintf(item, sizeof item, "an item of %.30s", key);
    *n = yaml_count(list);
    if (!list && reading_has(r, key)) *n = -1; /* another kind: an error was reported */
    if (!camilladsp_has_budget(r, *n > 0 ? (int64_t)*n * NUMBER_STEPS : 0)) return NULL;
    double *values = *n > 0 ? malloc((size_t)*n * sizeof *values) : NULL;
    if (*n > 0 && !values) y->import->c->arena->is_short = true;
    for (int i = 0; values && i < *n; i++) {
        if (yaml_number_of(y, yaml_item(y, list, i), item, &values[i])) continue;
        free(values);
        return NULL;
    }
    return values;
}

/* ---- DiffEq ------------------------------------------------------------------------------------- */

/* Sets a recursion (dsp/signal/recursive_filter.h) for the rate of the text: a session at another rate gets the
 * response resampled. */
static void reading_set_recursion(struct reading *r, const double *b, int n_b, const double *a, int n_a)
{
    struct network *net = reading_network(r);
    double *taps, rest_db;
    if (n_a > RECURSION_ORDER + 1) {
        REFUSE(r, "has %d coefficients a; give at most %d", n_a, RECURSION_ORDER + 1);
        return;
    }
    if (!recursion_is_stable(a, n_a)) {
        REFUSE(r, "the filter is not stable: its output grows without bound; correct its coefficients a");
        return;
    }
    if (!camilladsp_has_budget(r, 0)) return;
    int n = recursion_taps(b, n_b, a, n_a, SECTIONS_REST_DB, SECTIONS_TAPS, &taps, &rest_db);
    r->d->n_steps += (int64_t)n * n_a;
    if (n == 0) {
        net->c->arena->is_short = true;
        return;
    }
    if (rest_db > NETWORK_REST_DB)
        WARN(r, "becomes %d taps: the rest that is cut off is only %.0f dB below the filter", n, -rest_db);
    reading_set_filter(r, filter_of_taps(net, taps, n, r->line, r->command));
    free(taps);
}

static void read_difference_equation(struct reading *r)
{
    static const double one[] = {1};
    int n_a, n_b;
    double *a = reading_numbers(r, "a", &n_a), *b = reading_numbers(r, "b", &n_b);
    if (a) a[0] = 1; /* CamillaDSP does not use a0 */
    if ((a || n_a == 0) && (b || n_b == 0))
        reading_set_recursion(r, b ? b : one, b ? n_b : 1, a ? a : one, a ? n_a : 1);
    free(a);
    free(b);
}

static void set_sections(struct reading *r, const struct section *sections, int n)
{
    if (n > 0) reading_set_filter(r, filter_of_sections(reading_network(r), sections, n, r->line, r->command));
}

/* ---- Biquad ------------------------------------------------------------------------------------- */

enum width { NO_WIDTH, Q, Q_OR_BANDWIDTH, Q_OR_SLOPE };

static const struct biquad_type {
    const char *name;
    enum biquad_kind kind;
    enum width width;
    bool has_gain;
} biquad_types[] = {
    {"Lowpass", BIQUAD_LOWPASS, Q, false},
    {"Highpass", BIQUAD_HIGHPASS, Q, false},
    {"LowpassFO", BIQUAD_LOWPASS_1, NO_WIDTH, false},
    {"HighpassFO", BIQUAD_HIGHPASS_1, NO_WIDTH, false},
    {"Peaking", BIQUAD_PEAK, Q_OR_BANDWIDTH, true},
    {"Lowshelf", BIQUAD_LOWSHELF, Q_OR_SLOPE, true},
    {"Highshelf", BIQUAD_HIGHSHELF, Q_OR_SLOPE, true},
    {"LowshelfFO", BIQUAD_LOWSHELF_1, NO_WIDTH, true},
    {"HighshelfFO", BIQUAD_HIGHSHELF_1, NO_WIDTH, true},
    {"Notch", BIQUAD_NOTCH, Q_OR_BANDWIDTH, false},
    {"Bandpass", BIQUAD_BANDPASS, Q_OR_BANDWIDTH, false},
    {"Allpass", BIQUAD_ALLPASS, Q_OR_BANDWIDTH, false},
    {"AllpassFO", BIQUAD_ALLPASS_1, NO_WIDTH, false},
};

/* Reads a number that must be above 0 and at most `max`. */
static double positive(struct reading *r, const char *key, double max)
{
    double value = NUMBER(r, key);
    if (value > 0 && value <= max) return value;
    REFUSE(r, "%s is %g; give a number above 0, at most %g", key, value, max);
    return 1;
}

static double frequency(struct reading *r, const char *key)
{
    double hz = NUMBER(r, key);
    if (hz > 0 && hz < r->d->rate / 2.0) return hz;
    REFUSE(r, "%s is %g Hz; give a frequency between 0 and half the sample rate, %g Hz", key, hz, r->d->rate / 2.0);
    return r->d->rate / 4.0;
}

static void read_cookbook(struct reading *r, const struct biquad_type *type)
{
    struct section s = {.kind = type->kind, .q = 1};
    s.hz = frequency(r, "freq");
    if (type->has_gain) s.gain_db = NUMBER(r, "gain");
    if (type->width == Q_OR_BANDWIDTH && reading_has(r, "bandwidth"))
        s.octaves = positive(r, "bandwidth", 20);
    else if (type->width == Q_OR_SLOPE && reading_has(r, "slope"))
        s.q = biquad_q_of_slope(s.gain_db, positive(r, "slope", 12) / 12); /* 12 dB per octave is the steepest */
    else if (type->width != NO_WIDTH)
        s.q = positive(r, "q", 1e6);
    set_sections(r, &s, 1);
}

static void read_free(struct reading *r)
{
    double b[] = {NUMBER(r, "b0"), NUMBER(r, "b1"), NUMBER(r, "b2")}, a[] = {1, NUMBER(r, "a1"), NUMBER(r, "a2")};
    reading_set_recursion(r, b, 3, a, 3);
}

/* Reads a filter of type Biquad. */
static void camilladsp_biquad(struct reading *r)
{
    struct section s = {.q = 1};
    if (strcmp(r->type, "Free") == 0) {
        read_free(r);
        return;
    }
    if (strcmp(r->type, "GeneralNotch") == 0) {
        s.form = SECTION_GENERAL_NOTCH;
        s.hz = frequency(r, "freq_p");
        s.other_hz = frequency(r, "freq_z");
        s.q = positive(r, "q_p", 1e6);
        s.is_unity_at_dc = yaml_bool(&r->d->yaml, r->map, "normalize_at_dc", false);
        set_sections(r, &s, 1);
        return;
    }
    if (strcmp(r->type, "LinkwitzTransform") == 0) {
        s.form = SECTION_LINKWITZ_TRANSFORM;
        s.hz = frequency(r, "freq_act");
        s.q = positive(r, "q_act", 1e6);
        s.other_hz = frequency(r, "freq_target");
        s.other_q = positive(r, "q_target", 1e6);
        set_sections(r, &s, 1);
        return;
    }
    for (size_t i = 0; i < sizeof biquad_types / sizeof *biquad_types; i++) {
        if (strcmp(r->type, biquad_types[i].name) != 0) continue;
        read_cookbook(r, &biquad_types[i]);
        return;
    }
    REFUSE(r, "the biquad type \"%.40s\" is unknown; use one of CamillaDSP's", r->type);
}

/* ---- BiquadCombo -------------------------------------------------------------------------------- */

/* Fills in the sections of a Butterworth filter. Returns their number. */
static int butterworth(struct section *sections, int order, double hz, bool is_low)
{
    int n = order / 2;
    for (int i = 0; i < n; i++)
        sections[i] = (struct section){
            .kind = is_low ? BIQUAD_LOWPASS : BIQUAD_HIGHPASS, .hz = hz, .q = biquad_butterworth_q(order, i)};
    if (order % 2)
        sections[n++] = (struct section){.kind = is_low ? BIQUAD_LOWPASS_1 : BIQUAD_HIGHPASS_1, .hz = hz, .q = 1};
    return n;
}

/* Reads a Linkwitz-Riley filter: two Butterworth filters of half its order in series. */
static void read_crossover(struct reading *r, bool is_linkwitz_riley, bool is_low)
{
    struct section sections[2 * MAX_ORDER];
    int n_errors = N_ERRORS(r);
    double hz = frequency(r, "freq");
    int order = yaml_whole(&r->d->yaml, r->map, "order", -1, 1, MAX_ORDER);
    if (N_ERRORS(r) > n_errors) return;
    if (is_linkwitz_riley && order % 2) {
        REFUSE(r, "order %d is odd; give a Linkwitz-Riley filter an even order", order);
        return;
    }
    int n = butterworth(sections, is_linkwitz_riley ? order / 2 : order, hz, is_low);
    if (is_linkwitz_riley) n += butterworth(sections + n, order / 2, hz, is_low);
    set_sections(r, sections, n);
}

static void read_tilt(struct reading *r)
{
    double gain_db = NUMBER(r, "gain");
    struct section sections[] = {
        {.kind = BIQUAD_LOWSHELF, .hz = 110, .q = 0.35, .gain_db = -gain_db / 2},
        {.kind = BIQUAD_HIGHSHELF, .hz = 3500, .q = 0.35, .gain_db = gain_db / 2},
    };
    set_sections(r, sections, 2);
}

static void read_five_points(struct reading *r)
{
    static const struct {
        enum biquad_kind kind;
        const char *hz, *q, *gain;
    } points[] = {{BIQUAD_LOWSHELF, "fls", "qls", "gls"},
                  {BIQUAD_PEAK, "fp1", "qp1", "gp1"},
                  {BIQUAD_PEAK, "fp2", "qp2", "gp2"},
                  {BIQUAD_PEAK, "fp3", "qp3", "gp3"},
                  {BIQUAD_HIGHSHELF, "fhs", "qhs", "ghs"}};
    struct section sections[5];
    int n = 0;
    for (int i = 0; i < 5; i++) {
        struct section s = {.kind = points[i].kind, .hz = frequency(r, points[i].hz)};
        s.q = positive(r, points[i].q, 1e6);
        s.gain_db = NUMBER(r, points[i].gain);
        if (s.q > 0.001) sections[n++] = s; /* CamillaDSP omits sections with a smaller q */
    }
    set_sections(r, sections, n);
}

/* Divides a range of frequencies into bands, equal on a logarithmic axis, and adds a peak in the middle of each; a peak
 * is as wide as its band. */
static void read_graphic(struct reading *r)
{
    struct section sections[MAX_SECTIONS];
    int n_bands, n = 0, n_errors = N_ERRORS(r);
    double from = reading_has(r, "freq_min") ? frequency(r, "freq_min") : 20;
    double to = reading_has(r, "freq_max") ? frequency(r, "freq_max") : 20000;
    double *gains = reading_numbers(r, "gains", &n_bands);
    if (N_ERRORS(r) > n_errors) {
        free(gains);
        return;
    }
    if (!gains || n_bands > MAX_SECTIONS || from >= to || to >= r->d->rate / 2.0) {
        REFUSE(r,
               "the gains or frequencies are wrong; give 1 to %d gains, and freq_min below freq_max below half the "
               "sample rate",
               MAX_SECTIONS);
        free(gains);
        return;
    }
    double octaves = log2(to / from) / n_bands;
    for (int i = 0; i < n_bands; i++)
        if (fabs(gains[i]) > 0.001) /* CamillaDSP does the same */
            sections[n++] = (struct section){
                .kind = BIQUAD_PEAK, .hz = from * exp2((i + 0.5) * octaves), .octaves = octaves, .gain_db = gains[i]};
    free(gains);
    set_sections(r, sections, n);
}

/* Reads a filter of type BiquadCombo. */
static void camilladsp_combination(struct reading *r)
{
    const char *type = r->type;
    if (strcmp(type, "ButterworthLowpass") == 0)
        read_crossover(r, false, true);
    else if (strcmp(type, "ButterworthHighpass") == 0)
        read_crossover(r, false, false);
    else if (strcmp(type, "LinkwitzRileyLowpass") == 0)
        read_crossover(r, true, true);
    else if (strcmp(type, "LinkwitzRileyHighpass") == 0)
        read_crossover(r, true, false);
    else if (strcmp(type, "Tilt") == 0)
        read_tilt(r);
    else if (strcmp(type, "FivePointPeq") == 0)
        read_five_points(r);
    else if (strcmp(type, "GraphicEqualizer") == 0)
        read_graphic(r);
    else
        REFUSE(r, "the combination \"%.40s\" is unknown; use one of CamillaDSP's", type);
}

/* ---- Conv --------------------------------------------------------------------------------------- */

static const struct {
    const char *name, *raw; /* the format's name in CamillaDSP, and in raw_samples */
    int bytes;              /* bytes of a sample; 1 for a text, which counts lines     */
} raw_names[] = {
    {"TEXT", "TEXT", 1},
    {"S16LE", "S16_LE", 2},
    {"S24LE", "S24_4LE", 4},
    {"S24LE3", "S24_3LE", 3},
    {"S32LE", "S32_LE", 4},
    {"FLOAT32LE", "FLOAT_LE", 4},
    {"FLOAT64LE", "FLOAT64_LE", 8},
    /* names since version 4; LJ: the 24 high bits of 32 */
    {"S16_LE", "S16_LE", 2},
    {"S24_3_LE", "S24_3LE", 3},
    {"S24_4_RJ_LE", "S24_4LE", 4},
    {"S24_4_LJ_LE", "S32_LE", 4},
    {"S32_LE", "S32_LE", 4},
    {"F32_LE", "FLOAT_LE", 4},
    {"F64_LE", "FLOAT64_LE", 8},
};

static void camilladsp_read_sound(struct reading *r)
{
    struct yaml *y = &r->d->yaml;
    struct excerpt excerpt = {.gain = 1, .line = r->line, .command = r->command};
    const char *name = camilladsp_name(r->d, yaml_text(y, r->map, "filename", NULL));
    if (!*name) return;
    excerpt.channel = yaml_whole(y, r->map, "channel", 0, 0, MASK_MAX_CHANNELS - 1);
    excerpt.sound = configuration_file(y->import->c, name);
    reading_set_filter(r, filter_of_file(reading_network(r), &excerpt));
}

/* Reads a raw file. skip_bytes_lines and read_bytes_lines count lines of a text, but bytes of other formats. */
static void read_raw(struct reading *r)
{
    struct yaml *y = &r->d->yaml;
    struct excerpt excerpt = {.gain = 1, .line = r->line, .command = r->command};
    struct raw_samples raw = {0};
    const char *name = camilladsp_name(r->d, yaml_text(y, r->map, "filename", NULL));
    const char *format = yaml_text(y, r->map, "format", "TEXT");
    int skip = yaml_whole(y, r->map, "skip_bytes_lines", 0, 0, INT32_MAX);
    int max = yaml_whole(y, r->map, "read_bytes_lines", 0, 0, INT32_MAX), bytes = 1;
    for (size_t i = 0; i < sizeof raw_names / sizeof *raw_names; i++) {
        if (strcmp(format, raw_names[i].name) != 0) continue;
        raw.format = raw_format_find(raw_names[i].raw);
        bytes = raw_names[i].bytes;
    }
    if (!raw.format || !*name) {
        if (*name && *format) REFUSE(r, "the format \"%.40s\" is unknown; use one of CamillaDSP's", format);
        return;
    }
    raw.skip = strcmp(format, "TEXT") == 0 ? -skip : skip;
    raw.max = max / bytes;
    excerpt.sound = configuration_raw_file(y->import->c, name, &raw);
    reading_set_filter(r, filter_of_file(reading_network(r), &excerpt));
}

static void camilladsp_read_values(struct reading *r)
{
    int n;
    double *values = reading_numbers(r, "values", &n);
    if (reading_has(r, "length")) NOTE(r, "length has no effect; all values are read");
    if (values)
        reading_set_filter(r, filter_of_taps(reading_network(r), values, n, r->line, r->command));
    else if (n == 0)
        REFUSE(r, "values is missing; give a list of coefficients");
    free(values);
}

static void read_convolution(struct reading *r)
{
    if (strcmp(r->type, "Wav") == 0)
        camilladsp_read_sound(r);
    else if (strcmp(r->type, "Raw") == 0 || strcmp(r->type, "File") == 0)
        read_raw(r);
    else if (strcmp(r->type, "Values") == 0)
        camilladsp_read_values(r);
    else if (strcmp(r->type, "Dummy") == 0) /* a dummy has no effect */
        reading_has(r, "length");
    else
        REFUSE(r, "the type \"%.40s\" is unknown; use Raw, Wav, Values or Dummy", r->type);
}

/* ---- Gain, Delay, and types that are not filters --------------------------------------------------------- */

static void camilladsp_read_gain(struct reading *r)
{
    r->filter->gain = camilladsp_gain(r->d, r->map, NAN);
}

/* Makes a delay by a fraction of a frame with an allpass of Thiran (1971). Below 1.1 frames the allpass has first
 * order; else it has second order, delays by 1.1 to 2.1 frames, and whole frames precede it. */
static int fractional_delay_make(const void *data, int rate, double **taps, double *rest_db)
{
    double delay = *(const double *)data * rate, whole = 0, d;
    struct biquad b;
    if (delay < 1.1) {
        double k = (1 - delay) / (1 + delay);
        b = (struct biquad){k, 1, 0, k, 0};
    } else {
        whole = fmax(floor(delay - 1.1), 0);
        d = delay - whole;
        double k1 = 2 * (2 - d) / (1 + d), k2 = (2 - d) / (2 + d) * (1 - d) / (1 + d);
        b = (struct biquad){k2, k1, 1, k1, k2};
    }
    double *tail;
    int n = biquad_taps(&b, 1, SECTIONS_REST_DB, SECTIONS_TAPS, &tail, rest_db), shift = (int)whole;
    *taps = n ? calloc((size_t)n + (size_t)shift, sizeof **taps) : NULL;
    if (*taps) memcpy(*taps + shift, tail, (size_t)n * sizeof *tail);
    free(tail);
    return *taps ? n + shift : 0;
}

static void camilladsp_read_delay(struct reading *r)
{
    static const struct {
        const char *name;
        double seconds; /* 0: the unit is frames */
    } units[] = {{"ms", 1e-3}, {"us", 1e-6}, {"mm", 1e-3 / SOUND_M_PER_S}, {"samples", 0}};
    struct yaml *y = &r->d->yaml;
    double delay = NUMBER(r, "delay"), frames = -1;
    const char *unit = yaml_text(y, r->map, "unit", "ms");
    if (!*unit) return;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (strcmp(unit, units[i].name) == 0)
            frames = units[i].seconds > 0 ? delay * units[i].seconds * r->d->rate : delay;
    if (!(frames >= 0 && frames <= CONFIGURATION_TAPS)) {
        REFUSE(r, "the delay is %g %.20s; give at most %d frames, in ms, us, mm or samples", delay, unit,
               CONFIGURATION_TAPS);
        return;
    }
    if (!yaml_bool(y, r->map, "subsample", false)) {
        r->filter->delay_s = network_seconds(reading_network(r), round(frames));
        return;
    }
    if (frames < 0.1) return; /* CamillaDSP does the same */
    double whole = frames < 4 ? 0 : floor(frames) - 4, *rest_s = arena_alloc(y->import->c->arena, 1, sizeof *rest_s);
    if (!rest_s) return;
    *rest_s = network_seconds(reading_network(r), frames - whole);
    r->filter->delay_s = network_seconds(reading_network(r), whole);
    reading_set_filter(r, filter_computed(reading_network(r), fractional_delay_make, rest_s, r->line, r->command));
}

static void read_volume(struct reading *r)
{
    double limit_db = fmin(yaml_number(&r->d->yaml, r->map, "limit", 0), 0);
    r->filter->gain = pow(10, limit_db / 20);
    WARN(r, "a volume control becomes its gain at rest, %g dB", limit_db);
}

/* Reads a loudness filter at rest: the volume is 0 dB, and loudness acts below its reference level only. */
static void read_loudness(struct reading *r)
{
    if (NUMBER(r, "reference_level") > 0)
        REFUSE(r, "loudness follows a volume control, and has an effect at rest; remove it, or set a reference_level "
                  "below 0");
    else
        NOTE(r, "loudness follows a volume control, and is omitted: at rest it has no effect");
}

static void read_limiter(struct reading *r)
{
    if (yaml_bool(&r->d->yaml, r->map, "soft_clip", false))
        REFUSE(r, "a soft clipper cannot be a convolution; remove it");
    else
        WARN(r, "the limiter is omitted: peaks above %g dB are not limited",
             yaml_number(&r->d->yaml, r->map, "clip_limit", 0));
}

static void camilladsp_read_dither(struct reading *r)
{
    r->d->yaml.watched = NULL; /* no value has an effect */
    WARN(r, "dither is omitted: haloconv adds dither when it writes integers");
}

/* ---- the filter --------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    void (*read)(struct reading *r);
    const char *keys; /* parameters of all types of this filter */
} filter_types[] = {
    {"Conv", read_convolution, "type filename format skip_bytes_lines read_bytes_lines channel values length"},
    {"Gain", camilladsp_read_gain, "gain inverted mute scale"},
    {"Delay", camilladsp_read_delay, "delay unit subsample"},
    {"Biquad", camilladsp_biquad,
     "type freq q gain bandwidth slope a1 a2 b0 b1 b2 freq_p freq_z q_p normalize_at_dc freq_act q_act freq_target "
     "q_target"},
    {"BiquadCombo", camilladsp_combination,
     "type freq order gain fls qls gls fp1 qp1 gp1 fp2 qp2 gp2 fp3 qp3 gp3 fhs qhs ghs freq_min freq_max gains"},
    {"DiffEq", read_difference_equation, "a b"},
    {"Volume", read_volume, "ramp_time fader limit"},
    {"Loudness", read_loudness, "reference_level high_boost low_boost fader attenuate_mid ramp_time"},
    {"Limiter", read_limiter, "soft_clip clip_limit"},
    {"Dither", camilladsp_read_dither, "type bits amplitude"},
};

void camilladsp_filter_read(struct camilladsp *d, const yaml_node_t *node, struct camilladsp_filter *filter)
{
    struct yaml *y = &d->yaml;
    struct reading r = {.d = d, .node = node, .filter = filter, .line = yaml_line(node)};
    filter->gain = 1;
    yaml_keys(y, node, "type description parameters");
    r.map = yaml_map(y, node, "parameters", false);
    if (!r.map && yaml_value(y, node, "parameters")) return;
    r.command = arena_text(y->import->c->arena, y->statement);
    const char *type = yaml_text(y, node, "type", NULL);
    for (size_t i = 0; i < sizeof filter_types / sizeof *filter_types; i++) {
        if (strcmp(type, filter_types[i].name) != 0) continue;
        bool has_type = strncmp(filter_types[i].keys, "type ", 5) == 0;
        yaml_keys(y, r.map, filter_types[i].keys);
        y->watched = has_type ? r.map : NULL;
        r.type = has_type ? yaml_text(y, r.map, "type", NULL) : "";
        int n_errors = N_ERRORS(&r);
        if (*r.type || !has_type) filter_types[i].read(&r);
        if (N_ERRORS(&r) > n_errors) y->watched = NULL; /* the reader may have stopped early */
        yaml_unused(y, r.type);
        return;
    }
    if (*type) YAML_REFUSE(y, node, "the filter type \"%.40s\" is unknown; use one of CamillaDSP's", type);
}

#else
typedef int camilladsp_filters_are_not_built; /* ISO C needs a declaration */
#endif
