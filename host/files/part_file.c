#include "part_file.h"

#include "host/message.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { MOST_FILES = 512 };

/* The signal handler removes the files of these names. mkostemps fills a name in before it creates the file, and unlink
 * does no harm if the file does not exist yet, or no longer: no signal needs to be blocked. */
static char names[MOST_FILES][PATH_MAX];
static atomic_bool taken[MOST_FILES];
static mode_t user_mask; /* umask; it is read once, because reading sets it for all threads */

/* Other threads run while the handler runs: one of them may be about to create a file that the handler has not seen. */
static atomic_bool stopping;
static atomic_int n_making;                /* threads inside make_file */
static _Thread_local volatile bool making; /* this one is: a handler that interrupts it must not wait for it */

static void stop(int signal_number)
{
    atomic_store(&stopping, true);
    for (int i = 0; i < 1000 && atomic_load(&n_making) > (making ? 1 : 0); i++)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    for (int i = 0; i < MOST_FILES; i++)
        if (names[i][0]) unlink(names[i]);
    _exit(128 + signal_number);
}

/* Blocks forever if the handler is ending the process: the files are the handler's then. */
static void wait_if_stopping(void)
{
    while (atomic_load(&stopping)) pause();
}

static int make_file(char *name)
{
    making = true;
    atomic_fetch_add(&n_making, 1);
    if (atomic_load(&stopping)) {
        atomic_fetch_sub(&n_making, 1);
        wait_if_stopping();
    }
    int fd = mkostemps(name, 5, O_CLOEXEC);
    atomic_fetch_sub(&n_making, 1);
    making = false;
    return fd;
}

static char *name_take(void)
{
    for (int i = 0; i < MOST_FILES; i++)
        if (!atomic_exchange(&taken[i], true)) return names[i];
    return NULL;
}

static void name_give_back(struct part_file *part)
{
    if (!part->name) return;
    part->name[0] = 0;
    atomic_store(&taken[(part->name - names[0]) / PATH_MAX], false);
    part->name = NULL;
}

void part_file_watch_signals(void)
{
    static const int ending[] = {SIGINT, SIGQUIT, SIGTERM, SIGHUP};
    struct sigaction action = {.sa_handler = stop}, before;
    user_mask = umask(0);
    umask(user_mask);
    sigfillset(&action.sa_mask);
    for (size_t i = 0; i < sizeof ending / sizeof *ending; i++) {
        sigaction(ending[i], NULL, &before);
        if (before.sa_handler != SIG_IGN) sigaction(ending[i], &action, NULL); /* nohup stays in force */
    }
    /* A closed pipe or a limit on file sizes becomes an error of write(2), which is reported. */
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

static bool is_standard_output(const char *path)
{
    return strcmp(path, "-") == 0 || strcmp(path, "/dev/stdout") == 0 || strcmp(path, "/dev/fd/1") == 0;
}

static bool open_in_place(struct part_file *part, const char *path, char *why, size_t cap)
{
    part->fd = is_standard_output(path) ? fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3) : open(path, O_WRONLY | O_CLOEXEC);
    if (part->fd < 0)
        return message_write(why, cap, "%s: cannot be written: %s; choose another output", path, strerror(errno));
    inspect(part);
    return true;
}

static bool make_next_to_target(struct part_file *part, mode_t mode, char *why, size_t cap)
{
    const char *slash = strrchr(part->target, '/');
    int folder = slash ? (int)(slash - part->target) + 1 : 0;
    const char *name = part->target + folder;
    /* Cut, so that the longer name stays inside NAME_MAX. */
    part->fd = -1;
    part->name = name_take();
    if (!part->name)
        return message_write(why, cap, "%s: cannot be written: %d outputs are under way; use fewer workers",
                             part->target, MOST_FILES);
    int length = snprintf(part->name, PATH_MAX, "%.*s.%.200s.XXXXXX.part", folder, part->target, name);
    errno = ENAMETOOLONG;
    if (length > 0 && length < PATH_MAX) part->fd = make_file(part->name);
    if (part->fd < 0) {
        int error = errno;
        name_give_back(part);
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
    if (is_standard_output(path) || (exists && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode)))
        return open_in_place(part, path, why, cap);
    if (exists && S_ISDIR(status.st_mode))
        return message_write(why, cap, "%s: is a directory; give the name of a file", path);
    if (exists && access(path, W_OK) != 0)
        return message_write(why, cap, "%s: cannot be written: %s; choose another output", path, strerror(errno));
    struct stat link;
    if (!exists && lstat(path, &link) == 0 && S_ISLNK(link.st_mode))
        return message_write(why, cap, "%s: is a link to a file that is not there; name the file, or remove the link",
                             path);
    /* A link stays; the file that it points to is replaced. */
    part->target = exists ? realpath(path, NULL) : strdup(path);
    if (!part->target) return message_write(why, cap, "%s: %s; choose another output", path, strerror(errno));
    if (!make_next_to_target(part, exists ? status.st_mode & 0777 : 0666 & ~user_mask, why, cap)) {
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
    if (!error && part->target && rename(part->name, part->target) != 0) error = errno;
    if (error) {
        wait_if_stopping();
        part_file_abandon(part);
        return message_write(why, cap, "%s: cannot be written: %s; free some space or choose another output", path,
                             strerror(error));
    }
    name_give_back(part);
    free(part->target);
    part->target = NULL;
    return true;
}

void part_file_abandon(struct part_file *part)
{
    if (part->fd >= 0) close(part->fd);
    part->fd = -1;
    if (part->name && part->name[0]) unlink(part->name);
    name_give_back(part);
    free(part->target);
    part->target = NULL;
}
