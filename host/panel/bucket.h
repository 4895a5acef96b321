/* bucket - a limit: credit comes with time, up to a burst; who uses it subtracts, also below 0. */
#ifndef BUCKET_H
#define BUCKET_H

#include <math.h>

struct bucket {
    double credit;          /* begins as the burst                                                   */
    double since_s;         /* time of the last bucket_fill                                          */
};

/* Adds `rate` a second, up to `burst`. */
static inline void bucket_fill(struct bucket *b, double rate, double burst, double now)
{
    b->credit = fmin(burst, b->credit + rate * (now - b->since_s));
    b->since_s = now;
}

#endif
