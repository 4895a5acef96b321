/* uri - finds the path in a list of addresses (text/uri-list), which another program wrote. */
#ifndef URI_H
#define URI_H

#include <stdbool.h>
#include <stddef.h>

/* "file:///a%20b.wav\r\n..." becomes "/a b.wav": the first address counts, and the name of a computer before the path
 * is skipped. A text may have the path itself. false: it is not an absolute path of fewer than cap bytes. */
bool uri_path(const char *text, char *path, size_t cap);

#endif
