/* realtime - what a host asks of the system for the sake of its audio thread. */
#ifndef REALTIME_H
#define REALTIME_H

#include <stdbool.h>
#include <stddef.h>

/* Touch the stack that a callback may use, so that the first deep call takes no page fault. */
void realtime_touch_stack(void);

/* Keep this process in memory, now and in future. false: why has the reason and the remedy. */
bool realtime_lock_memory(char *why, size_t cap);

#endif
