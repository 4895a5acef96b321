#include "block_queue.h"

#include <assert.h>

void block_queue_init(struct block_queue *queue)
{
    *queue = (struct block_queue){0};
    pthread_mutex_init(&queue->lock, NULL);
    pthread_cond_init(&queue->changed, NULL);
}

void block_queue_destroy(struct block_queue *queue)
{
    pthread_mutex_destroy(&queue->lock);
    pthread_cond_destroy(&queue->changed);
}

void block_queue_push(struct block_queue *queue, void *block)
{
    pthread_mutex_lock(&queue->lock);
    assert(queue->n < BLOCK_QUEUE_CAP);
    queue->blocks[(queue->first + queue->n) % BLOCK_QUEUE_CAP] = block;
    if (queue->n++ == 0) pthread_cond_signal(&queue->changed);
    pthread_mutex_unlock(&queue->lock);
}

void *block_queue_pop(struct block_queue *queue)
{
    void *block = NULL;
    pthread_mutex_lock(&queue->lock);
    while (queue->n == 0 && !queue->ended && !queue->stopped) pthread_cond_wait(&queue->changed, &queue->lock);
    if (queue->n > 0 && !queue->stopped) {
        block = queue->blocks[queue->first];
        queue->first = (queue->first + 1) % BLOCK_QUEUE_CAP;
        queue->n--;
    }
    pthread_mutex_unlock(&queue->lock);
    return block;
}

void block_queue_end(struct block_queue *queue)
{
    pthread_mutex_lock(&queue->lock);
    queue->ended = true;
    pthread_cond_broadcast(&queue->changed);
    pthread_mutex_unlock(&queue->lock);
}

void block_queue_stop(struct block_queue *queue)
{
    pthread_mutex_lock(&queue->lock);
    queue->stopped = true;
    pthread_cond_broadcast(&queue->changed);
    pthread_mutex_unlock(&queue->lock);
}
