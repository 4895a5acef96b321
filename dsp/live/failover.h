/* failover - an engine that processes the input history, and where it runs on a device, a standby engine on the CPU
 * that takes over when the device fails.
 *
 * The standby engine processes the same input one block later, in its own thread, and discards its output; its history
 * is therefore always current. When the device is lost, the audio thread takes the standby engine from that thread,
 * processes the blocks that it has not seen yet, and uses its output from this block on: the listener hears no gap. The
 * same happens when the device was late for 8 blocks and 20 ms in a row; those blocks were late. The standby
 * permanently costs the CPU's share of the mask on another core. It runs only if that share, measured when the mask is
 * loaded, is at most `standby_share`.
 */
#ifndef FAILOVER_H
#define FAILOVER_H

#include "dsp/cpu/priority.h"
#include "haloconv_live.h"
#include "input_history.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum failover_answer {
    FAILOVER_PLAYED,
    FAILOVER_NO_TAIL, /* the tail of this block is missing                     */
    FAILOVER_LATE,    /* the output of this block is silence                   */
    FAILOVER_SILENT   /* nothing convolves                                     */
};

struct runner {                /* an engine that processes the input history */
    hc_engine *engine;         /* NULL: there is none                                                             */
    hc_mask *mask;             /* setup                                                                           */
    int64_t at;                /* frames of the history that it has processed                                     */
    int block;
    const float **rows;        /* [n_in]: where it reads                                                          */
    float *frames, **discarded; /* [n_out] rows of [block], and a row of silence                                  */
    const float *silence;
};

struct failover {
    hc_config config;
    hc_info info;              /* of the engine when it was opened                                                */
    bool is_on_cpu;            /* the main engine                                                                 */
    struct input_history *history;
    struct runner main;        /* the worker's until it is offered, then the audio thread's                       */
    struct runner standby;     /* of who has the lock                                                             */
    double standby_share;      /* of a block's time that the standby engine may take                              */
    _Atomic float cpu_share;   /* of a block's time that it takes with this mask, as measured                     */
    atomic_bool is_able;       /* the standby engine has the mask                                                 */
    pthread_t thread;          /* the standby's                                                                   */
    sem_t wake;                /* posted once a block                                                             */
    bool has_thread;
    struct priority priority;  /* of the audio thread; the standby thread has the one right below                 */
    atomic_bool end;
    atomic_flag lock;          /* set: somebody uses the standby engine now                                       */
    bool has_time;             /* freewheeling, or not yet playing: there is no deadline                          */
    bool took_over;            /* audio: the lock is ours for good                                                */
    int late_in_row;           /* audio                                                                           */
    int64_t late_since_ns;     /* when late_in_row began; audio                                                   */
    double late_score;         /* late blocks of late: rises by one a block, falls by four a second; audio        */
    atomic_int state;          /* enum hc_live_state                                                              */
    atomic_bool hung;          /* the device has not come back so far: closing the engine could hang as well      */
    atomic_bool is_slow;       /* too many blocks are late                                                        */
    bool is_announced;         /* its loss was said; setup                                                        */
    struct failover *abandoned; /* the next one, of those that hung                                               */
};

/* An engine for config that plays silence, and a standby engine if it is not on the CPU and standby_share > 0. [setup],
 * one thread at a time beside the audio, as all calls down to failover_answers */
int failover_open(const hc_config *config, struct input_history *history, double standby_share,
                  struct failover **failover, char *why, size_t cap);

/* One that hung is left as it is, and false is returned: the process should end by _exit. */
bool failover_close(struct failover *failover);

/* Make masks of the routes and fade to them. A failure changes nothing. */
int failover_load(struct failover *failover, const hc_route *routes, int n, char *why, size_t cap);

/* Process silence, so that the first launches are over; then the history from frame `from` on, as far as the audio
 * thread does not run away. The standby engine goes its own way from here on. Once, before the audio thread has it.
 * HC_EDEVICE: the device does not answer. */
int failover_start(struct failover *failover, int64_t from, char *why, size_t cap);

/* Does a device that was given up for being late answer again? Then this can be closed; it plays on. */
bool failover_answers(struct failover *failover);

/* Wait so long for a device from the next block on; HC_WAIT_FOREVER: freewheeling. [rt] */
void failover_set_wait(struct failover *failover, int wait_us);

/* Process at most n frames of the history that it has not processed. false: there are more. [rt] */
bool failover_catch_up(struct failover *failover, int64_t n);

/* n frames up to the block, which follow the history's end and are clean. out[n_out]. [rt] */
enum failover_answer failover_process(struct failover *failover, const float *const *in, float *const *out, int n,
                                      int64_t now_ns);

/* Those n frames are published: wake the standby thread. [rt] */
void failover_wake(struct failover *failover);

/* Forget the input. No other call may run. */
void failover_reset(struct failover *failover);

enum hc_live_state failover_state(const struct failover *failover);

#endif
