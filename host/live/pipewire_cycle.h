/* pipewire_cycle - what a session learns from the cycles of PipeWire's graph: rate, quantum, missing cycles, freewheel.
 *
 * Threads: [rt] calls belong to the audio thread, the others to the control thread.
 */
#ifndef PIPEWIRE_CYCLE_H
#define PIPEWIRE_CYCLE_H

#include "port_host.h"

#include <spa/node/io.h>
#include <stdatomic.h>
#include <stdint.h>

struct pipewire_cycle {
    int rate, block;                     /* last requested of the session; control thread          */
    atomic_int graph_rate, graph_block;  /* of the last cycle                                      */
    atomic_bool is_resumed;              /* the next cycle follows no other                        */
    uint32_t clock;                      /* of the last cycle; audio thread                        */
    uint64_t next_position;
};

/* Call these before and after a cycle's hc_live_process of n frames. [rt] */
void pipewire_cycle_begin(struct pipewire_cycle *cycle, const struct spa_io_clock *clock, struct port_host *host);
void pipewire_cycle_end(struct pipewire_cycle *cycle, const struct spa_io_clock *clock, int n);

/* Requests the graph's rate and quantum of the session if they have changed. */
void pipewire_cycle_tend(struct pipewire_cycle *cycle, struct session *session);

#endif
