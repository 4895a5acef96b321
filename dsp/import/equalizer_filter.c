#include "equalizer_filter.h"

#include "dsp/base/error.h"
#include "dsp/base/number.h"
#include "dsp/signal/frequency_curve.h"
#include "dsp/signal/recursive_filter.h"
#include "dsp/signal/transform.h"
#include "sections.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define GRAPHIC_REST_DB (-100.0) /* cut level of a graphic equaliser, whose curve has kinks and decays slowly */
enum {
    GRAPHIC_HZ = 4, /* bins of the spectrum for each Hz */
    MAX_ORDER = 64  /* order of an IIR filter           */
};

/* ---- sections ----------------------------------------------------------------------------------- */

struct type {
    const char *name;
    enum biquad_kind kind;
    double q; /* default q; 0: the text must have one */
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

/* Does a word begin that may follow a number without a unit? */
static bool begins_value(const char *text)
{
    static const char *const words[] = {"Fc", "Gain", "Q", "BW", "T60", "Order", "Coefficients"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strncmp(text, words[i], strlen(words[i])) == 0) return true;
    return false;
}

/* Does a second number begin, which nothing names? */
static bool begins_digit(const char *text)
{
    return isdigit((unsigned char)text[strspn(text, "+-.")]);
}

enum equalizer_number equalizer_number(const char *text, const char *unit, bool is_hz, double *value, const char **end)
{
    unsigned flags = GROUPED_BY_BLANKS | GROUPED_DECIMAL_COMMA | (is_hz ? GROUPED_BY_POINTS : 0);
    size_t length = strlen(unit);
    *value = grouped_number(text, flags, end);
    if (*end == text) return NUMBER_ABSENT;
    const char *behind = *end + grouped_number_blanks(*end);
    if (length && strncasecmp(behind, unit, length) == 0 && !isalnum((unsigned char)behind[length])) {
        *end = behind + length;
        return begins_digit(*end + grouped_number_blanks(*end)) ? NUMBER_WRONG : NUMBER_WITH_UNIT;
    }
    bool is_end = !*behind || strchr(",;#", *behind);
    bool has_more = behind > *end && ((!length && !begins_digit(behind)) || begins_value(behind));
    return is_end || has_more ? NUMBER_BARE : NUMBER_WRONG;
}

/* Reads the number behind a word such as "Fc": the first, as in Equalizer APO; `why` names a second. NUMBER_WRONG:
 * `why` has the reason. */
static enum equalizer_number number_behind(const char *text, const char *word, const char *unit, double *value,
                                           struct reason *why)
{
    bool is_hz = strcmp(unit, "Hz") == 0;
    enum equalizer_number first = NUMBER_ABSENT;
    for (const char *at = text, *end; (at = strstr(at, word)) != NULL; at++) {
        const char *number = at + strlen(word);
        double read;
        if (at > text && isalnum((unsigned char)at[-1])) continue;
        enum equalizer_number found = equalizer_number(number, unit, is_hz, &read, &end);
        if (found == NUMBER_WRONG)
            fail(0, why, "\"%.24s\" behind %s is not a number%s%s; write a number such as 1250 or 0.5",
                 number + grouped_number_blanks(number), word, *unit ? " of " : "", unit);
        else if (found != NUMBER_ABSENT && first != NUMBER_ABSENT)
            fail(0, why, "%s occurs twice, and the first counts; remove the other", word);
        if (found == NUMBER_ABSENT || (found != NUMBER_WRONG && first != NUMBER_ABSENT)) continue;
        *value = read;
        first = found;
        if (found == NUMBER_WRONG) break;
    }
    return first;
}

/* Converts the corner of a shelf to its centre. Fc of LS and HS with a slope or Q is the corner, as in the DCX2496. */
static double centre_of_corner(const struct section *s, double slope)
{
    double factor = pow(10, fabs(s->gain_db) / 80 / slope);
    return s->kind == BIQUAD_LOWSHELF ? s->hz * factor : s->hz / factor;
}

/* Sets q of a shelf by its slope (1 = 12 dB an octave; 0: absent) or by its Q. */
static bool shape_shelf(struct section *s, const struct type *type, double slope, double q)
{
    double a = pow(10, s->gain_db / 40);
    bool has_slope = slope > 0, is_corner = (has_slope || q > 0) && type->name[2] == 0;
    if (!has_slope) slope = q > 0 ? 1 / ((1 / (q * q) - 2) / (a + 1 / a) + 1) : 0.9;
    s->q = q > 0 && !has_slope ? q : biquad_q_of_slope(s->gain_db, slope);
    if (is_corner) s->hz = centre_of_corner(s, slope);
    return slope > 0 && s->q > 0 && isfinite(s->q) && isfinite(s->hz);
}

/* Reads the slope in front of a shelf's Fc, "6dB" or "10.8 dB"; 0: absent. */
static bool slope_read(const char *parameters, double *slope, struct reason *why)
{
    const char *end;
    double db;
    enum equalizer_number found = equalizer_number(parameters, "dB", false, &db, &end);
    *slope = db / 12;
    return found == NUMBER_ABSENT || (found == NUMBER_WITH_UNIT && db > 0) ||
           fail(0, why, "\"%.24s\" is not a slope in dB above 0; write a slope such as 6dB",
                parameters + grouped_number_blanks(parameters));
}

static bool section_read(struct section *s, const struct type *type, const char *parameters, struct reason *why)
{
    double q = 0, slope = 0, unused;
    *s = (struct section){.kind = type->kind};
    enum equalizer_number hz = number_behind(parameters, "Fc", "Hz", &s->hz, why), gain = NUMBER_BARE;
    if (type->has_gain) gain = number_behind(parameters, "Gain", "dB", &s->gain_db, why);
    if (hz == NUMBER_WRONG || gain == NUMBER_WRONG || number_behind(parameters, "Q", "", &q, why) == NUMBER_WRONG)
        return false;
    if (s->hz <= 0) return fail(0, why, "has no frequency; write Fc and a number of Hz above 0");
    if (gain == NUMBER_ABSENT) return fail(0, why, "has no gain; write Gain and a number of dB");
    if (fabs(s->gain_db) > 200) return fail(0, why, "the gain is %g dB; give -200 to 200 dB", s->gain_db);
    if (!type->has_gain && number_behind(parameters, "Gain", "dB", &unused, why) > NUMBER_WRONG && unused != 0)
        fail(0, why, "Gain has no effect on %s; write it in a line Preamp", type->name);
    if (is_shelf(type)) {
        if (!slope_read(parameters, &slope, why)) return false;
        if (slope > 0 && q != 0) fail(0, why, "Q has no effect beside the slope in dB; remove one of them");
        if (number_behind(parameters, "BW Oct", "", &unused, why) > NUMBER_WRONG)
            fail(0, why, "BW Oct has no effect on a shelf; write Q");
        if (shape_shelf(s, type, slope, q)) return true;
        return fail(0, why, "this slope or Q makes no shelf; give a slope of up to 12 dB, and a Q above 0");
    }
    if (number_behind(parameters, "BW Oct", "", &s->octaves, why) == NUMBER_WRONG) return false;
    if (q != 0 && s->octaves > 0) fail(0, why, "Q has no effect beside BW Oct; remove one of them");
    s->q = q != 0 ? q : type->q;
    if (s->q > 0 || s->octaves > 0) return true;
    return fail(0, why, "has no Q; write Q, or BW Oct, and a number above 0");
}

/* ---- IIR with coefficients ---------------------------------------------------------------------- */

struct iir {
    int order;
    double b[MAX_ORDER + 1], a[MAX_ORDER + 1];
};

static int make_iir(const void *data, int rate, double **taps, double *rest_db)
{
    const struct iir *f = data;
    (void)rate;
    return recursion_taps(f->b, f->order + 1, f->a, f->order + 1, SECTIONS_REST_DB, SECTIONS_TAPS, taps, rest_db);
}

static bool iir_read(struct network *net, const char *parameters, int line, const struct filter **filter,
                     struct reason *why)
{
    struct iir *f = arena_alloc(net->c->arena, 1, sizeof *f);
    const char *at = strstr(parameters, "Coefficients"), *end;
    double order = 0;
    if (!f) return true;
    if (!at || number_behind(parameters, "Order", "", &order, why) != NUMBER_BARE || order < 1 || order > MAX_ORDER)
        return fail(0, why, "needs Order M, 1 to %d, and Coefficients", MAX_ORDER);
    f->order = (int)order;
    at += strlen("Coefficients");
    for (int i = 0; i < 2 * (f->order + 1); i++, at = end) {
        double *to = i <= f->order ? &f->b[i] : &f->a[i - f->order - 1];
        *to = grouped_number(at, GROUPED_DECIMAL_COMMA, &end);
        bool is_number = end > at;
        if (*end == ',') end++;
        if (is_number && (!*end || grouped_number_blanks(end) || end[-1] == ',')) continue;
        return fail(0, why, "coefficient %d of %d is not a number; give b0 to b%d and a0 to a%d", i + 1,
                    2 * (f->order + 1), f->order, f->order);
    }
    if (f->a[0] == 0) return fail(0, why, "a0 is 0, and divides all other coefficients; write another number");
    double a0 = f->a[0];
    for (int i = 0; i <= f->order; i++) {
        f->b[i] /= a0;
        f->a[i] /= a0;
    }
    if (!recursion_is_stable(f->a, f->order + 1))
        return fail(0, why,
                    "the filter is not stable; its output would grow without bound: correct its a coefficients");
    *filter = filter_computed(net, make_iir, f, line, "Filter");
    return true;
}

/* ---- the texts ---------------------------------------------------------------------------------- */

bool equalizer_filter_read(struct network *net, const char *parameters, int line, const struct filter **filter,
                           struct reason *why)
{
    const char *at = parameters + strspn(parameters, " \t");
    char name[16] = "";
    *filter = NULL;
    if (strncmp(at, "OFF", 3) == 0) return true;
    if (strncmp(at, "ON", 2) != 0 || !strchr(" \t", at[2]))
        return fail(0, why, "is neither ON nor OFF; write ON and a type such as PK");
    at += 2;
    at += strspn(at, " \t");
    size_t length = strcspn(at, " \t");
    snprintf(name, sizeof name, "%.*s", (int)length, at);
    at += length;
    if (strcmp(name, "None") == 0) return true;
    if (strcmp(name, "IIR") == 0) return iir_read(net, at, line, filter, why);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        if (strcmp(name, types[i].name) != 0) continue;
        struct section s;
        if (!section_read(&s, &types[i], at, why)) return false;
        *filter = filter_of_sections(net, &s, 1, line, "Filter");
        return true;
    }
    return fail(0, why, "%s is not a type of filter; use PK, LP, HP, LPQ, HPQ, BP, NO, AP, LS, HS, LSC, HSC or IIR",
                name);
}

/* Computes the minimum-phase response of a curve. */
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
            bins[k] = pow(10, fmax(db, -100) / 20); /* the minimum is -100 dB, as in Equalizer APO */
        }
        transform_minimum_phase(&t, bins);
        transform_inverse(&t, bins);
        *taps = (double *)bins;
        n = response_cut(*taps, (int)t.size / 2, GRAPHIC_REST_DB, (int)t.size, rest_db); /* the rest wraps around */
    }
    transform_close(&t);
    return n;
}

bool equalizer_graphic_read(struct network *net, const char *parameters, int line, const struct filter **filter,
                            struct reason *why)
{
    struct frequency_curve read, *kept = arena_alloc(net->c->arena, 1, sizeof *kept);
    *filter = NULL;
    if (!frequency_curve_read_pairs(&read, parameters, REASON_TEXT(why))) return false;
    if (!kept || !arena_keep(net->c->arena, read.points)) {
        frequency_curve_free(&read);
        return true;
    }
    *kept = read;
    *filter = filter_computed(net, make_graphic, kept, line, "GraphicEQ");
    return true;
}
