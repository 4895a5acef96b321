/* cpu_costs - times the CPU backend's inner loops on this machine, in some tens of milliseconds. */
#ifndef HALOCONV_CPU_COSTS_H
#define HALOCONV_CPU_COSTS_H

#include "dsp/engine/plan.h"

/* costs: the backend's own, of which those that can be measured are replaced. HC_ENOMEM. [setup] */
int cpu_costs_measure(struct plan_costs *costs);

#endif
