#include "host/message.h"

#ifdef HC_WITH_PIPEWIRE
#include "pipewire_client.h"

#include "host/stopwatch.h"
#include "realtime.h"

#include <stdlib.h>

bool pipewire_client_join(struct port_host *h, size_t size, char *why, size_t cap)
{
    struct pipewire_client *c = calloc(1, size);
    if (!c) return message_write(why, cap, "pipewire: no memory; free some memory");
    c->host = h;
    c->graph = pipewire_graph_open(h->settings->server, why, cap);
    if (!c->graph) {
        free(c);
        return false;
    }
    h->client = c;
    return true;
}

void pipewire_client_leave(struct pipewire_client *c)
{
    pipewire_graph_close(c->graph);
    free(c->silence);
    free(c->discarded);
    free(c);
}

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

void pipewire_client_set_node(const struct port_host *h, struct pw_properties *properties)
{
    const struct live_settings *s = h->settings;
    pipewire_graph_set_data_loop(((struct pipewire_client *)h->client)->graph, properties);
    if (s->block) pw_properties_setf(properties, PW_KEY_NODE_LATENCY, "%d/%d", s->block, pipewire_client_rate(h));
    if (s->rate) pw_properties_setf(properties, PW_KEY_NODE_RATE, "1/%d", s->rate);
}

static int on_thread(struct spa_loop *loop, bool async, uint32_t number, const void *data, size_t size, void *host)
{
    (void)loop, (void)async, (void)number, (void)data, (void)size, (void)host;
    realtime_touch_stack();
    return 0;
}

bool pipewire_client_begin(struct pipewire_client *c, char *why, size_t cap)
{
    c->silence = calloc(PIPEWIRE_MAX_QUANTUM, sizeof *c->silence);
    c->discarded = calloc((size_t)c->host->out.n * PIPEWIRE_MAX_QUANTUM, sizeof *c->discarded);
    if (!c->silence || !c->discarded)
        return message_write(why, cap, "pipewire: no memory for buffers; free some memory");
    atomic_store(&c->cycle.is_first, true);
    pipewire_graph_lock(c->graph);
    pipewire_graph_invoke(c->graph, on_thread, NULL, 0, false, c->host);
    pipewire_graph_unlock(c->graph);
    return true;
}

bool pipewire_client_await(struct pipewire_client *c, bool (*is_ready)(struct port_host *))
{
    double end = stopwatch_now() + PIPEWIRE_ANSWER_S;
    while (!is_ready(c->host))
        if (stopwatch_now() > end || atomic_load(&c->host->is_down) || !pipewire_graph_sync(c->graph)) return false;
    return true;
}

void pipewire_client_changed(struct pipewire_client *c, atomic_bool *is_streaming, bool plays, bool is_gone)
{
    bool did_play = atomic_exchange(is_streaming, plays);
    /* The first cycle may come before this call, and the last one after it. */
    if (did_play != plays) atomic_store(&c->cycle.is_first, true);
    /* The end of a pause must not bring back what played before it. */
    if (did_play && !plays) hc_live_forget(c->host->live);
    if (is_gone) atomic_store(&c->host->is_down, true);
    pw_thread_loop_signal(c->graph->loop, false);
}

int pipewire_client_begin_cycle(struct pipewire_client *c, const struct spa_io_clock *clock)
{
    port_host_begin_block(c->host);
    bool is_cut = clock->duration > PIPEWIRE_MAX_QUANTUM;
    int n = is_cut ? PIPEWIRE_MAX_QUANTUM : (int)clock->duration;
    if (is_cut) atomic_store_explicit(&c->is_cut, true, memory_order_relaxed);
    pipewire_cycle_begin(&c->cycle, clock, n, c->host);
    return n;
}

bool pipewire_client_tend(struct port_host *h)
{
    struct pipewire_client *c = h->client;
    struct pipewire_graph *g = c->graph;
    if (atomic_load(&c->is_cut) && !c->has_reported_cut) {
        c->has_reported_cut = true;
        message_note("cycles have more than %d frames, and the rest of each is lost; lower the daemon's quantum",
                     PIPEWIRE_MAX_QUANTUM);
    }
    pipewire_graph_lock(g);
    bool is_known = c->asks && g->is_answered;
    if (is_known) c->asks = false;
    if (!c->asks && atomic_exchange(&g->has_changed, false)) {
        pipewire_graph_ask(g);
        c->asks = true;
    }
    pipewire_graph_unlock(g);
    if (atomic_load(&g->is_down)) atomic_store(&h->is_down, true);
    return is_known;
}
#endif
