#include "journal.h"

#include "host/files/spool.h"
#include "host/line_reader.h"
#include "host/message.h"
#include "host/stopwatch.h"
#include "manifest.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* ---- reading journals ------------------------------------------------------------------------- */

/* continues a hash (FNV-1a) */
static uint64_t journal_hash_bytes(uint64_t hash, const void *data, size_t n)
{
    const unsigned char *bytes = data;
    for (size_t i = 0; i < n; i++) hash = (hash ^ bytes[i]) * 0x100000001b3u;
    return hash;
}

static uint64_t journal_hash_text(const char *text)
{
    return journal_hash_bytes(0xcbf29ce484222325u, text, strlen(text) + 1);
}

/* Returns the items with capacity for one more; NULL: no memory, and the items are unchanged. */
static void *grow(void *items, size_t n, size_t *capacity, size_t bytes)
{
    if (n < *capacity) return items;
    void *more = realloc(items, (2 * *capacity + 1024) * bytes);
    if (more) *capacity = 2 * *capacity + 1024;
    return more;
}

/* Parses the line of a file that is done: "HASH<tab>BYTES<tab>OUTPUT,TIME,STATES<tab>FIGURES NAME", numbers of more
 * than 16 digits or with signs included. false: another line, or an incomplete line because the process or the machine
 * stopped. An older version wrote "HASH<tab>BYTES<tab>FIGURES NAME", or without FIGURES, or without BYTES. */
static bool parse_entry(char *line, size_t length, struct journal_entry *entry)
{
    char *end;
    *entry = (struct journal_entry){.hash = strtoull(line, &end, 16)};
    if (end != line + 16 || line[length - 1] != '\n') return false;
    if (*end == '\t') entry->bytes = strtoll(end + 1, &end, 10);
    if (*end == ' ' || (*end == '\t' && end[1] == '{')) {
        line[length - 1] = 0;
        const char *name = strchr(end, ' ');
        if (name) *entry = (struct journal_entry){.output = journal_hash_text(name + 1), .is_older = true};
        return name;
    }
    if (*end != '\t') return false;
    entry->output = strtoull(end + 1, &end, 16);
    if (*end == ',') entry->time_us = strtoull(end + 1, &end, 16);
    for (int i = 0; i < N_ROW_FILES; i++) {
        if (*end != ',') return false;
        entry->states[i] = strtoull(end + 1, &end, 16);
    }
    if (*end != '\t' || entry->time_us >> 62) return false;
    entry->figures = end + 1;
    end += strcspn(end, " ");
    if (*end != ' ') return false;
    *end = 0;
    return true;
}

static bool add_entry(struct journal_list *list, struct journal_entry entry)
{
    if (!list->keeps_figures) entry.figures = NULL;
    if (entry.figures && !(entry.figures = text_keep(&list->texts, entry.figures))) return false;
    struct journal_entry *entries = grow(list->entries, list->n, &list->capacity, sizeof entry);
    if (!entries) return false;
    list->entries = entries;
    list->entries[list->n++] = entry;
    return true;
}

static bool add_failure(struct journal_list *list, const char *line)
{
    size_t row;
    int at = 0;
    if (!list->keeps_figures || sscanf(line, "# row %zu failed: %n", &row, &at) != 1 || at == 0) return true;
    struct journal_failure failure = {row, text_keep(&list->texts, line + at)};
    if (!failure.why) return false;
    struct journal_failure *failures = grow(list->failures, list->n_failures, &list->failures_capacity, sizeof failure);
    if (!failures) return false;
    list->failures = failures;
    list->failures[list->n_failures++] = failure;
    return true;
}

bool journal_list_read(struct journal_list *list, const char *path, char *why, size_t cap)
{
    struct line_reader in;
    if (!line_reader_open(&in, path, "check the folder, or leave --resume out", why, cap)) return false;
    const size_t n_failures = list->n_failures;
    enum line_state got;
    bool good = true;
    while (good && ((got = line_read(&in)) == LINE_READ || got == LINE_BAD)) {
        struct journal_entry entry;
        why[0] = 0; /* a damaged line is skipped: its file is made again */
        if (got == LINE_BAD) continue;
        if (strncmp(in.line, JOURNAL_OWNER, strlen(JOURNAL_OWNER)) == 0) list->n_failures = n_failures; /* a new run */
        if (in.line[0] == '#') {
            in.line[in.length - 1] = 0;
            good = add_failure(list, in.line);
        } else if (parse_entry(in.line, in.length, &entry)) {
            good = add_entry(list, entry);
        }
    }
    line_reader_close(&in);
    if (!good) return message_write(why, cap, "%s: no memory for its entries; cut the list with --shard", path);
    return got == LINE_END;
}

bool journal_list_read_folder(struct journal_list *list, const char *folder, char *why, size_t cap)
{
    char *pattern = NULL, *quoted = malloc(2 * strlen(folder) + 1), *to = quoted;
    for (const char *from = folder; quoted && *from; from++) { /* glob must not read the folder's name as a pattern */
        if (strchr("*?[]\\", *from)) *to++ = '\\';
        *to++ = *from;
    }
    if (quoted) *to = 0;
    bool good = quoted && asprintf(&pattern, "%s/haloconv-batch*.journal", quoted) > 0;
    free(quoted);
    if (!good) return message_write(why, cap, "%s: no memory for its journal; free some memory", folder);
    glob_t found;
    int error = glob(pattern, GLOB_ERR, NULL, &found);
    free(pattern);
    if (error == GLOB_NOMATCH) return true;
    if (error) return message_write(why, cap, "%s: cannot be searched for journals; leave --resume out", folder);
    for (size_t i = 0; i < found.gl_pathc && good; i++) good = journal_list_read(list, found.gl_pathv[i], why, cap);
    globfree(&found);
    return good;
}

/* ---- looking up --------------------------------------------------------------------------------- */

static int journal_by_output(const void *a, const void *b)
{
    const struct journal_entry *p = a, *q = b;
    if (p->output != q->output) return p->output < q->output ? -1 : 1;
    return p->time_us < q->time_us ? -1 : p->time_us > q->time_us;
}

static int by_row(const void *a, const void *b)
{
    const struct journal_failure *p = a, *q = b;
    return p->row < q->row ? -1 : p->row > q->row;
}

void journal_list_sort(struct journal_list *list)
{
    if (list->n) qsort(list->entries, list->n, sizeof *list->entries, journal_by_output);
    list->n_older = 0;
    for (size_t i = 0; i < list->n; i++)
        list->n_older +=
            list->entries[i].is_older && (i + 1 == list->n || list->entries[i + 1].output != list->entries[i].output);
    if (list->n_failures) qsort(list->failures, list->n_failures, sizeof *list->failures, by_row);
}

const struct journal_entry *journal_list_find(const struct journal_list *list, const char *output)
{
    const struct journal_entry key = {.output = journal_hash_text(output), .time_us = UINT64_MAX};
    size_t from = 0, to = list->n; /* from: counts the entries up to the key in sorted order */
    while (from < to) {
        size_t middle = from + (to - from) / 2;
        if (journal_by_output(&list->entries[middle], &key) <= 0)
            from = middle + 1;
        else
            to = middle;
    }
    const struct journal_entry *newest = from > 0 ? &list->entries[from - 1] : NULL;
    return newest && newest->output == key.output && !newest->is_older ? newest : NULL;
}

void journal_list_free(struct journal_list *list)
{
    free(list->entries);
    free(list->failures);
    text_arena_free(&list->texts);
    *list = (struct journal_list){0};
}

/* ---- a journal -------------------------------------------------------------------------------- */

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
