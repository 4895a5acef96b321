/* crew - threads that do jobs beside the audio thread, which never waits for a lock of theirs: it wakes them, and takes
 * what they have not begun itself when it is due. */
#ifndef HALOCONV_CREW_H
#define HALOCONV_CREW_H

#include <stdbool.h>
#include <stddef.h>

struct crew;

/* job does one job of those there are, with scratch[n_scratch] of its thread's own; false: there is none now. Threads
 * get the priority right below that of the thread that wakes them, if it is a real-time one and the system grants it.
 * Fewer than asked for when the system gives no more. NULL when memory ran out. [setup] */
struct crew *crew_open(int n_threads, size_t n_scratch, bool (*job)(void *data, float *scratch), void *data);
void crew_close(struct crew *crew);
int crew_size(const struct crew *crew); /* threads */

/* There are jobs: one thread is woken, and wakes the next if it finds some. [rt] */
void crew_wake(struct crew *crew);

#endif
