#include "port_host.h"

#ifdef HC_WITH_PIPEWIRE
#include "pipewire_cycle.h"

#include <math.h>

/* Counts an xrun if cycles are missing between the last one and this. The position jumps, too, with another quantum,
 * and when another node begins to drive the graph; then it does not agree with the time. */
static void check_position(struct pipewire_cycle *c, const struct spa_io_clock *clock, struct session *session)
{
    const struct spa_io_clock *last = &c->clock;
    bool follows = !atomic_exchange_explicit(&c->is_first, false, memory_order_relaxed) &&
                   clock->rate.denom == last->rate.denom && clock->duration == last->duration &&
                   clock->position > last->position + last->duration && !(clock->flags & SPA_IO_CLOCK_FLAG_FREEWHEEL);
    double frames = (double)(clock->position - last->position),
           passed = 1e-9 * (double)(clock->nsec - last->nsec) * clock->rate.denom;
    if (follows && fabs(frames - passed) < (double)last->duration) session_count_xrun(session);
}

/* Another quantum or rate begins with this cycle. session_tend wakes the loader. */
static void check_format(const struct pipewire_cycle *c, const struct spa_io_clock *clock, int n, hc_live *live)
{
    if (clock->duration == c->clock.duration && clock->rate.denom == c->clock.rate.denom) return;
    hc_live_request(live,
                    &(hc_live_change){.size = sizeof(hc_live_change), .rate = (int)clock->rate.denom, .block = n});
}

void pipewire_cycle_begin(struct pipewire_cycle *c, const struct spa_io_clock *clock, int n, struct port_host *host)
{
    check_position(c, clock, host->session);
    check_format(c, clock, n, host->live);
    c->clock = *clock;
    hc_live_set_freewheel(host->live, (clock->flags & SPA_IO_CLOCK_FLAG_FREEWHEEL) != 0);
}
#endif
