#include "trap.h"

#include <dlfcn.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <semaphore.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static _Thread_local volatile bool armed;         /* volatile: compilers believe that malloc looks at nothing */
static _Thread_local const char *volatile caught; /* the first forbidden call */
static _Thread_local const char *let_by;

#if !SANITIZED /* a sanitizer brings its own malloc and its own locks */
static void note(const char *call)
{
    if (armed && !caught && (!let_by || strcmp(call, let_by) != 0)) caught = call;
}

void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);
void *__libc_memalign(size_t, size_t);
void __libc_free(void *);

void *malloc(size_t n)
{
    return note("malloc"), __libc_malloc(n);
}
void *calloc(size_t n, size_t size)
{
    return note("calloc"), __libc_calloc(n, size);
}
void *realloc(void *p, size_t n)
{
    return note("realloc"), __libc_realloc(p, n);
}
void *memalign(size_t align, size_t n);
void *memalign(size_t align, size_t n)
{
    return note("memalign"), __libc_memalign(align, n);
}
void *aligned_alloc(size_t align, size_t n)
{
    return note("aligned_alloc"), __libc_memalign(align, n);
}
void free(void *p)
{
    note("free"), __libc_free(p);
}
int posix_memalign(void **p, size_t align, size_t n)
{
    note("posix_memalign");
    *p = __libc_memalign(align, n);
    return *p ? 0 : ENOMEM;
}

#define LOCK(name, type)                                                                                               \
    int name(type *lock)                                                                                               \
    {                                                                                                                  \
        static int (*real)(type *);                                                                                    \
        note(#name);                                                                                                   \
        if (!real) *(void **)&real = dlsym(RTLD_NEXT, #name);                                                          \
        return real(lock);                                                                                             \
    }
LOCK(pthread_mutex_lock, pthread_mutex_t)
LOCK(pthread_mutex_trylock, pthread_mutex_t)
LOCK(pthread_mutex_unlock, pthread_mutex_t)
LOCK(pthread_rwlock_rdlock, pthread_rwlock_t)
LOCK(pthread_rwlock_wrlock, pthread_rwlock_t)
LOCK(pthread_cond_signal, pthread_cond_t)
LOCK(pthread_cond_broadcast, pthread_cond_t)
LOCK(sem_post, sem_t)
LOCK(sem_wait, sem_t)
int pthread_spin_lock(pthread_spinlock_t *lock)
{
    note("pthread_spin_lock");
    while (__atomic_test_and_set((void *)lock, __ATOMIC_ACQUIRE)) {}
    return 0;
}
#endif

void trap_let_by(const char *call)
{
    let_by = call;
}

void trap_arm(void)
{
    caught = NULL;
    armed = true;
}

const char *trap_disarm(void)
{
    armed = false;
    return caught;
}

/* Kill at every system call but these. (Strict mode would do, but it also forbids to read the clock without one; on
 * machines that cannot do that, the clock is a system call.) */
static bool forbid_system_calls(void)
{
    bool wakes = let_by && strcmp(let_by, "sem_post") == 0;
    const int allowed[] = {SYS_exit_group, SYS_read, SYS_write, SYS_clock_gettime, wakes ? SYS_futex : SYS_read};
    enum { N = sizeof allowed / sizeof *allowed };
    struct sock_filter filter[2 * N + 2] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
    };
    for (int i = 0; i < N; i++) {
        filter[2 * i + 1] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)allowed[i], 0, 1);
        filter[2 * i + 2] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    }
    filter[2 * N + 1] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    struct sock_fprog program = {2 * N + 2, filter};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

int trap_child(int (*play)(void *), void *arg)
{
    return trap_child_after(NULL, play, arg);
}

int trap_child_after(void (*prepare)(void *), int (*play)(void *), void *arg)
{
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        if (prepare) prepare(arg);
        if (!forbid_system_calls()) syscall(SYS_exit_group, 77);
        syscall(SYS_exit_group, play(arg) ? 1 : 0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77) check_skip("the kernel has no seccomp");
    return WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status);
}
