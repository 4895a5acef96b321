/* plan - how a response is cut up; a pure function, no audio and no device.
 *
 *   direct   one partition at least as long as the response, convolved in the time domain
 *   fft      uniform partitions of P frames, each a transform of 2P: y(block b) = sum_p H_p X_(b-p)
 *            (partitioned overlap-save; Torger and Farina 2001, section 3)
 *
 * Audio runs in blocks of P frames from the start of the stream. A call that does not cover a whole block convolves its
 * frames with the first P taps in the time domain and adds the far part (partitions 1...), which is known as soon as
 * the block before is complete: this is how any number of frames a call is served without latency.
 */
#ifndef HALOCONV_PLAN_H
#define HALOCONV_PLAN_H

#include <stdbool.h>
#include <stddef.h>

struct plan {
    int max_taps;      /* longest response                                                     */
    int block;         /* most frames a call                                                   */
    bool direct;
    int partition;     /* P; power of two                                                      */
    int n_partitions;  /* partitions that cover max_taps; 1 for direct                         */
};

struct plan_costs {         /* what a backend can do and what it pays, in nanoseconds a unit           */
    int min_partition;      /* powers of two                                                           */
    int max_partition;
    double mac_ns;          /* one tap of one output frame, time domain                                */
    double cmac_ns;         /* one bin of one partition                                                */
    double fft_ns;          /* a transform of N real points costs fft_ns * N * log2(N) ...             */
    double launch_ns;       /* ... plus this for every partition of audio                              */
    int file_block;         /* most frames a call when the engine may choose                      */
};

/* Choose for n_taps (>= 1), block (0 = files), channels, and method "auto", "direct" or "fft". */
void plan_choose(struct plan *plan, const struct plan_costs *costs, int max_taps, int block, int n_in, int n_out,
                 const char *method);

/* Nanoseconds a frame that the plan is expected to cost for a diagonal mask of n_out routes. */
double plan_cost_ns(const struct plan *plan, const struct plan_costs *costs, int n_in, int n_out);

#endif
