/* journal - the list of the files of a batch that are done, in the folder of the outputs, for --resume.
 *
 *   FOLDER/haloconv-batch.journal         # process 1234 on host          the process that locks the journal, or did
 *                                         HASH<tab>BYTES NAME             an entry for each finished file
 *   FOLDER/haloconv-batch.NAME.journal    of a shard or a rank; they write at the same time
 *
 * HASH is that of the file's row and of the settings. A line is written after the file has its name and its data are
 * on the disk (part_file_commit). A file in the journal counts as done if it still exists and has that many bytes; an
 * older version wrote "HASH NAME", and then the size does not matter.
 *
 * A crash of the machine may lose the lines of the last second: their files are made again.
 */
#ifndef JOURNAL_H
#define JOURNAL_H

#include "manifest.h"

#include <pthread.h>

enum { BYTES_UNKNOWN = -1 };

struct journal_entry {
    uint64_t hash;
    int64_t bytes; /* or BYTES_UNKNOWN */
};

struct journal {
    int fd;
    pthread_mutex_t lock;
    double synced;              /* when, in seconds of stopwatch_now; under lock */
    struct journal_entry *done; /* sorted */
    size_t n_done;
};

/* name: of the shard or rank, NULL = none. resume: reads all journals of the folder; else empties this one. A journal
 * that another process has open is an error, unless the file system has no locks. false: why has the reason. */
bool journal_open(struct journal *journal, const char *folder, const char *name, bool resume, char *why, size_t cap);

/* Waits until all lines are on the disk. false: they are not; why has the reason. */
bool journal_close(struct journal *journal, char *why, size_t cap);

/* settings: all else that the content of the file depends on, such as its format and the method. */
uint64_t journal_hash(const struct manifest_row *row, const char *settings);

/* Is a row done, with an output of so many bytes? *listed: the bytes that the journal has for the row, or
 * BYTES_UNKNOWN. */
bool journal_has(const struct journal *journal, uint64_t hash, int64_t bytes, int64_t *listed);

/* Adds an entry; about once a second this waits for the disk. Any thread. false: why has the reason. */
bool journal_add(struct journal *journal, uint64_t hash, int64_t bytes, const char *output, char *why, size_t cap);

#endif
