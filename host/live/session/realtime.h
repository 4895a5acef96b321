/* realtime - keeps page faults away from the audio thread, and checks whether it has real-time priority. */
#ifndef REALTIME_H
#define REALTIME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Touches the stack that a callback may use, so that the first deep call has no page fault. */
void realtime_touch_stack(void);

/* Locks all memory of the process, also what it allocates later. false: why has the reason and the remedy. */
bool realtime_lock_memory(char *why, size_t cap);

/* Returns gettid() without a system call; 0: unknown. [rt] */
pid_t realtime_thread(void);

/* Does a thread of this process, by gettid, run without real-time priority? false also if it has ended. */
bool realtime_is_refused(pid_t thread);

/* Prints one line, which names the remedy, if RLIMIT_RTTIME is too small for helper threads, and one when they have to
 * rest because of it or SIGXCPU came (is_signalled). rests: of hc_live_stats. Call it before the audio starts and
 * several times a second. */
void realtime_note_limit(uint64_t rests, bool is_signalled);

/* Ends an error text: it explains how a user gets real-time priority and locked memory. */
extern const char realtime_remedy[];

#endif
