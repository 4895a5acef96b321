/* spool - a nameless temporary file in $TMPDIR, for what cannot be read from or written to a pipe. */
#ifndef SPOOL_H
#define SPOOL_H

#include <stddef.h>

/* An empty file that is gone when it is closed; -1 and why when there is no room for one. */
int spool_open(char *why, size_t cap);

/* Copy everything from one descriptor to the other; 0, or the errno of what failed. */
int spool_copy(int from, int to);

/* Write all of it, also where the system takes it in parts; 0 or an errno. */
int spool_write(int fd, const void *data, size_t bytes);

#endif
