/* hybrid - a backend made of two: the head of a mask is convolved in place, inside the callback; its tail on a device,
 * beside the callback. The callback makes no call to the device, so many engines can share one.
 *
 *   taps     [0 ........ 2T)[2T ................. max_taps)
 *             near           tail: a mask of its own, shifted by 2T, in calls of T frames
 *
 *   frames   ... kT ......... (k+1)T ......... (k+2)T ......... (k+3)T
 *   input        [=== block k ===)
 *   device                       [ T frames of time )
 *   heard                                         [=== block k ===)
 *
 * A complete block of input is posted as a job to a thread of this engine's own, which drives the device. T frames later
 * its output is due and is added to the head's. If the output is not ready, the callback waits up to wait_us, once a job.
 * If it is still missing, the block has no tail and process returns HC_LATE. The thread does its jobs in order: input
 * whose output comes too late is still in the device's history. If all jobs are taken, a block is lost: it is silence in
 * that history.
 *
 * Each engine has a thread of its own (device_queue.h), so that one whose device stalls holds up no other. Its blocks
 * begin with the stream. A host that runs fifty engines lets their streams begin in different callbacks, so that they do
 * not call the device in the same one; what an engine plays does not depend on how many others there are.
 *
 * Masks: the device plays every warm mask apart, and the crossfade is done here, by the gains of the near part's: so a
 * fade may begin at any frame as soon as the jobs that are heard have the new mask in them, with its full tail.
 */
#ifndef HALOCONV_HYBRID_H
#define HALOCONV_HYBRID_H

#include "backend.h"

/* T for calls of up to `block` frames: a hundredth of a second at least, time for a device that has others to serve. */
int hybrid_tail_block(int rate, int block);

/* Bytes of blocks that are on their way to the device and back. */
double hybrid_memory(const struct plan *tail, const struct plan_shape *shape);

#endif
