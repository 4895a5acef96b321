/* device_queue - blocks for a device, played in order by a thread of the queue's own.
 *
 *   audio thread    [fill i, post]......[wait for i: bounded, or not][read i]      [fill i + 1, post] ...
 *   device thread   [sleep ...][spin][play i               ][sleep .......... ][spin][play i + 1 ...
 *
 * Block i lies in the owner's memory number i % n_blocks. If there is no room the audio thread loses its frames: the
 * device plays as many frames of silence in front of the next block, so that its history keeps the time.
 *
 * Which thread calls what: open, close and drain are [setup]; play is called by the device thread; all others are the
 * audio thread's. Times are CLOCK_MONOTONIC in microseconds; AWAIT_FOREVER (await.h) waits until the device is done.
 */
#ifndef HALOCONV_DEVICE_QUEUE_H
#define HALOCONV_DEVICE_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct device_queue;

enum { DEVICE_QUEUE_SILENCE = -1, DEVICE_QUEUE_MOST = 8 };

struct device_queue_setup {
    int n_blocks;            /* in flight, at most; 1 to DEVICE_QUEUE_MOST                                           */
    int block;               /* frames of a block, at most                                                           */
    int64_t spin_us;         /* how long a thread spins for the other before it sleeps; 0 = it sleeps at once        */
    bool spins;              /* the device thread does not sleep between blocks that come in time                    */
    /* Plays n frames of a block, or of silence. Called for every block, after an error as well. An error (negative, a
     * line in why) means that the device is lost. */
    int (*play)(void *data, int64_t block, int n, char *why, size_t cap);
    void *data;
};

/* How long a thread that serves blocks of this length spins: twice a block's time, bounded; 0 if the process has hardly
 * more processors than threads. */
int64_t device_queue_spin_us(int rate, int block);

struct device_queue *device_queue_open(const struct device_queue_setup *setup, char *why, size_t cap);
void device_queue_close(struct device_queue *queue); /* NULL is allowed */

/* Waits until every block is played, and forgets lost frames. */
void device_queue_drain(struct device_queue *queue);

int64_t device_queue_next(const struct device_queue *queue); /* the block to fill next */
/* Is there room for it by then? */
bool device_queue_room(struct device_queue *queue, int64_t until_us);
/* The next block has n frames. posted_us: when; of no meaning if spin_us is 0. The one system call is a wake-up. */
void device_queue_post(struct device_queue *queue, int n, int64_t posted_us);
void device_queue_lose(struct device_queue *queue, int n);

bool device_queue_is_done(const struct device_queue *queue, int64_t block);
/* Waits for a block. A bounded wait spins; a wait without bound spins and then sleeps. false: it is not done. */
bool device_queue_await(struct device_queue *queue, int64_t block, int64_t until_us);

/* The first block that was not played because the device is lost, and why; -1: the device is well. Any thread. */
int64_t device_queue_lost(const struct device_queue *queue, const char **why);

#endif
