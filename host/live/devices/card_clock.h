/* card_clock - estimates how fast a sound card's clock runs, from the times of its callbacks. */
#ifndef CARD_CLOCK_H
#define CARD_CLOCK_H

#include <stdbool.h>

/* Estimates when a card's frames really pass, although callbacks come late by varying times. The method is a
 * delay-locked loop (Fons Adriaensen, "Using a DLL to filter time", 2005) for callbacks of any length. The loop starts
 * with a wide bandwidth, settles within a second, and narrows until a single callback hardly moves it. */
struct clock {
    double frame_s, nominal_s; /* seconds that a frame lasts: as measured, and at the nominal rate                    */
    double now_s;              /* estimated time of the last callback, without its lateness                           */
    double age_s;              /* seconds since the loop started; sets its bandwidth                                  */
    double max_off_s;          /* largest deviation of a callback since the loop settled                              */
    bool runs;
};

void clock_open(struct clock *clock, int rate);

/* Adds a callback that came at time_s, n frames after the last one. false: the deviation was so large that the loop
 * started again. [rt] */
bool clock_update(struct clock *clock, double time_s, int n);

/* Estimates how fast two clocks drift apart: the slope of a least-squares line through the delay between them. */
struct drift {
    double n, t, d, tt, td; /* sums over the points: count, time, delay, time^2, time * delay */
    double first_s;
};

void drift_add(struct drift *drift, double time_s, double delay_s);

/* Returns the growth of the delay in parts per million; 0 during the first minute. */
double drift_ppm(const struct drift *drift);

#endif
