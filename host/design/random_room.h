/* random_room - the impulse response of a synthetic room: white Gaussian noise that decays by 60 dB in rt60_s. The same
 * seed gives the same room on every machine. */
#ifndef RANDOM_ROOM_H
#define RANDOM_ROOM_H

#include <stdint.h>

/* h[n_frames] of channel ch: `predelay` frames of silence, then the decaying noise; its energy (sum of squares) is 1.
 * */
void random_room_fill(uint64_t seed, int ch, int rate, double rt60_s, int predelay, int n_frames, double *h);

#endif
