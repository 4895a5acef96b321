/* haloconv_files - convolution of files: blocks have no deadline, and several of them can be queued.
 *
 * Open an engine for files with hc_config.block = HC_BLOCK_FILES. hc_process works on it too. hc_submit and hc_collect
 * are the two halves of hc_process: copies to and from a device overlap with the device's work on other blocks.
 *
 *   until hc_info.queue_depth blocks are queued:
 *       hc_block_buffers(e, i, &in, NULL);  fill in;  hc_submit(e, NULL, n);  i++
 *   then:
 *       n = hc_collect(e, NULL);  hc_block_buffers(e, j, NULL, &out);  read out;  j++
 *
 * Conventions and tags are those of haloconv.h.
 */
#ifndef HALOCONV_FILES_H
#define HALOCONV_FILES_H

#include "haloconv.h"

#ifdef __cplusplus
extern "C" {
#endif

enum hc_samples {            /* the format of the samples in a block's buffers (hc_block_buffers)                */
    HC_PLANAR = 0,           /* floats, channel after channel                                                    */
    HC_S16, HC_S24, HC_S32, HC_FLOAT, /* frame after frame, as in a sound file, the lowest byte first; full scale of
                                the integers is 2^15, 2^23, 2^31                                                 */
    HC_BIG_ENDIAN = 8        /* added to one of these four: the highest byte first, as in AIFF                   */
};

/* Queues n_frames (1 to hc_info.block) and returns before they are convolved. At most hc_info.queue_depth blocks may be
 * queued. in[n_in][n_frames]; NULL: the frames are in the block's buffer (hc_block_buffers), where planar samples must
 * be finite. For a GPU the buffer is pinned memory, which the GPU reads directly. `in` must be NULL unless
 * hc_info.in_samples is HC_PLANAR. Call hc_process only if no block is queued and both formats are HC_PLANAR. Returns
 * HC_OK, HC_EINVAL (the queue is full, or n_frames is out of range; not planar; hc_info.queue_depth is 0), HC_EDEVICE
 * (the block is queued all the same). [setup], one thread at a time */
int hc_submit(hc_engine *engine, const float *const *in, int n_frames);

/* Waits for the oldest block. Its frames go to out[n_out][n_frames]; NULL: they are in the block's buffer
 * (hc_block_buffers). `out` must be NULL unless hc_info.out_samples is HC_PLANAR. The output is that of hc_process.
 * Returns the number of frames, 1 or more, never HC_LATE; HC_EINVAL (no block is queued; not planar), HC_EDEVICE (`out`
 * is silence). Samples in the block's buffer may be NaN or Inf, if they are beyond the range of a float; those in `out`
 * are 0 then. [setup], one thread at a time with hc_submit */
int hc_collect(hc_engine *engine, float *const *out);

/* Finds the buffers of block i, counted from hc_open or hc_reset. Block i + hc_info.queue_depth has the same buffers.
 * Any thread may fill *in after block i - queue_depth is collected and before block i is submitted. Any thread may read
 * *out after block i is collected and before block i + queue_depth is submitted. HC_PLANAR: channel ch starts at ch *
 * hc_info.block floats; other formats: frame f starts at f * channels samples. in or out may be NULL. Returns HC_OK, or
 * HC_EINVAL (i is negative, or hc_info.queue_depth is 0). [setup] */
int hc_block_buffers(hc_engine *engine, int64_t i, void **in, const void **out);

/* Limits hc_info.clipped and hc_info.peak to frames [from, to), counted from hc_open or hc_reset, of blocks that are
 * submitted from now on: the frames that the program writes, if these are not all. `to` may be unknown until the input
 * ends. At first all frames count. Only outputs that are not planar are counted. [setup], one thread at a time with
 * hc_submit */
void hc_count_set(hc_engine *engine, int64_t from, int64_t to);

#ifdef __cplusplus
}
#endif
#endif
