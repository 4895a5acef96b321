/* Preloaded into a dynamically linked program, this runs it many times for the cost of a fork: the loader and the
 * constructors of 25 libraries take more than half of the time of a short command, with a sanitizer five times as long.
 *
 * It stands before main() and reads requests from the socket FORK_SERVER_FD, one packet each, with the descriptors of
 * standard output and standard error:
 *
 *   FOLDER \0 number of arguments \0 ARGUMENT \0 ... NAME=VALUE \0 ...
 *
 * A child with this folder, these arguments and this environment calls main(). Two packets answer: its process id, then
 * its status as waitpid() gives it. conftest.py is the client.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

typedef int main_function(int argc, char **argv, char **envp);
typedef int start_function(main_function *program, int argc, char **argv, void (*init)(void), void (*fini)(void),
                           void (*rtld_fini)(void), void *stack_end);
enum { MAX_BYTES = 1 << 17, MAX_WORDS = 1 << 13 };

int __libc_start_main(main_function *program, int argc, char **argv, void (*init)(void), void (*fini)(void),
                      void (*rtld_fini)(void), void *stack_end);
static main_function *served;
static char request[MAX_BYTES + 1];
static char *words[MAX_WORDS + 2]; /* the arguments, NULL, the environment, NULL */

/* The bytes of a request, and its two descriptors; 0: the client has gone. */
static size_t receive(int fd, int out[2])
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(2 * sizeof(int))];
    } control;
    struct iovec data = {request, MAX_BYTES};
    struct msghdr message = {
        .msg_iov = &data, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    ssize_t n = recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
    struct cmsghdr *descriptors = n > 0 ? CMSG_FIRSTHDR(&message) : NULL;
    if (!descriptors || descriptors->cmsg_len != CMSG_LEN(2 * sizeof(int))) return 0;
    memcpy(out, CMSG_DATA(descriptors), 2 * sizeof(int));
    return (size_t)n;
}

/* In the child: does what the request says, and returns the status of main(). */
static int run(size_t n_bytes)
{
    char *folder = request, *end = request + n_bytes, *at = folder + strlen(folder) + 1;
    int n_arguments = atoi(at), n = 0;
    for (at += strlen(at) + 1; at < end && n < MAX_WORDS; at += strlen(at) + 1) {
        if (n == n_arguments) n++; /* the NULL after the arguments */
        words[n++] = at;
    }
    environ = words + n_arguments + 1;
    if (chdir(folder) != 0) return 126;
    return served(n_arguments, words, environ);
}

static int serve(int argc, char **argv, char **envp)
{
    const char *number = getenv("FORK_SERVER_FD");
    struct stat tasks;
    if (!number || stat("/proc/self/task", &tasks) != 0) return served(argc, argv, envp);
    if (tasks.st_nlink != 3) _exit(125); /* a library has begun a thread, which a child would not have */
    int fd = atoi(number), out[2];
    for (size_t n; (n = receive(fd, out)) > 0;) {
        pid_t child = fork();
        if (child == 0) {
            dup2(out[0], 1);
            dup2(out[1], 2);
            close(out[0]);
            close(out[1]);
            close(fd);
            return run(n);
        }
        close(out[0]);
        close(out[1]);
        int status = 0;
        if (child < 0 || send(fd, &child, sizeof child, MSG_NOSIGNAL) < 0) break;
        waitpid(child, &status, 0);
        if (send(fd, &status, sizeof status, MSG_NOSIGNAL) < 0) break;
        memset(request, 0, n);
    }
    _exit(0);
}

int __libc_start_main(main_function *program, int argc, char **argv, void (*init)(void), void (*fini)(void),
                      void (*rtld_fini)(void), void *stack_end)
{
    start_function *start = NULL;
    *(void **)&start = dlsym(RTLD_NEXT, "__libc_start_main");
    served = program;
    return start(serve, argc, argv, init, fini, rtld_fini, stack_end);
}
