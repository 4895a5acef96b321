/* room - a synthetic room: white Gaussian noise that decays by 60 dB in rt60_s, the same for the same seed everywhere.
 */
#ifndef ROOM_H
#define ROOM_H

#include <stdint.h>

/* h[n_frames] of channel ch: `predelay` frames of silence, then the tail; its energy (sum of squares) is 1. */
void room_fill(uint64_t seed, int ch, int rate, double rt60_s, int predelay, int n_frames, double *h);

#endif
