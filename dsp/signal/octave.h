/* octave - octave bands of a response, by Butterworth band-pass filters of three pole pairs: class 1 of IEC 61260-1.
 *
 * The filters run backwards in time (their phase is reversed), so that they ring before a sound and not after it: their
 * ringing does not lengthen a decay (Jacobsen and Rindel, J. Sound Vib. 117, 1987). A decay of T seconds then needs
 * T >= 4 / bandwidth.
 */
#ifndef OCTAVE_H
#define OCTAVE_H

#include "transform.h"

enum { OCTAVES = 8 };

extern const int octave_hz[OCTAVES];      /* 63, 125, ... 8000: the nominal midband frequencies */

double octave_bandwidth(int hz);          /* bandwidth of a nominal octave, Hz                  */
double octave_delay(int hz);              /* seconds by which the energy of a band is early     */
bool octave_fits(int hz, int rate);       /* the upper edge is below half the rate              */

struct octave_bank {
    int rate, n;
    size_t size;                          /* size of the transform, with space for the ringing  */
    struct transform transform;
    double complex *spectrum, *band;      /* [size / 2 + 1]                                     */
};

/* h[n] at a rate. false: no memory; nothing has to be closed then. */
bool octave_open(struct octave_bank *bank, const double *h, int n, int rate);
void octave_close(struct octave_bank *bank);

/* Returns the response in a band, [size], until the next call. The ringing before the start of h is at the end. */
const double *octave_filter(struct octave_bank *bank, int hz);

#endif
