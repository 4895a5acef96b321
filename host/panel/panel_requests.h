/* panel_requests - the requests of HTTP to a panel: GET / and its files, GET /plot, POST /upload. A thread draws plots
 * and checks uploads. Thread of the panel, unless a comment says otherwise. */
#ifndef PANEL_REQUESTS_H
#define PANEL_REQUESTS_H

#include "panel_address.h"
#include "panel_server.h"
#include "panel_upload.h"

#include <stdbool.h>
#include <stddef.h>

struct panel_requests;

struct panel_page { /* a file of page/, which the build writes into the program */
    const char *name;             /* "index.html"; NULL ends the list */
    const unsigned char *bytes;
    size_t n;
};

extern const struct panel_page panel_pages[];

/* Gets the path of an upload that is a mask. The worker's thread */
typedef void panel_added(void *data, const char *path);

/* The address must outlive the requests. NULL: why has the reason. Control thread */
struct panel_requests *panel_requests_open(const struct panel_address *address, const struct panel_settings *settings,
                                           panel_added *added, void *data, char *why, size_t cap);
void panel_requests_close(struct panel_requests *requests); /* NULL is allowed; control thread */

const struct panel_folder *panel_requests_folder(const struct panel_requests *requests);

/* As panel_set_session; any thread. */
void panel_requests_set_session(struct panel_requests *requests, const struct panel_session *session);

/* These are what struct panel_handler says. */
struct panel_exchange *panel_requests_begin(struct panel_requests *requests, const struct panel_request *request);
void panel_requests_body(struct panel_requests *requests, struct panel_exchange *exchange, const void *bytes, size_t n);
void panel_requests_body_end(struct panel_requests *requests, struct panel_exchange *exchange);
bool panel_requests_answer(struct panel_requests *requests, struct panel_exchange *exchange,
                           struct panel_answer *answer);
void panel_requests_end(struct panel_requests *requests, struct panel_exchange *exchange);

#endif
