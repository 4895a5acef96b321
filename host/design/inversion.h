/* inversion - the inverse of a response, regularised: O. Kirkeby and P. A. Nelson, "Digital filter design for inversion
 * problems in sound reproduction", J. Audio Eng. Soc. 47 (1999).
 *
 *   C = conj(H) / (|H|^2 + beta) e^(-i w delay)
 *
 * beta is small inside the band and large outside. It also grows as the response gets weaker, such that the gain stays
 * below the boost limit. It is relative to the level of the response, which is the mean of its magnitude in dB over the
 * octaves of the band.
 */
#ifndef INVERSION_H
#define INVERSION_H

#include <stdbool.h>

struct inversion_settings {
    int rate, taps;
    int delay;                /* frames, below taps                                                                */
    double low_hz, high_hz;   /* the band                                                                          */
    double regularise_db;     /* beta in the band is so far below the level                                        */
    double boost_db;          /* largest gain, relative to the gain at the level                                   */
};

struct inversion_figures {
    double error_db;          /* RMS over the band of response * inverse - delayed impulse                         */
    double largest_gain_db;   /* at any frequency                                                                  */
};

/* response[n], not silent -> h[taps]. false: no memory. */
bool inversion_make(const struct inversion_settings *settings, const float *response, int n, double *h,
                    struct inversion_figures *figures);

#endif
