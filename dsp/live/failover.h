/* failover - an engine that processes the input history, and if that engine runs on a device, a standby engine on the
 * CPU that takes over when the device fails.
 *
 * The standby engine processes the same input one block later, in its own thread, and discards its output; its history
 * is therefore always current. When the device is lost, the audio thread acquires the standby engine from that thread,
 * processes the blocks that the standby engine has not processed yet, and uses its output from this block on: the
 * listener hears no gap. The same happens when the device is late for 8 blocks in a row and for 20 ms; these blocks are
 * late. The standby engine always keeps another core busy for the mask's share of a block's time. It runs only if this
 * share, measured when the mask is loaded, is at most `standby_share`.
 *
 *   takeover   NOT_NEEDED --- the device fails --> BEGUN --+--> PENDING ---> DONE     the standby engine has the mask
 *                                                          |
 *                                                          +--> IMPOSSIBLE            it lacks the mask, or is absent
 */
#ifndef FAILOVER_H
#define FAILOVER_H

#include "dsp/base/error.h"
#include "dsp/base/priority.h"
#include "haloconv_live.h"
#include "input_history.h"
#include "scene_steered.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum failover_result { /* result of a block, from the best to the worst */
    FAILOVER_PLAYED,
    FAILOVER_NO_TAIL, /* the output of this block lacks its tail   */
    FAILOVER_LATE,    /* the output of this block is silence       */
    FAILOVER_SILENT   /* silence: no engine convolves              */
};

enum takeover {
    TAKEOVER_NOT_NEEDED, /* the main engine plays                                                         */
    TAKEOVER_BEGUN,      /* inside failover_process: the standby engine keeps its mask from now on        */
    TAKEOVER_PENDING,    /* silence; the standby engine plays as soon as it has processed the history     */
    TAKEOVER_DONE,       /* the standby engine plays; the audio thread keeps the lock                     */
    TAKEOVER_IMPOSSIBLE  /* silence; nothing plays                                                        */
};

struct runner {                /* an engine that processes the input history                                      */
    hc_engine *engine;         /* NULL: there is no engine                                                        */
    hc_mask *mask;             /* the mask that plays; for [setup] threads                                        */
    int64_t at;                /* frames of the history that the engine has processed                             */
    int n_in, block;
    const float **rows;        /* [n_in]: pointers to the engine's input                                          */
    float *frames, **discarded; /* [n_out] rows of [block], and a row of silence                                  */
    const float *silence;
};

struct failover {
    hc_config config;
    hc_info info;              /* hc_get_info of the main engine when it was opened                                */
    bool is_on_cpu;            /* the main engine runs on the CPU                                                 */
    struct steered steered;    /* the sources of both engines                                                     */
    struct input_history *history;
    struct runner main;        /* used by the worker, and after the hand-over by the audio thread                 */
    struct runner standby;     /* belongs to the thread that has the lock                                         */
    double standby_share;      /* largest share of a block's time that the standby engine may need                */
    _Atomic float cpu_share;   /* share for the present mask; INFINITY: the standby engine lacks the mask         */
    pthread_t thread;          /* the standby thread                                                              */
    bool has_thread;
    sem_t wake;                /* the audio thread posts it once a block                                          */
    struct priority priority;  /* the audio thread's; the standby thread has the next lower one                   */
    atomic_bool end;           /* true: the standby thread ends                                                   */
    atomic_int_fast64_t forgotten; /* the standby engine forgets the frames before this one                       */
    int64_t standby_forgotten; /* those it has forgotten; belongs to the thread that has the lock                 */
    atomic_flag lock;          /* set: a thread uses the standby engine now                                       */
    bool has_no_deadline;      /* freewheeling, or not yet playing                                                */
    int late_in_row;           /* late blocks in a row; audio thread                                              */
    int64_t late_since_ns;     /* when late_in_row began; audio thread                                            */
    double late_score;         /* rises by one for each late block, falls by four a second; audio thread          */
    _Atomic(enum takeover) takeover; /* set by the audio thread                                                   */
    atomic_bool is_hung;       /* the device does not answer: closing the engine could hang as well            */
    atomic_bool cannot_follow; /* the device failed in failover_follow                                            */
    atomic_bool is_slow;       /* too many blocks are late                                                        */
};

/* Makes an engine for config that plays silence, and a standby engine if the first is not on the CPU and standby_share
 * > 0. positions: those of the sources; NULL: none. Fails as hc_open. [setup], as all calls down to
 * failover_device_answers: one thread at a time, in parallel with the audio thread. */
int failover_open(const hc_config *config, struct input_history *history, struct positions *positions,
                  double standby_share, struct failover **failover, struct reason *why);

/* false: the device hangs; a thread frees the main engine and the failover when the device answers. NULL is allowed. */
bool failover_close(struct failover *failover);

/* Makes masks of n routes, and the banks of a set, and fades to them. n = 0: no mask; set NULL: no banks. A failure
 * changes nothing. */
int failover_load(struct failover *failover, const hc_route *routes, int n, struct bank_set *set, struct reason *why);

/* Frees banks that no longer play. */
void failover_sweep(struct failover *failover);

/* Processes silence, because a device's first blocks are slow. Then processes the history from frame `from` on, until a
 * pass no longer halves the backlog. Starts the standby thread. Call it once, before the audio thread gets the
 * failover. HC_EDEVICE: the device does not answer. */
int failover_start(struct failover *failover, int64_t from, struct reason *why);

/* Processes at most a block of the history, for an engine that does not play. true: the history has more. If the device
 * fails, sets cannot_follow and does nothing more. [one thread, the only one that uses the failover] */
bool failover_follow(struct failover *failover);

/* Does a device that hung answer again? Then the failover can be closed; until then it plays. */
bool failover_device_answers(struct failover *failover);

/* Returns the bytes of the engines. */
uint64_t failover_memory(const struct failover *failover);

/* Does the standby engine have the mask? [rt], any thread */
bool failover_has_standby(const struct failover *failover);

/* Sets how long to wait for a device, from the next block on; HC_WAIT_FOREVER: the host freewheels. [rt] */
void failover_set_wait(struct failover *failover, int wait_us);

/* Processes at most n frames of the backlog. false: the backlog has more. [rt] */
bool failover_catch_up(struct failover *failover, int64_t n);

/* Convolves n frames, up to config.block, which follow the history's end and are finite. out[n_out][n]. [rt] */
enum failover_result failover_process(struct failover *failover, const float *const *in, float *const *out, int n,
                                      int64_t now_ns);

/* Wakes the standby thread; call it after the block is published in the history. [rt] */
void failover_wake(struct failover *failover);

/* Forgets the input before a frame, where both engines go on. The main engine does so at once, unless its device is
 * late or still has work after the wait of a block; the standby engine before its next block. [rt], the thread that
 * uses the failover */
void failover_forget(struct failover *failover, int64_t from);

/* Forgets the input. No other call may run. [setup] */
void failover_reset(struct failover *failover);

/* Returns what plays. [rt], any thread */
enum hc_live_state failover_state(const struct failover *failover);

/* Fills out[n_out][n] with zeros. [rt] */
void failover_silence(float *const *out, int n_out, int n);

#endif
