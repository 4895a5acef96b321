#include "drift.h"

static const double LEAST_S = 60; /* a delay is known to about a millisecond: 10 ppm a minute */

void drift_add(struct drift *drift, double time_s, double delay_s)
{
    if (drift->n == 0) drift->first = time_s;
    double t = time_s - drift->first;
    drift->n++;
    drift->t += t;
    drift->d += delay_s;
    drift->tt += t * t;
    drift->td += t * delay_s;
}

double drift_ppm(const struct drift *drift)
{
    if (drift->n < 2 || 2 * drift->t / drift->n < LEAST_S) return 0; /* the mean time is half the last */
    double spread = drift->tt - drift->t * drift->t / drift->n;
    return spread > 0 ? 1e6 * (drift->td - drift->t * drift->d / drift->n) / spread : 0;
}
