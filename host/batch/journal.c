#include "journal.h"

#include "host/message.h"
#include "host/files/spool.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int by_value(const void *a, const void *b)
{
    uint64_t p = *(const uint64_t *)a, q = *(const uint64_t *)b;
    return p < q ? -1 : p > q;
}

/* FNV-1a. */
static uint64_t hash_bytes(uint64_t hash, const void *data, size_t n)
{
    const unsigned char *bytes = data;
    for (size_t i = 0; i < n; i++) hash = (hash ^ bytes[i]) * 0x100000001b3u;
    return hash;
}

uint64_t journal_hash(const struct manifest_row *row, const char *settings)
{
    int choices[2] = {(int)row->tail, (int)row->level};
    uint64_t hash = 0xcbf29ce484222325u;
    hash = hash_bytes(hash, row->input, strlen(row->input) + 1);
    hash = hash_bytes(hash, row->mask, strlen(row->mask) + 1);
    hash = hash_bytes(hash, row->output, strlen(row->output) + 1);
    hash = hash_bytes(hash, &row->gain, sizeof row->gain);
    hash = hash_bytes(hash, choices, sizeof choices);
    return hash_bytes(hash, settings, strlen(settings));
}

/* The last line is incomplete if a process ended while it wrote: it does not count. */
static bool read_one(struct journal *journal, const char *path, char *why, size_t cap)
{
    FILE *file = fopen(path, "re");
    if (!file) return message_write(why, cap, "%s: cannot be read: %s; leave --resume out", path, strerror(errno));
    char *line = NULL;
    size_t line_bytes = 0, capacity = journal->n_done;
    bool good = true;
    for (ssize_t n; good && (n = getline(&line, &line_bytes, file)) > 0;) {
        char *end;
        uint64_t hash = strtoull(line, &end, 16);
        if (line[n - 1] != '\n' || end != line + 16 || *end != ' ') continue;
        if (journal->n_done == capacity) {
            capacity = 2 * capacity + 1024;
            uint64_t *more = realloc(journal->done, capacity * sizeof *more);
            good = more || message_write(why, cap, "%s: no memory for what is done; leave --resume out", path);
            if (more) journal->done = more;
        }
        if (good) journal->done[journal->n_done++] = hash;
    }
    free(line);
    fclose(file);
    return good;
}

static bool read_all(struct journal *journal, const char *folder, char *why, size_t cap)
{
    char *pattern = NULL, *quoted = malloc(2 * strlen(folder) + 1), *to = quoted;
    for (const char *from = folder; quoted && *from; from++) { /* glob must not take the folder's name as a pattern */
        if (strchr("*?[]\\", *from)) *to++ = '\\';
        *to++ = *from;
    }
    if (quoted) *to = 0;
    bool good = quoted && asprintf(&pattern, "%s/haloconv-batch*.journal", quoted) > 0;
    free(quoted);
    if (!good) return message_write(why, cap, "%s: no memory for its journal; free some", folder);
    glob_t found;
    int error = glob(pattern, 0, NULL, &found);
    free(pattern);
    if (error) return true; /* none yet */
    for (size_t i = 0; i < found.gl_pathc && good; i++) good = read_one(journal, found.gl_pathv[i], why, cap);
    globfree(&found);
    if (good && journal->n_done > 1) qsort(journal->done, journal->n_done, sizeof *journal->done, by_value);
    return good;
}

bool journal_open(struct journal *journal, const char *folder, const char *name, bool resume, char *why, size_t cap)
{
    *journal = (struct journal){.fd = -1};
    pthread_mutex_init(&journal->lock, NULL);
    if (resume && !read_all(journal, folder, why, cap)) {
        journal_close(journal);
        return false;
    }
    char *path = NULL;
    if (asprintf(&path, "%s/haloconv-batch%s%s.journal", folder, name ? "." : "", name ? name : "") > 0)
        journal->fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | (resume ? 0 : O_TRUNC), 0666);
    /* A line end of its own: the last line may lack its, and the next line must not become a part of it. */
    bool good = journal->fd >= 0 && (!resume || spool_write(journal->fd, "\n", 1) == 0);
    if (!good)
        message_write(why, cap, "%s: cannot be written: %s; choose another folder", path ? path : folder,
                      strerror(errno));
    free(path);
    if (!good) journal_close(journal);
    return good;
}

void journal_close(struct journal *journal)
{
    if (journal->fd >= 0) close(journal->fd);
    free(journal->done);
    pthread_mutex_destroy(&journal->lock);
    *journal = (struct journal){.fd = -1};
}

bool journal_has(const struct journal *journal, uint64_t hash)
{
    return journal->n_done && bsearch(&hash, journal->done, journal->n_done, sizeof hash, by_value);
}

bool journal_add(struct journal *journal, uint64_t hash, const char *output, char *why, size_t cap)
{
    char *line = NULL;
    int n = asprintf(&line, "%016" PRIx64 " %s\n", hash, output);
    if (n < 0) return message_write(why, cap, "the journal: no memory for a line; free some");
    pthread_mutex_lock(&journal->lock);
    int error = spool_write(journal->fd, line, (size_t)n);
    pthread_mutex_unlock(&journal->lock);
    free(line);
    return !error || message_write(why, cap, "the journal: cannot be written: %s; free some space", strerror(error));
}
