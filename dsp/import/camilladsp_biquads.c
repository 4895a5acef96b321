/* camilladsp_biquads - reads the filters Biquad and BiquadCombo of CamillaDSP as second-order sections. */
#include "camilladsp.h"

#ifdef HC_WITH_YAML

#include "sections.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_ORDER = 64,    /* order of a Butterworth or Linkwitz-Riley filter */
    MAX_SECTIONS = 128 /* sections of an equaliser                        */
};

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

void camilladsp_biquad(struct reading *r)
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

void camilladsp_combination(struct reading *r)
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

#else
typedef int camilladsp_biquads_are_not_built; /* ISO C needs a declaration */
#endif
