/* plan - decides how the taps of a response are divided into partitions. Pure functions: no audio, no device.
 *
 * This is non-uniform partitioned convolution. A response is divided into levels. The first level, the head, starts at
 * tap 0. Its result is computed inside the call:
 *
 *   direct   in the time domain
 *   fft      uniform partitions of P frames, each with transforms of 2P points: y(block b) = sum_p H_p X_(b-p)
 *            (partitioned overlap-save; Torger and Farina 2001, section 3)
 *
 * The tail levels follow. Their partition size S grows from level to level (Gardner 1995, section 3). The offset of a
 * tail level leaves time to compute the level in the background:
 *
 *   taps    [head 0 ..... )[tail level 0, S = 2P: partitions )[tail level 1, S = 4P ......)[ ... max_taps )
 *                           ^ offset = 2S - P
 *   time    S input frames of a level are complete at the end of hop t (a hop is P frames). Their output is due in hop
 *           t + S/P. The work is divided into S/P slices: one runs after the output of each hop
 *           t ... t + S/P - 1.
 *
 * Each hop therefore costs the same, and no call does a whole large transform. Hops are counted from the start of the
 * stream. A call that does not cover a whole hop convolves its frames with the first P taps in the time domain. It adds
 * the output of all later taps, which is known as soon as the previous hop is complete. Calls of any length therefore
 * have no added latency. A backend with fir_first does so for whole hops too, unless the plan has whole_hops.
 */
#ifndef HALOCONV_PLAN_H
#define HALOCONV_PLAN_H

#include <stdbool.h>

enum { PLAN_MAX_TAIL_LEVELS = 24 };

struct plan_costs {         /* what a backend can do, and what it costs in nanoseconds                          */
    int min_partition;      /* smallest and largest P of the head; powers of two                                */
    int max_partition;
    int min_tail, max_tail; /* smallest and largest S of tail levels; max_tail 0: no tail levels                */
    bool fir_first;         /* live: the first partition of an fft head is convolved in the time domain, unless
                               the plan has whole_hops                                                          */
    double mac_ns;          /* a tap of an output frame, in the time domain                                     */
    double cmac_ns;         /* a bin of a partition                                                             */
    double live_cmac_ns;    /* cmac_ns if blocks come one at a time; 0: cmac_ns                                 */
    double input_share;     /* with live_cmac_ns: reading a bin of an input's partition, once for all its routes,
                               costs input_share * live_cmac_ns; 0: the bin is in a cache                       */
    double fft_ns;          /* a transform of N real points costs fft_ns * N * log2(N); 0: no transforms        */
    double tail_fft_ns;     /* fft_ns of tail levels; 0: fft_ns                                                 */
    double tail_cmac_ns;    /* cmac_ns of tail levels; 0: live_cmac_ns                                          */
    double launch_ns;       /* all launches of a hop                                                            */
    double slice_ns;        /* the fixed cost of a slice of a tail level                                        */
    double call_ns;         /* the fixed cost of a live call, the same for all plans                            */
    double hop_ns;          /* a head of the resident kernel (resident_split.h): a word to another worker       */
    double word_ns;         /* the same: a frame of a channel, to the GPU or back                               */
    double far_mac_ns;      /* the same: mac_ns of one worker, with taps in device memory; mac_ns is that of one
                               worker, too, with taps in shared memory                                          */
    int max_workers;        /* the same: of an engine; the device limits it (backend.limit)                     */
    double worker_bytes;    /* the same: shared memory of a worker                                              */
    int file_block;         /* max. frames of a call if the plan chooses the block                              */
    int file_partitions;    /* min. partitions in a block that the plan chooses                                 */
    int file_share;         /* the plan may also choose max_taps / file_share frames: the block's memory is then a
                               fraction of the mask's; 0: it may not                                            */
};

struct plan_level {         /* a tail level                                                                     */
    int offset;             /* first tap; at least 2 * size - hop                                               */
    int size;               /* S: frames of a partition; a power of two, a multiple of the hop                  */
    int n_partitions;       /* up to the next level's offset; in the last level to max_taps or beyond           */
};

struct plan {
    int max_taps;           /* longest response, in frames                                                      */
    int block;              /* max. frames of a call                                                            */
    bool direct;            /* the head works in the time domain                                                */
    int partition;          /* P of the head; a power of two; if direct, at least head_taps                     */
    int n_partitions;       /* partitions of the head; 1 if direct                                              */
    bool whole_hops;        /* fir_first: a call of a whole hop computes the first partition by transforms, not
                               in the time domain                                                               */
    int head_taps;          /* taps of the head: the offset of tail level 0, or max_taps without tail levels    */
    int hop;                /* frames; a power of two, at most the block (or costs.min_partition);
                               P unless direct                                                                  */
    int n_tail_levels;
    struct plan_level tail_levels[PLAN_MAX_TAIL_LEVELS]; /* sorted by offset                                   */
    struct plan_costs costs; /* the costs by which the plan was chosen                                          */
    const struct plan *tail_plan; /* backend hybrid: the plan for the taps from max_taps on, which another device
                               convolves in calls of tail_plan->block frames; max_taps is twice that block. NULL for
                               every other backend, and if all taps are in this plan                            */
};

struct plan_shape {         /* the task: the size of the matrix and of the calls                                */
    int max_taps;           /* 1 or more                                                                        */
    int block;              /* max. frames of a call; 0: files. The plan chooses their block; no call has a deadline */
    int n_in, n_out;        /* channels                                                                         */
    int n_routes;           /* pairs of an input and an output that have a response                             */
};

/* Chooses the cheapest plan for a shape by these costs. method: "auto", "direct" or "fft". */
void plan_choose(struct plan *plan, const struct plan_costs *costs, const struct plan_shape *shape, const char *method);

/* Returns the expected nanoseconds of one frame of all channels, without plan->tail_plan. */
double plan_cost_ns(const struct plan *plan, const struct plan_costs *costs, const struct plan_shape *shape);

struct plan_work {          /* the work and the memory of a plan, without plan->tail_plan                       */
    double bytes, flops;    /* a frame of all channels reads these bytes (taps, spectra), does these operations */
    double memory;          /* bytes of input history, spectra and one mask of n_routes responses               */
};
void plan_count(const struct plan *plan, const struct plan_shape *shape, struct plan_work *work);

#endif
