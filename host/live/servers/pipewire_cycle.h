/* pipewire_cycle - what a session learns from the cycles of PipeWire's graph: rate, quantum, missing cycles, freewheel.
 */
#ifndef PIPEWIRE_CYCLE_H
#define PIPEWIRE_CYCLE_H

#include "port_host.h"

#include <spa/node/io.h>
#include <stdatomic.h>

struct pipewire_cycle {
    atomic_bool is_first;        /* the next cycle follows a pause       */
    struct spa_io_clock clock;   /* of the last cycle; audio thread      */
};

struct pipewire_gap {            /* between the last cycle and this      */
    int64_t n;                   /* frames in which the node was not called; not counted if the rate is another */
    bool is_pause;               /* the graph was suspended, as by PipeWire 1.4 for a quantum that is forced    */
    bool is_long;                /* half a second or more: what played before is over                           */
};

/* Call it in each cycle, of n frames, before hc_live_process. Counts an xrun if cycles are missing without a pause.
 * Returns the gap between the last cycle and this. [rt] */
struct pipewire_gap pipewire_cycle_begin(struct pipewire_cycle *cycle, const struct spa_io_clock *clock, int n,
                                         struct port_host *host);

#endif
