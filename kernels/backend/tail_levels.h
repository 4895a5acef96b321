/* tail_levels - live convolution on the device: the input history, the head and the tail levels of a plan, and the
 * schedule of the levels' slices. A plan without tail levels has one level of the size of a hop, P; a direct plan has
 * no level. A plan with whole_hops has a last level for its first partition, which runs inside the call, not in steps.
 *
 * A level of partition size S has a spectrum for each window, the 2S frames of an overlap-save block:
 *
 *   window j of a level   frames (j-2) S ... j S - 1, complete after hop j m - 1, where m = S / hop
 *   work on a window      [ forward: inputs | products: units | inverse: outputs ]   cut into m slices of equal cost
 *   step w                runs behind hop w - 1: slice w % m of window w / m of each level
 *   output of window j    S frames from frame (j+1) S - hop on, due from the hop after step j m + m - 1 on
 *
 * The forward transforms are part of the state and serve all masks. Products and inverses run for each prepared mask:
 * at most for one that plays and one that fades in or out or is being prepared. The host computes from counts what to
 * launch; it reads nothing back from the device and does not wait.
 */
#ifndef HALOCONV_TAIL_LEVELS_H
#define HALOCONV_TAIL_LEVELS_H

#include "dsp/device/backend.h"
#include "tail_product.h"
#include "head.h"

#include <stdint.h>

enum { TAIL_PREPARED = 2 };  /* max. masks that are prepared at once                                                */

struct gpu_tail_level {
    int offset, size, log2_size, n_parts;
    int n_slices;            /* m                                                                                   */
    double forward_share;    /* share of the forward transforms in the work, 0 to 1                                 */
    int n_entries;           /* n_parts + 1: gpu_tail_catch_up (tail_levels.cu) also reads the window before        */
    float2 *tw;              /* a table of fft_factors.h                                                            */
    float2 *spectra;         /* [n_in][n_entries][S]: window j at entry j % n_entries                               */
};

struct gpu_tail {            /* the head and the tail levels of a state                                             */
    int n_in, n_out, n_sm;
    int hop;                 /* frames; a call is cut at hops. Without levels: more than a call                     */
    int head_taps;           /* taps computed in the time domain: level[0] starts behind them                       */
    int n_levels;
    int n_behind;            /* levels that run in steps; with whole_hops, level[n_behind] is the first partition   */
    struct gpu_tail_level level[TAIL_LEVELS];
    int64_t step;            /* steps since the stream began, one for each complete hop                             */
    int64_t whole_step;      /* whole_hops: the step whose hop is transformed                                       */
    int n_whole;             /* whole_hops: number of inputs that are transformed                                   */
    struct gpu_tail_mask *prepared[TAIL_PREPARED];
    float *ring;             /* the input history: [n_in][ring_mask + 1], frame f at f & ring_mask                  */
    unsigned ring_mask;
    size_t y_pitch;          /* floats between the rows of outputs: the plan's block                                */
    void *scratch;           /* scratch of the head kernel or, without levels, of the FIR kernel                    */
    /* Buffers for a batch of responses, from which a mask's spectra are computed; for stream `setup`.              */
    int rows;                /* responses of a batch                                                                */
    size_t pitch;            /* floats of a row                                                                     */
    float *taps;             /* [rows][pitch]                                                                       */
    float *envelope;         /* [pitch]: the envelope of noise                                                      */
    int *counts;             /* [n_levels][2][rows]: a response's number of parts; the index of its first part      */
    void *pinned;            /* gpu_tail_pinned_bytes of host memory, for all uploads                               */
};

struct gpu_tail_mask_level {
    int64_t from_window;     /* the first window that contains the whole mask                                       */
    double product_share;    /* share of the products in the work behind the forward transforms, 0 to 1             */
    int max_terms, max_parts;
    struct tail_terms *terms;
    int *first_term;         /* [n_groups + 1]                                                                      */
    float2 *spectra;         /* responses one after another, [n_parts][S] each                                      */
    float2 *sums;            /* [n_out][S]                                                                          */
    float *due;              /* [n_out][2S]                                                                         */
};

struct gpu_tail_mask {
    void *memory;            /* device; the pointers below point into it                                            */
    int n_groups, n_chunks, max_terms;
    size_t spectra_bytes;
    struct head_terms *head_terms;   /* NULL for a mask with cells                                                  */
    struct fir_cell *head_cells;     /* cells of a sparse mask (head_is_sparse) or a plan without levels; else NULL */
    int *head_first;         /* first_term or first_cell of the head, whichever is used                             */
    int max_taps, max_cells; /* max. of one output, as in fir_job; used only without levels                         */
    float *head_taps;        /* [n_responses][n_chunks * HEAD_CHUNK]                                                */
    struct gpu_tail_mask_level level[TAIL_LEVELS];
};

#define TAIL_TRY(call)                                    \
    do {                                                  \
        const cudaError_t tail_error = (call);            \
        if (tail_error != cudaSuccess) return tail_error; \
    } while (0)

/* Set-up. gpu_tail_open does not use a device. gpu_tail_cut lays out memory at base, or with NULL only counts, and
 * returns the size. */
int gpu_tail_open(struct gpu_tail *tail, const struct plan *plan, const hc_config *config, int n_sm,
                  struct reason *why);
size_t gpu_tail_cut(struct gpu_tail *tail, void *base);
size_t gpu_tail_pinned_bytes(const struct gpu_tail *tail);
cudaError_t gpu_tail_load(struct gpu_tail *tail, cudaStream_t stream); /* loads kernels, fills tables */

/* The products' share of the work on a mask's window, from the partitions of all responses and of all inputs. */
double gpu_tail_product_share(double cell_parts, double input_parts, int n_out);

/* Calls from the engine thread. The stream orders all work. */
cudaError_t gpu_tail_reset(struct gpu_tail *tail, cudaStream_t stream);
cudaError_t gpu_tail_step(struct gpu_tail *tail, cudaStream_t stream);
cudaError_t gpu_tail_prepare(struct gpu_tail *tail, struct gpu_tail_mask *mask, cudaStream_t stream);
bool gpu_tail_ready(const struct gpu_tail *tail, const struct gpu_tail_mask *mask);
void gpu_tail_retire(struct gpu_tail *tail, struct gpu_tail_mask *mask);
/* Writes n frames from frame `from` on to y[out][i], for n_groups groups of HEAD_OUTS outputs. All frames are inside
 * hop number tail->step. n_needed: number of inputs that these outputs need; the inputs are in the ring. */
cudaError_t gpu_tail_play(struct gpu_tail *tail, struct gpu_tail_mask *mask, int64_t from, int n, float *y,
                          int first_group, int n_groups, int n_needed, cudaStream_t stream);

#endif
