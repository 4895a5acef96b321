#include "journal_list.h"

#include "host/line_reader.h"
#include "host/message.h"
#include "text_arena.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool refuse_memory(const char *path, char *why, size_t cap)
{
    return message_write(why, cap, "%s: no memory for its entries; cut the list with --shard", path);
}

/* Returns the items with capacity for one more; NULL: no memory, and the items are unchanged. */
static void *grow(void *items, size_t n, size_t *capacity, size_t bytes)
{
    if (n < *capacity) return items;
    void *more = realloc(items, (2 * *capacity + 1024) * bytes);
    if (more) *capacity = 2 * *capacity + 1024;
    return more;
}

/* Parses the line of a file that is done: "HASH<tab>BYTES<tab>FIGURES NAME"; an older line lacks FIGURES, or BYTES too.
 * false: another line, or an incomplete line because the process or the machine stopped. */
static bool parse_entry(char *line, size_t length, struct journal_entry *entry)
{
    char *end;
    *entry = (struct journal_entry){strtoull(line, &end, 16), BYTES_UNKNOWN, NULL, 0};
    if (end != line + 16 || line[length - 1] != '\n') return false;
    if (*end == '\t') entry->bytes = strtoll(end + 1, &end, 10);
    if (*end == '\t' && entry->bytes >= 0) {
        entry->figures = end + 1;
        end += strcspn(end, " ");
    }
    if (*end != ' ' || entry->bytes < BYTES_UNKNOWN) return false;
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
    entry.number = list->n;
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
    if (!good) return refuse_memory(path, why, cap);
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

static int by_value(const void *a, const void *b)
{
    const struct journal_entry *p = a, *q = b;
    if (p->hash != q->hash) return p->hash < q->hash ? -1 : 1;
    if (p->bytes != q->bytes) return p->bytes < q->bytes ? -1 : 1;
    return p->number < q->number ? -1 : p->number > q->number;
}

static int by_row(const void *a, const void *b)
{
    const struct journal_failure *p = a, *q = b;
    return p->row < q->row ? -1 : p->row > q->row;
}

void journal_list_sort(struct journal_list *list)
{
    if (list->n) qsort(list->entries, list->n, sizeof *list->entries, by_value);
    if (list->n_failures) qsort(list->failures, list->n_failures, sizeof *list->failures, by_row);
}

/* Counts the entries up to (hash, bytes) in sorted order. */
static size_t entries_to(const struct journal_list *list, uint64_t hash, int64_t bytes)
{
    const struct journal_entry key = {.hash = hash, .bytes = bytes, .number = SIZE_MAX};
    size_t from = 0, to = list->n;
    while (from < to) {
        size_t middle = from + (to - from) / 2;
        if (by_value(&list->entries[middle], &key) <= 0)
            from = middle + 1;
        else
            to = middle;
    }
    return from;
}

const struct journal_entry *journal_list_find(const struct journal_list *list, uint64_t hash, int64_t bytes,
                                              int64_t *listed)
{
    size_t last = entries_to(list, hash, INT64_MAX); /* the entry after the last one of this hash */
    *listed = BYTES_UNKNOWN;
    if (last == 0 || list->entries[last - 1].hash != hash) return NULL;
    *listed = list->entries[last - 1].bytes;
    if (*listed == BYTES_UNKNOWN) return &list->entries[last - 1];
    size_t at = entries_to(list, hash, bytes);
    const struct journal_entry *entry = at ? &list->entries[at - 1] : NULL;
    return entry && entry->hash == hash && entry->bytes == bytes ? entry : NULL;
}

void journal_list_free(struct journal_list *list)
{
    free(list->entries);
    free(list->failures);
    text_arena_free(&list->texts);
    *list = (struct journal_list){0};
}
