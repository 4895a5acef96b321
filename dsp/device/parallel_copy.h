/* parallel_copy - copies a block of many channels into a buffer and out of it, in chunks, with several threads, while
 * the device works on other chunks.
 *
 *   audio thread, copy threads   [load 0][load 1] .. [load n-1]              [unload 0][unload 1] .. [unload n-1]
 *   engine thread                    [upload 0..1][upload 2 ..]  [device]  [outputs of 0..3][outputs of 4..7] ..
 *
 * A thread claims the next unclaimed chunk (backend.h defines chunks). At 16384 channels one thread needs 0.4 ms each
 * way for data that a GPU fetches in 0.1 ms.
 *
 * The copy threads use the caller's buffers. A parallel copy is therefore only for a call of hc_process that waits for
 * its block without bound. The engine thread's side, parallel_copy_loaded and parallel_copy_done, is in backend.h.
 */
#ifndef HALOCONV_PARALLEL_COPY_H
#define HALOCONV_PARALLEL_COPY_H

#include "backend.h"
#include "dsp/base/samples.h"

#include <stddef.h>
#include <stdint.h>

/* Returns the number of copy threads, besides the audio thread, that speed up blocks of this size; 0: no parallel copy.
 * n_threads: as in hc_config. */
int parallel_copy_threads(int n_in, int n_out, int block, int n_threads);

/* spin_us: how long a copy thread spins for the next block before it sleeps. The copy has fewer threads if the system
 * refuses more. NULL: no memory. [setup] */
struct parallel_copy *parallel_copy_open(int n_threads, int n_in, int n_out, int block, int64_t spin_us,
                                         const struct samples *samples);
void parallel_copy_close(struct parallel_copy *copy); /* NULL is allowed. [setup] */

/* Starts a block of n frames: `in` goes to the buffer, and the buffer's output to `out`. [rt], audio thread */
void parallel_copy_begin(struct parallel_copy *copy, struct io_buffer *buffer, const float *const *in,
                         float *const *out, int n);
/* Copies chunks, together with the copy threads, until the whole output is in `out`. Call it after the block is posted
 * to the device. Returns the number of input samples that became 0, as engine_load does. [rt], audio thread */
size_t parallel_copy_finish(struct parallel_copy *copy);
/* Returns the number of NaN and Inf in the output of that block, which became 0. [rt], audio thread */
size_t parallel_copy_overflowed(struct parallel_copy *copy);

#endif
