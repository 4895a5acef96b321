/* sweep_search - finds where the sweeps begin in a recording whose start is not known. */
#ifndef SWEEP_SEARCH_H
#define SWEEP_SEARCH_H

#include "sweep_analysis.h"

/* Sets a->delay, to within 20 ms, by the arrivals of all sections at one input. recordings: [n_outputs]. false: no
 * memory. */
bool sweep_find_delay(struct sweep_analysis *a, const struct sweep_recording *recordings, int input);

#endif
