/* files_masks - makes masks on the device from taps in host memory, in parallel with calls.
 *
 * A mask is packed in pinned host memory and sent from there in a few calls, however many responses it has: a driver
 * call blocks the driver calls of all other threads. Copies from memory that is not pinned, and waits that spin, delay
 * audio.
 *
 *   header, to the mask's memory   | first_cell | fir_cells | part_cells | head taps, padded |
 *   parts, to `staging`            | part 0 of response 0 | part 1 | .. | part 0 of response 1 | ..
 *                                    P taps each; the last part of a response ends with zeros; one launch transforms
 *                                    all
 *
 * The pinned memory has two halves: one is filled while the other is copied.
 */
#include "cuda_files.h"

#include "cuda_error.h"
#include "fft_factors.h"
#include "fir.h"
#include "partition_kernels.h"
#include "pinned_memory.h"
#include "response_spectra.h"

#include <stdlib.h>
#include <string.h>

enum {
    MIN_HALF = 2 * FFT_MAX * (int)sizeof(float),  /* bytes: a multiple of a partition of any size            */
    MAX_HALF = 1 << 20      /* sent in 20 us (55 GB/s), but filled more slowly: a larger half is not faster   */
};

/* Pinned memory is slow to allocate and blocks the driver calls of other threads. So it is allocated once, and no
 * larger than a mask of this shape needs. A larger mask is sent in several steps. */
int files_staging_open(struct cuda_files *s, const hc_config *config, struct reason *why)
{
    const size_t n_channels = s->n_in > s->n_out ? s->n_in : s->n_out;
    const size_t n_routes = config->n_routes ? (size_t)config->n_routes : n_channels;
    const size_t taps = s->plan->direct ? s->plan->max_taps : (size_t)(s->plan->n_partitions + 1) * s->plan->partition;
    for (s->half = MIN_HALF; s->half < MAX_HALF && 2 * s->half < n_routes * taps * sizeof(float);) s->half *= 2;
    PASS(pinned_alloc((void **)&s->pinned, 2 * s->half, why));
    for (int i = 0; i < 2; i++)
        TRY(cudaEventCreateWithFlags(&s->half_sent[i], cudaEventDisableTiming), "cudaEventCreateWithFlags");
    return HC_OK;
}

void files_staging_close(struct cuda_files *s)
{
    for (int i = 0; i < 2; i++)
        if (s->half_sent[i]) cudaEventDestroy(s->half_sent[i]);
    pinned_free(s->pinned);
}

/* For each response: its number of FIR taps, the index of the first; its number of partitions, the index of the
 * first. */
struct mask_layout { int *head, *head_at, *parts, *parts_at; };

struct mask_header { size_t fir_cells, part_cells, taps, bytes; }; /* offsets of three arrays; the header's size */

struct mask_upload {
    char *to;                /* destination in the mask of the next byte                                       */
    float2 *spectra;         /* NULL: bytes go to `to`; else they go to s->staging and become these spectra    */
    int half;                /* the half that is being filled                                                  */
    size_t used, sent;       /* bytes of this half that are filled; bytes of it that are sent                  */
};

static size_t taps_padded(int n) { return ((size_t)n + FIR_PAD - 1) / FIR_PAD * FIR_PAD; }

static struct mask_header header_of(const struct cuda_files *s, const struct matrix *matrix, size_t head_taps)
{
    const size_t n_part_cells = s->plan->direct ? 0 : matrix->n_cells;
    struct mask_header header;
    header.fir_cells = ((size_t)s->n_out + 1 + 3) / 4 * 4 * sizeof(int); /* all are 16-byte aligned */
    header.part_cells = header.fir_cells + matrix->n_cells * sizeof(struct fir_cell);
    header.taps = header.part_cells + n_part_cells * sizeof(struct part_cell);
    header.bytes = header.taps + head_taps * sizeof(float);
    return header;
}
static_assert(sizeof(struct fir_cell) == 16 && sizeof(struct part_cell) == 16, "the arrays that follow are aligned");

static size_t files_mask_cut(struct cuda_files_mask *m, const struct cuda_files *s, const struct mask_header *header,
                             size_t parts, void *base)
{
    const size_t P = (size_t)s->plan->partition;
    size_t used = 0;
    char *at = (char *)device_cut(base, &used, header->bytes);
    if (at) {
        m->first_cell = (int *)at;
        m->fir_cells = (struct fir_cell *)(at + header->fir_cells);
        m->part_cells = (struct part_cell *)(at + header->part_cells);
        m->taps = (float *)(at + header->taps);
    }
    if (s->plan->direct) return used;
    m->due = (float *)device_cut(base, &used, s->n_out * P * sizeof(float));
    m->spectra = (float2 *)device_cut(base, &used, parts * P * sizeof(float2));
    return used;
}

static int parts_transform(struct cuda_files *s, float2 *spectra, int n, struct reason *why)
{
    const int P = s->plan->partition;
    struct response_spectra job = {};
    job.taps = s->staging;
    job.n_rows = job.n_out = 1;
    job.n_taps = n * P;
    job.hop = P;
    job.n_parts = n;
    job.log2_P = log2_of(P);
    job.spectra = spectra;
    job.tw = s->twiddles;
    TRY(response_spectra_launch(&job, s->setup), "the transform of responses");
    return HC_OK;
}

/* Sends the bytes that were packed since the last call of upload_send. */
static int upload_send(struct cuda_files *s, struct mask_upload *upload, struct reason *why)
{
    const size_t bytes = upload->used - upload->sent, P = (size_t)s->plan->partition;
    const char *from = s->pinned + upload->half * s->half + upload->sent;
    if (!bytes) return HC_OK;
    char *to = upload->spectra ? (char *)s->staging : upload->to;
    TRY(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, s->setup), "cudaMemcpyAsync(%zu)", bytes);
    upload->sent = upload->used;
    if (!upload->spectra) {
        upload->to += bytes;
        return HC_OK;
    }
    const size_t n = bytes / (P * sizeof(float));
    PASS(parts_transform(s, upload->spectra, (int)n, why));
    upload->spectra += n * P;
    return HC_OK;
}

/* Sends the half that is full, and waits until the other half is free. */
static int upload_turn(struct cuda_files *s, struct mask_upload *upload, struct reason *why)
{
    PASS(upload_send(s, upload, why));
    TRY(cudaEventRecord(s->half_sent[upload->half], s->setup), "cudaEventRecord");
    upload->half ^= 1;
    upload->sent = upload->used = 0;
    TRY(device_wait_event(s->half_sent[upload->half], s->setup), "making a mask");
    return HC_OK;
}

/* Packs `bytes` and then zeros, `padded` bytes in all. */
static int upload_pack(struct cuda_files *s, struct mask_upload *upload, const void *from, size_t bytes, size_t padded,
                       struct reason *why)
{
    for (size_t done = 0, n; done < padded; done += n) {
        if (upload->used == s->half) PASS(upload_turn(s, upload, why));
        char *to = s->pinned + upload->half * s->half + upload->used;
        const size_t end = done < bytes ? bytes : padded, free_bytes = s->half - upload->used;
        n = end - done < free_bytes ? end - done : free_bytes;
        if (done < bytes) memcpy(to, (const char *)from + done, n);
        else memset(to, 0, n);
        upload->used += n;
    }
    return HC_OK;
}

static int header_pack(struct cuda_files *s, struct mask_upload *upload, const struct matrix *matrix,
                       const struct mask_layout *layout, const struct mask_header *header, const int *first_cell,
                       const struct fir_cell *fir, const struct part_cell *part, struct reason *why)
{
    const size_t fir_bytes = header->part_cells - header->fir_cells, part_bytes = header->taps - header->part_cells;
    PASS(upload_pack(s, upload, first_cell, (s->n_out + 1) * sizeof *first_cell, header->fir_cells, why));
    PASS(upload_pack(s, upload, fir, fir_bytes, fir_bytes, why));
    PASS(upload_pack(s, upload, part, part_bytes, part_bytes, why));
    for (int r = 0; r < matrix->n_responses; r++)
        PASS(upload_pack(s, upload, matrix->taps[r], layout->head[r] * sizeof(float),
                         taps_padded(layout->head[r]) * sizeof(float), why));
    return upload_send(s, upload, why);
}

static int parts_pack(struct cuda_files *s, struct cuda_files_mask *m, struct mask_upload *upload,
                      const struct matrix *matrix, const struct mask_layout *layout, struct reason *why)
{
    const size_t bytes = s->plan->partition * sizeof(float);
    /* The end of a half must not cut a partition. */
    upload->used = upload->sent = (upload->used + bytes - 1) / bytes * bytes;
    upload->spectra = m->spectra;
    for (int r = 0; r < matrix->n_responses; r++)
        PASS(upload_pack(s, upload, matrix->taps[r], matrix->n_taps[r] * sizeof(float), layout->parts[r] * bytes, why));
    return upload_send(s, upload, why);
}

/* Fills the tables of cells, the arrays `first_cell`, fir and part. */
static void mask_cells_make(const struct cuda_files *s, struct cuda_files_mask *m, const struct matrix *matrix,
                            const struct mask_layout *layout, int *first_cell, struct fir_cell *fir,
                            struct part_cell *part)
{
    const int n = matrix->n_cells;
    for (int out = 0, c = 0; out <= s->n_out; out++) {
        int taps = 0, cells = 0;
        first_cell[out] = c;
        for (; c < n && matrix->cells[c].out == out; c++, cells++) {
            const int r = matrix->cells[c].response;
            fir[c].taps = m->taps + layout->head_at[r];
            fir[c].n_taps = layout->head[r];
            fir[c].in = matrix->cells[c].in;
            taps += layout->head[r];
            if (s->plan->direct) continue;
            part[c].spectra = m->spectra + (size_t)layout->parts_at[r] * s->plan->partition;
            part[c].n_parts = layout->parts[r];
            part[c].in = matrix->cells[c].in;
        }
        if (taps > m->max_taps) m->max_taps = taps;
        if (cells > m->max_cells) m->max_cells = cells;
    }
}

static int files_mask_fill(struct cuda_files *s, struct cuda_files_mask *m, const struct matrix *matrix,
                           const struct mask_layout *layout, int *first_cell, struct fir_cell *fir,
                           struct part_cell *part, struct reason *why)
{
    const int P = s->plan->partition;
    size_t head_taps = 0, parts = 0;
    for (int r = 0; r < matrix->n_responses; r++) {
        const int n = matrix->n_taps[r];
        layout->head[r] = s->plan->direct || n < P ? n : P;
        layout->head_at[r] = (int)head_taps;
        layout->parts[r] = s->plan->direct ? 0 : (n + P - 1) / P;
        layout->parts_at[r] = (int)parts;
        head_taps += taps_padded(layout->head[r]);
        parts += layout->parts[r];
        if (layout->parts[r] > m->max_parts) m->max_parts = layout->parts[r];
        if (head_taps > INT32_MAX || parts > INT32_MAX)
            return fail(HC_ENOMEM, why, "cuda: the mask has over 2^31 taps; use fewer or shorter responses");
    }
    const struct mask_header header = header_of(s, matrix, head_taps);
    TRY(cudaSetDevice(s->device), "cudaSetDevice(%d)", s->device);
    PASS(device_alloc(&m->memory, files_mask_cut(m, s, &header, parts, NULL), "the mask", why));
    files_mask_cut(m, s, &header, parts, m->memory);
    mask_cells_make(s, m, matrix, layout, first_cell, fir, part);
    struct mask_upload upload = {};
    upload.to = (char *)m->memory;
    PASS(header_pack(s, &upload, matrix, layout, &header, first_cell, fir, part, why));
    if (!s->plan->direct) PASS(parts_pack(s, m, &upload, matrix, layout, why));
    TRY(device_wait(s->setup), "making a mask");
    return HC_OK;
}

void cuda_files_mask_free(void *state, void *mask)
{
    struct cuda_files *s = (struct cuda_files *)state;
    struct cuda_files_mask *m = (struct cuda_files_mask *)mask;
    if (!m) return;
    cudaSetDevice(s->device);
    device_free_behind(m->memory, s->audio); /* the mask's last products may still run */
    free(m);
}

static int files_mask_make(struct cuda_files *s, struct cuda_files_mask *m, const struct matrix *matrix,
                           struct reason *why)
{
    const size_t n_r = (size_t)matrix->n_responses, n_c = (size_t)matrix->n_cells;
    int *counts = (int *)calloc(4 * n_r + s->n_out + 1, sizeof(int));
    struct fir_cell *fir = (struct fir_cell *)calloc(n_c + 1, sizeof *fir);
    struct part_cell *part = (struct part_cell *)calloc(n_c + 1, sizeof *part);
    struct mask_layout layout = {counts, counts + n_r, counts + 2 * n_r, counts + 3 * n_r};
    const int rc = counts && fir && part ? files_mask_fill(s, m, matrix, &layout, counts + 4 * n_r, fir, part, why)
                                         : fail(HC_ENOMEM, why, "cuda: no host memory for a mask; free some memory");
    free(part);
    free(fir);
    free(counts);
    return rc;
}

int cuda_files_mask_make(void *state, const struct matrix *matrix, void **mask, struct reason *why)
{
    struct cuda_files *s = (struct cuda_files *)state;
    struct cuda_files_mask *m = (struct cuda_files_mask *)calloc(1, sizeof *m);
    *mask = NULL;
    if (!m) return fail(HC_ENOMEM, why, "cuda: no host memory for a mask; free some memory");
    m->due_block = -1;
    const int rc = files_mask_make(s, m, matrix, why);
    if (rc < 0) {
        if (!device_hangs(s->setup)) cuda_files_mask_free(s, m);
        return rc;
    }
    *mask = m;
    return rc;
}
