/* cuda_live - the CUDA backend for live blocks: the state of an engine and a mask on a device.
 *
 *   cuda_live      open, close, reset, masks, and process, which calls the files below
 *   cuda_transfer  copies frames between a buffer and the device; makes buffers
 *   tail_levels    convolves: the input history, the head, the tail levels; tail_masks makes their masks
 *
 * Words: up is from the host to the device, down is back. A chunk is a range of the channels of a large block; each
 * chunk is one transfer. struct io_buffer is the host's buffers of one call.
 */
#ifndef HALOCONV_CUDA_LIVE_H
#define HALOCONV_CUDA_LIVE_H

#include "dsp/device/backend.h"
#include "device_memory.h"
#include "tail_levels.h"

#include <cuda_runtime.h>
#include <stdint.h>

enum { MAX_TRANSFER_CHUNKS = 16 }; /* max. chunks of a large block, each way                                    */

struct cuda_live {
    int device;
    const struct plan *plan;
    int n_in, n_out;
    cudaStream_t audio, setup;
    cudaStream_t up, down;   /* used only if transfers overlap the tail levels' steps                          */
    cudaEvent_t done;        /* the output of the call is in its buffer                                        */
    cudaEvent_t chunk_up[MAX_TRANSFER_CHUNKS];   /* the chunk is in the receive buffer                         */
    cudaEvent_t chunk_down[MAX_TRANSFER_CHUNKS]; /* the chunk is in the buffer                                 */
    void *memory;            /* device memory; the pointers below point into it                                */
    float *wet[2];           /* [n_out][block]: the outputs of the masks `to` and `from` of a fade             */
    float *receive;          /* [n_in][block]: a large block, before its copy to the ring; NULL: unused        */
    bool out_overlapped;     /* true: a copy engine moves wet[0] to the host; false: a kernel writes it there  */
    int64_t total;           /* frames in the input history                                                    */
    int64_t rested_us;       /* when process_behind returned last                                              */
    struct gpu_tail tail;
};

struct cuda_live_mask {
    struct gpu_tail_mask tail;
    int needs[MAX_TRANSFER_CHUNKS]; /* [i]: chunks 0 ... i of the output need inputs [0, needs[i])             */
};

/* As in struct backend. */
int cuda_live_open(const hc_config *config, const struct plan *plan, int device, void **state, struct reason *why);
void cuda_live_close(void *state);
int cuda_live_buffer_make(void *state, struct io_buffer *buffer, struct reason *why);
void cuda_live_buffer_free(void *state, struct io_buffer *buffer);
int cuda_live_mask_make(void *state, const struct matrix *matrix, void **mask, struct reason *why);
void cuda_live_mask_free(void *state, void *mask);
/* Makes a mask of noise or, if noise is NULL, of matrix->taps. */
int cuda_live_mask_make_noise(void *state, const struct matrix *matrix, const struct noise *noise, void **mask,
                              struct reason *why);
void cuda_live_mask_prepare(void *state, void *mask);
bool cuda_live_mask_ready(void *state, const void *mask);
void cuda_live_mask_retire(void *state, void *mask);
int cuda_live_process(void *state, struct io_buffer *buffer, int n, const struct fade *fade, struct reason *why);
void cuda_live_process_behind(void *state);
int cuda_live_reset(void *state, struct reason *why);

#endif
