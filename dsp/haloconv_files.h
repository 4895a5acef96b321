/* haloconv_files - convolution of files: blocks without a deadline, several of them queued at once.
 *
 * An engine for files is opened with hc_config.block = HC_BLOCK_FILES. hc_process works on it too. hc_submit and
 * hc_collect are its two halves: copies to and from a device, and the device's work on other blocks, share their time.
 *
 *   hc_room(e, i, &in, NULL);  fill in;  hc_submit(e, NULL, n);  i++      until hc_info.flight blocks are queued
 *   n = hc_collect(e, NULL);  hc_room(e, j, NULL, &out);  read out;  j++
 *
 * Conventions and tags are those of haloconv.h.
 */
#ifndef HALOCONV_FILES_H
#define HALOCONV_FILES_H

#include "haloconv.h"

#ifdef __cplusplus
extern "C" {
#endif

enum hc_samples {            /* how the frames of a block lie in its buffers (hc_room)                        */
    HC_PLANAR = 0,           /* floats; channel 1 follows channel 0                                           */
    HC_S16, HC_S24, HC_S32, HC_FLOAT, /* frame by frame, as in a sound file, the lowest byte first; full scale of
                                         integers is 2^15, 2^23, 2^31                                         */
    HC_BIG_ENDIAN = 8        /* added to one of these: the highest byte first, as in AIFF                     */
};

/* Queues n_frames (1 to hc_info.block) and returns before they are convolved. At most hc_info.flight blocks may be
 * queued. in[n_in][n_frames]; NULL: they are in the block's buffer (hc_room), which for a GPU is pinned memory that the
 * GPU reads directly; planar samples there must be finite. in must be NULL unless hc_info.in_samples is HC_PLANAR.
 * hc_process may be called when no block is queued, and both formats are HC_PLANAR. Returns HC_OK, HC_EINVAL (the queue
 * is full; not planar; hc_info.flight is 0), HC_EDEVICE. [setup], one thread at a time */
int hc_submit(hc_engine *engine, const float *const *in, int n_frames);

/* Waits for the oldest block. Its frames go to out[n_out][n_frames]; NULL: they are read in the block's buffer (hc_room).
 * out must be NULL unless hc_info.out_samples is HC_PLANAR. The output is that of hc_process. Returns the count of
 * frames, HC_EINVAL (nothing is queued; not planar; hc_info.flight is 0), HC_EDEVICE. [setup], one thread at a time with
 * hc_submit */
int hc_collect(hc_engine *engine, float *const *out);

/* The buffers of block i, counted from hc_open or hc_reset; block i + hc_info.flight has the same. *in may be filled, by
 * any threads, after block i - flight has been collected and before block i is submitted. *out may be read after block
 * i has been collected and before block i + flight is submitted. Planar: channel ch starts at ch * hc_info.block floats;
 * else frame f starts at f * channels samples. in or out may be NULL. HC_EINVAL: i is negative or hc_info.flight is 0.
 * [setup] */
int hc_room(hc_engine *engine, int64_t i, void **in, const void **out);

/* Limits the count of clipped samples and the peak (hc_info) to frames [from, to), counted from hc_open or hc_reset, of
 * blocks that are submitted from now on. At first all frames count. Only outputs that are not planar are counted.
 * [setup], one thread at a time with hc_submit */
void hc_count_set(hc_engine *engine, int64_t from, int64_t to);

#ifdef __cplusplus
}
#endif
#endif
