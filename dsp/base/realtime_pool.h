/* realtime_pool - threads that do jobs in parallel with the audio thread. Use it for live work: the audio thread wakes
 * the threads without a lock. When a job is due that no thread has begun, the audio thread does it itself; it waits
 * only for jobs that were begun. For work that its caller can wait for, use thread_pool.h. */
#ifndef HALOCONV_REALTIME_POOL_H
#define HALOCONV_REALTIME_POOL_H

#include <stdbool.h>
#include <stdint.h>

struct realtime_pool;

/* job(data, thread) does one job, thread in [1, n_threads]; false: there is no job now. The threads take the priority
 * right below that of the thread that wakes them, if it is a real-time one and the system grants it. The pool has fewer
 * threads if the system gives no more. NULL: no memory. [setup] */
struct realtime_pool *realtime_pool_open(int n_threads, bool (*job)(void *data, int thread), void *data);
void realtime_pool_close(struct realtime_pool *pool);

/* Call it when there are jobs: it wakes one thread, which wakes the next if it finds a job. After a fork() the child
 * has no threads, and the call does the jobs itself. [rt] */
void realtime_pool_wake(struct realtime_pool *pool);

/* Waits a moment for a job that a thread of a pool has begun. Call it in a loop; *since_ns is 0 before the first call.
 * It spins for 50 ms, and then sleeps: that thread has a lower priority, and may have no other processor. [rt] */
void realtime_pool_await(int64_t *since_ns);

#endif
