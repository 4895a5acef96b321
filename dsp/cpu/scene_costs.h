/* scene_costs - what steered sources are expected to cost on the CPU. */
#ifndef HALOCONV_SCENE_COSTS_H
#define HALOCONV_SCENE_COSTS_H

#include "dsp/device/scene_plan.h"

/* Nanoseconds of one frame of all sources on one core, each with one entry that changes all the time. Within a fifth of
 * measurements with 64 to 192 sources. [setup] */
double scene_cpu_ns(const struct scene_plan *plan, int n_sources, int n_out);

#endif
