#include "calibration.h"

#include "design_files.h"
#include "dsp/signal/transform.h"
#include "host/json_print.h"
#include "host/message.h"

#include <math.h>
#include <stdio.h>

static double low_hz(const struct calibration *c)
{
    return c->curve.points[0].hz;
}

static double high_hz(const struct calibration *c)
{
    return c->curve.points[c->curve.n - 1].hz;
}

bool calibration_read(struct calibration *c, const char *path, char *why, size_t cap)
{
    char sensitivity[64] = "no sensitivity";
    *c = (struct calibration){.path = path};
    if (!path) return true;
    if (!design_curve_read(&c->curve, path, why, cap)) return false;
    if (!isnan(c->curve.sensitivity_db))
        snprintf(sensitivity, sizeof sensitivity, "sensitivity %g dB", c->curve.sensitivity_db);
    message_note("%s: calibration from %g to %g Hz, %s, %s", path, low_hz(c), high_hz(c),
                 c->curve.has_phase ? "with phase" : "minimum phase", sensitivity);
    return true;
}

void calibration_free(struct calibration *c)
{
    frequency_curve_free(&c->curve);
}

void calibration_check_band(const struct calibration *c, double from_hz, double to_hz)
{
    if (c->path && (from_hz < low_hz(c) || to_hz > high_hz(c)))
        message_note(
            "%s: covers %g to %g Hz, but the measurement covers %g to %g Hz; outside, the first and last gains of the "
            "file apply",
            c->path, low_hz(c), high_hz(c), from_hz, to_hz);
}

void calibration_invert(const struct calibration *c, const struct transform *t, double rate, double complex *bins)
{
    for (size_t k = 0; k <= t->size / 2; k++)
        bins[k] = pow(10, -frequency_curve_db(&c->curve, (double)k * rate / (double)t->size) / 20);
    if (!c->curve.has_phase) {
        transform_minimum_phase(t, bins);
        return;
    }
    for (size_t k = 0; k <= t->size / 2; k++) {
        double degrees = frequency_curve_degrees(&c->curve, (double)k * rate / (double)t->size);
        double complex turn = cexp(-I * degrees * M_PI / 180);
        bins[k] *= k == 0 || k == t->size / 2 ? creal(turn) : turn; /* a real signal has no phase there */
    }
}

json_t *calibration_json(const struct calibration *c)
{
    if (!c->path) return json_null();
    return json_pack("{s:o, s:f, s:f, s:b, s:o}", "file", json_text(c->path), "from_hz", low_hz(c), "to_hz", high_hz(c),
                     "phase", (int)c->curve.has_phase, "sensitivity_db", json_number(c->curve.sensitivity_db));
}
