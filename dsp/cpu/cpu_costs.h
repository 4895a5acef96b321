/* cpu_costs - costs of the CPU's inner loops, in nanoseconds of one core: the built-in costs, and a measurement of the
 * costs that depend most on the machine, in tens of milliseconds.
 *
 * Plans and threads for live work use plan->costs, which are measured once (dsp/backends/costs.h). The other costs are
 * not measured. For slices only the ratios matter; these ratios make the load even. The order of sums of files,
 * tensors and moving sources depends on sizes alone: their results have the same bits on every machine.
 */
#ifndef HALOCONV_CPU_COSTS_H
#define HALOCONV_CPU_COSTS_H

#include "dsp/device/plan.h"
#include "dsp/device/scene_plan.h"

extern const struct plan_costs cpu_costs, cpu_files_costs;

extern const struct cpu_slice_costs {
    double columns_ns;   /* steps over columns of a transform, for each frame (dsp/fft/fft.h)                 */
    double rows_ns;      /* steps over rows of a transform, for each frame                                    */
    double product_ns;   /* a bin                                                                             */
} cpu_slice_costs;

extern const struct cpu_tensor_costs {
    double tap_ns;       /* a tap of one frame, in the time domain                                            */
    double product_ns;   /* a bin                                                                             */
    double transform_ns; /* a transform of size S: transform_ns * log2(S) for each frame                      */
} cpu_tensor_costs;

extern const struct cpu_scene_costs {
    double float_ns;     /* a product, for each float that it reads from memory                               */
    double transform_ns; /* transform of N frames to the FDL: transform_ns * N * log2(N)                      */
} cpu_scene_costs;

/* Estimates the nanoseconds of one frame of all moving sources on one core, each with one entry that always changes:
 * with 64 to 192 sources, measurements differ by at most 20 %. [setup] */
double scene_cpu_ns(const struct scene_plan *plan, int n_sources, int n_out);

/* Measures costs and replaces them in *costs. HC_ENOMEM: no memory. [setup] */
int cpu_costs_measure(struct plan_costs *costs);

#endif
