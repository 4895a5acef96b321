/* bench - calls for benches and tests. The archive has them; the shared library does not export them, and no public
 * header declares them. Conventions and tags are those of haloconv.h.
 */
#ifndef HALOCONV_BENCH_H
#define HALOCONV_BENCH_H

#include "haloconv.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct hc_costs {    /* nanoseconds; 0: no different, or the backend cannot do it                     */
    double mac_ns;           /* a tap of an output frame, in the time domain                                  */
    double cmac_ns;          /* a bin of a partition                                                          */
    double live_cmac_ns;     /* the same if blocks come one at a time                                         */
    double fft_ns;           /* a transform of N points costs fft_ns * N * log2(N)                            */
    double far_fft_ns, far_cmac_ns; /* both, of tail levels                                                   */
    double launch_ns, slice_ns;     /* a hop of audio; a slice of a tail level                                */
    double call_ns;          /* a call of hc_process, whatever is in it                                       */
    int n_built_in;          /* how many of these figures were absurd as measured; they are the built-in ones */
} hc_costs;

/* Measures the costs of a backend ("cpu", "cuda", ...; NULL: "auto") on this machine and keeps them in the user's cache
 * folder ($XDG_CACHE_HOME or ~/.cache, haloconv/costs), where hc_open and hc_plan find them. The first hc_open of a
 * live engine on a machine measures the CPU by itself, in less than 50 ms. Nothing else measures a GPU: that takes up
 * to a second, the GPU to itself and some hundred MB of its memory; until then the built-in costs, of an H200, are
 * used. Fails as hc_open does. [setup] */
int hc_measure(const char *backend, hc_costs *costs, char *why, size_t cap);

/* Makes a mask of decaying noise from a seed, on the device if that is faster than an upload; the taps are the same
 * everywhere. diagonal: input i to output i only; else every input to every output, each with a response of its own.
 * A response has n_taps, falls by 60 dB in rt60 frames and has an expected energy of 1. Fails as hc_mask_make does.
 * [setup] */
int hc_mask_make_noise(hc_engine *engine, int diagonal, int n_taps, double rt60, uint64_t seed, hc_mask **mask,
                       char *why, size_t cap);

#ifdef __cplusplus
}
#endif
#endif
