/* cuda_files - see cuda_files.h.
 *
 * A file (block 0) has several calls under way (config.flight), on three streams: the copy up of one, the kernels of
 * the one before and the copy down of the one before that run beside one another.
 *
 *   up      | in 0 | in 1 | in 2 | in 3 |
 *   audio          | 0    | 1    | 2    | 3    |
 *   down                  | out 0| out 1| out 2| out 3|
 */
#include "cuda_files.h"

#include "cuda_crossing.h"
#include "cuda_error.h"
#include "cuda_partitions.h"

int cuda_flight_open(struct state *s, char *why, size_t cap)
{
    TRY(cudaStreamCreateWithFlags(&s->up, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    TRY(cudaStreamCreateWithFlags(&s->down, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    for (int i = 0; i < s->flight; i++) {
        TRY(cudaEventCreateWithFlags(&s->sent[i], cudaEventDisableTiming), "cudaEventCreateWithFlags");
        TRY(cudaEventCreateWithFlags(&s->played[i], cudaEventDisableTiming), "cudaEventCreateWithFlags");
        TRY(cudaEventCreateWithFlags(&s->landed[i], cudaEventDisableTiming), "cudaEventCreateWithFlags");
    }
    return HC_OK;
}

void cuda_flight_close(struct state *s)
{
    for (int i = 0; i < FLIGHT_MOST; i++) {
        if (s->sent[i]) cudaEventDestroy(s->sent[i]);
        if (s->played[i]) cudaEventDestroy(s->played[i]);
        if (s->landed[i]) cudaEventDestroy(s->landed[i]);
    }
}

/* A call that fades, or of a few frames, as any live one: alone. */
static int begin_alone(struct state *s, struct slot *slot, int n, const struct fade *fade, char *why, size_t cap)
{
    TRY(cudaStreamSynchronize(s->up), "cudaStreamSynchronize");
    TRY(cudaStreamSynchronize(s->audio), "cudaStreamSynchronize");
    PASS(cuda_partitions_process(s, slot, n, fade, why, cap));
    TRY(cudaEventRecord(s->landed[flight_place(s)], s->down), "cudaEventRecord");
    s->n_begun++;
    return HC_OK;
}

int cuda_begin(void *state, struct slot *slot, int n, const struct fade *fade, char *why, size_t cap)
{
    struct state *s = (struct state *)state;
    const int i = flight_place(s);
    const size_t block = (size_t)s->plan->block;
    struct mask *to = (struct mask *)fade->to;
    TRY(cudaSetDevice(s->device), "cudaSetDevice(%d)", s->device);
    if (!to || fade->pos < fade->len || cuda_is_live(s, n)) return begin_alone(s, slot, n, fade, why, cap);

    PASS(cuda_upload(s, slot, n, false, s->up, why, cap));
    TRY(cudaEventRecord(s->sent[i], s->up), "cudaEventRecord");

    TRY(cudaStreamWaitEvent(s->audio, s->sent[i], 0), "cudaStreamWaitEvent");
    float *wet = s->wets + (size_t)i * s->n_out * block;
    const bool whole = cuda_has_wholes(s, n);
    PASS(cuda_mask_play(s, to, n, whole, wet, why, cap));
    PASS(cuda_download(s, slot, wet, n, s->down, why, cap));
    PASS(cuda_seen_download(s, slot, s->down, why, cap));
    TRY(cudaEventRecord(s->landed[i], s->down), "cudaEventRecord");

    s->total += n;
    PASS(cuda_next_make(s, whole, to, NULL, why, cap));
    s->n_begun++;
    return HC_OK;
}

int cuda_end(void *state, char *why, size_t cap)
{
    struct state *s = (struct state *)state;
    TRY(cudaEventSynchronize(s->landed[s->n_ended % s->flight]), "cudaEventSynchronize");
    s->n_ended++;
    return HC_OK;
}
