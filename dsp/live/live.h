/* live - what the two sides of a live convolver share: live.c runs on the audio thread, work.c on the host's worker. */
#ifndef LIVE_H
#define LIVE_H

#include "failover.h"
#include "feedback_limiter.h"
#include "haloconv_live.h"
#include "histogram.h"
#include "input_history.h"
#include "mixer.h"
#include "text_mailbox.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    MOST_BLOCK = 8192, /* frames of an engine's block; a longer call is cut */
    N_SNAPSHOTS = 4    /* of the counters: a reader has the time of three blocks to copy one */
};

enum { STATS_WORDS = sizeof(hc_live_stats) / sizeof(uint64_t), BACKEND_CAP = 64 };
_Static_assert(sizeof(hc_live_stats) % sizeof(uint64_t) == 0, "hc_live_stats is copied word by word");

struct hc_live {
    hc_live_config config;
    const struct simd *simd;
    struct input_history history;
    struct mixer mixer;

    /* ---- audio thread ---- */
    struct failover *playing;  /* NULL: the convolved signal is silence                              */
    struct failover *joining;  /* processes the past, then fades in; NULL: none                      */
    struct failover *former;   /* fades out; NULL: silence does, or nothing                          */
    bool is_fading;
    int fade_pos, fade_len;
    bool fresh;                /* no block since the start or a reset: nothing fades                 */
    const float **rows;        /* [n_in]: the block in the history                                   */
    float **wet, **faded;      /* [n_out]: rows of the caller's buffers; of frames                   */
    float *frames;             /* [n_out] rows of MOST_BLOCK, an odd number of cache lines apart     */
    struct feedback_limiter limiter;
    hc_live_stats stats;       /* without what the worker counts                                     */
    int told_us, told_n;       /* the wait and the frames that failover_set_wait was last called for */
    struct failover *told[3];  /* and the engines                                                    */

    /* ---- between threads ---- */
    _Atomic(struct failover *) next;     /* the worker -> audio                                      */
    _Atomic(struct failover *) returned; /* audio -> the worker                                      */
    atomic_bool has_work;
    struct text_mailbox mask, backend;   /* requests                                                 */
    atomic_uint_fast64_t format;         /* rate << 32 | block, as last asked for                    */
    atomic_uint format_requests;         /* counts them                                              */
    atomic_int_fast64_t heard_from;      /* the history before this frame is of another rate         */
    atomic_int wait_us;
    atomic_bool freewheels;
    atomic_int_fast64_t next_probe_ns;   /* of a device that hung                                    */
    atomic_uint peak_in, peak_out;       /* bits of magnitudes                                       */
    struct histogram times;
    atomic_uint_fast64_t published;      /* snapshots, the newest at published % N_SNAPSHOTS         */
    atomic_uint_fast64_t snapshots[N_SNAPSHOTS][STATS_WORDS];
    atomic_uint_fast64_t masks, rebuilds;

    /* ---- the worker, under setup ---- */
    pthread_mutex_t setup;
    struct failover *offered;            /* the last engine made: it plays, or is about to           */
    hc_responses responses;              /* of the mask that plays                                   */
    int rate, block;                     /* of the engine offered                                    */
    int64_t built_from;                  /* heard_from when it was made                              */
    unsigned refused;                    /* format_requests when a format could not be played        */
    char asked_backend[BACKEND_CAP];              /* by config or request                                     */
    char next_backend[BACKEND_CAP];               /* the same, or "cpu" after a loss: of the next engine      */
    char used_backend[BACKEND_CAP];               /* of the engine offered                                    */
    double probe_pause_s;
    bool is_clean;                       /* no engine hung so far                                    */

    /* ---- under info_lock, which is held for moments only ---- */
    pthread_mutex_t info_lock;
    hc_live_info info;
    char path[TEXT_CAP];                 /* of the mask that plays                                   */
    char *reaches;                       /* [n_in][n_out]: does the mask join them?                  */
};

static inline int format_rate(uint64_t format)
{
    return (int)(format >> 32);
}

static inline int format_block(uint64_t format)
{
    return (int)(uint32_t)format;
}

#endif
