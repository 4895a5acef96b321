/* batch_run - the work of a batch: pieces of its list, taken by workers, each with engines of its own.
 *
 *   list, sorted by length and mask   ->  pieces of up to BATCH_PIECE files  ->  worker: read, convolve, level, write
 *
 * A piece is the same whoever takes it, and so is what comes out. On a GPU the files of a piece go through one engine
 * side by side, each with its mask, as so many channels: one launch serves them all. On the CPU they go one by one, on
 * as many threads as there are processors; where the list is shorter than that, the threads share a file.
 *
 * Memory: the shelf of masks, and a worker's engines (at most BATCH_ENGINES) with their blocks; files are read and
 * written in blocks. A file whose level is matched is kept until its level is known, or convolved twice if it is long.
 */
#ifndef BATCH_RUN_H
#define BATCH_RUN_H

#include "journal.h"
#include "manifest.h"
#include "mask_shelf.h"
#include "host/message.h"
#include "ranks.h"

#include <stdatomic.h>

enum { BATCH_PIECE = 32, BATCH_ENGINES = 4, BATCH_CHANNELS = 32 /* of an engine on a GPU */ };

struct failure {
    const struct job *job;
    char *why;
};

struct batch {
    const struct manifest *manifest;
    const char *folder, *settings; /* settings: for the journal's hash */
    const char *backend, *method;  /* "cpu", "cuda" or "cuda:N" */
    int format;                    /* SF_FORMAT_... as far as asked for */
    int n_devices;                 /* for "cuda": workers are spread over them */
    int shard, n_shards;           /* 0 ... n_shards - 1 */
    int n_workers, n_threads;      /* n_threads: of an engine on the CPU */
    bool fail_fast;
    struct mask_shelf shelf;
    struct journal journal;
    struct ranks ranks;

    const struct job **order; /* the list as it is worked on */
    size_t *pieces;           /* [n_pieces + 1]: where each starts in order */
    size_t n_pieces, most;    /* most: files of a piece, at most */

    atomic_bool stopped;      /* no piece is begun any more */
    atomic_int_fast64_t n_done, n_resumed, frames_in, frames_out; /* frames of a channel, at the files' rates */
    atomic_int_fast64_t clipped_samples, clipped_files, sound_us; /* length of the inputs */
    pthread_mutex_t lock; /* of what follows */
    struct failure *failures;
    size_t n_failures;
    char why[MESSAGE_CAP];    /* what stopped the whole run; "" = nothing */
    char device[128];
};

/* Sort and cut the list; bytes of each file are asked of the system. false: batch->why. */
bool batch_plan(struct batch *batch);

/* Is no output one of the inputs or masks, by whatever name? What is read would depend on which worker comes first.
 * false: batch->why. */
bool batch_spares_inputs(struct batch *batch);

/* Run all workers; returns when the last piece is done. report(data) is called about five times a second by the
 * caller's thread. */
void batch_work(struct batch *batch, void (*report)(void *data), void *data);

void batch_free(struct batch *batch);

/* For the workers: a file that failed; what ends the run. */
void batch_fail(struct batch *batch, const struct job *job, const char *why);
void batch_stop(struct batch *batch, const char *why);

/* One worker of the n: takes pieces until there are none. */
void *batch_worker(void *data);
struct batch_worker_seat { struct batch *batch; int number; };

#endif
