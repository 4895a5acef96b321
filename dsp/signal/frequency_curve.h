/* frequency_curve - reads a gain over frequency from texts of programs for measurements, headphones and microphones.
 *
 *   * Freq(Hz) SPL(dB)          comments are skipped, and lines before the first point that do not begin with a number
 *   20.0 71.3                   a frequency in Hz and a gain in dB, separated by blanks, a comma or a semicolon
 *   25.0 72.8 14.1              a third column may be a phase in degrees; further columns are ignored. No line may have
 *                               more columns than the first point
 *   1 250 70.2                  with a no-break blank: 1250 Hz (number.h)
 *
 *   "Sens Factor =-.7dB, ..."   a microphone's calibration has its sensitivity in such a line, or in
 *   *1000Hz -37.1               a line like this
 *
 *   GraphicEQ: 20 -1.2; 25 0    a text may have all points in one line
 *
 * Between two points the gain in dB is linear in the logarithm of the frequency; beyond the ends it is constant.
 */
#ifndef HALOCONV_FREQUENCY_CURVE_H
#define HALOCONV_FREQUENCY_CURVE_H

#include <stdbool.h>
#include <stddef.h>

struct frequency_point {
    double hz, db;
    double degrees;                 /* phase from -180 to 180; 0 without has_phase */
};

struct frequency_curve {
    struct frequency_point *points; /* [n], from low to high frequencies; from malloc */
    size_t n;
    bool has_phase;                 /* every point has a third column */
    double sensitivity_db;          /* as the text states it; NAN: it does not */
    char gain_column[32];           /* name of the second of more columns, if the third is no phase; "": no such table */
};

/* Reads a text with a final 0: lines, or the pairs behind "GraphicEQ:" up to the end of the text. The locale of the
 * thread must have a decimal point. A point at 0 Hz, which has no logarithm, is left out. false: *line is the refused
 * line, from 1, and `why` the text "REASON; REMEDY"; nothing has to be freed then. */
bool frequency_curve_read(struct frequency_curve *curve, const char *text, int *line, char *why, size_t cap);
bool frequency_curve_read_pairs(struct frequency_curve *curve, const char *text, char *why, size_t cap);
void frequency_curve_free(struct frequency_curve *curve);

/* Returns the gain at a frequency, hz >= 0. */
double frequency_curve_db(const struct frequency_curve *curve, double hz);

/* Returns the phase at a frequency, hz >= 0. Between two points the phase goes the shorter way around the circle. */
double frequency_curve_degrees(const struct frequency_curve *curve, double hz);

#endif
