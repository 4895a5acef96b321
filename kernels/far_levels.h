/* far_levels - the far levels of a plan on the device: what lies where, and which slice of which level runs in which tick.
 *
 *   window j of a level   frames (j-2) S ... j S - 1, complete after tick j m - 1;  m = S / tick slices
 *   step w                runs behind tick w - 1: slice w % m of window w / m
 *   its line of work      [ forward: inputs | products: units | inverse: outputs ]   cut into m pieces of the same cost
 *   its result            frames (j+1) S - tick ... of the output, S of them: heard from the tick after step j m + m - 1
 *
 * The forward transforms belong to the state and serve all masks; the rest belongs to a mask, and runs for masks that are
 * kept current: those that sound, and one that is made ready. The host decides from counts alone: no read back, no wait.
 */
#ifndef HALOCONV_FAR_LEVELS_H
#define HALOCONV_FAR_LEVELS_H

#include "dsp/engine/backend.h"
#include "far_product.h"
#include "near.h"

#include <stdint.h>

enum { FAR_WARM = 2 };       /* masks kept current at once                                                          */

struct far_level {
    int offset, size, log2_size, n_parts;
    int n_slices;            /* m                                                                                   */
    double forward_share;    /* of the line                                                                         */
    int n_slots;             /* n_parts + 1: the window before the last can still be made up for                    */
    float2 *tw;              /* [S]                                                                                 */
    float2 *spectra;         /* [n_in][n_slots][S]: window j at slot j % n_slots                                    */
};

struct far {                 /* of a state                                                                          */
    int n_in, n_out, n_sm, tick, max_taps;
    int near_taps;           /* in the time domain: where level[0] starts                                           */
    int n_levels;
    struct far_level level[FAR_LEVELS];
    int64_t step;            /* steps run since the stream began: ticks complete                                    */
    struct far_mask *warm[FAR_WARM];
    void *near_scratch;
    /* a batch of responses on its way to spectra; stream of set-up                                                 */
    int rows;
    size_t pitch;            /* floats                                                                              */
    float *taps;             /* [rows][pitch]                                                                       */
    float *envelope;         /* [pitch]: of noise                                                                   */
    int *counts;             /* [2 n_levels][rows]: parts of a response, and where they go                          */
    void *pinned;            /* far_pinned_bytes of the host's memory: what is sent there goes through here         */
};

struct far_mask_level {
    int64_t from_window;     /* the first one that was run whole                                                    */
    double product_share;    /* of the line behind the forward share                                                */
    int most_terms, most_parts;
    struct far_terms *terms;
    int *first;              /* [n_groups + 1]                                                                      */
    float2 *spectra;         /* responses one after another, [n_parts][S] each                                      */
    float2 *sums;            /* [n_out][S]                                                                          */
    float *due;              /* [n_out][2S]                                                                         */
};

struct far_mask {
    int n_groups, n_chunks, most_terms;
    size_t spectra_bytes;
    struct near_terms *near_terms;   /* NULL where near_routes is not                                               */
    int *near_first;         /* [n_groups + 1]                                                                      */
    struct near_route *near_routes;  /* of a sparse mask; [n_out + 1] of near_first then                            */
    float *near_taps;        /* [n_responses][n_chunks * NEAR_CHUNK]                                                */
    struct far_mask_level level[FAR_LEVELS];
};

/* Set-up. far_open needs no device; the cuts lay memory out at base (NULL: they only count) and return its bytes. */
int far_open(struct far *far, const struct plan *plan, const hc_config *config, int n_sm, char *why, size_t cap);
size_t far_ring_frames(const struct far *far, int block); /* history that far and near look back into, and a call    */
size_t far_cut(struct far *far, void *base);
size_t far_pinned_bytes(const struct far *far);
cudaError_t far_load(struct far *far, int device, cudaStream_t stream); /* kernels, and what is constant in memory   */

struct draft_terms { int in, response[FAR_OUTS]; }; /* what one input adds to a group; response -1 = none         */

/* A mask in the making: which outputs share an input, where every partition goes. Host memory. */
struct far_draft {
    const struct matrix *matrix;
    const struct noise *noise;         /* NULL, or instead of matrix->taps                                          */
    int n_groups;
    int *first;                        /* [n_groups + 1]                                                            */
    struct draft_terms *terms;         /* [first[n_groups]]                                                         */
    int *n_parts, *part_at;            /* [n_levels][n_responses]                                                   */
    int all_parts[FAR_LEVELS];
};
int far_draft_make(struct far_draft *draft, const struct far *far, const struct matrix *matrix,
                   const struct noise *noise, char *why, size_t cap);
void far_draft_free(struct far_draft *draft);
size_t far_mask_cut(struct far_mask *mask, const struct far *far, const struct far_draft *draft, void *base);
/* The stream is left with work on it: the mask may play when that is done. */
cudaError_t far_mask_fill(struct far_mask *mask, const struct far *far, const struct far_draft *draft,
                          cudaStream_t stream);

/* The driver. Everything is ordered by the stream. */
void far_reset(struct far *far);
cudaError_t far_step(struct far *far, const float *ring, unsigned ring_mask, cudaStream_t stream);
cudaError_t far_warm(struct far *far, struct far_mask *mask, cudaStream_t stream);
bool far_ready(const struct far *far, const struct far_mask *mask);
void far_rest(struct far *far, struct far_mask *mask);
/* Make a mask current that is not, at once. Costs what two windows cost; far_warm does so where that is little. */
cudaError_t far_catch_up(struct far *far, struct far_mask *mask, cudaStream_t stream);
/* y[out][i]: frames from `from` on, n of them, all inside tick number far->step; of n_groups groups of NEAR_OUTS outputs. */
cudaError_t far_play(struct far *far, struct far_mask *mask, const float *ring, unsigned ring_mask, int64_t from, int n,
                     float *y, size_t y_pitch, int first_group, int n_groups, cudaStream_t stream);

#endif
