/* live - a live convolver's state. live.c runs on the audio thread; work.c and open.c run on threads of the host, its
 * workers.
 *
 * One failover (an engine and its standby engine) moves between the threads:
 *
 *   work.c builds it --> next --> joining --> playing --> former --> returned --> work.c closes it
 *                                 catches up  is output   fades out
 *
 * An engine of a ready mask (ready.h) comes from there, and goes back there.
 */
#ifndef LIVE_H
#define LIVE_H

#include "failover.h"
#include "feedback_limiter.h"
#include "haloconv_live.h"
#include "histogram.h"
#include "input_history.h"
#include "mixer.h"
#include "ready.h"
#include "text_mailbox.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    MAX_BLOCK = 8192,       /* frames of an engine's block; a longer call is cut into chunks */
    MAX_RATE = 1 << 24,     /* Hz: two minutes have less than 2^31 frames */
    MAX_PREDELAY = 1 << 24, /* frames: a float holds each number up to here */
    MAX_HISTORY_S = 86400,
    MAX_GLIDE_MS = 1000,
    N_SNAPSHOTS = 4 /* copies of the counters: a reader has the time of three blocks to read one */
};

enum {
    STATS_WORDS = sizeof(hc_live_stats) / sizeof(uint64_t),
    BACKEND_CAP = sizeof((struct engine_format *)0)->backend
};
_Static_assert(sizeof(hc_live_stats) % sizeof(uint64_t) == 0, "hc_live_stats is copied word by word");

struct hc_live {
    hc_live_config config;
    const struct samples *samples;
    struct input_history history;
    struct mixer mixer;

    /* ---- audio thread ---- */
    struct failover *playing;  /* NULL: the convolved signal is silence                                */
    struct failover *joining;  /* processes the history, then fades in; NULL: none                     */
    struct failover *former;   /* fades out; NULL: silence fades out, or nothing                       */
    bool is_fading;
    int fade_pos, fade_len;    /* frames                                                               */
    bool is_fresh;             /* no block since the start or a reset: nothing fades                   */
    const float **rows;        /* [n_in]: the chunk in the history                                     */
    float **wet;               /* [n_out]: the chunk in the caller's buffers                           */
    float **faded;             /* [n_out]: rows of frames, the output of former                        */
    float *frames;             /* [n_out] rows of MAX_BLOCK, an odd number of cache lines apart       */
    struct feedback_limiter limiter;
    hc_live_stats stats;       /* except the workers' counters                                         */
    int told_us, told_n;       /* the last wait_us and chunk that set_waits told the engines of        */
    struct failover *told[3];  /* those engines                                                        */

    /* ---- between threads ---- */
    _Atomic(struct failover *) next;     /* worker -> audio thread                                     */
    _Atomic(struct failover *) returned; /* audio thread -> worker                                     */
    atomic_bool has_work;
    struct text_mailbox mask, backend;   /* requests                                                   */
    atomic_uint_fast64_t format;         /* rate << 32 | block, as last requested                      */
    atomic_uint format_requests;         /* counts them                                                */
    atomic_int_fast64_t history_begin;   /* the first frame of the history that has the present rate   */
    atomic_int wait_us;                  /* of config; tests change it                                 */
    atomic_bool freewheels;
    atomic_int_fast64_t next_probe_ns;   /* when to ask a device that hung whether it answers          */
    atomic_uint peak_in, peak_out;       /* bits of magnitudes                                         */
    struct histogram times;
    atomic_uint_fast64_t published;      /* snapshots so far, the newest at published % N_SNAPSHOTS    */
    atomic_uint_fast64_t snapshots[N_SNAPSHOTS][STATS_WORDS];
    atomic_uint_fast64_t masks, rebuilds;
    struct ready ready;
    struct places places;                /* of the sources                                             */

    /* ---- workers, under setup ---- */
    pthread_mutex_t setup;
    struct failover *newest;             /* the last one built: it plays, or is about to               */
    bool is_loss_told;                   /* config.say was told that the device of newest failed       */
    struct engine_format format_used;    /* the format of newest                                       */
    struct ready_mask *current;          /* the ready mask whose engine newest is; NULL: newest is none of them */
    hc_responses responses;              /* the responses of the mask that plays                       */
    struct bank_set *banks;              /* its banks; NULL: none                                      */
    unsigned refused;                    /* value of format_requests when a format could not be played */
    char requested_backend[BACKEND_CAP]; /* as in config, or in the last hc_live_request               */
    char next_backend[BACKEND_CAP];      /* requested_backend, or "cpu" after a loss                   */
    double probe_pause_s;
    bool has_hung;                       /* an engine hung, and its memory is not freed                */

    /* ---- under info_lock, which is held briefly ---- */
    pthread_mutex_t info_lock;
    hc_live_info info;
    char path[TEXT_CAP];                 /* path of the mask that plays                                */
    unsigned char *reaches;              /* [n_in][n_out], as hc_live_info.reaches                     */
    int *n_entries;                      /* [n_sources], of the bank of each source; 0: none           */
};

static inline int format_rate(uint64_t format)
{
    return (int)(format >> 32);
}

static inline int format_block(uint64_t format)
{
    return (int)(uint32_t)format;
}

/* ---- [setup], with l->setup locked, or alone ---------------------------------------------------- */

/* ---- live_engine.c ---- */

enum { HISTORY_SLACK_S = 2 }; /* oldest seconds of the history, not for a new engine: they may soon be overwritten */

/* Makes an engine that plays a mask and has processed the history; on the CPU if its device cannot be opened and the host
 * allows that, which config.say is told if `says`. */
int live_engine_make(hc_live *l, const struct engine_format *format, const struct live_mask *mask, bool says,
                     struct failover **f, struct reason *why);

/* Can the engine play a mask and its banks by a fade inside it? */
bool live_engine_fits(const struct failover *f, const struct live_mask *mask);

/* NULL is allowed. */
void live_close_engine(hc_live *l, struct failover *f);

/* Closes an engine that the audio thread does not use any more, or has not taken. If it is that of a ready mask,
 * which it may have become meanwhile, it waits again. NULL is allowed. */
void live_close_or_put(hc_live *l, struct failover *f);

/* The same for the engine that the audio thread has returned. */
void live_close_returned(hc_live *l);

/* ---- work.c ---- */

/* Does the engine have this rate and block, and does the whole history have this rate? */
bool live_is_current(const hc_live *l, const struct engine_format *format);

/* ---- keep.c ---- */

/* Makes the next mask of the list ready. Returns whether there are more. */
bool keep_ready(hc_live *l, const struct engine_format *format);

/* ---- recovery.c ---- */

/* Sets next_backend after a failure of the device, its recovery or a request. Returns whether one of these happened. */
bool recovery_choose_backend(hc_live *l);

/* ---- live_info.c ---- */

/* Notes that the newest engine plays this mask. */
void live_info_set(hc_live *l, const char *path, const struct live_mask *mask);

/* Reports that the newest engine plays a mask that was loaded. */
void live_info_say(const hc_live *l, const char *path);

#endif
