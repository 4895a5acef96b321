/* text_in - opens a text that the command line names: a list, a map, a preset, a curve. */
#ifndef TEXT_IN_H
#define TEXT_IN_H

#include <stdio.h>

/* Opens a file to read. A named pipe is refused, because opening it would wait for its writer; a pipe of the shell, as
 * in <(command), is read. NULL: *reason says why, without the path. */
FILE *text_in_open(const char *path, const char **reason);

#endif
