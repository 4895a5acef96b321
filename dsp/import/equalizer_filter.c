#include "equalizer_filter.h"

#include "dsp/engine/backend.h"
#include "dsp/signal/frequency_curve.h"
#include "dsp/signal/minimum_phase.h"
#include "dsp/signal/recursion.h"
#include "dsp/signal/response_cut.h"
#include "sections.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define GRAPHIC_REST_DB (-100.0) /* of a graphic equaliser: the kinks of its curve decay slowly */
enum {
    GRAPHIC_HZ = 4, /* bins of the spectrum for each Hz */
    MOST_ORDER = 64 /* of an IIR filter                 */
};

/* ---- sections ----------------------------------------------------------------------------------- */

struct type {
    const char *name;
    enum biquad_kind kind;
    double q; /* default; 0: it must be given     */
    bool has_gain;
};

/* REW writes LS and HS without a slope or Q, and means a slope of 0.9. */
static const struct type types[] = {
    {"PK", BIQUAD_PEAK, 0, true},
    {"PEQ", BIQUAD_PEAK, 0, true},
    {"Modal", BIQUAD_PEAK, 0, true},
    {"LP", BIQUAD_LOWPASS, M_SQRT1_2, false},
    {"LPQ", BIQUAD_LOWPASS, M_SQRT1_2, false},
    {"HP", BIQUAD_HIGHPASS, M_SQRT1_2, false},
    {"HPQ", BIQUAD_HIGHPASS, M_SQRT1_2, false},
    {"BP", BIQUAD_BANDPASS, M_SQRT1_2, false},
    {"NO", BIQUAD_NOTCH, 30, false},
    {"AP", BIQUAD_ALLPASS, 0, false},
    {"LS", BIQUAD_LOWSHELF, 0, true},
    {"LSC", BIQUAD_LOWSHELF, 0, true},
    {"HS", BIQUAD_HIGHSHELF, 0, true},
    {"HSC", BIQUAD_HIGHSHELF, 0, true},
};

static bool is_shelf(const struct type *type)
{
    return type->kind == BIQUAD_LOWSHELF || type->kind == BIQUAD_HIGHSHELF;
}

/* The number behind a word such as "Fc"; false: the text has no such word, or no number behind it. */
static bool number_behind(const char *text, const char *word, double *value)
{
    size_t length = strlen(word);
    for (const char *at = text; (at = strstr(at, word)) != NULL; at++) {
        char *end;
        if (at > text && !strchr(" \t", at[-1])) continue;
        *value = strtod(at + length, &end);
        if (end > at + length) return isfinite(*value);
    }
    return false;
}

/* REW writes "1,000 Hz" or "1.000 Hz" for a thousand, with three digits behind the separator and no more. */
static bool read_hz(const char *text, double *hz)
{
    if (!number_behind(text, "Fc", hz)) return false;
    const char *at = strstr(text, "Fc") + 2;
    at += strspn(at, " \t");
    size_t length = strspn(at, "0123456789.");
    if (length >= 5 && at[length - 4] == '.' && at[length] != 'e' && at[length] != 'E') *hz *= 1000;
    return *hz > 0;
}

/* LS and HS with a slope or a Q name the corner of the shelf, as the DCX2496 does, and not its centre. */
static double centre_of_corner(const struct section *s, double slope)
{
    double factor = pow(10, fabs(s->gain_db) / 80 / slope);
    return s->kind == BIQUAD_LOWSHELF ? s->hz * factor : s->hz / factor;
}

/* Fills in q of a shelf, by its slope (1 = 12 dB an octave) or by its Q. */
static bool shape_shelf(struct section *s, const struct type *type, const char *parameters, double q)
{
    char *end;
    double slope_db = strtod(parameters, &end), a = pow(10, s->gain_db / 40), slope = 0.9;
    bool has_slope = end > parameters && strncasecmp(end + strspn(end, " \t"), "dB", 2) == 0;
    bool is_corner = (has_slope || q > 0) && type->name[2] == 0;
    if (has_slope)
        slope = slope_db / 12;
    else if (q > 0)
        slope = 1 / ((1 / (q * q) - 2) / (a + 1 / a) + 1);
    s->q = q > 0 && !has_slope ? q : biquad_q_of_slope(s->gain_db, slope);
    if (is_corner) s->hz = centre_of_corner(s, slope);
    return slope > 0 && s->q > 0 && isfinite(s->q) && isfinite(s->hz);
}

static bool section_read(struct section *s, const struct type *type, const char *parameters, char *why, size_t cap)
{
    double q = 0;
    *s = (struct section){.kind = type->kind};
    if (!read_hz(parameters, &s->hz)) {
        fail(0, why, cap, "has no frequency; write Fc and a number of Hz above 0");
        return false;
    }
    if (type->has_gain && !number_behind(parameters, "Gain", &s->gain_db)) {
        fail(0, why, cap, "has no gain; write Gain and a number of dB");
        return false;
    }
    if (fabs(s->gain_db) > 200) {
        fail(0, why, cap, "a gain of %g dB; 200 dB are possible", s->gain_db);
        return false;
    }
    number_behind(parameters, "Q", &q);
    if (is_shelf(type)) {
        if (shape_shelf(s, type, parameters, q)) return true;
        fail(0, why, cap, "has no shelf with this slope or Q; a slope of up to 12 dB and a Q above 0 are possible");
        return false;
    }
    number_behind(parameters, "BW Oct", &s->octaves);
    s->q = q != 0 ? q : type->q;
    if (s->q > 0 || s->octaves > 0) return true;
    fail(0, why, cap, "has no Q; write Q, or BW Oct, and a number above 0");
    return false;
}

/* ---- IIR with coefficients ---------------------------------------------------------------------- */

struct iir {
    int order;
    double b[MOST_ORDER + 1], a[MOST_ORDER + 1];
};

static int make_iir(const void *data, int rate, double **taps, double *rest_db)
{
    const struct iir *f = data;
    (void)rate;
    return recursion_taps(f->b, f->order + 1, f->a, f->order + 1, SECTIONS_REST_DB, SECTIONS_TAPS, taps, rest_db);
}

static bool iir_read(struct network *net, char *parameters, int line, const struct filter **filter, char *why,
                     size_t cap)
{
    struct iir *f = arena_alloc(net->c->arena, 1, sizeof *f);
    char *at = strstr(parameters, "Coefficients"), *end;
    double order = 0;
    if (!f) return true;
    if (!at || !number_behind(parameters, "Order", &order) || order < 1 || order > MOST_ORDER) {
        fail(0, why, cap, "needs Order M, 1 to %d, and Coefficients", MOST_ORDER);
        return false;
    }
    f->order = (int)order;
    at += strlen("Coefficients");
    for (int i = 0; i < 2 * (f->order + 1); i++, at = end) {
        double *to = i <= f->order ? &f->b[i] : &f->a[i - f->order - 1];
        *to = strtod(at, &end);
        if (end > at && isfinite(*to)) continue;
        fail(0, why, cap, "coefficient %d of %d is not a number; b0 to b%d and a0 to a%d are needed", i + 1,
             2 * (f->order + 1), f->order, f->order);
        return false;
    }
    if (f->a[0] == 0) {
        fail(0, why, cap, "a0 is 0, and divides all others; write one that is not 0");
        return false;
    }
    double a0 = f->a[0];
    for (int i = 0; i <= f->order; i++) {
        f->b[i] /= a0;
        f->a[i] /= a0;
    }
    if (!recursion_is_stable(f->a, f->order + 1)) {
        fail(0, why, cap, "the filter is not stable; its output would grow without bound");
        return false;
    }
    *filter = filter_computed(net, make_iir, f, line, "Filter");
    return true;
}

/* ---- the texts ---------------------------------------------------------------------------------- */

void equalizer_decimal_points(char *text)
{
    for (; *text; text++)
        if (*text == ',') *text = '.';
}

bool equalizer_filter_read(struct network *net, char *parameters, int line, const struct filter **filter, char *why,
                           size_t cap)
{
    char *at = parameters + strspn(parameters, " \t"), name[16] = "";
    *filter = NULL;
    equalizer_decimal_points(at);
    if (strncmp(at, "OFF", 3) == 0) return true;
    if (strncmp(at, "ON", 2) != 0 || !strchr(" \t", at[2])) {
        fail(0, why, cap, "is neither ON nor OFF; write ON and a type such as PK");
        return false;
    }
    at += 2;
    at += strspn(at, " \t");
    size_t length = strcspn(at, " \t");
    snprintf(name, sizeof name, "%.*s", (int)length, at);
    at += length;
    if (strcmp(name, "None") == 0) return true;
    if (strcmp(name, "IIR") == 0) return iir_read(net, at, line, filter, why, cap);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        if (strcmp(name, types[i].name) != 0) continue;
        struct section s;
        if (!section_read(&s, &types[i], at, why, cap)) return false;
        *filter = filter_of_sections(net, &s, 1, line, "Filter");
        return true;
    }
    fail(0, why, cap, "%s is not a type of filter; PK, LP, HP, LPQ, HPQ, BP, NO, AP, LS, HS, LSC, HSC and IIR are",
         name);
    return false;
}

/* The minimum-phase response of a curve. */
static int make_graphic(const void *data, int rate, double **taps, double *rest_db)
{
    const struct frequency_curve *curve = data;
    struct transform t;
    *taps = NULL;
    if (!transform_open(&t, transform_size((size_t)rate * GRAPHIC_HZ))) return 0;
    double complex *bins = malloc((t.size / 2 + 1) * sizeof *bins);
    int n = 0;
    if (bins) {
        for (size_t k = 0; k <= t.size / 2; k++) {
            double db = frequency_curve_db(curve, (double)k * rate / (double)t.size);
            bins[k] = pow(10, fmax(db, -100) / 20); /* nothing is quieter, as in Equalizer APO */
        }
        minimum_phase_bins(&t, bins);
        transform_inverse(&t, bins);
        *taps = (double *)bins;
        n = response_cut(*taps, (int)t.size / 2, GRAPHIC_REST_DB, (int)t.size, rest_db); /* the rest wraps around */
    }
    transform_close(&t);
    return n;
}

bool equalizer_graphic_read(struct network *net, const char *parameters, int line, const struct filter **filter,
                            char *why, size_t cap)
{
    struct frequency_curve read, *kept = arena_alloc(net->c->arena, 1, sizeof *kept);
    *filter = NULL;
    if (!frequency_curve_read_pairs(&read, parameters, why, cap)) return false;
    if (!kept || !arena_keep(net->c->arena, read.points)) {
        frequency_curve_free(&read);
        return true;
    }
    *kept = read;
    *filter = filter_computed(net, make_graphic, kept, line, "GraphicEQ");
    return true;
}
