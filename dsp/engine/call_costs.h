/* call_costs - measures the fixed cost of an hc_process call on a backend, such as the way to a device and back. */
#ifndef HALOCONV_CALL_COSTS_H
#define HALOCONV_CALL_COSTS_H

#include "dsp/base/error.h"

/* *ns gets the median time of blocks of a small engine that spins, in nanoseconds; the blocks come at 48 kHz. Needs
 * 0.2 s. Fails as hc_open. [setup] */
int call_costs_measure(const char *backend, double *ns, struct reason *why);

#endif
