/* drift - how fast two clocks part: a line through the delay between them, least squares, one point at a time. */
#ifndef DRIFT_H
#define DRIFT_H

struct drift { double n, t, d, tt, td, first; };

void drift_add(struct drift *drift, double time_s, double delay_s);

/* Parts in a million that the delay grows by; 0 before there is a minute to tell it from. */
double drift_ppm(const struct drift *drift);

#endif
