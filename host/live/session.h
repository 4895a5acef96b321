/* session - a live convolver for a host of the command line: its masks load in a thread of the session's, its messages
 * go to the console, and the host's xruns are counted beside its own counters.
 *
 * Threads: session_process and what is marked [rt] from the audio thread; the rest from any one control thread.
 */
#ifndef SESSION_H
#define SESSION_H

#include "dsp/haloconv_live.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct session;

struct session_settings {
    hc_live_config live;     /* session_open sets channels, rate and block                                             */
    int n_inputs;            /* for masks that leave it open; 0: as many as suits the mask                             */
    int most_inputs;         /* no more than this where the session chooses; 0: no limit                               */
    float wet, dry, gain;    /* linear                                                                                 */
};

/* Load the first mask and be ready to play in blocks of `block` frames at `rate`. NULL: why has the reason. */
struct session *session_open(const struct session_settings *settings, const char *mask, int rate, int block, char *why,
                             size_t cap);

/* No callback may be running. false: a device hangs, and the process must end by _exit. */
bool session_close(struct session *session);

hc_live *session_live(struct session *session);
int session_n_in(const struct session *session);
int session_n_out(const struct session *session);

/* Names and connections that the first mask has for its channels; NULL: none. */
const hc_port *session_ports(const struct session *session, bool outputs);

/* Does input `in` reach output `out`, by the mask or dry? */
bool session_path(struct session *session, int in, int out);

/* Another number once session_path may answer differently. */
uint64_t session_paths_version(struct session *session);

/* Ask for a mask, or for another rate and block: the loader thread makes the change. Returns at once. */
void session_request_mask(struct session *session, const char *path);
void session_request_format(struct session *session, int rate, int block);

void session_count_xrun(struct session *session); /* [rt] */

/* Does all that was asked for play? */
bool session_is_idle(struct session *session);

/* Every few times a second: wakes the loader where the audio thread needs it, and says what happened there. */
void session_tend(struct session *session);

struct session_status {
    char device[128], mask[4096]; /* the device as the engine names it; path of the mask that plays                   */
    const char *backend, *method;
    const char *state;           /* "well", "understudy" (the device was lost, the CPU plays), "dry" (nobody can)     */
    int rate, block;
    double seconds;              /* since session_open                                                                */
    uint64_t blocks, frames;     /* callbacks and their frames                                                        */
    uint64_t late;               /* blocks that a device did not convolve in time                                     */
    uint64_t over;               /* callbacks that took longer than their frames last                                 */
    uint64_t xruns;              /* as the host counts them                                                           */
    double last_xrun_s;          /* since session_open                                                                */
    uint64_t swaps, rigs;        /* masks loaded after the first; engines made after the first                        */
    uint64_t non_finite, clipped, ducked;
    hc_times times;              /* of the callback                                                                   */
};
void session_get_status(struct session *session, struct session_status *status);

/* Count on from there, as the session of an earlier process left it. Before the first callback. */
void session_count_on(struct session *session, const struct session_status *before);

#endif
