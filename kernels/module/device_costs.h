/* device_costs - measures the costs of a GPU's kernels, by which the plan for that GPU is chosen. */
#ifndef HALOCONV_DEVICE_COSTS_H
#define HALOCONV_DEVICE_COSTS_H

#include "dsp/device/backend.h"

/* Measures all costs but call_ns, each by launches of the kernels that it counts. Takes some tenths of a second, and
 * device memory of about five times the L2 cache, at least about 64 MB. Other work on the device is delayed, and makes
 * the device look slower. After an error the costs are unchanged. [setup] */
int device_costs_measure(int device, struct plan_costs *costs, struct reason *why);

#endif
