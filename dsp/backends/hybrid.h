/* hybrid - a backend that consists of two: the head of a mask is convolved in place, inside the call; the tail is
 * convolved on a device, in parallel. The call itself uses no device, so that many engines can share one.
 *
 *   taps     [0 ........ 2T)[2T ................. max_taps)
 *             head           tail: a mask of its own, shifted by 2T, in device calls of T frames
 *
 *   frames   ... kT ......... (k+1)T ......... (k+2)T ......... (k+3)T
 *   input        [=== block k ===)
 *   device                       [ T frames of time )
 *   output                                        [=== block k ===)
 *
 * A complete block of input is posted as a job to the engine's device thread (device_queue.h). T frames later the
 * output of the job is due and is added to the head's. If the output is not complete, the call waits for it until its
 * deadline, at most once a job. If it is then still not complete, the block has no tail, and play returns HC_LATE. The
 * thread plays jobs in order: the device's input history contains a late block too. If all jobs are in use, a block is
 * skipped, and the device's history contains silence instead.
 *
 * Every engine has a device thread of its own, so that a device that stalls delays only its own engines. Blocks of T
 * frames are counted from the start of the stream. A host that runs fifty engines can start their streams in different
 * calls, so that they do not use the device at the same moment. The output of an engine does not depend on other
 * engines.
 *
 * Masks: the device plays every prepared mask into a slot of its own. The crossfade is done here, with the gains of the
 * head's crossfade. A fade can therefore begin at any frame, as soon as the jobs that are due contain the new mask with
 * its full tail.
 */
#ifndef HALOCONV_HYBRID_H
#define HALOCONV_HYBRID_H

#include "dsp/device/backend.h"

/* T for calls of up to `block` frames: a power of two, at least 10 ms, so that the device has time for other
 * engines. */
int hybrid_tail_block(int rate, int block);

/* Bytes of the jobs' slots. */
double hybrid_memory(const struct plan *tail, const struct plan_shape *shape);

#endif
