/* panel_lws - the panel's server by libwebsockets. It reads and writes; all decisions are the panel's. */
#include "host/panel/panel_server.h"

#include <libwebsockets.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum { TICK_US = 100000, TIMEOUT_S = 5, MAX_TEXTS = 16 /* sent in one turn of a client */, SEND_BYTES = 1 << 15 };
/* An upload has this time in all. A refused request is read for REFUSED_S and REFUSED_BYTES at most: a client that sends all that the
 * sockets take before it reads gets its answer. */
enum { BODY_S = 300, REFUSED_S = 1, REFUSED_BYTES = 1 << 23 };
_Static_assert((int)PANEL_PADDING >= (int)LWS_PRE, "libwebsockets writes its header before a text");

struct server;

struct guest { /* a TCP connection, from its first packet on */
    struct lws *wsi;
    unsigned char address[16]; /* IPv4, or the first 8 bytes of IPv6 */
    bool is_in;                /* a client with the token */
};

struct panel_connection {
    struct panel_connection *next, **before; /* in the server's list */
    struct server *server;
    struct lws *wsi;
    struct panel_client *client;     /* NULL: not a WebSocket */
    struct panel_exchange *exchange; /* NULL: no request */
    bool has_body, is_head_sent, is_paused, is_dropped;
    bool is_refused; /* before its body, which is read to no end; is_answered: it has the answer */
    bool is_answered;
    int64_t n_refused;            /* bytes of that body */
    lws_usec_t end_us;            /* when the connection is cut; 0: not */
    size_t n;                     /* bytes of `text` */
    char text[PANEL_MAX_MESSAGE]; /* the message that is arriving */
};

struct server {
    struct panel_handler handler;
    struct lws_context *context;
    struct panel_connection *connections;
    struct guest guests[PANEL_MAX_CONNECTIONS]; /* [n_guests], the oldest first */
    int n_guests;
    lws_sorted_usec_list_t timer;
};

static void panel_lws_on_timer(lws_sorted_usec_list_t *timer)
{
    struct server *s = lws_container_of(timer, struct server, timer);
    lws_sul_schedule(s->context, 0, &s->timer, panel_lws_on_timer, TICK_US);
}

/* ---- connections ------------------------------------------------------------------------------- */

/* Ends a connection, whatever its client does. libwebsockets alone would wait for the client. */
static void panel_lws_cut(struct lws *wsi)
{
    shutdown(lws_get_socket_fd(wsi), SHUT_RDWR);
}

static void read_address(struct lws *wsi, unsigned char address[16])
{
    struct sockaddr_storage from = {0};
    memset(address, 0, 16);
    if (getpeername(lws_get_socket_fd(wsi), (struct sockaddr *)&from, &(socklen_t){sizeof from}) != 0) return;
    const struct in6_addr *ip6 = &((const struct sockaddr_in6 *)&from)->sin6_addr;
    if (from.ss_family == AF_INET)
        memcpy(address + 12, &((const struct sockaddr_in *)&from)->sin_addr, 4);
    else if (IN6_IS_ADDR_V4MAPPED(ip6))
        memcpy(address + 12, ip6->s6_addr + 12, 4);
    else
        memcpy(address, ip6->s6_addr, 8); /* one machine may have all addresses of these 64 bits */
}

static struct guest *find_guest(struct server *s, const struct lws *wsi)
{
    struct guest *g = s->guests;
    while (g < s->guests + s->n_guests && g->wsi != wsi) g++;
    return g < s->guests + s->n_guests ? g : NULL;
}

/* Cuts the oldest connection of an address that has its share: neither it nor its neighbours are kept out for long. */
static void add_guest(struct server *s, struct lws *wsi)
{
    struct guest *g = &s->guests[s->n_guests], *oldest = NULL;
    int n = 0;
    *g = (struct guest){.wsi = wsi};
    read_address(wsi, g->address);
    for (struct guest *each = g; each-- > s->guests;)
        if (!each->is_in && memcmp(each->address, g->address, sizeof g->address) == 0 && ++n) oldest = each;
    if (n >= PANEL_SHARE) panel_lws_cut(oldest->wsi);
    s->n_guests++;
}

static void remove_guest(struct server *s, const struct lws *wsi)
{
    struct guest *g = find_guest(s, wsi);
    if (g) memmove(g, g + 1, (size_t)(s->guests + s->n_guests-- - g - 1) * sizeof *g);
}

static void enlist(struct server *s, struct panel_connection *c, struct lws *wsi)
{
    *c = (struct panel_connection){.server = s, .wsi = wsi, .next = s->connections, .before = &s->connections};
    if (c->next) c->next->before = &c->next;
    s->connections = c;
}

static void delist(struct panel_connection *c)
{
    if (!c->before) return;
    *c->before = c->next;
    if (c->next) c->next->before = c->before;
    c->before = NULL;
}

/* Copies a header; one that is too long becomes "?". */
static const char *header(struct lws *wsi, enum lws_token_indexes token, char *text, size_t cap)
{
    *text = 0;
    if (lws_hdr_total_length(wsi, token) > 0 && lws_hdr_copy(wsi, text, (int)cap, token) < 0) snprintf(text, cap, "?");
    return text;
}

static int refusal(struct server *s, struct lws *wsi)
{
    char host[300], origin[300];
    header(wsi, WSI_TOKEN_HOST, host, sizeof host);
    header(wsi, WSI_TOKEN_ORIGIN, origin, sizeof origin);
    return s->handler.refuse(s->handler.panel, host, origin);
}

/* ---- WebSockets -------------------------------------------------------------------------------- */

/* Returns 0: the WebSocket is accepted; else the status that was sent. */
static int check_handshake(struct server *s, struct lws *wsi)
{
    char path[64];
    int status = refusal(s, wsi);
    if (!status && strcmp(lws_get_protocol(wsi)->name, "haloconv") != 0) status = 400;
    if (!status && strcmp(header(wsi, WSI_TOKEN_GET_URI, path, sizeof path), "/ws") != 0) status = 404;
    if (!status && s->handler.is_full(s->handler.panel)) status = 503;
    if (status) lws_return_http_status(wsi, (unsigned)status, NULL);
    return status;
}

static int receive(struct panel_connection *c, const void *bytes, size_t n)
{
    struct panel_handler *h = &c->server->handler;
    if (lws_frame_is_binary(c->wsi)) return -1;
    if (n > sizeof c->text - c->n) {
        lws_close_reason(c->wsi, LWS_CLOSE_STATUS_MESSAGE_TOO_LARGE, NULL, 0);
        return -1;
    }
    memcpy(c->text + c->n, bytes, n);
    c->n += n;
    if (lws_remaining_packet_payload(c->wsi) > 0 || !lws_is_final_fragment(c->wsi)) return 0;
    h->text(h->panel, c->client, c->text, c->n);
    c->n = 0;
    c->is_paused = !(h->needs(h->panel, c->client) & PANEL_READS);
    if (c->is_paused) lws_rx_flow_control(c->wsi, 0);
    return 0;
}

static int write_texts(struct panel_connection *c)
{
    struct panel_handler *h = &c->server->handler;
    if (c->is_dropped) {
        lws_close_reason(c->wsi, LWS_CLOSE_STATUS_POLICY_VIOLATION, NULL, 0);
        return -1;
    }
    for (int i = 0; i < MAX_TEXTS && !lws_send_pipe_choked(c->wsi); i++) {
        struct panel_text *text = h->next(h->panel, c->client);
        if (!text) return 0;
        int n = lws_write(c->wsi, text->bytes + PANEL_PADDING, text->n, LWS_WRITE_TEXT);
        h->release(h->panel, text);
        if (n < 0) return -1;
    }
    return 0;
}

/* ---- requests ---------------------------------------------------------------------------------- */

static void panel_lws_query(struct lws *wsi, const char *name, char *value, size_t cap)
{
    char given[600], start[16];
    snprintf(start, sizeof start, "%s=", name);
    const char *found = lws_get_urlarg_by_name(wsi, start, given, sizeof given);
    snprintf(value, cap, "%s", found ? found : "");
}

/* The panel may need longer than TIMEOUT_S. */
static void wait_for_answer(struct panel_connection *c)
{
    lws_set_timeout(c->wsi, NO_PENDING_TIMEOUT, 0);
    lws_callback_on_writable(c->wsi);
}

/* The answer comes when the body has been read, or at once if the request is refused. */
static int begin_exchange(struct server *s, struct panel_connection *c, struct lws *wsi, const char *path)
{
    static const char site_name[] = "sec-fetch-site:";
    char host[300], origin[300], site[32] = "", authorization[300], mask[32], kind[32], name[600], length[32];
    enlist(s, c, wsi);
    panel_lws_query(wsi, "mask", mask, sizeof mask);
    panel_lws_query(wsi, "kind", kind, sizeof kind);
    panel_lws_query(wsi, "name", name, sizeof name);
    header(wsi, WSI_TOKEN_HTTP_CONTENT_LENGTH, length, sizeof length);
    if (lws_hdr_custom_length(wsi, site_name, sizeof site_name - 1) > 0 &&
        lws_hdr_custom_copy(wsi, site, sizeof site, site_name, sizeof site_name - 1) < 0)
        snprintf(site, sizeof site, "?");
    struct panel_request request = {.is_get = lws_hdr_total_length(wsi, WSI_TOKEN_GET_URI) > 0,
                                    .is_post = lws_hdr_total_length(wsi, WSI_TOKEN_POST_URI) > 0,
                                    .path = path,
                                    .host = header(wsi, WSI_TOKEN_HOST, host, sizeof host),
                                    .origin = header(wsi, WSI_TOKEN_ORIGIN, origin, sizeof origin),
                                    .site = site,
                                    .authorization =
                                        header(wsi, WSI_TOKEN_HTTP_AUTHORIZATION, authorization, sizeof authorization),
                                    .mask = mask,
                                    .kind = kind,
                                    .name = name,
                                    .bytes = *length ? strtoll(length, NULL, 10) : -1};
    c->exchange = s->handler.request(s->handler.requests, &request);
    if (!c->exchange) return -1;
    struct panel_answer answer;
    bool is_body = request.is_post && request.bytes != 0;
    c->is_refused = is_body && s->handler.answer(s->handler.requests, c->exchange, &answer);
    c->has_body = is_body && !c->is_refused;
    if (is_body) c->end_us = lws_now_usecs() + (c->is_refused ? REFUSED_S : BODY_S) * (lws_usec_t)LWS_US_PER_SEC;
    if (!c->has_body) wait_for_answer(c);
    return 0;
}

static int panel_lws_add(struct lws *wsi, const char *name, const char *value, unsigned char **at, unsigned char *end)
{
    return lws_add_http_header_by_name(wsi, (const unsigned char *)name, (const unsigned char *)value,
                                       (int)strlen(value), at, end);
}

static int write_head(struct panel_connection *c, const struct panel_answer *answer)
{
    unsigned char head[PANEL_PADDING + 2048], *start = head + PANEL_PADDING, *at = start, *end = head + sizeof head - 1;
    if (lws_add_http_header_status(c->wsi, (unsigned)answer->status, &at, end) ||
        panel_lws_add(c->wsi, "content-type:", answer->type, &at, end) ||
        panel_lws_add(c->wsi, "content-security-policy:", answer->policy, &at, end) ||
        panel_lws_add(c->wsi, "x-content-type-options:", "nosniff", &at, end) ||
        panel_lws_add(c->wsi, "referrer-policy:", "no-referrer", &at, end) ||
        panel_lws_add(c->wsi, "cross-origin-resource-policy:", "same-origin", &at, end) ||
        panel_lws_add(c->wsi, "cache-control:", "no-store", &at, end) ||
        panel_lws_add(c->wsi, "connection:", "close", &at, end) ||
        lws_add_http_header_content_length(c->wsi, answer->n, &at, end) || lws_finalize_http_header(c->wsi, &at, end))
        return -1;
    return lws_write(c->wsi, start, (size_t)(at - start), LWS_WRITE_HTTP_HEADERS) < 0 ? -1 : 0;
}

/* The connection ends with the answer, or after it if the client still sends its body: it would not get the answer. */
static int write_answer(struct panel_connection *c)
{
    struct panel_handler *h = &c->server->handler;
    struct panel_answer answer;
    if (!c->exchange || c->is_answered || !h->answer(h->requests, c->exchange, &answer)) return 0;
    if (!c->is_head_sent) {
        c->is_head_sent = true;
        if (write_head(c, &answer) < 0) return -1;
        lws_callback_on_writable(c->wsi);
        return 0;
    }
    unsigned char *body = malloc(PANEL_PADDING + answer.n);
    if (!body) return -1;
    memcpy(body + PANEL_PADDING, answer.bytes, answer.n);
    lws_write(c->wsi, body + PANEL_PADDING, answer.n, LWS_WRITE_HTTP_FINAL); /* keeps what the socket does not take */
    free(body);
    c->is_answered = true;
    return c->is_refused ? 0 : -1;
}

/* Reads a piece of a body. */
static int read_body(struct panel_connection *c, const void *bytes, size_t n)
{
    struct panel_handler *h = &c->server->handler;
    if (c->exchange && c->has_body) h->body(h->requests, c->exchange, bytes, n);
    if (c->is_refused && (c->n_refused += (int64_t)n) > REFUSED_BYTES) return -1;
    return 0;
}

static int end_body(struct panel_connection *c)
{
    struct panel_handler *h = &c->server->handler;
    c->is_refused = false; /* the body is read, and the connection may end */
    if (!c->exchange || !c->has_body) return c->is_answered ? -1 : 0;
    c->has_body = false;
    c->end_us = 0;
    h->body_end(h->requests, c->exchange);
    wait_for_answer(c);
    return 0;
}

static void end_exchange(struct panel_connection *c)
{
    if (c->exchange) c->server->handler.end(c->server->handler.requests, c->exchange);
    c->exchange = NULL;
    delist(c);
}

/* ---- callbacks --------------------------------------------------------------------------------- */

static int callback(struct lws *wsi, enum lws_callback_reasons reason, void *user, void *in, size_t n)
{
    struct server *s = lws_context_user(lws_get_context(wsi));
    struct panel_connection *c = user;
    struct panel_handler *h = &s->handler;
    switch (reason) {
    case LWS_CALLBACK_FILTER_NETWORK_CONNECTION:
        return s->n_guests >= PANEL_MAX_CONNECTIONS;
    case LWS_CALLBACK_SERVER_NEW_CLIENT_INSTANTIATED:
        add_guest(s, wsi);
        /* A client that takes nothing is noticed when this buffer is full. */
        setsockopt(lws_get_socket_fd(wsi), SOL_SOCKET, SO_SNDBUF, &(int){SEND_BYTES}, sizeof(int));
        return 0;
    case LWS_CALLBACK_WSI_DESTROY:
        remove_guest(s, wsi);
        return 0;
    case LWS_CALLBACK_HTTP_CONFIRM_UPGRADE: /* not to HTTP 2 */
        return strcmp(in, "websocket") == 0 ? 0 : -1;

    case LWS_CALLBACK_FILTER_PROTOCOL_CONNECTION:
        return check_handshake(s, wsi) ? -1 : 0;
    case LWS_CALLBACK_ESTABLISHED:
        enlist(s, c, wsi);
        c->client = h->join(h->panel);
        return c->client ? 0 : -1;
    case LWS_CALLBACK_RECEIVE:
        return receive(c, in, n);
    case LWS_CALLBACK_SERVER_WRITEABLE:
        return write_texts(c);
    case LWS_CALLBACK_CLOSED:
        if (c->client) h->leave(h->panel, c->client);
        delist(c);
        return 0;

    case LWS_CALLBACK_HTTP:
        return begin_exchange(s, c, wsi, in);
    case LWS_CALLBACK_HTTP_BODY:
        return read_body(c, in, n);
    case LWS_CALLBACK_HTTP_BODY_COMPLETION: /* comes again for each piece of a body that is longer than it said */
        return end_body(c);
    case LWS_CALLBACK_HTTP_WRITEABLE:
        return c && !c->has_body ? write_answer(c) : 0;
    case LWS_CALLBACK_CLOSED_HTTP:
        if (c && c->server) end_exchange(c);
        return 0;
    default:
        return 0;
    }
}

static const struct lws_protocols protocols[] = {
    {.name = "http", .callback = callback, .per_session_data_size = sizeof(struct panel_connection)},
    {.name = "haloconv",
     .callback = callback,
     .per_session_data_size = sizeof(struct panel_connection),
     .rx_buffer_size = PANEL_MAX_MESSAGE},
    {0}};

/* ---- the server -------------------------------------------------------------------------------- */

static void server_close(void *data)
{
    struct server *s = data;
    if (s->context) lws_context_destroy(s->context);
    free(s);
}

static void *server_open(const struct panel_handler *handler, const char *address, int *port, char *why, size_t cap)
{
    struct server *s = calloc(1, sizeof *s);
    struct lws_context_creation_info info = {
        .port = *port,
        .iface = address,
        .protocols = protocols,
        .gid = -1,
        .uid = -1,
        .user = s,
        .server_string = "haloconv",
        .timeout_secs = TIMEOUT_S,
        .keepalive_timeout = TIMEOUT_S,
        .max_http_header_pool = PANEL_MAX_CONNECTIONS,
        .fd_limit_per_thread = PANEL_MAX_CONNECTIONS + 20, /* of the server; the rest of the table is not needed */
        .options = LWS_SERVER_OPTION_SKIP_SERVER_CANONICAL_NAME | LWS_SERVER_OPTION_FAIL_UPON_UNABLE_TO_BIND |
                   (strchr(address, ':') ? 0 : LWS_SERVER_OPTION_DISABLE_IPV6)};
    lws_set_log_level(0, NULL);
    if (s) s->handler = *handler;
    if (s) s->context = lws_create_context(&info);
    if (!s || !s->context) {
        snprintf(why, cap, "--panel: cannot listen on %s, port %d; choose another port, or an address of this machine",
                 address, *port);
        free(s);
        return NULL;
    }
    *port = lws_get_vhost_listen_port(lws_get_vhost_by_name(s->context, "default"));
    panel_lws_on_timer(&s->timer);
    return s;
}

/* Asks the panel what each client needs. */
static void panel_lws_tend(struct panel_connection *c)
{
    struct panel_handler *h = &c->server->handler;
    struct panel_answer answer;
    unsigned needs = c->client ? h->needs(h->panel, c->client) : 0;
    if (c->exchange && !c->has_body && h->answer(h->requests, c->exchange, &answer)) needs |= PANEL_WRITES;
    if (needs & PANEL_DROPS && !c->is_dropped) {
        c->is_dropped = true;
        lws_set_timeout(c->wsi, PENDING_TIMEOUT_KILLED_BY_PARENT, 1); /* it may take nothing */
    }
    struct guest *guest = c->client ? find_guest(c->server, c->wsi) : NULL;
    if (guest) guest->is_in = needs & PANEL_IS_IN;
    if (c->end_us && lws_now_usecs() > c->end_us) panel_lws_cut(c->wsi);
    if (needs & (PANEL_WRITES | PANEL_DROPS)) lws_callback_on_writable(c->wsi);
    if (needs & PANEL_READS && c->is_paused) {
        c->is_paused = false;
        lws_rx_flow_control(c->wsi, 1);
    }
}

static void server_serve(void *data)
{
    struct server *s = data;
    for (struct panel_connection *c = s->connections, *next; c; c = next) {
        next = c->next;
        panel_lws_tend(c);
    }
    lws_service(s->context, 0);
}

static void server_wake(void *data)
{
    struct server *s = data;
    lws_cancel_service(s->context);
}

extern const struct panel_server haloconv_panel_server;
const struct panel_server haloconv_panel_server = {server_open, server_close, server_serve, server_wake};
