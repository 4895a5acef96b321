/* relay - the same command goes on in a new process, where a library cannot be used again in this one: what was reached
 * here (mask, knobs, OSC's port, statistics) is handed over in the environment.
 */
#ifndef RELAY_H
#define RELAY_H

#include "keepsake.h"
#include "session.h"

#include <jansson.h>
#include <stdbool.h>

struct relay {
    struct keepsake kept;
    char osc[300];                /* where OSC listened; "": nowhere                     */
    struct session_status before; /* counters and times; the rest is empty               */
    json_t *more;                 /* what the host added; owned                          */
};

/* Run argv again; osc: NULL or where it listens, more: is taken over. Returns only if that fails. */
void relay_run(char **argv, struct session *session, const char *osc, json_t *more);

/* Was this process started so? Once; relay_free afterwards. */
bool relay_take(struct relay *relay);
void relay_free(struct relay *relay);

#endif
