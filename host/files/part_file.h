/* part_file - an output that appears under its name only when it is complete.
 *
 * It is written as .NAME.XXXXXX.part beside its place and renamed by part_file_commit. Any error, SIGINT, SIGTERM or
 * SIGHUP removes it. Up to 512 at a time (the signal handler knows their names), on any threads. What is no regular
 * file (a pipe, /dev/null, standard output as "-") is written as it comes.
 */
#ifndef PART_FILE_H
#define PART_FILE_H

#include <stdbool.h>
#include <stddef.h>

struct part_file {
    int fd;       /* open for writing; owned */
    bool regular; /* can be written anywhere, not only at the end */
    bool is_pipe; /* or a socket */
    char *target; /* where to rename to; NULL: written in place */
    char *name;   /* until then; one of those that the signal handler removes */
};

/* Install the handlers for the signals. Once, before any thread is made. */
void part_file_watch_signals(void);

/* false: why has the reason. */
bool part_file_open(struct part_file *part, const char *path, char *why, size_t cap);
bool part_file_commit(struct part_file *part, const char *path, char *why, size_t cap);

/* Close and remove; does nothing after a commit. */
void part_file_abandon(struct part_file *part);

#endif
