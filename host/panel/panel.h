/* panel - a page in a browser that shows and controls a live session: an HTTP server, and WebSockets whose messages are
 * those of OSC as JSON arrays. haloconv-osc(7) has the protocol, in PANEL.
 *
 *   browser --- WebSocket --- thread of the panel --- queue ---> control thread: panel_next, then remote_handle
 *                                   ^--- queue of each client ---- panel_send
 *
 * The panel has a thread of its own: the control thread may wait for JACK's server or a terminal, and a flood of
 * requests must not hold up the keys. The thread sleeps when it has used 5 % of a core. Another thread draws plots and
 * checks uploads. The audio thread makes no call to the panel.
 *
 * Calls are for the control thread, unless a comment says otherwise.
 */
#ifndef PANEL_H
#define PANEL_H

#include "dsp/haloconv_live.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PANEL_MAX_CLIENTS = 50, PANEL_MAX_MESSAGE = 4096 /* bytes that a client may send as one message */ };

struct panel;

struct panel_settings {
    const char *where;      /* "PORT" or "HOST:PORT"; port 0: any free one                     */
    const char *folder;     /* for uploads; NULL: a new private folder, removed by panel_close */
    const char *token;      /* NULL: a new one                                                 */
    bool is_private;        /* `folder` is a private one of an earlier process                 */
};

/* Returns settings with which another process goes on at the same address, with the same token and folder, as an
 * object; panel_settings_read reads them, and its texts are those of the object. */
json_t *panel_settings_json(const struct panel *panel);
void panel_settings_read(const json_t *json, struct panel_settings *settings);

/* Does a message load a mask? Few may come in a second. Any thread */
typedef bool panel_loads(const json_t *message);

/* Listens, and starts the thread. NULL: why has the reason. */
struct panel *panel_open(const struct panel_settings *settings, panel_loads *loads_mask, char *why, size_t cap);

/* Tells the clients that the session has ended. NULL is allowed. */
void panel_close(struct panel *panel);

/* The address to open in a browser, with the token if there is one. */
const char *panel_url(const struct panel *panel);

/* ---- messages ---- */

int panel_fd(const struct panel *panel); /* readable when panel_next has a message */

struct panel_message {
    uint64_t client;        /* number of the client; 0: the panel itself                       */
    json_t *json;           /* array; its first element is a string. The caller releases it    */
};

/* Removes and returns the oldest message. A client that has come sends ["/subscribe"] first, and ["/unsubscribe"] when
 * it has gone. false: there is no message. */
bool panel_next(struct panel *panel, struct panel_message *message);

/* Reads the text of a message: an array whose first element is a string and whose others are no arrays or objects. The
 * caller releases it. NULL: another text. Any thread */
json_t *panel_read_message(const char *text, size_t n);

/* Sends JSON to a client; 0: to all. */
void panel_send(struct panel *panel, uint64_t client, const json_t *json);

/* Sends values of the moment to all clients, but not to one that is behind: it gets the next ones. */
void panel_show(struct panel *panel, const json_t *json);

/* Number of clients that may see the session. Any thread */
int panel_n_clients(const struct panel *panel);

/* ---- what the panel shows ---- */

struct panel_session {
    hc_live *live;          /* for spectra                                                     */
    int n_in, n_out;
    int rate;               /* Hz                                                              */
    const char *mask;       /* path of the mask that plays                                     */
    char *const *masks;     /* [n_masks], the list                                             */
    int n_masks;
};

/* Describes the session, for spectra, plots and uploads; the texts are copied. Call it when something has changed.
 * NULL: the session is about to be closed. */
void panel_set_session(struct panel *panel, const struct panel_session *session);

/* Returns the centres of the bands of spectra in Hz, as a new array. */
json_t *panel_bands(void);

/* Returns the kinds of GET /plot, as a new array. */
json_t *panel_plots(void);

/* Sets ["/hello", ...], which clients get when they come and when it changes. */
void panel_set_hello(struct panel *panel, json_t *hello);

#endif
