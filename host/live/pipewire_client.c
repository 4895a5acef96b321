#include "host/message.h"

#ifdef HC_WITH_PIPEWIRE
#include "pipewire_client.h"

int pipewire_client_rate(const struct port_host *h)
{
    struct pipewire_graph *g = ((struct pipewire_client *)h->client)->graph;
    pipewire_graph_lock(g);
    int rate = pipewire_graph_rate(g, h->settings->rate);
    pipewire_graph_unlock(g);
    return rate;
}

int pipewire_client_block(const struct port_host *h)
{
    struct pipewire_graph *g = ((struct pipewire_client *)h->client)->graph;
    pipewire_graph_lock(g);
    int block = pipewire_graph_quantum(g, h->settings->block);
    pipewire_graph_unlock(g);
    return block;
}

void pipewire_client_set_format(const struct port_host *h, struct pw_properties *properties)
{
    const struct live_settings *s = h->settings;
    if (s->block) pw_properties_setf(properties, PW_KEY_NODE_LATENCY, "%d/%d", s->block, pipewire_client_rate(h));
    if (s->rate) pw_properties_setf(properties, PW_KEY_NODE_RATE, "1/%d", s->rate);
}

static int on_thread(struct spa_loop *loop, bool async, uint32_t number, const void *data, size_t size, void *host)
{
    (void)loop, (void)async, (void)number, (void)data, (void)size;
    port_host_begin_thread(host);
    return 0;
}

void pipewire_client_begin_thread(struct pipewire_client *c)
{
    pw_data_loop_invoke(pw_context_get_data_loop(c->graph->context), on_thread, 0, NULL, 0, false, c->host);
}

int pipewire_client_begin_cycle(struct pipewire_client *c, const struct spa_io_clock *clock)
{
    bool is_cut = clock->duration > PIPEWIRE_MAX_QUANTUM;
    int n = is_cut ? PIPEWIRE_MAX_QUANTUM : (int)clock->duration;
    if (is_cut) atomic_store_explicit(&c->is_cut, true, memory_order_relaxed);
    pipewire_cycle_begin(&c->cycle, clock, n, c->host);
    return n;
}

bool pipewire_client_tend(struct port_host *h)
{
    struct pipewire_client *c = h->client;
    if (atomic_load(&c->is_cut) && !c->has_reported_cut)
        message_note("cycles have more than %d frames, and the rest of each is lost; lower the daemon's quantum",
                     PIPEWIRE_MAX_QUANTUM);
    c->has_reported_cut = atomic_load(&c->is_cut);
    bool has_changed = atomic_exchange(&c->graph->has_changed, false);
    if (has_changed) {
        pipewire_graph_lock(c->graph);
        pipewire_graph_sync(c->graph);
        pipewire_graph_unlock(c->graph);
    }
    if (atomic_load(&c->graph->is_down)) atomic_store(&h->is_down, true);
    return has_changed;
}
#endif
