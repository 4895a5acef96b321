/* fake_jack - a JACK server for one client in the same process: the functions of libjack that host/live/jack.c calls,
 * and calls for a test to act as the server.
 */
#ifndef FAKE_JACK_H
#define FAKE_JACK_H

#include <stdbool.h>

/* A server without a client. */
void fake_jack_start(int rate, int block);

/* Has the client been activated, and not closed since? */
bool fake_jack_has_client(void);

/* One cycle: in[n_in][n] and out[n_out][n] become the buffers of the client's ports. Returns the name of the first
 * forbidden call that trap.c saw in the callback, or NULL. Does nothing without a client. */
const char *fake_jack_cycle(const float *const *in, float *const *out, int n);

/* Between two cycles, on the thread that plays. */
void fake_jack_set_block(int block);
void fake_jack_set_rate(int rate);
void fake_jack_set_freewheel(bool on);

#endif
