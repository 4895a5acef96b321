/* fake_pipewire - a PipeWire daemon for one node in the same process: the functions of libpipewire that
 * host/live/pipewire*.c call, and calls for a test to act as the daemon.
 */
#ifndef FAKE_PIPEWIRE_H
#define FAKE_PIPEWIRE_H

#include <stdbool.h>

/* A daemon without a node, whose settings have this rate and quantum. */
void fake_pipewire_start(int rate, int quantum);

/* Has the node been connected, and not destroyed since? */
bool fake_pipewire_has_node(void);

/* One cycle: in[n_in][n] and out[n_out][n] become the buffers of the node's ports. Returns the name of the first
 * forbidden call that trap.c saw in the callback, or NULL. Does nothing without a node. */
const char *fake_pipewire_cycle(const float *const *in, float *const *out, int n);

/* The next cycle comes n frames later: the graph was suspended, or (not reported) cycles are missing. On the thread that
 * plays. */
void fake_pipewire_pause(int n, bool is_reported);

/* Between two cycles, on the thread that plays: the next cycle has it. */
void fake_pipewire_set_rate(int rate);
void fake_pipewire_set_freewheel(bool on);

#endif
