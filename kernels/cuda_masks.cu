/* cuda_masks - see cuda_masks.h.
 *
 * A mask is made in the host's pinned memory and sent from there, in a few calls whatever the number of its responses:
 * a call to the driver holds up those of all other threads. Copies from other memory and waits that spin hold up audio.
 *
 *   head, to the mask's memory     | first | fir_cells | part_cells | near taps, padded |
 *   parts, to `staging`            | part 0 of response 0 | part 1 | .. | part 0 of response 1 | ..
 *                                    P taps, the last of a response with zeros behind: one launch transforms them all
 *
 * The two halves of the pinned memory take turns: one is filled while the other is on its way.
 */
#include "cuda_masks.h"

#include "cuda_error.h"
#include "cuda_far.h"
#include "fft_block.cuh"
#include "fir.h"
#include "partition.h"
#include "pinned_memory.h"

#include <stdlib.h>
#include <string.h>

enum {
    HALF_LEAST = 2 * FFT_MOST * (int)sizeof(float), /* of the staging memory: whole partitions of every size */
    HALF_MOST = 1 << 20      /* sent in 20 us (55 GB/s), filled in longer: with more it would not be faster    */
};

/* Pinned memory is slow to get, and other threads' calls wait meanwhile: once, and no more than a mask of this shape
 * fills. A larger mask goes through it in pieces. */
int cuda_staging_open(struct state *s, const hc_config *config, char *why, size_t cap)
{
    const size_t n_channels = s->n_in > s->n_out ? s->n_in : s->n_out;
    const size_t n_routes = config->n_routes ? (size_t)config->n_routes : n_channels;
    const size_t taps = s->plan->direct ? s->plan->max_taps : (size_t)(s->plan->n_partitions + 1) * s->plan->partition;
    for (s->half = HALF_LEAST; s->half < HALF_MOST && 2 * s->half < n_routes * taps * sizeof(float);) s->half *= 2;
    PASS(pinned_alloc((void **)&s->pinned, 2 * s->half, why, cap));
    for (int i = 0; i < 2; i++)
        TRY(cudaEventCreateWithFlags(&s->left[i], cudaEventDisableTiming), "cudaEventCreateWithFlags");
    return HC_OK;
}

void cuda_staging_close(struct state *s)
{
    for (int i = 0; i < 2; i++)
        if (s->left[i]) cudaEventDestroy(s->left[i]);
    pinned_free(s->pinned);
}

/* ---- from the host's memory -------------------------------------------------------------------------------------- */

/* Of each response: taps for the FIR, partitions, and where they start. */
struct mask_plan { int *near, *near_at, *parts, *parts_at; };

struct head { size_t fir_cells, part_cells, taps, bytes; }; /* where they start, in bytes */

struct cargo {               /* what is packed, and where it goes                                              */
    char *to;                /* in the mask; moves on                                                          */
    float2 *spectra;         /* NULL, or of the next partition: through `staging` and the transform            */
    int half;                /* that is filled                                                                 */
    size_t sent, used;       /* of its bytes                                                                   */
};

static size_t taps_padded(int n) { return ((size_t)n + FIR_PAD - 1) / FIR_PAD * FIR_PAD; }

static struct head head_of(const struct state *s, const struct matrix *matrix, size_t near_taps)
{
    const size_t n_part_cells = s->plan->direct ? 0 : matrix->n_cells;
    struct head head;
    head.fir_cells = ((size_t)s->n_out + 1 + 3) / 4 * 4 * sizeof(int); /* all start at 16 bytes */
    head.part_cells = head.fir_cells + matrix->n_cells * sizeof(struct fir_cell);
    head.taps = head.part_cells + n_part_cells * sizeof(struct part_cell);
    head.bytes = head.taps + near_taps * sizeof(float);
    return head;
}
static_assert(sizeof(struct fir_cell) == 16 && sizeof(struct part_cell) == 16, "what lies behind them is aligned");

static size_t mask_cut(struct mask *m, const struct state *s, const struct head *head, size_t parts, void *base)
{
    const size_t P = (size_t)s->plan->partition;
    size_t used = 0;
    char *at = (char *)device_cut(base, &used, head->bytes);
    if (at) {
        m->first = (int *)at;
        m->fir_cells = (struct fir_cell *)(at + head->fir_cells);
        m->part_cells = (struct part_cell *)(at + head->part_cells);
        m->taps = (float *)(at + head->taps);
    }
    if (s->plan->direct) return used;
    m->tail = (float *)device_cut(base, &used, s->n_out * P * sizeof(float));
    m->spectra = (float2 *)device_cut(base, &used, parts * P * sizeof(float2));
    return used;
}

static int parts_transform(struct state *s, float2 *spectra, int n, char *why, size_t cap)
{
    const int P = s->plan->partition;
    struct part_forward job = {};
    job.x = s->staging;
    job.ring_mask = ~0u;
    job.hop = job.n_valid = P;
    job.n_ch = 1;
    job.n_blocks = job.n_slots = n;
    job.spectra = spectra;
    job.scale = 0.5f / (float)P; /* undoes the gain of the inverse */
    TRY(part_forward_launch(&job, P, s->twiddles, s->setup), "the transform of responses");
    return HC_OK;
}

/* Send what was packed since the last time. */
static int cargo_send(struct state *s, struct cargo *c, char *why, size_t cap)
{
    const size_t bytes = c->used - c->sent, P = (size_t)s->plan->partition;
    const char *from = s->pinned + c->half * s->half + c->sent;
    if (!bytes) return HC_OK;
    TRY(cudaMemcpyAsync(c->spectra ? (char *)s->staging : c->to, from, bytes, cudaMemcpyHostToDevice, s->setup),
        "cudaMemcpyAsync(%zu)", bytes);
    c->sent = c->used;
    if (!c->spectra) {
        c->to += bytes;
        return HC_OK;
    }
    const size_t n = bytes / (P * sizeof(float));
    PASS(parts_transform(s, c->spectra, (int)n, why, cap));
    c->spectra += n * P;
    return HC_OK;
}

/* A half is full: on to the other one, as soon as that is empty. */
static int cargo_turn(struct state *s, struct cargo *c, char *why, size_t cap)
{
    PASS(cargo_send(s, c, why, cap));
    TRY(cudaEventRecord(s->left[c->half], s->setup), "cudaEventRecord");
    c->half ^= 1;
    c->sent = c->used = 0;
    TRY(device_wait_event(s->left[c->half]), "making a mask");
    return HC_OK;
}

/* Pack `bytes` and zeros behind them, `padded` in all. */
static int cargo_pack(struct state *s, struct cargo *c, const void *from, size_t bytes, size_t padded, char *why,
                      size_t cap)
{
    for (size_t done = 0, n; done < padded; done += n) {
        if (c->used == s->half) PASS(cargo_turn(s, c, why, cap));
        char *to = s->pinned + c->half * s->half + c->used;
        const size_t end = done < bytes ? bytes : padded, room = s->half - c->used;
        n = end - done < room ? end - done : room;
        if (done < bytes) memcpy(to, (const char *)from + done, n);
        else memset(to, 0, n);
        c->used += n;
    }
    return HC_OK;
}

static int head_pack(struct state *s, struct cargo *c, const struct matrix *matrix, const struct mask_plan *cuts,
                     const struct head *head, const int *first, const struct fir_cell *fir,
                     const struct part_cell *part, char *why, size_t cap)
{
    const size_t fir_bytes = head->part_cells - head->fir_cells, part_bytes = head->taps - head->part_cells;
    PASS(cargo_pack(s, c, first, (s->n_out + 1) * sizeof *first, head->fir_cells, why, cap));
    PASS(cargo_pack(s, c, fir, fir_bytes, fir_bytes, why, cap));
    PASS(cargo_pack(s, c, part, part_bytes, part_bytes, why, cap));
    for (int r = 0; r < matrix->n_responses; r++)
        PASS(cargo_pack(s, c, matrix->taps[r], cuts->near[r] * sizeof(float),
                        taps_padded(cuts->near[r]) * sizeof(float), why, cap));
    return cargo_send(s, c, why, cap);
}

static int parts_pack(struct state *s, struct mask *m, struct cargo *c, const struct matrix *matrix,
                      const struct mask_plan *cuts, char *why, size_t cap)
{
    const size_t bytes = s->plan->partition * sizeof(float);
    c->used = c->sent = (c->used + bytes - 1) / bytes * bytes; /* so that a half ends with a whole partition */
    c->spectra = m->spectra;
    for (int r = 0; r < matrix->n_responses; r++)
        PASS(cargo_pack(s, c, matrix->taps[r], matrix->n_taps[r] * sizeof(float), cuts->parts[r] * bytes, why, cap));
    return cargo_send(s, c, why, cap);
}

/* The tables of cells; the arrays are room for them. */
static void cells_make(const struct state *s, struct mask *m, const struct matrix *matrix,
                       const struct mask_plan *cuts, int *first, struct fir_cell *fir, struct part_cell *part)
{
    const int n = matrix->n_cells;
    for (int out = 0, c = 0; out <= s->n_out; out++) {
        int taps = 0, cells = 0;
        first[out] = c;
        for (; c < n && matrix->cells[c].out == out; c++, cells++) {
            const int r = matrix->cells[c].response;
            fir[c].taps = m->taps + cuts->near_at[r];
            fir[c].n_taps = cuts->near[r];
            fir[c].in = matrix->cells[c].in;
            taps += cuts->near[r];
            if (s->plan->direct) continue;
            part[c].spectra = m->spectra + (size_t)cuts->parts_at[r] * s->plan->partition;
            part[c].n_parts = cuts->parts[r];
            part[c].in = matrix->cells[c].in;
        }
        if (taps > m->most_taps) m->most_taps = taps;
        if (cells > m->most_cells) m->most_cells = cells;
    }
}

static int mask_fill(struct state *s, struct mask *m, const struct matrix *matrix, const struct mask_plan *cuts,
                     int *first, struct fir_cell *fir, struct part_cell *part, char *why, size_t cap)
{
    const int P = s->plan->partition;
    size_t near_taps = 0, parts = 0;
    for (int r = 0; r < matrix->n_responses; r++) {
        const int n = matrix->n_taps[r];
        cuts->near[r] = s->plan->direct || n < P ? n : P;
        cuts->near_at[r] = (int)near_taps;
        cuts->parts[r] = s->plan->direct ? 0 : (n + P - 1) / P;
        cuts->parts_at[r] = (int)parts;
        near_taps += taps_padded(cuts->near[r]);
        parts += cuts->parts[r];
        if (cuts->parts[r] > m->most_parts) m->most_parts = cuts->parts[r];
        if (near_taps > INT32_MAX || parts > INT32_MAX)
            return fail(HC_ENOMEM, why, cap, "cuda: the mask has over 2^31 taps; use fewer or shorter responses");
    }
    const struct head head = head_of(s, matrix, near_taps);
    TRY(cudaSetDevice(s->device), "cudaSetDevice(%d)", s->device);
    PASS(device_take(&s->store, &m->memory, &m->bytes, mask_cut(m, s, &head, parts, NULL), why, cap));
    mask_cut(m, s, &head, parts, m->memory);
    cells_make(s, m, matrix, cuts, first, fir, part);
    struct cargo cargo = {};
    cargo.to = (char *)m->memory;
    PASS(head_pack(s, &cargo, matrix, cuts, &head, first, fir, part, why, cap));
    if (!s->plan->direct) PASS(parts_pack(s, m, &cargo, matrix, cuts, why, cap));
    TRY(device_wait(s->setup), "making a mask");
    return HC_OK;
}

void cuda_mask_free(void *state, void *mask)
{
    struct state *s = (struct state *)state;
    struct mask *m = (struct mask *)mask;
    if (!m) return;
    cudaSetDevice(s->device);
    device_give(&s->store, m->memory, m->bytes, s->audio); /* its last tail may still be under way */
    free(m);
}

int cuda_mask_make(void *state, const struct matrix *matrix, void **mask, char *why, size_t cap)
{
    struct state *s = (struct state *)state;
    const size_t n_r = (size_t)matrix->n_responses, n_c = (size_t)matrix->n_cells;
    struct mask *m = (struct mask *)calloc(1, sizeof *m);
    int *counts = (int *)calloc(4 * n_r + s->n_out + 1, sizeof(int));
    struct fir_cell *fir = (struct fir_cell *)calloc(n_c + 1, sizeof *fir);
    struct part_cell *part = (struct part_cell *)calloc(n_c + 1, sizeof *part);
    int rc = HC_OK;
    *mask = NULL;
    if (!m || !counts || !fir || !part) rc = fail(HC_ENOMEM, why, cap, "cuda: out of memory for a mask");
    if (m) m->tail_block = -1;
    if (rc == HC_OK && s->far) {
        rc = cuda_far_mask_make(s, matrix, NULL, m, why, cap);
    } else if (rc == HC_OK) {
        struct mask_plan cuts = {counts, counts + n_r, counts + 2 * n_r, counts + 3 * n_r};
        rc = mask_fill(s, m, matrix, &cuts, counts + 4 * n_r, fir, part, why, cap);
    }
    free(part);
    free(fir);
    free(counts);
    if (rc < 0) {
        device_wait(s->setup);
        cuda_mask_free(s, m);
    } else {
        *mask = m;
    }
    return rc;
}

/* ---- of noise ---------------------------------------------------------------------------------------------------- */

/* The matrix that noise stands for; taps: [n_responses] rows on the host, or NULL where the device makes them. */
static void noise_matrix_free(struct matrix *matrix)
{
    for (int r = 0; matrix->taps && r < matrix->n_responses; r++) free(matrix->taps[r]);
    free(matrix->taps);
    free(matrix->n_taps);
    free(matrix->cells);
}

static bool noise_matrix_make(struct matrix *matrix, const struct state *s, const struct noise *noise, bool with_taps)
{
    const int n_diagonal = s->n_in < s->n_out ? s->n_in : s->n_out;
    const size_t n = noise->diagonal ? n_diagonal : (size_t)s->n_in * s->n_out;
    memset(matrix, 0, sizeof *matrix);
    if (n > INT32_MAX / 2) return false;
    matrix->n_taps = (int *)malloc(n * sizeof(int));
    matrix->cells = (struct cell *)malloc(n * sizeof(struct cell));
    if (with_taps) matrix->taps = (float **)calloc(n, sizeof(float *));
    if (!matrix->n_taps || !matrix->cells || (with_taps && !matrix->taps)) return false;
    matrix->n_responses = matrix->n_cells = (int)n;
    for (int r = 0; r < (int)n; r++) {
        struct cell *cell = &matrix->cells[r]; /* by out, then in; so r is what noise_response says */
        cell->in = noise->diagonal ? r : r % s->n_in;
        cell->out = noise->diagonal ? r : r / s->n_in;
        cell->response = r;
        matrix->n_taps[r] = noise->n_taps;
        if (!with_taps) continue;
        const struct noise_key key = noise_key_of(noise->seed, (uint32_t)r);
        matrix->taps[r] = (float *)malloc(noise->n_taps * sizeof(float));
        if (!matrix->taps[r]) return false;
        for (int k = 0; k < noise->n_taps; k++) matrix->taps[r][k] = noise_tap(key, (uint32_t)k, noise->envelope[k]);
    }
    return true;
}

int cuda_mask_make_noise(void *state, const struct noise *noise, void **mask, char *why, size_t cap)
{
    struct state *s = (struct state *)state;
    struct matrix matrix;
    struct mask *m = NULL;
    int rc = HC_OK;
    *mask = NULL;
    if (!noise_matrix_make(&matrix, s, noise, !s->far)) {
        rc = fail(HC_ENOMEM, why, cap, "cuda: out of memory for a mask");
    } else if (!s->far) {
        rc = cuda_mask_make(s, &matrix, mask, why, cap);
    } else if (!(m = (struct mask *)calloc(1, sizeof *m))) {
        rc = fail(HC_ENOMEM, why, cap, "cuda: out of memory for a mask");
    } else {
        rc = cuda_far_mask_make(s, &matrix, noise, m, why, cap);
        if (rc < 0) cuda_mask_free(s, m);
        else *mask = m;
    }
    noise_matrix_free(&matrix);
    return rc;
}
