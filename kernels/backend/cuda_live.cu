/* cuda_live - set-up, masks and calls of the CUDA backend for live blocks. open and mask_make allocate all memory and
 * load all kernels. A call uploads only its own frames: the input history stays on the device, in a ring.
 *
 * There are two streams: `audio` (high priority) for process and `setup` for mask_make, so that a mask can be made
 * while audio plays.
 *
 * A call is cut at hops. The output of each hop is the sum of the head (head.cu) and of the tail levels' output for
 * this hop. When a call completes a hop, the step of the tail levels for this hop follows once the caller has the
 * output (cuda_live_process_behind). Copy engines transfer a large block: up during the step of the previous hop, down
 * during the step of its own hop.
 *
 *   up      | in b |        | in b+1 |
 *   audio   .. step | head b | step b .. | head b+1 | step ..
 *   down            | out b     |        | out b+1     |
 */
#include "cuda_live.h"

#include "crossfade.h"
#include "cuda_error.h"
#include "cuda_transfer.h"
#include "partition.h"
#include "tail_masks.h"

#include "dsp/base/await.h"

#include <stdlib.h>
#include <string.h>

enum { PACED_US = 100 }; /* after a longer pause between two calls, a sound card or a clock paces them */

/* ---- open, close, reset ------------------------------------------------------------------------------------------ */

static size_t state_cut(struct cuda_live *s, void *base)
{
    const size_t wet_bytes = (size_t)s->n_out * s->plan->block * sizeof(float), receive = cuda_receive_bytes(s);
    size_t used = 0;
    for (int i = 0; i < 2; i++) s->wet[i] = (float *)device_cut(base, &used, wet_bytes);
    if (receive) s->receive = (float *)device_cut(base, &used, receive);
    return used + gpu_tail_cut(&s->tail, base ? (char *)base + used : NULL);
}

int cuda_live_reset(void *state, struct reason *why)
{
    struct cuda_live *s = (struct cuda_live *)state;
    TRY(cudaSetDevice(s->device), "cudaSetDevice(%d)", s->device);
    TRY(gpu_tail_reset(&s->tail, s->audio), "clearing the input history");
    TRY(device_wait(s->audio), "clearing the input history");
    s->total = 0;
    return HC_OK;
}

static int live_state_open(struct cuda_live *s, const hc_config *config, struct reason *why)
{
    int n_sm;
    PASS(device_use(s->device, why));
    PASS(live_sm_count(s->device, &n_sm, why));
    TRY(crossfade_load(), "loading kernels");
    TRY(cuda_transfer_load(), "loading kernels");
    PASS(gpu_tail_open(&s->tail, s->plan, config, n_sm, why));
    PASS(live_stream_make(&s->audio, true, why));
    PASS(live_stream_make(&s->setup, false, why));
    TRY(cudaEventCreateWithFlags(&s->done, cudaEventDisableTiming), "cudaEventCreateWithFlags");
    PASS(device_alloc(&s->memory, state_cut(s, NULL), "the engine", why));
    state_cut(s, s->memory);
    PASS(cuda_transfer_open(s, why));
    PASS(device_alloc_host(&s->tail.pinned, gpu_tail_pinned_bytes(&s->tail), why));
    TRY(gpu_tail_load(&s->tail, s->audio), "loading the kernels of the head and the tail levels");
    return cuda_live_reset(s, why);
}

void cuda_live_close(void *state)
{
    struct cuda_live *s = (struct cuda_live *)state;
    if (!s) return;
    cudaSetDevice(s->device);
    if (s->up) cudaStreamSynchronize(s->up);
    if (s->audio) cudaStreamSynchronize(s->audio);
    if (s->down) cudaStreamSynchronize(s->down);
    device_free(s->memory);
    device_free_host(s->tail.pinned);
    if (s->done) cudaEventDestroy(s->done);
    cuda_transfer_close(s);
    if (s->setup) cudaStreamDestroy(s->setup);
    if (s->audio) cudaStreamDestroy(s->audio);
    cudaGetLastError();
    free(s);
}

int cuda_live_open(const hc_config *config, const struct plan *plan, int device, void **state, struct reason *why)
{
    struct cuda_live *s = (struct cuda_live *)calloc(1, sizeof *s);
    *state = NULL;
    if (!s) return fail(HC_ENOMEM, why, "cuda: no host memory; free some memory");
    s->device = device;
    s->plan = plan;
    s->n_in = config->n_in;
    s->n_out = config->n_out;
    int rc = live_state_open(s, config, why);
    if (rc < 0) {
        if (!device_hangs(s->audio)) cuda_live_close(s);
        return rc;
    }
    *state = s;
    return HC_OK;
}

/* ---- masks ------------------------------------------------------------------------------------------------------- */

/* The index of the first group (of HEAD_OUTS outputs) of chunk i of the output. */
static int live_chunk_start(const struct cuda_live *s, int i, int chunks)
{
    const int groups = (s->n_out + HEAD_OUTS - 1) / HEAD_OUTS;
    return (int)((int64_t)groups * i / chunks);
}

/* Fills needs[] of a mask. */
static void needs_find(const struct cuda_live *s, const struct matrix *matrix, int *needs)
{
    const int chunks = cuda_chunks_of(s, s->n_out);
    for (int i = 0, c = 0, n_needed = 0; i < chunks; i++) {
        const int end = live_chunk_start(s, i + 1, chunks) * HEAD_OUTS;
        for (; c < matrix->n_cells && matrix->cells[c].out < end; c++)
            if (matrix->cells[c].in >= n_needed) n_needed = matrix->cells[c].in + 1;
        needs[i] = n_needed;
    }
}

void cuda_live_mask_free(void *state, void *mask)
{
    struct cuda_live *s = (struct cuda_live *)state;
    struct cuda_live_mask *m = (struct cuda_live_mask *)mask;
    if (!m) return;
    cudaSetDevice(s->device);
    device_free_behind(m->tail.memory, s->audio); /* the mask's last products may still run */
    free(m);
}

int cuda_live_mask_make_noise(void *state, const struct matrix *matrix, const struct noise *noise, void **mask,
                              struct reason *why)
{
    struct cuda_live *s = (struct cuda_live *)state;
    struct cuda_live_mask *m = (struct cuda_live_mask *)calloc(1, sizeof *m);
    *mask = NULL;
    if (!m) return fail(HC_ENOMEM, why, "cuda: no host memory for a mask; free some memory");
    cudaSetDevice(s->device);
    needs_find(s, matrix, m->needs);
    const int rc = gpu_tail_mask_make(&m->tail, &s->tail, matrix, noise, s->setup, why);
    if (rc < 0) {
        if (!device_hangs(s->setup)) cuda_live_mask_free(s, m);
        return rc;
    }
    *mask = m;
    return rc;
}

int cuda_live_mask_make(void *state, const struct matrix *matrix, void **mask, struct reason *why)
{
    return cuda_live_mask_make_noise(state, matrix, NULL, mask, why);
}

void cuda_live_mask_prepare(void *state, void *mask)
{
    struct cuda_live *s = (struct cuda_live *)state;
    if (cudaSetDevice(s->device) != cudaSuccess) return;
    /* After an error the next process fails, because the error is sticky. */
    gpu_tail_prepare(&s->tail, &((struct cuda_live_mask *)mask)->tail, s->audio);
}

bool cuda_live_mask_ready(void *state, const void *mask)
{
    return gpu_tail_ready(&((const struct cuda_live *)state)->tail, &((const struct cuda_live_mask *)mask)->tail);
}

void cuda_live_mask_retire(void *state, void *mask)
{
    gpu_tail_retire(&((struct cuda_live *)state)->tail, &((struct cuda_live_mask *)mask)->tail);
}

/* ---- process ----------------------------------------------------------------------------------------------------- */

static int steps_run(struct cuda_live *s, int64_t hops, struct reason *why)
{
    while (s->tail.step < hops) TRY(gpu_tail_step(&s->tail, s->audio), "a step of the tail levels");
    return HC_OK;
}

/* Computes the next chunk of the output, downloads the chunk, and records its event chunk_down. All n frames are in one
 * hop. */
static int chunk_play(struct cuda_live *s, struct io_buffer *buffer, int n, struct cuda_live_mask *mask, float *wet,
                      struct transfer *transfer, struct reason *why)
{
    const int chunks = cuda_chunks_of(s, s->n_out), i = transfer->down++;
    const int first = live_chunk_start(s, i, chunks), end = live_chunk_start(s, i + 1, chunks);
    const int last = end * HEAD_OUTS < s->n_out ? end * HEAD_OUTS : s->n_out;
    if (end > first)
        TRY(gpu_tail_play(&s->tail, &mask->tail, s->total, n, wet, first, end - first, mask->needs[i], s->audio),
            "the head taps");
    if (s->out_overlapped)
        return cuda_download_overlapped(s, buffer, n, first * HEAD_OUTS, last, s->chunk_down[i], why);
    TRY(cudaEventRecord(s->chunk_down[i], s->audio), "cudaEventRecord");
    return HC_OK;
}

/* Reports to the copy threads which chunks are in the buffer. wait: waits for all chunks but the last one, for which
 * the caller waits (s->done). */
static int chunks_post(struct cuda_live *s, struct io_buffer *buffer, struct transfer *transfer, bool wait,
                       struct reason *why)
{
    const int chunks = cuda_chunks_of(s, s->n_out);
    for (; buffer->copy && transfer->reported < transfer->down && transfer->reported < chunks - 1;
         transfer->reported++) {
        const cudaEvent_t down = s->chunk_down[transfer->reported];
        const cudaError_t e = wait ? cudaEventSynchronize(down) : cudaEventQuery(down);
        if (e == cudaErrorNotReady) {
            cudaGetLastError();
            return HC_OK;
        }
        TRY(e, "waiting for outputs");
        parallel_copy_done(buffer->copy, live_chunk_start(s, transfer->reported + 1, chunks) * HEAD_OUTS);
    }
    return HC_OK;
}

/* Plays a block in chunks: each chunk of the output is computed as soon as its inputs are in the ring. If the channels
 * are independent, the last chunk goes up while the first ones come down.
 *
 *   up      | 0 | 1 | 2 | 3 |
 *   audio       |0 |1  |2  |3 |  step ..
 *   down           | 0 | 1 | 2 | 3 |
 */
static int play_chunks(struct cuda_live *s, struct io_buffer *buffer, int n, struct cuda_live_mask *mask, float *wet,
                       struct transfer *transfer, struct reason *why)
{
    const int chunks = cuda_chunks_of(s, s->n_out);
    PASS(steps_run(s, s->total / s->tail.hop, why));
    if (!s->receive) {
        PASS(cuda_upload(s, buffer, n, why));
        transfer->n_channels = s->n_in;
    }
    do {
        if (transfer->n_channels < s->n_in) PASS(cuda_upload_chunk(s, buffer, n, transfer, why));
        while (transfer->down < chunks && mask->needs[transfer->down] <= transfer->n_channels)
            PASS(chunk_play(s, buffer, n, mask, wet, transfer, why));
        PASS(chunks_post(s, buffer, transfer, false, why));
    } while (transfer->n_channels < s->n_in);
    return HC_OK;
}

/* Sets n frames of each row to 0, on the host. */
static void rows_clear(float *rows, int n_rows, size_t pitch, int n)
{
    for (int row = 0; row < n_rows; row++) memset(rows + row * pitch, 0, n * sizeof(float));
}

/* Plays a block. A small block is not copied: the device reads and writes the frames in pinned host memory. */
int cuda_live_process(void *state, struct io_buffer *buffer, int n, const struct fade *fade, struct reason *why)
{
    struct cuda_live *s = (struct cuda_live *)state;
    TRY(cudaSetDevice(s->device), "cudaSetDevice(%d)", s->device);
    const int hop = s->tail.hop;
    const size_t block = (size_t)s->plan->block;
    const bool hurried = now_us() - s->rested_us < PACED_US;
    const bool two = fade->pos < fade->len, fading = two && !fade->apart;
    struct cuda_live_mask *masks[2] = {(struct cuda_live_mask *)fade->to,
                                       two ? (struct cuda_live_mask *)fade->from : NULL};
    float *const out = s->out_overlapped ? s->wet[0] : buffer->out; /* the kernels write the output there */
    float *const wet[2] = {fading ? s->wet[0] : out, fade->apart ? fade->apart->out : s->wet[1]};
    const int all = (s->n_out + HEAD_OUTS - 1) / HEAD_OUTS;
    const bool sounds = masks[0] || (fading && masks[1]);
    const bool in_chunks = (buffer->copy || s->out_overlapped) && masks[0] && !two && s->total % hop + n <= hop;
    struct transfer transfer = {};
    if (in_chunks)
        PASS(play_chunks(s, buffer, n, masks[0], out, &transfer, why));
    else
        PASS(s->receive ? cuda_upload_overlapped(s, buffer, n, why) : cuda_upload(s, buffer, n, why));
    for (int frame = 0, len; frame < n && !in_chunks; frame += len) {
        const int64_t at = s->total + frame;
        len = hop - (int)(at % hop) < n - frame ? hop - (int)(at % hop) : n - frame;
        PASS(steps_run(s, at / hop, why));
        for (int i = 0; i < 2; i++)
            if (masks[i])
                TRY(gpu_tail_play(&s->tail, &masks[i]->tail, at, len, wet[i] + frame, 0, all, s->n_in, s->audio),
                    "the head taps");
    }
    if (fading && sounds) {
        const struct crossfade job = {out, masks[1] ? s->wet[1] : NULL, masks[0] ? s->wet[0] : NULL, block, s->n_out, n,
                                      fade->pos, fade->len};
        TRY(crossfade_launch(&job, s->audio), "the crossfade");
    }
    if (s->out_overlapped && sounds && !in_chunks)
        PASS(cuda_download_overlapped(s, buffer, n, 0, s->n_out, s->done, why));
    else
        TRY(cudaEventRecord(s->done, s->out_overlapped && in_chunks ? s->down : s->audio), "cudaEventRecord");
    s->total += n;
    if (hurried) PASS(steps_run(s, s->total / hop, why));
    if (!sounds) rows_clear(buffer->out, s->n_out, block, n);
    if (two && !fading && !masks[1]) rows_clear(fade->apart->out, s->n_out, block, n);
    if (in_chunks) PASS(chunks_post(s, buffer, &transfer, true, why));
    TRY(cudaEventSynchronize(s->done), "cudaEventSynchronize");
    return HC_OK;
}

/* Launches the steps after the output, because a launch lasts longer than a small head on the GPU. If the caller is
 * hurried, its next block would wait for the launches: process then launches the steps while it waits for the GPU. */
void cuda_live_process_behind(void *state)
{
    struct cuda_live *s = (struct cuda_live *)state;
    steps_run(s, s->total / s->tail.hop, NULL); /* an error is sticky: the next process returns it */
    s->rested_us = now_us();
}
