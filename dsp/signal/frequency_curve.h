/* frequency_curve - a gain over frequency, as programs for measurements and headphones write one as text.
 *
 *   * Freq(Hz) SPL(dB)          lines before the first number that begin with no number are skipped, as are comments
 *   20.0 71.3                   a frequency in Hz and a gain in dB; blanks, a comma or a semicolon between them
 *   25.0 72.8 14.1              further columns are ignored, if the first point has as many
 *   1 250 70.2                  with a no-break blank: 1250 Hz (grouped_number.h)
 *
 *   GraphicEQ: 20 -1.2; 25 0    or all points in one line
 *
 * Between two points the gain in dB is a straight line over the logarithm of the frequency; it is flat beyond the ends.
 */
#ifndef HALOCONV_FREQUENCY_CURVE_H
#define HALOCONV_FREQUENCY_CURVE_H

#include <stdbool.h>
#include <stddef.h>

struct frequency_point {
    double hz, db;
};

struct frequency_curve {
    struct frequency_point *points; /* [n], from low to high frequencies; from malloc */
    size_t n;
};

/* Read a text with a final 0: lines, or the pairs behind "GraphicEQ:" up to the end of the text. The locale of the
 * thread must have a decimal point. A point at 0 Hz, which no logarithm has, is left out. false: *line, from 1, and why
 * say which line is refused, "REASON; REMEDY"; nothing has to be freed then. */
bool frequency_curve_read(struct frequency_curve *curve, const char *text, int *line, char *why, size_t cap);
bool frequency_curve_read_pairs(struct frequency_curve *curve, const char *text, char *why, size_t cap);
void frequency_curve_free(struct frequency_curve *curve);

/* The gain at a frequency, hz >= 0. */
double frequency_curve_db(const struct frequency_curve *curve, double hz);

#endif
