/* input_history - the last seconds of a live input, NaN and infinity removed: the engines read their blocks here, and
 * an engine that is made while the audio runs processes the past from here.
 *
 *   row   [ size frames: a ring, frame i at i % size .............. ][ most_block frames ]
 *
 * A block is contiguous: one that passes the ring's end goes on into the frames behind it, and its rest is copied to
 * the ring's beginning, for later readers. One thread writes; any number read beside it.
 */
#ifndef INPUT_HISTORY_H
#define INPUT_HISTORY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct simd;

struct input_history {
    const struct simd *simd;
    int n_channels, most_block;
    int64_t size;               /* frames                                                              */
    size_t stride;              /* floats from row to row                                              */
    float *frames;              /* [n_channels][stride]                                                */
    atomic_int_fast64_t end;    /* frames published since the start                                    */
    atomic_uint reads;          /* orders every read before the write that comes round to its place    */
};

/* Room for the last n_frames of n_channels, in blocks of up to most_block. false: no memory. */
bool input_history_open(struct input_history *history, int n_channels, int64_t n_frames, int most_block);
void input_history_close(struct input_history *history);

/* Copy n frames in[ch] + at of every channel behind the end and point rows[n_channels] at them. They are not yet
 * published. Returns how many were NaN or infinite; raises *peak_bits to the bits of the largest magnitude. [rt] */
size_t input_history_write(struct input_history *history, const float *const *in, int at, int n, const float **rows,
                           uint32_t *peak_bits);
/* The n frames written last count from now on. [rt] */
void input_history_publish(struct input_history *history, int n);

/* Frames published so far. [rt] */
int64_t input_history_end(const struct input_history *history);

/* Point rows at frames [from, from + *n), which are published; *n is cut where the ring ends. After they were read:
 * input_history_kept says whether they were there all the time, or overwritten meanwhile. [rt] */
void input_history_read(const struct input_history *history, int64_t from, int *n, const float **rows);
bool input_history_kept(struct input_history *history, int64_t from);

/* The oldest frame that a reader may count on. [rt] */
int64_t input_history_oldest(const struct input_history *history);

#endif
