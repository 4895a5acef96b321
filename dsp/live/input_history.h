/* input_history - the last seconds of a live input, without NaN, infinity and samples beyond SAMPLE_LIVE_MAX. Engines
 * read their blocks here; an engine that is made while the audio runs first processes the older frames.
 *
 *   row   [ size frames: a ring, frame i at i % size .............. ][ max_block frames ]
 *
 * A block is contiguous: a block that passes the ring's end continues in the frames behind the ring. These frames are
 * also copied to the ring's beginning, for later readers. One thread writes; any number of threads read.
 */
#ifndef INPUT_HISTORY_H
#define INPUT_HISTORY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct samples;

struct input_history {
    const struct samples *samples;
    int n_channels, max_block;
    int64_t size;               /* frames in the ring                                                  */
    size_t stride;              /* floats from one row to the next                                     */
    float *frames;              /* [n_channels][stride]                                                */
    atomic_int_fast64_t end;    /* frames published since the start                                    */
    atomic_uint reads;          /* orders every read before the write that overwrites its frames       */
};

/* Makes a history of n_frames of n_channels, written in blocks of up to max_block. false: no memory. [setup] */
bool input_history_open(struct input_history *history, int n_channels, int64_t n_frames, int max_block);
void input_history_close(struct input_history *history);

/* Copies n frames of each channel, from in[ch] + at, behind the end and points rows[n_channels] at the copies. They are
 * not published yet. Returns how many samples were not kept, and became 0; raises peak_bits[n_channels] to the bits of
 * the largest magnitudes. [rt] */
size_t input_history_write(struct input_history *history, const float *const *in, int at, int n, const float **rows,
                           uint32_t *peak_bits);
/* Publishes the n frames that were written last. [rt] */
void input_history_publish(struct input_history *history, int n);

/* Returns the number of frames published since the start. [rt] */
int64_t input_history_end(const struct input_history *history);

/* Points rows at the published frames [from, from + *n); *n is cut where the ring ends. [rt] */
void input_history_read(const struct input_history *history, int64_t from, int *n, const float **rows);

/* Call it after reading frames from `from` on: false if the writer may have overwritten them meanwhile. [rt] */
bool input_history_kept(struct input_history *history, int64_t from);

/* Returns the oldest frame that the writer does not overwrite in the next two blocks. [rt] */
int64_t input_history_oldest(const struct input_history *history);

#endif
