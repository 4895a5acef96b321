/* panel_server - what the panel and its HTTP server say to each other. The server is in haloconv_panel.so, which the
 * program loads for --panel: the server's libraries would slow down every start. Thread of the panel, unless a comment
 * says otherwise. */
#ifndef PANEL_SERVER_H
#define PANEL_SERVER_H

#include "panel.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    PANEL_PADDING = 32,         /* bytes before a text that the server may overwrite                 */
    PANEL_MAX_CONNECTIONS = 100, /* of WebSockets and other requests together                        */
    PANEL_SHARE = 30,           /* of one address (IPv6: of one /64), besides clients that are in    */
    PANEL_MAX_BODY = 1 << 26    /* bytes; a longer one is not read                                   */
};

struct panel_text {             /* clients share it                                                  */
    int n_uses;                 /* the panel's                                                       */
    size_t n;
    unsigned char bytes[];      /* [PANEL_PADDING + n]: the text is at bytes + PANEL_PADDING         */
};

struct panel_client;            /* a WebSocket                                                       */
struct panel_requests;
struct panel_exchange;          /* a request and its answer                                          */

struct panel_request {          /* texts are "" if the request lacks them                            */
    bool is_get, is_post;
    const char *path;           /* decoded, without the query                                        */
    const char *host, *origin, *site, *authorization; /* site: Sec-Fetch-Site                        */
    const char *mask, *kind, *name; /* values of the query                                           */
    int64_t bytes;              /* length of the body; -1: not given                                 */
};

struct panel_answer {
    int status;                 /* of HTTP                                                           */
    const char *type;           /* MIME type                                                         */
    const char *policy;         /* Content-Security-Policy                                           */
    const void *bytes;          /* [n], valid until `end`                                            */
    size_t n;
};

enum panel_needs {              /* bits                                                              */
    PANEL_WRITES = 1,           /* the client has a text to send                                     */
    PANEL_READS = 2,            /* messages of the client may be read                                */
    PANEL_DROPS = 4,            /* the connection ends                                               */
    PANEL_IS_IN = 8             /* the client has the token, so it is no stranger                    */
};

struct panel_handler {          /* the panel's functions; `panel` or `requests` is their first argument */
    struct panel *panel;
    /* May a page of this origin send requests to this host? 0: yes; else the status of HTTP. */
    int (*refuse)(struct panel *panel, const char *host, const char *origin);
    bool (*is_full)(struct panel *panel); /* for a moment                                            */
    struct panel_client *(*join)(struct panel *panel); /* NULL: full                                 */
    void (*leave)(struct panel *panel, struct panel_client *client);
    void (*text)(struct panel *panel, struct panel_client *client, const char *text, size_t n);
    struct panel_text *(*next)(struct panel *panel, struct panel_client *client); /* for release; NULL: none */
    void (*release)(struct panel *panel, struct panel_text *text);
    unsigned (*needs)(struct panel *panel, struct panel_client *client); /* enum panel_needs */

    struct panel_requests *requests;
    /* NULL: no memory. A request with an answer before its body was read is refused. */
    struct panel_exchange *(*request)(struct panel_requests *requests, const struct panel_request *request);
    void (*body)(struct panel_requests *requests, struct panel_exchange *exchange, const void *bytes, size_t n);
    void (*body_end)(struct panel_requests *requests, struct panel_exchange *exchange);
    /* false: not yet */
    bool (*answer)(struct panel_requests *requests, struct panel_exchange *exchange, struct panel_answer *answer);
    /* The answer was sent, or the connection ended. */
    void (*end)(struct panel_requests *requests, struct panel_exchange *exchange);
};

struct panel_server {
    /* Listens on an address in numbers, IPv4 or IPv6; *port: 0 becomes the chosen one. NULL: why has the reason.
     * Control thread */
    void *(*open)(const struct panel_handler *handler, const char *address, int *port, char *why, size_t cap);
    void (*close)(void *server); /* control thread, after the panel's                                */
    void (*serve)(void *server); /* handles what has come; waits for 0.1 s at most                   */
    void (*wake)(void *server);  /* ends the wait of `serve`; any thread                             */
};

/* haloconv_panel.so defines `const struct panel_server haloconv_panel_server`. */

#endif
