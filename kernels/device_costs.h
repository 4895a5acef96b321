/* device_costs - what a GPU's kernels cost, by a clock of its own: the figures that a plan for it goes by. */
#ifndef HALOCONV_DEVICE_COSTS_H
#define HALOCONV_DEVICE_COSTS_H

#include "dsp/engine/backend.h"

/* Replace all costs but that of a call, each by the kernels that spend it. Takes some tenths of a second, and meanwhile
 * about five times the device's L2 cache of its memory, 64 MB or so where that is small. What else is on the device
 * waits, and makes it look slower. The costs stay as they were on an error. [setup] */
int device_costs_measure(int device, struct plan_costs *costs, char *why, size_t cap);

#endif
