/* journal - the list of the files of a batch that are done, in the folder of the outputs, for --resume and --report.
 *
 *   FOLDER/haloconv-batch.journal         # process 1234 on host          the process that has or had the lock
 *                                         ENTRY                          an entry for each finished file
 *                                         # row 4 failed: REASON          a file that failed
 *   FOLDER/haloconv-batch.NAME.journal    a shard has this journal; they write at the same time
 *
 * ENTRY: HASH<tab>BYTES<tab>OUTPUT,TIME,INPUT,MASK,NOISE,PATH<tab>FIGURES NAME
 *
 * HASH is the hash of the file's row and of the settings, OUTPUT that of NAME; INPUT to PATH are the states of the
 * row's files when the run began (files_read.h): their sizes and times. FIGURES (batch_report.h) is JSON without
 * blanks. An entry is written after the file has its name and its data are on the disk (part_file_commit). A file counts
 * as done if its newest entry, of all journals, has the hash and the states of now, and the file still has that many
 * bytes. Older versions wrote no OUTPUT to PATH: their files are made again.
 *
 * A crash of the machine may lose the lines of the last second: their files are made again.
 */
#ifndef JOURNAL_H
#define JOURNAL_H

#include "journal_list.h"
#include "manifest.h"

#include <pthread.h>

struct journal_location { /* each process has a separate journal */
    const char *folder;
    int shard, n_shards;
};

struct journal {
    int fd;
    pthread_mutex_t lock;
    double synced;            /* time of the last wait for the disk, in seconds of stopwatch_now; under lock */
    uint64_t newest_us;       /* time of the newest entry of earlier runs */
    struct journal_list done; /* entries of earlier runs */
};

/* The name of the journal of a process. false: it is longer than path_cap; why has the reason. */
bool journal_path(const struct journal_location *location, char *path, size_t path_cap, char *why, size_t cap);

/* Opens the journal of a process. resume: reads all journals of the folder; else empties this one. A journal that
 * another process has open is an error, unless the file system has no locks. false: why has the reason. */
bool journal_open(struct journal *journal, const struct journal_location *location, bool resume, bool keeps_figures,
                  char *why, size_t cap);

/* Waits until all lines are on the disk. false: they are not; why has the reason. */
bool journal_close(struct journal *journal, char *why, size_t cap);

/* Returns the HASH of a row. settings: all else that the content of the file depends on, such as its format and the
 * method. */
uint64_t journal_hash(const struct manifest_row *row, const char *settings);

/* Adds an entry with its hash, bytes, states and figures; about once a second this waits for the disk. Any thread.
 * false: why has the reason. */
bool journal_add(struct journal *journal, struct journal_entry entry, const char *output, char *why, size_t cap);

/* Adds a row (from 1) that failed. Any thread. false: why has the reason. */
bool journal_add_failure(struct journal *journal, size_t row, const char *reason, char *why, size_t cap);

#endif
