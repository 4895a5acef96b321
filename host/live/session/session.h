/* session - a live convolver for `haloconv jack` and `haloconv live`. The session's loader thread loads masks, messages
 * go to the console, and the session counts the host's xruns.
 *
 * Threads: [rt] calls belong to the audio thread, all others to one control thread.
 */
#ifndef SESSION_H
#define SESSION_H

#include "dsp/base/answers.h"
#include "dsp/haloconv_live.h"
#include "live_scene.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct session;

struct session_settings {
    hc_live_config live;     /* session_open sets channels, rate and block                                            */
    int n_inputs;            /* inputs of a mask that fits several counts; 0: the mask's channels decide              */
    int max_inputs;          /* max. inputs that the session chooses; 0: no limit                                     */
    float wet, dry, gain;    /* linear                                                                                */
    bool bypass;
    const struct live_scene_settings *scene; /* first positions of the sources (live.n_sources); NULL: the default    */
    int preload;             /* masks of session_keep to keep ready, without the one that plays; -1: all, but none with
                                live.spin                                                                         */
};

/* Loads the first mask at `rate` Hz, with routes from the inputs. Loads only the sizes of a bank, because session_open
 * loads the bank. false: why has the reason, and the mask is freed. */
bool session_load(const struct session_settings *settings, const char *path, int rate, hc_responses *mask, char *why,
                  size_t cap);

/* Opens a session that plays the loaded mask in blocks of `block` frames, and frees *mask. NULL: why has the reason. */
struct session *session_open(const struct session_settings *settings, const char *path, hc_responses *mask, int rate,
                             int block, char *why, size_t cap);

/* Frees the session; no callback may be running. Waits for the loader thread, two seconds at most. false: the loader or
 * a device hangs, and the process must end by _exit. */
bool session_close(struct session *session);

hc_live *session_live(struct session *session);
struct live_scene *session_scene(struct session *session); /* NULL: there are no sources */
int session_rate(struct session *session); /* Hz, of the newest engine */
void session_channels(const struct session *session, int *n_in, int *n_out);

/* session_set sets a knob (hc_live_set); session_get returns the value that was set last. Any thread */
void session_set(struct session *session, enum hc_live_knob knob, float value);
float session_get(const struct session *session, enum hc_live_knob knob);

/* Returns [n_in][n_out]: 1 where the signal of an input reaches an output, through the mask or dry, else 0. The caller
 * frees it. NULL: no memory. Any thread */
unsigned char *session_reaches(struct session *session);

/* Returns a number that changes whenever the result of session_reaches may change. */
uint64_t session_reach_version(struct session *session);

/* Requests a mask, or a rate and block: the loader thread applies it. Returns at once. The last mask requested wins;
 * requests of masks are numbered from 1. */
uint64_t session_request_mask(struct session *session, const char *path);
void session_request_format(struct session *session, int rate, int block);

/* Keeps the masks of a list of n ready (hc_live_keep): those at the indices `current` and `other` (-1: none), then those
 * nearest to `current`, `preload` besides the first. The paths must last as long as the session. */
void session_keep(struct session *session, char *const *paths, int n, int current, int other);

/* Compares two masks at equal loudness (hc_live_compare); NULL and NULL end that. false: they are not both kept ready. */
bool session_compare(struct session *session, const char *a, const char *b);
bool session_can_compare(const struct session *session); /* two masks are kept ready */

/* Loads masks that are kept ready again if their files have changed. Call it a few times a second. */
void session_watch_kept(struct session *session);

/* Returns the answer to a request of a mask. */
enum answer session_answer(struct session *session, uint64_t number, char why[ANSWER_CAP]);

void session_count_xrun(struct session *session); /* [rt] */

/* Has the loader applied every request, and does the result play? */
bool session_is_settled(struct session *session);

/* Wakes the loader if the audio thread left work for it, and reports feedback and non-finite input. Call it several
 * times a second. */
void session_tend(struct session *session);

struct session_status {
    hc_live_info info;       /* engine that plays; backend is "cpu" while the standby engine plays                    */
    hc_live_stats stats;     /* its counters include those of earlier processes (session_continue_counters)           */
    hc_times times;          /* durations of the callback, also those of earlier processes                            */
    char mask[4096];         /* path of the mask that plays                                                           */
    double seconds;          /* seconds since session_open in the first of these processes                            */
    uint64_t xruns;          /* xruns that the host has reported                                                      */
    double last_xrun_s;      /* when the last xrun came, on the scale of `seconds`                                    */
};
void session_get_status(struct session *session, struct session_status *status);

/* The counters of status->stats as an array, `blocks` first and `rebuilds` last. */
enum { SESSION_COUNTERS = (offsetof(hc_live_stats, took_ns) - offsetof(hc_live_stats, blocks)) / sizeof(uint64_t) };
static inline uint64_t *session_counters(struct session_status *status)
{
    return (uint64_t *)(void *)((char *)&status->stats + offsetof(hc_live_stats, blocks));
}

/* Continues the counters, times and seconds of an earlier process. Call it before the first callback. */
void session_continue_counters(struct session *session, const struct session_status *before);

#endif
