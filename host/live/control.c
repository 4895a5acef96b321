#include "control.h"

#include "console.h"
#include "host/message.h"
#include "host/stopwatch.h"
#include "keys.h"
#include "nsm.h"
#include "osc.h"
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

enum { TICK_MS = 50 };
static const double STATUS_S = 0.25, WATCH_S = 0.25, RETRY_S = 0.5;
static const double FADE_S = 5, STILL_S = 0.5;        /* to wait for the fade at the end at most; for a callback */
static const double LOG_TROUBLE_S = 10, LOG_S = 3600; /* without a terminal: a line after trouble, and one an hour */

struct control {
    const struct live_settings *settings;
    struct session *session;
    const struct control_host *host;
    struct osc *osc;
    struct watch watch;
    int signals; /* a descriptor */
    int mask;    /* of the list */
    bool end, is_down;
    int status; /* exit status */
    double next_status, next_watch, next_retry, last_log;
    uint64_t logged_trouble;
    hc_times before; /* at the last status line */
};

static void make_signals(sigset_t *set)
{
    sigemptyset(set);
    sigaddset(set, SIGINT);
    sigaddset(set, SIGTERM);
    sigaddset(set, SIGHUP);
}

void control_hold_signals(void)
{
    sigset_t set;
    make_signals(&set);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
}

bool control_pause_for(int fd)
{
    sigset_t set;
    struct signalfd_siginfo info;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    int signals = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    struct pollfd ready[2] = {{.fd = signals, .events = POLLIN}, {.fd = fd, .events = POLLIN}};
    poll(ready, 2, (int)(RETRY_S * 1e3));
    bool told = read(signals, &info, sizeof info) == (ssize_t)sizeof info;
    close(signals);
    return !told;
}

bool control_pause(void)
{
    return control_pause_for(-1);
}

/* ---- commands ---------------------------------------------------------------------------------- */

static void load(struct control *c, const char *path)
{
    session_request_mask(c->session, path);
    watch_open(&c->watch, path);
}

static void load_nth(struct control *c, int step)
{
    int n = c->settings->n_masks;
    if (n == 0) return;
    c->mask = (c->mask + step + n) % n;
    load(c, c->settings->masks[c->mask]);
}

static void reload(struct control *c)
{
    char path[sizeof c->watch.path];
    memcpy(path, c->watch.path, sizeof path);
    load(c, path);
}

static void set_bypass(struct control *c, bool on)
{
    hc_live_set(session_live(c->session), HC_BYPASS, on);
}

static bool bypass(const struct control *c)
{
    return hc_live_get(session_live(c->session), HC_BYPASS) != 0;
}

/* Below the audible a step up starts there. */
static void turn(struct control *c, int knob, const char *name, double step_db)
{
    double db = 20 * log10((double)hc_live_get(session_live(c->session), knob));
    db = db < -80 ? (step_db > 0 ? -60 : -INFINITY) : fmin(db + step_db, 40);
    hc_live_set(session_live(c->session), knob, (float)pow(10, db / 20));
    console_say("%s %.0f dB", name, db);
}

static void take_key(struct control *c, int key)
{
    switch (key) {
    case 'b':
        set_bypass(c, !bypass(c));
        break;
    case '+':
    case '=':
        turn(c, HC_GAIN, "gain", 1);
        break;
    case '-':
        turn(c, HC_GAIN, "gain", -1);
        break;
    case 'W':
        turn(c, HC_WET, "wet", 1);
        break;
    case 'w':
        turn(c, HC_WET, "wet", -1);
        break;
    case 'D':
        turn(c, HC_DRY, "dry", 1);
        break;
    case 'd':
        turn(c, HC_DRY, "dry", -1);
        break;
    case 'n':
        load_nth(c, 1);
        break;
    case 'p':
        load_nth(c, -1);
        break;
    case 'r':
        reload(c);
        break;
    case 'q':
        c->end = true;
        break;
    default:
        console_say("keys: b bypass, + - gain, w W wet, d D dry, n p masks, r load again, q quit");
    }
}

static bool set_db(struct control *c, int knob, const struct osc_message *message)
{
    bool off = message->text && strcmp(message->text, "off") == 0;
    if (!off && !(message->has_number && message->number <= 60)) return false; /* NaN is not */
    hc_live_set(session_live(c->session), knob, off ? 0 : (float)pow(10, message->number / 20));
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
    if (text) osc_reply(message->osc, "/stats", text);
    free(text);
    json_decref(json);
}

static void take_message(void *data, const struct osc_message *message)
{
    struct control *c = data;
    const char *path = message->path;
    bool good = true;
    if (strcmp(path, "/bypass") == 0 && message->has_number)
        set_bypass(c, message->number != 0);
    else if (strcmp(path, "/gain") == 0)
        good = set_db(c, HC_GAIN, message);
    else if (strcmp(path, "/wet") == 0)
        good = set_db(c, HC_WET, message);
    else if (strcmp(path, "/dry") == 0)
        good = set_db(c, HC_DRY, message);
    else if (strcmp(path, "/mask") == 0 && message->text)
        load(c, message->text);
    else if (strcmp(path, "/next") == 0)
        load_nth(c, 1);
    else if (strcmp(path, "/stats") == 0)
        answer_stats(c, message);
    else
        good = false;
    if (good) return;
    console_say("OSC: %s is no message of ours, or its argument is wrong; see --help", path);
    osc_reply(message->osc, "/error", path);
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

/* ---- what is shown ----------------------------------------------------------------------------- */

static void show(struct control *c, double now)
{
    struct session_status status;
    char line[600];
    float peak_in, peak_out;
    if (now < c->next_status) return;
    c->next_status = now + STATUS_S;
    session_get_status(c->session, &status);
    if (console_is_terminal()) {
        hc_live_take_peaks(session_live(c->session), &peak_in, &peak_out);
        report_line(&status, &c->before, peak_in, peak_out, bypass(c), line, sizeof line);
        console_status(line);
        c->before = status.times;
        return;
    }
    uint64_t trouble = status.xruns + status.late + status.clipped;
    if (now - c->last_log < (trouble != c->logged_trouble ? LOG_TROUBLE_S : LOG_S)) return;
    hc_live_take_peaks(session_live(c->session), &peak_in, &peak_out);
    report_line(&status, &c->before, peak_in, peak_out, bypass(c), line, sizeof line);
    console_say("%s", line);
    c->before = status.times;
    c->last_log = now;
    c->logged_trouble = trouble;
}

/* ---- the loop ---------------------------------------------------------------------------------- */

static void mind_host(struct control *c, double now)
{
    char why[MESSAGE_CAP];
    if (!c->is_down && c->host->is_alive(c->host->data)) {
        c->host->tend(c->host->data);
        return;
    }
    if (!c->is_down) {
        c->is_down = true;
        c->next_retry = now + RETRY_S;
        if (c->settings->reconnect)
            console_say("%s: went away; waiting for it", c->host->what);
        else
            console_error("%s: went away; start it again, and with --reconnect it is awaited", c->host->what);
        c->host->stop(c->host->data);
        if (!c->settings->reconnect) {
            c->status = EXIT_FAILED;
            c->end = true;
            return;
        }
    }
    if (now < c->next_retry) return;
    c->next_retry = now + RETRY_S;
    if (!c->host->restart(c->host->data, why, sizeof why)) return;
    c->is_down = false;
    console_say("%s: is back", c->host->what);
}

static void wait_for_news(struct control *c)
{
    struct pollfd ready[3] = {{.fd = c->signals, .events = POLLIN},
                              {.fd = c->osc ? osc_fd(c->osc) : -1, .events = POLLIN},
                              {.fd = c->host->nsm ? nsm_fd(c->host->nsm) : -1, .events = POLLIN}};
    poll(ready, 3, TICK_MS);
}

static void mind_manager(struct control *c)
{
    struct keepsake kept;
    if (!c->host->nsm) return;
    keepsake_take(c->session, &kept);
    nsm_tend(c->host->nsm, &kept);
}

/* Where a session manager started us nobody reads what is said. */
static void say_port(const struct control *c)
{
    char text[64];
    snprintf(text, sizeof text, "OSC on port %d", osc_port(c->osc));
    console_say("%s", text);
    if (c->host->nsm) nsm_say(c->host->nsm, text);
}

static int index_of(const struct live_settings *settings)
{
    for (int i = 0; i < settings->n_masks; i++)
        if (strcmp(settings->masks[i], settings->mask) == 0) return i;
    return 0;
}

/* As long as the audio goes on, which on a busy machine may be slowly. */
static void fade_out(struct control *c)
{
    double now = stopwatch_now(), end = now + FADE_S, silent_since = now;
    hc_live_stats stats = {.size = sizeof stats};
    uint64_t blocks = 0;
    hc_live_set(session_live(c->session), HC_FADE, 0);
    while (!stats.faded_out && now < end && now < silent_since + STILL_S && c->host->is_alive(c->host->data)) {
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
        now = stopwatch_now();
        hc_live_get_stats(session_live(c->session), &stats);
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
    console_status("");
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
    struct control c = {.settings = settings, .session = session, .host = host, .mask = index_of(settings)};
    char why[MESSAGE_CAP];
    sigset_t set;
    make_signals(&set);
    watch_open(&c.watch, settings->mask);
    if (settings->osc && !(c.osc = osc_open(settings->osc, why, sizeof why))) {
        host->stop(host->data);
        return message_error("%s", why);
    }
    if (c.osc) say_port(&c);
    if (c.osc && host->osc_port) *host->osc_port = osc_port(c.osc);
    c.signals = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    keys_open();
    c.last_log = stopwatch_now();
    while (!c.end) {
        wait_for_news(&c);
        double now = stopwatch_now();
        take_signals(&c);
        for (int key; (key = keys_next());) take_key(&c, key);
        if (c.osc) osc_receive(c.osc, take_message, &c);
        session_tend(session);
        mind_manager(&c);
        if (!c.end) mind_host(&c, now);
        if (settings->watch && now >= c.next_watch) {
            c.next_watch = now + WATCH_S;
            if (watch_changed(&c.watch)) session_request_mask(session, c.watch.path);
        }
        show(&c, now);
    }
    finish(&c);
    keys_close();
    osc_close(c.osc);
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
