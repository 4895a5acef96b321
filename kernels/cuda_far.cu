/* cuda_far - see cuda_far.h.
 *
 * A plan with far levels has neither head, whole nor rest (cuda_partitions.cu): a call is cut at ticks, and each piece
 * is its near taps in the time domain (near) plus what the far levels hold for it. The step of a tick that a call
 * completes comes behind the output, between calls. A large block goes through the copy engines, beside that step: up
 * while the tick before's runs, down while its own does.
 *
 *   up      | in b |        | in b+1 |
 *   audio   .. step | near b | step b .. | near b+1 | step ..
 *   down            | out b     |        | out b+1     |
 */
#include "cuda_far.h"

#include "crossfade.h"
#include "cuda_crossing.h"
#include "cuda_error.h"

/* The groups of NEAR_OUTS outputs in front of piece i of so many. */
static int piece_start(const struct state *s, int i, int pieces)
{
    const int groups = (s->n_out + NEAR_OUTS - 1) / NEAR_OUTS;
    return (int)((int64_t)groups * i / pieces);
}

static void needs_count(const struct state *s, const struct matrix *matrix, int *needs)
{
    const int pieces = cuda_pieces_of(s, s->n_out);
    for (int i = 0, c = 0, most = 0; i < pieces; i++) {
        const int end = piece_start(s, i + 1, pieces) * NEAR_OUTS;
        for (; c < matrix->n_cells && matrix->cells[c].out < end; c++)
            if (matrix->cells[c].in >= most) most = matrix->cells[c].in + 1;
        needs[i] = most;
    }
}

/* ---- masks, whose far levels must be current before they sound --------------------------------------------------- */

int cuda_far_mask_make(struct state *s, const struct matrix *matrix, const struct noise *noise, struct mask *m,
                       char *why, size_t cap)
{
    struct far_draft draft;
    TRY(cudaSetDevice(s->device), "cudaSetDevice(%d)", s->device);
    PASS(far_draft_make(&draft, s->far, matrix, noise, why, cap));
    int rc = device_take(&s->store, &m->memory, &m->bytes, far_mask_cut(&m->far, s->far, &draft, NULL), why, cap);
    if (rc == HC_OK) {
        needs_count(s, matrix, m->needs);
        far_mask_cut(&m->far, s->far, &draft, m->memory);
        cudaError_t e = far_mask_fill(&m->far, s->far, &draft, s->setup);
        const cudaError_t done = device_wait(s->setup);
        if (e == cudaSuccess) e = done;
        if (e != cudaSuccess) rc = cuda_fail(e, why, cap, "making a mask");
    }
    far_draft_free(&draft);
    return rc;
}

void cuda_mask_warm(void *state, void *mask)
{
    struct state *s = (struct state *)state;
    if (!s->far || cudaSetDevice(s->device) != cudaSuccess) return;
    far_warm(s->far, &((struct mask *)mask)->far, s->audio); /* an error sticks: process meets it */
}

bool cuda_mask_ready(void *state, const void *mask)
{
    const struct state *s = (const struct state *)state;
    return !s->far || far_ready(s->far, &((const struct mask *)mask)->far);
}

void cuda_mask_rest(void *state, void *mask)
{
    struct state *s = (struct state *)state;
    if (s->far) far_rest(s->far, &((struct mask *)mask)->far);
}

/* ---- process ----------------------------------------------------------------------------------------------------- */

static int steps_run(struct state *s, int64_t ticks, char *why, size_t cap)
{
    while (s->far->step < ticks)
        TRY(far_step(s->far, s->ring, s->ring_length - 1, s->audio), "a step of the far levels");
    return HC_OK;
}

/* The near taps of the next piece of the output, and its way down; an event tells of it. n: all in one tick. */
static int land_piece(struct state *s, struct slot *slot, int n, struct far_mask *mask, float *wet, struct crossing *c,
                      char *why, size_t cap)
{
    const int pieces = cuda_pieces_of(s, s->n_out), i = c->down++;
    const int first = piece_start(s, i, pieces), end = piece_start(s, i + 1, pieces);
    const int last = end * NEAR_OUTS < s->n_out ? end * NEAR_OUTS : s->n_out;
    if (end > first)
        TRY(far_play(s->far, mask, s->ring, s->ring_length - 1, s->total, n, wet, (size_t)s->plan->block, first,
                     end - first, s->audio), "the near taps");
    if (s->out_beside) return cuda_download_beside(s, slot, n, first * NEAR_OUTS, last, s->landing[i], why, cap);
    TRY(cudaEventRecord(s->landing[i], s->audio), "cudaEventRecord");
    return HC_OK;
}

/* Tell the ferry what has landed; wait: until all but the last piece has, of which `done` tells. */
static int landings_tell(struct state *s, struct slot *slot, struct crossing *c, bool wait, char *why, size_t cap)
{
    const int pieces = cuda_pieces_of(s, s->n_out);
    for (; slot->ferry && c->told < c->down && c->told < pieces - 1; c->told++) {
        const cudaError_t e = wait ? cudaEventSynchronize(s->landing[c->told]) : cudaEventQuery(s->landing[c->told]);
        if (e == cudaErrorNotReady) {
            cudaGetLastError();
            return HC_OK;
        }
        TRY(e, "waiting for outputs");
        ferry_landed(slot->ferry, piece_start(s, c->told + 1, pieces) * NEAR_OUTS);
    }
    return HC_OK;
}

/* A block in pieces: of the output each as soon as the inputs that it is made of are in the ring. Of channels that
 * share nothing the last piece goes up while the first ones come down.
 *
 *   up      | 0 | 1 | 2 | 3 |
 *   audio       |0 |1  |2  |3 |  step ..
 *   down           | 0 | 1 | 2 | 3 |
 */
static int far_play_pieces(struct state *s, struct slot *slot, int n, struct mask *mask, float *wet,
                           struct crossing *c, char *why, size_t cap)
{
    const int pieces = cuda_pieces_of(s, s->n_out);
    PASS(steps_run(s, s->total / s->plan->tick, why, cap));
    if (!s->inbox) {
        PASS(cuda_upload(s, slot, n, true, s->audio, why, cap));
        c->n_channels = s->n_in;
    }
    do {
        if (c->n_channels < s->n_in) PASS(cuda_upload_piece(s, slot, n, c, why, cap));
        while (c->down < pieces && mask->needs[c->down] <= c->n_channels)
            PASS(land_piece(s, slot, n, &mask->far, wet, c, why, cap));
        PASS(landings_tell(s, slot, c, false, why, cap));
    } while (c->n_channels < s->n_in);
    return HC_OK;
}

/* The device reads the frames of a small block from pinned memory and writes them there: no
 * copies. */
int cuda_far_process(struct state *s, struct slot *slot, int n, const struct fade *fade, char *why, size_t cap)
{
    const int tick = s->plan->tick;
    const size_t block = (size_t)s->plan->block;
    const bool two = fade->pos < fade->len, fading = two && !fade->apart;
    struct mask *masks[2] = {(struct mask *)fade->to, two ? (struct mask *)fade->from : NULL};
    float *const out = s->out_beside ? s->wet[0] : slot->out; /* where the frames of the slot are made */
    float *const wet[2] = {fading ? s->wet[0] : out, fade->apart ? fade->apart->out : s->wet[1]};
    const int all = (s->n_out + NEAR_OUTS - 1) / NEAR_OUTS;
    const bool sounds = masks[0] || (fading && masks[1]);
    const bool landing = (slot->ferry || s->out_beside) && masks[0] && !two && s->total % tick + n <= tick;
    struct crossing crossing = {};
    if (landing) PASS(far_play_pieces(s, slot, n, masks[0], out, &crossing, why, cap));
    else PASS(s->inbox ? cuda_upload_beside(s, slot, n, why, cap) : cuda_upload(s, slot, n, true, s->audio, why, cap));
    for (int frame = 0, len; frame < n && !landing; frame += len) {
        const int64_t at = s->total + frame;
        len = tick - (int)(at % tick) < n - frame ? tick - (int)(at % tick) : n - frame;
        PASS(steps_run(s, at / tick, why, cap));
        for (int i = 0; i < 2; i++)
            if (masks[i])
                TRY(far_play(s->far, &masks[i]->far, s->ring, s->ring_length - 1, at, len,
                             wet[i] + frame, block, 0, all, s->audio), "the near taps");
    }
    if (fading && sounds) {
        const struct crossfade job = {out, masks[1] ? s->wet[1] : NULL, masks[0] ? s->wet[0] : NULL, block, s->n_out, n,
                                      fade->pos, fade->len};
        TRY(crossfade_launch(&job, s->audio), "the crossfade");
    }
    if (s->out_beside && sounds && !landing)
        PASS(cuda_download_beside(s, slot, n, 0, s->n_out, s->done, why, cap));
    else
        TRY(cudaEventRecord(s->done, s->out_beside && landing ? s->down : s->audio), "cudaEventRecord");
    s->total += n;
    PASS(steps_run(s, s->total / tick, why, cap)); /* behind the output */
    if (!sounds) cuda_rows_clear(slot->out, s->n_out, block, n);
    if (two && !fading && !masks[1]) cuda_rows_clear(fade->apart->out, s->n_out, block, n);
    if (landing) PASS(landings_tell(s, slot, &crossing, true, why, cap));
    TRY(cudaEventSynchronize(s->done), "cudaEventSynchronize");
    return HC_OK;
}
