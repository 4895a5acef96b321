/* decay - the energy decay curve of a response, where it meets the noise, and lines through it.
 *
 *   level of h^2  \
 *   in windows     \__
 *                     \___
 *                        .\~~~~~~~~~~~~ noise
 *   start                n            end
 *
 * The curve is Schroeder's backward integral (J. Acoust. Soc. Am. 37, 1965). ISO 3382-1:2009, 5.3.3 ends it where the
 * decay meets the noise, and adds the energy of the decay below the noise. The crossing is found as in Lundeby, Vigran,
 * Bietz and Vorländer (Acustica 81, 1995): a line goes through the levels 5 to 25 dB above the noise, in windows in
 * which it falls by 2 dB, and the noise is measured where the line is 10 dB below; both are repeated.
 *
 * The energy of the noise before the crossing is subtracted, because it would lengthen the decay (Guski and
 * Vorländer, Acta Acustica 100, 2014).
 */
#ifndef DECAY_H
#define DECAY_H

#include <stdbool.h>

struct decay_fit {           /* a line through the curve; slope 0: no line                  */
    double slope;            /* dB a second, below 0                                        */
    double at_start_db;      /* level of the line at the start of the response              */
    double from_s, to_s;     /* the section of the curve that it fits, from the start          */
    double r2;               /* the squared coefficient of correlation                      */
};

struct decay {
    int rate, n;             /* frames until the decay meets the noise, or until the response ends */
    double *energy;          /* [n + 1]: energy of frame i and of all behind it, even behind frame n */
    double before;           /* energy before the start: the ringing of a reversed filter   */
    double noise;            /* mean square; 0: the response ends before it meets a noise   */
    bool falls;              /* falls by 10 dB or more, so that `late` is known             */
    double fall_db;          /* dB from the loudest window to the end, if not `falls`        */
    struct decay_fit late;   /* line through h^2 just above the noise, or before the end    */
};

/* h[n], n >= 1, from the start of the response on; its last value is not 0. n_ends: the filter's ringing falsifies that
 * many values at the end. window: frames of the shortest window for a level. false: no memory. */
bool decay_make(struct decay *decay, const double *h, int n, int n_ends, int rate, int window);
void decay_free(struct decay *decay);

double decay_total(const struct decay *decay);         /* all energy                              */
double decay_after(const struct decay *decay, double seconds); /* energy behind that time; NaN: the time is behind n */
double decay_db(const struct decay *decay, int frame); /* the curve, 0...n: 0 dB is all energy    */

/* The line of least squares through the curve between two levels. */
struct decay_fit decay_fit(const struct decay *decay, double from_db, double to_db);

#endif
