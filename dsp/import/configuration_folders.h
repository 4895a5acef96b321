/* configuration_folders - the folders and paths of the files that a configuration names. A file is in its folder or in
 * that of a /cd. */
#ifndef HALOCONV_CONFIGURATION_FOLDERS_H
#define HALOCONV_CONFIGURATION_FOLDERS_H

#include "configuration.h"

struct folder {              /* a folder that a /cd names                                                       */
    const char *path;        /* the path in the text                                                            */
    int line;
    const char *found;       /* the path that exists; NULL: not searched for yet                                */
};

/* Returns the path of a file; %r stays. folder NULL: the configuration's own. Returns NULL if the arena is short. */
const char *configuration_path(struct configuration *configuration, struct folder *folder, const char *name);

/* Is the folder of a /cd in one of the places where its files are looked for, or one with %r? */
bool configuration_folder_exists(const struct configuration *configuration, const char *path);

#endif
