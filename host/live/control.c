#include "control.h"

#include "host/message.h"
#include "host/stopwatch.h"
#include "keys.h"
#include "nsm.h"
#include "osc.h"
#include "realtime.h"
#include "report.h"
#include "watch.h"

#include <jansson.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

enum { LOOP_MS = 50 };
static const double STATUS_S = 0.25, WATCH_S = 0.25, RETRY_S = 0.5;
static const double FADE_S = 5, STILL_S = 0.5;        /* longest wait for the last fade; for its next callback */
static const double LOG_TROUBLE_S = 10, LOG_S = 3600; /* without a terminal: a line after trouble, and one an hour */

/* Gains that keys and OSC messages set: /gain, /wet, /dry. */
static const struct gain {
    const char *name;
    int knob;
    char down, up; /* keys */
} gains[] = {{"gain", HC_GAIN, '-', '+'}, {"wet", HC_WET, 'w', 'W'}, {"dry", HC_DRY, 'd', 'D'}};
enum { N_GAINS = sizeof gains / sizeof *gains };

struct control {
    const struct live_settings *settings;
    struct session *session;
    hc_live *live; /* the session's */
    const struct control_host *host;
    struct osc *osc; /* the host's */
    struct message_limit refusals;
    struct watch watch;
    int signals; /* a descriptor */
    int mask;    /* index of the mask that plays in settings->masks */
    bool end, is_down;
    int status; /* exit status */
    double next_status, next_watch, next_retry, last_log;
    uint64_t logged_trouble;
    hc_times before; /* the times at the last status line */
};

/* ---- waiting ----------------------------------------------------------------------------------- */

static sigset_t obeyed_signals(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
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
    sigdelset(&set, SIGHUP); /* there is no mask to load again yet */
    int signals = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    struct pollfd ready[2] = {{.fd = signals, .events = POLLIN}, {.fd = fd, .events = POLLIN}};
    poll(ready, 2, (int)(RETRY_S * 1e3));
    bool is_told = read(signals, &info, sizeof info) == (ssize_t)sizeof info;
    close(signals);
    return !is_told;
}

bool control_retry(bool (*attempt)(void *data, char *why, size_t cap), void *data, bool reconnect, char *why,
                   size_t cap)
{
    bool is_said = false;
    while (!attempt(data, why, cap)) {
        if (!reconnect) return false;
        if (!is_said) message_note("%s; waiting for it", why);
        is_said = true;
        *why = 0;
        if (!control_wait(-1)) return false;
    }
    return true;
}

bool control_open_osc(const struct live_settings *settings, struct osc **osc, char *why, size_t cap)
{
    *osc = settings->osc ? osc_open(settings->osc, why, cap) : NULL;
    return *osc || !settings->osc;
}

/* ---- commands ---------------------------------------------------------------------------------- */

static int rate_of(const struct control *c)
{
    hc_live_info info = {.size = sizeof info};
    hc_live_get_info(c->live, &info);
    return info.rate;
}

static void load(struct control *c, const char *path)
{
    session_request_mask(c->session, path);
    watch_open(&c->watch, path, rate_of(c));
}

static void load_nth(struct control *c, int step)
{
    int n = c->settings->masks.n;
    if (n == 0) return;
    c->mask = (c->mask + step + n) % n;
    load(c, c->settings->masks.list[c->mask]);
}

static void reload(struct control *c)
{
    char path[sizeof c->watch.path];
    memcpy(path, c->watch.path, sizeof path);
    load(c, path);
}

static bool is_bypassed(const struct control *c)
{
    return hc_live_get(c->live, HC_BYPASS) != 0;
}

/* A step up from an inaudible gain (below -80 dB) goes to -60 dB. */
static void turn(struct control *c, const struct gain *gain, double step_db)
{
    double db = 20 * log10((double)hc_live_get(c->live, gain->knob));
    db = db < -80 ? (step_db > 0 ? -60 : -INFINITY) : fmin(db + step_db, 40);
    hc_live_set(c->live, gain->knob, (float)pow(10, db / 20));
    message_note("%s %.0f dB", gain->name, db);
}

static void take_key(struct control *c, int key)
{
    if (key == '=') key = '+'; /* the key of + without Shift */
    for (const struct gain *gain = gains; gain < gains + N_GAINS; gain++)
        if (key == gain->down || key == gain->up) {
            turn(c, gain, key == gain->up ? 1 : -1);
            return;
        }
    if (key == 'b')
        hc_live_set(c->live, HC_BYPASS, !is_bypassed(c));
    else if (key == 'n')
        load_nth(c, 1);
    else if (key == 'p')
        load_nth(c, -1);
    else if (key == 'r')
        reload(c);
    else if (key == 'q')
        c->end = true;
    else
        message_note("keys: b bypass, + - gain, w W wet, d D dry, n p masks, r load again, q quit");
}

static bool set_gain(struct control *c, const struct gain *gain, const struct osc_message *message)
{
    bool off = message->text && strcmp(message->text, "off") == 0;
    if (!off && !(message->has_number && message->number <= 60)) return false; /* NaN is not */
    hc_live_set(c->live, gain->knob, off ? 0 : (float)pow(10, message->number / 20));
    return true;
}

/* NULL: no memory. */
static json_t *stats(const struct control *c, const struct session_status *status)
{
    json_t *json = report_json(status);
    if (json && c->host->add_stats) c->host->add_stats(c->host->data, json);
    return json;
}

static void answer_stats(struct control *c, const struct osc_message *message)
{
    struct session_status status;
    session_get_status(c->session, &status);
    json_t *json = stats(c, &status);
    char *text = json ? json_dumps(json, JSON_COMPACT | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(9)) : NULL;
    if (text) osc_send(message->osc, "/stats", "s", text);
    free(text);
    json_decref(json);
}

/* false: the message is unknown, or its argument is wrong. */
static bool obey(struct control *c, const struct osc_message *message)
{
    const char *path = message->path;
    for (const struct gain *gain = gains; gain < gains + N_GAINS; gain++)
        if (path[0] == '/' && strcmp(path + 1, gain->name) == 0) return set_gain(c, gain, message);
    if (strcmp(path, "/bypass") == 0 && message->has_number)
        hc_live_set(c->live, HC_BYPASS, message->number != 0);
    else if (strcmp(path, "/mask") == 0 && message->text)
        load(c, message->text);
    else if (strcmp(path, "/next") == 0)
        load_nth(c, 1);
    else if (strcmp(path, "/stats") == 0)
        answer_stats(c, message);
    else
        return false;
    return true;
}

static void take_message(void *data, const struct osc_message *message)
{
    struct control *c = data;
    if (obey(c, message)) return;
    if (message_limit_allows(&c->refusals))
        message_note("OSC: %.100s is unknown, or its argument is wrong; see --help", message->path);
    osc_send(message->osc, "/error", "s", message->path);
}

static void take_signals(struct control *c)
{
    struct signalfd_siginfo info;
    while (read(c->signals, &info, sizeof info) == (ssize_t)sizeof info) {
        if (info.ssi_signo == SIGHUP)
            reload(c);
        else
            c->end = true;
    }
}

/* ---- the loop ---------------------------------------------------------------------------------- */

/* On a terminal a status line; elsewhere a line after trouble, and one an hour. */
static void show(struct control *c, double now)
{
    struct session_status status;
    char line[600];
    float peak_in, peak_out;
    if (now < c->next_status) return;
    c->next_status = now + STATUS_S;
    session_get_status(c->session, &status);
    uint64_t trouble = report_trouble(&status);
    if (!message_has_status() && now - c->last_log < (trouble != c->logged_trouble ? LOG_TROUBLE_S : LOG_S)) return;
    hc_live_take_peaks(c->live, &peak_in, &peak_out);
    report_line(&status, &c->before, peak_in, peak_out, is_bypassed(c), line, sizeof line);
    if (message_has_status())
        message_status("%s", line);
    else
        message_note("%s", line);
    c->before = status.times;
    c->last_log = now;
    c->logged_trouble = trouble;
}

static void lose_host(struct control *c)
{
    const struct control_host *host = c->host;
    c->is_down = true;
    if (c->settings->reconnect)
        message_note("%s: went away; waiting for it", host->name);
    else
        message_error("%s: went away; start it again, or give --reconnect to wait for it", host->name);
    host->stop(host->data);
    if (c->settings->reconnect) return;
    c->status = EXIT_FAILED;
    c->end = true;
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
        c->next_retry = now + RETRY_S;
        if (!host->restart(host->data, why, sizeof why)) return;
        c->is_down = false;
        message_note("%s: is back%s%s", host->name, *why ? ", " : "", why);
    }
}

static void wait_for_input(struct control *c)
{
    struct pollfd ready[3] = {{.fd = c->signals, .events = POLLIN},
                              {.fd = c->osc ? osc_fd(c->osc) : -1, .events = POLLIN},
                              {.fd = c->host->nsm ? nsm_fd(c->host->nsm) : -1, .events = POLLIN}};
    poll(ready, 3, LOOP_MS);
}

static void tend_manager(struct control *c)
{
    struct session_state state;
    if (!c->host->nsm) return;
    session_state_take(c->session, &state);
    nsm_tend(c->host->nsm, &state);
}

/* The session manager gets the line too: nobody reads the console of a program that it started. */
static void say_port(const struct control *c)
{
    char text[64];
    snprintf(text, sizeof text, "OSC on port %d", osc_port(c->osc));
    message_note("%s", text);
    if (c->host->nsm) nsm_say(c->host->nsm, text);
}

static int index_of(const struct live_settings *settings)
{
    for (int i = 0; i < settings->masks.n; i++)
        if (strcmp(settings->masks.list[i], settings->mask) == 0) return i;
    return 0;
}

/* Fades out, as long as callbacks come. */
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

static void finish(struct control *c)
{
    struct session_status status;
    char why[MESSAGE_CAP];
    if (!c->is_down) {
        fade_out(c);
        c->host->stop(c->host->data);
    }
    session_tend(c->session);
    message_limit_tend(&c->refusals, true);
    message_status("%s", "");
    session_get_status(c->session, &status);
    report_summary(&status);
    if (c->host->say_more) c->host->say_more(c->host->data);
    if (!c->settings->stats) return;
    json_t *json = stats(c, &status);
    if (!report_write(json, c->settings->stats, why, sizeof why)) c->status = message_error("%s", why);
    json_decref(json);
}

int control_run(const struct live_settings *settings, struct session *session, const struct control_host *host)
{
    struct control c = {.settings = settings,
                        .session = session,
                        .live = session_live(session),
                        .host = host,
                        .osc = host->osc,
                        .refusals = {.topic = "refused OSC messages", .most = 5},
                        .mask = index_of(settings)};
    char why[MESSAGE_CAP];
    sigset_t set = obeyed_signals();
    if (!realtime_lock_memory(why, sizeof why)) message_note("%s", why);
    watch_open(&c.watch, settings->mask, rate_of(&c));
    if (c.osc) say_port(&c);
    c.signals = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    keys_open();
    c.last_log = stopwatch_now();
    while (!c.end) {
        wait_for_input(&c);
        double now = stopwatch_now();
        take_signals(&c);
        for (int key; (key = keys_next());) take_key(&c, key);
        if (c.osc) osc_receive(c.osc, take_message, &c);
        message_limit_tend(&c.refusals, false);
        session_tend(session);
        tend_manager(&c);
        if (!c.end) tend_host(&c, now);
        if (settings->watch && now >= c.next_watch) {
            c.next_watch = now + WATCH_S;
            if (watch_changed(&c.watch, rate_of(&c))) session_request_mask(session, c.watch.path);
        }
        show(&c, now);
    }
    finish(&c);
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
