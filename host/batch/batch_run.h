/* batch_run - the work of a batch: its list is sorted and cut into pieces, and workers reserve the pieces.
 *
 *   list, sorted by length and mask:  [ piece 0 ][ piece 1 ][ piece 2 ] ...    up to BATCH_PIECE rows each
 *                                          |          |
 *                                      worker 0   worker 1 ...                 threads; batch_reserve_piece
 *
 *   a worker   piece: [ file job ][ file job ][ file job ] ...    a file job = one row: its open input, mask and output
 *                          \           |          /
 *                      group: file jobs of one shape (channels, rate, class of the mask's length)
 *                                      |
 *                      engine entry: an engine of that shape   BATCH_ENGINES entries a worker; the oldest is replaced
 *
 * A group on a GPU is up to BATCH_CHANNELS channels wide: one engine convolves its file jobs in parallel, each with its
 * own mask, and one launch serves them all. A group on the CPU is one file job, and there is a worker for each
 * processor; if the list has fewer pieces than processors, the engines have several threads each.
 *
 * Rows with a path have no engine: one call of hc_render computes all rows of a piece that share a bank
 * (scene_file_job.h), on the CPU too. A bank is loaded once and shared by the workers, which render in turn; the others
 * read and write meanwhile.
 *
 * The pieces of one tar file are a unit, which one process convolves; every other piece is a unit by itself. The
 * members of a tar file are sorted within sections, because a sound waits in memory for the sounds before it.
 *
 * The output does not depend on which worker reserves a piece: pieces and groups depend on the list alone.
 *
 * Memory: the caches, and the workers' engines with their blocks. The output of a file whose level is matched stays
 * in memory until the level is known; a long file is convolved twice instead.
 */
#ifndef BATCH_RUN_H
#define BATCH_RUN_H

#include "batch_mask.h"
#include "host/files/file_convolution.h"
#include "host/files/progress.h"
#include "host/message.h"
#include "host/scene/scene_file_options.h"
#include "host/option.h"
#include "journal.h"
#include "manifest.h"

#include <stdatomic.h>

enum { BATCH_PIECE = 32, BATCH_ENGINES = 4, BATCH_CHANNELS = 32 /* max. channels of an engine on a GPU */ };

enum batch_count { /* frames count one channel, at the files' rates; sound is the length of the inputs */
    COUNT_DONE, COUNT_RESUMED, COUNT_FAILED, COUNT_FRAMES_IN, COUNT_FRAMES_OUT, COUNT_SOUND_US, COUNT_CLIPPED_SAMPLES,
    COUNT_CLIPPED_FILES, COUNT_WORK_DONE, COUNT_WORK_LEFT /* batch_row_work */,
    COUNT_READ_US, COUNT_MASKS_US, COUNT_CONVOLVE_US, COUNT_WRITE_US, COUNT_WORKERS_US /* of all
    workers: batch_time; COUNT_WORKERS_US: from their starts to their ends */, N_COUNTS
};

struct batch_settings { /* the options of the command */
    struct option_names names; /* MANIFEST */
    const char *list, *folder, *inputs, *masks, *pairs;
    const char *backend, *method, *format_text, *report; /* report: needs the decay times of the masks; NULL = none */
    struct manifest_defaults defaults;
    enum dither dither;
    int format;                    /* SF_FORMAT_..., the bits that format_text gives */
    int workers, cache_mb;
    int shard, n_shards;           /* 0 ... n_shards - 1 */
    struct scene_file_settings moving; /* moving.path is for the rows without a path */
    bool resume, fail_fast, json;
};

struct batch_plan { /* the order of the work, from batch_plan_make on */
    const struct manifest_row **order; /* the sorted list */
    size_t *pieces;                    /* [n_pieces + 1]: the index of each piece's first row in `order` */
    size_t n_pieces, max_piece;        /* max_piece: rows of the longest piece */
    size_t *units;                     /* [n_units + 1]: the first piece of each unit */
    size_t n_units;
    int64_t *work;                     /* [manifest->n]: batch_row_work of each row, in the order of the list */
    bool *in_share;                    /* [manifest->n]: is the row of this shard? */
    uint64_t (*states)[N_ROW_FILES];   /* [manifest->n]: of each row's files, for the journal */
    int64_t share_rows, share_pieces;  /* rows and pieces of this shard */
};

struct changed_files { /* files that have changed since the run of the journal */
    int64_t n_rows;
    const char *first;                 /* by its name */
    bool is_several;
};

struct batch {
    const struct batch_settings *settings;
    const char *hashed;                /* the settings that change the outputs, for the journal's hashes */
    const struct manifest *manifest;
    const char *backend;               /* "cpu", "cuda" or "cuda:N" */
    int n_devices;                     /* for "cuda": workers are spread over them */
    int n_workers, n_threads;          /* n_threads: threads of an engine on the CPU */
    struct batch_plan plan;
    struct cache masks, banks;         /* masks: also the noises */
    struct journal journal;

    atomic_int n_started;              /* workers */
    atomic_bool stopped;               /* workers start no further piece */
    atomic_int_fast64_t counts[N_COUNTS];

    pthread_mutex_t lock;              /* for all fields below */
    pthread_cond_t engines_closed;     /* for workers that lack the memory for an engine */
    int n_with_engines;                /* workers that have engines, or open one */
    unsigned n_begun, n_freed;         /* how often a worker began to have engines, and closed all */
    int64_t n_units_begun;             /* of this shard */
    size_t next_piece, unit_end;       /* pieces of the newest of them that no worker has reserved */
    struct changed_files changed[N_ROW_FILES];
    char why[MESSAGE_CAP];             /* why the whole run stopped; "": the run continues */
    char device[128];
};

/* Sorts the list by the sizes of the input files, cuts it, and finds the share of this process. false: batch->why. */
bool batch_plan_make(struct batch *batch);

/* Returns the work of a row: the bytes of its input plus half the bytes of its mask, because the tail costs half as
 * much as the sound (measured with masks of a minute). Files of a batch have similar formats. A row that is done adds
 * its work to COUNT_WORK_DONE; every row subtracts its work from COUNT_WORK_LEFT. */
int64_t batch_row_work(const struct batch *batch, const struct manifest_row *row);

/* Estimates the seconds until the end (progress_rate_left). */
double batch_left(const struct batch *batch, struct progress_rate *rate, double now);

/* Reserves a piece for one worker. false: no piece is left. Any thread. */
bool batch_reserve_piece(struct batch *batch, size_t *piece);

/* The file with a row's input: the input itself, or the tar file that contains it. */
const char *batch_input_file(const struct manifest_row *row);

/* Estimates the bytes that a row reads of its input, perhaps a short section of a long file; 0: the file is missing. */
int64_t batch_input_bytes(const struct manifest_row *row);

/* Writes the path of a row's output, or of the tar file that contains it. false: the path or one of its names is too
 * long; path is "" then. */
bool batch_output_path(const struct batch *batch, const struct manifest_row *row, char *path, size_t cap);

/* Finds the states of all files that the batch reads: the list's files, and the files of configurations and banks.
 * Checks that no output and no report replaces one of them or the list, under whatever name. Else the result would
 * depend on the order of the workers. false: batch->why. */
bool batch_spares_inputs(struct batch *batch);

/* Returns the journal's entry of a row whose output has so many bytes; NULL: the list has none, or one for another row
 * or other settings. *changed: the first of the row's files that has changed since, or N_ROW_FILES. */
const struct journal_entry *batch_entry_find(const struct batch *batch, const struct journal_list *list,
                                             const struct manifest_row *row, enum row_file *changed);

/* Checks, after the work, that no two outputs of the list are one file under two names. false: batch->why. */
bool batch_outputs_differ(struct batch *batch);

/* Runs all workers; returns when the last piece is done. The caller's thread calls report(data) about five times a
 * second. */
void batch_work(struct batch *batch, void (*report)(void *data), void *data);

void batch_free(struct batch *batch);

/* The journal of this batch's share. */
struct journal_location batch_journal(const struct batch *batch);

/* With these functions the workers report a failed file, end the whole run, and add n to a count. Any thread. */
void batch_fail(struct batch *batch, const struct manifest_row *row, const char *why);
void batch_stop(struct batch *batch, const char *why);
void batch_count(struct batch *batch, enum batch_count count, int64_t n);

/* Adds the time since `since` (stopwatch_now) to one of the counts of microseconds. Returns now. Any thread. */
double batch_time(struct batch *batch, enum batch_count count, double since);

/* A worker's thread: convolves pieces until none is left. data: the struct batch. */
void *batch_worker(void *data);

#endif
