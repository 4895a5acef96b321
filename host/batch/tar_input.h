/* tar_input - the members of a tar file (a shard of WebDataset, say). A sound is convolved where it lies, by any
 * thread; every other member is copied.
 */
#ifndef TAR_INPUT_H
#define TAR_INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

struct tar_member {
    char *name;          /* as in the file                                     */
    int64_t from, bytes; /* its content: offset in the tar file, and length    */
    time_t changed;
    unsigned mode;       /* permissions                                        */
    bool is_folder;
};

struct tar_input {
    struct tar_member *members; /* in the order of the file */
    size_t n;
};

/* Is this the name of a tar file? */
bool tar_is_name(const char *path);

/* Reads the list of members, not their contents. false: why has the reason, and *input is empty. */
bool tar_input_read(struct tar_input *input, const char *path, char *why, size_t cap);

void tar_input_free(struct tar_input *input);

/* Is the member's name that of a sound? */
bool tar_member_is_sound(const struct tar_member *member);

/* Do two members belong to one sample? WebDataset's rule: their names are equal up to the first dot of the last
 * component. */
bool tar_same_sample(const char *a, const char *b);

#endif
