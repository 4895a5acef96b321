#include "journal_list.h"

#include "host/line_reader.h"
#include "host/message.h"
#include "text_arena.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uint64_t journal_hash_bytes(uint64_t hash, const void *data, size_t n)
{
    const unsigned char *bytes = data;
    for (size_t i = 0; i < n; i++) hash = (hash ^ bytes[i]) * 0x100000001b3u;
    return hash;
}

uint64_t journal_hash_text(const char *text)
{
    return journal_hash_bytes(0xcbf29ce484222325u, text, strlen(text) + 1);
}

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
