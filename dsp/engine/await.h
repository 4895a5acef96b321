/* await - how a thread that must not sleep waits for a counter that another thread raises. */
#ifndef HALOCONV_AWAIT_H
#define HALOCONV_AWAIT_H

#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

static inline int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t); /* read from shared memory, no system call */
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

/* Waits until the counter is at n. false: the deadline passed. */
static inline bool await(const atomic_uint_fast64_t *counter, uint64_t n, int64_t until)
{
    while (atomic_load_explicit(counter, memory_order_acquire) < n) {
        int64_t left_us = until - now_us();
        if (left_us <= 0) return false;
        if (left_us > 1000000)
            sched_yield(); /* no audio waits that long: the host freewheels, and the counting thread may need this processor */
        else
            cpu_relax();
    }
    return true;
}

#endif
