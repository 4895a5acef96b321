#include "spool.h"

#include "host/message.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int spool_open(char *why, size_t cap)
{
    const char *folder = getenv("TMPDIR");
    char path[PATH_MAX];
    if (!folder || !*folder) folder = "/tmp";
    int length = snprintf(path, sizeof path, "%s/haloconv.XXXXXX", folder);
    int fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd >= 0) return fd;
    errno = ENAMETOOLONG; /* a file system without nameless files */
    if (length < PATH_MAX) fd = mkostemp(path, O_CLOEXEC);
    if (fd >= 0 && unlink(path) == 0) return fd;
    message_write(why, cap, "%s: a temporary file cannot be made: %s; set TMPDIR to another folder", folder,
                  strerror(errno));
    if (fd >= 0) close(fd);
    return -1;
}

ssize_t spool_read(int fd, void *data, size_t bytes)
{
    size_t done = 0;
    while (done < bytes) {
        ssize_t n = read(fd, (char *)data + done, bytes - done);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return -1;
        if (n == 0) break;
        done += (size_t)n;
    }
    return (ssize_t)done;
}

int spool_write(int fd, const void *data, size_t bytes)
{
    const char *at = data;
    while (bytes > 0) {
        ssize_t n = write(fd, at, bytes);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return errno;
        at += n;
        bytes -= (size_t)n;
    }
    return 0;
}

int spool_copy(int from, int to)
{
    enum { BUFFER_BYTES = 1 << 18 };
    char *buffer = malloc(BUFFER_BYTES);
    int error = buffer ? 0 : ENOMEM;
    while (!error) {
        ssize_t n = spool_read(from, buffer, BUFFER_BYTES);
        if (n < 0) error = errno;
        if (n <= 0) break;
        error = spool_write(to, buffer, (size_t)n);
    }
    free(buffer);
    return error;
}
