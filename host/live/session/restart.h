/* restart - runs the same command again in place of this process, when a library is stuck in it (PortAudio after a
 * device hung). The new process gets mask, knobs, OSC port and statistics in the environment. */
#ifndef RESTART_H
#define RESTART_H

#include "session.h"
#include "session_state.h"

#include <jansson.h>
#include <stdbool.h>

struct restart {
    struct session_state state;
    char osc[300];                /* address of the OSC port; "": none                   */
    struct session_status before; /* counters, times and seconds; other fields are empty */
    json_t *more;                 /* further statistics of the host; owned               */
};

/* Runs argv again. osc: address of the OSC port, or NULL; more: further statistics, released here. Returns only after a
 * failure. */
void restart_run(char **argv, struct session *session, const char *osc, json_t *more);

/* Did restart_run start this process? Returns true once only. Call restart_free afterwards. */
bool restart_read(struct restart *restart);
void restart_free(struct restart *restart);

#endif
