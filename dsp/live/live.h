/* live - a live convolver's state. live.c runs on the audio thread; work.c and open.c run on threads of the host, its
 * workers.
 *
 * One engine moves between the threads:
 *
 *   work.c builds it --> next --> joining --> playing --> former --> returned --> work.c closes it
 *                                 catches up  is output   fades out
 *
 * An engine of a ready mask comes from ready.h, and goes back to it.
 *
 * Each of these files calls only those above it:
 *
 *   stream.h, input_history.c   the input of a session, its rate and block
 *   signals.c                   what a host shows of input and output
 *   failover.c                  an engine and its standby engine
 *   messages.c                  reports to the host
 *   live_mask.c, compare.c      loads what a path names; A/B at equal loudness
 *   live_engine.c               makes an engine for a mask, and closes it
 *   ready.c                     masks that wait with engines, and requests for masks
 *   live_info.c, recovery.c, keep.c   what plays; the backend after a loss; which masks are kept ready
 *   work.c                      hc_live_work: does what requests, losses and lists need
 *   live.c, open.c              the audio thread's calls; opens, closes and resets a session
 */
#ifndef LIVE_H
#define LIVE_H

#include "feedback_limiter.h"
#include "histogram.h"
#include "mixer.h"
#include "ready.h"
#include "signals.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    MAX_RATE = 1 << 24,     /* Hz: two minutes have less than 2^31 frames */
    MAX_PREDELAY = 1 << 24, /* frames: a float holds each number up to here */
    MAX_HISTORY_S = 86400,
    MAX_GLIDE_MS = 1000,
    N_SNAPSHOTS = 4 /* copies of the counters: a reader has three blocks of time to read a copy */
};

enum {
    STATS_WORDS = sizeof(hc_live_stats) / sizeof(uint64_t),
    BACKEND_CAP = sizeof((struct engine_format *)0)->backend
};
_Static_assert(sizeof(hc_live_stats) % sizeof(uint64_t) == 0, "hc_live_stats is copied word by word");

struct kept_list {                       /* paths of hc_live_keep, in one allocation                           */
    int n;
    bool failed[HC_LIVE_MAX_KEPT];       /* the mask is not tried again: it could not be made ready or would fail */
    char paths[][TEXT_CAP];
};

struct hc_live {
    hc_live_config config;
    const struct samples *samples;
    struct stream stream;
    struct mixer mixer;

    /* ---- audio thread ---- */
    struct live_engine *playing;         /* NULL: the convolved signal is silence                          */
    struct live_engine *joining;         /* processes the history, then fades in; NULL: none               */
    struct live_engine *former;          /* fades out; NULL: nothing or silence fades out                  */
    bool is_fading;
    int fade_pos, fade_len;              /* position in the fade and its length, frames                    */
    bool is_fresh;                       /* no block since the start or a reset: nothing fades             */
    const float **rows;                  /* [n_in]: the chunk in the history                               */
    float **wet;                         /* [n_out]: the chunk in the caller's buffers                     */
    float **faded;                       /* [n_out]: rows of frames, the output of former                  */
    float *frames;                       /* [n_out] rows of MAX_BLOCK, an odd number of cache lines apart  */
    struct feedback_limiter limiter;
    hc_live_stats stats;                 /* all counters except the workers'                               */
    int sent_us, sent_n;                 /* last wait_us and chunk length that set_waits sent to engines   */
    struct live_engine *sent[3];         /* engines that got sent_us and sent_n                            */

    /* ---- between threads ---- */
    _Atomic(struct live_engine *) next;  /* worker -> audio thread                                         */
    _Atomic(struct live_engine *) returned; /* audio thread -> worker                                      */
    atomic_bool has_work;
    atomic_bool forgets;                 /* the next block is the first one (hc_live_forget)               */
    struct mailboxes backend;            /* one struct text_request, for another backend                   */
    atomic_uint format_requests;         /* counts changes of stream.format and trim_db                    */
    _Atomic float trim_db;               /* hc_live_change.trim_db                                         */
    _Atomic(struct kept_list *) next_list; /* hc_live_keep -> worker                                       */
    atomic_int wait_us;                  /* as in config; tests change it                                  */
    atomic_int_fast64_t next_probe_ns;   /* time of the next probe of a device that hung                   */
    atomic_uint peak_in, peak_out;       /* largest magnitudes, as the bits of a float                     */
    struct signals signals;
    struct histogram times;
    struct load_watch load;              /* of the audio thread                                            */
    atomic_uint_fast64_t published;      /* count of snapshots; the newest is at published % N_SNAPSHOTS   */
    atomic_uint_fast64_t snapshots[N_SNAPSHOTS][STATS_WORDS];
    atomic_uint_fast64_t masks, rebuilds;
    struct ready ready;
    struct positions positions;          /* positions of the sources                                       */

    /* ---- workers, under setup ---- */
    pthread_mutex_t setup;
    struct live_engine *newest;          /* the engine that was built last: it plays or will play          */
    bool is_loss_reported;               /* config.say got a line about the failed device of newest        */
    struct engine_format format_used;    /* the format of newest                                           */
    struct ready_mask *current;          /* the ready mask that newest belongs to; NULL: none              */
    struct live_mask mask;               /* the mask that plays                                            */
    struct kept_list *list;              /* masks to keep ready; NULL: none                                */
    int n_ready_reported;                /* number of ready masks that was reported last                   */
    unsigned refused;                    /* value of format_requests when a format could not be played     */
    char requested_backend[BACKEND_CAP]; /* the backend of config, or of the last hc_live_request          */
    char next_backend[BACKEND_CAP];      /* requested_backend, or "cpu" after a loss                       */
    double probe_pause_s;

    /* ---- under info_lock, which is held briefly ---- */
    pthread_mutex_t info_lock;
    hc_live_info info;
    char path[TEXT_CAP];                 /* path of the mask that plays                                    */
    unsigned char *reaches;              /* [n_in][n_out], as hc_live_info.reaches                         */
    int *n_entries;                      /* [n_sources]: entries of each source's bank; 0: no bank         */
};

/* Does the newest engine have this rate and block, and the whole history this rate? For workers. */
static inline bool live_is_current(const hc_live *l, const struct engine_format *format)
{
    return format->rate == l->format_used.rate && format->block == l->format_used.block &&
           l->newest->begin == atomic_load(&l->stream.begin);
}

/* Workers make these calls: [setup], with l->setup locked or with no other thread. */

/* ---- keep.c ---- */

/* Makes the next mask of the list ready. Returns true if the list has more. */
bool keep_ready(hc_live *l, const struct engine_format *format);
void keep_close(hc_live *l);

/* ---- recovery.c ---- */

/* Sets next_backend after a failure of the device, its recovery or a request. Returns true if one of these happened. */
bool recovery_choose_backend(hc_live *l);

/* ---- live_info.c ---- */

/* Records that the newest engine plays this mask. */
void live_info_set(hc_live *l, const char *path, const struct live_mask *mask);

/* Reports that the newest engine plays a mask that was loaded. */
void live_info_report(const hc_live *l, const char *path);

#endif
