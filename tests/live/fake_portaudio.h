/* fake_portaudio - a sound card for host/live/devices/portaudio.c: the functions of PortAudio that the program calls, and a call for
 * a test to act as the card. One device has both inputs and outputs.
 */
#ifndef FAKE_PORTAUDIO_H
#define FAKE_PORTAUDIO_H

#include <stdbool.h>

/* The card, with a stereo input and a stereo output. */
void fake_portaudio_start(int rate);

/* Another program has the card, for the next n attempts to open a stream. */
void fake_portaudio_refuse(int n);

/* Has a stream been started, and not closed since? */
bool fake_portaudio_has_stream(void);

/* One callback. Returns the name of the first forbidden call that trap.c saw in it, or NULL. Does nothing without a
 * stream. */
const char *fake_portaudio_call(const float *const *in, float *const *out, int n);

#endif
