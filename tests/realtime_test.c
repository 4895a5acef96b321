/* The [rt] calls keep their promise on the CPU: no allocation, no lock, no system call.
 *
 * The counting functions below stand in front of the C library's: every call of this program, of the engine and of FFTW
 * lands here. System calls are watched by the kernel: in a child under seccomp's strict mode any but read, write and
 * exit kills. (The CUDA backend's worker makes system calls of its own, so these tests are the CPU's.)
 */
#include "player.h"

#include <dlfcn.h>
#include <errno.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static _Thread_local volatile bool armed;         /* volatile: compilers believe that malloc looks at nothing */
static _Thread_local const char *volatile caught; /* the first forbidden call */

#if !SANITIZED /* a sanitizer brings its own malloc and its own locks */
static void note(const char *call)
{
    if (armed && !caught) caught = call;
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

struct stage { /* an engine in full swing: two masks, odd calls, NaN, a swap every few calls */
    struct player p;
    struct scene a, b;
    float *taps;
};

static void stage_open(struct stage *s, const char *method, int block, int max_taps)
{
    hc_config c;
    hc_config_init(&c);
    c.method = method;
    c.block = block;
    c.max_taps = max_taps;
    c.fade_frames = 300;
    struct random r = random_seeded(1);
    s->taps = noise(&r, max_taps);
    player_open(&s->p, &c, "cpu", 1, 2);
    hc_route *routes = must_alloc(5, sizeof *routes);
    for (int i = 0; i < 4; i++) routes[i] = (hc_route){i / 2, i % 2, s->taps, max_taps, 1, 0};
    routes[4] = (hc_route){0, 1, s->taps, max_taps / 2 + 1, 1, 0};
    s->a = player_scene(&s->p, routes, 4);
    s->b = player_scene(&s->p, routes + 4, 1);
    free(routes);
}

static void stage_close(struct stage *s)
{
    player_close(&s->p);
    free(s->taps);
}

/* Every [rt] call, many times; nothing here but the engine may do what is forbidden. */
static int stage_play(struct stage *s, int calls)
{
    static float left[4096], right[4096];
    struct random r = random_seeded(3);
    int bad = 0, block = s->p.info.block;
    for (int i = 0; i < calls; i++) {
        if (i % 7 == 0) bad += hc_mask_swap(s->p.engine, i % 14 ? s->a.mask : i % 35 ? s->b.mask : NULL) != HC_OK;
        int n = i % 3 ? random_int(&r, 0, block) : block;
        for (int j = 0; j < n; j++) left[j] = right[j] = random_sample(&r);
        if (n && i % 11 == 0) memset(&left[n / 2], 0xff, sizeof *left); /* a NaN */
        const float *in[] = {left, right};
        float *out[] = {left, right};
        bad += hc_process(s->p.engine, in, out, n) != HC_OK;
        bad += hc_process(s->p.engine, in, out, -1) != HC_EINVAL;
        bad += hc_latency(s->p.engine) != 0;
    }
    return bad;
}

static const struct {
    const char *method;
    int block, max_taps;
} stages[] = {{"direct", 64, 500}, {"fft", 64, 5000}, {"fft", 1000, 48000}, {"auto", 512, 20000}, {"auto", 1, 300}};

static void calls_allocate_nothing_and_take_no_lock(const char *backend)
{
    (void)backend;
    if (SANITIZED) check_skip("a sanitizer brings its own malloc");
    for (size_t i = 0; i < sizeof stages / sizeof *stages; i++) {
        struct stage s;
        stage_open(&s, stages[i].method, stages[i].block, stages[i].max_taps);
        caught = NULL;
        armed = true;
        int bad = stage_play(&s, 500);
        hc_config c;
        hc_config_init(&c);
        armed = false;
        check(bad == 0, "%d calls went wrong", bad);
        check(!caught, "%s, block %d, %d taps: an [rt] call reached %s", stages[i].method, stages[i].block,
              stages[i].max_taps, caught);
        stage_close(&s);
    }
}

/* The trap itself: it must catch what it is there for. */
static void the_trap_catches(const char *backend)
{
    (void)backend;
    if (SANITIZED) check_skip("a sanitizer brings its own malloc");
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    void *volatile p;
    caught = NULL;
    armed = true;
    p = malloc(10);
    armed = false;
    free(p);
    check(caught && strcmp(caught, "malloc") == 0, "malloc went by unseen");
    caught = NULL;
    armed = true;
    pthread_mutex_lock(&lock);
    armed = false;
    pthread_mutex_unlock(&lock);
    check(caught && strcmp(caught, "pthread_mutex_lock") == 0, "a lock went by unseen");
}

/* The child's fate under seccomp: 0, or the signal that ended it. */
static int under_seccomp(struct stage *s, bool break_it)
{
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) != 0) syscall(SYS_exit, 77);
        int bad = stage_play(s, 300);
        if (break_it) getppid();
        syscall(SYS_exit, bad ? 1 : 0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77) check_skip("the kernel has no seccomp");
    return WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
}

static void calls_make_no_system_call(const char *backend)
{
    (void)backend;
    if (SANITIZED) check_skip("a sanitizer makes system calls of its own");
    for (size_t i = 0; i < sizeof stages / sizeof *stages; i++) {
        struct stage s;
        stage_open(&s, stages[i].method, stages[i].block, stages[i].max_taps);
        int fate = under_seccomp(&s, false);
        check(fate == 0, "%s, block %d, %d taps: %s", stages[i].method, stages[i].block, stages[i].max_taps,
              fate == SIGKILL ? "an [rt] call made a system call" : "a call went wrong");
        if (i == 0) check(under_seccomp(&s, true) == SIGKILL, "the trap lets getppid by");
        stage_close(&s);
    }
}

/* What it leaves in one audio block's time at 48 kHz: no call of a fair load may take a block. A busy machine can steal
 * the processor, so one good run of three is enough. */
static void calls_keep_up_with_the_clock(const char *backend)
{
    (void)backend;
    if (SANITIZED) check_skip("a sanitizer is slow");
    double worst_best = 1e9;
    for (int run = 0; run < 3; run++) {
        struct stage s;
        stage_open(&s, "auto", 256, 96000);
        hc_mask_swap(s.p.engine, s.a.mask);
        static float left[256], right[256];
        const float *in[] = {left, right};
        float *out[] = {left, right};
        double total = 0;
        for (int i = 0; i < 400; i++) {
            struct timespec t0, t1;
            for (int j = 0; j < 256; j++) left[j] = right[j] = 0.1f;
            clock_gettime(CLOCK_MONOTONIC, &t0);
            hc_process(s.p.engine, in, out, 256);
            clock_gettime(CLOCK_MONOTONIC, &t1);
            total += (double)(t1.tv_sec - t0.tv_sec) + (double)(t1.tv_nsec - t0.tv_nsec) * 1e-9;
        }
        if (total < worst_best) worst_best = total;
        stage_close(&s);
    }
    check(worst_best < 400 * 256 / 48000.0, "400 blocks of 256 frames took %.3f s of %.3f s", worst_best,
          400 * 256 / 48000.0);
}

int main(void)
{
    static const struct test tests[] = {
        {"the_trap_catches", the_trap_catches, false},
        {"calls_allocate_nothing_and_take_no_lock", calls_allocate_nothing_and_take_no_lock, false},
        {"calls_make_no_system_call", calls_make_no_system_call, false},
        {"calls_keep_up_with_the_clock", calls_keep_up_with_the_clock, false},
    };
    return check_main("realtime", tests, sizeof tests / sizeof *tests);
}
