/* plan - how a response is cut up; a pure function, no audio and no device.
 *
 * A response is cut into levels. The near level starts at tap 0 and is computed inside the call:
 *
 *   direct   in the time domain
 *   fft      uniform partitions of P frames, each a transform of 2P: y(block b) = sum_p H_p X_(b-p)
 *            (partitioned overlap-save; Torger and Farina 2001, section 3)
 *
 * Far levels follow, of growing partition size S (Gardner 1995, section 3), each with slack to be computed in:
 *
 *   taps    [near 0 ..... )[far 0, S = 2P: partitions )[far 1, S = 4P ......)[ ... max_taps )
 *                           ^ offset = 2S - P
 *   time    a level's S input frames are complete at the end of tick t (a tick is P frames); their result is first
 *           heard in tick t + S/P: slices 0 ... S/P - 1 of the work run in ticks t ... t + S/P - 1, after the output
 *
 * so that every tick costs the same and no call pays for a large transform. Audio runs in ticks from the start of the
 * stream. A call that does not cover a whole tick convolves its frames with the first P taps in the time domain and
 * adds the rest, which is known as soon as the tick before is complete: this is how any number of frames a call is
 * served without latency.
 */
#ifndef HALOCONV_PLAN_H
#define HALOCONV_PLAN_H

#include <stdbool.h>
#include <stddef.h>

enum { PLAN_MOST_FAR = 24 };

struct plan_level {
    int offset;        /* first tap; at least 2 * size - tick                                                    */
    int size;          /* S: frames a partition; a power of two, a multiple of the tick                           */
    int n_partitions;  /* they end where the next level starts, the last level's at max_taps or after             */
};

struct plan {
    int max_taps;      /* longest response                                                                        */
    int block;         /* most frames a call                                                                      */
    bool direct;       /* the near level works in the time domain                                                 */
    int partition;     /* P of the near level; power of two; for direct, at least near_taps                       */
    int n_partitions;  /* of the near level; 1 for direct                                                         */
    int near_taps;     /* of the near level: far[0].offset, or max_taps where there are no far levels             */
    int tick;          /* frames; power of two, at most the block (or the backend's least); P unless direct       */
    int n_far;
    struct plan_level far[PLAN_MOST_FAR];
    const struct plan *tail; /* of the taps from max_taps on, on another device, in calls of tail->block frames;
                                max_taps is twice that then (hybrid.h). NULL: none */
};

struct plan_costs {         /* what a backend can do and what it pays, in nanoseconds a unit           */
    int min_partition;      /* powers of two                                                           */
    int max_partition;
    int min_far, max_far;   /* partitions of far levels; max_far 0 = the backend has none              */
    double mac_ns;          /* one tap of one output frame, time domain                                */
    double cmac_ns;         /* one bin of one partition                                                */
    double live_cmac_ns;    /* the same where blocks come one at a time; 0 = no different              */
    double input_share;     /* and for every bin of an input's partition so many times that: it comes
                               from memory once for all its routes; 0 = from a cache                   */
    double fft_ns;          /* a transform of N real points costs fft_ns * N * log2(N) ...             */
    double far_fft_ns;      /* the same of a far level, where it differs; else 0                       */
    double far_cmac_ns;
    double launch_ns;       /* ... plus this for every tick of audio                                   */
    double slice_ns;        /* and this for every slice of a far level                                 */
    double call_ns;         /* and this for every live call: no plan can change it                     */
    int file_block;         /* most frames a call when the engine may choose ...                       */
    int file_parts;         /* ... and how many partitions, at least, it is to hold; 0 = any number    */
};

struct plan_shape {         /* what is to be convolved                                                 */
    int max_taps;           /* >= 1                                                                    */
    int block;              /* most frames a call; 0 = files: the plan picks, and there is no deadline */
    int n_in, n_out;
    int n_routes;           /* pairs with a response                                                   */
};

/* Choose for a shape and method "auto", "direct" or "fft". */
void plan_choose(struct plan *plan, const struct plan_costs *costs, const struct plan_shape *shape, const char *method);

/* Nanoseconds a frame that the plan is expected to cost. */
double plan_cost_ns(const struct plan *plan, const struct plan_costs *costs, const struct plan_shape *shape);

struct plan_work {          /* what a plan comes to for a shape                                       */
    double bytes, flops;    /* a frame of all channels: bytes of taps and spectra that are read        */
    double memory;          /* bytes of history, spectra and one mask of n_routes responses            */
};
void plan_count(const struct plan *plan, const struct plan_shape *shape, struct plan_work *work);

#endif
