#include "priority.h"

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <time.h>

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

/* The number of the calling thread, out of that of its CPU clock (Linux: ~number << 3 | flags), which C libraries make
 * without a system call. 0: unknown. */
static int own_tid(void)
{
    clockid_t clock;
    return pthread_getcpuclockid(pthread_self(), &clock) == 0 ? ~(clock >> 3) : 0;
}

void priority_lead(struct priority *priority)
{
    int own = own_tid();
    if (atomic_load_explicit(&priority->tid, memory_order_relaxed) != own)
        atomic_store_explicit(&priority->tid, own, memory_order_relaxed);
}

void priority_follow(const struct priority *priority, int *taken)
{
    int tid = atomic_load_explicit(&priority->tid, memory_order_relaxed);
    if (tid != *taken) settle_below(*taken = tid);
}
