/* configuration_folders - the folders and paths of the files that a configuration names: its own folder, or that of a
 * /cd. */
#ifndef HALOCONV_CONFIGURATION_FOLDERS_H
#define HALOCONV_CONFIGURATION_FOLDERS_H

#include "configuration.h"

struct folder {              /* a folder that a /cd names                                                       */
    const char *path;        /* the path in the text                                                            */
    int line;
    const char *found;       /* the path that exists; NULL: not searched for yet                                */
};

/* The path of a file; %r stays. folder NULL: the configuration's own. NULL: the arena is short. */
const char *configuration_path(struct configuration *configuration, struct folder *folder, const char *name);

#endif
