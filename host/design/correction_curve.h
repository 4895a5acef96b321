/* correction_curve - the gain of a correction over frequency: target minus response, within its limits.
 *
 *   gain, dB    boost limit  ......___............
 *                              ___/   \
 *   0 ________________________/        \__      /\_______    0 dB half an octave beyond the band
 *                     |                   \____/      |
 *                  low_hz                          high_hz
 *
 * A limit of the band that was found, where the response has fallen by 10 dB, also lowers the target: by 10 dB at the
 * limit, as a Butterworth filter of 4th order. This reduces boosts, and makes no cut.
 */
#ifndef CORRECTION_CURVE_H
#define CORRECTION_CURVE_H

#include "correction.h"

#define CORRECTION_LOW_HZ 20.0 /* limits of means and deviations, inside the band */
#define CORRECTION_HIGH_HZ 20000.0

struct response_curve { /* a mean power over frequency, at the bins of a transform */
    const double *power; /* [n_bins] */
    size_t n_bins;
    double bin_hz;
};

double response_curve_db(const struct response_curve *curve, double hz);

struct correction_band {
    double low_hz, high_hz;
    bool low_is_found, high_is_found;
    double level_db; /* the median of the response in the band; points 20 dB below the maximum do not count */
};

/* Finds where a curve that was smoothed by a third of an octave has fallen by 10 dB. */
struct correction_band band_find(const struct response_curve *curve);

/* The frequencies at which the band is judged: point i of the returned number is at
 * *low_hz * 2^(i / BAND_PER_OCTAVE). */
enum { BAND_PER_OCTAVE = 48, BAND_MAX_POINTS = 24 * BAND_PER_OCTAVE };
int band_points(const struct correction_band *band, double *low_hz);
double band_point_hz(double low_hz, int i);

struct correction_curve {
    const struct correction_settings *settings;
    struct correction_band band;
    struct response_curve response; /* smoothed */
    double level_db;                /* level of the target, such that the mean gain in the band is 0 dB */
};

/* Chooses the level. */
void correction_curve_open(struct correction_curve *curve);

/* Two functions return the gain at a frequency, and the level of the target there. */
double correction_curve_db(const struct correction_curve *curve, double hz);
double correction_curve_target_db(const struct correction_curve *curve, double hz);

/* The deviation of the 1/6 octave means of a power (bins: as the response) from the target, at one level. Writes
 * the means to means[n_bins]. */
struct correction_deviation correction_curve_deviation(const struct correction_curve *curve, const double *power,
                                                       double *means);

#endif
