/* journal - which files of a batch are done, kept in the folder of the outputs, for --resume.
 *
 *   FOLDER/haloconv-batch.journal         a line a finished file: a hash of its row and of the settings, and its name
 *   FOLDER/haloconv-batch.NAME.journal    of a shard or a rank, which write beside one another
 *
 * A line is written after the file has got its name. What the journal knows is done if the file is still there.
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

/* name: of the shard or rank, NULL = none. resume: read all journals of the folder, else begin this one anew. */
bool journal_open(struct journal *journal, const char *folder, const char *name, bool resume, char *why, size_t cap);
void journal_close(struct journal *journal);

/* settings: whatever else decides what the file is, such as its format and the method. */
uint64_t journal_hash(const struct job *job, const char *settings);
bool journal_has(const struct journal *journal, uint64_t hash);
bool journal_add(struct journal *journal, uint64_t hash, const char *output, char *why, size_t cap); /* any thread */

#endif
