/* plan_report - the plan of a backend for a config, and what hc_info says of it. */
#ifndef HALOCONV_PLAN_REPORT_H
#define HALOCONV_PLAN_REPORT_H

#include "backend.h"

/* The plan, the costs that it was made by, and whether these were measured. device -1: no device is touched. A mask that
 * ends before the tail of a backend made of two would begin has none. [setup] */
bool plan_make(const struct backend *backend, int device, const hc_config *config, struct plan *plan,
               struct plan *tail_plan, struct plan_costs *costs);

void plan_report(const struct backend *backend, const struct plan *plan, const struct plan_costs *costs,
                 const struct plan_shape *shape, hc_info *info);

#endif
