/* pipeline - a sound file through an engine, in constant memory, the stages beside each other:
 *
 *   reader thread                    caller             encoder thread             writer thread
 *   read, decode, to planar   ->     hc_process   ->    interleave, round   ->     encode, write
 *
 * Reader and writer start before there is an engine: one keeps what it reads as it comes, the other makes room in its
 * file; so the start of a GPU and the work on the files share their time.
 */
#ifndef PIPELINE_H
#define PIPELINE_H

#include "block_queue.h"
#include "dsp/haloconv.h"
#include "message.h"
#include "sound_in.h"
#include "sound_out.h"

#include <pthread.h>
#include <stdint.h>

struct raw_chunk;

struct pipeline_range { /* which part of the full convolution is written */
    int64_t skip;       /* frames left out at its start */
    int64_t tail;       /* frames written beyond the length of the input */
};

struct pipeline_progress { /* called by the caller's thread now and then */
    void (*report)(void *data, int64_t frames_done);
    void *data;
};

struct pipeline {
    struct sound_in *in;
    struct sound_out *out;
    pthread_t reader, encoder, writer;
    int n_threads;

    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t changed;
    int block; /* frames of a block of the engine; 0 = not known yet */
    bool failed;
    char why[MESSAGE_CAP]; /* the first failure */

    int64_t backlog_bytes; /* most that is read before there is an engine */
    struct raw_chunk *backlog, **backlog_end; /* reader only */
    struct in_block *in_blocks;
    struct out_block *out_blocks;
    struct raw_chunk **raw_chunks; /* between encoder and writer */
    int n_blocks, n_raw_chunks;
    int64_t raw_frames; /* of one of them */
    struct block_queue in_free, in_full, out_free, out_full, raw_free, raw_full;

    struct sample_peak seen;                     /* of the output; read it after pipeline_run */
    double read_s, process_s, encode_s, write_s; /* busy seconds of each stage; likewise */
};

/* Start to read, at most backlog_bytes before there is an engine. false: why has the reason; pipeline_finish is not to
 * be called then. */
bool pipeline_start(struct pipeline *pipeline, struct sound_in *in, int64_t backlog_bytes, char *why, size_t cap);

/* Start the threads that will write; they make room in the file at once. false: pipeline->why has the reason. */
bool pipeline_open_output(struct pipeline *pipeline, struct sound_out *out);

/* Convolve all of it (the engine's mask has been swapped in). false: pipeline->why has the reason. */
bool pipeline_run(struct pipeline *pipeline, hc_engine *engine, struct pipeline_range range,
                  struct pipeline_progress progress);

/* Stop the threads and free everything but in and out. The reader of a pipe may wait for ever: after a failure with
 * in->is_pipe leave the process instead. */
void pipeline_finish(struct pipeline *pipeline);

#endif
