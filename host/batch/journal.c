#include "journal.h"

#include "host/files/spool.h"
#include "host/line_reader.h"
#include "host/message.h"
#include "host/stopwatch.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { SYNC_INTERVAL_S = 1 };

uint64_t journal_hash(const struct manifest_row *row, const char *settings)
{
    int choices[3] = {(int)row->tail, (int)row->level, row->align};
    const double *numbers[] = {&row->gain, &row->start_s, &row->length_s, &row->early_ms, &row->snr_db};
    uint64_t hash = journal_hash_text(row->input);
    hash = journal_hash_bytes(hash, row->mask, strlen(row->mask) + 1);
    hash = journal_hash_bytes(hash, row->output, strlen(row->output) + 1);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        hash = journal_hash_bytes(hash, numbers[i], sizeof(double));
    hash = journal_hash_bytes(hash, choices, sizeof choices);
    if (row->noise) hash = journal_hash_bytes(hash, row->noise, strlen(row->noise) + 1);
    if (row->noise)
        hash = journal_hash_bytes(hash, &row->seed, sizeof row->seed); /* the seed draws the start of the noise */
    if (row->path) hash = journal_hash_bytes(hash, row->path, strlen(row->path) + 1);
    if (row->path) hash = journal_hash_bytes(hash, &row->seed, sizeof row->seed); /* the seed draws a random path */
    return journal_hash_bytes(hash, settings, strlen(settings));
}

/* ---- writing ------------------------------------------------------------------------------------ */

/* Finds the owner in the last owner line: many processes may have written to this journal. */
static void find_owner(const char *path, char *owner, size_t owner_cap)
{
    struct line_reader in;
    char ignored[MESSAGE_CAP];
    enum line_state got;
    snprintf(owner, owner_cap, "another process");
    if (!line_reader_open(&in, path, "", ignored, sizeof ignored)) return;
    while ((got = line_read(&in)) == LINE_READ || got == LINE_BAD)
        if (got == LINE_READ && strncmp(in.line, JOURNAL_OWNER, strlen(JOURNAL_OWNER)) == 0)
            snprintf(owner, owner_cap, "%.*s", (int)strcspn(in.line + 2, "\n"), in.line + 2);
    line_reader_close(&in);
}

/* The kernel releases the lock when the process ends. A network file system without locks is accepted: shards
 * have separate journals anyway. */
static bool lock_own(struct journal *journal, const char *path, char *why, size_t cap)
{
    if (flock(journal->fd, LOCK_EX | LOCK_NB) == 0) return true;
    if (errno == EWOULDBLOCK) {
        char owner[300];
        find_owner(path, owner, sizeof owner);
        return message_write(why, cap, "%s: %s writes to this folder; wait until that ends, or choose another folder",
                             path, owner);
    }
    message_note("%s: cannot be locked (%s); do not start a second batch into this folder", path, strerror(errno));
    return true;
}

/* Appends the owner's line, after a line end if a killed process left its last line incomplete. 0 or an errno. */
static int add_owner(int fd)
{
    char host[256] = "", line[sizeof host + 64], last = '\n';
    gethostname(host, sizeof host - 1);
    off_t end = lseek(fd, 0, SEEK_END);
    if (end > 0 && pread(fd, &last, 1, end - 1) != 1) return errno;
    int n =
        snprintf(line, sizeof line, "%s" JOURNAL_OWNER "%ld on %s\n", last == '\n' ? "" : "\n", (long)getpid(), host);
    return spool_write(fd, line, (size_t)n);
}

static bool open_own(struct journal *journal, const char *path, bool resume, char *why, size_t cap)
{
    struct stat status = {0};
    journal->fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666);
    int error = journal->fd < 0 || fstat(journal->fd, &status) != 0 ? errno : 0;
    /* Others may write to the folder: their link must not make this program empty another file. */
    if (error == ELOOP || (!error && (!S_ISREG(status.st_mode) || status.st_nlink > 1)))
        return message_write(why, cap, "%s: is a link, or not a regular file; remove it, or choose another folder",
                             path);
    if (!error && !lock_own(journal, path, why, cap)) return false;
    if (!error && !resume && ftruncate(journal->fd, 0) != 0) error = errno;
    if (!error) error = add_owner(journal->fd);
    return !error || message_write(why, cap, "%s: cannot be written: %s; choose another folder", path, strerror(error));
}

bool journal_path(const struct journal_location *location, char *path, size_t path_cap, char *why, size_t cap)
{
    char name[64] = "";
    if (location->n_shards > 1) snprintf(name, sizeof name, ".%dof%d", location->shard + 1, location->n_shards);
    return snprintf(path, path_cap, "%s/haloconv-batch%s.journal", location->folder, name) < (int)path_cap ||
           message_write(why, cap, "%.60s...: the name is too long; choose another folder", location->folder);
}

bool journal_open(struct journal *journal, const struct journal_location *location, bool resume, bool keeps_figures,
                  char *why, size_t cap)
{
    *journal = (struct journal){.fd = -1, .synced = stopwatch_now(), .done.keeps_figures = keeps_figures};
    pthread_mutex_init(&journal->lock, NULL);
    char path[PATH_MAX], ignored[MESSAGE_CAP];
    bool good = journal_path(location, path, sizeof path, why, cap) && open_own(journal, path, resume, why, cap) &&
                (!resume || journal_list_read_folder(&journal->done, location->folder, why, cap));
    journal_list_sort(&journal->done);
    for (size_t i = 0; i < journal->done.n; i++)
        if (journal->done.entries[i].time_us > journal->newest_us)
            journal->newest_us = journal->done.entries[i].time_us;
    if (!good) journal_close(journal, ignored, sizeof ignored);
    return good;
}

static bool journal_write_failed(int error, char *why, size_t cap)
{
    return message_write(why, cap, "the journal: cannot be written: %s; free some space", strerror(error));
}

/* Waits until the lines are on the disk. A device or a pipe cannot be synchronised. 0 or an errno. */
static int sync_lines(int fd)
{
    return fdatasync(fd) == 0 || errno == EINVAL || errno == ENOSYS ? 0 : errno;
}

bool journal_close(struct journal *journal, char *why, size_t cap)
{
    int error = journal->fd >= 0 ? sync_lines(journal->fd) : 0;
    if (journal->fd >= 0 && close(journal->fd) != 0 && !error) error = errno;
    journal_list_free(&journal->done);
    pthread_mutex_destroy(&journal->lock);
    *journal = (struct journal){.fd = -1};
    return !error || journal_write_failed(error, why, cap);
}

/* Appends a line, and frees it. may_sync: about once a second this call waits for the disk; other workers go on. */
static bool journal_add_line(struct journal *journal, char *line, bool may_sync, char *why, size_t cap)
{
    size_t length = strlen(line);
    line[length] = '\n';
    pthread_mutex_lock(&journal->lock);
    int error = spool_write(journal->fd, line, length + 1);
    double now = stopwatch_now();
    bool syncs = may_sync && now - journal->synced >= SYNC_INTERVAL_S;
    if (syncs) journal->synced = now;
    pthread_mutex_unlock(&journal->lock);
    free(line);
    if (!error && syncs) error = sync_lines(journal->fd);
    return !error || journal_write_failed(error, why, cap);
}

static bool journal_refuse_line(char *why, size_t cap)
{
    return message_write(why, cap, "the journal: no memory for a line; free some memory");
}

bool journal_add(struct journal *journal, struct journal_entry entry, const char *output, char *why, size_t cap)
{
    char *line = NULL;
    struct timespec now;
    const uint64_t *states = entry.states;
    clock_gettime(CLOCK_REALTIME, &now);
    uint64_t time_us = (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
    if (time_us <= journal->newest_us) time_us = journal->newest_us + 1; /* the clock has been set back */
    if (asprintf(&line,
                 "%016" PRIx64 "\t%" PRId64 "\t%" PRIx64 ",%" PRIx64 ",%" PRIx64 ",%" PRIx64 ",%" PRIx64 ",%" PRIx64
                 "\t%s %s",
                 entry.hash, entry.bytes, journal_hash_text(output), time_us, states[ROW_INPUT], states[ROW_MASK],
                 states[ROW_NOISE], states[ROW_PATH], entry.figures, output) < 0)
        return journal_refuse_line(why, cap);
    message_clean(strchr(line, ' ')); /* a line end in the name must not begin another entry */
    return journal_add_line(journal, line, true, why, cap);
}

bool journal_add_failure(struct journal *journal, size_t row, const char *reason, char *why, size_t cap)
{
    char *line = NULL;
    if (asprintf(&line, "# row %zu failed: %s", row, reason) < 0) return journal_refuse_line(why, cap);
    message_clean(line);
    return journal_add_line(journal, line, false, why, cap);
}
