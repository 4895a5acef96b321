/* async_resampler - carries audio from one sound card's clock to another's: a ring between their callbacks, and a
 * resampler whose ratio follows the two clocks so slowly that the pitch does not audibly move.
 *
 *   input callback  -> async_resampler_write: input clock -> ring, and the line "frame k was written at time t"
 *   output callback -> async_resampler_read:  output clock -> distance of the reader from that line -> ratio
 *                                             ring -> resampler (libsamplerate) -> the host's buffers
 *
 * The first two seconds are silence, in which both clocks and the lateness of their callbacks are measured. Then the
 * reader stays behind the writer by one block of each side, the resampler's 46 frames, and twice the largest lateness.
 * This distance is the whole added latency. If a callback comes later than every earlier one, the ring may run empty:
 * this counts as a restart, and the distance grows with the new lateness.
 */
#ifndef ASYNC_RESAMPLER_H
#define ASYNC_RESAMPLER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- the clock of a card ---------------------------------------------------------------------- */

/* Estimates when a card's frames really pass, although callbacks come late by varying times. The method is a
 * delay-locked loop (Fons Adriaensen, "Using a DLL to filter time", 2005) for callbacks of any length. The loop starts
 * with a wide bandwidth, settles within a second, and narrows until a single callback hardly moves it. */
struct clock {
    double frame_s, nominal_s; /* seconds that a frame lasts: as measured, and at the nominal rate                    */
    double now_s;              /* estimated time of the last callback, without its lateness                           */
    double age_s;              /* seconds since the loop started; sets its bandwidth                                  */
    double max_off_s;          /* largest deviation of a callback since the loop settled                              */
    bool runs;
};

void clock_open(struct clock *clock, int rate);

/* Adds a callback that came at time_s, n frames after the last one. false: the deviation was so large that the loop
 * started again. [rt] */
bool clock_update(struct clock *clock, double time_s, int n);

/* Estimates how fast two clocks drift apart: the slope of a least-squares line through the delay between them. */
struct drift {
    double n, t, d, tt, td; /* sums over the points: count, time, delay, time^2, time * delay */
    double first_s;
};

void drift_add(struct drift *drift, double time_s, double delay_s);

/* Returns the growth of the delay in parts per million; 0 during the first minute. */
double drift_ppm(const struct drift *drift);

/* ---- the resampler ---------------------------------------------------------------------------- */

struct async_resampler;

/* Opens a resampler. NULL: why has the reason, for example a build without libsamplerate. */
struct async_resampler *async_resampler_open(int n_channels, int rate, char *why, size_t cap);
void async_resampler_close(struct async_resampler *resampler); /* NULL is allowed */

/* Writes in[n][n_channels], interleaved, from the input callback that came at time_s. [rt], input thread */
void async_resampler_write(struct async_resampler *resampler, const float *in, int n, double time_s);

/* Fills out[n_channels][n] for the output callback that came at time_s. false: silence, because the clocks are not
 * measured yet or the ring is empty. [rt], output thread */
bool async_resampler_read(struct async_resampler *resampler, float *const *out, int n, double time_s);

struct async_resampler_status {
    bool runs;           /* audio passes, instead of silence                                                 */
    double ppm;          /* parts per million by which the input's clock is faster than the output's         */
    double latency_s;    /* latency that the resampler adds                                                  */
    uint64_t restarts;   /* times that the ring ran empty or full, or a clock jumped, since audio first passed */
};
void async_resampler_get_status(const struct async_resampler *resampler, struct async_resampler_status *status);

#endif
