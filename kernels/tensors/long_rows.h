/* long_rows - runs the plan of a convolution with long filters (long_plan.h): launches the kernels of long_kernels.h.
 */
#ifndef HALOCONV_LONG_ROWS_H
#define HALOCONV_LONG_ROWS_H

#include "dsp/base/error.h"
#include "long_plan.h"

/* Runs a call. The call's device must be the current device. */
int long_run(const struct tensor_call *c, const hc_tensor_data *d, const struct fused_device *device,
             const struct long_plan *plan, struct reason *why);

#endif
