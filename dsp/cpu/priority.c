#include "priority.h"

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <unistd.h>

static void settle_below(int tid)
{
    struct sched_param param = {0};
    int policy = sched_getscheduler(tid) & ~SCHED_RESET_ON_FORK, least = sched_get_priority_min(SCHED_FIFO);
    bool real_time = (policy == SCHED_FIFO || policy == SCHED_RR) && sched_getparam(tid, &param) == 0;
    if (!real_time || param.sched_priority <= least) {
        param.sched_priority = 0;
        pthread_setschedparam(pthread_self(), SCHED_OTHER, &param);
        return;
    }
    param.sched_priority--;
    pthread_setschedparam(pthread_self(), SCHED_FIFO, &param);
}

void priority_lead(struct priority *priority)
{
    /* Initial-exec: in a library that is loaded late, another thread-local variable is allocated at its first use. */
    static _Thread_local int own __attribute__((tls_model("initial-exec")));
    if (own == 0) own = (int)gettid();
    if (atomic_load_explicit(&priority->tid, memory_order_relaxed) != own)
        atomic_store_explicit(&priority->tid, own, memory_order_relaxed);
}

void priority_follow(const struct priority *priority, int *taken)
{
    int tid = atomic_load_explicit(&priority->tid, memory_order_relaxed);
    if (tid != *taken) settle_below(*taken = tid);
}
