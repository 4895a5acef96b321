/* bench_renew - new masks beside the audio, again and again, as a restless user makes them. */
#ifndef BENCH_RENEW_H
#define BENCH_RENEW_H

#include "bench_play.h"

#include <stdatomic.h>
#include <pthread.h>

struct renewal {
    hc_engine *engine;
    struct bench_shape shape;
    double period_s;
    pthread_t thread;
    atomic_bool end;
    int n_made;          /* from here on: once renewal_end is through */
    double longest_s;    /* that one took to make */
    char why[256];       /* "" = all could be made */
};

/* Make a mask of noise every period_s seconds (sooner than it can be made: one after the other) and fade to it, on a thread of
 * its own. false: no thread, and (why, cap) says so. */
bool renewal_begin(struct renewal *r, hc_engine *engine, const struct bench_shape *shape, double period_s, char *why, size_t cap);

/* Wait for the one in the making. The engine must still be there. */
void renewal_end(struct renewal *r);

#endif
