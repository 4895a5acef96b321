/* session - everything that is the same for every host of live sound: masks that load beside the audio, engines that are
 * made anew when the host's period or rate changes, what happens when a device is late or lost, gains, counters.
 *
 *   host's callback -> session_process: clean the input -> tape -> rig (and the one before, while they crossfade)
 *                      -> mixer -> guard -> the host's buffers
 *   the builder     a thread beside the audio: reads masks, makes rigs, fills them with the history from the tape and
 *                   hands them over; a wish that cannot be fulfilled changes nothing
 *
 * Threads: session_process and what is marked [rt] from the audio thread; the rest from any one control thread.
 */
#ifndef SESSION_H
#define SESSION_H

#include "dsp/haloconv_masks.h"
#include "histogram.h"
#include "mixer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct session;

struct session_settings {
    const char *backend, *method;
    int n_inputs;            /* for masks that leave it open; 0: as many as suits the mask                             */
    int most_inputs;         /* no more than this where the session chooses; 0: no limit                               */
    int wait_us;             /* longest wait for a device in a block; -1: a share of the block                         */
    bool spin;               /* as hc_config's                                                                         */
    double fade_ms;          /* of a mask swap                                                                         */
    float wet, dry, gain;    /* linear                                                                                 */
    bool late_dry;           /* a late block is the input instead of silence                                           */
    bool guard;              /* against feedback                                                                       */
    bool keep_rate;          /* masks are not resampled                                                                */
    double most_cpu_share;   /* of a block's time that the CPU may need to take over from a device; 0: it never does  */
    int rt_priority;         /* of the audio thread; a device's worker runs one below it; below 2: as it comes         */
};

/* Load the first mask and be ready to play in blocks of `block` frames at `rate`. NULL: why has the reason. */
struct session *session_open(const struct session_settings *settings, const char *mask, int rate, int block, char *why,
                             size_t cap);

/* No callback may be running. false: a device hangs, and the process must end by _exit. */
bool session_close(struct session *session);

int session_n_in(const struct session *session);
int session_n_out(const struct session *session);

/* Names and connections that the first mask wishes for its channels; NULL: none. Before any other mask is wished for. */
const hc_port *session_ports(const struct session *session, bool outputs);

/* Does input `in` reach output `out`, by the mask or dry? */
bool session_path(struct session *session, int in, int out);

/* Another number once session_path may answer differently. */
unsigned session_paths_version(struct session *session);

/* ---- from the host's threads ---- */

/* n frames; any n. in[n_in], out[n_out]; in and out do not overlap. The duration is entered into the statistics against
 * the time that n frames last. [rt] */
void session_process(struct session *session, const float *const *in, float *const *out, int n);

/* The host's period or rate changed: a new rig is made beside the audio, at another rate silence is played until it is
 * there. Returns at once. */
void session_resize(struct session *session, int rate, int block);

void session_freewheel(struct session *session, bool on); /* no deadline, every block is complete */
void session_count_xrun(struct session *session);

/* ---- control ---- */

/* Load a mask beside the audio and crossfade to it; a later wish replaces one that waits. */
void session_wish_mask(struct session *session, const char *path);

/* Is nothing being loaded or built? Does something built wait for the audio thread to take it? */
bool session_is_idle(struct session *session);
bool session_has_offer(struct session *session);

/* From now on wait at most that long for a device in a block; -1: a share of the block. */
void session_wait(struct session *session, int wait_us);

/* Every few times a second: says what happened on the audio thread and frees what it left. */
void session_tend(struct session *session);

struct mixer *session_mixer(struct session *session);

struct session_status {
    char device[128], mask[512]; /* the device as the engine names it; path of the mask that plays                    */
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
    struct histogram_view times; /* of the callback                                                                   */
};
void session_get_status(struct session *session, struct session_status *status);

/* Count on from there, as the session of an earlier process left it. Before the first callback. */
void session_count_on(struct session *session, const struct session_status *before);

/* Peaks since the last call, linear. */
void session_take_peaks(struct session *session, float *in, float *out);

#endif
