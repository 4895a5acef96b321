#include "panel.h"

#include "panel_upload.h"
#include "host/json_print.h"
#include "host/message.h"
#include "host/own_library.h"
#include "host/plot/plot.h"
#include "host/stopwatch.h"
#include "panel_address.h"
#include "panel_requests.h"
#include "panel_server.h"
#include "spectrum.h"

#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { MAX_QUEUED = 256 /* messages for the control thread */, LOG_LINES = 200 };
enum { MAX_STRANGERS = 20 /* clients without token */ };
enum { MAX_BYTES = 1 << 18, SHOW_BYTES = 1 << 15 }; /* of a client's queue: it is dropped; it is behind */
enum { MAX_COUNTED = 1 << 15 };   /* of a text in that queue: /hello may be longer, and must leave room for others */
static const double SILENT_S = 5; /* a client is dropped that takes nothing for so long, or sends no token */
/* Messages a second, and the number that may come at once: of a client; of all; of those that load a mask. Further
 * messages are read later. */
static const double CLIENT_RATE = 100, CLIENT_BURST = 100, RATE = 1000, BURST = 400, LOAD_RATE = 10, LOAD_BURST = 20;
static const double MAX_BUSY_S = 0.005, WINDOW_S = 0.1;    /* the thread's share of a core */
static const double SPECTRUM_S = 0.1, SPECTRUM_PAUSE = 25; /* between two: so many times as long as the last one took */
static const double GOODBYE_S = 0.2;
static const double REST_S = 0.5, SILENT_DB = -150; /* without a block for so long, the signals are silence */

struct text_link { /* in a client's queue */
    struct text_link *next;
    struct panel_text *text;
};

struct panel_client {
    struct panel_client *next;
    uint64_t number;
    bool has_token;
    double joined_s;                 /* -INFINITY: it is refused, and dropped when it has the answer */
    struct queued *leave;            /* its last message, in advance: it must not lack memory */
    struct text_link *first, **last; /* texts to send; under lock, as all below */
    size_t bytes;                    /* of these texts, as far as they are counted */
    double taken_s;                  /* when it took a text, or had none */
    struct bucket messages;
    bool has_loaded; /* its last message loads a mask */
    bool has_missed; /* a text: its queue was full, so it is dropped */
};

struct queued {
    struct queued *next;
    struct panel_message message;
};

struct panel {
    struct panel_address address;
    const struct panel_server *api;
    void *server;
    struct panel_requests *requests;
    panel_loads *loads_mask;
    pthread_t thread;
    atomic_bool end;
    atomic_int n_clients; /* that have the token */

    pthread_mutex_t lock;
    struct panel_client *clients;
    uint64_t n_numbers;            /* clients since the start */
    struct bucket messages, loads; /* of all clients */
    struct queued *first, **last;  /* for panel_next */
    int n_queued, fd;
    struct panel_text *hello;          /* NULL: not known yet */
    struct panel_text *log[LOG_LINES]; /* line i at i % LOG_LINES */
    uint64_t n_lines;

    pthread_mutex_t session_lock;
    struct panel_session session; /* live NULL: none */
    struct spectrum spectrum;
    float *frames, **rows; /* [n_in + n_out][SPECTRUM_FRAMES] */
    double next_spectrum_s;
    uint64_t n_blocks; /* at the last spectrum */
    double played_s;   /* when that number was last seen to change */
};

/* ---- texts ------------------------------------------------------------------------------------- */

static struct panel_text *panel_make_text(const json_t *json)
{
    char *text = json ? json_dumps(json, JSON_COMPACT | JSON_REAL_PRECISION(7)) : NULL;
    size_t n = text ? strlen(text) : 0;
    struct panel_text *made = text ? malloc(sizeof *made + PANEL_PADDING + n + 1) : NULL;
    if (made) {
        *made = (struct panel_text){.n_uses = 1, .n = n};
        memcpy(made->bytes + PANEL_PADDING, text, n + 1);
    }
    free(text);
    return made;
}

/* Under lock, as queue_text; NULL is allowed. */
static void release(struct panel_text *text)
{
    if (text && --text->n_uses == 0) free(text);
}

static size_t counted_bytes(const struct panel_text *text)
{
    return text->n < MAX_COUNTED ? text->n : MAX_COUNTED;
}

/* A client that misses a text is dropped by `needs`: its page would show an old state. */
static void queue_text(struct panel_client *c, struct panel_text *text)
{
    struct text_link *link = text && c->bytes <= MAX_BYTES ? malloc(sizeof *link) : NULL;
    if (!link) {
        c->has_missed = c->has_missed || text;
        return;
    }
    *link = (struct text_link){.text = text};
    text->n_uses++;
    if (!c->first) c->taken_s = stopwatch_now();
    *c->last = link;
    c->last = &link->next;
    c->bytes += counted_bytes(text);
}

/* client 0: to all. Under lock */
static void send_text(struct panel *p, uint64_t client, struct panel_text *text, size_t max_bytes)
{
    bool is_shown = max_bytes < MAX_BYTES; /* values of the moment: a client that is behind need not have them */
    for (struct panel_client *c = p->clients; c; c = c->next)
        if (c->has_token && (client == 0 || c->number == client) && !(is_shown && c->bytes > max_bytes))
            queue_text(c, text);
}

static void send_json(struct panel *p, uint64_t client, const json_t *json, size_t max_bytes)
{
    struct panel_text *text = panel_make_text(json);
    pthread_mutex_lock(&p->lock);
    send_text(p, client, text, max_bytes);
    release(text);
    pthread_mutex_unlock(&p->lock);
    p->api->wake(p->server);
}

void panel_send(struct panel *p, uint64_t client, const json_t *json)
{
    send_json(p, client, json, MAX_BYTES);
}

void panel_show(struct panel *p, const json_t *json)
{
    send_json(p, 0, json, SHOW_BYTES);
}

void panel_set_hello(struct panel *p, json_t *hello)
{
    struct panel_text *text = panel_make_text(hello);
    pthread_mutex_lock(&p->lock);
    struct panel_text *old = p->hello;
    bool is_new = text && (!old || old->n != text->n ||
                           memcmp(old->bytes + PANEL_PADDING, text->bytes + PANEL_PADDING, text->n) != 0);
    if (is_new) send_text(p, 0, p->hello = text, MAX_BYTES);
    release(is_new ? old : text);
    pthread_mutex_unlock(&p->lock);
    if (is_new) p->api->wake(p->server);
}

/* A listener of message.h: any thread, and the lock of messages is held. */
static void panel_add_line(void *data, bool is_error, const char *line)
{
    struct panel *p = data;
    json_t *json = json_pack("[sso]", "/log", is_error ? "error" : "note", json_text(line));
    struct panel_text *text = panel_make_text(json);
    json_decref(json);
    if (!text) return;
    pthread_mutex_lock(&p->lock);
    struct panel_text **to = &p->log[p->n_lines++ % LOG_LINES];
    release(*to);
    *to = text;
    send_text(p, 0, text, MAX_BYTES);
    pthread_mutex_unlock(&p->lock);
    p->api->wake(p->server);
}

/* ---- messages to the control thread ------------------------------------------------------------ */

static void panel_enqueue(struct panel *p, struct queued *q)
{
    q->next = NULL;
    *p->last = q;
    p->last = &q->next;
    if (p->n_queued++ == 0) (void)!write(p->fd, &(uint64_t){1}, sizeof(uint64_t));
}

static struct queued *make_queued(uint64_t client, json_t *json)
{
    struct queued *q = json ? malloc(sizeof *q) : NULL;
    if (q)
        q->message = (struct panel_message){client, json};
    else
        json_decref(json);
    return q;
}

/* An upload joins the list of masks. The worker's thread */
static void panel_add_mask(void *data, const char *path)
{
    struct panel *p = data;
    struct queued *q = make_queued(0, json_pack("[so]", "/mask/add", json_string_nocheck(path)));
    pthread_mutex_lock(&p->lock);
    if (q) panel_enqueue(p, q);
    pthread_mutex_unlock(&p->lock);
}

bool panel_next(struct panel *p, struct panel_message *message)
{
    uint64_t count;
    pthread_mutex_lock(&p->lock);
    struct queued *q = p->first;
    if (q && !(p->first = q->next)) p->last = &p->first;
    if (q && --p->n_queued == 0) (void)!read(p->fd, &count, sizeof count);
    pthread_mutex_unlock(&p->lock);
    if (!q) return false;
    *message = q->message;
    free(q);
    return true;
}

int panel_fd(const struct panel *p)
{
    return p->fd;
}

/* ---- limits: under lock ------------------------------------------------------------------------ */

/* The debt is bounded: each client that comes may send one message. */
static void panel_use(struct bucket *b, double burst)
{
    b->credit = fmax(-burst, b->credit - 1);
}

/* Counts a message; NULL: it is none. */
static void count_message(struct panel *p, struct panel_client *c, const json_t *message)
{
    panel_use(&c->messages, CLIENT_BURST);
    panel_use(&p->messages, BURST);
    c->has_loaded = c->has_token && message && p->loads_mask(message);
    if (c->has_loaded) panel_use(&p->loads, LOAD_BURST);
}

/* May the client's next message be read? A client that sends little does not wait for those that send much. */
static bool may_read(struct panel *p, struct panel_client *c, double now)
{
    bucket_fill(&p->messages, RATE, BURST, now);
    bucket_fill(&p->loads, LOAD_RATE, LOAD_BURST, now);
    bucket_fill(&c->messages, CLIENT_RATE, CLIENT_BURST, now);
    bool is_frugal = c->messages.credit > 0.9 * CLIENT_BURST;
    return p->n_queued < MAX_QUEUED && c->messages.credit >= 0 && (is_frugal || p->messages.credit >= 0) &&
           (!c->has_loaded || p->loads.credit >= 0);
}

int panel_n_clients(const struct panel *p)
{
    return atomic_load(&p->n_clients);
}

/* ---- clients: thread of the panel -------------------------------------------------------------- */

static int on_refuse(struct panel *p, const char *host, const char *origin)
{
    return panel_address_allows(&p->address, host, origin) ? 0 : 403;
}

static bool on_is_full(struct panel *p)
{
    pthread_mutex_lock(&p->lock);
    bool is_full = p->n_queued >= MAX_QUEUED;
    pthread_mutex_unlock(&p->lock);
    return is_full;
}

/* Sends JSON to a client that may lack the token. Releases the JSON. */
static void reply(struct panel *p, struct panel_client *c, json_t *json)
{
    struct panel_text *text = panel_make_text(json);
    json_decref(json);
    pthread_mutex_lock(&p->lock);
    queue_text(c, text);
    release(text);
    pthread_mutex_unlock(&p->lock);
}

static void panel_refuse(struct panel *p, struct panel_client *c, const char *path, const char *why)
{
    reply(p, c, json_pack("[sos]", "/error", json_text(path), why));
}

/* Refuses a client; it is dropped when it has the answer. */
static void turn_away(struct panel *p, struct panel_client *c, const char *path, const char *why)
{
    panel_refuse(p, c, path, why);
    c->joined_s = -INFINITY;
}

/* Sends what a client needs first, and subscribes it. */
static void welcome(struct panel *p, struct panel_client *c)
{
    if (panel_n_clients(p) == PANEL_MAX_CLIENTS) {
        turn_away(p, c, "/subscribe", "there are 50 clients already; close one");
        return;
    }
    pthread_mutex_lock(&p->lock);
    c->has_token = true;
    atomic_fetch_add(&p->n_clients, 1);
    queue_text(c, p->hello);
    for (uint64_t i = p->n_lines > LOG_LINES ? p->n_lines - LOG_LINES : 0; i < p->n_lines; i++)
        queue_text(c, p->log[i % LOG_LINES]);
    struct queued *q = make_queued(c->number, json_pack("[s]", "/subscribe"));
    if (q) panel_enqueue(p, q);
    pthread_mutex_unlock(&p->lock);
}

/* Drops the oldest client without token if there are MAX_STRANGERS: they must not keep others out. Under lock */
static void drop_stranger(struct panel *p)
{
    struct panel_client *oldest = NULL;
    int n = 0;
    for (struct panel_client *c = p->clients; c; c = c->next) /* the newest is the first */
        if (!c->has_token && c->joined_s > 0) {
            oldest = c;
            n++;
        }
    if (n >= MAX_STRANGERS) oldest->joined_s = -INFINITY;
}

static struct panel_client *on_join(struct panel *p)
{
    struct panel_client *c = calloc(1, sizeof *c);
    if (on_is_full(p) || !c) {
        free(c);
        return NULL;
    }
    c->last = &c->first;
    c->joined_s = c->taken_s = stopwatch_now();
    c->messages = (struct bucket){.credit = CLIENT_BURST};
    pthread_mutex_lock(&p->lock);
    drop_stranger(p);
    c->number = ++p->n_numbers;
    c->leave = make_queued(c->number, json_pack("[s]", "/unsubscribe"));
    c->next = p->clients;
    p->clients = c;
    pthread_mutex_unlock(&p->lock);
    if (!*p->address.token) welcome(p, c);
    return c;
}

/* Under lock */
static void free_texts(struct text_link *link)
{
    for (struct text_link *next; link; link = next) {
        next = link->next;
        release(link->text);
        free(link);
    }
}

static void on_leave(struct panel *p, struct panel_client *c)
{
    pthread_mutex_lock(&p->lock);
    struct panel_client **at = &p->clients;
    while (*at != c) at = &(*at)->next;
    *at = c->next;
    if (c->has_token) atomic_fetch_sub(&p->n_clients, 1);
    if (c->leave) panel_enqueue(p, c->leave);
    free_texts(c->first);
    pthread_mutex_unlock(&p->lock);
    free(c);
}

/* The first message of a client: it must be the token. path NULL: it is none. */
static void read_token(struct panel *p, struct panel_client *c, const char *path, const json_t *json)
{
    const char *token = json_string_value(json_array_get(json, 1));
    bool good = path && strcmp(path, "/token") == 0 && token && panel_address_is_token(&p->address, token);
    if (good)
        welcome(p, c);
    else
        turn_away(p, c, "/token", "the first message must be the token of this session; open the URL that it printed");
}

json_t *panel_read_message(const char *text, size_t n)
{
    json_t *json = json_loadb(text, n, 0, NULL);
    size_t size = json_array_size(json), i = 1;
    while (i < size && !json_is_array(json_array_get(json, i)) && !json_is_object(json_array_get(json, i))) i++;
    if (i >= size && json_is_string(json_array_get(json, 0))) return json;
    json_decref(json);
    return NULL;
}

static void on_text(struct panel *p, struct panel_client *c, const char *bytes, size_t n)
{
    json_t *json = panel_read_message(bytes, n);
    const char *path = json_string_value(json_array_get(json, 0));
    pthread_mutex_lock(&p->lock);
    count_message(p, c, json);
    pthread_mutex_unlock(&p->lock);
    if (!c->has_token) {
        if (c->joined_s > 0) read_token(p, c, path, json); /* not turned away yet */
    } else if (!json) {
        panel_refuse(p, c, "", "a message is a JSON array of a path and its arguments, as [\"/gain\",-3]");
    } else if (strcmp(path, "/ping") == 0) {
        json_array_set_new(json, 0, json_string("/pong"));
        reply(p, c, json_incref(json));
    } else if (strcmp(path, "/token") != 0) {
        struct queued *q = make_queued(c->number, json);
        json = NULL; /* the control thread's */
        pthread_mutex_lock(&p->lock);
        if (q) panel_enqueue(p, q);
        pthread_mutex_unlock(&p->lock);
    }
    json_decref(json);
}

static struct panel_text *on_next(struct panel *p, struct panel_client *c)
{
    pthread_mutex_lock(&p->lock);
    struct text_link *link = c->first;
    struct panel_text *text = link ? link->text : NULL;
    if (link) {
        if (!(c->first = link->next)) c->last = &c->first;
        c->bytes -= counted_bytes(text);
        c->taken_s = stopwatch_now();
    }
    pthread_mutex_unlock(&p->lock);
    free(link);
    return text;
}

static void on_release(struct panel *p, struct panel_text *text)
{
    pthread_mutex_lock(&p->lock);
    release(text);
    pthread_mutex_unlock(&p->lock);
}

static unsigned on_needs(struct panel *p, struct panel_client *c)
{
    double now = stopwatch_now();
    unsigned needs = 0;
    pthread_mutex_lock(&p->lock);
    if (c->first) needs |= PANEL_WRITES;
    if (may_read(p, c, now)) needs |= PANEL_READS;
    double waits_s = c->first ? now - c->taken_s : 0;
    bool is_stuck = waits_s > SILENT_S || c->has_missed;
    bool is_refused = !c->has_token && c->joined_s < 0 && !c->first;
    bool is_late = !c->has_token && c->joined_s > 0 && now > c->joined_s + SILENT_S;
    if (is_stuck || is_refused || is_late) needs |= PANEL_DROPS;
    if (c->has_token) needs |= PANEL_IS_IN;
    pthread_mutex_unlock(&p->lock);
    return needs;
}

/* ---- the thread -------------------------------------------------------------------------------- */

static json_t *levels(const double *db)
{
    json_t *list = json_array();
    for (int b = 0; b < SPECTRUM_BANDS; b++) json_array_append_new(list, json_real(round(10 * db[b]) / 10));
    return list;
}

json_t *panel_bands(void)
{
    json_t *list = json_array();
    for (int b = 0; b < SPECTRUM_BANDS; b++)
        json_array_append_new(list, json_real(round(10 * spectrum_centre(b)) / 10));
    return list;
}

json_t *panel_plots(void)
{
    json_t *list = json_array();
    for (int i = 0; i < PLOT_PANELS; i++) json_array_append_new(list, json_string(plot_panel_names[i]));
    return list;
}

/* Does the graph rest, so that the newest frames are old? Under the session's lock */
static bool rests(struct panel *p, double now)
{
    hc_live_stats stats = {.size = sizeof stats};
    hc_live_get_stats(p->session.live, &stats);
    if (stats.blocks != p->n_blocks) p->played_s = now;
    p->n_blocks = stats.blocks;
    return now > p->played_s + REST_S;
}

static void show_spectrum(struct panel *p, double now)
{
    double in[SPECTRUM_BANDS], out[SPECTRUM_BANDS];
    bool is_measured = false;
    if (now < p->next_spectrum_s || panel_n_clients(p) == 0) return;
    pthread_mutex_lock(&p->session_lock);
    const struct panel_session *s = &p->session;
    if (s->live && p->rows && hc_live_get_signals(s->live, p->rows, p->rows + s->n_in, SPECTRUM_FRAMES) == HC_OK) {
        spectrum_measure(&p->spectrum, (const float *const *)p->rows, s->n_in, s->rate, in);
        spectrum_measure(&p->spectrum, (const float *const *)(p->rows + s->n_in), s->n_out, s->rate, out);
        for (int b = 0; rests(p, now) && b < SPECTRUM_BANDS; b++) in[b] = out[b] = SILENT_DB; /* as the meters */
        is_measured = true;
    }
    pthread_mutex_unlock(&p->session_lock);
    p->next_spectrum_s = now + fmax(SPECTRUM_S, SPECTRUM_PAUSE * (stopwatch_now() - now));
    json_t *json = is_measured ? json_pack("[soo]", "/spectrum", levels(in), levels(out)) : NULL;
    if (json) panel_show(p, json);
    json_decref(json);
}

static bool has_sent_all(struct panel *p)
{
    pthread_mutex_lock(&p->lock);
    const struct panel_client *c = p->clients;
    while (c && !c->first) c = c->next;
    pthread_mutex_unlock(&p->lock);
    return !c;
}

static void *panel_run_thread(void *data)
{
    struct panel *p = data;
    pthread_setname_np(pthread_self(), "panel");
    struct processor_share share = processor_share_begin(WINDOW_S, MAX_BUSY_S);
    double end_s = INFINITY, now = 0;
    while (now < end_s) {
        p->api->serve(p->server);
        now = stopwatch_now();
        show_spectrum(p, now);
        if (atomic_load(&p->end) && end_s == INFINITY) end_s = now + GOODBYE_S;
        processor_share_keep(&share);
        if (end_s < INFINITY && has_sent_all(p)) break;
    }
    return NULL;
}

/* ---- open and close ---------------------------------------------------------------------------- */

static const struct panel_server *load_server(char *why, size_t cap)
{
#ifdef HC_WITH_WEBSOCKETS
    void *library = own_library_open("haloconv_panel.so");
    const struct panel_server *server = library ? dlsym(library, "haloconv_panel_server") : NULL;
    const char *reason = server ? NULL : dlerror();
    if (!server)
        message_write(why, cap, "--panel: libwebsockets is missing (%s); install it",
                      reason ? reason : "no haloconv_panel.so");
    return server;
#else
    return (void)message_write(why, cap, "--panel: " MESSAGE_NO_PART("libwebsockets", "libwebsockets-dev")), NULL;
#endif
}

static bool panel_start(struct panel *p, const struct panel_settings *settings, char *why, size_t cap)
{
    int port;
    p->api = load_server(why, cap);
    if (!p->api || !panel_address_read(&p->address, settings->where, why, cap)) return false;
    if (*p->address.token && settings->token)
        snprintf(p->address.token, sizeof p->address.token, "%s", settings->token);
    p->requests = panel_requests_open(&p->address, settings, panel_add_mask, p, why, cap);
    if (!p->requests) return false;
    port = p->address.port;
    struct panel_handler handler = {p,
                                    on_refuse,
                                    on_is_full,
                                    on_join,
                                    on_leave,
                                    on_text,
                                    on_next,
                                    on_release,
                                    on_needs,
                                    p->requests,
                                    panel_requests_begin,
                                    panel_requests_body,
                                    panel_requests_body_end,
                                    panel_requests_answer,
                                    panel_requests_end};
    p->server = p->api->open(&handler, p->address.numeric, &port, why, cap);
    if (!p->server) return false;
    panel_address_finish(&p->address, port);
    if (p->fd >= 0 && spectrum_open(&p->spectrum) && pthread_create(&p->thread, NULL, panel_run_thread, p) == 0)
        return true;
    return message_write(why, cap, "--panel: no memory or no thread for the panel; free some memory");
}

static void free_panel(struct panel *p)
{
    struct panel_message message;
    if (p->server) p->api->close(p->server);
    panel_requests_close(p->requests);
    while (panel_next(p, &message)) json_decref(message.json);
    spectrum_close(&p->spectrum);
    for (int i = 0; i < LOG_LINES; i++) release(p->log[i]);
    release(p->hello);
    free(p->frames);
    free(p->rows);
    if (p->fd >= 0) close(p->fd);
    free(p);
}

struct panel *panel_open(const struct panel_settings *settings, panel_loads *loads_mask, char *why, size_t cap)
{
    struct panel *p = calloc(1, sizeof *p);
    if (!p) return (void)message_write(why, cap, "--panel: no memory; free some memory"), NULL;
    p->loads_mask = loads_mask;
    p->last = &p->first;
    p->messages = (struct bucket){.credit = BURST};
    p->loads = (struct bucket){.credit = LOAD_BURST};
    p->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    pthread_mutex_init(&p->lock, NULL);
    pthread_mutex_init(&p->session_lock, NULL);
    if (panel_start(p, settings, why, cap)) {
        message_listen(panel_add_line, p);
        return p;
    }
    free_panel(p);
    return NULL;
}

void panel_close(struct panel *p)
{
    if (!p) return;
    json_t *end = json_pack("[s]", "/unsubscribe");
    message_listen(NULL, NULL);
    panel_set_session(p, NULL);
    panel_send(p, 0, end);
    json_decref(end);
    atomic_store(&p->end, true);
    p->api->wake(p->server);
    pthread_join(p->thread, NULL);
    free_panel(p);
}

json_t *panel_settings_json(const struct panel *p)
{
    const struct panel_folder *folder = panel_requests_folder(p->requests);
    char where[sizeof p->address.name + 16];
    snprintf(where, sizeof where, "[%s]:%d", p->address.name, p->address.port);
    return json_pack("{ss ss ss sb}", "where", where, "token", p->address.token, "folder", folder->path, "is_private",
                     folder->is_private);
}

void panel_settings_read(const json_t *json, struct panel_settings *settings)
{
    settings->where = json_string_value(json_object_get(json, "where"));
    settings->token = json_string_value(json_object_get(json, "token"));
    settings->folder = json_string_value(json_object_get(json, "folder"));
    settings->is_private = json_is_true(json_object_get(json, "is_private"));
}

const char *panel_url(const struct panel *p)
{
    return p->address.url;
}

void panel_set_session(struct panel *p, const struct panel_session *session)
{
    panel_requests_set_session(p->requests, session);
    pthread_mutex_lock(&p->session_lock);
    int before = p->session.n_in + p->session.n_out, n = session ? session->n_in + session->n_out : before;
    p->session = session ? *session : (struct panel_session){.n_in = p->session.n_in, .n_out = p->session.n_out};
    if (n != before || !p->rows) {
        free(p->frames);
        free(p->rows);
        p->frames = malloc((size_t)n * SPECTRUM_FRAMES * sizeof *p->frames);
        p->rows = p->frames ? malloc((size_t)n * sizeof *p->rows) : NULL;
        for (int i = 0; i < n && p->rows; i++) p->rows[i] = p->frames + (size_t)i * SPECTRUM_FRAMES;
    }
    pthread_mutex_unlock(&p->session_lock);
}
