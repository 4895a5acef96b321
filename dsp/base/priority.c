#include "priority.h"

#include "await.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <time.h>

enum {
    LOOK_NS = 10000000,     /* time between two looks, which make three system calls */
    WINDOW_NS = 25000000,   /* the same, for an audio thread */
    MAX_WORK_NS = 50000000, /* work until a rest, at most: a quarter of the usual limit */
    REST_NS = 100000        /* a shorter sleep may end before the thread blocks, and then does not count */
};

/* The calling thread's follower; none: it is no helper. A thread-local variable would need an allocation in the audio
 * thread or, in the model that never allocates, keep the dynamic linker from loading the GPU module: CUDA's runtime has
 * 8 KiB of such variables. */
static pthread_key_t own;
static atomic_bool has_own;
static pthread_once_t own_once = PTHREAD_ONCE_INIT;
static atomic_uint n_rests;
static atomic_bool has_limit; /* at the last look */

static int64_t read_limit_us(void)
{
    struct rlimit limit;
    bool is_finite = getrlimit(RLIMIT_RTTIME, &limit) == 0 && limit.rlim_cur < INT64_MAX;
    atomic_store_explicit(&has_limit, is_finite, memory_order_relaxed);
    return is_finite ? (int64_t)limit.rlim_cur : INT64_MAX;
}

static bool is_realtime(int policy)
{
    policy &= ~SCHED_RESET_ON_FORK;
    return policy == SCHED_FIFO || policy == SCHED_RR;
}

/* Sets the calling thread's real-time priority right below that of thread tid, or ordinary priority if tid has that or
 * the limit is too small for a job. */
static void set_priority_below(int tid, int64_t limit_us)
{
    struct sched_param param = {0};
    bool real_time = is_realtime(sched_getscheduler(tid)) && sched_getparam(tid, &param) == 0;
    bool has_below = real_time && limit_us >= PRIORITY_MIN_LIMIT_US && param.sched_priority > 1; /* FIFO's lowest */
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
    int tid = own_tid();
    if (__atomic_load_n(&priority->tid, __ATOMIC_RELAXED) != tid)
        __atomic_store_n(&priority->tid, tid, __ATOMIC_RELAXED);
}

static void make_own(void)
{
    atomic_store(&has_own, pthread_key_create(&own, NULL) == 0);
}

__attribute__((destructor)) static void delete_own(void)
{
    if (atomic_exchange(&has_own, false)) pthread_key_delete(own);
}

void priority_follow(const struct priority *priority, struct follower *follower)
{
    const int tid = __atomic_load_n(&priority->tid, __ATOMIC_RELAXED);
    pthread_once(&own_once, make_own);
    if (atomic_load(&has_own)) pthread_setspecific(own, follower);
    if (tid == follower->tid) return;
    follower->limit_us = read_limit_us();
    set_priority_below(follower->tid = tid, follower->limit_us);
}

/* Reads the limit, and whether the thread has blocked since the last look. */
static void follower_look(struct follower *f, int64_t now)
{
    struct rusage usage = {0};
    getrusage(RUSAGE_THREAD, &usage);
    if (usage.ru_nvcsw != f->n_blocked || f->looked_ns == 0) f->blocked_ns = now;
    f->n_blocked = usage.ru_nvcsw;
    f->looked_ns = now;
    int64_t limit_us = read_limit_us();
    if (limit_us != f->limit_us && f->tid) set_priority_below(f->tid, limit_us);
    f->limit_us = limit_us;
}

void priority_sleep(void)
{
    if (read_limit_us() == INT64_MAX) return;
    nanosleep(&(struct timespec){.tv_nsec = REST_NS}, NULL);
    atomic_fetch_add_explicit(&n_rests, 1, memory_order_relaxed);
}

static void follower_rest(struct follower *f, int64_t now)
{
    follower_look(f, now);
    int64_t max_ns = f->limit_us < MAX_WORK_NS / 250 ? f->limit_us * 250 : MAX_WORK_NS;
    if (f->limit_us == INT64_MAX || now - f->blocked_ns < max_ns || !is_realtime(sched_getscheduler(0))) return;
    priority_sleep(); /* the next look sees that it blocked */
}

void priority_rest(void)
{
    struct follower *f = atomic_load_explicit(&has_own, memory_order_acquire) ? pthread_getspecific(own) : NULL;
    int64_t now = f ? now_ns() : 0;
    if (f && now - f->looked_ns >= LOOK_NS) follower_rest(f, now);
}

void priority_worked(struct load_watch *w, int64_t start_ns, int64_t end_ns)
{
    int64_t passed = end_ns - w->begin_ns;
    w->worked_ns += end_ns - start_ns;
    if (passed < WINDOW_NS) return;
    bool is_high = w->worked_ns > passed / 10 && atomic_load_explicit(&has_limit, memory_order_relaxed);
    w->begin_ns = end_ns;
    w->worked_ns = 0;
    if (is_high) follower_rest(&w->thread, end_ns);
}

void priority_look(void)
{
    read_limit_us();
}

unsigned priority_rests(void)
{
    return atomic_load_explicit(&n_rests, memory_order_relaxed);
}
