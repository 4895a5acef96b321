/* hybrid - a backend that consists of two: the head of a mask is convolved in place, inside the call; the tail is
 * convolved on a device, in parallel. With the head on the CPU the call itself uses no device, so that many engines can
 * share a device.
 *
 *   taps     [0 ........ 2T)[2T ................. max_taps)
 *             head           tail: a separate mask, shifted by 2T, in device calls of T frames
 *
 * The tail runs behind the head, as delayed_tail.h describes (with S = T).
 *
 * Masks: the device plays every prepared mask into a separate buffer. The crossfade is done here, with the gains of the
 * head's crossfade. A fade can therefore begin at any frame, as soon as the jobs that are due contain the new mask with
 * its full tail.
 */
#ifndef HALOCONV_HYBRID_H
#define HALOCONV_HYBRID_H

#include "dsp/device/backend.h"

/* Divides the taps of a live engine: those of the head, and those of the tail, in blocks of T. false: no tail. */
bool hybrid_split(const struct backend *backend, int rate, const struct plan_shape *shape, struct plan_shape *head,
                  struct plan_shape *tail);

/* Returns the bytes of the jobs' buffers. */
double hybrid_memory(const struct plan *tail, const struct plan_shape *shape);

#endif
