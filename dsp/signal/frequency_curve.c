#include "frequency_curve.h"

#include "dsp/base/number.h"
#include "dsp/base/order.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define MAX_HZ 1e9
#define MAX_DB 1000 /* the power of a larger gain might not be finite */

static const char blanks[] = " \t\r", separators[] = " \t\r,;";

struct curve_reading {
    struct frequency_curve *curve;
    size_t capacity;
    int line;
    int n_columns;                   /* number of columns of the first point */
    const char *header, *header_end; /* the last line before the first point */
    char *why;
    size_t cap;
};

static bool refuse_line(struct curve_reading *r, const char *reason)
{
    snprintf(r->why, r->cap, "%s", reason);
    return false;
}

/* Appends a point that has n columns. */
static bool add_point(struct curve_reading *r, const double *column, int n)
{
    double hz = column[0], db = column[1];
    bool has_phase = n > 2 && isfinite(column[2]);
    struct frequency_curve *curve = r->curve;
    if (!(hz >= 0 && hz <= MAX_HZ)) return refuse_line(r, "the frequency is not between 0 and 1e9 Hz; correct it");
    if (!(fabs(db) <= MAX_DB)) return refuse_line(r, "the gain is not between -1000 and 1000 dB; correct it");
    if (hz == 0) return true;
    if (curve->n == r->capacity) {
        r->capacity = r->capacity ? 2 * r->capacity : 64;
        struct frequency_point *points = realloc(curve->points, r->capacity * sizeof *points);
        if (!points) return refuse_line(r, "no memory for the curve; free some memory");
        curve->points = points;
    }
    curve->points[curve->n++] = (struct frequency_point){hz, db, has_phase ? remainder(column[2], 360) : 0};
    curve->has_phase = has_phase && (curve->n == 1 || curve->has_phase);
    return true;
}

static bool begins_number(char c)
{
    return c && strchr("0123456789+-.", c);
}

/* Reads the numbers up to `end`; the first two or three are a point. Refuses a comma that may be a decimal comma. */
static bool read_point(struct curve_reading *r, const char *at, const char *end)
{
    double value[3] = {0};
    int n = 0;
    bool has_comma = false, has_other = false;
    at += strspn(at, blanks);
    if (at >= end) return true;
    while (at < end) {
        const char *behind;
        double number = grouped_number(at, 0, &behind);
        if (behind == at || (behind < end && !strchr(separators, *behind))) break;
        if (n < 3) value[n] = number;
        n++;
        at = behind + strspn(behind, separators);
        if (at >= end) break;
        bool comma = memchr(behind, ',', (size_t)(at - behind)) != NULL;
        has_comma |= comma;
        has_other |= !comma;
    }
    if (n == 1)
        return refuse_line(r, "has one number, as an impulse response for `haloconv convolve` has; write a frequency "
                              "in Hz and a gain in dB");
    if (n < 2) return refuse_line(r, "needs a frequency in Hz and a gain in dB; put # in front of a comment");
    if (at < end && !begins_number(*at))
        return refuse_line(r, "has text behind its numbers; put # in front of a comment");
    if (has_comma && has_other)
        return refuse_line(r, "has a decimal comma, or a comma beside other separators; write 0.5 for 0,5");
    if (r->n_columns == 0) r->n_columns = n;
    if (n > r->n_columns) return refuse_line(r, "has more numbers than the points before; write 1250 for 1 250");
    return add_point(r, value, n);
}

static bool read_pairs(struct curve_reading *r, const char *text, const char *end)
{
    r->n_columns = 2;
    while (text < end) {
        const char *semicolon = memchr(text, ';', (size_t)(end - text));
        if (!semicolon) semicolon = end;
        if (!read_point(r, text, semicolon)) return false;
        text = semicolon + 1;
    }
    return true;
}

/* Reads a number behind blanks. Returns the address behind the number; NULL: no number before `end`. */
static const char *curve_read_number(const char *at, const char *end, double *number)
{
    at += strspn(at, blanks);
    if (at >= end || !begins_number(*at)) return NULL;
    const char *behind = number_read(at, -DBL_MAX, DBL_MAX, number);
    return behind && behind <= end ? behind : NULL;
}

/* Looks for the sensitivity of a microphone in a line that is not a point. */
static void read_sensitivity(struct curve_reading *r, const char *line, const char *end)
{
    static const char factor[] = "Sens Factor";
    const char *at = memmem(line, (size_t)(end - line), factor, strlen(factor));
    double hz, db;
    if (at) {
        at += strlen(factor) + strspn(at + strlen(factor), blanks);
        at = at < end && *at == '=' ? at + 1 : NULL;
    } else if (*line == '*') {
        at = curve_read_number(line + 1, end, &hz);
        if (at) at += strspn(at, blanks);
        at = at && strncasecmp(at, "Hz", 2) == 0 ? at + 2 : NULL;
    }
    if (at && curve_read_number(at, end, &db) && isnan(r->curve->sensitivity_db)) r->curve->sensitivity_db = db;
}

static bool read_curve_line(struct curve_reading *r, const char *line, const char *end)
{
    static const char graphic[] = "GraphicEQ:";
    line += strspn(line, blanks);
    if (strncasecmp(line, graphic, strlen(graphic)) == 0) return read_pairs(r, line + strlen(graphic), end);
    bool is_header = r->curve->n == 0 && !begins_number(*line);
    if (*line != '*' && *line != '#' && !is_header) return read_point(r, line, end);
    read_sensitivity(r, line, end);
    if (is_header) r->header = line, r->header_end = end;
    return true;
}

static bool read_curve_lines(struct curve_reading *r, const char *text)
{
    if (strncmp(text, "\xef\xbb\xbf", 3) == 0) text += 3; /* byte order mark of UTF-8 */
    while (*text) {
        size_t length = strcspn(text, "\n");
        const char *end = text + length, *comment = memchr(text, '#', length);
        r->line++;
        if (!read_curve_line(r, text, comment ? comment : end)) return false;
        text = end + (*end == '\n');
    }
    return true;
}

/* Sorts the points, and refuses two gains at one frequency. */
static bool finish_curve(struct curve_reading *r)
{
    struct frequency_curve *curve = r->curve;
    size_t n = 0;
    if (curve->n == 0) return refuse_line(r, "has no points; write lines with a frequency in Hz and a gain in dB");
    qsort(curve->points, curve->n, sizeof *curve->points, order_of_doubles);
    for (size_t i = 0; i < curve->n; i++) {
        struct frequency_point p = curve->points[i];
        bool again = n > 0 && curve->points[n - 1].hz == p.hz;
        if (again && curve->points[n - 1].db != p.db) {
            snprintf(r->why, r->cap, "has two gains at %g Hz; remove one of them", p.hz);
            return false;
        }
        if (!again) curve->points[n++] = p;
    }
    curve->n = n;
    for (size_t i = 0; i < n && !curve->has_phase; i++) curve->points[i].degrees = 0;
    return true;
}

static bool finish_or_free(struct curve_reading *r, bool good)
{
    if (good && finish_curve(r)) return true;
    frequency_curve_free(r->curve);
    return false;
}

/* Names the column of the gain if the header of a table has a name for each of three columns or more. */
static void name_column(struct curve_reading *r)
{
    const char *at = r->header, *name[3] = {"", "", ""};
    int n = 0, width = 0;
    for (; at && at < r->header_end; n++) {
        int length = (int)strcspn(at, ",;\t\r\n");
        if (n < 3) name[n] = at;
        if (n == 1) width = length;
        at += length + 1;
    }
    if (n < 3 || n != r->n_columns || strncasecmp(name[2] + strspn(name[2], " \""), "phase", 5) == 0 ||
        strncasecmp(name[2] + strspn(name[2], " \""), "deg", 3) == 0)
        return;
    snprintf(r->curve->gain_column, sizeof r->curve->gain_column, "%.*s", width, name[1]);
}

bool frequency_curve_read(struct frequency_curve *curve, const char *text, int *line, char *why, size_t cap)
{
    struct curve_reading r = {.curve = curve, .why = why, .cap = cap};
    *curve = (struct frequency_curve){.sensitivity_db = NAN};
    bool good = finish_or_free(&r, read_curve_lines(&r, text));
    if (good) name_column(&r);
    *line = r.line;
    return good;
}

bool frequency_curve_read_pairs(struct frequency_curve *curve, const char *text, char *why, size_t cap)
{
    struct curve_reading r = {.curve = curve, .why = why, .cap = cap};
    *curve = (struct frequency_curve){.sensitivity_db = NAN};
    return finish_or_free(&r, read_pairs(&r, text, text + strlen(text)));
}

void frequency_curve_free(struct frequency_curve *curve)
{
    free(curve->points);
    *curve = (struct frequency_curve){0};
}

/* Returns the last point at or below hz. *share: where log hz lies between this point (0) and the next (1). */
static const struct frequency_point *point_below(const struct frequency_curve *curve, double hz, double *share)
{
    const struct frequency_point *p = curve->points;
    size_t low = 0, high = curve->n - 1;
    *share = 0;
    if (hz <= p[low].hz) return &p[low];
    if (hz >= p[high].hz) return &p[high];
    while (high - low > 1) {
        size_t middle = (low + high) / 2;
        if (p[middle].hz <= hz)
            low = middle;
        else
            high = middle;
    }
    *share = log(hz / p[low].hz) / log(p[high].hz / p[low].hz);
    return &p[low];
}

double frequency_curve_db(const struct frequency_curve *curve, double hz)
{
    double share;
    const struct frequency_point *p = point_below(curve, hz, &share);
    return share > 0 ? p->db + (p[1].db - p->db) * share : p->db;
}

double frequency_curve_degrees(const struct frequency_curve *curve, double hz)
{
    double share;
    const struct frequency_point *p = point_below(curve, hz, &share);
    return share > 0 ? p->degrees + remainder(p[1].degrees - p->degrees, 360) * share : p->degrees;
}
