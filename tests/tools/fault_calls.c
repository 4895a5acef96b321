#include "fault_calls.h"

#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <glob.h>
#include <locale.h>
#include <pthread.h>
#include <search.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static const char *const kind_names[FAULT_KINDS] = {"memory", "thread", "io", "short", "eintr"};
static const int errors[FAULT_KINDS] = {ENOMEM, EAGAIN, EIO, 0, EINTR};
static atomic_long counts[FAULT_KINDS];
static atomic_bool happened;
static enum fault_kind chosen;
static long chosen_n;
static bool chosen_onward;
static int log_fd = -1;
extern const char __executable_start, etext;

/* ---- which call fails ------------------------------------------------------------------------------------------- */

static void log_call(enum fault_kind kind, long n, const char *call)
{
    enum { MOST = 32 };
    void *frames[MOST];
    char line[1024];
    int length = snprintf(line, sizeof line, "%s %ld %s", kind_names[kind], n, call);
    int n_frames = backtrace(frames, MOST);
    for (int i = 2; i < n_frames; i++) /* after this function and fails() */
        if ((const char *)frames[i] >= &__executable_start && (const char *)frames[i] < &etext)
            length += snprintf(line + length, sizeof line - (size_t)length, " %zx",
                               (size_t)((const char *)frames[i] - &__executable_start - 1));
    line[length++] = '\n';
    syscall(SYS_write, log_fd, line, (size_t)length);
}

static __attribute__((noinline)) bool fails(enum fault_kind kind, const char *call)
{
    long n = atomic_fetch_add(&counts[kind], 1) + 1;
    bool is_it = kind == chosen && chosen_n && (chosen_onward ? n >= chosen_n : n == chosen_n);
    if (log_fd >= 0 && (!chosen_n || (is_it && n == chosen_n))) log_call(kind, n, call);
    if (!is_it) return false;
    atomic_store(&happened, true);
    if (errors[kind]) errno = errors[kind];
    return true;
}

void fault_set(enum fault_kind kind, long n, bool onward)
{
    chosen = kind, chosen_n = n, chosen_onward = onward;
    for (int i = 0; i < FAULT_KINDS; i++) atomic_store(&counts[i], 0);
    if (n) atomic_store(&happened, false);
}

bool fault_happened(void)
{
    return atomic_load(&happened);
}

static __attribute__((constructor)) void start(void)
{
    /* make coverage: gcc's counters would be written by calls that fail, and damage those of the other tests. */
    setenv("GCOV_PREFIX", "/nonexistent", 0);
    setenv("GCOV_ERROR_FILE", "/dev/null", 0);
    const char *fault = getenv("HC_FAULT"), *path = getenv("HC_FAULT_LOG");
    char kind[16], how[16];
    long n;
    if (path) log_fd = (int)syscall(SYS_open, path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (!fault) return;
    if (sscanf(fault, "%15s %ld %15s", kind, &n, how) != 3) abort();
    for (int i = 0; i < FAULT_KINDS; i++)
        if (strcmp(kind, kind_names[i]) == 0) fault_set((enum fault_kind)i, n, strcmp(how, "onward") == 0);
    if (!chosen_n) abort();
}

/* ---- the calls -------------------------------------------------------------------------------------------------- */

#define CALL(kind, type, name, failure, parameters, arguments)                                                         \
    type __real_##name parameters;                                                                                     \
    type __wrap_##name parameters;                                                                                     \
    type __wrap_##name parameters                                                                                      \
    {                                                                                                                  \
        return fails(kind, #name) ? (failure) : __real_##name arguments;                                               \
    }

CALL(FAULT_MEMORY, void *, malloc, NULL, (size_t n), (n))
CALL(FAULT_MEMORY, void *, calloc, NULL, (size_t n, size_t size), (n, size))
CALL(FAULT_MEMORY, void *, realloc, NULL, (void *p, size_t n), (p, n))
CALL(FAULT_MEMORY, void *, aligned_alloc, NULL, (size_t align, size_t n), (align, n))
CALL(FAULT_MEMORY, int, posix_memalign, ENOMEM, (void **p, size_t align, size_t n), (p, align, n))
CALL(FAULT_MEMORY, char *, strdup, NULL, (const char *text), (text))
CALL(FAULT_MEMORY, char *, strndup, NULL, (const char *text, size_t n), (text, n))
CALL(FAULT_MEMORY, char *, realpath, NULL, (const char *path, char *to), (path, to))
CALL(FAULT_MEMORY, locale_t, newlocale, (locale_t)0, (int mask, const char *name, locale_t base), (mask, name, base))
CALL(FAULT_MEMORY, void *, mmap, MAP_FAILED, (void *at, size_t n, int protection, int flags, int fd, off_t offset),
     (at, n, protection, flags, fd, offset))
CALL(FAULT_MEMORY, void *, tsearch, NULL, (const void *key, void **root, int (*compare)(const void *, const void *)),
     (key, root, compare))
CALL(FAULT_MEMORY, int, glob, GLOB_NOSPACE,
     (const char *pattern, int flags, int (*error)(const char *, int), glob_t *to), (pattern, flags, error, to))
int __wrap_asprintf(char **text, const char *format, ...);
int __wrap_asprintf(char **text, const char *format, ...)
{
    *text = (char *)(uintptr_t)1; /* undefined after a failure: nobody may free it */
    if (fails(FAULT_MEMORY, "asprintf")) return -1;
    va_list values;
    va_start(values, format);
    int n = vasprintf(text, format, values);
    va_end(values);
    return n;
}

CALL(FAULT_THREAD, int, pthread_create, EAGAIN,
     (pthread_t * thread, const pthread_attr_t *attributes, void *(*run)(void *), void *arg),
     (thread, attributes, run, arg))

CALL(FAULT_IO, int, access, -1, (const char *path, int how), (path, how))
CALL(FAULT_IO, int, stat, -1, (const char *path, struct stat *to), (path, to))
CALL(FAULT_IO, int, lstat, -1, (const char *path, struct stat *to), (path, to))
CALL(FAULT_IO, int, fstat, -1, (int fd, struct stat *to), (fd, to))
CALL(FAULT_IO, int, dup, -1, (int fd), (fd))
CALL(FAULT_IO, int, fallocate, -1, (int fd, int mode, off_t from, off_t n), (fd, mode, from, n))
CALL(FAULT_IO, int, fdatasync, -1, (int fd), (fd))
CALL(FAULT_IO, int, flock, -1, (int fd, int how), (fd, how))
CALL(FAULT_IO, int, fsync, -1, (int fd), (fd))
CALL(FAULT_IO, int, ftruncate, -1, (int fd, off_t n), (fd, n))
CALL(FAULT_IO, int, linkat, -1, (int a, const char *from, int b, const char *to, int flags), (a, from, b, to, flags))
CALL(FAULT_IO, int, madvise, -1, (void *at, size_t n, int advice), (at, n, advice))
CALL(FAULT_IO, int, mkdir, -1, (const char *path, mode_t mode), (path, mode))
CALL(FAULT_IO, int, mkostemp, -1, (char *path, int flags), (path, flags))
CALL(FAULT_IO, int, mkostemps, -1, (char *path, int suffix, int flags), (path, suffix, flags))
CALL(FAULT_IO, int, pipe2, -1, (int *fds, int flags), (fds, flags))
CALL(FAULT_IO, ssize_t, readlink, -1, (const char *path, char *to, size_t cap), (path, to, cap))
CALL(FAULT_IO, int, rename, -1, (const char *from, const char *to), (from, to))
CALL(FAULT_IO, int, unlink, -1, (const char *path), (path))
CALL(FAULT_IO, FILE *, fopen, NULL, (const char *path, const char *mode), (path, mode))
CALL(FAULT_IO, FILE *, fdopen, NULL, (int fd, const char *mode), (fd, mode))

/* A failed close closes. */
int __real_close(int fd), __real_fclose(FILE *file), __wrap_close(int fd), __wrap_fclose(FILE *file);
int __wrap_close(int fd)
{
    bool failed = fails(FAULT_IO, "close");
    int error = errno, rc = __real_close(fd);
    if (failed) errno = error;
    return failed ? -1 : rc;
}
int __wrap_fclose(FILE *file)
{
    bool failed = file != stderr && fails(FAULT_IO, "fclose");
    int rc = __real_fclose(file);
    if (failed) errno = EIO;
    return failed ? EOF : rc;
}

int __real_open(const char *path, int flags, ...), __wrap_open(const char *path, int flags, ...);
int __real_openat(int folder, const char *path, int flags, ...),
    __wrap_openat(int folder, const char *path, int flags, ...);
int __real_fcntl(int fd, int command, ...), __wrap_fcntl(int fd, int command, ...);
#define LAST_ARGUMENT(type, name, after)                                                                               \
    type name;                                                                                                         \
    va_list arguments;                                                                                                 \
    va_start(arguments, after);                                                                                        \
    name = va_arg(arguments, type);                                                                                    \
    va_end(arguments)
int __wrap_open(const char *path, int flags, ...)
{
    LAST_ARGUMENT(mode_t, mode, flags);
    return fails(FAULT_IO, "open") ? -1 : __real_open(path, flags, mode);
}
int __wrap_openat(int folder, const char *path, int flags, ...)
{
    LAST_ARGUMENT(mode_t, mode, flags);
    return fails(FAULT_IO, "openat") ? -1 : __real_openat(folder, path, flags, mode);
}
int __wrap_fcntl(int fd, int command, ...)
{
    LAST_ARGUMENT(long, value, command);
    return fails(FAULT_IO, "fcntl") ? -1 : __real_fcntl(fd, command, value);
}

/* ---- bytes: all of them, half of them, or none ------------------------------------------------------------------ */

static bool cut(int fd, const char *call, size_t *n)
{
    if (fd == STDERR_FILENO) return false;
    if (fails(FAULT_EINTR, call) || fails(FAULT_IO, call)) return true;
    if (*n > 1 && fails(FAULT_SHORT, call)) *n /= 2;
    return false;
}

/* These replace the C library's for libsndfile too; it must not export them twice, so they make the system call. */
ssize_t read(int fd, void *to, size_t n)
{
    return cut(fd, "read", &n) ? -1 : syscall(SYS_read, fd, to, n);
}
ssize_t write(int fd, const void *from, size_t n)
{
    return cut(fd, "write", &n) ? -1 : syscall(SYS_write, fd, from, n);
}
off_t lseek(int fd, off_t offset, int whence)
{
    return fails(FAULT_IO, "lseek") ? -1 : syscall(SYS_lseek, fd, offset, whence);
}
ssize_t __real_pread(int fd, void *to, size_t n, off_t at), __wrap_pread(int fd, void *to, size_t n, off_t at);
ssize_t __wrap_pread(int fd, void *to, size_t n, off_t at)
{
    return cut(fd, "pread", &n) ? -1 : __real_pread(fd, to, n, at);
}
ssize_t __real_pwrite(int fd, const void *from, size_t n, off_t at);
ssize_t __wrap_pwrite(int fd, const void *from, size_t n, off_t at);
ssize_t __wrap_pwrite(int fd, const void *from, size_t n, off_t at)
{
    return cut(fd, "pwrite", &n) ? -1 : __real_pwrite(fd, from, n, at);
}
ssize_t __real_tee(int from, int to, size_t n, unsigned flags), __wrap_tee(int from, int to, size_t n, unsigned flags);
ssize_t __wrap_tee(int from, int to, size_t n, unsigned flags)
{
    return cut(to, "tee", &n) ? -1 : __real_tee(from, to, n, flags);
}

/* ---- streams: a failure sets the error flag of the file --------------------------------------------------------- */

static bool file_fails(FILE *file, const char *call)
{
    if (file == stderr || !fails(FAULT_IO, call)) return false;
    if (file) file->_flags |= 0x20; /* _IO_ERR_SEEN: what ferror looks at */
    return true;
}

#define FILE_CALL(type, name, file, failure, parameters, arguments)                                                    \
    type __real_##name parameters;                                                                                     \
    type __wrap_##name parameters;                                                                                     \
    type __wrap_##name parameters                                                                                      \
    {                                                                                                                  \
        return file_fails(file, #name) ? (failure) : __real_##name arguments;                                          \
    }

FILE_CALL(int, fflush, f, EOF, (FILE * f), (f))
FILE_CALL(char *, fgets, f, NULL, (char *to, int cap, FILE *f), (to, cap, f))
FILE_CALL(int, fputs, f, EOF, (const char *text, FILE *f), (text, f))
FILE_CALL(size_t, fread, f, 0, (void *to, size_t size, size_t n, FILE *f), (to, size, n, f))
FILE_CALL(size_t, fwrite, f, 0, (const void *from, size_t size, size_t n, FILE *f), (from, size, n, f))
FILE_CALL(int, getc, f, EOF, (FILE * f), (f))
FILE_CALL(int, __uflow, f, EOF, (FILE * f), (f)) /* of getc_unlocked */
FILE_CALL(int, putc, f, EOF, (int c, FILE *f), (c, f))
FILE_CALL(int, putchar, stdout, EOF, (int c), (c))
FILE_CALL(int, puts, stdout, EOF, (const char *text), (text))

int __wrap_printf(const char *format, ...), __wrap_fprintf(FILE *file, const char *format, ...);
#define PRINT(name, file)                                                                                              \
    va_list values;                                                                                                    \
    if (file_fails(file, name)) return -1;                                                                             \
    va_start(values, format);                                                                                          \
    int n = vfprintf(file, format, values);                                                                            \
    va_end(values);                                                                                                    \
    return n
int __wrap_printf(const char *format, ...)
{
    PRINT("printf", stdout);
}
int __wrap_fprintf(FILE *file, const char *format, ...)
{
    PRINT("fprintf", file);
}
