/* text_in - opens a text file that the command line names: a list, a map, a preset, a curve. */
#ifndef TEXT_IN_H
#define TEXT_IN_H

#include <stdio.h>

/* Opens a file to read. Refuses a named pipe, because opening it would wait for its writer, and a device, which may have
 * no end; accepts a pipe of the shell, as in <(command). NULL: *reason is why, without the path. */
FILE *text_in_open(const char *path, const char **reason);

#endif
