#include "correction_curve.h"

#include "dsp/base/order.h"
#include "dsp/signal/hann.h"
#include "dsp/signal/smoothing.h"

#include <math.h>
#include <stdlib.h>

#define GRID_LOW_HZ 10.0 /* limits of the band are looked for from here on */
#define FALL_DB 10.0

double response_curve_db(const struct response_curve *c, double hz)
{
    double at = fmin(hz / c->bin_hz, (double)(c->n_bins - 1));
    size_t k = at >= 1 ? (size_t)at : 1; /* no response has a meaning at 0 Hz */
    double share = at >= 1 ? at - (double)k : 0;
    double power = k + 1 < c->n_bins ? c->power[k] * (1 - share) + c->power[k + 1] * share : c->power[k];
    return 10 * log10(fmax(power, 1e-40));
}

/* ---- the band ----------------------------------------------------------------------------------- */

static double median_db(const double *db, int n, double min)
{
    double kept[BAND_MAX_POINTS] = {0};
    int n_kept = 0;
    for (int i = 0; i < n; i++)
        if (db[i] >= min) kept[n_kept++] = db[i];
    qsort(kept, (size_t)n_kept, sizeof *kept, order_of_doubles);
    return kept[n_kept / 2];
}

/* Finds the last point before the level stays below `min` for an octave, or to the end. */
static int find_band_edge(const double *db, int n, int from, int step, double min)
{
    int last = from;
    for (int i = from; i >= 0 && i < n && abs(i - last) <= BAND_PER_OCTAVE; i += step)
        if (db[i] >= min) last = i;
    return last;
}

static int points_between(double low_hz, double high_hz)
{
    int n = (int)(BAND_PER_OCTAVE * log2(high_hz / low_hz)) + 1;
    return n < BAND_MAX_POINTS ? n : BAND_MAX_POINTS;
}

double band_point_hz(double low_hz, int i)
{
    return low_hz * exp2((double)i / BAND_PER_OCTAVE);
}

struct correction_band band_find(const struct response_curve *c)
{
    double db[BAND_MAX_POINTS], max = -INFINITY, end = c->bin_hz * (double)(c->n_bins - 1);
    int n = points_between(GRID_LOW_HZ, end), start = 0;
    for (int i = 0; i < n; i++) db[i] = response_curve_db(c, band_point_hz(GRID_LOW_HZ, i));
    for (int i = 0; i < n; i++) max = fmax(max, db[i]);
    double level = median_db(db, n, max - 20), min = level - FALL_DB;
    for (int i = 1; i < n; i++) /* the point that is nearest to the median */
        if (fabs(db[i] - level) < fabs(db[start] - level)) start = i;
    int low = find_band_edge(db, n, start, -1, min), high = find_band_edge(db, n, start, 1, min);
    bool low_is_found = low > 0, high_is_found = high < n - 1;
    return (struct correction_band){.low_hz = low_is_found ? band_point_hz(GRID_LOW_HZ, low) : 0,
                                    .high_hz = high_is_found ? band_point_hz(GRID_LOW_HZ, high) : end,
                                    .low_is_found = low_is_found,
                                    .high_is_found = high_is_found,
                                    .level_db = level};
}

int band_points(const struct correction_band *band, double *low_hz)
{
    double high_hz = fmin(band->high_hz, CORRECTION_HIGH_HZ);
    *low_hz = fmax(band->low_hz, CORRECTION_LOW_HZ);
    if (*low_hz < high_hz) return points_between(*low_hz, high_hz);
    *low_hz = fmax(band->low_hz, 1); /* the band is all below 20 Hz or above 20 kHz */
    return points_between(*low_hz, band->high_hz);
}

/* ---- the gain ----------------------------------------------------------------------------------- */

/* Returns the smaller value, with a round corner that begins 1 dB below the limit. */
static double limit(double db, double max)
{
    double over = db - max + 1;
    return over <= 0 ? db : over >= 2 ? max : db - over * over / 4;
}

static double roll_off_db(const struct correction_band *band, double hz)
{
    double low = band->low_is_found ? pow(band->low_hz / hz, 8) : 0;
    double high = band->high_is_found ? pow(hz / band->high_hz, 8) : 0;
    return -10 * log10(1 + (pow(10, FALL_DB / 10) - 1) * (low + high));
}

static double clamp(double x, double low, double high)
{
    return fmin(fmax(x, low), high);
}

static double shape_db(const struct correction_curve *c, double hz)
{
    return c->settings->target ? frequency_curve_db(c->settings->target, hz) : 0;
}

/* The gain before its limits, and without the fade beyond the band. */
static double wanted_db(const struct correction_curve *c, double hz)
{
    double db = c->level_db + shape_db(c, hz) - response_curve_db(&c->response, hz);
    return db > 0 ? fmax(db + roll_off_db(&c->band, hz), 0) : db;
}

double correction_curve_target_db(const struct correction_curve *c, double hz)
{
    return wanted_db(c, hz) + response_curve_db(&c->response, hz);
}

double correction_curve_db(const struct correction_curve *c, double hz)
{
    const double fade_octaves = 0.5;
    double low = fmax(c->band.low_hz, c->response.bin_hz), high = c->band.high_hz, inside = clamp(hz, low, high);
    double beyond = hz > 0 ? fabs(log2(hz / inside)) : c->band.low_hz > 0 ? fade_octaves : 0;
    double db = wanted_db(c, inside);
    db = limit(db, c->settings->boost_db);
    db = -limit(-db, c->settings->cut_db);
    return db * hann_rise(1 - beyond / fade_octaves);
}

static double mean_gain_db(const struct correction_curve *c)
{
    double low, sum = 0;
    int n = band_points(&c->band, &low);
    for (int i = 0; i < n; i++) sum += correction_curve_db(c, band_point_hz(low, i));
    return sum / n;
}

void correction_curve_open(struct correction_curve *c)
{
    double low, min = INFINITY, max = -INFINITY;
    int n = band_points(&c->band, &low);
    c->level_db = 0;
    for (int i = 0; i < n; i++) {
        double hz = band_point_hz(low, i), db = response_curve_db(&c->response, hz) - shape_db(c, hz);
        min = fmin(min, db);
        max = fmax(max, db);
    }
    for (int i = 0; i < 40; i++) { /* the mean gain rises with the level: bisection */
        c->level_db = (min + max) / 2;
        if (mean_gain_db(c) < 0)
            min = c->level_db;
        else
            max = c->level_db;
    }
}

/* ---- the deviation ------------------------------------------------------------------------------ */

struct correction_deviation correction_curve_deviation(const struct correction_curve *c, const double *power,
                                                       double *means)
{
    double low, db[BAND_MAX_POINTS], mean = 0, square = 0, max = 0;
    int n = band_points(&c->band, &low);
    struct response_curve smoothed = {means, c->response.n_bins, c->response.bin_hz};
    smooth_octaves(power, means, smoothed.n_bins, 1.0 / 6);
    for (int i = 0; i < n; i++) {
        double hz = band_point_hz(low, i);
        db[i] = response_curve_db(&smoothed, hz) - correction_curve_target_db(c, hz);
        mean += db[i] / n;
    }
    for (int i = 0; i < n; i++) {
        square += (db[i] - mean) * (db[i] - mean) / n;
        max = fmax(max, fabs(db[i] - mean));
    }
    return (struct correction_deviation){max, sqrt(square)};
}
