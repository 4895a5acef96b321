#include "realtime.h"

#include "dsp/base/priority.h"
#include "host/message.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>

#ifdef __SANITIZE_THREAD__
enum { STACK_BYTES = 16 * 1024 }; /* JACK's data fill the greater share of the stack of a thread that JACK makes */
#else
enum { STACK_BYTES = 60 * 1024 }; /* a thread of musl has 128 KiB; no frame has 64 KiB (flags.mk) */
#endif
enum { SPARE_BYTES = 256 * 1024 * 1024 };

const char realtime_remedy[] = "see REAL-TIME PRIORITY in haloconv-run(1)";

void realtime_touch_stack(void)
{
    volatile char stack[STACK_BYTES];
    for (size_t i = 0; i < sizeof stack; i += 1024) stack[i] = 0;
}

/* Under a limit (RLIMIT_MEMLOCK) a locked process could get no memory for a mask that is loaded later. */
static bool has_spare_memory(void)
{
    void *spare = mmap(NULL, SPARE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (spare == MAP_FAILED) return false;
    munmap(spare, SPARE_BYTES);
    return true;
}

bool realtime_lock_memory(char *why, size_t cap)
{
    /* MCL_ONFAULT: drivers and thread stacks reserve much more address space than they use. */
    if (mlockall(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT) == 0) {
        if (has_spare_memory()) return true;
        munlockall();
        errno = ENOMEM;
    }
    return message_write(why, cap, "memory is not locked: %s; %s", strerror(errno), realtime_remedy);
}

pid_t realtime_thread(void)
{
    clockid_t clock; /* Linux: ~tid << 3 | flags */
    return pthread_getcpuclockid(pthread_self(), &clock) == 0 ? ~(clock >> 3) : 0;
}

bool realtime_is_refused(pid_t thread)
{
    int policy = sched_getscheduler(thread);
    return policy >= 0 && (policy & ~SCHED_RESET_ON_FORK) != SCHED_FIFO && (policy & ~SCHED_RESET_ON_FORK) != SCHED_RR;
}

void realtime_note_limit(uint64_t rests, bool is_signalled)
{
    static const char subject[] = "limit on real-time processor time (RLIMIT_RTTIME)";
    static const char remedy[] = "raise it with ulimit -R, or rt.time.soft and rt.time.hard of PipeWire's module-rt";
    static rlim_t noted_us = RLIM_INFINITY; /* the last limit in a line about small ones */
    static bool has_noted_load;
    struct rlimit limit = {RLIM_INFINITY, RLIM_INFINITY};
    getrlimit(RLIMIT_RTTIME, &limit);
    const rlim_t limit_us = limit.rlim_cur;
    bool is_small = limit_us < PRIORITY_MIN_LIMIT_US;
    if (is_small && limit_us != noted_us)
        message_note("%s: %g ms, and helper threads need %d ms; they run without real-time priority; %s", subject,
                     1e-3 * (double)limit_us, PRIORITY_MIN_LIMIT_US / 1000, remedy);
    noted_us = is_small ? limit_us : RLIM_INFINITY;
    if (has_noted_load || is_small || !(is_signalled || (rests > 0 && limit_us != RLIM_INFINITY))) return;
    has_noted_load = true;
    if (limit_us == RLIM_INFINITY)
        message_note("limit on processor time (RLIMIT_CPU): it is reached; raise it with ulimit -t");
    else
        message_note("%s: the load is too high for %g ms, so that threads pause; use a longer block or shorter "
                     "responses, or %s",
                     subject, 1e-3 * (double)limit_us, remedy);
}
