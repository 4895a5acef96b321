/* nap - how long a thread that serves blocks as they come may sleep before the next one.
 *
 * The blocks come by a clock that it does not know: a sound card's, a server's, or none while a host freewheels. Only
 * when they were posted is known. A thread that is woken by a post comes 50 to 200 us late on some machines, more than
 * a block of audio takes a GPU: it is awake a margin before the next block is due, and looks.
 *
 *   posted |                                          due |
 *   thread [ works ][ sleeps .................... ][ looks ][ works ]
 *                                                  margin
 *
 * Due is what the last posts say, one interval apart: the earliest of it, for a post that came late does not put off
 * the next. Where one of the last came before it was due, as the pieces of a period do that a host cuts up, the next
 * one may do so by as much. The margin is learned: it grows when a block had come before the thread was awake, and
 * shrinks while there is time to spare. Where an interval has no room for it there is no nap. Times are of one clock,
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
