/* cuda_files - the CUDA backend for files: the state of an engine and a mask on a device.
 *
 *   cuda_files        open, close, reset; the copies and the course of a call
 *   files_partitions  the convolution of the frames of a call
 *   files_masks       makes masks, on stream `setup`
 *
 * Words: up is from the host to the device, down is back. A part is a partition of a response. An entry of the queue is
 * the device's buffers of one call; struct io_buffer is the host's. An FDL has n_entries spectra of an input.
 */
#ifndef HALOCONV_CUDA_FILES_H
#define HALOCONV_CUDA_FILES_H

#include "dsp/device/backend.h"
#include "device_memory.h"

#include <cuda_runtime.h>
#include <stdint.h>

enum { MAX_QUEUE_DEPTH = 16 };   /* max. calls under way                                                         */

struct files_entry {
    cudaEvent_t uploaded, played, downloaded;
    float *wet;              /* [n_out][block]: the output                                                     */
    char *raw_in, *raw_out;  /* samples as the file has them; NULL: planar                                     */
    struct io_counts *seen;  /* NULL: all samples are planar                                                   */
};

struct cuda_files {
    int device, n_sm;
    const struct plan *plan;
    int n_in, n_out;
    cudaStream_t audio, setup, up, down;
    int queue_depth;         /* 2 to MAX_QUEUE_DEPTH                                                           */
    struct files_entry entries[MAX_QUEUE_DEPTH]; /* call i at i % queue_depth                                  */
    uint64_t n_begun, n_ended; /* number of calls                                                              */
    int in_samples, out_samples; /* enum hc_samples                                                            */
    size_t raw_in_bytes, raw_out_bytes;
    void *memory;            /* device memory; the pointers below and the entries' buffers point into it       */
    size_t history_bytes;    /* first bytes of `memory`: ring, FIR scratch, FDL; all zero after a reset        */
    float *ring;             /* [n_in][ring_length], frame f at f & (ring_length - 1)                          */
    unsigned ring_length;
    void *fir_scratch;
    float *from_wet;         /* [n_out][block]: the output of the mask `from` of a fade                        */
    float2 *twiddles;        /* fft_factors.h; if plan->direct, this field and all down to `staging` are NULL            */
    float2 *spectra;         /* [n_in][n_entries][P], the FDL: block b of an input at b % n_entries            */
    int n_entries;
    float2 *sums;            /* [sums_capacity][P]: output spectra before the inverse                          */
    size_t sums_capacity;
    float *staging;          /* `half` bytes: partitions before their transform; stream setup                  */
    char *pinned;            /* [2][half], host memory: masks are packed there                                 */
    size_t half;             /* bytes; a power of two                                                          */
    cudaEvent_t half_sent[2]; /* the copies from a half are done                                               */
    int64_t total;           /* frames in the input history                                                    */
    int64_t n_spectra;       /* blocks whose spectra were made                                                 */
    int resets;              /* 1 + number of calls of reset                                                   */
};

struct cuda_files_mask {
    void *memory;            /* device; the pointers below point into it                                       */
    float *taps;             /* the first P taps (direct: all) of each response, each padded to FIR_PAD        */
    int *first_cell;         /* [n_out + 1]: cells of an output                                                */
    struct fir_cell *fir_cells;   /* [n_cells]                                                                 */
    struct part_cell *part_cells; /* [n_cells]                                                                 */
    float2 *spectra;         /* responses one after another, [n_parts][P] each                                 */
    float *due;              /* [n_out][P]: the sum of partitions 1 ... for block due_block                    */
    int64_t due_block;
    int due_resets;          /* cuda_files.resets when `due` was made                                          */
    int max_taps, max_cells; /* max. of one output                                                             */
    int max_parts;           /* max. of one response                                                           */
};

/* ---- cuda_files: as in struct backend ---------------------------------------------------------------------------- */
int cuda_files_open(const hc_config *config, const struct plan *plan, int device, void **state, struct reason *why);
void cuda_files_close(void *state);
int cuda_files_buffer_make(void *state, struct io_buffer *buffer, struct reason *why);
void cuda_files_buffer_free(void *state, struct io_buffer *buffer);
int cuda_files_reset(void *state, struct reason *why);
int cuda_files_begin(void *state, struct io_buffer *buffer, int n, const struct fade *fade, struct reason *why);
int cuda_files_end(void *state, struct reason *why);

/* ---- files_masks ------------------------------------------------------------------------------------------------- */
/* Allocates and frees s->pinned and its events. */
int files_staging_open(struct cuda_files *s, const hc_config *config, struct reason *why);
void files_staging_close(struct cuda_files *s);
/* As in struct backend. */
int cuda_files_mask_make(void *state, const struct matrix *matrix, void **mask, struct reason *why);
void cuda_files_mask_free(void *state, void *mask);

/* ---- files_partitions: the frames of a call are in the ring, from frame s->total on ------------------------------ */
/* Do the whole partitions in the next n frames go through transforms? */
bool files_has_whole(const struct cuda_files *s, int n);
/* Writes the output of mask m for this call of n frames to wet. whole: the result of files_has_whole. */
int files_play(struct cuda_files *s, struct cuda_files_mask *m, int n, bool whole, float *wet, struct reason *why);
/* Prepares the next call, behind the output and after s->total was advanced: computes spectra and sums for which that
 * call would otherwise wait. to, from: the masks that the call may play, or NULL. */
int files_prepare(struct cuda_files *s, bool whole, struct cuda_files_mask *to, struct cuda_files_mask *from,
                  struct reason *why);

#endif
