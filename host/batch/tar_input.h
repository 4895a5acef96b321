/* tar_input - the members of a tar file (a shard of WebDataset, say). A sound is convolved inside the tar file, by any
 * thread; every other member is copied.
 */
#ifndef TAR_INPUT_H
#define TAR_INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

struct tar_member {
    char *name;          /* name in the file                                   */
    int64_t from, bytes; /* content: offset in the tar file, and length        */
    time_t changed;
    unsigned mode;       /* permissions                                        */
    bool is_folder;
    bool is_convolved;   /* a sound; else it is copied                         */
};

struct tar_input {
    struct tar_member *members; /* in the order of the file */
    size_t n;
    int64_t n_behind;           /* bytes from the first non-zero byte after the end of the archive; not read */
};

/* Is this the name of a tar file, maybe of a compressed one? */
bool tar_is_name(const char *path);

/* The length of the suffix of a compressed tar file, .tar.gz or .tgz; 0: it is not compressed. */
size_t tar_packed_suffix(const char *path);

/* Opens a tar file; unpacks a compressed one into a file in $TMPDIR that disappears when it is closed. Returns the
 * descriptor, at the start of the file; -1: why has the reason. Any thread. */
int tar_input_open(const char *path, char *why, size_t cap);

/* Reads the list of members, not their contents. false: why has the reason, and *input is empty. */
bool tar_input_read(struct tar_input *input, const char *path, char *why, size_t cap);

void tar_input_free(struct tar_input *input);

/* Leaves only those sounds to be convolved whose name, or its last component, matches the pattern. NULL: all. false: no
 * sound is left. */
bool tar_input_choose(struct tar_input *input, const char *pattern);

/* Do two members belong to one sample? WebDataset's rule: their names are equal up to the first dot of the last
 * component. */
bool tar_same_sample(const char *a, const char *b);

#endif
