/* pipeline - a sound file through an engine, in constant memory: a ring of blocks that go from stage to stage.
 *
 *   a block    empty  ->  full  ->  under way  ->  done  ->  empty
 *   by the     readers     caller (convolves)      writers
 *
 * What a device decodes and encodes by itself lies in the engine's own memory, as it is in the file, and nobody else
 * touches a sample of it. A plain file on a disk is read by several threads, a block each; what a device encodes is also
 * written by several, into the file's pages: a write(2) has the file to itself, and a GPU is faster than one thread that
 * copies. All else goes through libsndfile, on one thread a side.
 */
#ifndef PIPELINE_H
#define PIPELINE_H

#include "dsp/haloconv_files.h"
#include "host/message.h"
#include "sound_in.h"
#include "sound_out.h"

#include <pthread.h>
#include <stdint.h>

enum { PIPELINE_HANDS = 8 }; /* threads a side, at most */

struct pipeline_range { /* which part of the full convolution is written */
    int64_t skip;       /* frames left out at its start */
    int64_t tail;       /* frames written beyond the length of the input */
};

struct pipeline_progress { /* called by the caller's thread now and then */
    void (*report)(void *data, int64_t frames_done);
    void *data;
};

struct pipeline_block;

struct pipeline {
    struct sound_in *in;
    struct sound_out *out;
    struct pipeline_range range;
    pthread_t readers[PIPELINE_HANDS], writers[PIPELINE_HANDS];
    int n_readers, n_writers;

    int n_blocks, block; /* block: frames */
    bool raw_in, raw_out; /* in the engine's own memory, as in the file */
    struct pipeline_block *blocks;

    pthread_mutex_t lock; /* of all that follows, and of the blocks' stages */
    pthread_cond_t changed;
    bool failed;
    char why[MESSAGE_CAP]; /* the first failure */
    int64_t to_read, to_write; /* the next block for a reader, for a writer */
    int64_t n_blocks_in, n_blocks_out; /* INT64_MAX: not known yet */
    int64_t n_frames_in; /* known with n_blocks_in */
    enum { PLACES_UNKNOWN, PLACES_NONE, PLACES_MAPPED } places; /* can the writers write anywhere? */

    struct sample_peak seen;                     /* of the output; read it after pipeline_run */
    double read_s, process_s, encode_s, write_s; /* busy seconds of each stage, of all its threads; likewise */
};

/* How many blocks an engine should take at once, for hc_config.flight. */
int pipeline_flight(const struct sound_in *in, int n_out);

/* Begin to make room in the output. false: pipeline->why has the reason. */
bool pipeline_start(struct pipeline *pipeline, struct sound_in *in, struct sound_out *out, struct pipeline_range range);

/* Convolve all of it (the engine's mask has been swapped in). false: pipeline->why has the reason. */
bool pipeline_run(struct pipeline *pipeline, hc_engine *engine, struct pipeline_progress progress);

/* Stop the threads and free everything but in and out. The reader of a pipe may wait for ever: after a failure with
 * in->is_pipe leave the process instead. */
void pipeline_finish(struct pipeline *pipeline);

#endif
