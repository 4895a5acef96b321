#include "journal.h"

#include "host/files/spool.h"
#include "host/line_reader.h"
#include "host/message.h"
#include "host/stopwatch.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#define OWNER "# process "
enum { SYNC_INTERVAL_S = 1 };

static int by_value(const void *a, const void *b)
{
    const struct journal_entry *p = a, *q = b;
    if (p->hash != q->hash) return p->hash < q->hash ? -1 : 1;
    return p->bytes < q->bytes ? -1 : p->bytes > q->bytes;
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

/* ---- reading ------------------------------------------------------------------------------------ */

/* false: another line, or one that is incomplete because the process or the machine stopped. */
static bool parse(const struct line_reader *in, struct journal_entry *entry)
{
    char *end;
    *entry = (struct journal_entry){strtoull(in->line, &end, 16), BYTES_UNKNOWN};
    if (end != in->line + 16 || in->line[in->length - 1] != '\n') return false;
    if (*end == '\t') entry->bytes = strtoll(end + 1, &end, 10);
    return *end == ' ' && entry->bytes >= BYTES_UNKNOWN;
}

static bool read_one(struct journal *journal, const char *path, char *why, size_t cap)
{
    static const char remedy[] = "leave --resume out";
    struct line_reader in;
    if (!line_reader_open(&in, path, remedy, why, cap)) return false;
    size_t capacity = journal->n_done;
    enum line_state got;
    while ((got = line_read(&in)) == LINE_READ || got == LINE_BAD) {
        struct journal_entry entry;
        why[0] = 0; /* a damaged line is no reason to end: its file is made again */
        if (got == LINE_BAD || !parse(&in, &entry)) continue;
        if (journal->n_done == capacity) {
            capacity = 2 * capacity + 1024;
            struct journal_entry *more = realloc(journal->done, capacity * sizeof *more);
            if (!more) {
                message_write(why, cap, "%s: no memory for what is done; %s", path, remedy);
                break;
            }
            journal->done = more;
        }
        journal->done[journal->n_done++] = entry;
    }
    line_reader_close(&in);
    return got == LINE_END;
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
    int error = glob(pattern, GLOB_ERR, NULL, &found);
    free(pattern);
    if (error == GLOB_NOMATCH) return true;
    if (error) return message_write(why, cap, "%s: cannot be searched for journals; leave --resume out", folder);
    for (size_t i = 0; i < found.gl_pathc && good; i++) good = read_one(journal, found.gl_pathv[i], why, cap);
    globfree(&found);
    if (good && journal->n_done > 1) qsort(journal->done, journal->n_done, sizeof *journal->done, by_value);
    return good;
}

/* ---- writing ------------------------------------------------------------------------------------ */

/* Many processes may have written to this journal: the last owner's line names the one that has the lock. */
static void find_owner(const char *path, char *owner, size_t owner_cap)
{
    struct line_reader in;
    char ignored[MESSAGE_CAP];
    enum line_state got;
    snprintf(owner, owner_cap, "another process");
    if (!line_reader_open(&in, path, "", ignored, sizeof ignored)) return;
    while ((got = line_read(&in)) == LINE_READ || got == LINE_BAD)
        if (got == LINE_READ && strncmp(in.line, OWNER, strlen(OWNER)) == 0)
            snprintf(owner, owner_cap, "%.*s", (int)strcspn(in.line + 2, "\n"), in.line + 2);
    line_reader_close(&in);
}

/* The kernel ends the lock with the process. Some network file systems have no locks: refusing them would take away
 * more than a lock gives, because shards and ranks have their own journals. */
static bool lock_own(struct journal *journal, const char *path, char *why, size_t cap)
{
    if (flock(journal->fd, LOCK_EX | LOCK_NB) == 0) return true;
    if (errno == EWOULDBLOCK) {
        char owner[300];
        find_owner(path, owner, sizeof owner);
        return message_write(why, cap, "%s: %s works on it; wait for its end, or choose another folder", path, owner);
    }
    message_note("%s: cannot be locked (%s); start no second batch into this folder", path, strerror(errno));
    return true;
}

/* Appends the owner's line, after an end for a line that a killed process left incomplete. 0 or an errno. */
static int add_owner(int fd)
{
    char host[256] = "", line[sizeof host + 64], last = '\n';
    gethostname(host, sizeof host - 1);
    off_t end = lseek(fd, 0, SEEK_END);
    if (end > 0 && pread(fd, &last, 1, end - 1) != 1) return errno;
    int n = snprintf(line, sizeof line, "%s" OWNER "%ld on %s\n", last == '\n' ? "" : "\n", (long)getpid(), host);
    return spool_write(fd, line, (size_t)n);
}

static bool open_own(struct journal *journal, const char *path, bool resume, char *why, size_t cap)
{
    journal->fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    int error = journal->fd < 0 ? errno : 0;
    if (!error && !lock_own(journal, path, why, cap)) return false;
    if (!error && !resume && ftruncate(journal->fd, 0) != 0) error = errno;
    if (!error) error = add_owner(journal->fd);
    return !error || message_write(why, cap, "%s: cannot be written: %s; choose another folder", path, strerror(error));
}

bool journal_open(struct journal *journal, const char *folder, const char *name, bool resume, char *why, size_t cap)
{
    *journal = (struct journal){.fd = -1, .synced = stopwatch_now()};
    pthread_mutex_init(&journal->lock, NULL);
    char *path = NULL, ignored[MESSAGE_CAP];
    if (asprintf(&path, "%s/haloconv-batch%s%s.journal", folder, name ? "." : "", name ? name : "") < 0)
        return message_write(why, cap, "%s: no memory for its journal; free some", folder);
    bool good = open_own(journal, path, resume, why, cap) && (!resume || read_all(journal, folder, why, cap));
    free(path);
    if (!good) journal_close(journal, ignored, sizeof ignored);
    return good;
}

static bool write_failed(int error, char *why, size_t cap)
{
    return message_write(why, cap, "the journal: cannot be written: %s; free some space", strerror(error));
}

/* A device or a pipe cannot be synchronised. 0 or an errno. */
static int sync_lines(int fd)
{
    return fdatasync(fd) == 0 || errno == EINVAL || errno == ENOSYS ? 0 : errno;
}

bool journal_close(struct journal *journal, char *why, size_t cap)
{
    int error = journal->fd >= 0 ? sync_lines(journal->fd) : 0;
    if (journal->fd >= 0 && close(journal->fd) != 0 && !error) error = errno;
    free(journal->done);
    pthread_mutex_destroy(&journal->lock);
    *journal = (struct journal){.fd = -1};
    return !error || write_failed(error, why, cap);
}

bool journal_has(const struct journal *journal, uint64_t hash, int64_t bytes, int64_t *listed)
{
    size_t from = 0, to = journal->n_done; /* the entries up to the last one of this hash, which has the most bytes */
    while (from < to) {
        size_t middle = from + (to - from) / 2;
        if (journal->done[middle].hash <= hash)
            from = middle + 1;
        else
            to = middle;
    }
    *listed = BYTES_UNKNOWN;
    if (from == 0 || journal->done[from - 1].hash != hash) return false;
    *listed = journal->done[from - 1].bytes;
    if (*listed == BYTES_UNKNOWN) return true;
    const struct journal_entry key = {hash, bytes};
    return bsearch(&key, journal->done, journal->n_done, sizeof key, by_value);
}

bool journal_add(struct journal *journal, uint64_t hash, int64_t bytes, const char *output, char *why, size_t cap)
{
    char *line = NULL;
    if (asprintf(&line, "%016" PRIx64 "\t%" PRId64 " %s", hash, bytes, output) < 0)
        return message_write(why, cap, "the journal: no memory for a line; free some");
    message_clean(strchr(line, ' ')); /* a line end in the name must not begin another entry */
    size_t length = strlen(line);
    line[length] = '\n';
    pthread_mutex_lock(&journal->lock);
    int error = spool_write(journal->fd, line, length + 1);
    double now = stopwatch_now();
    bool syncs = now - journal->synced >= SYNC_INTERVAL_S;
    if (syncs) journal->synced = now;
    pthread_mutex_unlock(&journal->lock);
    free(line);
    if (!error && syncs) error = sync_lines(journal->fd); /* other workers go on */
    return !error || write_failed(error, why, cap);
}
