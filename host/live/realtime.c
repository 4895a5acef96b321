#include "realtime.h"

#include "host/message.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#ifdef __SANITIZE_THREAD__
enum { STACK_BYTES = 16 * 1024 }; /* its own data of a thread takes most of the stack of one that JACK made */
#else
enum { STACK_BYTES = 128 * 1024 };
#endif
enum { SPARE_BYTES = 256 * 1024 * 1024 };

void realtime_touch_stack(void)
{
    volatile char stack[STACK_BYTES];
    for (size_t i = 0; i < sizeof stack; i += 1024) stack[i] = 0;
}

/* With a limit in force a locked process could get no more memory: a mask loaded later would fail. */
static bool has_room(void)
{
    void *room = mmap(NULL, SPARE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (room == MAP_FAILED) return false;
    munmap(room, SPARE_BYTES);
    return true;
}

bool realtime_lock_memory(char *why, size_t cap)
{
    /* On fault: drivers reserve far more address space than they use, and threads more stack. */
    if (mlockall(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT) == 0) {
        if (has_room()) return true;
        munlockall();
        errno = ENOMEM;
    }
    return message_write(why, cap,
                         "memory is not locked: %s; a line '@audio - memlock unlimited' in /etc/security/limits.d "
                         "allows it to that group",
                         strerror(errno));
}
