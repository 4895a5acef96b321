/* control - the thread that is not in a hurry while sound runs: signals, keys, OSC, watched files, the status line, and
 * a host that goes away and comes back. */
#ifndef CONTROL_H
#define CONTROL_H

#include "live_options.h"
#include "session.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct nsm;

struct control_host {
    void *data;
    const char *what;                                       /* "the JACK server"; for messages                     */
    bool (*is_alive)(void *data);
    bool (*restart)(void *data, char *why, size_t cap);     /* after stop: try once to start again                 */
    void (*stop)(void *data);                               /* no callback runs afterwards                         */
    void (*tend)(void *data);                               /* a few times a second, while alive                   */
    void (*add_stats)(void *data, json_t *json);            /* what only this host knows; NULL: nothing            */
    void (*say_more)(void *data);                           /* behind the summary; NULL: nothing                   */
    struct nsm *nsm;                                        /* the session manager; NULL: none                     */
    int *osc_port;                                          /* is told the port that OSC listens on; NULL: nobody  */
};

/* SIGINT, SIGTERM and SIGHUP come to control_run only. Call it before any thread is made: they must not interrupt the
 * audio. */
void control_hold_signals(void);

/* Wait a moment for what is to come, at most until there is something to be read from fd (-1: no such thing); false:
 * SIGINT or SIGTERM ended it. */
bool control_pause(void);
bool control_pause_for(int fd);

/* Run until told to end; fades out, stops the host, says how it was. Returns the exit status. */
int control_run(const struct live_settings *settings, struct session *session, const struct control_host *host);

/* The way out of a host: closes the session and returns status. Where a callback is stuck, or a device, the process
 * ends here: its own clean-up would wait for ever. */
int control_leave(struct session *session, bool is_stuck, int status);

#endif
