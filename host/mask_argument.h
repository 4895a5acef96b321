/* mask_argument - resolves a mask argument of a command: a file, or a mask that ships with haloconv ("hall"). */
#ifndef MASK_ARGUMENT_H
#define MASK_ARGUMENT_H

#include <stdbool.h>
#include <stddef.h>

struct shipped_mask {
    const char *name, *file, *text; /* text: a line about it */
};
extern const struct shipped_mask shipped_masks[]; /* the last one's name is NULL */

/* Finds the folder of the masks that ship: share/haloconv/impulses of an installed program, else impulses beside the
 * program. false: neither exists. */
bool shipped_folder(char *folder, size_t cap);

/* Returns the path of the mask that ships under this name, valid until the end. NULL: no such mask. Main thread. */
const char *shipped_path(const char *name);

/* Does the same for a name that a user writes for a file at `path`; returns NULL, too, if that file exists. A directory
 * counts as a file only if the mask that ships is a bank. Main thread. */
const char *mask_argument_shipped(const char *name, const char *path);

/* Returns the path for an argument: a file of this name, or a mask that ships. Main thread. */
const char *mask_argument_path(const char *argument);

/* Call it after hc_responses_load has failed for a path: if the path is a bank, `why` becomes how to play banks. */
void mask_argument_explain(const char *path, char *why, size_t cap);

#endif
