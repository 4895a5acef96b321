/* wakeup - decides how long a thread that serves blocks may sleep before the next block.
 *
 * The thread does not know the clock of the blocks (a sound card's, a server's, or none while a host freewheels). It
 * knows when blocks were posted. On some machines a sleeping thread wakes 50 to 200 us after a post, longer than a GPU
 * needs for a block of audio. The thread therefore sets its own wake-up time, a margin before the next block is due,
 * and spins.
 *
 *   posted |                                          due |
 *   thread [ works ][ sleeps .................... ][ spins ][ works ]
 *                                                  margin
 *
 * The due time is estimated from the last posts, which are one interval apart. A late block does not delay the estimate
 * for the next block. If one of the last blocks came before it was due (a host may divide a period into several calls),
 * the next block is expected as early as that one. The margin is learned: it grows when a block came before the thread
 * was awake, and shrinks while there is time to spare. If the margin leaves no time for a useful sleep, the thread does
 * not sleep.
 *
 * Times are of one clock, in microseconds. All calls are [rt] and made by the thread itself.
 */
#ifndef HALOCONV_WAKEUP_H
#define HALOCONV_WAKEUP_H

#include <stdint.h>

enum { WAKEUP_POSTS = 16 };

struct wakeup {
    int64_t posted_us[WAKEUP_POSTS]; /* the time of post i is at i % WAKEUP_POSTS */
    int64_t n_posts;
    int64_t margin_us;
    int64_t until_us, woken_us; /* planned and real end of the sleep since the last post; woken_us 0: no sleep */
    int n_spared;               /* number of sleeps in a row with time to spare */
};

void wakeup_open(struct wakeup *wakeup);

/* Returns the time until which to sleep; 0: do not sleep. Call it when all blocks are served. */
int64_t wakeup_until(struct wakeup *wakeup, int64_t now_us);
/* Call it when the sleep is over, because its time is over or a block came. */
void wakeup_woken(struct wakeup *wakeup, int64_t now_us);
/* Call it for every block, with the time at which it was posted. */
void wakeup_posted(struct wakeup *wakeup, int64_t posted_us);

#endif
