/* long_plan - chooses the windows, the workspace and the steps of a convolution with long filters (long_rows.h).
 */
#ifndef HALOCONV_LONG_PLAN_H
#define HALOCONV_LONG_PLAN_H

#include "dsp/device/tensor_backend.h"
#include "long_kernels.h"

/* Steps through device memory for both gradients take longer than estimated, windows of two rows do not. */
static const double long_steps_factor = 1.3;

struct long_plan {
    struct long_size size;
    int64_t taps;            /* taps of a part: filters (or lags) are cut into parts whose results are added         */
    bool is_single;          /* one window computes a row, and its wrapped part is 0 or not needed                   */
    int64_t hop, n_windows;
    int n_groups, n_units;   /* number of filters, and of windows, that the workspace holds                          */
    bool by_bank;            /* with an index: a spectrum for each filter of the bank, not for each that rows use    */
    int64_t n_partial;       /* gradients of a bank: filters, one for each group of rows, in the workspace          */
    int64_t n_bank;          /* filters of a chunk of the bank                                                       */
    size_t partial, sums;    /* bytes of those filters, and of the sums of a chunk, if several launches add up to 16
                                bits; both at the end of the workspace                                               */
    bool has_two_rows;       /* long_two_rows, long_gradient_two_rows: the workspace holds no windows                */
    int of_step, n_stash, n_kept; /* long_gradient_two_rows                                                          */
    bool is_summed;          /* gradient h: the launches for a filter add in the workspace, to round 16 bits once    */
    size_t kept;             /* bytes of the first rows' results, at the end of the workspace; 0: not needed         */
    size_t bytes;            /* bytes of the workspace */
    double cycles;           /* estimated */
};

/* Makes the fastest plan; false: no plan fits the device and c->limit. The number of filters, and of rows of a filter,
 * is at most INT_MAX. */
bool long_plan_make(const struct tensor_call *c, const struct fused_device *device, struct long_plan *plan);

#endif
