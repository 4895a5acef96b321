/* Memory runs out: hc_open and hc_mask_make return HC_ENOMEM, and no other call makes tables of a transform. tests.mk
 * sends the allocations of the library, and fft_get, to the functions below. */
#include "check.h"
#include "haloconv.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BLOCK = 1024, TAPS = 5000, ALLOCATIONS = 1 << 20, FEWEST = 24 };

static atomic_int n_allocations, first_to_fail = ALLOCATIONS, last_to_fail = ALLOCATIONS, n_tables;

static bool fails(void)
{
    int i = atomic_fetch_add(&n_allocations, 1);
    return i >= atomic_load(&first_to_fail) && i <= atomic_load(&last_to_fail);
}

#define WRAPPED(type, name, given, passed)                                                                             \
    type __real_##name given;                                                                                          \
    type __wrap_##name given;                                                                                          \
    type __wrap_##name given                                                                                           \
    {                                                                                                                  \
        if (fails()) return errno = ENOMEM, NULL;                                                                      \
        return __real_##name passed;                                                                                   \
    }
WRAPPED(void *, malloc, (size_t n), (n))
WRAPPED(void *, calloc, (size_t n, size_t size), (n, size))
WRAPPED(void *, realloc, (void *p, size_t n), (p, n))
WRAPPED(void *, aligned_alloc, (size_t align, size_t n), (align, n))

int __real_posix_memalign(void **p, size_t align, size_t n);
int __wrap_posix_memalign(void **p, size_t align, size_t n);
int __wrap_posix_memalign(void **p, size_t align, size_t n)
{
    return fails() ? ENOMEM : __real_posix_memalign(p, align, n);
}

const struct fft *__real_fft_get(int size);
const struct fft *__wrap_fft_get(int size);
const struct fft *__wrap_fft_get(int size)
{
    atomic_fetch_add(&n_tables, 1);
    return __real_fft_get(size);
}

static hc_config config_of(const char *backend, int block)
{
    hc_config c;
    hc_config_init(&c);
    c.backend = backend;
    c.method = "fft";
    c.block = block;
    c.max_taps = TAPS;
    c.wait_us = HC_WAIT_FOREVER;
    c.n_threads = 2;
    return c;
}

/* Opens an engine, makes a mask and plays. Returns the first error; 100: an error without a text. */
static int session(const char *backend, int block)
{
    static float taps[TAPS] = {1}, frames[2][BLOCK];
    const hc_route route = {0, 1, taps, TAPS, 1, 0};
    const float *in[] = {frames[0], frames[1]};
    float *out[] = {frames[0], frames[1]};
    hc_config c = config_of(backend, block);
    hc_engine *e = NULL;
    hc_mask *mask = NULL;
    char why[256] = "";
    int error = hc_open(&c, &e, why, sizeof why), before = atomic_load(&n_tables);
    if (!error) error = hc_mask_make(e, &route, sizeof route, 1, &mask, why, sizeof why);
    if (error ? !why[0] || mask : !mask) return 100;
    for (int i = 0; i < 20 && !error; i++) {
        if (i % 5 == 0) hc_mask_swap(e, i % 10 ? NULL : mask);
        if (i == 15) hc_reset(e);
        error = hc_process(e, in, out, BLOCK);
    }
    if (atomic_load(&n_tables) != before) error = 101;
    hc_mask_free(e, mask);
    hc_close(e);
    return error;
}

/* The status of a child process whose allocations [first, last] fail. 0: it made fewer allocations, 1: it played on, 2:
 * HC_ENOMEM; others are faults. *more: it came to allocation `first`. */
static int status_of(const char *backend, int block, int first, int last, bool *more)
{
    int status = -1;
    pid_t child = fork();
    if (child == 0) {
        setrlimit(RLIMIT_CORE, &(struct rlimit){0});
        atomic_store(&n_allocations, 0);
        atomic_store(&first_to_fail, first);
        atomic_store(&last_to_fail, last);
        int error = session(backend, block);
        int n = atomic_load(&n_allocations);
        atomic_store(&first_to_fail, ALLOCATIONS);
        _exit(error == HC_OK ? (n > first ? 1 : 0) : error == HC_ENOMEM ? 2 : error > 0 ? error : 102);
    }
    check(child > 0 && waitpid(child, &status, 0) == child, "no child process");
    *more = !WIFEXITED(status) || WEXITSTATUS(status) != 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 200 + WTERMSIG(status);
}

static const struct {
    const char *backend;
    int block;
} engines[] = {{"cpu", BLOCK}, {"cpu", HC_BLOCK_FILES}, {"hybrid:cpu", BLOCK}};
enum { N_ENGINES = sizeof engines / sizeof *engines };

static void lack_of_memory_is_an_error(const char *unused)
{
    for (int i = 0; i < 2 * N_ENGINES; i++) {
        const bool one = i % 2; /* this allocation fails; else all later ones too */
        const char *backend = engines[i / 2].backend, *later = one ? "" : " and all later ones";
        int block = engines[i / 2].block, first = 0;
        bool more = true;
        for (; more && first < ALLOCATIONS; first++) {
            int status = status_of(backend, block, first, one ? first : ALLOCATIONS, &more);
            check(status <= 2, "%s, block %d, allocation %d%s: status %d", backend, block, first, later, status);
        }
        check(first > FEWEST, "%s, block %d: %d allocations", backend, block, first);
    }
}

static void tables_are_made_in_hc_open(const char *unused)
{
    for (int i = 0; i < N_ENGINES; i++) {
        int before = atomic_load(&n_tables), error = session(engines[i].backend, engines[i].block);
        check(error == HC_OK, "%s: %d", engines[i].backend, error);
        check(atomic_load(&n_tables) > before, "%s: no tables", engines[i].backend);
    }
}

int main(void)
{
    static const struct test tests[] = {
        TEST(lack_of_memory_is_an_error, false),
        TEST(tables_are_made_in_hc_open, false),
    };
    return check_main("no_memory", tests, sizeof tests / sizeof *tests);
}
