/* live_options - the command line of `haloconv jack` and `haloconv live`: what both take, and what only one does. */
#ifndef LIVE_OPTIONS_H
#define LIVE_OPTIONS_H

#include "session.h"

#include <stdbool.h>

struct live_settings {
    const char *command;            /* "jack" or "live"                                                           */
    struct session_settings session;
    char **masks;                   /* [n_masks]; a key goes through them                                         */
    int n_masks;                    /* 0: a session manager has one                                               */
    const char *mask;               /* that plays at first: the first of them; NULL: none was given               */
    const char *stats, *osc;        /* NULL: not asked for                                                        */
    bool watch, quiet, reconnect;
    const char *name, *server;      /* jack; NULL: not asked for                                                  */
    bool connect;
    const char *input, *output;     /* live; NULL: the default device                                             */
    int rate, block;                /* live; 0: the device's, any                                                 */
    double latency_ms;              /* live; below 0: the device's low one                                        */
    bool one_clock;                 /* live; input and output run by one, whatever they look like                 */
};

/* -1: go on; else the exit status. */
int live_options_parse(int argc, char **argv, const char *command, const char *help, bool may_lack_mask,
                       struct live_settings *settings);

/* The options that both commands take, for their help. */
extern const char live_options_help[];

#endif
