/* block_queue - hands blocks from one thread to the next, in order. It never holds more than there are blocks, so a
 * push does not wait; a pop waits for a block, the end, or a stop. Not for the audio thread of a live stream: it locks.
 */
#ifndef BLOCK_QUEUE_H
#define BLOCK_QUEUE_H

#include <pthread.h>
#include <stdbool.h>

enum { BLOCK_QUEUE_CAP = 64 };

struct block_queue {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    void *blocks[BLOCK_QUEUE_CAP];
    int first, n;
    bool ended, stopped;
};

void block_queue_init(struct block_queue *queue);
void block_queue_destroy(struct block_queue *queue);
void block_queue_push(struct block_queue *queue, void *block);

/* The next block; NULL after the last one, or at once when the queue was stopped. */
void *block_queue_pop(struct block_queue *queue);

/* No more blocks will be pushed. */
void block_queue_end(struct block_queue *queue);

/* Something failed: everybody leaves. */
void block_queue_stop(struct block_queue *queue);

#endif
