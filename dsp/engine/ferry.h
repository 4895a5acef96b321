/* ferry - a block of many channels on its way into a slot and out of it: in parts, by several threads, beside the device.
 *
 *   audio thread, hands   [in 0][in 1] ..  [in n-1]            [out 0][out 1] .. [out n-1]     each part by who comes first
 *   the driver                 [up 0..1][up 2 ..]  [ device ]  [landed 0..3][landed 4..7] ..   as far as they are there
 *
 * Part i of n is channels [N i / n, N (i + 1) / n) of the N inputs, or outputs. At 16384 channels one thread takes 0.4 ms
 * each way for what a GPU fetches in 0.1 ms. The hands touch the caller's buffers: only for an engine whose hc_process waits
 * for its block.
 */
#ifndef HALOCONV_FERRY_H
#define HALOCONV_FERRY_H

#include "backend.h"
#include "dsp/cpu/simd.h"

#include <stddef.h>
#include <stdint.h>

/* How many hands are worth it beside the audio thread, for blocks of n_in and n_out channels; 0: none, the driver's queue
 * does without a ferry. n_threads: as in hc_config. */
int ferry_hands(int n_in, int n_out, int block, int n_threads);
/* look_us: how long a hand looks for the next block before it sleeps. Fewer hands than asked for if the system gives no
 * more. NULL when memory ran out. [setup] */
struct ferry *ferry_open(int n_hands, int n_in, int n_out, int block, int64_t look_us, const struct simd *simd);
void ferry_close(struct ferry *ferry);

/* The audio thread: n frames of in go to the slot, and what lands in it to out. Then the driver is told, and then this
 * thread carries with the others, until all is in out. Returns how many non-finite frames became zeros. [rt] */
void ferry_begin(struct ferry *ferry, struct slot *slot, const float *const *in, float *const *out, int n);
size_t ferry_carry(struct ferry *ferry);

/* The driver's part, ferry_loaded and ferry_landed, is in backend.h. */

#endif
