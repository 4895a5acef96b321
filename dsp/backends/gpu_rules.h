/* gpu_rules - all rules that choose a GPU. Arithmetic only, so that host/ can include it.
 *
 *   "auto" for        looks for a GPU if                       and uses it if
 *   live blocks       the CPU is busy for MIN_LIVE_NS or       "hybrid" costs less than HYBRID_SHARE of the CPU and of
 *                     more in a second of audio                "cuda", or else "cuda" costs less than the CPU. By
 *                                                              built-in costs, the CPU must also be busy for more than
 *                                                              MIN_UNMEASURED_NS
 *   a file of known   the CPU, with all its processors,        it needs less time than the CPU, GPU_START_NS included
 *   length            needs MIN_FILE_NS or more
 *   another file      as for live blocks                       as for live blocks, without "hybrid"
 *   moving sources    the CPU is busy for MIN_MOVING_NS or     it can play sources
 *                     more in a second of audio
 *   hc_renderer_open  a GPU driver is installed                it can render; else the CPU renders
 *   haloconv batch    MIN_BATCH_BYTES or more of input for     a GPU is present
 *                     each processor of a process
 *   hc_tensors_run    never: the caller names the device whose memory the tensors are in, as Python and torch do
 *
 *   "gpu" for         is
 *   hc_live_open,     "hybrid" if the head costs the CPU less than HYBRID_SHARE of a call to the GPU; many engines can
 *   the plugins       then share the GPU, because none waits for it in its block. Else, and with moving sources, "cuda"
 *
 *   "cuda" for        is
 *   live masks        a resident kernel for the head and launches for the tail (kernels/resident/resident.h) if the
 *                     head costs less than by launches (resident_us in dsp/device/resident_split.h), and the GPU has
 *                     multiprocessors and shared memory for it. Else, and with moving sources, launches for both.
 *                     "cuda:launched" and "cuda:resident" ask for one of the two
 *
 * Costs are the expected ones of the best plans (plan_cost_ns). A live block costs the time of the audio thread: on the
 * CPU the whole plan; with "cuda" the wait for the head; with "hybrid" the head on the CPU. If the device would be busy
 * for more than the time of the block, the block costs that time. If the GPU fails to open, "auto" opens the CPU.
 */
#ifndef HALOCONV_GPU_RULES_H
#define HALOCONV_GPU_RULES_H

#include <stdbool.h>

#define GPU_START_NS 0.4e9
#define MIN_FILE_NS 2e9
#define MIN_LIVE_NS 0.02e9
#define MIN_UNMEASURED_NS 0.33e9
/* One processor, always busy: 150 sources of two outputs and 0.5 s need about this at 48 kHz. Below it the CPU plays
 * them without the wait for a device. */
#define MIN_MOVING_NS 1e9
/* A GPU and its engines need most of a second to start and to end: in that time the CPU convolves this many bytes.
 * Beside 16 Xeon processors, with masks of 1 s, an H200 is faster for 8000 or more files of 10 s. */
#define MIN_BATCH_BYTES 160e6
/* The CPU's costs are those of a warm cache. Between two live blocks other work uses the cache, and a block may cost
 * twice as much. */
#define HYBRID_SHARE 0.5

/* Does a GPU pay off for a batch? bytes: size of the inputs of one process. */
static inline bool gpu_pays_off_for_batch(double bytes, int n_processors)
{
    return bytes > MIN_BATCH_BYTES * n_processors;
}

/* Is "hybrid" the better choice? The arguments are the expected ns of a frame inside a call, for "gpu" those of "cuda"
 * as the other one. */
static inline bool gpu_is_hybrid(double hybrid_ns, double other_ns)
{
    return hybrid_ns < HYBRID_SHARE * other_ns;
}

#endif
