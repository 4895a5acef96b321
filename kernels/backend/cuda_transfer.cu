/* cuda_transfer - copies the frames of a call between a slot in host memory and the device.
 *
 *                   up                                                down
 *   few frames      slot -- fetch -> ring                               written in the slot
 *   more            slot -- copy engine -> ring                         wet -- copy engine -> slot
 *   a large block   slot -- copy engine -> receive -- spread -> ring    wet -- copy engine -> slot
 *   raw samples     slot -- copy engine -> raw_in -- pcm -> ring        wet -- pcm -> raw_out -- copy engine -> slot
 *
 * With tail levels, the transfer of a large block is overlapped with their steps; every other block takes the way of
 * few frames. Raw samples, which are not planar floats, cross the bus as the file has them (pcm.h).
 */
#include "cuda_transfer.h"

#include "cuda_error.h"
#include "kernels_load.h"
#include "pcm.h"
#include "pinned_memory.h"

#include <string.h>

/* The transfer of an input or output of at least so many bytes is overlapped with the tail levels. At 64 frames and
 * 16,384 channels the overlap would delay the output by 30 us; at 32,768 channels it makes no difference; 65,536
 * channels need it. Tests on the CPU set less. */
#ifndef OVERLAPPED_BYTES
#define OVERLAPPED_BYTES (8 << 20)
#endif
enum {
    LIVE_FLOATS = 16384,    /* a call of up to so many samples (64 KiB), in and out together, makes no copies */
    CHUNK_BYTES = 512 << 10 /* of a large block, each way: 10 us of the bus; but at most TRANSFER_CHUNKS_MOST */
};

/* ---- kernels ----------------------------------------------------------------------------------------------------- */

/* ring[ch][at + i] = in[ch][i], read from the host's pinned memory. grid: channels x frames */
static __global__ void fetch(float *ring, unsigned ring_mask, unsigned at, const float *in, size_t pitch, int n)
{
    const int i = blockIdx.y * blockDim.x + threadIdx.x;
    if (i < n) ring[blockIdx.x * ((size_t)ring_mask + 1) + ((at + i) & ring_mask)] = in[blockIdx.x * pitch + i];
}

/* The same, with `in` in device memory, for many channels: ROWS of them a block, 16 or 4 bytes a thread. All counts are
 * of T. */
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

size_t cuda_receive_bytes(const struct state *s)
{
    const size_t bytes = (size_t)s->n_in * s->plan->block * sizeof(float);
    return s->tail && bytes >= OVERLAPPED_BYTES ? bytes : 0;
}

/* Makes both streams. If only the input or only the output is large, which is rare, one stream has no work. */
static int overlapped_open(struct state *s, struct reason *why)
{
    int least, greatest;
    TRY(cudaDeviceGetStreamPriorityRange(&least, &greatest), "cudaDeviceGetStreamPriorityRange");
    TRY(cudaStreamCreateWithPriority(&s->up, cudaStreamNonBlocking, greatest), "cudaStreamCreateWithPriority");
    TRY(cudaStreamCreateWithPriority(&s->down, cudaStreamNonBlocking, greatest), "cudaStreamCreateWithPriority");
    for (int i = 0; i < TRANSFER_CHUNKS_MOST; i++)
        TRY(cudaEventCreateWithFlags(&s->chunk_up[i], cudaEventDisableTiming), "cudaEventCreateWithFlags");
    return HC_OK;
}

int cuda_transfer_open(struct state *s, struct reason *why)
{
    for (int i = 0; i < TRANSFER_CHUNKS_MOST; i++)
        TRY(cudaEventCreateWithFlags(&s->chunk_down[i], cudaEventDisableTiming), "cudaEventCreateWithFlags");
    s->out_overlapped = s->tail && (size_t)s->n_out * s->plan->block * sizeof(float) >= OVERLAPPED_BYTES;
    if (s->receive || s->out_overlapped) PASS(overlapped_open(s, why));
    return HC_OK;
}

void cuda_transfer_close(struct state *s)
{
    for (int i = 0; i < TRANSFER_CHUNKS_MOST; i++) {
        if (s->chunk_up[i]) cudaEventDestroy(s->chunk_up[i]);
        if (s->chunk_down[i]) cudaEventDestroy(s->chunk_down[i]);
    }
}

/* ---- slots: pinned, so that copies overlap kernels --------------------------------------------------------------- */

void cuda_slot_free(void *state, struct slot *slot)
{
    const struct state *s = (const struct state *)state;
    cudaSetDevice(s->device);
    if (s->queue_depth == 1) {
        cudaFreeHost(slot->in);
        cudaFreeHost(slot->out);
    } else {
        pinned_free(slot->in);
        pinned_free(slot->out);
        pinned_free(slot->seen);
    }
    slot->in = slot->out = NULL;
    slot->seen = NULL;
}

static int slot_alloc(struct state *s, struct slot *slot, struct reason *why)
{
    const size_t n_in = (size_t)s->n_in * s->plan->block, n_out = (size_t)s->n_out * s->plan->block;
    TRY(cudaSetDevice(s->device), "cudaSetDevice(%d)", s->device);
    if (s->queue_depth == 1) { /* live: kernels read and write the slot, so the driver allocates it */
        TRY(cudaHostAlloc((void **)&slot->in, n_in * sizeof(float), cudaHostAllocDefault), "cudaHostAlloc(%zu)", n_in);
        TRY(cudaHostAlloc((void **)&slot->out, n_out * sizeof(float), cudaHostAllocDefault), "cudaHostAlloc(%zu)",
            n_out);
        memset(slot->in, 0, n_in * sizeof(float));
        memset(slot->out, 0, n_out * sizeof(float));
        return HC_OK;
    }
    PASS(pinned_alloc((void **)&slot->in, n_in * samples_bytes(s->in_samples), why));
    PASS(pinned_alloc((void **)&slot->out, n_out * samples_bytes(s->out_samples), why));
    if (s->in_samples || s->out_samples) PASS(pinned_alloc((void **)&slot->seen, sizeof *slot->seen, why));
    return HC_OK;
}

int cuda_slot_make(void *state, struct slot *slot, struct reason *why)
{
    slot->in = slot->out = NULL;
    slot->seen = NULL;
    int rc = slot_alloc((struct state *)state, slot, why);
    if (rc < 0) cuda_slot_free(state, slot);
    return rc;
}

/* ---- whole blocks ------------------------------------------------------------------------------------------------ */

bool cuda_is_live(const struct state *s, int n)
{
    return (size_t)n * (s->n_in + s->n_out) <= LIVE_FLOATS && !s->seen;
}

int cuda_chunks_of(const struct state *s, int n_channels)
{
    const size_t n = (size_t)n_channels * s->plan->block * sizeof(float) / CHUNK_BYTES;
    return n < 1 ? 1 : n > TRANSFER_CHUNKS_MOST ? TRANSFER_CHUNKS_MOST : (int)n;
}

/* Uploads n frames of inputs [ch, end) by a kernel. */
static int fetch_channels(struct state *s, const struct slot *slot, int n, int ch, int end, cudaStream_t stream,
                          struct reason *why)
{
    const size_t block = (size_t)s->plan->block;
    fetch<<<dim3(end - ch, (n + 127) / 128), 128, 0, stream>>>(s->ring + (size_t)ch * s->ring_length,
                                                               s->ring_length - 1, (unsigned)s->total,
                                                               slot->in + ch * block, block, n);
    TRY(cudaGetLastError(), "fetching the input");
    return HC_OK;
}

static int upload_raw(struct state *s, const struct slot *slot, int n, cudaStream_t stream, struct reason *why)
{
    char *raw = s->raw_in + queue_place(s) * s->raw_in_bytes;
    const size_t bytes = (size_t)n * s->n_in * samples_bytes(s->in_samples);
    TRY(cudaMemcpyAsync(raw, slot->in, bytes, cudaMemcpyHostToDevice, stream), "cudaMemcpyAsync(%zu)", bytes);
    const struct pcm_decode job = {s->in_samples, raw, s->n_in, n, s->ring, s->ring_length - 1, (unsigned)s->total,
                                   s->seen + queue_place(s)};
    TRY(pcm_decode_launch(&job, stream), "decoding the input");
    return HC_OK;
}

int cuda_upload(struct state *s, const struct slot *slot, int n, bool live, cudaStream_t stream, struct reason *why)
{
    if (s->seen) TRY(cudaMemsetAsync(s->seen + queue_place(s), 0, sizeof *s->seen, stream), "cudaMemsetAsync");
    if (s->raw_in) return upload_raw(s, slot, n, stream, why);
    const int chunks = slot->copy ? cuda_chunks_of(s, s->n_in) : 0;
    for (int i = 0, loaded = 0, ch = 0; i < chunks && loaded < COPY_CHUNKS; i++) {
        while (loaded < COPY_CHUNKS * (i + 1) / chunks) loaded = parallel_copy_loaded(slot->copy, loaded);
        const int end = (int)((int64_t)s->n_in * loaded / COPY_CHUNKS);
        if (live && end > ch) PASS(fetch_channels(s, slot, n, ch, end, stream, why));
        ch = end;
    }
    if (live) return slot->copy ? HC_OK : fetch_channels(s, slot, n, 0, s->n_in, stream, why);
    const size_t block = (size_t)s->plan->block, pitch = s->ring_length * sizeof(float);
    const unsigned at = (unsigned)s->total & (s->ring_length - 1);
    const size_t room = s->ring_length - at, head = (size_t)n < room ? n : room;
    TRY(cudaMemcpy2DAsync(s->ring + at, pitch, slot->in, block * sizeof(float), head * sizeof(float), s->n_in,
                          cudaMemcpyHostToDevice, stream), "cudaMemcpy2DAsync(%zu)", head * sizeof(float));
    if (head < (size_t)n) /* the rest wraps to the start of the ring */
        TRY(cudaMemcpy2DAsync(s->ring, pitch, slot->in + head, block * sizeof(float), (n - head) * sizeof(float),
                              s->n_in, cudaMemcpyHostToDevice, stream),
            "cudaMemcpy2DAsync(%zu)", (n - head) * sizeof(float));
    return HC_OK;
}

int cuda_download(struct state *s, const struct slot *slot, const float *wet, int n, cudaStream_t down,
                  struct reason *why)
{
    const size_t pitch = s->plan->block * sizeof(float), width = n * sizeof(float);
    char *raw = s->raw_out ? s->raw_out + queue_place(s) * s->raw_out_bytes : NULL;
    if (raw) {
        const struct pcm_encode job = {s->out_samples, wet, (size_t)s->plan->block, s->n_out, n, raw, slot->count_from,
                                       slot->count_to, s->seen + queue_place(s)};
        TRY(pcm_encode_launch(&job, s->audio), "encoding the output");
    }
    if (down != s->audio) {
        TRY(cudaEventRecord(s->played[queue_place(s)], s->audio), "cudaEventRecord");
        TRY(cudaStreamWaitEvent(down, s->played[queue_place(s)], 0), "cudaStreamWaitEvent");
    }
    const size_t bytes = (size_t)n * s->n_out * samples_bytes(s->out_samples);
    if (raw) TRY(cudaMemcpyAsync(slot->out, raw, bytes, cudaMemcpyDeviceToHost, down), "cudaMemcpyAsync(%zu)", bytes);
    else
        TRY(cudaMemcpy2DAsync(slot->out, pitch, wet, pitch, width, s->n_out, cudaMemcpyDeviceToHost, down),
            "cudaMemcpy2DAsync(%zu)", width);
    return HC_OK;
}

int cuda_seen_download(struct state *s, const struct slot *slot, cudaStream_t down, struct reason *why)
{
    if (s->seen)
        TRY(cudaMemcpyAsync(slot->seen, s->seen + queue_place(s), sizeof *s->seen, cudaMemcpyDeviceToHost, down),
            "cudaMemcpyAsync(%zu)", sizeof *s->seen);
    return HC_OK;
}

void cuda_rows_clear(float *rows, int n_rows, size_t pitch, int n)
{
    for (int row = 0; row < n_rows; row++) memset(rows + row * pitch, 0, n * sizeof(float));
}

/* ---- large blocks, overlapped with the tail levels --------------------------------------------------------------- */

/* A copy engine copies n frames of channels [ch, end). Both sides have rows of `block` frames. */
static int rows_copy(const struct state *s, float *to, const float *from, int ch, int end, int n,
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

/* The copy to the receive buffer overlaps the last step of the tail levels. The copy to the ring comes behind that step
 * in s->audio, so it overwrites nothing that the step reads. The receive buffer is free, because the call before has
 * ended. */
int cuda_upload_chunk(struct state *s, const struct slot *slot, int n, struct transfer *transfer, struct reason *why)
{
    const int chunks = cuda_chunks_of(s, s->n_in), i = transfer->up++, first = transfer->n_channels;
    const int share = COPY_CHUNKS * (i + 1) / chunks;
    while (slot->copy && transfer->loaded < share)
        transfer->loaded = parallel_copy_loaded(slot->copy, transfer->loaded);
    const int64_t loaded = transfer->loaded > share ? transfer->loaded : share;
    const int end = transfer->n_channels = (int)(s->n_in * loaded / COPY_CHUNKS);
    if (end == first) return HC_OK;
    PASS(rows_copy(s, s->receive, slot->in, first, end, n, cudaMemcpyHostToDevice, s->up, why));
    TRY(cudaEventRecord(s->chunk_up[i], s->up), "cudaEventRecord");
    TRY(cudaStreamWaitEvent(s->audio, s->chunk_up[i], 0), "cudaStreamWaitEvent");
    const unsigned at = (unsigned)s->total & (s->ring_length - 1), blocks = (end - first + ROWS - 1) / ROWS;
    const size_t block = (size_t)s->plan->block;
    const dim3 threads(ROW_THREADS, ROWS);
    float *ring = s->ring + (size_t)first * s->ring_length;
    const float *in = s->receive + first * block;
    if (n % 4 == 0 && at % 4 == 0 && block % 4 == 0)
        spread<<<blocks, threads, 0, s->audio>>>((float4 *)ring, s->ring_length / 4 - 1, at / 4, (const float4 *)in,
                                                 block / 4, n / 4, end - first);
    else
        spread<<<blocks, threads, 0, s->audio>>>(ring, s->ring_length - 1, at, in, block, n, end - first);
    TRY(cudaGetLastError(), "copying the input to the ring");
    return HC_OK;
}

int cuda_upload_overlapped(struct state *s, const struct slot *slot, int n, struct reason *why)
{
    struct transfer transfer = {};
    while (transfer.n_channels < s->n_in) PASS(cuda_upload_chunk(s, slot, n, &transfer, why));
    return HC_OK;
}

int cuda_download_overlapped(struct state *s, struct slot *slot, int n, int ch, int end, cudaEvent_t arrived,
                             struct reason *why)
{
    TRY(cudaEventRecord(arrived, s->audio), "cudaEventRecord");
    TRY(cudaStreamWaitEvent(s->down, arrived, 0), "cudaStreamWaitEvent");
    PASS(rows_copy(s, slot->out, s->wet[0], ch, end, n, cudaMemcpyDeviceToHost, s->down, why));
    TRY(cudaEventRecord(arrived, s->down), "cudaEventRecord");
    return HC_OK;
}
