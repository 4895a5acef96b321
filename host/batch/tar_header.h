/* tar_header - the header of a tar member, in POSIX's ustar format; a long name or a large size is put in a pax header
 * before it (POSIX.1-2001, "pax Interchange Format"). libarchive would write it too, but its writer needs twelve
 * libraries, which a live session would lock into memory.
 */
#ifndef TAR_HEADER_H
#define TAR_HEADER_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

enum { TAR_BLOCK = 512 }; /* headers and contents are padded to a multiple */

/* Writes the header of a file or a folder. Returns 0 or an errno. */
int tar_header_write(int fd, const char *name, bool is_folder, unsigned mode, time_t changed, int64_t bytes);

/* Writes the zeros that a content of so many bytes needs. Returns 0 or an errno. */
int tar_padding_write(int fd, int64_t bytes);

/* Writes the end of a tar file. Returns 0 or an errno. */
int tar_end_write(int fd);

#endif
