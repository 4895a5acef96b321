/* cuda_tail - masks and calls of a plan with tail levels.
 *
 * A call is cut at hops. The output of each hop is the sum of the head (head.cu) and of the output that the tail levels
 * have ready for it. When a call completes a hop, the step of the tail levels for this hop runs behind the output,
 * between calls. Copy engines carry a large block: it goes up during the step of the hop before, and down during the
 * step of its own hop.
 *
 *   up      | in b |        | in b+1 |
 *   audio   .. step | head b | step b .. | head b+1 | step ..
 *   down            | out b     |        | out b+1     |
 */
#include "cuda_tail.h"

#include "crossfade.h"
#include "cuda_transfer.h"
#include "cuda_error.h"

/* The index of the first group (of HEAD_OUTS outputs) of chunk i of the output. */
static int chunk_start(const struct state *s, int i, int chunks)
{
    const int groups = (s->n_out + HEAD_OUTS - 1) / HEAD_OUTS;
    return (int)((int64_t)groups * i / chunks);
}

/* Fills needs[] of struct mask. */
static void needs_find(const struct state *s, const struct matrix *matrix, int *needs)
{
    const int chunks = cuda_chunks_of(s, s->n_out);
    for (int i = 0, c = 0, most = 0; i < chunks; i++) {
        const int end = chunk_start(s, i + 1, chunks) * HEAD_OUTS;
        for (; c < matrix->n_cells && matrix->cells[c].out < end; c++)
            if (matrix->cells[c].in >= most) most = matrix->cells[c].in + 1;
        needs[i] = most;
    }
}

/* ---- masks ------------------------------------------------------------------------------------------------------- */

int cuda_tail_mask_make(struct state *s, const struct matrix *matrix, const struct noise *noise, struct mask *m,
                        struct reason *why)
{
    struct gpu_tail_draft draft;
    TRY(cudaSetDevice(s->device), "cudaSetDevice(%d)", s->device);
    PASS(gpu_tail_draft_make(&draft, s->tail, matrix, noise, why));
    int rc = device_take(&s->store, &m->memory, &m->bytes, gpu_tail_mask_cut(&m->tail, s->tail, &draft, NULL), why);
    if (rc == HC_OK) {
        needs_find(s, matrix, m->needs);
        gpu_tail_mask_cut(&m->tail, s->tail, &draft, m->memory);
        cudaError_t e = gpu_tail_mask_fill(&m->tail, s->tail, &draft, s->setup);
        const cudaError_t done = device_wait(s->setup);
        if (e == cudaSuccess) e = done;
        if (e != cudaSuccess) rc = cuda_fail(e, why, "making a mask");
    }
    gpu_tail_draft_free(&draft);
    return rc;
}

void cuda_mask_prepare(void *state, void *mask)
{
    struct state *s = (struct state *)state;
    if (!s->tail || cudaSetDevice(s->device) != cudaSuccess) return;
    /* After an error the next process fails, because the error is sticky. */
    gpu_tail_prepare(s->tail, &((struct mask *)mask)->tail, s->audio);
}

bool cuda_mask_ready(void *state, const void *mask)
{
    const struct state *s = (const struct state *)state;
    return !s->tail || gpu_tail_ready(s->tail, &((const struct mask *)mask)->tail);
}

void cuda_mask_retire(void *state, void *mask)
{
    struct state *s = (struct state *)state;
    if (s->tail) gpu_tail_retire(s->tail, &((struct mask *)mask)->tail);
}

/* ---- process ----------------------------------------------------------------------------------------------------- */

static int steps_run(struct state *s, int64_t hops, struct reason *why)
{
    while (s->tail->step < hops)
        TRY(gpu_tail_step(s->tail, s->ring, s->ring_length - 1, s->audio), "a step of the tail levels");
    return HC_OK;
}

/* Computes the next chunk of the output, sends it down, and records its event chunk_down. All n frames are in one
 * hop. */
static int chunk_play(struct state *s, struct slot *slot, int n, struct gpu_tail_mask *mask, float *wet,
                      struct transfer *transfer, struct reason *why)
{
    const int chunks = cuda_chunks_of(s, s->n_out), i = transfer->down++;
    const int first = chunk_start(s, i, chunks), end = chunk_start(s, i + 1, chunks);
    const int last = end * HEAD_OUTS < s->n_out ? end * HEAD_OUTS : s->n_out;
    if (end > first)
        TRY(gpu_tail_play(s->tail, mask, s->ring, s->ring_length - 1, s->total, n, wet, (size_t)s->plan->block, first,
                          end - first, s->audio),
            "the head taps");
    if (s->out_overlapped) return cuda_download_overlapped(s, slot, n, first * HEAD_OUTS, last, s->chunk_down[i], why);
    TRY(cudaEventRecord(s->chunk_down[i], s->audio), "cudaEventRecord");
    return HC_OK;
}

/* Tells the copy threads which chunks are in the slot. wait: waits for all but the last chunk, for which the caller
 * waits (s->done). */
static int chunks_tell(struct state *s, struct slot *slot, struct transfer *transfer, bool wait, struct reason *why)
{
    const int chunks = cuda_chunks_of(s, s->n_out);
    for (; slot->copy && transfer->told < transfer->down && transfer->told < chunks - 1; transfer->told++) {
        const cudaError_t e =
            wait ? cudaEventSynchronize(s->chunk_down[transfer->told]) : cudaEventQuery(s->chunk_down[transfer->told]);
        if (e == cudaErrorNotReady) {
            cudaGetLastError();
            return HC_OK;
        }
        TRY(e, "waiting for outputs");
        parallel_copy_done(slot->copy, chunk_start(s, transfer->told + 1, chunks) * HEAD_OUTS);
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
static int play_chunks(struct state *s, struct slot *slot, int n, struct mask *mask, float *wet,
                       struct transfer *transfer, struct reason *why)
{
    const int chunks = cuda_chunks_of(s, s->n_out);
    PASS(steps_run(s, s->total / s->plan->hop, why));
    if (!s->receive) {
        PASS(cuda_upload(s, slot, n, true, s->audio, why));
        transfer->n_channels = s->n_in;
    }
    do {
        if (transfer->n_channels < s->n_in) PASS(cuda_upload_chunk(s, slot, n, transfer, why));
        while (transfer->down < chunks && mask->needs[transfer->down] <= transfer->n_channels)
            PASS(chunk_play(s, slot, n, &mask->tail, wet, transfer, why));
        PASS(chunks_tell(s, slot, transfer, false, why));
    } while (transfer->n_channels < s->n_in);
    return HC_OK;
}

/* For a small block there are no copies: the device reads the frames from pinned memory and writes them there. */
int cuda_tail_process(struct state *s, struct slot *slot, int n, const struct fade *fade, struct reason *why)
{
    const int hop = s->plan->hop;
    const size_t block = (size_t)s->plan->block;
    const bool two = fade->pos < fade->len, fading = two && !fade->apart;
    struct mask *masks[2] = {(struct mask *)fade->to, two ? (struct mask *)fade->from : NULL};
    float *const out = s->out_overlapped ? s->wet[0] : slot->out; /* the kernels write the output there */
    float *const wet[2] = {fading ? s->wet[0] : out, fade->apart ? fade->apart->out : s->wet[1]};
    const int all = (s->n_out + HEAD_OUTS - 1) / HEAD_OUTS;
    const bool sounds = masks[0] || (fading && masks[1]);
    const bool in_chunks = (slot->copy || s->out_overlapped) && masks[0] && !two && s->total % hop + n <= hop;
    struct transfer transfer = {};
    if (in_chunks)
        PASS(play_chunks(s, slot, n, masks[0], out, &transfer, why));
    else
        PASS(s->receive ? cuda_upload_overlapped(s, slot, n, why) : cuda_upload(s, slot, n, true, s->audio, why));
    for (int frame = 0, len; frame < n && !in_chunks; frame += len) {
        const int64_t at = s->total + frame;
        len = hop - (int)(at % hop) < n - frame ? hop - (int)(at % hop) : n - frame;
        PASS(steps_run(s, at / hop, why));
        for (int i = 0; i < 2; i++)
            if (masks[i])
                TRY(gpu_tail_play(s->tail, &masks[i]->tail, s->ring, s->ring_length - 1, at, len, wet[i] + frame, block,
                                  0, all, s->audio),
                    "the head taps");
    }
    if (fading && sounds) {
        const struct crossfade job = {out, masks[1] ? s->wet[1] : NULL, masks[0] ? s->wet[0] : NULL, block, s->n_out, n,
                                      fade->pos, fade->len};
        TRY(crossfade_launch(&job, s->audio), "the crossfade");
    }
    if (s->out_overlapped && sounds && !in_chunks)
        PASS(cuda_download_overlapped(s, slot, n, 0, s->n_out, s->done, why));
    else
        TRY(cudaEventRecord(s->done, s->out_overlapped && in_chunks ? s->down : s->audio), "cudaEventRecord");
    s->total += n;
    PASS(steps_run(s, s->total / hop, why)); /* behind the output */
    if (!sounds) cuda_rows_clear(slot->out, s->n_out, block, n);
    if (two && !fading && !masks[1]) cuda_rows_clear(fade->apart->out, s->n_out, block, n);
    if (in_chunks) PASS(chunks_tell(s, slot, &transfer, true, why));
    TRY(cudaEventSynchronize(s->done), "cudaEventSynchronize");
    return HC_OK;
}
