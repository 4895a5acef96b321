/* ready - masks that are ready before they are asked for. Each has an engine of its own (a failover). While the engine
 * does not play, the ready thread lets it process the input history, as the standby engine does: its tail levels are
 * current, and a crossfade to it can begin with any block.
 *
 *   work.c makes it --> waiting <---> the ready thread, a block at a time
 *                          ^  |
 *                          |  +-----> joining --> playing        the audio thread takes the engine that was asked for
 *                          +--------- former  <-----+            and puts the engine that has faded out back
 *
 * Whoever takes the engine out of `waiting` uses it alone. The worker makes and drops ready masks, one for each path
 * that hc_live_keep names.
 *
 * A request for a ready mask counts up `wanted` and puts the mask's number there. The audio thread fades to it. The
 * worker only takes note of it (ready_note): path, statistics, responses. A later engine of the worker's replaces the
 * request (ready_supersede), unless a newer request came meanwhile.
 */
#ifndef READY_H
#define READY_H

#include "dsp/base/priority.h"
#include "haloconv_live.h"
#include "live_mask.h"
#include "text_mailbox.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct failover;

enum { MAX_READY = 64, WANTED_BITS = 8, NUMBER_MASK = (1 << WANTED_BITS) - 1 }; /* numbers begin with 1 */

struct engine_format {
    int rate, block;
    char backend[64];                    /* as requested, or "cpu" after a loss                                */
};

struct ready_mask {
    _Atomic(struct failover *) waiting;  /* NULL: it plays, the ready thread uses it, or there is none         */
    atomic_int_fast64_t at;              /* 1 + frames of the history that it had processed when it came to
                                            wait; 0: it cannot be asked for                                    */
    _Atomic float loudness;              /* LUFS in this comparison; -INFINITY: not measured yet               */
    char path[TEXT_CAP];                 /* "": cannot be asked for; written by workers, under paths_lock      */
    /* workers: */
    struct failover *engine;             /* NULL: this place is free                                           */
    bool is_dropped;                     /* the engine is closed as soon as it waits                           */
    struct engine_format format;
    struct file_id file;
    hc_responses responses;              /* empty while it is hc_live.current                                  */
};

struct ready_list {                      /* paths of hc_live_keep, in one allocation                           */
    int n;
    bool failed[MAX_READY]; /* the mask is not made ready: that has failed, or would fail         */
    char paths[][TEXT_CAP];
};

struct ready {
    struct ready_mask masks[MAX_READY];
    atomic_flag paths_lock;              /* held for a search; [rt] threads only try it                        */
    atomic_uint_fast64_t wanted;         /* count of requests << WANTED_BITS | number of the mask; 0: none     */
    uint64_t number;                     /* of the request that `wanted` has; under paths_lock                 */
    char compared[2][TEXT_CAP];          /* paths of hc_live_compare; "": none; under paths_lock               */
    atomic_uint_fast64_t comparing;      /* count of comparisons, and the numbers of the two masks in
                                            WANTED_BITS each; a number is 0 while its mask is not ready        */
    uint64_t taken;                      /* value of `wanted` that was obeyed; audio thread                    */
    uint64_t noted;                      /* likewise; workers                                                  */
    _Atomic(struct ready_list *) next;   /* hc_live_keep -> worker                                             */
    struct ready_list *list;             /* workers; NULL: none                                                */
    int n_told;                          /* ready masks, as told to config.say; workers                        */
    pthread_t thread;
    atomic_bool has_thread;
    sem_t wake;                          /* posted once a block                                                */
    struct priority priority;            /* the audio thread's; the ready thread has the next lower one        */
    atomic_bool end;
    pthread_mutex_t lock;                /* held by the ready thread while it has an engine; never by the audio thread */
};

void ready_open(hc_live *l);
/* Ends the thread, if there is one, and closes all engines that wait. No other call may be running. */
void ready_close(hc_live *l);

/* Asks for the ready mask of this path, in the place of a request that waits for a worker. number: of the request, for
 * ready_note. false: there is none that does not play already, or another thread has paths_lock: a worker must then
 * apply the request. [rt], any thread */
bool ready_request(hc_live *l, const char *path, uint64_t number);

/* Takes the engine of the mask that was asked for. NULL: no mask was asked for, or its engine cannot play now.
 * [audio thread] */
struct failover *ready_take(hc_live *l);
/* Did the audio thread obey a request that is newer than this engine of the worker's? [audio thread] */
bool ready_is_newer(const hc_live *l, const struct failover *f);
/* Puts an engine back that has faded out. false: it has no place. [audio thread] */
bool ready_put(struct failover *f);
/* Wakes the ready thread. [audio thread] */
void ready_wake(hc_live *l);

/* Number of masks to which a fade can begin with the next block, also the one that plays. [rt], any thread */
int ready_count(const hc_live *l);

/* The following calls belong to workers. */

/* The path's ready mask; NULL: there is none. Also for the thread that has paths_lock. */
struct ready_mask *ready_find(hc_live *l, const char *path);
/* Takes the requests since the last call: *mask is the ready mask that was asked for (NULL: none), *mask_number the
 * number of its request. true: another mask was asked for later, and has to be loaded: path[TEXT_CAP] and its
 * *number. */
bool ready_note(hc_live *l, struct ready_mask **mask, uint64_t *mask_number, char *path, uint64_t *number);
/* This mask plays from now on, or none of them (NULL). gone: this one cannot be asked for any more; NULL: none.
 * false: a newer request came, and nothing was changed. */
bool ready_supersede(hc_live *l, const struct ready_mask *mask, struct ready_mask *gone);
/* Keeps an engine ready, which waits or plays. Takes over the responses, if there are any. NULL: no place is free. */
struct ready_mask *ready_add(hc_live *l, const char *path, struct failover *f, const struct engine_format *format,
                             const struct file_id *file, bool plays, hc_responses *responses);
/* Makes the mask unavailable; its engine is closed, at once or when it has faded out. false: the mask was just asked
 * for, and nothing was changed. */
bool ready_drop(hc_live *l, struct ready_mask *mask);
/* Closes the engines of dropped masks that wait. */
void ready_sweep(hc_live *l);
/* Resets the engines that wait, and gives them a new beginning of the history. No hc_live_process may run. */
void ready_reset(hc_live *l, int64_t begin);
/* Takes the list that hc_live_keep has left. Returns whether it is new. */
bool ready_list_take(hc_live *l);
/* Bytes of all engines and responses. */
uint64_t ready_bytes(const hc_live *l);

/* The mask's number, from 1; 0: mask is NULL. [rt] */
int ready_number(const hc_live *l, const struct ready_mask *mask);

/* paths_lock: a thread that waits yields the processor. Not for [rt] threads. */
void ready_paths_lock(struct ready *r);
void ready_paths_unlock(struct ready *r);

#endif
