#include "port_host.h"

#ifdef HC_WITH_PIPEWIRE
#include "pipewire_cycle.h"

#include <math.h>

static const double LONGEST_GAP_S = 0.5, SHORTEST_GAP_S = 1e-3; /* the time of a sound card's cycle jitters */

/* Returns how many frames are missing between the last cycle and this, which follows no pause. The position jumps, too,
 * with another quantum, and when another node begins to drive the graph; then it does not agree with the time. */
static int64_t missing_frames(const struct spa_io_clock *last, const struct spa_io_clock *clock, double passed_s)
{
    double frames = (double)(clock->position - last->position), passed = passed_s * clock->rate.denom;
    bool follows = clock->duration == last->duration && clock->position > last->position + last->duration;
    bool agrees = follows && fabs(frames - passed) < (double)last->duration;
    return agrees ? (int64_t)(clock->position - last->position - last->duration) : 0;
}

static struct pipewire_gap find_gap(struct pipewire_cycle *c, const struct spa_io_clock *clock)
{
    const struct spa_io_clock *last = &c->clock;
    struct pipewire_gap gap = {.is_pause = atomic_exchange_explicit(&c->is_first, false, memory_order_relaxed)};
    if (last->rate.denom == 0) return gap; /* the first cycle of all */
    bool freewheels = (clock->flags | last->flags) & SPA_IO_CLOCK_FLAG_FREEWHEEL;
    double passed_s = 1e-9 * ((double)clock->nsec - (double)last->nsec);
    double gap_s = passed_s - (double)last->duration / last->rate.denom;
    gap.is_long = gap_s > LONGEST_GAP_S && (gap.is_pause || !freewheels);
    if (freewheels || clock->rate.denom != last->rate.denom) return gap;
    if (!gap.is_pause)
        gap.n = missing_frames(last, clock, passed_s);
    else if (gap_s > SHORTEST_GAP_S)
        gap.n = llround(gap_s * clock->rate.denom);
    return gap;
}

/* Another quantum or rate begins with this cycle. session_tend wakes the loader. */
static void check_format(const struct pipewire_cycle *c, const struct spa_io_clock *clock, int n, hc_live *live)
{
    if (clock->duration == c->clock.duration && clock->rate.denom == c->clock.rate.denom) return;
    hc_live_request(live,
                    &(hc_live_change){.size = sizeof(hc_live_change), .rate = (int)clock->rate.denom, .block = n});
}

struct pipewire_gap pipewire_cycle_begin(struct pipewire_cycle *c, const struct spa_io_clock *clock, int n,
                                         struct port_host *host)
{
    struct pipewire_gap gap = find_gap(c, clock);
    if (gap.n > 0 && !gap.is_pause) session_count_xrun(host->session);
    check_format(c, clock, n, host->live);
    c->clock = *clock;
    hc_live_set_freewheel(host->live, (clock->flags & SPA_IO_CLOCK_FLAG_FREEWHEEL) != 0);
    return gap;
}
#endif
