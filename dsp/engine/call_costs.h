/* call_costs - measures what a call of hc_process costs on a backend, however small the block: the way to the device
 * and back. */
#ifndef HALOCONV_CALL_COSTS_H
#define HALOCONV_CALL_COSTS_H

#include "dsp/base/error.h"

#include <stddef.h>

/* *ns: the median of many blocks of a small engine, one right after another, in nanoseconds. Fails as hc_open.
 * [setup] */
int call_costs_measure(const char *backend, double *ns, struct reason *why);

#endif
