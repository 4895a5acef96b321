/* journal_list - the entries of all journals of a folder: finished files, and files that failed in the last run. */
#ifndef JOURNAL_LIST_H
#define JOURNAL_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define JOURNAL_OWNER "# process "

enum row_file { ROW_INPUT, ROW_MASK, ROW_NOISE, ROW_PATH, N_ROW_FILES };

struct journal_entry { /* a file that is done */
    uint64_t output;              /* journal_hash_text of its name */
    uint64_t hash;                /* journal_hash */
    int64_t bytes;                /* size of the file */
    uint64_t time_us;             /* when the entry was written: journals of several processes are read in any order */
    uint64_t states[N_ROW_FILES]; /* of the files that were read, when the run began: files_read.h; 0: none */
    const char *figures;          /* NULL: the list keeps no figures */
    bool is_older;                /* of an older version: only output is known */
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
    size_t n_older; /* outputs whose newest entry is of an older version, without the states of files; by the sort */
    struct text_arena *texts;
};

/* Adds the entries of one journal, or of all journals of a folder. A damaged line is left out: its file is made again.
 * false: why has the reason. */
bool journal_list_read(struct journal_list *list, const char *path, char *why, size_t cap);
bool journal_list_read_folder(struct journal_list *list, const char *folder, char *why, size_t cap);

/* Sorts the entries by their outputs, then by their times. */
void journal_list_sort(struct journal_list *list);

/* Returns the newest entry of an output, whatever its row was; NULL: there is none, or it is of an older version. */
const struct journal_entry *journal_list_find(const struct journal_list *list, const char *output);

uint64_t journal_hash_bytes(uint64_t hash, const void *data, size_t n); /* continues a hash (FNV-1a) */
uint64_t journal_hash_text(const char *text);

void journal_list_free(struct journal_list *list);

#endif
