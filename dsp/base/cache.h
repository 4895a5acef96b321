/* cache - the user's cache folder, $XDG_CACHE_HOME/haloconv or ~/.cache/haloconv. */
#ifndef HALOCONV_CACHE_H
#define HALOCONV_CACHE_H

#include <stdbool.h>

enum { CACHE_PATH = 4096 };

/* Makes the path of a file in the folder. false: the environment names no folder, the process is set-user-ID, or the
 * folder is another user's folder or link. [setup] */
bool cache_path(char path[CACHE_PATH], const char *name);

/* Makes the folder of such a path, and its parent folder. false: they cannot be made. [setup] */
bool cache_make(char path[CACHE_PATH]);

#endif
