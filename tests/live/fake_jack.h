/* fake_jack - a JACK server for one client in the same process: the functions of libjack that host/live/jack*.c calls,
 * and calls for a test to act as the server.
 */
#ifndef FAKE_JACK_H
#define FAKE_JACK_H

#include <stdbool.h>

/* A server without a client. */
void fake_jack_start(int rate, int block);

/* The server dies: at once, or when the client next lists its connections, which are then gone already. */
void fake_jack_die(bool while_listed);

/* The server dies when the client is next activated, which fails. After that, attempt number `absent` to open a client
 * finds it again, with all ports of the sound card. */
void fake_jack_die_in_activation(int absent);

/* The server is there (again), with the first so many of system:capture_1, _2, system:playback_1 and _2. */
void fake_jack_return(int ports);

/* Connects as another program does; says whether two ports are connected. The client's ports are test:NAME. */
void fake_jack_connect(const char *from, const char *to);
bool fake_jack_connects(const char *from, const char *to);

/* How often the client has listed its connections. */
int fake_jack_checks(void);

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
