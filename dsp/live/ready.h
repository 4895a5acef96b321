/* ready - masks that have an engine before they are requested. While the engine does not play, the ready thread lets it
 * process the input history, as the standby engine does: its tail levels are current, and a crossfade to it can begin
 * with any block.
 *
 *   keep.c makes it --> waiting <---> the ready thread, a block at a time
 *                          ^  |
 *                          |  +-----> joining --> playing        the audio thread dequeues the requested engine
 *                          +--------- former  <-----+            and puts the engine that has faded out back
 *
 * The thread that dequeues the engine from `waiting` uses it alone. The worker makes and drops ready masks, one for
 * each path that hc_live_keep names.
 *
 * A request for a ready mask counts up `wanted` and puts the mask's number there. The audio thread fades to that mask.
 * The worker only records it (ready_note): path, statistics, responses. An engine that the worker builds later replaces
 * the request (ready_supersede), unless a newer request came meanwhile. A request for another mask waits for the worker
 * in `loads`.
 */
#ifndef READY_H
#define READY_H

#include "compare.h"
#include "dsp/base/priority.h"
#include "live_engine.h"

#include <pthread.h>
#include <semaphore.h>

enum { MAX_READY = 64 };

struct ready_mask {
    _Atomic(struct live_engine *) waiting; /* NULL: the engine plays, is absent, or the ready thread uses it    */
    atomic_int_fast64_t at;              /* 1 + frames of the history that the engine had processed when it came to
                                            wait; 0: the mask cannot be requested                              */
    char path[TEXT_CAP];                 /* "": the mask cannot be requested, and its engine is closed when it
                                            waits; written by workers, under paths_lock                        */
    /* used by workers: */
    struct live_engine *engine;          /* NULL: this entry is free                                           */
    struct engine_format format;
    struct file_id file;
    hc_responses responses;              /* empty while the mask is hc_live.current                            */
};

struct ready {
    const struct stream *stream;
    atomic_bool *has_work;               /* true: a worker has something to do                                 */
    struct ready_mask masks[MAX_READY];
    atomic_flag paths_lock;              /* held for a search; [rt] threads only try it                        */
    struct mailboxes loads;              /* one struct text_request, for a mask that a worker must load        */
    atomic_uint_fast64_t wanted;         /* count of requests << NUMBER_BITS | number of the mask; 0: none     */
    uint64_t number;                     /* number of the request in `wanted`; under paths_lock                */
    struct compare compare;
    uint64_t obeyed;                     /* last value of `wanted` that was applied; audio thread              */
    uint64_t noted;                      /* last value of `wanted` that was recorded; workers                  */
    pthread_t thread;
    atomic_bool has_thread;
    sem_t wake;                          /* the audio thread posts it once a block                             */
    struct priority priority;            /* the audio thread's; the ready thread has the next lower one        */
    atomic_bool end;
    pthread_mutex_t lock;                /* held by the ready thread while it has an engine; never by the audio thread */
};

void ready_open(struct ready *ready, const struct stream *stream, atomic_bool *has_work);
/* Ends the ready thread, if it runs, and closes all engines that wait. No other call may be running. */
void ready_close(struct ready *ready);

/* Requests the mask of this path instead of all earlier requests. If it is ready and does not play already, the audio
 * thread fades to it; else a worker loads it. number: the request's number, for ready_note. [rt], any thread */
void ready_request(struct ready *ready, const char *path, uint64_t number);

/* Dequeues the engine of the requested mask. NULL: no mask is requested, or its engine cannot play now. `playing` and
 * `joining` are the audio thread's engines. [audio thread] */
struct live_engine *ready_dequeue(struct ready *ready, struct live_engine *playing, struct live_engine *joining);
/* Has the audio thread applied a request that is newer than this engine of a worker? [audio thread] */
bool ready_is_newer(const struct ready *ready, const struct live_engine *engine);
/* Puts an engine that has faded out back to `waiting`. false: it belongs to no ready mask. [audio thread] */
bool ready_put(struct ready *ready, struct live_engine *engine);
/* Wakes the ready thread. [audio thread] */
void ready_wake(struct ready *ready);

/* Fills in how many masks are ready, with the one that plays, and the fields of the comparison. [rt], any thread */
void ready_get_stats(const struct ready *ready, hc_live_stats *stats);

/* The following calls belong to workers. */

/* Closes an engine that the audio thread no longer uses, or has not dequeued. If it belongs to a ready mask by now, it
 * waits instead. NULL is allowed. */
void ready_put_or_close(struct ready *ready, struct live_engine *engine);

/* Returns the path's ready mask; NULL: there is none. Any thread that has paths_lock may call it, too. */
struct ready_mask *ready_find(struct ready *ready, const char *path);
/* Records the requests since the last call: *mask is the requested ready mask (NULL: none), *mask_number the number of
 * its request. true: another mask was requested later and must be loaded: that of *request. is_given: *request has a
 * request already, which is the last one. */
bool ready_note(struct ready *ready, struct ready_mask **mask, uint64_t *mask_number, struct text_request *request,
                bool is_given);
/* Makes this mask the one that plays (NULL: no ready mask plays). gone: a mask that can no longer be requested;
 * NULL: none. false: a newer request came, and nothing was changed. */
bool ready_supersede(struct ready *ready, const struct ready_mask *mask, struct ready_mask *gone);
/* Keeps an engine, which waits or plays, ready and owns the responses, if any. NULL: no entry is free, or the thread
 * cannot be started. */
struct ready_mask *ready_add(struct ready *ready, const char *path, struct live_engine *engine,
                             const struct engine_format *format, const struct file_id *file, bool plays,
                             hc_responses *responses);
/* Makes the mask unavailable; its engine is closed at once, or when it has faded out. false: the mask was requested
 * meanwhile, and nothing was changed. */
bool ready_drop(struct ready *ready, struct ready_mask *mask);
/* Closes the engines of dropped masks that wait. */
void ready_sweep(struct ready *ready);
/* Resets the engines that wait; stream->begin is the new beginning of the history. No hc_live_process may run. */
void ready_reset(struct ready *ready);
/* Returns the bytes of all engines and responses. */
uint64_t ready_bytes(const struct ready *ready);

/* From now on compares the masks of two paths whenever both are ready; "": no comparison. */
void ready_compare(struct ready *ready, const char *a, const char *b);

#endif
