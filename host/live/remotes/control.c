#include "control.h"

#include "host/message.h"
#include "host/stopwatch.h"
#include "keys.h"
#include "host/live/session/live_command.h"
#include "midi.h"
#include "nsm.h"
#include "osc.h"
#include "panel_link.h"
#include "host/live/session/realtime.h"
#include "remote.h"
#include "host/live/session/report.h"
#include "scene_messages.h"
#include "host/live/session/service.h"

#include <jansson.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

enum { LOOP_MS = 50 };
static const double LEVELS_S = 0.25, WATCH_S = 0.25, RETRY_S = 0.5;
static const double FADE_S = 5;                       /* longest wait for the last fade */
static const double STILL_S = 0.5;                    /* the wait ends earlier if no callback comes for this time */
static const double LOG_TROUBLE_S = 10, LOG_S = 3600; /* time between lines without a terminal */

struct control {
    const struct live_settings *settings;
    struct session *session;
    hc_live *live; /* the session's */
    struct control_host *host;
    struct remote *remote;             /* NULL: without OSC and panel */
    struct panel_link *link;           /* NULL: without a panel */
    struct scene_thread *scene_thread; /* NULL: there are no sources, or no OSC */
    struct command_target target;
    int signals; /* descriptor of a signalfd */
    bool is_down;
    int status; /* exit status */
    double next_levels, next_watch, next_retry, last_log;
    uint64_t logged_trouble;
    struct report_levels levels, logged; /* since the last levels of remote_set_levels; since the last status line */
};

/* ---- waiting ----------------------------------------------------------------------------------- */

static sigset_t obeyed_signals(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    sigaddset(&set, SIGXCPU); /* a limit is reached: the session goes on */
    return set;
}

void control_hold_signals(void)
{
    sigset_t set = obeyed_signals();
    pthread_sigmask(SIG_BLOCK, &set, NULL);
}

bool control_wait(int fd)
{
    sigset_t set = obeyed_signals();
    struct signalfd_siginfo info;
    sigdelset(&set, SIGHUP); /* a mask is not loaded yet */
    sigdelset(&set, SIGXCPU);
    int signals = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    struct pollfd ready[2] = {{.fd = signals, .events = POLLIN}, {.fd = fd, .events = POLLIN}};
    poll(ready, 2, (int)(RETRY_S * 1e3));
    bool is_reported = read(signals, &info, sizeof info) == (ssize_t)sizeof info;
    close(signals);
    return !is_reported;
}

bool control_retry(bool (*attempt)(void *data, char *why, size_t cap), void *data, bool reconnect, char *why,
                   size_t cap)
{
    bool is_reported = false;
    while (!attempt(data, why, cap)) {
        if (!reconnect) return false;
        if (!is_reported) message_note("%s; haloconv waits until it answers", why);
        is_reported = true;
        service_wait(why);
        *why = 0;
        if (!control_wait(-1)) {
            service_stop();
            return false;
        }
    }
    return true;
}

bool control_open(const struct live_settings *settings, struct control_host *host, char *why, size_t cap)
{
    if (settings->osc && !(host->osc = osc_open(settings->osc, why, cap))) return false;
    if (settings->panel.where && !(host->panel = panel_open(&settings->panel, panel_link_loads_mask, why, cap)))
        return false;
    return !settings->stats || report_open(&host->stats, settings->stats, why, cap);
}

void control_close(struct control_host *host)
{
    osc_close(host->osc);
    panel_close(host->panel);
    part_file_abandon(&host->stats);
}

/* ---- commands ---------------------------------------------------------------------------------- */

static void handle_key(struct control *c, int key)
{
    struct command command;
    char text[MESSAGE_CAP];
    if (!keys_command(key, &command)) {
        message_note(KEYS_HELP);
        return;
    }
    command_apply(&c->target, &command, text, sizeof text);
    if (*text) message_note("%s", text);
}

static json_t *stats(void *data)
{
    const struct control *c = data;
    struct session_status status;
    session_get_status(c->session, &status);
    json_t *json = report_json(&status);
    if (json && session_scene(c->session)) json_object_set_new(json, "scene", report_scene(session_scene(c->session)));
    if (json && c->host->add_stats) c->host->add_stats(c->host->data, json);
    return json;
}

static void handle_signals(struct control *c)
{
    struct signalfd_siginfo info;
    bool is_limited = false;
    while (read(c->signals, &info, sizeof info) == (ssize_t)sizeof info) {
        is_limited = is_limited || info.ssi_signo == SIGXCPU;
        if (info.ssi_signo == SIGXCPU) continue;
        if (info.ssi_signo == SIGHUP) service_reload();
        struct command command = {.act = info.ssi_signo == SIGHUP ? COMMAND_RELOAD : COMMAND_QUIT};
        command_apply(&c->target, &command, NULL, 0);
    }
    hc_live_stats stats = {.size = sizeof stats};
    hc_live_get_stats(c->live, &stats);
    realtime_note_limit(stats.rests, is_limited);
}

/* ---- the loop ---------------------------------------------------------------------------------- */

/* Prints a status line on a terminal; elsewhere a line after trouble, and one an hour. */
static void control_show(struct control *c, const struct session_status *status, double now)
{
    char line[600];
    int columns = message_columns();
    uint64_t trouble = report_trouble(status);
    if (!columns && now - c->last_log < (trouble != c->logged_trouble ? LOG_TROUBLE_S : LOG_S)) return;
    report_line(&c->target, status, &c->logged, c->is_down ? c->host->name : NULL, columns ? columns : (int)sizeof line,
                line, sizeof line);
    if (columns)
        message_status("%s", line);
    else
        message_note("%s", line);
    report_levels_begin(&c->logged, status);
    c->last_log = now;
    c->logged_trouble = trouble;
}

static void read_levels(struct control *c, double now)
{
    struct session_status status;
    float peak_in, peak_out;
    if (now < c->next_levels) return;
    c->next_levels = now + LEVELS_S;
    session_get_status(c->session, &status);
    hc_live_take_peaks(c->live, &peak_in, &peak_out);
    report_levels_add(&c->logged, peak_in, peak_out);
    if (c->remote)
        remote_set_levels(c->remote, report_load(&status, &c->levels), peak_in, peak_out,
                          status.stats.late + status.stats.lost);
    report_levels_begin(&c->levels, &status);
    control_show(c, &status, now);
}

static void lose_host(struct control *c)
{
    const struct control_host *host = c->host;
    c->is_down = true;
    if (c->settings->reconnect)
        message_note("%s: went away; waiting for its return", host->name);
    else
        message_error("%s: went away; start it again, or give --reconnect to wait for it", host->name);
    host->stop(host->data);
    hc_live_forget(c->live); /* the return must not bring back what played before */
    if (c->settings->reconnect) return;
    c->status = EXIT_FAILED;
    c->target.end = true;
}

static void tend_host(struct control *c, double now)
{
    const struct control_host *host = c->host;
    char why[MESSAGE_CAP];
    if (!c->is_down && host->is_alive(host->data)) {
        host->tend(host->data);
    } else if (!c->is_down) {
        lose_host(c);
        c->next_retry = now + RETRY_S;
    } else if (now >= c->next_retry) {
        c->is_down = !host->restart(host->data, why, sizeof why);
        /* A server that hangs costs up to half of the time. */
        c->next_retry = 2 * stopwatch_now() - now + RETRY_S;
        if (c->is_down) return;
        message_note("%s: is back%s%s", host->name, *why ? ", " : "", why);
    }
}

static void wait_for_input(struct control *c)
{
    const struct midi *midi = c->host->midi;
    struct pollfd ready[5] = {{.fd = c->signals, .events = POLLIN},
                              {.fd = c->host->osc ? osc_fd(c->host->osc) : -1, .events = POLLIN},
                              {.fd = c->host->nsm ? nsm_fd(c->host->nsm) : -1, .events = POLLIN},
                              {.fd = midi ? midi->source.fd : -1, .events = POLLIN},
                              {.fd = c->host->panel ? panel_fd(c->host->panel) : -1, .events = POLLIN}};
    poll(ready, 5, midi && midi->source.fd < 0 ? MIDI_POLL_MS : LOOP_MS);
}

static void tend_manager(struct control *c)
{
    struct session_state state;
    if (!c->host->nsm) return;
    session_state_record(c->session, &state);
    nsm_tend(c->host->nsm, &state, c->target.masks, c->target.list_version);
}

static void report_mask(const struct control *c, bool has_keys)
{
    const struct option_names *masks = c->target.masks;
    const char *mask = c->settings->mask;
    int number = command_mask_number(&c->target, mask);
    const char *keys = has_keys ? "; h: keys" : "";
    if (number > 0 && masks->n > 1)
        message_note("mask %d of %d: %s%s", number, masks->n, mask, keys);
    else
        message_note("mask: %s%s", mask, keys);
}

/* Sends the line to the session manager, too: nobody reads the console of a program that the manager started. */
static void report_port(const struct control *c)
{
    char text[64];
    snprintf(text, sizeof text, "OSC on port %d", osc_port(c->host->osc));
    message_note("%s", text);
    if (c->host->nsm) nsm_report(c->host->nsm, text);
}

/* Fades out; returns when the fade has ended or callbacks stop. */
static void fade_out(struct control *c)
{
    double now = stopwatch_now(), end = now + FADE_S, silent_since = now;
    hc_live_stats stats = {.size = sizeof stats};
    uint64_t blocks = 0;
    hc_live_set(c->live, HC_FADE, 0);
    while (!stats.faded_out && now < end && now < silent_since + STILL_S && c->host->is_alive(c->host->data)) {
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
        now = stopwatch_now();
        hc_live_get_stats(c->live, &stats);
        if (stats.blocks != blocks) silent_since = now;
        blocks = stats.blocks;
    }
}

static void control_finish(struct control *c)
{
    struct session_status status;
    char why[MESSAGE_CAP];
    if (!c->is_down) {
        fade_out(c);
        c->host->stop(c->host->data);
    }
    session_tend(c->session);
    if (c->host->midi) midi_close(c->host->midi);
    message_status("%s", "");
    session_get_status(c->session, &status);
    report_summary(&status);
    if (c->host->report_more) c->host->report_more(c->host->data);
    if (!c->settings->stats) return;
    json_t *json = stats(c);
    if (!report_write_to(&c->host->stats, json, c->settings->stats, why, sizeof why))
        c->status = message_error("%s", why);
    json_decref(json);
}

int control_run(const struct live_settings *settings, struct session *session, struct control_host *host)
{
    static struct control c; /* too large for a stack */
    memset(&c, 0, sizeof c);
    c.settings = settings;
    c.session = session;
    c.live = session_live(session);
    c.host = host;
    c.last_log = stopwatch_now();
    char why[MESSAGE_CAP];
    sigset_t set = obeyed_signals();
    if (!realtime_lock_memory(why, sizeof why)) message_note("%s", why);
    command_target_open(&c.target, session, &settings->masks, settings->mask);
    c.target.settings = settings;
    report_mask(&c, keys_open());
    if (!command_begin_comparison(&c.target, settings, why, sizeof why)) message_error("--ab: %s", why);
    if (host->osc || host->panel) c.remote = remote_open(host->osc, &c.target, stats, &c);
    if (c.remote && host->osc) report_port(&c);
    if (c.remote && host->panel) c.link = panel_link_open(host->panel, c.remote, &c.target);
    if (c.link) message_always("panel: %s", panel_url(host->panel)); /* also if quiet: nobody else knows it */
    if ((host->osc && !c.remote) || (host->panel && !c.link))
        message_error("--osc or --panel: no memory; free some memory");
    struct live_scene *scene = session_scene(session);
    if (c.remote && host->osc && scene) {
        c.scene_thread = scene_thread_start(host->osc, scene, why, sizeof why);
        if (!c.scene_thread) message_note("%s", why);
    }
    c.signals = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    while (!c.target.end) {
        wait_for_input(&c);
        double now = stopwatch_now();
        handle_signals(&c);
        for (int key; (key = keys_next());) handle_key(&c, key);
        if (c.link) panel_link_tend(c.link, now);
        if (c.remote) remote_tend(c.remote, now);
        if (host->midi) midi_tend(host->midi, &c.target);
        session_tend(session);
        tend_manager(&c);
        if (!c.target.end) tend_host(&c, now);
        if (settings->watch && now >= c.next_watch) {
            c.next_watch = now + WATCH_S;
            if (watch_changed(&c.target.watch, session_rate(session)))
                session_request_mask(session, c.target.watch.path);
            session_watch_kept(session);
        }
        service_tend(session, c.is_down ? host->name : NULL, host->is_idle && host->is_idle(host->data));
        read_levels(&c, now);
    }
    service_stop();
    control_finish(&c);
    scene_thread_end(c.scene_thread);
    panel_link_close(c.link);
    remote_close(c.remote);
    command_target_close(&c.target);
    keys_close();
    close(c.signals);
    return c.status;
}

int control_leave(struct session *session, bool is_stuck, int status)
{
    if (is_stuck || !session_close(session)) {
        fflush(NULL);
        _exit(status);
    }
    return status;
}
