/* control - the control thread while audio runs. The thread applies signals, keys, OSC and MIDI messages, watches mask
 * files, updates the status line, and restarts a host that went away. */
#ifndef CONTROL_H
#define CONTROL_H

#include "host/files/part_file.h"
#include "host/live/session/live_options.h"
#include "host/live/session/session.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct midi;
struct nsm;
struct osc;
struct panel;

struct control_host { /* JACK, PipeWire or PortAudio; every function runs on the control thread                 */
    void *data;
    const char *name;                                       /* for messages, as "the JACK server"               */
    bool (*is_alive)(void *data);
    bool (*is_idle)(void *data);                            /* alive, but calls no callback now; NULL: never    */
    /* After stop: try once to start again. After success *why names what is back, or is "". */
    bool (*restart)(void *data, char *why, size_t cap);
    void (*stop)(void *data);                               /* no callback runs afterwards                      */
    void (*tend)(void *data);                               /* called several times a second, while is_alive    */
    void (*add_stats)(void *data, json_t *json);            /* adds this host's statistics; NULL: none          */
    void (*report_more)(void *data);                        /* prints more lines of the summary; NULL: none     */
    struct nsm *nsm;                                        /* the session manager; NULL: none                  */
    struct osc *osc;                                        /* from control_open; NULL: none                    */
    struct panel *panel;                                    /* from control_open; NULL: none                    */
    struct part_file stats;                                 /* from control_open: the file of --stats; .fd = -1: none */
    struct midi *midi;                                      /* from midi_open; NULL: none                       */
};

/* Blocks SIGINT, SIGTERM, SIGHUP and SIGXCPU, which control_run reads: they must not interrupt the audio. Call it before any
 * thread starts. */
void control_hold_signals(void);

/* Waits half a second, or until fd (-1: none) is readable. false: SIGINT or SIGTERM came. */
bool control_wait(int fd);

/* Opens the OSC port, the panel and the file of the statistics, if the settings ask for them. Call it before the audio
 * starts, and control_close at the end, also after a failure. false: why has the reason. */
bool control_open(const struct live_settings *settings, struct control_host *host, char *why, size_t cap);
void control_close(struct control_host *host);

/* Repeats `attempt` until it succeeds; without `reconnect`, tries once. false: `attempt` failed; or a signal ended the
 * wait, and then *why is empty. */
bool control_retry(bool (*attempt)(void *data, char *why, size_t cap), void *data, bool reconnect, char *why,
                   size_t cap);

/* Locks the memory and runs until a command or signal ends it; then fades out, stops the host, prints the summary and
 * writes the statistics. Returns the exit status. */
int control_run(const struct live_settings *settings, struct session *session, struct control_host *host);

/* Closes the session and returns status. If a callback or a device is stuck, ends the process instead: normal clean-up
 * would wait for ever. */
int control_leave(struct session *session, bool is_stuck, int status);

#endif
