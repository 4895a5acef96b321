/* realtime - what a host asks of the system for the sake of its audio thread. */
#ifndef REALTIME_H
#define REALTIME_H

#include <stdbool.h>
#include <stddef.h>

/* Denormals count as 0 on this thread from now on. [rt] */
static inline void realtime_denormals_off(void)
{
#if defined __x86_64__
    __builtin_ia32_ldmxcsr(__builtin_ia32_stmxcsr() | 0x8040); /* flush to zero, denormals are zero */
#elif defined __aarch64__
    unsigned long fpcr;
    __asm__ volatile("mrs %0, fpcr" : "=r"(fpcr));
    __asm__ volatile("msr fpcr, %0" : : "r"(fpcr | 1ul << 24));
#endif
}

/* Touch the stack that a callback may use, so that the first deep call takes no page fault. */
void realtime_touch_stack(void);

/* Keep this process in memory, now and in future. false: why has the reason and the remedy. */
bool realtime_lock_memory(char *why, size_t cap);

/* Threads that this one makes run with this FIFO priority until realtime_leave; below 1, or where it is not allowed:
 * nothing changes. */
struct realtime_before { int policy, priority; bool changed; };
struct realtime_before realtime_enter(int priority);
void realtime_leave(struct realtime_before before);

#endif
