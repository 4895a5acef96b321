/* cuda_transfer - copies the frames of a call between a buffer in host memory and the device.
 *
 *                   up                                                down
 *   a small block   buffer -- fetch -> ring                               written in the buffer
 *   a large block   buffer -- copy engine -> receive -- spread -> ring    wet -- copy engine -> buffer
 *
 * The transfer of a large block is overlapped with the steps of the tail levels.
 */
#include "cuda_transfer.h"

#include "cuda_error.h"
#include "kernels_load.h"
#include "partition.h"

#include <string.h>

/* The transfer of an input or output of at least OVERLAPPED_BYTES overlaps the tail levels' steps. At 64 frames and
 * 16,384 channels the overlap would delay the output by 30 us; at 32,768 channels it makes no difference; 65,536
 * channels need it. Tests on the CPU define a smaller value. */
#ifndef OVERLAPPED_BYTES
#define OVERLAPPED_BYTES (8 << 20)
#endif
enum {
    CHUNK_BYTES = 512 << 10 /* bytes of a chunk, each way: 10 us of the bus; max. MAX_TRANSFER_CHUNKS chunks */
};

/* ---- kernels ----------------------------------------------------------------------------------------------------- */

/* ring[ch][at + i] = in[ch][i], read from the host's pinned memory. grid: channels x frames */
static __global__ void fetch(float *ring, unsigned ring_mask, unsigned at, const float *in, size_t pitch, int n)
{
    const int i = blockIdx.y * blockDim.x + threadIdx.x;
    if (i < n) ring[blockIdx.x * ((size_t)ring_mask + 1) + ((at + i) & ring_mask)] = in[blockIdx.x * pitch + i];
}

/* Does the same as fetch from device memory, for many channels. A block copies ROWS channels, a thread one T (16 or 4
 * bytes) at a time. All counts are in units of T. */
enum { ROWS = 16, ROW_THREADS = 16 };
template <class T>
static __global__ void __launch_bounds__(ROWS * ROW_THREADS) spread(T *ring, unsigned ring_mask, unsigned at,
                                                                    const T *in, size_t pitch, int n, int n_ch)
{
    const int ch = blockIdx.x * ROWS + threadIdx.y;
    if (ch >= n_ch) return;
    for (int i = threadIdx.x; i < n; i += ROW_THREADS)
        ring[ch * ((size_t)ring_mask + 1) + ((at + i) & ring_mask)] = in[ch * pitch + i];
}

cudaError_t cuda_transfer_load(void) { return kernels_load(fetch, spread<float>, spread<float4>); }

/* ---- set-up ------------------------------------------------------------------------------------------------------ */

size_t cuda_receive_bytes(const struct cuda_live *s)
{
    const size_t bytes = (size_t)s->n_in * s->plan->block * sizeof(float);
    return bytes >= OVERLAPPED_BYTES ? bytes : 0;
}

/* Makes both streams. If only the input or only the output is large (rare), one stream has no work. */
static int overlapped_open(struct cuda_live *s, struct reason *why)
{
    PASS(live_stream_make(&s->up, true, why));
    PASS(live_stream_make(&s->down, true, why));
    for (int i = 0; i < MAX_TRANSFER_CHUNKS; i++)
        TRY(cudaEventCreateWithFlags(&s->chunk_up[i], cudaEventDisableTiming), "cudaEventCreateWithFlags");
    return HC_OK;
}

int cuda_transfer_open(struct cuda_live *s, struct reason *why)
{
    for (int i = 0; i < MAX_TRANSFER_CHUNKS; i++)
        TRY(cudaEventCreateWithFlags(&s->chunk_down[i], cudaEventDisableTiming), "cudaEventCreateWithFlags");
    s->out_overlapped = (size_t)s->n_out * s->plan->block * sizeof(float) >= OVERLAPPED_BYTES;
    if (s->receive || s->out_overlapped) PASS(overlapped_open(s, why));
    return HC_OK;
}

void cuda_transfer_close(struct cuda_live *s)
{
    for (int i = 0; i < MAX_TRANSFER_CHUNKS; i++) {
        if (s->chunk_up[i]) cudaEventDestroy(s->chunk_up[i]);
        if (s->chunk_down[i]) cudaEventDestroy(s->chunk_down[i]);
    }
    if (s->down) cudaStreamDestroy(s->down);
    if (s->up) cudaStreamDestroy(s->up);
}

/* ---- buffers: pinned, so that copies overlap kernels ------------------------------------------------------------- */

void cuda_live_buffer_free(void *state, struct io_buffer *buffer)
{
    cudaSetDevice(((const struct cuda_live *)state)->device);
    device_free_host(buffer->in);
    device_free_host(buffer->out);
    buffer->in = buffer->out = NULL;
}

/* The driver allocates both buffers, because kernels read and write them. */
static int buffer_alloc(struct cuda_live *s, struct io_buffer *buffer, struct reason *why)
{
    const size_t in_bytes = (size_t)s->n_in * s->plan->block * sizeof(float);
    const size_t out_bytes = (size_t)s->n_out * s->plan->block * sizeof(float);
    TRY(cudaSetDevice(s->device), "cudaSetDevice(%d)", s->device);
    PASS(device_alloc_host((void **)&buffer->in, in_bytes, why));
    return device_alloc_host((void **)&buffer->out, out_bytes, why);
}

int cuda_live_buffer_make(void *state, struct io_buffer *buffer, struct reason *why)
{
    buffer->in = buffer->out = NULL;
    int rc = buffer_alloc((struct cuda_live *)state, buffer, why);
    if (rc < 0) cuda_live_buffer_free(state, buffer);
    return rc;
}

/* ---- whole blocks ------------------------------------------------------------------------------------------------ */

int cuda_chunks_of(const struct cuda_live *s, int n_channels)
{
    const size_t n = (size_t)n_channels * s->plan->block * sizeof(float) / CHUNK_BYTES;
    return n < 1 ? 1 : n > MAX_TRANSFER_CHUNKS ? MAX_TRANSFER_CHUNKS : (int)n;
}

/* Uploads n frames of inputs [ch, end) by a kernel. */
static int fetch_channels(struct cuda_live *s, const struct io_buffer *buffer, int n, int ch, int end,
                          struct reason *why)
{
    const size_t block = (size_t)s->plan->block;
    float *ring = s->tail.ring + ch * ((size_t)s->tail.ring_mask + 1);
    fetch<<<dim3(end - ch, (n + 127) / 128), 128, 0, s->audio>>>(ring, s->tail.ring_mask, (unsigned)s->total,
                                                                 buffer->in + ch * block, block, n);
    TRY(cudaGetLastError(), "fetching the input");
    return HC_OK;
}

int cuda_upload(struct cuda_live *s, const struct io_buffer *buffer, int n, struct reason *why)
{
    if (!buffer->copy) return fetch_channels(s, buffer, n, 0, s->n_in, why);
    const int chunks = cuda_chunks_of(s, s->n_in);
    for (int i = 0, loaded = 0, ch = 0; i < chunks && loaded < COPY_CHUNKS; i++) {
        while (loaded < COPY_CHUNKS * (i + 1) / chunks) loaded = parallel_copy_loaded(buffer->copy, loaded);
        const int end = (int)((int64_t)s->n_in * loaded / COPY_CHUNKS);
        if (end > ch) PASS(fetch_channels(s, buffer, n, ch, end, why));
        ch = end;
    }
    return HC_OK;
}

/* ---- large blocks, overlapped with the tail levels --------------------------------------------------------------- */

/* A copy engine copies n frames of channels [ch, end). Both sides have rows of `block` frames. */
static int rows_copy(const struct cuda_live *s, float *to, const float *from, int ch, int end, int n,
                     enum cudaMemcpyKind kind, cudaStream_t stream, struct reason *why)
{
    const size_t block = (size_t)s->plan->block, at = ch * block, pitch = block * sizeof(float);
    if ((size_t)n == block)
        TRY(cudaMemcpyAsync(to + at, from + at, (end - ch) * pitch, kind, stream), "cudaMemcpyAsync(%zu)",
            (end - ch) * pitch);
    else
        TRY(cudaMemcpy2DAsync(to + at, pitch, from + at, pitch, n * sizeof(float), end - ch, kind, stream),
            "cudaMemcpy2DAsync(%zu)", n * sizeof(float));
    return HC_OK;
}

/* The copy to the receive buffer overlaps the last step of the tail levels. The copy to the ring follows that step in
 * s->audio, so it does not overwrite data that the step reads. The receive buffer is free, because the previous call
 * has ended. */
int cuda_upload_chunk(struct cuda_live *s, const struct io_buffer *buffer, int n, struct transfer *transfer,
                      struct reason *why)
{
    const int chunks = cuda_chunks_of(s, s->n_in), i = transfer->up++, first = transfer->n_channels;
    const int share = COPY_CHUNKS * (i + 1) / chunks;
    while (buffer->copy && transfer->loaded < share)
        transfer->loaded = parallel_copy_loaded(buffer->copy, transfer->loaded);
    const int64_t loaded = transfer->loaded > share ? transfer->loaded : share;
    const int end = transfer->n_channels = (int)(s->n_in * loaded / COPY_CHUNKS);
    if (end == first) return HC_OK;
    PASS(rows_copy(s, s->receive, buffer->in, first, end, n, cudaMemcpyHostToDevice, s->up, why));
    TRY(cudaEventRecord(s->chunk_up[i], s->up), "cudaEventRecord");
    TRY(cudaStreamWaitEvent(s->audio, s->chunk_up[i], 0), "cudaStreamWaitEvent");
    const unsigned at = (unsigned)s->total & s->tail.ring_mask, blocks = (end - first + ROWS - 1) / ROWS;
    const size_t block = (size_t)s->plan->block;
    const dim3 threads(ROW_THREADS, ROWS);
    float *ring = s->tail.ring + first * ((size_t)s->tail.ring_mask + 1);
    const float *in = s->receive + first * block;
    if (n % 4 == 0 && at % 4 == 0 && block % 4 == 0)
        spread<<<blocks, threads, 0, s->audio>>>((float4 *)ring, s->tail.ring_mask / 4, at / 4, (const float4 *)in,
                                                 block / 4, n / 4, end - first);
    else
        spread<<<blocks, threads, 0, s->audio>>>(ring, s->tail.ring_mask, at, in, block, n, end - first);
    TRY(cudaGetLastError(), "copying the input to the ring");
    return HC_OK;
}

int cuda_upload_overlapped(struct cuda_live *s, const struct io_buffer *buffer, int n, struct reason *why)
{
    struct transfer transfer = {};
    while (transfer.n_channels < s->n_in) PASS(cuda_upload_chunk(s, buffer, n, &transfer, why));
    return HC_OK;
}

int cuda_download_overlapped(struct cuda_live *s, struct io_buffer *buffer, int n, int ch, int end, cudaEvent_t arrived,
                             struct reason *why)
{
    TRY(cudaEventRecord(arrived, s->audio), "cudaEventRecord");
    TRY(cudaStreamWaitEvent(s->down, arrived, 0), "cudaStreamWaitEvent");
    PASS(rows_copy(s, buffer->out, s->wet[0], ch, end, n, cudaMemcpyDeviceToHost, s->down, why));
    TRY(cudaEventRecord(arrived, s->down), "cudaEventRecord");
    return HC_OK;
}
