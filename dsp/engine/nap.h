/* nap - how long a thread that serves blocks as they come may sleep before the next one.
 *
 * The thread does not know the clock of the blocks: it may be a sound card's, a server's, or none while a host
 * freewheels. It knows only when blocks were posted. On some machines a post wakes a sleeping thread 50 to 200 us late,
 * longer than a GPU takes for a block of audio. The thread therefore wakes by itself, a margin before the next block is
 * due, and spins.
 *
 *   posted |                                          due |
 *   thread [ works ][ sleeps .................... ][ spins ][ works ]
 *                                                  margin
 *
 * The due time is estimated from the last posts, one interval apart. A late block does not delay the estimate for the
 * next one. If one of the last blocks came before it was due (a host may cut a period into pieces), the next block is
 * expected as early. The margin is learned: it grows when a block came before the thread was awake, and shrinks while
 * there is time to spare. The thread does not sleep if the interval has no room for the margin. Times are of one clock,
 * in microseconds; all calls are the thread's own.
 */
#ifndef HALOCONV_NAP_H
#define HALOCONV_NAP_H

#include <stdint.h>

enum { NAP_POSTS = 16 };

struct nap {
    int64_t posted_us[NAP_POSTS]; /* the i-th post at i % NAP_POSTS */
    int64_t n_posts;
    int64_t margin_us;
    int64_t until_us, woken_us; /* of the nap since the last post; woken_us 0: there was none */
    int n_well;                 /* naps since the margin changed */
};

void nap_open(struct nap *nap);

/* All is done: until when to sleep, at most; 0: not at all. */
int64_t nap_until(struct nap *nap, int64_t now_us);
/* It is over: the time has come, or the block. */
void nap_woken(struct nap *nap, int64_t now_us);
/* The next block has come; it was posted at posted_us. */
void nap_posted(struct nap *nap, int64_t posted_us);

#endif
