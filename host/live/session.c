#include "session.h"

#include "console.h"
#include "host/message.h"
#include "host/stopwatch.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const double LIMITED_PAUSE_S = 30; /* between two messages about feedback */

struct session {
    hc_live *live;
    int n_in, n_out;
    hc_port *ports[2]; /* of the first mask: inputs, outputs; NULL: it names none */
    double start;
    struct session_status before; /* counted by an earlier process */
    atomic_uint_fast64_t xruns, xrun_ms;

    pthread_t loader;
    sem_t wake;
    atomic_bool end, is_busy;
    bool has_loader;

    uint64_t said_limited, said_non_finite; /* by session_tend */
    double next_limited;
};

/* ---- the loader -------------------------------------------------------------------------------- */

static void say(void *data, int level, const char *text)
{
    (void)data;
    (level == HC_LIVE_ERROR ? console_error : console_say)("%s", text);
}

static void *loader(void *arg)
{
    struct session *s = arg;
    while (!atomic_load(&s->end)) {
        atomic_store(&s->is_busy, true);
        while (hc_live_has_work(s->live) && !atomic_load(&s->end)) hc_live_work(s->live);
        atomic_store(&s->is_busy, false);
        while (sem_wait(&s->wake) != 0 && errno == EINTR) continue;
    }
    return NULL;
}

static void request(struct session *s, const hc_live_change *change)
{
    if (hc_live_request(s->live, change) != HC_OK) console_error("%.200s: a path of 4096 bytes or more", change->mask);
    sem_post(&s->wake);
}

void session_request_mask(struct session *s, const char *path)
{
    request(s, &(hc_live_change){.size = sizeof(hc_live_change), .mask = path});
}

void session_request_format(struct session *s, int rate, int block)
{
    request(s, &(hc_live_change){.size = sizeof(hc_live_change), .rate = rate, .block = block});
}

/* ---- open and close ---------------------------------------------------------------------------- */

/* How many inputs suit a mask that leaves it open: stereo for one response and for four, else one a channel. */
static int choose_inputs(const struct session_settings *settings, const hc_responses *mask)
{
    int n = mask->n_channels;
    if (settings->n_inputs > 0) return settings->n_inputs;
    if (n == 1 || n == 4) n = 2;
    return settings->most_inputs > 0 && n > settings->most_inputs ? settings->most_inputs : n;
}

static bool load_first(const struct session_settings *settings, const char *path, int rate, hc_responses *mask,
                       char *why, size_t cap)
{
    unsigned flags = settings->live.keep_rate ? HC_KEEP_RATE : 0;
    if (hc_responses_load(path, 0, rate, flags, mask, why, cap) == HC_OK) {
        bool leaves_it_open = mask->n_channels > 0;
        int n_in = leaves_it_open ? choose_inputs(settings, mask) : settings->n_inputs;
        if (n_in == 0 || hc_responses_route(mask, path, n_in, why, cap) == HC_OK) return true;
    }
    hc_responses_free(mask);
    return false;
}

static bool keep_ports(hc_port **to, const hc_port *from, int n)
{
    if (!from) return true;
    *to = calloc((size_t)n + 1, sizeof **to);
    for (int i = 0; *to && i < n; i++) {
        (*to)[i].name = strdup(from[i].name);
        (*to)[i].connect = from[i].connect ? strdup(from[i].connect) : NULL;
        if (!(*to)[i].name || (from[i].connect && !(*to)[i].connect)) return false;
    }
    return *to != NULL;
}

static void free_ports(hc_port *ports)
{
    for (int i = 0; ports && ports[i].name; i++) {
        free((char *)ports[i].name);
        free((char *)ports[i].connect);
    }
    free(ports);
}

static bool open_live(struct session *s, const struct session_settings *settings, const char *path, int rate, int block,
                      hc_responses *mask, char *why, size_t cap)
{
    hc_live_config config = settings->live;
    double longest_s = (double)mask->n_frames / rate;
    config.n_in = s->n_in = mask->n_in;
    config.n_out = s->n_out = mask->n_out;
    config.rate = rate;
    config.block = block;
    if (config.history_s < longest_s) config.history_s = longest_s;
    config.fade_in = config.lost_dry = 1;
    config.say = say;
    if (!keep_ports(&s->ports[0], mask->in_port, s->n_in) || !keep_ports(&s->ports[1], mask->out_port, s->n_out))
        return message_write(why, cap, "no memory for %d ports; free some", s->n_in + s->n_out);
    if (hc_live_open(&config, &s->live, why, cap) != HC_OK) return false;
    hc_live_set(s->live, HC_WET, settings->wet);
    hc_live_set(s->live, HC_DRY, settings->dry);
    hc_live_set(s->live, HC_GAIN, settings->gain);
    return hc_live_play(s->live, path, mask, why, cap) == HC_OK;
}

struct session *session_open(const struct session_settings *settings, const char *path, int rate, int block, char *why,
                             size_t cap)
{
    hc_responses mask = {0};
    struct session *s = calloc(1, sizeof *s);
    if (!s) return (void)message_write(why, cap, "no memory for a session; free some"), NULL;
    s->start = stopwatch_now();
    sem_init(&s->wake, 0, 0);
    if (!load_first(settings, path, rate, &mask, why, cap)) goto fail;
    if (!open_live(s, settings, path, rate, block, &mask, why, cap)) goto fail;
    s->has_loader = pthread_create(&s->loader, NULL, loader, s) == 0;
    if (s->has_loader) return s;
    message_write(why, cap, "a thread cannot be started; raise the limit on processes (ulimit -u)");
fail:
    hc_responses_free(&mask);
    session_close(s);
    return NULL;
}

bool session_close(struct session *s)
{
    if (!s) return true;
    atomic_store(&s->end, true);
    sem_post(&s->wake);
    if (s->has_loader) pthread_join(s->loader, NULL);
    bool is_clean = hc_live_close(s->live) == HC_OK; /* a device that hangs does not know the session */
    free_ports(s->ports[0]);
    free_ports(s->ports[1]);
    sem_destroy(&s->wake);
    free(s);
    return is_clean;
}

/* ---- looking at it ----------------------------------------------------------------------------- */

hc_live *session_live(struct session *s)
{
    return s->live;
}

int session_n_in(const struct session *s)
{
    return s->n_in;
}

int session_n_out(const struct session *s)
{
    return s->n_out;
}

const hc_port *session_ports(const struct session *s, bool outputs)
{
    return s->ports[outputs];
}

bool session_path(struct session *s, int in, int out)
{
    bool dry = hc_live_get(s->live, HC_DRY) > 0 && (s->n_in == 1 || in == out);
    return dry || hc_live_reaches(s->live, in, out);
}

static hc_live_stats stats_of(const struct session *s)
{
    hc_live_stats stats = {.size = sizeof stats};
    hc_live_get_stats(s->live, &stats);
    return stats;
}

bool session_is_idle(struct session *s)
{
    return !hc_live_has_work(s->live) && !atomic_load(&s->is_busy) && !stats_of(s).changing;
}

uint64_t session_paths_version(struct session *s)
{
    return 2 * stats_of(s).masks + (hc_live_get(s->live, HC_DRY) > 0);
}

void session_count_xrun(struct session *s)
{
    atomic_fetch_add_explicit(&s->xruns, 1, memory_order_relaxed);
    atomic_store_explicit(&s->xrun_ms, (uint64_t)((stopwatch_now() - s->start) * 1e3), memory_order_relaxed);
}

void session_tend(struct session *s)
{
    hc_live_stats stats = stats_of(s);
    if (hc_live_has_work(s->live)) sem_post(&s->wake);
    if (stats.limited != s->said_limited && stopwatch_now() > s->next_limited) {
        console_say("the output stays at full scale (feedback?) and is turned down by 40 dB for two seconds; move the "
                    "microphone, lower --gain, or give --no-guard");
        s->said_limited = stats.limited;
        s->next_limited = stopwatch_now() + LIMITED_PAUSE_S;
    }
    if (stats.non_finite && !s->said_non_finite && !s->before.non_finite)
        console_say("the input has NaN or infinite samples; they count as 0 (the summary says how many)");
    s->said_non_finite = stats.non_finite;
}

void session_get_status(struct session *s, struct session_status *status)
{
    static const char *const states[] = {
        [HC_LIVE_OK] = "well", [HC_LIVE_STANDBY] = "understudy", [HC_LIVE_LOST] = "dry"};
    const struct session_status *before = &s->before;
    hc_live_stats stats = stats_of(s);
    hc_live_info info = {.size = sizeof info};
    hc_live_get_info(s->live, &info);
    *status = (struct session_status){.backend = stats.state == HC_LIVE_STANDBY ? "cpu" : info.backend,
                                      .method = info.method,
                                      .state = states[stats.state],
                                      .rate = info.rate,
                                      .block = info.block,
                                      .seconds = before->seconds + stopwatch_now() - s->start,
                                      .blocks = before->blocks + stats.blocks,
                                      .frames = before->frames + stats.frames,
                                      .late = before->late + stats.late + stats.lost,
                                      .over = before->over + stats.over,
                                      .xruns = before->xruns + atomic_load(&s->xruns),
                                      .last_xrun_s = before->last_xrun_s,
                                      .swaps = before->swaps + stats.masks,
                                      .rigs = before->rigs + stats.rebuilds,
                                      .non_finite = before->non_finite + stats.non_finite,
                                      .clipped = before->clipped + stats.clipped,
                                      .ducked = before->ducked + stats.limited};
    if (atomic_load(&s->xruns)) status->last_xrun_s = before->seconds + (double)atomic_load(&s->xrun_ms) / 1e3;
    memcpy(status->device, info.device, sizeof status->device);
    hc_live_mask(s->live, status->mask, sizeof status->mask);
    hc_live_get_times(s->live, &status->times);
    hc_times_add(&status->times, &before->times);
}

void session_count_on(struct session *s, const struct session_status *before)
{
    s->before = *before;
    s->before.rigs++; /* the engine that begins here */
}
