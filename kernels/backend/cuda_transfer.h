/* cuda_transfer - copies the frames of a call between a slot in host memory and the device. Picture in
 * cuda_transfer.cu. An upload writes to the ring from frame s->total on; the caller advances s->total. */
#ifndef HALOCONV_CUDA_TRANSFER_H
#define HALOCONV_CUDA_TRANSFER_H

#include "cuda_live.h"
#include "dsp/base/error.h"

size_t cuda_receive_bytes(const struct state *s); /* the size of the receive buffer; 0: the plan needs none     */
cudaError_t cuda_transfer_load(void);           /* before the first launch on a device                        */
/* Sets s->out_overlapped and makes the events and, for overlapped blocks, the streams up and down. s->receive is set
 * before. */
int cuda_transfer_open(struct state *s, struct reason *why);
void cuda_transfer_close(struct state *s);      /* destroys the events                                        */

int cuda_slot_make(void *state, struct slot *slot, struct reason *why);
void cuda_slot_free(void *state, struct slot *slot);

/* True if n frames are so few that starting a copy engine costs more than the copy: then the device reads them from
 * pinned memory and writes the output there. */
bool cuda_is_live(const struct state *s, int n);
/* Uploads all inputs, on the stream. live: by a kernel. */
int cuda_upload(struct state *s, const struct slot *slot, int n, bool live, cudaStream_t stream, struct reason *why);
/* Downloads an output whose rows are `block` frames apart, on stream `down`, behind the work in s->audio. */
int cuda_download(struct state *s, const struct slot *slot, const float *wet, int n, cudaStream_t down,
                  struct reason *why);
/* Downloads the struct slot_seen of the block, behind its last kernel. */
int cuda_seen_download(struct state *s, const struct slot *slot, cudaStream_t down, struct reason *why);
/* Sets n frames of each row to 0, on the host. */
void cuda_rows_clear(float *rows, int n_rows, size_t pitch, int n);

/* The progress of a large block, up and down, in chunks. */
struct transfer {
    int loaded;             /* chunks of the parallel copy, of COPY_CHUNKS, that are in the slot           */
    int up;                 /* chunks of the input that are on their way to the ring                       */
    int n_channels;         /* inputs that the next kernel in s->audio finds in the ring                   */
    int down, told;         /* chunks of the output that are on their way; that the copy threads know of   */
};

/* The number of chunks of a block of n_channels. */
int cuda_chunks_of(const struct state *s, int n_channels);
/* Uploads the next chunk, or all, through the receive buffer. */
int cuda_upload_chunk(struct state *s, const struct slot *slot, int n, struct transfer *transfer, struct reason *why);
int cuda_upload_overlapped(struct state *s, const struct slot *slot, int n, struct reason *why);
/* If s->out_overlapped: downloads n frames of outputs [ch, end) from wet[0] to the slot, behind the work in s->audio.
 * Records the event `arrived` behind the copy. */
int cuda_download_overlapped(struct state *s, struct slot *slot, int n, int ch, int end, cudaEvent_t arrived,
                             struct reason *why);

#endif
