/* realtime - keeps page faults away from the audio thread. */
#ifndef REALTIME_H
#define REALTIME_H

#include <stdbool.h>
#include <stddef.h>

/* Touches the stack that a callback may use, so that the first deep call takes no page fault. */
void realtime_touch_stack(void);

/* Locks all memory of the process, also what it allocates later. false: why has the reason and the remedy. */
bool realtime_lock_memory(char *why, size_t cap);

#endif
