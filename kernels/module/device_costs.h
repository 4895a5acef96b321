/* device_costs - measures the costs of a GPU's kernels; plan_choose uses them. */
#ifndef HALOCONV_DEVICE_COSTS_H
#define HALOCONV_DEVICE_COSTS_H

#include "dsp/device/backend.h"

/* Measures all costs but call_ns, each by launches of its kernels. Needs some tenths of a second, and device memory of
 * about five times the L2 cache, at least about 64 MB. Delays other work on the device; such work also raises the
 * measured costs. After an error *costs is unchanged. [setup] */
int device_costs_measure(int device, struct plan_costs *costs, struct reason *why);

#endif
