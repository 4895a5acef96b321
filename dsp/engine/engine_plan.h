/* engine_plan - makes the plan of a backend for a config, and reports it in an hc_info. */
#ifndef HALOCONV_ENGINE_PLAN_H
#define HALOCONV_ENGINE_PLAN_H

#include "dsp/device/backend.h"

/* Makes the plan by the costs of a backend's device, and stores these costs. device -1: the costs of the device that
 * was measured last; no device is touched. Backend hybrid gets a *tail_plan, which plan->tail_plan points to, if the
 * responses are longer than the head. Returns whether the costs were measured on this machine. [setup] */
bool plan_make(const struct backend *backend, int device, const hc_config *config, struct plan *plan,
               struct plan *tail_plan, struct plan_costs *costs);

/* Fills the fields of *info that describe the plan. The other fields stay. */
void plan_report(const struct backend *backend, const struct plan *plan, const struct plan_costs *costs,
                 const struct plan_shape *shape, hc_info *info);

#endif
