/* cuda_files - the calls of a file, several of which are under way at once.
 *
 * A file (block 0) has up to config.queue_depth calls under way, on three streams: the copy up of one call overlaps the
 * kernels of the call before and the copy down of the call before that.
 *
 *   up      | in 0 | in 1 | in 2 | in 3 |
 *   audio          | 0    | 1    | 2    | 3    |
 *   down                  | out 0| out 1| out 2| out 3|
 */
#include "cuda_files.h"

#include "cuda_transfer.h"
#include "cuda_error.h"
#include "cuda_partitions.h"

int cuda_files_open(struct state *s, struct reason *why)
{
    TRY(cudaStreamCreateWithFlags(&s->up, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    TRY(cudaStreamCreateWithFlags(&s->down, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    for (int i = 0; i < s->queue_depth; i++) {
        TRY(cudaEventCreateWithFlags(&s->uploaded[i], cudaEventDisableTiming), "cudaEventCreateWithFlags");
        TRY(cudaEventCreateWithFlags(&s->played[i], cudaEventDisableTiming), "cudaEventCreateWithFlags");
        TRY(cudaEventCreateWithFlags(&s->downloaded[i], cudaEventDisableTiming), "cudaEventCreateWithFlags");
    }
    return HC_OK;
}

void cuda_files_close(struct state *s)
{
    for (int i = 0; i < QUEUE_DEPTH_MOST; i++) {
        if (s->uploaded[i]) cudaEventDestroy(s->uploaded[i]);
        if (s->played[i]) cudaEventDestroy(s->played[i]);
        if (s->downloaded[i]) cudaEventDestroy(s->downloaded[i]);
    }
}

/* A call with a fade, without a mask, or of few frames: runs alone, as a live call does. */
static int begin_alone(struct state *s, struct slot *slot, int n, const struct fade *fade, struct reason *why)
{
    TRY(cudaStreamSynchronize(s->up), "cudaStreamSynchronize");
    TRY(cudaStreamSynchronize(s->audio), "cudaStreamSynchronize");
    PASS(cuda_partitions_process(s, slot, n, fade, why));
    TRY(cudaEventRecord(s->downloaded[queue_place(s)], s->down), "cudaEventRecord");
    s->n_begun++;
    return HC_OK;
}

int cuda_files_begin(void *state, struct slot *slot, int n, const struct fade *fade, struct reason *why)
{
    struct state *s = (struct state *)state;
    const int i = queue_place(s);
    const size_t block = (size_t)s->plan->block;
    struct mask *to = (struct mask *)fade->to;
    TRY(cudaSetDevice(s->device), "cudaSetDevice(%d)", s->device);
    if (!to || fade->pos < fade->len || cuda_is_live(s, n)) return begin_alone(s, slot, n, fade, why);

    PASS(cuda_upload(s, slot, n, false, s->up, why));
    TRY(cudaEventRecord(s->uploaded[i], s->up), "cudaEventRecord");

    TRY(cudaStreamWaitEvent(s->audio, s->uploaded[i], 0), "cudaStreamWaitEvent");
    float *wet = s->wets + (size_t)i * s->n_out * block;
    const bool whole = cuda_partitions_whole(s, n);
    PASS(cuda_partitions_play(s, to, n, whole, wet, why));
    PASS(cuda_download(s, slot, wet, n, s->down, why));
    PASS(cuda_seen_download(s, slot, s->down, why));
    TRY(cudaEventRecord(s->downloaded[i], s->down), "cudaEventRecord");

    s->total += n;
    PASS(cuda_partitions_prepare(s, whole, to, NULL, why));
    s->n_begun++;
    return HC_OK;
}

int cuda_files_end(void *state, struct reason *why)
{
    struct state *s = (struct state *)state;
    TRY(cudaEventSynchronize(s->downloaded[s->n_ended % s->queue_depth]), "cudaEventSynchronize");
    s->n_ended++;
    return HC_OK;
}
