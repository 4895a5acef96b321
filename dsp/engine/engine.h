/* engine - a call for code that drives an engine and has made its input ready: the live core. */
#ifndef HALOCONV_ENGINE_H
#define HALOCONV_ENGINE_H

#include "haloconv.h"

/* hc_process for a caller that has cleaned the input (every sample is finite), has switched denormals off on this
 * thread, and has read the time (now_ns: CLOCK_MONOTONIC), from which the wait for a device counts. On the CPU the input
 * is not copied and the output is written straight to `out`; no row of `in` may overlap a row of `out`. Not for an engine
 * for files (block 0). [rt], one thread at a time with hc_process */
int engine_process_clean(hc_engine *engine, const float *const *in, float *const *out, int n_frames, int64_t now_ns);

#endif
