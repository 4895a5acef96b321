/* realtime_pool - threads that do jobs in parallel with the audio thread. Use it for live work: the audio thread wakes
 * the threads without a lock. The audio thread does a due job itself if no thread has begun it, and waits only for jobs
 * that a thread has begun. If the caller can wait for all of its work, use thread_pool.h. */
#ifndef HALOCONV_REALTIME_POOL_H
#define HALOCONV_REALTIME_POOL_H

#include <stdbool.h>
#include <stdint.h>

struct realtime_pool;

/* job(data, thread) does one job, thread in [1, n_threads]; it returns false if no job is due. If a real-time thread
 * wakes the threads and the system permits, they get the priority right below the waker's. The pool has fewer threads
 * if the system refuses more. NULL: no memory. [setup] */
struct realtime_pool *realtime_pool_open(int n_threads, bool (*job)(void *data, int thread), void *data);
void realtime_pool_close(struct realtime_pool *pool);

/* Call it when jobs are due: it wakes one thread, which wakes the next if it finds a job. After a fork() the child has
 * no threads, and the call does the jobs itself. [rt] */
void realtime_pool_wake(struct realtime_pool *pool);

/* Waits a moment for a job that a pool thread has begun. Call it in a loop; *since_ns is 0 before the first call. The
 * call spins for 50 ms, then sleeps: the pool thread has a lower priority and may need this processor. [rt] */
void realtime_pool_await(int64_t *since_ns);

/* The same in a loop that also does jobs; has_worked: it just did one, and need not wait. Under RLIMIT_RTTIME
 * (priority.h) it sleeps for a moment after 50 ms: the call has missed its deadline, and the system would end the
 * process. [rt] */
void realtime_pool_step(int64_t *since_ns, bool has_worked);

#endif
