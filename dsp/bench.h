/* bench - calls for benches and tests. The static library has them; the shared library does not export them, and no
 * public header declares them. Conventions and tags are those of haloconv.h.
 */
#ifndef HALOCONV_BENCH_H
#define HALOCONV_BENCH_H

#include "haloconv.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct hc_costs {    /* nanoseconds; 0: the backend cannot do it, or has no special cost for it         */
    double mac_ns;           /* a tap of an output frame, in the time domain                                    */
    double cmac_ns;          /* a bin of a partition                                                            */
    double live_cmac_ns;     /* cmac_ns if blocks come one at a time                                            */
    double fft_ns;           /* a transform of N points costs fft_ns * N * log2(N)                              */
    double tail_fft_ns, tail_cmac_ns; /* fft_ns and cmac_ns of tail levels                                      */
    double launch_ns, slice_ns; /* a hop of audio; a slice of a tail level                                      */
    double call_ns;          /* a call of hc_process, however small the block                                   */
    double resident_call_ns; /* call_ns of a resident head (resident_us); 0, as the next four: the device has no
                                resident kernel                                                                 */
    double hop_ns, word_ns;  /* a hop between two of its workers; a frame of a channel                          */
    double near_mac_ns, far_mac_ns; /* mac_ns of a worker with taps in shared memory, in device memory          */
    int resident_side;       /* the resident kernel plays matrices up to this many inputs and outputs: responses
                                of a second, blocks of 64 frames                                                */
    int n_built_in;          /* how many of these are the built-in costs, because the measured ones were absurd */
} hc_costs;

/* Measures the costs of a backend ("cpu", "cuda", ...; NULL: "auto") on this machine and keeps them in the user's cache
 * folder ($XDG_CACHE_HOME or ~/.cache, haloconv/costs), where hc_open and hc_plan find them. The first hc_open of a
 * live engine on a machine measures the CPU by itself, in less than 50 ms. Only this call measures a GPU: that takes up
 * to a second, the whole GPU and some hundred MB of its memory. Until then the built-in costs are used, those of an
 * H100 or H200. Fails with HC_EINVAL (costs is NULL; backend "hybrid") and as hc_open does. [setup] */
int hc_measure(const char *backend, hc_costs *costs, char *why, size_t cap);

/* Makes a mask of decaying noise from a seed, on the device if that is faster than an upload. The taps are the same on
 * every device. diagonal: routes from input i to output i only; 0: from every input to every output, each with its own
 * response. A response has n_taps, falls by 60 dB in rt60 frames and has an expected energy of 1. Fails as hc_mask_make
 * does, and with HC_EINVAL if rt60 is not positive. [setup] */
int hc_mask_make_noise(hc_engine *engine, int diagonal, int n_taps, double rt60, uint64_t seed, hc_mask **mask,
                       char *why, size_t cap);

typedef struct hc_copies {   /* seconds for all bytes, medians of n_runs                                        */
    double both, up, down;   /* up and down at the same time; up alone; down alone                              */
} hc_copies;

/* Times a GPU's copies without kernels: the ceiling of every convolution from host to host memory. Copies bytes_up to
 * device 0 and bytes_down back, in blocks of at most block_bytes, four of them under way. Fails with HC_EUNSUPPORTED (no
 * GPU module) and HC_EDEVICE. [setup] */
int hc_measure_copies(int64_t bytes_up, int64_t bytes_down, size_t block_bytes, int n_runs, hc_copies *copies, char *why,
                      size_t cap);

#ifdef __cplusplus
}
#endif
#endif
