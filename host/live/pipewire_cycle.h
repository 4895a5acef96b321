/* pipewire_cycle - what a session learns from the cycles of PipeWire's graph: rate, quantum, missing cycles, freewheel.
 */
#ifndef PIPEWIRE_CYCLE_H
#define PIPEWIRE_CYCLE_H

#include "port_host.h"

#include <spa/node/io.h>
#include <stdatomic.h>

struct pipewire_cycle {
    atomic_bool is_first;        /* the next cycle follows no other      */
    struct spa_io_clock clock;   /* of the last cycle; audio thread      */
};

/* Call it in each cycle, of n frames, before hc_live_process. [rt] */
void pipewire_cycle_begin(struct pipewire_cycle *cycle, const struct spa_io_clock *clock, int n,
                          struct port_host *host);

#endif
