/* mask_argument - what a command names as its mask: a file, or a mask that ships with haloconv ("hall"). */
#ifndef MASK_ARGUMENT_H
#define MASK_ARGUMENT_H

#include <stdbool.h>
#include <stddef.h>

struct shipped_mask {
    const char *name, *file, *text; /* text: a line about it */
};
extern const struct shipped_mask shipped_masks[]; /* the last one's name is NULL */

/* Finds the folder of the masks that ship: share/haloconv/impulses of an installed program, else impulses beside the
 * program. false: there is none. */
bool shipped_folder(char *folder, size_t cap);

/* The path of the mask that ships under this name, valid until the program ends. NULL: there is none. Main thread. */
const char *shipped_path(const char *name);

/* Likewise, of a name that a user writes for a file at `path`. NULL, too: that file is there. A directory counts as a
 * file only if the mask that ships is a bank. Main thread. */
const char *mask_argument_shipped(const char *name, const char *path);

/* The path that an argument means: a file of this name, or a mask that ships. Main thread. */
const char *mask_argument_path(const char *argument);

/* hc_responses_load has failed for this path: if it is a bank of responses, why says how banks are played. */
void mask_argument_explain(const char *path, char *why, size_t cap);

#endif
