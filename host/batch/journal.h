/* journal - the list of the files of a batch that are done, in the folder of the outputs, for --resume.
 *
 *   FOLDER/haloconv-batch.journal         a line for each finished file: hash of its row and of the settings, name
 *   FOLDER/haloconv-batch.NAME.journal    of a shard or a rank; they write at the same time
 *
 * A line is written after the file has its name. A file in the journal counts as done if it still exists.
 */
#ifndef JOURNAL_H
#define JOURNAL_H

#include "manifest.h"

#include <pthread.h>

struct journal {
    int fd;
    pthread_mutex_t lock;
    uint64_t *done; /* hashes, sorted */
    size_t n_done;
};

/* name: of the shard or rank, NULL = none. resume: reads all journals of the folder; else empties this one. false: why
 * has the reason. */
bool journal_open(struct journal *journal, const char *folder, const char *name, bool resume, char *why, size_t cap);
void journal_close(struct journal *journal);

/* settings: all else that the content of the file depends on, such as its format and the method. */
uint64_t journal_hash(const struct manifest_row *row, const char *settings);
bool journal_has(const struct journal *journal, uint64_t hash);
bool journal_add(struct journal *journal, uint64_t hash, const char *output, char *why, size_t cap); /* any thread */

#endif
