#include "priority.h"

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <time.h>

/* Sets the calling thread's real-time priority right below that of thread tid, or ordinary priority if tid has that. */
static void set_priority_below(int tid)
{
    struct sched_param param = {0};
    int policy = sched_getscheduler(tid) & ~SCHED_RESET_ON_FORK, min = sched_get_priority_min(SCHED_FIFO);
    bool real_time = (policy == SCHED_FIFO || policy == SCHED_RR) && sched_getparam(tid, &param) == 0;
    bool has_below = real_time && param.sched_priority > min;
    param.sched_priority = has_below ? param.sched_priority - 1 : 0;
    pthread_setschedparam(pthread_self(), has_below ? SCHED_FIFO : SCHED_OTHER, &param);
}

/* Returns the tid of the calling thread, read without a system call from the id of its CPU clock (Linux: ~tid << 3 |
 * flags). 0: unknown. */
static int own_tid(void)
{
    clockid_t clock;
    return pthread_getcpuclockid(pthread_self(), &clock) == 0 ? ~(clock >> 3) : 0;
}

void priority_lead(struct priority *priority)
{
    int own = own_tid();
    if (__atomic_load_n(&priority->tid, __ATOMIC_RELAXED) != own)
        __atomic_store_n(&priority->tid, own, __ATOMIC_RELAXED);
}

void priority_follow(const struct priority *priority, int *followed)
{
    const int tid = __atomic_load_n(&priority->tid, __ATOMIC_RELAXED);
    if (tid != *followed) set_priority_below(*followed = tid);
}
