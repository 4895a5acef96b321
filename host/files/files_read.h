/* files_read - the files that a run reads: none of them may be its output, under whatever name. */
#ifndef FILES_READ_H
#define FILES_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct file_identity { /* identity of a regular file, whatever its name */
    dev_t device;
    ino_t number;
};

/* The order of two struct file_identity, for qsort; 0: they are the same file. */
int file_identity_order(const void *a, const void *b);

struct files_read { /* start with zeros */
    struct file_identity *files; /* [n] */
    size_t n, capacity;
    bool is_sorted;
    void *known;                 /* for search.h: the masks and banks that were added */
    uint64_t state;              /* of the files that were added since the caller set it to 0: file_state_differs */
};

/* Do two states differ? The hash of the paths, sizes and times of the files is compared. */
static inline bool file_state_differs(uint64_t a, uint64_t b)
{
    return a >> 1 != b >> 1;
}

/* May the files of a state have changed later without another state? They were changed just before, on a file system
 * whose times are whole seconds. */
static inline bool file_state_is_unsure(uint64_t state)
{
    return state & 1;
}

/* Adds a file; "-" is standard input. Pipes and missing files are left out. false: no memory. */
bool files_read_add(struct files_read *read, const char *path);

/* Adds a mask, and the sound files that it names if it is a configuration. A path with %r stands for the files of all
 * rates. A mask that was added before costs no time. path outlives *read. false: no memory. */
bool files_read_add_mask(struct files_read *read, const char *path);

/* Adds a bank, and the sound files that it consists of: those of a folder, or of the column `file` of a list (.csv). A
 * bank that was added before costs no time. path outlives *read. false: no memory. */
bool files_read_add_bank(struct files_read *read, const char *path);

/* Checks that the output is not one of the files. "-" is standard output. Links, symbolic and hard, lead to the same
 * file. false: why has the reason. */
bool files_read_spare(struct files_read *read, const char *output, char *why, size_t cap);

void files_read_free(struct files_read *read);

/* Does all of the above: checks that the output is not one of paths[n], nor a file that one of them names if it is a
 * mask. A path may be NULL. false: why has the reason. */
bool files_read_spares(char *const *paths, int n, const char *output, char *why, size_t cap);

#endif
