/* cuda_partitions - see cuda_partitions.h.
 *
 *   stream   |  block b-1  |   block b   |  block b+1  |..     blocks of P frames from the start of the stream
 *   a call         [ head  |     whole blocks     | rest ]
 *
 *   head, rest   a part of a block: its first P taps in the time domain (fir) + the tail of the block, which is what
 *                partitions 1 ... add to it: known when the block before is complete
 *   whole        transforms, all blocks of the call in one launch (partition)
 *
 * After the output is on its way the spectra and tails that the next call needs are made; nobody waits for them. A
 * single block of P <= 256 counts as a rest: then the only thing between input and output is the FIR.
 */
#include "cuda_partitions.h"

#include "crossfade.h"
#include "cuda_crossing.h"
#include "cuda_error.h"
#include "fir.h"
#include "partition.h"

#include <string.h>

enum { NEAR_MOST = 256 };    /* a call of one whole block of up to so many frames goes through the FIR         */

/* Make the spectra of all blocks before `end`, whose input is in the ring. */
static int spectra_make(struct state *s, int64_t end, char *why, size_t cap)
{
    const int P = s->plan->partition;
    if (s->n_spectra >= end) return HC_OK;
    struct part_forward job = {};
    job.x = s->ring;
    job.x_pitch = s->ring_length;
    job.ring_mask = s->ring_length - 1;
    job.first = (unsigned)((s->n_spectra - 1) * P);
    job.hop = P;
    job.n_valid = 2 * P;
    job.n_ch = s->n_in;
    job.n_blocks = (int)(end - s->n_spectra);
    job.spectra = s->spectra;
    job.slot = (int)(s->n_spectra % s->n_slots);
    job.n_slots = s->n_slots;
    job.scale = 1.0f;
    TRY(part_forward_launch(&job, P, s->twiddles, s->audio), "the transform of the input");
    s->n_spectra = end;
    return HC_OK;
}

/* y: what partitions first_part ... add to n_blocks blocks from b on. */
static int parts_play(struct state *s, const struct mask *m, int64_t b, int n_blocks, int first_part, float *y,
                      size_t y_pitch, char *why, size_t cap)
{
    const int P = s->plan->partition;
    struct part_mac mac = {};
    struct part_inverse inverse = {};
    mac.x = s->spectra;
    mac.slot = (int)(b % s->n_slots);
    mac.n_slots = s->n_slots;
    mac.cells = m->part_cells;
    mac.first = m->first;
    mac.n_out = inverse.n_out = s->n_out;
    mac.n_blocks = inverse.n_blocks = n_blocks;
    mac.first_part = first_part;
    mac.most_parts = m->most_parts;
    mac.sums = s->sums;
    mac.sums_room = s->sums_room;
    mac.n_sm = s->n_sm;
    TRY(part_mac_launch(&mac, P, &inverse.n_splits, s->audio), "the products of spectra");
    inverse.sums = s->sums;
    inverse.y = y;
    inverse.y_pitch = y_pitch;
    TRY(part_inverse_launch(&inverse, P, s->twiddles, s->audio), "the inverse transform");
    return HC_OK;
}

/* Make the tail of block b, unless it is there. The blocks before b are in the ring. */
static int tail_make(struct state *s, struct mask *m, int64_t b, char *why, size_t cap)
{
    if (m->most_parts < 2 || (m->tail_block == b && m->tail_resets == s->resets)) return HC_OK;
    PASS(spectra_make(s, b, why, cap));
    PASS(parts_play(s, m, b, 1, 1, m->tail, (size_t)s->plan->partition, why, cap));
    m->tail_block = b;
    m->tail_resets = s->resets;
    return HC_OK;
}

/* y[n_out][.]: n frames from frame `from` of the stream on; tail: where their tail starts, NULL = none. */
static int fir_play(struct state *s, const struct mask *m, int64_t from, int n, const float *tail, float *y, char *why,
                    size_t cap)
{
    struct fir_job job = {};
    job.x = s->ring;
    job.ring_mask = s->ring_length - 1;
    job.pos = (unsigned)from;
    job.cells = m->fir_cells;
    job.first = m->first;
    job.y = y;
    job.y_pitch = (size_t)s->plan->block;
    job.add = tail;
    job.add_pitch = (size_t)s->plan->partition;
    job.n = n;
    job.n_out = s->n_out;
    job.most_taps = m->most_taps;
    job.most_cells = m->most_cells;
    job.scratch = s->fir_scratch;
    job.n_sm = s->n_sm;
    TRY(fir_launch(&job, s->audio), "the FIR");
    return HC_OK;
}

bool cuda_has_wholes(const struct state *s, int n)
{
    const int P = s->plan->partition;
    if (s->plan->direct) return false;
    const int64_t n_whole = (s->total + n) / P - (s->total + P - 1) / P; /* -1: inside one block */
    return n_whole > 1 || (n_whole == 1 && P > NEAR_MOST);
}

int cuda_mask_play(struct state *s, struct mask *m, int n, bool whole, float *wet, char *why, size_t cap)
{
    const int P = s->plan->partition;
    if (s->plan->direct) return fir_play(s, m, s->total, n, NULL, wet, why, cap);
    for (int frame = 0, len; frame < n; frame += len) {
        const int64_t b = (s->total + frame) / P;
        const int at = (int)((s->total + frame) % P);
        if (whole && at == 0 && n - frame >= P) {
            const int n_blocks = (n - frame) / P;
            len = n_blocks * P;
            PASS(spectra_make(s, b + n_blocks, why, cap));
            PASS(parts_play(s, m, b, n_blocks, 0, wet + frame, (size_t)s->plan->block, why, cap));
        } else {
            len = P - at < n - frame ? P - at : n - frame;
            PASS(tail_make(s, m, b, why, cap));
            PASS(fir_play(s, m, s->total + frame, len, m->most_parts < 2 ? NULL : m->tail + at, wet + frame, why, cap));
        }
    }
    return HC_OK;
}

int cuda_next_make(struct state *s, bool whole, struct mask *to, struct mask *from, char *why, size_t cap)
{
    const int P = s->plan->partition;
    if (s->plan->direct) return HC_OK;
    PASS(spectra_make(s, s->total / P, why, cap));
    const bool rest = !whole || s->total % P != 0; /* a file, all whole blocks, needs no tail */
    if (rest && to) PASS(tail_make(s, to, s->total / P, why, cap));
    if (rest && from) PASS(tail_make(s, from, s->total / P, why, cap));
    return HC_OK;
}

int cuda_partitions_process(struct state *s, struct slot *slot, int n, const struct fade *fade, char *why, size_t cap)
{
    const int block = s->plan->block;
    struct mask *to = (struct mask *)fade->to, *from = fade->pos < fade->len ? (struct mask *)fade->from : NULL;
    const bool two = fade->pos < fade->len, fading = two && !fade->apart;
    const bool live = cuda_is_live(s, n);
    float *wet = live && !fading ? slot->out : s->wet[0]; /* rows of `block` frames, both */
    PASS(cuda_upload(s, slot, n, live, s->audio, why, cap));

    const bool whole = cuda_has_wholes(s, n);
    if (to) PASS(cuda_mask_play(s, to, n, whole, wet, why, cap));
    float *other = live && two && !fading ? fade->apart->out : s->wet[1];
    if (from) PASS(cuda_mask_play(s, from, n, whole, other, why, cap));
    if (fading && (to || from)) {
        const struct crossfade job = {s->wet[0], from ? s->wet[1] : NULL, to ? s->wet[0] : NULL, (size_t)block,
                                      s->n_out, n, fade->pos, fade->len};
        TRY(crossfade_launch(&job, s->audio), "the crossfade");
    }
    if ((to || (from && fading)) && wet != slot->out) PASS(cuda_download(s, slot, s->wet[0], n, s->audio, why, cap));
    PASS(cuda_seen_download(s, slot, s->audio, why, cap));
    if (from && !fading && other != fade->apart->out)
        TRY(cudaMemcpy2DAsync(fade->apart->out, block * sizeof(float), other, block * sizeof(float), n * sizeof(float),
                              s->n_out, cudaMemcpyDeviceToHost, s->audio), "cudaMemcpy2DAsync(%zu)", n * sizeof(float));
    TRY(cudaEventRecord(s->done, s->audio), "cudaEventRecord");

    s->total += n;
    PASS(cuda_next_make(s, whole, to, fade->pos + n < fade->len ? from : NULL, why, cap)); /* behind the output */
    if (!to && !(from && fading) && s->raw_out)
        memset(slot->out, 0, (size_t)n * s->n_out * samples_bytes(s->out_samples));
    else if (!to && !(from && fading))
        cuda_rows_clear(slot->out, s->n_out, (size_t)block, n);
    if (two && !fading && !from) cuda_rows_clear(fade->apart->out, s->n_out, (size_t)block, n);
    TRY(cudaEventSynchronize(s->done), "cudaEventSynchronize");
    return HC_OK;
}
