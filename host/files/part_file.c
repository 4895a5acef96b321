#include "part_file.h"

#include "host/message.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { MAX_FOR_ONE = 8 }; /* files under way for one output, of all programs */

/* The signal handler removes the files of all names. It takes no lock, so a name is used again, but never freed. */
struct part_name {
    char path[PATH_MAX];
    struct part_name *next, *next_unused;
};
static _Atomic(struct part_name *) names;
static struct part_name *unused_names; /* under names_lock */
static pthread_mutex_t names_lock = PTHREAD_MUTEX_INITIALIZER;
static mode_t user_mask; /* umask; it is read once, because reading sets it for all threads */

/* Other threads run while the handler runs: one of them may be about to create a file that the handler has not seen. */
static atomic_bool stopping;
static atomic_int n_naming; /* threads between naming_begin and naming_end */

static void remove_files_and_stop(int signal_number)
{
    atomic_store(&stopping, true);
    for (int i = 0; i < 1000 && atomic_load(&n_naming) > 0; i++)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    for (struct part_name *name = atomic_load(&names); name; name = name->next)
        if (name->path[0]) unlink(name->path);
    _exit(128 + signal_number);
}

/* Files get and lose names between these two calls. The signal handler waits until every other thread is outside them,
 * and cannot interrupt this one. So it never removes a file to which another program has just given that name. */
static void naming_begin(sigset_t *before)
{
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, before);
    atomic_fetch_add(&n_naming, 1);
    if (!atomic_load(&stopping)) return;
    atomic_fetch_sub(&n_naming, 1);
    for (;;) pause(); /* only the handler may touch the files now; it ends the process */
}

static void naming_end(const sigset_t *before)
{
    int error = errno;
    atomic_fetch_sub(&n_naming, 1);
    pthread_sigmask(SIG_SETMASK, before, NULL);
    errno = error;
}

/* NULL: no memory. */
static struct part_name *name_reserve(void)
{
    pthread_mutex_lock(&names_lock);
    struct part_name *name = unused_names;
    if (name) {
        unused_names = name->next_unused;
    } else if ((name = calloc(1, sizeof *name))) {
        name->next = atomic_load(&names);
        atomic_store(&names, name);
    }
    pthread_mutex_unlock(&names_lock);
    return name;
}

static void name_give_back(struct part_name *name)
{
    if (!name) return;
    pthread_mutex_lock(&names_lock);
    name->next_unused = unused_names;
    unused_names = name;
    pthread_mutex_unlock(&names_lock);
}

void part_file_watch_signals(void)
{
    static const int ending[] = {SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGXCPU};
    struct sigaction action = {.sa_handler = remove_files_and_stop}, before;
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

/* Writes the error with the reason in errno; returns false. */
static bool output_refuse(const char *path, char *why, size_t cap)
{
    return message_write(why, cap, "%s: cannot be written: %s; choose another output", path, strerror(errno));
}

/* Sets what kind of file is open. false: errno has the reason. */
static bool inspect(struct part_file *part)
{
    struct stat status;
    int flags = fcntl(part->fd, F_GETFL); /* if O_APPEND is set, a header cannot be rewritten */
    if (flags < 0 || fstat(part->fd, &status) != 0) return false;
    part->regular = S_ISREG(status.st_mode) && !(flags & O_APPEND);
    part->is_pipe = S_ISFIFO(status.st_mode) || S_ISSOCK(status.st_mode) || (S_ISREG(status.st_mode) && !part->regular);
    return true;
}

static bool is_standard_output(const char *path)
{
    return strcmp(path, "-") == 0 || strcmp(path, "/dev/stdout") == 0 || strcmp(path, "/dev/fd/1") == 0;
}

static bool open_in_place(struct part_file *part, const char *path, char *why, size_t cap)
{
    part->fd = is_standard_output(path) ? fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3) : open(path, O_WRONLY | O_CLOEXEC);
    return (part->fd >= 0 && inspect(part)) || output_refuse(path, why, cap);
}

/* Returns the length of the target's folder with its slash; 0: the target is in the working directory. */
static int folder_length(const char *target)
{
    const char *slash = strrchr(target, '/');
    return slash ? (int)(slash - target) + 1 : 0;
}

/* Writes the name .NAME.haloconv-N.part in the folder of the target. NAME is cut, so that the whole stays inside
 * NAME_MAX. false: the path is too long; errno has the reason. */
static bool name_write(char *name, const char *target, int n)
{
    int folder = folder_length(target);
    int length = snprintf(name, PATH_MAX, "%.*s.%.230s.haloconv-%d.part", folder, target, target + folder, n);
    errno = ENAMETOOLONG;
    return length > 0 && length < PATH_MAX;
}

/* Removes the files that killed programs left for the target. The owner of a file locks it as long as it runs. */
static void sweep(const char *target)
{
    char name[PATH_MAX];
    for (int n = 1; n <= MAX_FOR_ONE && name_write(name, target, n); n++) {
        struct stat held, named;
        int fd = open(name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0 && fstat(fd, &held) == 0 && S_ISREG(held.st_mode) &&
            lstat(name, &named) == 0 && named.st_ino == held.st_ino && named.st_dev == held.st_dev)
            unlink(name);
        if (fd >= 0) close(fd);
    }
}

static const char *descriptor_path(int fd, char path[32])
{
    snprintf(path, 32, "/proc/self/fd/%d", fd);
    return path;
}

/* Opens a file that disappears when it is closed, if the file can get a name later; else returns -1. */
static int open_nameless(const char *target)
{
    char folder[PATH_MAX], path[32];
    int length = snprintf(folder, sizeof folder, "%.*s.", folder_length(target), target);
    int fd = length < PATH_MAX ? open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600) : -1;
    if (fd < 0 || access(descriptor_path(fd, path), F_OK) == 0) return fd;
    close(fd);
    return -1;
}

/* Opens a new file, and locks it. EEXIST: a sweep between open and lock has removed the file. */
static int open_locked(const char *name)
{
    struct stat status;
    int fd = open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) return -1;
    bool swept = flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    if (!swept && fstat(fd, &status) == 0 && status.st_nlink > 0) return fd;
    close(fd);
    errno = EEXIST;
    return -1;
}

/* Gives fd, or a new file if fd is -1, the first name that is free. Call it between naming_begin and naming_end. */
static bool reserve_free_name(struct part_file *part)
{
    char name[PATH_MAX], path[32];
    for (int n = 1; name_write(name, part->target, n); n++) {
        bool good = part->fd >= 0
                        ? linkat(AT_FDCWD, descriptor_path(part->fd, path), AT_FDCWD, name, AT_SYMLINK_FOLLOW) == 0
                        : (part->fd = open_locked(name)) >= 0;
        if (good) strcpy(part->name->path, name);
        if (good || errno != EEXIST || n == MAX_FOR_ONE) return good;
    }
    return false;
}

static bool make_next_to_target(struct part_file *part, mode_t mode, char *why, size_t cap)
{
    sigset_t before;
    part->fd = -1;
    part->name = name_reserve();
    if (!part->name) return message_write(why, cap, "%s: cannot be written: no memory; free some memory", part->target);
    sweep(part->target);
    part->fd = open_nameless(part->target);
    if (part->fd >= 0) {
        flock(part->fd, LOCK_EX); /* before it has a name */
    } else {
        naming_begin(&before);
        reserve_free_name(part);
        naming_end(&before);
    }
    if (part->fd < 0 || !inspect(part)) return output_refuse(part->target, why, cap);
    fchmod(part->fd, mode);
    return true;
}

static bool open_output(struct part_file *part, const char *path, char *why, size_t cap)
{
    struct stat status;
    bool exists = stat(path, &status) == 0;
    if (is_standard_output(path) || (exists && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode)))
        return open_in_place(part, path, why, cap);
    if (exists && S_ISDIR(status.st_mode))
        return message_write(why, cap, "%s: is a directory; give the name of a file", path);
    if (exists && access(path, W_OK) != 0) return output_refuse(path, why, cap);
    struct stat link;
    if (!exists && lstat(path, &link) == 0 && S_ISLNK(link.st_mode))
        return message_write(why, cap, "%s: is a link to a file that is not there; name the file, or remove the link",
                             path);
    /* A link stays; the file that it points to is replaced. */
    part->target = exists ? realpath(path, NULL) : strdup(path);
    if (!part->target) return output_refuse(path, why, cap);
    return make_next_to_target(part, exists ? status.st_mode & 0777 : 0666 & ~user_mask, why, cap);
}

bool part_file_open(struct part_file *part, const char *path, char *why, size_t cap)
{
    *part = (struct part_file){.fd = -1};
    bool good = open_output(part, path, why, cap);
    if (!good) part_file_abandon(part);
    return good;
}

/* Gives the file its name. Returns 0 or an errno. */
static int give_name(struct part_file *part)
{
    sigset_t before;
    if (fdatasync(part->fd) != 0 && errno != EINVAL) return errno;
    naming_begin(&before);
    bool good = (part->name->path[0] || reserve_free_name(part)) && rename(part->name->path, part->target) == 0;
    if (good) part->name->path[0] = 0;
    naming_end(&before);
    return good ? 0 : errno;
}

bool part_file_commit(struct part_file *part, const char *path, char *why, size_t cap)
{
    int error = part->target ? give_name(part) : 0;
    if (close(part->fd) != 0 && !error) error = errno;
    part->fd = -1;
    part_file_abandon(part);
    return !error || message_write(why, cap, "%s: cannot be written: %s; free some space or choose another output",
                                   path, strerror(error));
}

void part_file_abandon(struct part_file *part)
{
    sigset_t before;
    naming_begin(&before);
    if (part->name && part->name->path[0]) unlink(part->name->path);
    if (part->name) part->name->path[0] = 0;
    naming_end(&before);
    if (part->fd >= 0) close(part->fd);
    part->fd = -1;
    name_give_back(part->name);
    part->name = NULL;
    free(part->target);
    part->target = NULL;
}
