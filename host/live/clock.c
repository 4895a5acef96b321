#include "clock.h"

#include <math.h>

static const double PI = 3.14159265358979323846;
static const double WIDE_HZ = 1, NARROW_HZ = 0.02; /* of the loop: at the start, and from 1 / NARROW_HZ seconds on */
static const double LOST_S = 0.25;                 /* off by more: the card stood still, or the program did */
static const double MOST_WRONG = 0.002;            /* of its rate: what says more is a callback that came very late */
static const double SETTLED_S = 1;                 /* a card's first callbacks come all at once */

void clock_open(struct clock *clock, int rate)
{
    *clock = (struct clock){.frame_s = 1.0 / rate, .named_s = 1.0 / rate};
}

bool clock_tick(struct clock *clock, double time_s, int n)
{
    double due_s = clock->now_s + n * clock->frame_s, off = time_s - due_s;
    bool goes_on = clock->runs && fabs(off) < LOST_S;
    if (!goes_on) {
        off = 0;
        due_s = time_s;
        clock->heard_s = 0;
        clock->runs = true;
    }
    double hz = fmin(WIDE_HZ, fmax(NARROW_HZ, 1 / (clock->heard_s + 1e-9)));
    double w = fmin(2 * PI * hz * n * clock->frame_s, 0.5); /* a step of a long block must not overshoot */
    clock->now_s = due_s + sqrt(2) * w * off;
    clock->frame_s += w * w * off / n;
    clock->frame_s = fmin(fmax(clock->frame_s, (1 - MOST_WRONG) * clock->named_s), (1 + MOST_WRONG) * clock->named_s);
    clock->heard_s += n * clock->frame_s;
    if (fabs(off) > clock->most_off_s && clock->heard_s > SETTLED_S) clock->most_off_s = fabs(off);
    return goes_on;
}
