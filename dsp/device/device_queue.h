/* device_queue - plays blocks on a device, in order, in a separate thread: the device thread.
 *
 *   audio thread    [fill i, post]......[await i: bounded or not][read i]      [fill i + 1, post] ...
 *   device thread   [sleep ...][spin][play i               ][sleep .......... ][spin][play i + 1 ...
 *
 * The queue holds no audio: block i is in the owner's buffer i % n_blocks. If all n_blocks are in use, the audio
 * thread skips the block. Before the next block, the device then plays silence of the same length, so that its input
 * history stays in time with the stream.
 *
 * Times are CLOCK_MONOTONIC in microseconds. AWAIT_FOREVER (await.h) as a deadline waits without bound.
 */
#ifndef HALOCONV_DEVICE_QUEUE_H
#define HALOCONV_DEVICE_QUEUE_H

#include "dsp/base/error.h"

#include <stdbool.h>
#include <stdint.h>

struct device_queue;

enum { DEVICE_QUEUE_SILENCE = -1, DEVICE_QUEUE_MAX = 8 };

struct device_queue_setup {
    int n_blocks;    /* max. blocks that are posted and not played yet; 1 to DEVICE_QUEUE_MAX               */
    int block;       /* max. frames of a block                                                              */
    int64_t spin_us; /* how long a thread spins for the other before it sleeps; 0: it sleeps at once        */
    bool spins;      /* the device thread spins instead of sleeping between blocks that are not late        */
    /* Plays n frames of a block (0, 1, 2, ...) or of DEVICE_QUEUE_SILENCE. Is called for each block, even after an
     * error. An error (negative, with a line in why) means that the device is lost. [device thread] */
    int (*play)(void *data, int64_t block, int n, struct reason *why);
    /* Is called after each block, when the audio thread has its output. May be NULL. [device thread] */
    void (*behind)(void *data);
    void *data;
};

/* Returns spin_us for blocks of this length: twice a block's time, at most 25 ms; 0 if the process has fewer than four
 * processors. */
int64_t device_queue_spin_us(int rate, int block);

/* Starts the device thread. NULL: no memory or no thread; `why` says which. [setup] */
struct device_queue *device_queue_open(const struct device_queue_setup *setup, struct reason *why);
/* Ends the device thread. NULL is allowed. [setup] */
void device_queue_close(struct device_queue *queue);
/* Waits until every block is played and the device thread is idle, and forgets skipped frames. [setup] */
void device_queue_drain(struct device_queue *queue);

/* ---- for the audio thread, all [rt] except a wait without bound -------------------------------------------------- */

/* Returns the number of the block to fill next. */
int64_t device_queue_next(const struct device_queue *queue);
/* Waits until the memory of the next block is free. false: the deadline passed. */
bool device_queue_has_capacity(struct device_queue *queue, int64_t until_us);
/* Posts the next block with n frames. posted_us: the time of the call; ignored if spin_us is 0. Makes one system call,
 * which wakes the device thread. */
void device_queue_post(struct device_queue *queue, int n, int64_t posted_us);
/* Skips n frames of the stream. */
void device_queue_skip(struct device_queue *queue, int n);

bool device_queue_is_done(const struct device_queue *queue, int64_t block);
/* Waits until a block is played. It spins, and sleeps only in a wait without bound. false: the deadline passed. */
bool device_queue_await(struct device_queue *queue, int64_t block, int64_t until_us);
/* Waits in the same way until every block is played and the device thread is idle. */
bool device_queue_await_all(struct device_queue *queue, int64_t until_us);

/* Returns the first block that was not played because the device was lost; -1: the device works. [rt], any thread */
int64_t device_queue_failed(const struct device_queue *queue, const char **why);

#endif
