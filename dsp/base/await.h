/* await - the clock of all deadlines (now_ns, now_us), and a wait without sleep for a counter that another thread
 * increments. */
#ifndef HALOCONV_AWAIT_H
#define HALOCONV_AWAIT_H

#include <sched.h>
#ifndef __cplusplus
#include <stdatomic.h>
#endif
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

static inline int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t); /* reads shared memory: no system call */
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static inline int64_t now_us(void)
{
    return now_ns() / 1000;
}

static inline void cpu_relax(void)
{
#if defined __x86_64__
    __builtin_ia32_pause();
#endif
}

#define AWAIT_FOREVER INT64_MAX

/* A step of a wait without a deadline: lets other threads run and, once the wait has lasted 10 ms, sleeps for 1 ms: the
 * device may hang. *since_us: start of the wait; 0 before the first step. */
static inline void await_pause(int64_t *since_us)
{
    const struct timespec pause = {0, 1000000};
    const int64_t us = now_us();
    if (*since_us == 0) *since_us = us;
    if (us - *since_us < 10000)
        sched_yield();
    else
        nanosleep(&pause, NULL);
}

#ifndef __cplusplus
/* Waits until the counter is at least n. Returns false if the deadline (CLOCK_MONOTONIC) passed. [rt] */
static inline bool await(const atomic_uint_fast64_t *counter, uint64_t n, int64_t until_us)
{
    int64_t since_us = 0;
    while (atomic_load_explicit(counter, memory_order_acquire) < n) {
        int64_t left_us = until_us - now_us();
        if (left_us <= 0) return false;
        if (left_us > 1000000)
            await_pause(&since_us); /* a host that waits so long freewheels, and others may need this processor */
        else
            cpu_relax();
    }
    return true;
}
#endif

#endif
