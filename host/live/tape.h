/* tape - the last seconds of a session's input, written by the audio thread and read beside it: an engine that is made
 * while the audio runs gets its history from here. */
#ifndef TAPE_H
#define TAPE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tape {
    int n_channels;
    int64_t cap;                /* frames kept                                                         */
    float *frames;              /* [n_channels][cap]; frame i lies at i % cap                          */
    atomic_int_fast64_t pos;    /* frames written since the start; they are there when it says so      */
    atomic_uint reads;          /* orders every read before the write that comes round to its place    */
};

/* Room for n_frames (at least) of n_channels; false: no memory. */
bool tape_open(struct tape *tape, int n_channels, int64_t n_frames);
void tape_close(struct tape *tape);

/* Append n frames of every channel. [rt] */
void tape_write(struct tape *tape, const float *const *in, int n);

/* Frames written so far. [rt] */
int64_t tape_pos(const struct tape *tape);

/* Copy frames [from, from + n) of every channel, which are written. false: the tape has come round to them. [rt] */
bool tape_read(struct tape *tape, int64_t from, int n, float *const *out);

#endif
