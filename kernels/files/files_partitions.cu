/* files_partitions - the convolution of the frames of a call, on stream `audio`.
 *
 *   stream   |  block b-1  |   block b   |  block b+1  |..     blocks of P frames from the start of the stream
 *   a call         [ start |     whole blocks     | end  ]
 *
 *   start, end   incomplete blocks: the first P taps in the time domain (fir), plus `due`, the sum of partitions 1 ...
 *                for this block, which is known when the previous block is complete
 *   whole        transforms, all blocks of the call in one launch (partition_kernels)
 *
 * The spectra and sums that the next call needs are computed behind the output, without a wait. A single whole block
 * of P <= 256 is treated as an incomplete block: then only the FIR runs between input and output.
 */
#include "cuda_files.h"

#include "cuda_error.h"
#include "fft_factors.h"
#include "fir.h"
#include "partition_kernels.h"

enum { MAX_FIR = 256 };      /* max. frames of a single whole block that the FIR convolves                     */

/* Makes the spectra of all blocks before `end`, whose input is in the ring. */
static int gpu_files_spectra_make(struct cuda_files *s, int64_t end, struct reason *why)
{
    const int P = s->plan->partition;
    if (s->n_spectra >= end) return HC_OK;
    struct part_forward job = {};
    job.x = s->ring;
    job.x_pitch = s->ring_length;
    job.ring_mask = s->ring_length - 1;
    job.from = (unsigned)((s->n_spectra - 1) * P);
    job.hop = P;
    job.log2_P = log2_of(P);
    job.n_ch = s->n_in;
    job.n_blocks = (int)(end - s->n_spectra);
    job.spectra = s->spectra;
    job.entry = (int)(s->n_spectra % s->n_entries);
    job.n_entries = s->n_entries;
    job.tw = s->twiddles;
    TRY(part_forward_launch(&job, s->audio), "the transform of the input");
    s->n_spectra = end;
    return HC_OK;
}

/* Writes the sum of partitions first_part ... for n_blocks blocks from block b on to y. */
static int parts_play(struct cuda_files *s, const struct cuda_files_mask *m, int64_t b, int n_blocks,
                      int first_part, float *y, size_t y_pitch, struct reason *why)
{
    const int P = s->plan->partition;
    struct part_mac mac = {};
    struct part_inverse inverse = {};
    mac.x = s->spectra;
    mac.entry = (int)(b % s->n_entries);
    mac.n_entries = s->n_entries;
    mac.cells = m->part_cells;
    mac.first_cell = m->first_cell;
    mac.n_out = inverse.n_out = s->n_out;
    mac.n_blocks = inverse.n_blocks = n_blocks;
    mac.first_part = first_part;
    mac.max_parts = m->max_parts;
    mac.sums = s->sums;
    mac.sums_capacity = s->sums_capacity;
    mac.n_sm = s->n_sm;
    TRY(part_mac_launch(&mac, P, &inverse.n_splits, s->audio), "the products of spectra");
    inverse.sums = s->sums;
    inverse.y = y;
    inverse.y_pitch = y_pitch;
    inverse.log2_P = log2_of(P);
    inverse.tw = s->twiddles;
    TRY(part_inverse_launch(&inverse, s->audio), "the inverse transform");
    return HC_OK;
}

/* Computes m->due for block b, unless already done. The blocks before b are in the ring. */
static int due_make(struct cuda_files *s, struct cuda_files_mask *m, int64_t b, struct reason *why)
{
    if (m->max_parts < 2 || (m->due_block == b && m->due_resets == s->resets)) return HC_OK;
    PASS(gpu_files_spectra_make(s, b, why));
    PASS(parts_play(s, m, b, 1, 1, m->due, (size_t)s->plan->partition, why));
    m->due_block = b;
    m->due_resets = s->resets;
    return HC_OK;
}

/* Writes the FIR's output for n frames from frame `from` of the stream on to y[n_out][.]. Adds `due`, which is m->due
 * at frame `from`, unless NULL. */
static int part_fir_play(struct cuda_files *s, const struct cuda_files_mask *m, int64_t from, int n, const float *due,
                         float *y, struct reason *why)
{
    struct fir_job job = {};
    job.x = s->ring;
    job.ring_mask = s->ring_length - 1;
    job.pos = (unsigned)from;
    job.cells = m->fir_cells;
    job.first_cell = m->first_cell;
    job.y = y;
    job.y_pitch = (size_t)s->plan->block;
    job.add = due;
    job.add_pitch = (size_t)s->plan->partition;
    job.n = n;
    job.n_out = s->n_out;
    job.max_taps = m->max_taps;
    job.max_cells = m->max_cells;
    job.scratch = s->fir_scratch;
    job.n_sm = s->n_sm;
    TRY(fir_launch(&job, s->audio), "the FIR");
    return HC_OK;
}

bool files_has_whole(const struct cuda_files *s, int n)
{
    const int P = s->plan->partition;
    if (s->plan->direct) return false;
    const int64_t n_whole = (s->total + n) / P - (s->total + P - 1) / P; /* -1: the call is inside one block */
    return n_whole > 1 || (n_whole == 1 && P > MAX_FIR);
}

int files_play(struct cuda_files *s, struct cuda_files_mask *m, int n, bool whole, float *wet, struct reason *why)
{
    const int P = s->plan->partition;
    if (s->plan->direct) return part_fir_play(s, m, s->total, n, NULL, wet, why);
    for (int frame = 0, len; frame < n; frame += len) {
        const int64_t b = (s->total + frame) / P;
        const int at = (int)((s->total + frame) % P);
        if (whole && at == 0 && n - frame >= P) {
            const int n_blocks = (n - frame) / P;
            len = n_blocks * P;
            PASS(gpu_files_spectra_make(s, b + n_blocks, why));
            PASS(parts_play(s, m, b, n_blocks, 0, wet + frame, (size_t)s->plan->block, why));
        } else {
            len = P - at < n - frame ? P - at : n - frame;
            PASS(due_make(s, m, b, why));
            PASS(part_fir_play(s, m, s->total + frame, len, m->max_parts < 2 ? NULL : m->due + at, wet + frame, why));
        }
    }
    return HC_OK;
}

int files_prepare(struct cuda_files *s, bool whole, struct cuda_files_mask *to, struct cuda_files_mask *from,
                  struct reason *why)
{
    const int P = s->plan->partition;
    if (s->plan->direct) return HC_OK;
    PASS(gpu_files_spectra_make(s, s->total / P, why));
    if (whole && s->total % P == 0) return HC_OK; /* a file's next call starts with a whole block: no `due` */
    if (to) PASS(due_make(s, to, s->total / P, why));
    if (from) PASS(due_make(s, from, s->total / P, why));
    return HC_OK;
}
