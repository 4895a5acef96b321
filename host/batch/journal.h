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

#include "manifest.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- reading journals ------------------------------------------------------------------------- */

/* The entries of all journals of a folder: finished files, and files that failed in the last run. */

#define JOURNAL_OWNER "# process "

enum row_file { ROW_INPUT, ROW_MASK, ROW_NOISE, ROW_PATH, N_ROW_FILES };

struct journal_entry { /* a file that is done */
    uint64_t output;              /* journal_hash_text of its name */
    uint64_t hash;                /* journal_hash */
    int64_t bytes;                /* size of the file */
    uint64_t time_us;             /* when the entry was written: journals of several processes are read in any order */
    uint64_t states[N_ROW_FILES]; /* of the files that were read, when the run began: files_read.h; 0: none */
    const char *figures;          /* NULL: the list keeps no figures */
    bool is_older;                /* of an older version: only output is known */
};

struct journal_failure {
    size_t row; /* from 1 */
    const char *why;
};

struct journal_list { /* start with zeros, and perhaps keeps_figures */
    bool keeps_figures;
    struct journal_entry *entries; /* sorted by journal_list_sort */
    struct journal_failure *failures;
    size_t n, capacity, n_failures, failures_capacity;
    size_t n_older; /* outputs whose newest entry is of an older version, without the states of files; by the sort */
    struct text_arena *texts;
};

/* Adds the entries of one journal, or of all journals of a folder. A damaged line is left out: its file is made again.
 * false: why has the reason. */
bool journal_list_read(struct journal_list *list, const char *path, char *why, size_t cap);
bool journal_list_read_folder(struct journal_list *list, const char *folder, char *why, size_t cap);

/* Sorts the entries by their outputs, then by their times. */
void journal_list_sort(struct journal_list *list);

/* Returns the newest entry of an output, whatever its row was; NULL: there is none, or it is of an older version. */
const struct journal_entry *journal_list_find(const struct journal_list *list, const char *output);

void journal_list_free(struct journal_list *list);

/* ---- a journal -------------------------------------------------------------------------------- */

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
