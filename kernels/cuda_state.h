/* cuda_state - what the CUDA backend's files share: an engine's state on a device, and a mask's. Private to kernels/.
 *
 *   cuda_backend     the contract with the engine: open, close, reset; which of the files below a call goes to
 *   cuda_masks       masks from the host's memory, on stream `setup`
 *   cuda_partitions  calls of a plan without far levels, and cuda_files: several of them under way
 *   cuda_far         masks and calls of a plan with far levels
 *   cuda_crossing    frames on their way up and down, and the slots that they come from and go to
 *
 * Functions that one of these has for the others are cuda_...
 */
#ifndef HALOCONV_CUDA_STATE_H
#define HALOCONV_CUDA_STATE_H

#include "dsp/engine/backend.h"
#include "device_memory.h"
#include "far_levels.h"

#include <cuda_runtime.h>
#include <stdint.h>

enum {
    FLIGHT_MOST = 16,        /* calls of a file that are under way                                             */
    LANDINGS = 16            /* pieces of a large block                                                        */
};

struct state {
    int device, n_sm;
    const struct plan *plan;
    int n_in, n_out;
    cudaStream_t audio, setup;
    cudaEvent_t done;        /* the output of a call is in its slot                                            */
    cudaEvent_t landing[LANDINGS]; /* the first outputs of a ferry's block are                                  */
    int flight;              /* calls that may be under way: 2 to FLIGHT_MOST for a file, else 1               */
    cudaStream_t up, down;   /* where flight > 1, or beside the far levels; close destroys them                */
    cudaEvent_t sent[FLIGHT_MOST], played[FLIGHT_MOST], landed[FLIGHT_MOST]; /* of call i, at i % flight; flight > 1 */
    uint64_t n_begun, n_ended;
    void *memory;            /* device memory; all below points into it                                        */
    float *ring;             /* [n_in][ring_length], frame f at f & (ring_length - 1)                          */
    unsigned ring_length;
    float *wet[2];           /* [n_out][block]: what `to` and `from` of a fade play                            */
    float *inbox;            /* [n_in][block]: where a large block waits for its place in the ring; NULL: none */
    cudaEvent_t arrived[LANDINGS]; /* the first channels of a large block are there                            */
    bool out_beside;         /* the output goes from wet[0] to its slot by the copy engine                     */
    float *wets;             /* [flight][n_out][block]: what is on its way down; flight > 1                    */
    int in_samples, out_samples; /* enum hc_samples                                                            */
    size_t raw_in_bytes, raw_out_bytes;
    char *raw_in, *raw_out;  /* [flight][raw_..._bytes]: samples as they are in a file; NULL: planar           */
    struct slot_seen *seen;  /* [flight]; NULL: all planar                                                     */
    void *fir_scratch;
    float2 *twiddles;        /* [P]; from here on not for direct                                               */
    float2 *spectra;         /* [n_in][n_slots][P]: block b of an input at slot b % n_slots                    */
    int n_slots;
    float2 *sums;            /* [sums_room][P]: output spectra before the inverse                              */
    size_t sums_room;
    float *staging;          /* [half]: partitions on their way to spectra; stream setup                       */
    char *pinned;            /* [2][half], the host's: what a mask is made of; NULL with far levels            */
    size_t half;             /* bytes: a power of two                                                          */
    cudaEvent_t left[2];     /* what was sent of a half has left it                                            */
    int64_t total;           /* frames in the history                                                          */
    int64_t n_spectra;       /* blocks whose spectra are made                                                  */
    int resets;
    struct far *far;         /* NULL = a plan without far levels                                               */
    struct device_store store; /* memory of masks; set-up only                                                 */
};

struct mask {
    void *memory;            /* device; all below points into it                                               */
    size_t bytes;
    struct far_mask far;     /* with far levels: this, needs, and nothing below                                */
    int needs[LANDINGS];     /* inputs [0, needs[i]) are all that the first pieces of the output, up to the i-th,
                                are made of                                                                    */
    float *taps;             /* the first P taps (direct: all) of each response, each padded to FIR_PAD        */
    int *first;              /* [n_out + 1]: cells of an output                                                */
    struct fir_cell *fir_cells;   /* [n_cells]                                                                 */
    struct part_cell *part_cells; /* [n_cells]                                                                 */
    float2 *spectra;         /* responses one after another, [n_parts][P] each                                 */
    float *tail;             /* [n_out][P]: what partitions 1 ... add to block tail_block                      */
    int64_t tail_block;
    int tail_resets;         /* state.resets when the tail was made                                            */
    int most_taps, most_cells, most_parts; /* of one output, of one output, of one response                    */
};

/* Which of the `flight` places the call that is begun now has. */
static inline int flight_place(const struct state *s) { return (int)(s->n_begun % s->flight); }

#endif
