#include "gzip.h"

#include "host/files/spool.h"
#include "host/message.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* Runs gzip from one descriptor to the other. Returns its exit status, or minus an errno. */
static int gzip_run(int from, int to)
{
    char program[] = "gzip", option[] = "-dc", *arguments[] = {program, option, NULL};
    posix_spawn_file_actions_t actions;
    pid_t pid = -1;
    int status = 0, error = posix_spawn_file_actions_init(&actions);
    if (error) return -error;
    error = posix_spawn_file_actions_adddup2(&actions, from, STDIN_FILENO);
    if (!error) error = posix_spawn_file_actions_adddup2(&actions, to, STDOUT_FILENO);
    if (!error) error = posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    if (!error) error = posix_spawnp(&pid, program, &actions, NULL, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (error) return -error;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR) return -errno;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

int gzip_unpack(const char *path, char *why, size_t cap)
{
    int from = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC), to = -1;
    if (from < 0) {
        message_write(why, cap, "%s: cannot be read: %s; check the path and its permissions", path, strerror(errno));
        return -1;
    }
    if ((to = spool_open(why, cap)) >= 0) {
        int status = gzip_run(from, to);
        if (status < 0)
            message_write(why, cap, "%s: gzip cannot be started: %s; install it, or unpack the file", path,
                          strerror(-status));
        else if (status > 0)
            message_write(why, cap, "%s: gzip cannot unpack it; download it again, or free some space in $TMPDIR",
                          path);
        if (status != 0) close(to);
        if (status != 0) to = -1;
    }
    close(from);
    return to;
}
