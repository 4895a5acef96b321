/* thread_pool - threads that share numbered jobs while their caller waits. Use it for files: the pool locks. For work
 * in parallel with the audio thread, use realtime_pool.h.
 *
 * A job's result must not depend on the thread that does it: the output is then the same for any number of threads. */
#ifndef HALOCONV_THREAD_POOL_H
#define HALOCONV_THREAD_POOL_H

#include <stdint.h>

struct thread_pool;

/* n_threads includes the caller of thread_pool_run; 0: one thread for each processor that this process may use. The
 * pool has fewer threads if the system refuses more. NULL: no memory. */
struct thread_pool *thread_pool_open(int n_threads);
void thread_pool_close(struct thread_pool *pool);
int thread_pool_size(const struct thread_pool *pool);

/* Does job(data, i, thread) for i in [0, n), thread in [0, thread_pool_size), and returns when all jobs are done. Any
 * thread may call it; a second caller waits. In the child of a fork() the caller does all jobs. */
void thread_pool_run(struct thread_pool *pool, void (*job)(void *data, int64_t i, int thread), void *data, int64_t n);

#endif
