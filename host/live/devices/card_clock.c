#include "card_clock.h"

#include <math.h>

static const double WIDE_HZ = 1, NARROW_HZ = 0.02; /* bandwidth at the start, and after 1 / NARROW_HZ seconds */
static const double LOST_S = 0.25;                 /* a larger deviation: the card or the program stood still */
static const double MAX_WRONG = 0.002;  /* largest deviation from the nominal rate; late callbacks cause more */
static const double SETTLED_S = 1;      /* a card's first callbacks come in a burst */
static const double MIN_DRIFT_S = 60;   /* a delay is known to about a millisecond: 10 ppm a minute */

void clock_open(struct clock *clock, int rate)
{
    *clock = (struct clock){.frame_s = 1.0 / rate, .nominal_s = 1.0 / rate};
}

bool clock_update(struct clock *clock, double time_s, int n)
{
    double due_s = clock->now_s + n * clock->frame_s, off_s = time_s - due_s;
    bool is_regular = clock->runs && fabs(off_s) < LOST_S;
    if (!is_regular) {
        off_s = 0;
        due_s = time_s;
        clock->age_s = 0;
        clock->runs = true;
    }
    double hz = fmin(WIDE_HZ, fmax(NARROW_HZ, 1 / (clock->age_s + 1e-9)));
    double w = fmin(2 * M_PI * hz * n * clock->frame_s, 0.5); /* a step of a long block must not overshoot */
    clock->now_s = due_s + sqrt(2) * w * off_s;
    clock->frame_s += w * w * off_s / n;
    clock->frame_s = fmin(fmax(clock->frame_s, (1 - MAX_WRONG) * clock->nominal_s), (1 + MAX_WRONG) * clock->nominal_s);
    clock->age_s += n * clock->frame_s;
    if (fabs(off_s) > clock->max_off_s && clock->age_s > SETTLED_S) clock->max_off_s = fabs(off_s);
    return is_regular;
}

void drift_add(struct drift *drift, double time_s, double delay_s)
{
    if (drift->n == 0) drift->first_s = time_s;
    double t = time_s - drift->first_s;
    drift->n++;
    drift->t += t;
    drift->d += delay_s;
    drift->tt += t * t;
    drift->td += t * delay_s;
}

double drift_ppm(const struct drift *drift)
{
    if (drift->n < 2 || 2 * drift->t / drift->n < MIN_DRIFT_S) return 0; /* the mean time is half of the last point's */
    double spread = drift->tt - drift->t * drift->t / drift->n;
    return spread > 0 ? 1e6 * (drift->td - drift->t * drift->d / drift->n) / spread : 0;
}
