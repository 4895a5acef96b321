/* spool - a nameless temporary file in $TMPDIR, for formats that cannot be read from or written to a pipe, and for an
 * output that waits for its gain. */
#ifndef SPOOL_H
#define SPOOL_H

#include <stddef.h>
#include <sys/types.h>

/* Opens an empty file that disappears when it is closed. -1: why has the reason. */
int spool_open(char *why, size_t cap);

/* Copies everything from one descriptor to the other; 0 or an errno. */
int spool_copy(int from, int to);

/* Repeats read(2) until all bytes are read or the file ends. Returns how many; -1: errno has the reason. */
ssize_t spool_read(int fd, void *data, size_t bytes);

/* Repeats write(2) until all bytes are written; 0 or an errno. */
int spool_write(int fd, const void *data, size_t bytes);

#endif
