/* cuda_state - the structs that the CUDA backend's files share: the state of an engine and of a mask on a device.
 *
 *   cuda_backend     struct backend: open, close, reset, and process, which calls the files below
 *   cuda_masks       makes masks, on stream `setup`
 *   cuda_partitions  the calls of a plan without tail levels
 *   cuda_files       the same, with several calls under way
 *   cuda_tail        the masks and calls of a plan with tail levels
 *   cuda_transfer    copies frames between a slot and the device; makes slots
 *
 * The functions that these files call of one another start with cuda_.
 *
 * Words: up is from the host to the device, down is back. A chunk is a range of the channels of a large block, which
 * goes up or down as one. A part is a partition of a response. struct slot is the host's buffers of one call; a place
 * is one of the queue_depth sets of device buffers that the calls of a file take in turn. `slot` and `n_slots` of
 * spectra are the slots of an FDL, as in dsp/cpu/fdl.h.
 */
#ifndef HALOCONV_CUDA_STATE_H
#define HALOCONV_CUDA_STATE_H

#include "dsp/device/backend.h"
#include "device_memory.h"
#include "tail_levels.h"

#include <cuda_runtime.h>
#include <stdint.h>

enum {
    QUEUE_DEPTH_MOST = 16,    /* calls of a file that are under way                                            */
    TRANSFER_CHUNKS_MOST = 16 /* of a large block, each way                                                    */
};

struct state {
    int device, n_sm;
    const struct plan *plan;
    int n_in, n_out;
    cudaStream_t audio, setup;
    cudaStream_t up, down;   /* if queue_depth > 1 or blocks are overlapped; cuda_close destroys them          */
    cudaEvent_t done;        /* the output of the call is in its slot                                          */
    cudaEvent_t chunk_up[TRANSFER_CHUNKS_MOST];   /* the chunk is in the receive buffer                        */
    cudaEvent_t chunk_down[TRANSFER_CHUNKS_MOST]; /* the chunk is in the slot                                  */
    int queue_depth;         /* calls that may be under way: 2 to QUEUE_DEPTH_MOST for a file, else 1          */
    cudaEvent_t uploaded[QUEUE_DEPTH_MOST], played[QUEUE_DEPTH_MOST],
        downloaded[QUEUE_DEPTH_MOST]; /* for the call at each place; if queue_depth > 1                        */
    uint64_t n_begun, n_ended; /* calls of a file                                                              */
    void *memory;            /* device memory; all below points into it                                        */
    float *ring;             /* [n_in][ring_length], frame f at f & (ring_length - 1)                          */
    unsigned ring_length;
    float *wet[2];           /* [n_out][block]: the outputs of the masks `to` and `from` of a fade             */
    float *receive;          /* [n_in][block]: receive buffer of a large block, copied on to the ring; NULL: none */
    bool out_overlapped;     /* a copy engine copies the output from wet[0] to its slot                        */
    float *wets;             /* [queue_depth][n_out][block]: outputs on their way down; if queue_depth > 1     */
    int in_samples, out_samples; /* enum hc_samples                                                            */
    size_t raw_in_bytes, raw_out_bytes;
    char *raw_in, *raw_out;  /* [queue_depth][raw_..._bytes]: samples as the file has them; NULL: planar       */
    struct slot_seen *seen;  /* [queue_depth]; NULL: all planar                                                */
    void *fir_scratch;
    float2 *twiddles;        /* [P]; NULL, as all below down to `staging`, if plan->direct                     */
    float2 *spectra;         /* [n_in][n_slots][P], the FDL: block b of an input at b % n_slots                */
    int n_slots;
    float2 *sums;            /* [sums_room][P]: output spectra before the inverse                              */
    size_t sums_room;
    float *staging;          /* `half` bytes: partitions that become spectra; stream setup                     */
    char *pinned;            /* [2][half], host memory: masks are packed there; NULL with tail levels          */
    size_t half;             /* bytes; a power of two                                                          */
    cudaEvent_t half_sent[2]; /* the copies from a half are done                                               */
    int64_t total;           /* frames in the input history                                                    */
    int64_t n_spectra;       /* blocks whose spectra were made                                                 */
    int resets;              /* calls of reset, and 1                                                          */
    struct gpu_tail *tail;   /* NULL = a plan without tail levels                                              */
    struct device_store store; /* memory of masks; set-up only                                                 */
};

struct mask {
    void *memory;            /* device; all below points into it                                               */
    size_t bytes;
    struct gpu_tail_mask tail; /* only this and `needs` are used with tail levels, and neither without         */
    int needs[TRANSFER_CHUNKS_MOST]; /* chunks 0 ... i of the output need inputs [0, needs[i])                 */
    float *taps;             /* the first P taps (direct: all) of each response, each padded to FIR_PAD        */
    int *first_cell;         /* [n_out + 1]: cells of an output                                                */
    struct fir_cell *fir_cells;   /* [n_cells]                                                                 */
    struct part_cell *part_cells; /* [n_cells]                                                                 */
    float2 *spectra;         /* responses one after another, [n_parts][P] each                                 */
    float *due;              /* [n_out][P]: the sum of partitions 1 ... for block due_block                    */
    int64_t due_block;
    int due_resets;          /* state.resets when `due` was made                                               */
    int max_taps, max_cells; /* of one output                                                                */
    int max_parts;           /* of one response                                                                */
};

/* The place of the call that begins now. */
static inline int queue_place(const struct state *s) { return (int)(s->n_begun % s->queue_depth); }

#endif
