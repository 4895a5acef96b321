/* gzip - unpacks a compressed tar file by the program gzip, into a file that disappears when it is closed. */
#ifndef GZIP_H
#define GZIP_H

#include <stddef.h>

/* Returns a descriptor of the content, which lies in $TMPDIR. -1: why has the reason. Any thread. */
int gzip_unpack(const char *path, char *why, size_t cap);

#endif
