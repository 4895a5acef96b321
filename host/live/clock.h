/* clock - when a sound card's frames really pass, from callbacks that come a little late, each differently: a
 * delay-locked loop over their times (Fons Adriaensen, "Using a DLL to filter time", 2005), for any count of frames a
 * callback. It starts wide, to be there within a second, and narrows until single callbacks are hardly noticed.
 */
#ifndef CLOCK_H
#define CLOCK_H

#include <stdbool.h>

struct clock {
    double frame_s, named_s;  /* seconds a frame lasts by the clock that times are taken from; by its name  */
    double now_s;             /* when the last callback was due                                             */
    double heard_s;           /* length of what has passed, since it started: the loop narrows by it        */
    double most_off_s;        /* by how much a callback was off at most, once the loop had settled          */
    bool runs;
};

void clock_open(struct clock *clock, int rate);

/* A callback came at time_s, n frames after the last one. false: so far off that the clock started again. [rt] */
bool clock_tick(struct clock *clock, double time_s, int n);

#endif
