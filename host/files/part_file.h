/* part_file - an output that appears under its name only when it is complete and on the disk.
 *
 * The output is written to a file without a name (O_TMPFILE), which disappears with the program, however that ends.
 * part_file_commit names it .NAME.haloconv-N.part and renames that. If the file system has no such files, or /proc is
 * absent, the file has that name from the start: errors and signals that can be caught remove it; after SIGKILL the
 * next program that writes the output removes it. A lock (flock) shows whether the owner runs. Any number of
 * outputs, on any threads. An output that is not a regular file (a pipe, /dev/null, standard output as "-") is written
 * in place.
 */
#ifndef PART_FILE_H
#define PART_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct part_file {
    int fd;                 /* open for writing; owned */
    bool regular;           /* can be written anywhere, not only at the end */
    bool is_pipe;           /* a pipe, a socket, or a file that is only appended to */
    char *target;           /* the final name; NULL: written in place */
    struct part_name *name; /* the name until the commit, perhaps none; the signal handler removes that file */
};

/* Installs the signal handlers. Call it once, before any thread starts. */
void part_file_watch_signals(void);

/* Opens an output. fd can be read, too, unless the output is written in place. false: why has the reason. */
bool part_file_open(struct part_file *part, const char *path, char *why, size_t cap);

/* Waits until the content is on the disk, then names it. It does not wait for the folder: after a power failure the
 * name may be absent, or that of the old file, but never that of a broken file. */
bool part_file_commit(struct part_file *part, const char *path, char *why, size_t cap);

/* Closes and removes the file; does nothing after a commit. */
void part_file_abandon(struct part_file *part);

#endif
