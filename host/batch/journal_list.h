/* journal_list - the entries of all journals of a folder: finished files, and files that failed in the last run. */
#ifndef JOURNAL_LIST_H
#define JOURNAL_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define JOURNAL_OWNER "# process "
enum { BYTES_UNKNOWN = -1 };

struct journal_entry { /* a file that is done */
    uint64_t hash;
    int64_t bytes;       /* size of the file, or BYTES_UNKNOWN */
    const char *figures; /* NULL: an older version wrote the entry, or the list keeps no figures */
    size_t number;       /* position of the entry in the order of reading */
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
    struct text_arena *texts;
};

/* Adds the entries of one journal, or of all journals of a folder. A damaged line is left out: its file is made again.
 * false: why has the reason. */
bool journal_list_read(struct journal_list *list, const char *path, char *why, size_t cap);
bool journal_list_read_folder(struct journal_list *list, const char *folder, char *why, size_t cap);

void journal_list_sort(struct journal_list *list);

/* Returns the last entry of a row whose output has so many bytes; NULL: the row is not done. *listed: the bytes that
 * the list has for the row, or BYTES_UNKNOWN. */
const struct journal_entry *journal_list_find(const struct journal_list *list, uint64_t hash, int64_t bytes,
                                              int64_t *listed);

void journal_list_free(struct journal_list *list);

#endif
