/* compare - A/B: two ready masks are played at equal loudness (hc_live_compare).
 *
 * The threads that use the engines of the two masks measure their outputs, also those that are not heard. The
 * louder mask gets the gain that makes it as loud as the other one.
 */
#ifndef COMPARE_H
#define COMPARE_H

#include "ready.h"

/* Begins to compare the two masks, if they are others than before: after a change of the ready masks. Under
 * paths_lock. */
void compare_renew(hc_live *l);

/* Measures n frames of an engine's output, if its mask is compared. [rt], the thread that uses the engine */
void compare_measure(hc_live *l, struct failover *f, float *const *out, int n);

/* The gain with which the mask of an engine is as loud as the quieter of the two; 1: it is not compared. [rt] */
float compare_gain(const hc_live *l, const struct failover *f);

/* Fills in the fields of the comparison. [rt], any thread */
void compare_get_stats(const hc_live *l, hc_live_stats *stats);

#endif
