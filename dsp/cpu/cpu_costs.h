/* cpu_costs - costs of the CPU's inner loops, in nanoseconds of one core: the built-in costs, and a measurement of the
 * costs that depend most on the machine, in tens of milliseconds.
 *
 * Plans and threads of live blocks use plan->costs, which are measured once (dsp/backends/costs.h). The other costs are
 * not measured. For slices only the ratios matter; these ratios make the load even. The order of sums of files,
 * tensors and moving sources depends on sizes alone: their results have the same bits on every machine.
 */
#ifndef HALOCONV_CPU_COSTS_H
#define HALOCONV_CPU_COSTS_H

#include "dsp/device/plan.h"
#include "dsp/device/scene_plan.h"

extern const struct plan_costs cpu_costs, cpu_files_costs;

extern const struct cpu_slice_costs {
    double columns_ns;   /* the steps of a transform over columns, a frame (dsp/fft/fft.h)                    */
    double rows_ns;      /* the steps of a transform over rows, a frame                                       */
    double product_ns;   /* a bin                                                                             */
} cpu_slice_costs;

extern const struct cpu_tensor_costs {
    double tap_ns;       /* a tap of one frame, in the time domain                                            */
    double product_ns;   /* a bin                                                                             */
    double transform_ns; /* of size S, for each frame and power of 2 of S                                     */
} cpu_tensor_costs;

extern const struct cpu_scene_costs {
    double float_ns;     /* of a product, for each float read from memory                                     */
    double transform_ns; /* transform and store into the FDL: transform_ns * N * log2(N) for N frames         */
} cpu_scene_costs;

/* Estimated nanoseconds of one frame of all moving sources on one core, each with one entry that always changes. Within
 * 20 % of measurements with 64 to 192 sources. [setup] */
double scene_cpu_ns(const struct scene_plan *plan, int n_sources, int n_out);

/* Measures costs and replaces them in *costs. HC_ENOMEM: no memory. [setup] */
int cpu_costs_measure(struct plan_costs *costs);

#endif
