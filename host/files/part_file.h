/* part_file - an output that appears under its name only when it is complete.
 *
 * The output is written as .NAME.XXXXXX.part in the same folder; part_file_commit renames it. Any error, SIGINT,
 * SIGTERM or SIGHUP removes it. Up to 512 at a time (the signal handler knows their names), on any threads. An output
 * that is not a regular file (a pipe, /dev/null, standard output as "-") is written in place.
 */
#ifndef PART_FILE_H
#define PART_FILE_H

#include <stdbool.h>
#include <stddef.h>

struct part_file {
    int fd;       /* open for writing; owned */
    bool regular; /* can be written anywhere, not only at the end */
    bool is_pipe; /* or a socket */
    char *target; /* the final name; NULL: written in place */
    char *name;   /* the name until the commit; the signal handler removes that file */
};

/* Installs the signal handlers. Call it once, before any thread starts. */
void part_file_watch_signals(void);

/* false: why has the reason. */
bool part_file_open(struct part_file *part, const char *path, char *why, size_t cap);
bool part_file_commit(struct part_file *part, const char *path, char *why, size_t cap);

/* Closes and removes the file; does nothing after a commit. */
void part_file_abandon(struct part_file *part);

#endif
