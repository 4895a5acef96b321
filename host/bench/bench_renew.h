/* bench_renew - prepares new masks while an engine plays, and fades to them, as a user does who changes masks often. */
#ifndef BENCH_RENEW_H
#define BENCH_RENEW_H

#include "bench_play.h"

#include <pthread.h>
#include <stdatomic.h>

struct renewal {
    hc_engine *engine;
    struct bench_shape shape;
    double period_s;
    pthread_t thread;
    atomic_bool end;
    int n_made;          /* this field and those below: valid after renewal_end */
    double longest_s;    /* longest preparation of a mask */
    char why[256];       /* "": no error */
};

/* Starts a thread that makes a mask of noise and fades to it every period_s seconds, or as fast as masks can be made.
 * false: no thread; why has the reason. */
bool renewal_begin(struct renewal *r, hc_engine *engine, const struct bench_shape *shape, double period_s, char *why,
                   size_t cap);

/* Waits for the mask that is being made, and ends the thread. Call it before hc_close. */
void renewal_end(struct renewal *r);

#endif
