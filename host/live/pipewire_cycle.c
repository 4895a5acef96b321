#ifdef HC_WITH_PIPEWIRE
#include "pipewire_cycle.h"

void pipewire_cycle_begin(struct pipewire_cycle *c, const struct spa_io_clock *clock, struct port_host *host)
{
    bool follows = !atomic_exchange_explicit(&c->is_resumed, false, memory_order_relaxed) && clock->id == c->clock &&
                   (int)clock->rate.denom == atomic_load_explicit(&c->graph_rate, memory_order_relaxed);
    if (follows && clock->position != c->next_position) session_count_xrun(host->session); /* cycles are missing */
    c->clock = clock->id;
    c->next_position = clock->position + clock->duration;
    hc_live_set_freewheel(host->live, (clock->flags & SPA_IO_CLOCK_FLAG_FREEWHEEL) != 0);
}

void pipewire_cycle_end(struct pipewire_cycle *c, const struct spa_io_clock *clock, int n)
{
    atomic_store_explicit(&c->graph_rate, (int)clock->rate.denom, memory_order_relaxed);
    atomic_store_explicit(&c->graph_block, n, memory_order_relaxed);
}

void pipewire_cycle_tend(struct pipewire_cycle *c, struct session *session)
{
    int rate = atomic_load(&c->graph_rate), block = atomic_load(&c->graph_block);
    if (rate <= 0 || block <= 0 || (rate == c->rate && block == c->block)) return;
    c->rate = rate;
    c->block = block;
    session_request_format(session, rate, block);
}
#endif
