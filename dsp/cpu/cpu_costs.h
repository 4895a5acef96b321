/* cpu_costs - measures the CPU backend's inner loops on this machine, in tens of milliseconds. */
#ifndef HALOCONV_CPU_COSTS_H
#define HALOCONV_CPU_COSTS_H

#include "dsp/device/plan.h"

/* Replaces those *costs that can be measured. HC_ENOMEM: no memory. [setup] */
int cpu_costs_measure(struct plan_costs *costs);

#endif
