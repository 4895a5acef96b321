/* Any bytes as a curve over frequency. A curve that is read has rising frequencies and finite gains, its points are on it,
 * and one printed and read again is the same. */
#include "dsp/signal/frequency_curve.h"
#include "fuzz.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool read(const char *text, struct frequency_curve *curve)
{
    char why[200] = "";
    int line = -1;
    bool good = frequency_curve_read(curve, text, &line, why, sizeof why);
    must(good ? curve->n > 0 : *why && strchr(why, ';') && line >= 0 && !curve->points);
    return good;
}

static void look(const struct frequency_curve *c)
{
    must(isnan(c->sensitivity_db) || isfinite(c->sensitivity_db));
    for (size_t i = 0; i < c->n; i++) {
        const struct frequency_point *p = &c->points[i];
        must(p->hz > 0 && isfinite(p->hz) && isfinite(p->db) && (i == 0 || p[-1].hz < p->hz));
        must(frequency_curve_db(c, p->hz) == p->db && frequency_curve_degrees(c, p->hz) == p->degrees);
        must(isfinite(p->degrees) && (c->has_phase || p->degrees == 0));
        if (i == 0) continue;
        double between = frequency_curve_db(c, sqrt(p[-1].hz) * sqrt(p->hz));
        must(between >= fmin(p[-1].db, p->db) - 1e-6 && between <= fmax(p[-1].db, p->db) + 1e-6);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct frequency_curve curve, again;
    if (size == 0 || memchr(data, 0, size)) return 0; /* the caller refuses a byte 0 */
    char *text = malloc(size + 1);
    if (!text) return 0;
    memcpy(text, data, size);
    text[size] = 0;
    if (frequency_curve_read_pairs(&curve, text, (char[200]){0}, 200)) {
        look(&curve);
        frequency_curve_free(&curve);
    }
    if (read(text, &curve)) {
        look(&curve);
        char *printed = malloc(curve.n * 96 + 1);
        must(printed);
        for (size_t i = 0, at = 0; i < curve.n; i++)
            at += (size_t)(curve.has_phase
                               ? sprintf(printed + at, "%.17g %.17g %.17g\n", curve.points[i].hz, curve.points[i].db,
                                         curve.points[i].degrees)
                               : sprintf(printed + at, "%.17g %.17g\n", curve.points[i].hz, curve.points[i].db));
        must(read(printed, &again) && again.n == curve.n && again.has_phase == curve.has_phase);
        must(memcmp(again.points, curve.points, curve.n * sizeof *curve.points) == 0);
        frequency_curve_free(&again);
        frequency_curve_free(&curve);
        free(printed);
    }
    free(text);
    return 0;
}
