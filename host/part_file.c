#include "part_file.h"

#include "message.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The handler removes what this names. mkstemp fills it in before it makes the file, and an unlink of a name that is
 * not there yet, or no more, harms nobody: no signal needs to be blocked. */
static char in_progress[PATH_MAX];

static void stop(int signal_number)
{
    if (in_progress[0]) unlink(in_progress);
    _exit(128 + signal_number);
}

void part_file_watch_signals(void)
{
    static const int stopping[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction action = {.sa_handler = stop}, before;
    sigfillset(&action.sa_mask);
    for (size_t i = 0; i < sizeof stopping / sizeof *stopping; i++) {
        sigaction(stopping[i], NULL, &before);
        if (before.sa_handler != SIG_IGN) sigaction(stopping[i], &action, NULL); /* nohup stays in force */
    }
    /* A closed pipe or a limit on file sizes is an error of the write, to be reported as one. */
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
}

static void inspect(struct part_file *part)
{
    struct stat status;
    if (fstat(part->fd, &status) != 0) return;
    /* With O_APPEND a header cannot be rewritten in place. */
    int flags = fcntl(part->fd, F_GETFL);
    part->regular = S_ISREG(status.st_mode) && !(flags & O_APPEND);
    part->is_pipe = S_ISFIFO(status.st_mode) || S_ISSOCK(status.st_mode) || (S_ISREG(status.st_mode) && !part->regular);
}

static bool open_in_place(struct part_file *part, const char *path, char *why, size_t cap)
{
    bool standard = strcmp(path, "-") == 0 || strcmp(path, "/dev/stdout") == 0 || strcmp(path, "/dev/fd/1") == 0;
    part->fd = standard ? fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3) : open(path, O_WRONLY | O_CLOEXEC);
    if (part->fd < 0)
        return message_write(why, cap, "%s: cannot be written: %s; choose another output", path, strerror(errno));
    inspect(part);
    return true;
}

static bool make_beside(struct part_file *part, mode_t mode, char *why, size_t cap)
{
    const char *slash = strrchr(part->target, '/');
    int folder = slash ? (int)(slash - part->target) + 1 : 0;
    const char *name = part->target + folder;
    /* The name is cut so that what is added keeps it inside NAME_MAX. */
    int length = snprintf(in_progress, sizeof in_progress, "%.*s.%.200s.XXXXXX.part", folder, part->target, name);
    errno = ENAMETOOLONG;
    part->fd = -1;
    if (length > 0 && (size_t)length < sizeof in_progress) part->fd = mkostemps(in_progress, 5, O_CLOEXEC);
    if (part->fd < 0) {
        int error = errno;
        in_progress[0] = 0;
        return message_write(why, cap, "%s: cannot be written: %s; choose another output", part->target,
                             strerror(error));
    }
    fchmod(part->fd, mode);
    return true;
}

bool part_file_open(struct part_file *part, const char *path, char *why, size_t cap)
{
    struct stat status;
    *part = (struct part_file){.fd = -1};
    bool exists = stat(path, &status) == 0;
    if (strcmp(path, "-") == 0 || (exists && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode)) ||
        strcmp(path, "/dev/stdout") == 0 || strcmp(path, "/dev/fd/1") == 0)
        return open_in_place(part, path, why, cap);
    if (exists && S_ISDIR(status.st_mode))
        return message_write(why, cap, "%s: is a directory; give the name of a file", path);
    if (exists && access(path, W_OK) != 0)
        return message_write(why, cap, "%s: cannot be written: %s; choose another output", path, strerror(errno));
    mode_t mask = umask(0);
    umask(mask);
    /* Through a link: what it points to is replaced, and the link stays. */
    part->target = exists ? realpath(path, NULL) : strdup(path);
    if (!part->target) return message_write(why, cap, "%s: %s; choose another output", path, strerror(errno));
    if (!make_beside(part, exists ? status.st_mode & 0777 : 0666 & ~mask, why, cap)) {
        part_file_abandon(part);
        return false;
    }
    inspect(part);
    return true;
}

bool part_file_commit(struct part_file *part, const char *path, char *why, size_t cap)
{
    int error = close(part->fd) == 0 ? 0 : errno;
    part->fd = -1;
    if (!error && part->target && rename(in_progress, part->target) != 0) error = errno;
    if (error) {
        part_file_abandon(part);
        return message_write(why, cap, "%s: cannot be written: %s; free some space or choose another output", path,
                             strerror(error));
    }
    in_progress[0] = 0;
    free(part->target);
    part->target = NULL;
    return true;
}

void part_file_abandon(struct part_file *part)
{
    if (part->fd >= 0) close(part->fd);
    part->fd = -1;
    if (part->target && in_progress[0]) unlink(in_progress);
    in_progress[0] = 0;
    free(part->target);
    part->target = NULL;
}
