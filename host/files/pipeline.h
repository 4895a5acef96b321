/* pipeline - convolves a sound file in constant memory: a ring of blocks that go from stage to stage.
 *
 *   a block    empty  ->  full  ->  queued in the engine  ->  done  ->  empty
 *   by the     readers     caller's thread (convolves)        writers
 *
 * The blocks of an engine for files lie in its memory: readers decode to where the engine reads, writers encode from
 * where it writes. Samples that a device decodes and encodes lie there in the format of the file; no other stage touches
 * them. An engine for live blocks and a renderer have blocks of the pipeline. Several threads read a plain file on a disk, a block each. Several threads also write what a device
 * computes, into the mapped pages of a plain file: write(2) locks the file, and a GPU is faster than one thread that
 * encodes or copies. All other files go through libsndfile, on one thread a side.
 */
#ifndef PIPELINE_H
#define PIPELINE_H

#include "dsp/haloconv_files.h"
#include "file_convolution.h"
#include "host/message.h"
#include "level_match.h"
#include "progress.h"

#include <pthread.h>

enum { PIPELINE_THREADS = 8 }; /* maximum a side */

struct pipeline_block;

struct pipeline_writer {
    pthread_t thread;
    struct pipeline *pipeline;
    struct file_writer file;
};

struct pipeline {
    struct sound_in *in;
    struct sound_out *out;
    struct output_range range;
    struct level_match *match; /* NULL: the gain is 1. Else one reader measures, and the writer keeps the frames */
    pthread_t readers[PIPELINE_THREADS];
    struct pipeline_writer writers[PIPELINE_THREADS];
    int n_readers, n_writers;

    int n_blocks, block;  /* block: frames */
    bool raw_in, raw_out; /* samples in the engine's memory are in the file's format */
    bool may_map;         /* several threads write, if the output can be mapped */
    struct pipeline_block *blocks;

    pthread_mutex_t lock; /* for all fields below, and the blocks' stages */
    pthread_cond_t changed;
    bool failed;
    char why[MESSAGE_CAP];             /* the first failure */
    int64_t to_read, to_write;         /* the next block for a reader, for a writer */
    int64_t n_blocks_in, n_blocks_out; /* INT64_MAX: not known yet */
    int64_t n_frames_in;               /* length of the input; known with n_blocks_in */
    enum { MAPPING_UNKNOWN, OUTPUT_NOT_MAPPED, OUTPUT_MAPPED } mapping; /* mapped: all writers write, in any order */

    struct sample_peak seen;                     /* peak of the output; read after pipeline_run */
    double read_s, process_s, encode_s, write_s; /* busy seconds of a stage, all threads; read after pipeline_run */
};

/* The number of blocks that an engine should queue, for hc_config.queue_depth. n_taps: of the mask. */
int pipeline_queue_depth(const struct sound_in *in, int n_out, int n_taps);

/* Starts the first writer, which reserves the output's space on the disk. match: NULL, or it measures the input and
 * keeps the output; then the engine's samples must be HC_PLANAR on both sides. false: pipeline->why has the reason. */
bool pipeline_start(struct pipeline *pipeline, struct sound_in *in, struct sound_out *out, struct output_range range,
                    struct level_match *match);

struct pipeline_renderer { /* convolves instead of an engine */
    int block;          /* frames */
    bool is_device;     /* fast enough for several writers */
    /* Fills out[n_out][n] from in[n_in][n], the next frames; n is `block` except at the end. false: why has the
     * reason. */
    bool (*render)(void *data, const float *const *in, float *const *out, int n, char *why, size_t cap);
    void *data;
};

/* Convolves the whole input; false: pipeline->why has the reason. */
bool pipeline_render(struct pipeline *pipeline, const struct pipeline_renderer *renderer, struct progress *progress);

/* Convolves the whole input with the mask that the engine plays. false: pipeline->why has the reason. */
bool pipeline_run(struct pipeline *pipeline, hc_engine *engine, struct progress *progress);

/* Stops the threads and frees everything but in and out. The reader of a pipe may wait forever: after a failure with
 * in->is_pipe leave the process instead. */
void pipeline_finish(struct pipeline *pipeline);

#endif
