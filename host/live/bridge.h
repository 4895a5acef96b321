/* bridge - input by one sound card's clock, output by another's: a ring between their callbacks, and a resampler whose
 * ratio follows the two clocks so smoothly that nobody hears it.
 *
 *   input callback  -> bridge_write: clock in -> ring                          the line "frame k was there at second t"
 *   output callback -> bridge_read:  clock out; how far is it from that line to what was read? -> ratio
 *                                    ring -> resampler (libsamplerate) -> the host's buffers
 *
 * The first two seconds are silence: both clocks are learned, and with them how late and how long their callbacks are.
 * Then the reader keeps behind the writer by a block of each, the resampler's 46 frames, and twice what callbacks were
 * off at most: all the latency that is added. When one comes later still the ring may run dry: that is counted, and
 * from then on there is room for it.
 */
#ifndef BRIDGE_H
#define BRIDGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bridge;

/* NULL: why has the reason (this build has no libsamplerate, say). */
struct bridge *bridge_open(int n_channels, int rate, char *why, size_t cap);
void bridge_close(struct bridge *bridge);

/* Interleaved frames of the input's callback, which came at time_s. [rt], one thread */
void bridge_write(struct bridge *bridge, const float *in, int n, double time_s);

/* out[n_channels][n] for the output's callback, which came at time_s. false: silence, nothing is known or there yet.
 * [rt], one thread */
bool bridge_read(struct bridge *bridge, float *const *out, int n, double time_s);

struct bridge_status {
    bool runs;           /* it plays                                                                         */
    double ppm;          /* the input's clock is faster than the output's by so much                         */
    double latency_s;    /* that is added                                                                    */
    uint64_t restarts;   /* it ran dry or over, or a clock jumped, since it first played                     */
};
void bridge_get_status(const struct bridge *bridge, struct bridge_status *status);

#endif
