/* cuda_files - set-up and calls of the CUDA backend for files. open and mask_make allocate all memory and load all
 * kernels.
 *
 * Up to config.queue_depth calls are under way, on three streams: the upload of call i overlaps the kernels of call
 * i - 1 and the download of call i - 2.
 *
 *   up      | in 0 | in 1 | in 2 | in 3 |
 *   audio          | 0    | 1    | 2    | 3    |
 *   down                  | out 0| out 1| out 2| out 3|
 *
 *   planar  buffer -- copy engine -> ring                        wet -- copy engine -> buffer
 *   raw     buffer -- copy engine -> raw_in -- pcm -> ring       wet -- pcm -> raw_out -- copy engine -> buffer
 *
 * A call uploads only its own frames: the input history, the last frames of each input, stays on the device, in a ring.
 * Raw samples, which are not planar floats, cross the bus as the file has them (pcm.h).
 */
#include "cuda_files.h"

#include "crossfade.h"
#include "cuda_error.h"
#include "fft_factors.h"
#include "fir.h"
#include "partition_kernels.h"
#include "pcm.h"
#include "pinned_memory.h"
#include "response_spectra.h"

#include <stdlib.h>

/* ---- open, close, reset ------------------------------------------------------------------------------------------ */

static size_t files_state_cut(struct cuda_files *s, void *base)
{
    const struct plan *plan = s->plan;
    const size_t P = (size_t)plan->partition, n_in = (size_t)s->n_in;
    const size_t wet_bytes = (size_t)s->n_out * plan->block * sizeof(float);
    size_t used = 0;
    s->ring = (float *)device_cut(base, &used, n_in * s->ring_length * sizeof(float));
    s->fir_scratch = device_cut(base, &used, fir_scratch_bytes(s->n_sm));
    if (!plan->direct) s->spectra = (float2 *)device_cut(base, &used, n_in * s->n_entries * P * sizeof(float2));
    s->history_bytes = used;
    s->from_wet = (float *)device_cut(base, &used, wet_bytes);
    for (struct files_entry *e = s->entries; e < s->entries + s->queue_depth; e++) {
        e->wet = (float *)device_cut(base, &used, wet_bytes);
        if (s->in_samples) e->raw_in = (char *)device_cut(base, &used, s->raw_in_bytes);
        if (s->out_samples) e->raw_out = (char *)device_cut(base, &used, s->raw_out_bytes);
        if (s->in_samples || s->out_samples) e->seen = (struct io_counts *)device_cut(base, &used, sizeof *e->seen);
    }
    if (plan->direct) return used;
    s->twiddles = (float2 *)device_cut(base, &used, fft_factors_bytes(log2_of((int)P)));
    s->sums = (float2 *)device_cut(base, &used, s->sums_capacity * P * sizeof(float2));
    s->staging = (float *)device_cut(base, &used, s->half);
    return used;
}

int cuda_files_reset(void *state, struct reason *why)
{
    struct cuda_files *s = (struct cuda_files *)state;
    TRY(cudaSetDevice(s->device), "cudaSetDevice(%d)", s->device);
    TRY(cudaMemsetAsync(s->memory, 0, s->history_bytes, s->audio), "cudaMemsetAsync(%zu)", s->history_bytes);
    TRY(device_wait(s->audio), "clearing the input history");
    s->total = s->n_spectra = 0;
    s->resets++;
    return HC_OK;
}

static unsigned power_of_two(size_t n)
{
    size_t p = 1;
    while (p < n) p *= 2;
    return (unsigned)p;
}

/* The size of a buffer of n samples: pcm may read or write 16 bytes more. */
static size_t raw_bytes(int samples, size_t n) { return (n * samples_bytes(samples) + 31) / 16 * 16; }

static void files_sizes_set(struct cuda_files *s, const hc_config *config)
{
    const struct plan *plan = s->plan;
    const int P = plan->partition;
    s->n_in = config->n_in;
    s->n_out = config->n_out;
    s->queue_depth = config->queue_depth;
    s->in_samples = config->in_samples;
    s->out_samples = config->out_samples;
    s->raw_in_bytes = raw_bytes(s->in_samples, (size_t)s->n_in * plan->block);
    s->raw_out_bytes = raw_bytes(s->out_samples, (size_t)s->n_out * plan->block);
    /* The frames of the calls under way may still be in use. So may those of the last ended call, because its kernels
     * behind the output may still run. */
    const size_t under_way = (s->queue_depth + 1) * (size_t)plan->block;
    if (plan->direct) {
        s->ring_length = power_of_two((size_t)plan->max_taps + under_way);
        if (s->ring_length < FIR_RING_MIN) s->ring_length = FIR_RING_MIN;
        return;
    }
    const int blocks = plan->block / P + 1; /* max. blocks that one call completes */
    s->ring_length = power_of_two(2 * (size_t)P + under_way);
    s->n_entries = plan->n_partitions + blocks + 1;
    /* A spectrum for each output and whole block of a call; if these are few, more for splits. */
    s->sums_capacity = (size_t)s->n_out * blocks;
    const size_t some = (size_t)s->n_sm * 2048 / P;
    if (s->sums_capacity < some) s->sums_capacity = some;
}

static int kernels_load_all(const struct cuda_files *s, struct reason *why)
{
    TRY(crossfade_load(), "loading kernels");
    TRY(fir_load(), "loading the FIR kernels");
    if (!s->plan->direct) {
        TRY(part_load(), "loading the partition kernels");
        TRY(response_spectra_load(), "loading the kernel for responses");
    }
    if (s->in_samples || s->out_samples) TRY(pcm_load(), "loading the kernels for samples");
    return HC_OK;
}

static int streams_open(struct cuda_files *s, struct reason *why)
{
    PASS(device_stream_make(&s->audio, true, why));
    PASS(device_stream_make(&s->setup, false, why));
    TRY(cudaStreamCreateWithFlags(&s->up, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    TRY(cudaStreamCreateWithFlags(&s->down, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    for (struct files_entry *e = s->entries; e < s->entries + s->queue_depth; e++) {
        TRY(cudaEventCreateWithFlags(&e->uploaded, cudaEventDisableTiming), "cudaEventCreateWithFlags");
        TRY(cudaEventCreateWithFlags(&e->played, cudaEventDisableTiming), "cudaEventCreateWithFlags");
        TRY(cudaEventCreateWithFlags(&e->downloaded, cudaEventDisableTiming), "cudaEventCreateWithFlags");
    }
    return HC_OK;
}

static int files_state_open(struct cuda_files *s, const hc_config *config, struct reason *why)
{
    const int P = s->plan->partition;
    PASS(device_use(s->device, why));
    if (!s->plan->direct && (P < FFT_MIN || P > FFT_MAX || (P & (P - 1))))
        return fail(HC_EINVAL, why, "cuda: a partition has %d frames, not a power of two from %d to %d; use the CPU", P,
                    FFT_MIN, FFT_MAX);
    TRY(cudaDeviceGetAttribute(&s->n_sm, cudaDevAttrMultiProcessorCount, s->device), "cudaDeviceGetAttribute");
    files_sizes_set(s, config);
    PASS(kernels_load_all(s, why));
    PASS(streams_open(s, why));
    PASS(files_staging_open(s, config, why));
    PASS(device_alloc(&s->memory, files_state_cut(s, NULL), "the engine", why));
    files_state_cut(s, s->memory);
    if (!s->plan->direct) TRY(fft_factors_make(s->twiddles, log2_of(P), s->audio), "making the table of a transform");
    return cuda_files_reset(s, why);
}

void cuda_files_close(void *state)
{
    struct cuda_files *s = (struct cuda_files *)state;
    if (!s) return;
    cudaSetDevice(s->device);
    if (s->up) cudaStreamSynchronize(s->up);
    if (s->audio) cudaStreamSynchronize(s->audio);
    if (s->down) cudaStreamSynchronize(s->down);
    device_free(s->memory);
    files_staging_close(s);
    for (struct files_entry *e = s->entries; e < s->entries + MAX_QUEUE_DEPTH; e++) {
        if (e->uploaded) cudaEventDestroy(e->uploaded);
        if (e->played) cudaEventDestroy(e->played);
        if (e->downloaded) cudaEventDestroy(e->downloaded);
    }
    if (s->down) cudaStreamDestroy(s->down);
    if (s->up) cudaStreamDestroy(s->up);
    if (s->setup) cudaStreamDestroy(s->setup);
    if (s->audio) cudaStreamDestroy(s->audio);
    cudaGetLastError();
    free(s);
}

int cuda_files_open(const hc_config *config, const struct plan *plan, int device, void **state, struct reason *why)
{
    struct cuda_files *s = (struct cuda_files *)calloc(1, sizeof *s);
    *state = NULL;
    if (!s) return fail(HC_ENOMEM, why, "cuda: no host memory; free some memory");
    s->device = device;
    s->plan = plan;
    int rc = files_state_open(s, config, why);
    if (rc < 0) {
        if (!device_hangs(s->audio)) cuda_files_close(s);
        return rc;
    }
    *state = s;
    return HC_OK;
}

/* ---- buffers: pinned, so that copies overlap kernels ------------------------------------------------------------- */

void cuda_files_buffer_free(void *state, struct io_buffer *buffer)
{
    cudaSetDevice(((const struct cuda_files *)state)->device);
    pinned_free(buffer->in);
    pinned_free(buffer->out);
    pinned_free(buffer->seen);
    buffer->in = buffer->out = NULL;
    buffer->seen = NULL;
}

static int files_buffer_alloc(struct cuda_files *s, struct io_buffer *buffer, struct reason *why)
{
    const size_t block = (size_t)s->plan->block;
    TRY(cudaSetDevice(s->device), "cudaSetDevice(%d)", s->device);
    PASS(pinned_alloc((void **)&buffer->in, s->n_in * block * samples_bytes(s->in_samples), why));
    PASS(pinned_alloc((void **)&buffer->out, s->n_out * block * samples_bytes(s->out_samples), why));
    if (s->in_samples || s->out_samples) PASS(pinned_alloc((void **)&buffer->seen, sizeof *buffer->seen, why));
    return HC_OK;
}

int cuda_files_buffer_make(void *state, struct io_buffer *buffer, struct reason *why)
{
    buffer->in = buffer->out = NULL;
    buffer->seen = NULL;
    int rc = files_buffer_alloc((struct cuda_files *)state, buffer, why);
    if (rc < 0) cuda_files_buffer_free(state, buffer);
    return rc;
}

/* ---- calls ------------------------------------------------------------------------------------------------------- */

/* Copies a call's frames to the ring, from frame s->total on. */
static int upload(struct cuda_files *s, struct files_entry *e, const struct io_buffer *buffer, int n,
                  struct reason *why)
{
    if (e->seen) TRY(cudaMemsetAsync(e->seen, 0, sizeof *e->seen, s->up), "cudaMemsetAsync");
    if (e->raw_in) {
        const size_t bytes = (size_t)n * s->n_in * samples_bytes(s->in_samples);
        TRY(cudaMemcpyAsync(e->raw_in, buffer->in, bytes, cudaMemcpyHostToDevice, s->up), "cudaMemcpyAsync(%zu)",
            bytes);
        const struct pcm_decode job = {s->in_samples, e->raw_in, s->n_in, n, s->ring, s->ring_length - 1,
                                       (unsigned)s->total, e->seen};
        TRY(pcm_decode_launch(&job, s->up), "decoding the input");
        return HC_OK;
    }
    const size_t from_pitch = s->plan->block * sizeof(float), pitch = s->ring_length * sizeof(float);
    const unsigned at = (unsigned)s->total & (s->ring_length - 1);
    const size_t left = s->ring_length - at, head = (size_t)n < left ? n : left;
    TRY(cudaMemcpy2DAsync(s->ring + at, pitch, buffer->in, from_pitch, head * sizeof(float), s->n_in,
                          cudaMemcpyHostToDevice, s->up),
        "cudaMemcpy2DAsync(%zu)", head * sizeof(float));
    if (head < (size_t)n) /* the rest wraps to the start of the ring */
        TRY(cudaMemcpy2DAsync(s->ring, pitch, buffer->in + head, from_pitch, (n - head) * sizeof(float), s->n_in,
                              cudaMemcpyHostToDevice, s->up),
            "cudaMemcpy2DAsync(%zu)", (n - head) * sizeof(float));
    return HC_OK;
}

/* Writes the output of n frames to e->wet, on s->audio. from: NULL unless the call fades from this mask. */
static int cuda_files_play(struct cuda_files *s, struct files_entry *e, int n, bool whole, const struct fade *fade,
                           struct cuda_files_mask *to, struct cuda_files_mask *from, struct reason *why)
{
    const size_t block = (size_t)s->plan->block, bytes = s->n_out * block * sizeof(float);
    if (!to && !from) TRY(cudaMemsetAsync(e->wet, 0, bytes, s->audio), "cudaMemsetAsync(%zu)", bytes);
    if (to) PASS(files_play(s, to, n, whole, e->wet, why));
    if (from) PASS(files_play(s, from, n, whole, s->from_wet, why));
    if (fade->pos >= fade->len || (!to && !from)) return HC_OK;
    const struct crossfade job = {e->wet, from ? s->from_wet : NULL, to ? e->wet : NULL, block, s->n_out, n, fade->pos,
                                  fade->len};
    TRY(crossfade_launch(&job, s->audio), "the crossfade");
    return HC_OK;
}

/* Copies e->wet to the buffer, behind the work in s->audio. */
static int download(struct cuda_files *s, struct files_entry *e, const struct io_buffer *buffer, int n,
                    struct reason *why)
{
    const size_t block = (size_t)s->plan->block, pitch = block * sizeof(float), width = n * sizeof(float);
    if (e->raw_out) {
        const struct pcm_encode job = {s->out_samples,     e->wet,           block,  s->n_out, n, e->raw_out,
                                       buffer->count_from, buffer->count_to, e->seen};
        TRY(pcm_encode_launch(&job, s->audio), "encoding the output");
    }
    TRY(cudaEventRecord(e->played, s->audio), "cudaEventRecord");
    TRY(cudaStreamWaitEvent(s->down, e->played, 0), "cudaStreamWaitEvent");
    const size_t bytes = (size_t)n * s->n_out * samples_bytes(s->out_samples);
    if (e->raw_out)
        TRY(cudaMemcpyAsync(buffer->out, e->raw_out, bytes, cudaMemcpyDeviceToHost, s->down), "cudaMemcpyAsync(%zu)",
            bytes);
    else
        TRY(cudaMemcpy2DAsync(buffer->out, pitch, e->wet, pitch, width, s->n_out, cudaMemcpyDeviceToHost, s->down),
            "cudaMemcpy2DAsync(%zu)", width);
    if (e->seen)
        TRY(cudaMemcpyAsync(buffer->seen, e->seen, sizeof *e->seen, cudaMemcpyDeviceToHost, s->down),
            "cudaMemcpyAsync(%zu)", sizeof *e->seen);
    TRY(cudaEventRecord(e->downloaded, s->down), "cudaEventRecord");
    return HC_OK;
}

int cuda_files_begin(void *state, struct io_buffer *buffer, int n, const struct fade *fade, struct reason *why)
{
    struct cuda_files *s = (struct cuda_files *)state;
    struct files_entry *e = &s->entries[s->n_begun % s->queue_depth];
    struct cuda_files_mask *to = (struct cuda_files_mask *)fade->to;
    struct cuda_files_mask *from = fade->pos < fade->len ? (struct cuda_files_mask *)fade->from : NULL;
    TRY(cudaSetDevice(s->device), "cudaSetDevice(%d)", s->device);
    PASS(upload(s, e, buffer, n, why));
    TRY(cudaEventRecord(e->uploaded, s->up), "cudaEventRecord");
    TRY(cudaStreamWaitEvent(s->audio, e->uploaded, 0), "cudaStreamWaitEvent");
    const bool whole = files_has_whole(s, n);
    PASS(cuda_files_play(s, e, n, whole, fade, to, from, why));
    PASS(download(s, e, buffer, n, why));
    s->total += n;
    PASS(files_prepare(s, whole, to, fade->pos + n < fade->len ? from : NULL, why));
    s->n_begun++;
    return HC_OK;
}

int cuda_files_end(void *state, struct reason *why)
{
    struct cuda_files *s = (struct cuda_files *)state;
    TRY(cudaEventSynchronize(s->entries[s->n_ended % s->queue_depth].downloaded), "cudaEventSynchronize");
    s->n_ended++;
    return HC_OK;
}
