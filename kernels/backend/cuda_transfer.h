/* cuda_transfer - copies the frames of a call between a buffer in host memory and the device. Picture in
 * cuda_transfer.cu. An upload writes to the ring from frame s->total on; the caller advances s->total. */
#ifndef HALOCONV_CUDA_TRANSFER_H
#define HALOCONV_CUDA_TRANSFER_H

#include "cuda_live.h"
#include "dsp/base/error.h"

size_t cuda_receive_bytes(const struct cuda_live *s); /* the size of the receive buffer; 0: not needed              */
cudaError_t cuda_transfer_load(void);           /* before the first launch on a device                        */
/* Sets s->out_overlapped; makes the events and, if transfers overlap, the streams up and down. Reads s->receive, which
 * the caller sets. */
int cuda_transfer_open(struct cuda_live *s, struct reason *why);
void cuda_transfer_close(struct cuda_live *s);  /* destroys these events and streams                          */

/* Uploads all inputs by a kernel, in s->audio. */
int cuda_upload(struct cuda_live *s, const struct io_buffer *buffer, int n, struct reason *why);

/* The progress of a large block, up and down, in chunks. */
struct transfer {
    int loaded;             /* chunks of the parallel copy that are in the buffer, max. COPY_CHUNKS        */
    int up;                 /* chunks of the input that are on their way to the ring                       */
    int n_channels;         /* inputs that are in the ring when the next kernel in s->audio runs           */
    int down, reported;     /* output chunks that are on their way; reported to the copy threads           */
};

/* The number of chunks of a block of n_channels. */
int cuda_chunks_of(const struct cuda_live *s, int n_channels);
/* Uploads the next chunk, or all, through the receive buffer. */
int cuda_upload_chunk(struct cuda_live *s, const struct io_buffer *buffer, int n, struct transfer *transfer,
                      struct reason *why);
int cuda_upload_overlapped(struct cuda_live *s, const struct io_buffer *buffer, int n, struct reason *why);
/* If s->out_overlapped: downloads n frames of outputs [ch, end) from wet[0] to the buffer, behind the work in s->audio.
 * Records the event `arrived` behind the copy. */
int cuda_download_overlapped(struct cuda_live *s, struct io_buffer *buffer, int n, int ch, int end, cudaEvent_t arrived,
                             struct reason *why);

#endif
