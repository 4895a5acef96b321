#include "remote.h"

#include "host/message.h"
#include "host/panel/panel.h"
#include "keys.h"
#include "scene_messages.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_SUBSCRIBERS = 8, MAX_ASKERS = 16, SUBSCRIBED_S = 60, PATH_SHOWN = 100, WHY_SHOWN = 500 };
enum { MAX_ERRORS = 50, MAX_BUDGETS = 16 }; /* max. in a second: errors for each host; hosts that get errors */
enum { MAX_STATS = 65480 };                 /* bytes: a packet of UDP has 65507, with the path and a type */
static const double STATE_S = 0.05;
static const char REPLACED[] = "another mask was asked for before this one was loaded";

/* The state that subscribers get; a value's path is that of the message that asks for it. */
enum { MASK, GAIN, WET, DRY, BYPASS, COMPARED, LATE, LOAD, PEAKS, N_ITEMS };
static const struct item {
    const char *path, *types;
} items[N_ITEMS] = {[MASK] = {"/mask", "si"},    [GAIN] = {"/gain", "f"},    [WET] = {"/wet", "f"},
                    [DRY] = {"/dry", "f"},       [LATE] = {"/late", "i"},    [LOAD] = {"/load", "f"},
                    [BYPASS] = {"/bypass", "i"}, [PEAKS] = {"/peaks", "ff"}, [COMPARED] = {"/ab/state", "iff"}};

struct state {
    char mask[4096]; /* path */
    double values[N_ITEMS][3];
};

struct subscriber {
    struct osc_peer peer;
    double end;
};

struct asker { /* a peer that asked for a mask and waits for the result */
    struct osc_peer peer;
    uint64_t number; /* number of the request */
    char path[16];   /* path of the message */
    char mask[4096]; /* path of the mask */
    int mask_number;
};

struct error_budget { /* counts the errors sent to a host */
    struct osc_peer peer;
    int n_errors; /* since `begin` */
    double begin;
};

struct remote {
    struct osc *osc;
    struct command_target *target;
    remote_stats *stats;
    void *data;
    double load_percent, in_db, out_db, late; /* remote_set_levels */
    struct state sent;                        /* the last state that subscribers got */
    double now, next_state;
    struct subscriber subscribers[MAX_SUBSCRIBERS + PANEL_MAX_CLIENTS];
    struct asker askers[MAX_ASKERS]; /* sorted by number */
    int n_subscribers, n_askers;
    uint64_t answered; /* number of the last request whose answer was sent */
    int n_of_panels;   /* subscribers that are clients of a panel */
    struct error_budget budgets[MAX_BUDGETS];
    struct message_limit refusals;
};

struct remote *remote_open(struct osc *osc, struct command_target *target, remote_stats *stats, void *data)
{
    struct remote *r = calloc(1, sizeof *r);
    if (!r) return NULL;
    *r = (struct remote){.osc = osc,
                         .target = target,
                         .stats = stats,
                         .data = data,
                         .in_db = -INFINITY,
                         .out_db = -INFINITY,
                         .refusals = {.topic = "refused OSC messages", .max = 5}};
    return r;
}

void remote_set_levels(struct remote *r, double load_percent, float peak_in, float peak_out, uint64_t late)
{
    r->load_percent = round(10 * load_percent) / 10;
    r->in_db = round(200 * log10((double)peak_in)) / 10;
    r->out_db = round(200 * log10((double)peak_out)) / 10;
    r->late = fmin((double)late, INT_MAX);
}

/* ---- state ------------------------------------------------------------------------------------- */

static void read_state(const struct remote *r, struct state *state)
{
    const struct session *session = r->target->session;
    hc_live *live = session_live(r->target->session);
    *state = (struct state){.values = {[BYPASS] = {session_get(session, HC_BYPASS) != 0},
                                       [LATE] = {r->late},
                                       [LOAD] = {r->load_percent},
                                       [PEAKS] = {r->in_db, r->out_db}}};
    for (int i = 0; i < COMMAND_GAINS; i++)
        state->values[GAIN + i][0] = 20 * log10((double)session_get(session, command_gains[i].knob));
    hc_live_stats stats = {.size = sizeof stats};
    hc_live_get_stats(live, &stats);
    state->values[COMPARED][0] = stats.compared;
    for (int i = 0; i < 2 && stats.compared; i++)
        state->values[COMPARED][1 + i] = round(200 * log10((double)stats.compared_gain[i])) / 10;
    hc_live_mask(live, state->mask, sizeof state->mask);
    state->values[MASK][0] = command_mask_number(r->target, state->mask);
}

static void send_item(struct remote *r, const struct osc_peer *to, const struct state *state, int i)
{
    const struct item *item = &items[i];
    const double *value = state->values[i];
    if (i == MASK)
        osc_send_to(r->osc, to, item->path, item->types, state->mask, (int)value[0]);
    else if (i == COMPARED)
        osc_send_to(r->osc, to, item->path, item->types, (int)value[0], value[1], value[2]);
    else if (item->types[0] == 'i')
        osc_send_to(r->osc, to, item->path, item->types, (int)value[0]);
    else
        osc_send_to(r->osc, to, item->path, item->types, value[0], value[1]);
}

static bool remote_is_same(const struct state *a, const struct state *b, int i)
{
    const double *x = a->values[i], *y = b->values[i];
    return x[0] == y[0] && x[1] == y[1] && x[2] == y[2] && (i != MASK || strcmp(a->mask, b->mask) == 0);
}

/* ---- subscribers ------------------------------------------------------------------------------- */

static struct subscriber *find_subscriber(struct remote *r, const struct osc_peer *peer)
{
    for (int i = 0; i < r->n_subscribers; i++)
        if (osc_same_peer(&r->subscribers[i].peer, peer)) return &r->subscribers[i];
    return NULL;
}

static void drop_subscriber(struct remote *r, struct subscriber *subscriber)
{
    if (!subscriber) return;
    r->n_of_panels -= subscriber->peer.send != NULL;
    *subscriber = r->subscribers[--r->n_subscribers];
}

/* A message may name another port of the sender's address, for oscdump. false: it is not a port. */
static bool read_subscriber(const struct osc_message *message, struct osc_peer *peer)
{
    *peer = *message->from;
    if (message->n_args == 0 || peer->send) return true;
    if (!message->has_number || !(message->number >= 1 && message->number <= 65535)) return false;
    osc_set_port(peer, (int)message->number);
    return true;
}

static bool subscribe(struct remote *r, const struct osc_message *message, char *why, size_t cap)
{
    struct osc_peer peer;
    struct state state;
    bool ends = strcmp(message->path, "/unsubscribe") == 0;
    if (!read_subscriber(message, &peer))
        return message_write(why, cap, "%s needs a port from 1 to 65535, or no argument", message->path + 1);
    struct subscriber *subscriber = find_subscriber(r, &peer);
    if (ends) { /* a session that ends, or that gets an answer in this block, sends /unsubscribe, too */
        if (subscriber) osc_send_to(r->osc, &peer, "/unsubscribe", "");
        drop_subscriber(r, subscriber);
        return true;
    }
    if (!peer.send && osc_is_own(r->osc, &peer))
        return message_write(why, cap, "port %d belongs to this session; give the port of a receiver",
                             osc_port(r->osc));
    int n = peer.send ? r->n_of_panels : r->n_subscribers - r->n_of_panels;
    if (!subscriber && n == (peer.send ? PANEL_MAX_CLIENTS : MAX_SUBSCRIBERS))
        return message_write(why, cap, "there are %d subscribers already; end one, or wait a minute", n);
    if (!subscriber) {
        subscriber = &r->subscribers[r->n_subscribers++];
        r->n_of_panels += peer.send != NULL;
    }
    *subscriber = (struct subscriber){.peer = peer, .end = peer.send ? INFINITY : r->now + SUBSCRIBED_S};
    if (!peer.send) osc_send_to(r->osc, &peer, "/subscribe", "i", SUBSCRIBED_S);
    read_state(r, &state);
    for (int i = 0; i < N_ITEMS; i++) send_item(r, &peer, &state, i);
    if (r->n_subscribers == 1) r->sent = state;
    return true;
}

static void tend_subscribers(struct remote *r)
{
    struct osc_peer gone;
    struct state state;
    while (r->osc && osc_next_unreachable(r->osc, &gone)) drop_subscriber(r, find_subscriber(r, &gone));
    for (int i = r->n_subscribers - 1; i >= 0; i--) {
        if (r->now < r->subscribers[i].end) continue;
        osc_send_to(r->osc, &r->subscribers[i].peer, "/unsubscribe", "");
        drop_subscriber(r, &r->subscribers[i]);
    }
    if (r->now < r->next_state || r->n_subscribers == 0) return;
    r->next_state = r->now + STATE_S;
    read_state(r, &state);
    for (int i = 0; i < N_ITEMS; i++)
        for (int k = 0; !remote_is_same(&state, &r->sent, i) && k < r->n_subscribers; k++)
            send_item(r, &r->subscribers[k].peer, &state, i);
    r->sent = state;
}

/* ---- errors ------------------------------------------------------------------------------------ */

/* The address may be forged, so each host gets few errors. */
static bool may_send_error(struct remote *r, const struct osc_peer *to)
{
    struct error_budget *host = NULL;
    for (int i = 0; i < MAX_BUDGETS; i++) {
        struct error_budget *each = &r->budgets[i];
        if (r->now >= each->begin + 1) each->n_errors = 0;
        bool is_same = each->n_errors > 0 && osc_same_host(&each->peer, to);
        if (is_same || (!host && each->n_errors == 0)) host = each;
        if (is_same) break;
    }
    if (!host || host->n_errors == MAX_ERRORS) return false;
    if (host->n_errors++ == 0) *host = (struct error_budget){.peer = *to, .n_errors = 1, .begin = r->now};
    return true;
}

static void send_error(struct remote *r, const struct osc_peer *to, const char *path, const char *why)
{
    if (may_send_error(r, to)) osc_send_to(r->osc, to, "/error", "ss", path, why);
}

/* Sends an error to the peer whose message failed (NULL: a key, say), and to the subscribers. */
static void remote_refuse(struct remote *r, const struct osc_peer *to, const char *path, const char *why)
{
    char shown[PATH_SHOWN + 1];
    snprintf(shown, sizeof shown, "%s", path);
    if (to && to->send) /* its messages are limited already */
        osc_send_to(r->osc, to, "/error", "ss", shown, why);
    else if (to)
        send_error(r, to, shown, why);
    for (int i = 0; i < r->n_subscribers; i++)
        if (!to || !osc_same_peer(&r->subscribers[i].peer, to)) send_error(r, &r->subscribers[i].peer, shown, why);
}

/* ---- masks ------------------------------------------------------------------------------------- */

static void remote_answer(struct remote *r, const struct asker *asker, bool is_good, const char *why)
{
    if (is_good)
        osc_send_to(r->osc, &asker->peer, "/mask", "si", asker->mask, asker->mask_number);
    else
        remote_refuse(r, &asker->peer, asker->path, why);
}

static void remove_first_asker(struct remote *r)
{
    memmove(r->askers, r->askers + 1, (size_t)--r->n_askers * sizeof *r->askers);
}

/* Records who asked for the target's last mask: the answer is sent when the loader has finished. */
static void add_asker(struct remote *r, const struct osc_message *message)
{
    const char *mask = r->target->watch.path;
    if (r->n_askers == MAX_ASKERS) {
        remote_answer(r, &r->askers[0], false, REPLACED);
        remove_first_asker(r);
    }
    struct asker *asker = &r->askers[r->n_askers++];
    *asker = (struct asker){
        .peer = *message->from, .number = r->target->request, .mask_number = command_mask_number(r->target, mask)};
    snprintf(asker->path, sizeof asker->path, "%s", message->path);
    snprintf(asker->mask, sizeof asker->mask, "%s", mask);
}

static void answer_askers(struct remote *r)
{
    char why[ANSWER_CAP];
    enum answer answer;
    for (; (answer = session_answer(r->target->session, r->answered + 1, why)) != ANSWER_PENDING; r->answered++) {
        bool is_asked = false;
        why[WHY_SHOWN] = '\0';
        for (; r->n_askers > 0 && r->askers[0].number == r->answered + 1; remove_first_asker(r)) {
            remote_answer(r, &r->askers[0], answer == ANSWER_GOOD, answer == ANSWER_REPLACED ? REPLACED : why);
            is_asked = true;
        }
        if (!is_asked && answer == ANSWER_FAILED) remote_refuse(r, NULL, "/mask", why);
    }
}

/* ---- messages ---------------------------------------------------------------------------------- */

/* Is this a message that a session sends to others? It gets no answer: two sessions would answer each other for ever. A
 * gain looks like a command, which has no answer. */
static bool is_answer(const struct osc_message *message)
{
    const char *path = message->path;
    int n = message->n_args;
    if (strcmp(path, "/error") == 0 || strcmp(path, "/preset/saved") == 0) return true;
    if (strcmp(path, "/mask") == 0) return n > 1;
    if (strcmp(path, "/stats") == 0) return n > 0;
    for (int i = COMPARED; i < N_ITEMS; i++)
        if (strcmp(path, items[i].path) == 0) return n == (int)strlen(items[i].types) && message->n_numbers == n;
    return scene_message_is_answer(message);
}

/* Another session has answered /subscribe, which this session never sends: the request was forged. */
static bool is_forged_subscription(const struct osc_message *message)
{
    return strcmp(message->path, "/subscribe") == 0 && message->n_args == 1 && message->number == SUBSCRIBED_S;
}

static bool answer_stats(struct remote *r, const struct osc_message *message, char *why, size_t cap)
{
    json_t *json = r->stats(r->data);
    char *text = json ? json_dumps(json, JSON_COMPACT | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(9)) : NULL;
    json_decref(json);
    if (!text) return message_write(why, cap, "no memory for the statistics; free some memory");
    if (strlen(text) > MAX_STATS) {
        free(text);
        return message_write(why, cap, "the statistics of this many sources do not fit into a packet; give --stats");
    }
    osc_send_to(r->osc, message->from, "/stats", "s", text);
    free(text);
    return true;
}

/* A message without a value asks for it. N_ITEMS: it asks for none. */
static int asked_item(const struct osc_message *message)
{
    int i = 0;
    while (i < N_ITEMS && (message->n_args > 0 || strcmp(message->path, items[i].path) != 0)) i++;
    return i;
}

static bool answer_item(struct remote *r, const struct osc_message *message)
{
    struct state state;
    int i = asked_item(message);
    if (i == N_ITEMS) return false;
    read_state(r, &state);
    send_item(r, message->from, &state, i);
    return true;
}

/* An argument that is missing or has a wrong type becomes one that command_apply refuses. */
static bool remote_read_gain(const struct osc_message *message, struct command *command)
{
    bool is_off = message->text && strcmp(message->text, "off") == 0;
    for (int i = 0; i < COMMAND_GAINS; i++) {
        if (strcmp(message->path + 1, command_gains[i].name) != 0) continue;
        *command = (struct command){.act = COMMAND_GAIN,
                                    .gain = &command_gains[i],
                                    .db = is_off                ? -INFINITY
                                          : message->has_number ? message->number
                                                                : NAN};
        return true;
    }
    return false;
}

static void remote_read_mask(const struct osc_message *message, struct command *command)
{
    bool is_number = message->number >= 1 && message->number <= INT_MAX;
    *command = message->text
                   ? (struct command){.act = COMMAND_MASK, .path = message->text}
                   : (struct command){.act = COMMAND_MASK_NUMBER, .number = is_number ? (int)message->number : 0};
}

/* Reads "/ab", "/ab B", "/ab A B", "/ab off"; A and B are paths, or numbers in the list. */
static bool read_comparison(const struct osc_message *message, struct command *command, char *why, size_t cap)
{
    int n = message->n_args;
    bool has_paths = message->n_texts == n;
    bool has_numbers = message->n_texts == 0 && message->number >= 1 && message->number <= INT_MAX &&
                       (n < 2 || (message->second >= 1 && message->second <= INT_MAX));
    *command = (struct command){.act = n == 0 ? COMMAND_COMPARE_SWITCH : COMMAND_COMPARE};
    if (n > 2 || !(has_paths || has_numbers))
        return message_write(why, cap, "ab needs no argument, off, or one or two masks (paths or numbers in the list)");
    if (n == 1 && has_paths && strcmp(message->text, "off") == 0) {
        command->act = COMMAND_COMPARE_END;
    } else if (has_paths && n > 0) {
        command->path = n == 2 ? message->texts[0] : NULL;
        command->other_path = message->texts[n - 1];
    } else if (n > 0) {
        command->number = n == 2 ? (int)message->number : 0;
        command->other = (int)(n == 2 ? message->second : message->number);
    }
    return true;
}

/* Reads "/preset/save", "/preset/save NAME", "/preset/save NAME replace". */
static bool read_saving(const struct osc_message *message, struct command *command, char *why, size_t cap)
{
    int n = message->n_args;
    bool replace = message->n_texts == 2 && strcmp(message->texts[1], "replace") == 0;
    *command = (struct command){.act = COMMAND_PRESET_SAVE, .path = n ? message->text : "", .on = replace};
    return (message->n_texts == n && n == (replace ? 2 : n > 0)) ||
           message_write(why, cap, "/preset/save needs no argument, a name, or a name and replace");
}

/* Translates a message. false: why has the reason. */
static bool read_command(const struct osc_message *message, struct command *command, char *why, size_t cap)
{
    static const struct {
        const char *path;
        struct command command;
    } plain[] = {{"/next", {.act = COMMAND_MASK_STEP, .number = 1}},
                 {"/prev", {.act = COMMAND_MASK_STEP, .number = -1}},
                 {"/reload", {.act = COMMAND_RELOAD}}};
    static const struct {
        const char *path, *needs;
        enum command_act act;
    } texts[] = {{"/mask/add", "the path of a mask", COMMAND_MASK_ADD},
                 {"/preset", "the name of a preset", COMMAND_PRESET}};
    const char *path = message->path;
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        if (strcmp(path, plain[i].path) == 0) {
            *command = plain[i].command;
            return true;
        }
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (strcmp(path, texts[i].path) == 0) {
            *command = (struct command){.act = texts[i].act, .path = message->text};
            return message->text || message_write(why, cap, "%s needs %s", path, texts[i].needs);
        }
    if (strcmp(path, "/key") == 0) {
        bool is_key = message->text && strlen(message->text) == 1 && keys_command(*message->text, command);
        return (is_key && command->act != COMMAND_QUIT) ||
               message_write(why, cap, "key needs a key of the terminal, but not q");
    }
    if (path[0] == '/' && remote_read_gain(message, command)) return true;
    if (strcmp(path, "/ab") == 0) return read_comparison(message, command, why, cap);
    if (strcmp(path, "/preset/save") == 0) return read_saving(message, command, why, cap);
    if (strcmp(path, "/bypass") == 0) {
        *command = (struct command){.act = COMMAND_BYPASS, .on = message->number != 0};
        return message->has_number || message_write(why, cap, "bypass needs 0 or 1");
    }
    if (strcmp(path, "/mask") != 0)
        return message_write(why, cap, "this message does not exist with these arguments; see haloconv-osc(7)");
    remote_read_mask(message, command);
    return true;
}

bool remote_loads_mask(const struct osc_message *message)
{
    struct command command;
    return !is_answer(message) && asked_item(message) == N_ITEMS && read_command(message, &command, NULL, 0) &&
           command_loads_mask(command.act);
}

static bool change_scene(struct remote *r, const struct osc_message *message, char *why, size_t cap)
{
    struct live_scene *scene = session_scene(r->target->session);
    struct scene_change change;
    if (!scene) return message_write(why, cap, "the session has no sources; start it with a bank and --sources");
    if (scene_message_answer(message, scene, r->osc)) return true;
    return scene_message_read(message, &change, why, cap) && live_scene_change(scene, &change, why, cap);
}

static bool obey(struct remote *r, const struct osc_message *message, char *why, size_t cap)
{
    struct command command = {0};
    if (is_answer(message)) return true;
    if (is_forged_subscription(message)) {
        osc_send_to(r->osc, message->from, "/unsubscribe", "");
        return true;
    }
    if (strcmp(message->path, "/subscribe") == 0 || strcmp(message->path, "/unsubscribe") == 0)
        return subscribe(r, message, why, cap);
    if (strcmp(message->path, "/stats") == 0) return answer_stats(r, message, why, cap);
    if (answer_item(r, message)) return true;
    if (scene_message_is(message->path)) return change_scene(r, message, why, cap);
    uint64_t request = r->target->request;
    bool good = read_command(message, &command, why, cap) && command_apply(r->target, &command, why, cap);
    if (good && command.act == COMMAND_PRESET_SAVE) {
        osc_send_to(r->osc, message->from, "/preset/saved", "ss", r->target->saved, why);
        if (message_limit_allows(&r->refusals)) message_note("%s", why);
    }
    if (r->target->request != request) add_asker(r, message); /* also of a preset that is refused in part */
    return good;
}

void remote_handle(void *data, const struct osc_message *message)
{
    struct remote *r = data;
    char why[200];
    if (obey(r, message, why, sizeof why)) return;
    if (message_limit_allows(&r->refusals))
        message_note("%s: %.*s: %s", message->from->send ? "panel" : "OSC", PATH_SHOWN, message->path, why);
    remote_refuse(r, message->from, message->path, why);
}

void remote_tend(struct remote *r, double now)
{
    r->now = now;
    if (r->osc) osc_receive(r->osc, remote_handle, r);
    answer_askers(r);
    tend_subscribers(r);
    message_limit_tend(&r->refusals, false);
}

void remote_close(struct remote *r)
{
    if (!r) return;
    for (int i = 0; i < r->n_subscribers; i++) osc_send_to(r->osc, &r->subscribers[i].peer, "/unsubscribe", "");
    message_limit_tend(&r->refusals, true);
    free(r);
}
