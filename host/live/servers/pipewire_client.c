#include "host/message.h"

#ifdef HC_WITH_PIPEWIRE
#include "pipewire_client.h"

#include "host/live/session/realtime.h"
#include "host/stopwatch.h"
#include "port_host.h"

#include <math.h>
#include <stdlib.h>

/* ---- cycles ----------------------------------------------------------------------------------- */

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

/* Call it in each cycle, of n frames, before hc_live_process. Counts an xrun if cycles are missing without a pause.
 * Returns the gap between the last cycle and this. [rt] */
static struct pipewire_gap pipewire_cycle_begin(struct pipewire_cycle *c, const struct spa_io_clock *clock, int n,
                                                struct port_host *host)
{
    struct pipewire_gap gap = find_gap(c, clock);
    if (gap.n > 0 && !gap.is_pause) session_count_xrun(host->session);
    check_format(c, clock, n, host->live);
    c->clock = *clock;
    hc_live_set_freewheel(host->live, (clock->flags & SPA_IO_CLOCK_FLAG_FREEWHEEL) != 0);
    return gap;
}

/* ---- the client ------------------------------------------------------------------------------- */

static const double LONGEST_PAUSE_WORK_S = 0.1; /* the system ends real-time threads that work for 0.2 s */

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

static int pipewire_on_thread(struct spa_loop *loop, bool async, uint32_t number, const void *data, size_t size,
                              void *host)
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
    pipewire_graph_invoke(c->graph, pipewire_on_thread, NULL, 0, false, c->host);
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
    if (is_gone) atomic_store(&c->host->is_down, true);
    pw_thread_loop_signal(c->graph->loop, false);
}

/* Returns how long the callback of n frames may play the silence of a gap. After missing cycles, a sign of load, it must
 * not be the reason for the next ones. */
static double gap_limit_s(const struct pipewire_client *c, const struct pipewire_gap *gap, int n, double rate)
{
    hc_live_stats stats = {.size = sizeof stats};
    if (gap->is_pause) return LONGEST_PAUSE_WORK_S;
    hc_live_get_stats(c->host->live, &stats);
    return 1e-9 * (double)stats.took_ns < n / rate / 4 ? n / rate / 2 : 0;
}

/* Plays silence for the frames of a gap, in calls of n frames: the sound before it does not come closer to the sound
 * after it. Frames beyond limit_s are left out. */
static void play_gap(struct pipewire_client *c, int64_t missing, int n, double limit_s)
{
    struct port_host *h = c->host;
    double begin = stopwatch_now(), spent = 0, longest = 0;
    for (int i = 0; i < h->in.n; i++) h->in.buffer[i] = c->silence;
    for (int o = 0; o < h->out.n; o++) h->out.buffer[o] = c->discarded + (size_t)o * PIPEWIRE_MAX_QUANTUM;
    for (int chunk; missing > 0 && spent + longest < limit_s; missing -= chunk) {
        chunk = missing < n ? (int)missing : n;
        hc_live_process(h->live, (const float *const *)h->in.buffer, h->out.buffer, chunk);
        double now = stopwatch_now() - begin;
        longest = fmax(longest, now - spent);
        spent = now;
    }
}

int pipewire_client_begin_cycle(struct pipewire_client *c, const struct spa_io_clock *clock)
{
    port_host_begin_block(c->host);
    bool is_cut = clock->duration > PIPEWIRE_MAX_QUANTUM;
    int n = is_cut ? PIPEWIRE_MAX_QUANTUM : (int)clock->duration;
    if (is_cut) atomic_store_explicit(&c->is_cut, true, memory_order_relaxed);
    struct pipewire_gap gap = pipewire_cycle_begin(&c->cycle, clock, n, c->host);
    if (gap.is_long)
        hc_live_forget(c->host->live); /* the end of a pause must not bring back what played before it */
    else if (gap.n > 0 && n > 0)
        play_gap(c, gap.n, n, gap_limit_s(c, &gap, n, clock->rate.denom));
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
