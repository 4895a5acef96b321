#include "text_in.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Is this the name of a descriptor of this process? */
static bool is_own_descriptor(const char *path)
{
    return strncmp(path, "/dev/fd/", 8) == 0 || strncmp(path, "/proc/self/fd/", 14) == 0 ||
           strcmp(path, "/dev/stdin") == 0;
}

FILE *text_in_open(const char *path, const char **reason)
{
    bool is_own = is_own_descriptor(path);
    struct stat status;
    int fd = open(path, O_RDONLY | O_CLOEXEC | (is_own ? 0 : O_NONBLOCK));
    bool is_odd = fd >= 0 && !is_own && fstat(fd, &status) == 0 && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode);
    bool good = fd >= 0 && !is_odd && fcntl(fd, F_SETFL, 0) == 0; /* O_NONBLOCK is for open only */
    FILE *file = good ? fdopen(fd, "r") : NULL;
    *reason = is_odd ? "it is not a regular file" : strerror(errno);
    if (!file && fd >= 0) close(fd);
    return file;
}
