/* check - a test program: a list of tests, each named by the promise that it holds the engine to.
 *
 * A test that plays sound runs once for each backend that HC_TEST_BACKEND allows (default: "cpu", "hybrid" and, where
 * there is a device, "cuda"; without one the run on "cuda" is skipped, unless HC_TEST_BACKEND asks for just that, and
 * the tail of "hybrid" is on a thread of the CPU's). One line a result, `ok`, `FAIL` or `skip`, then the backend,
 * `program/test` and the time; tests/run counts these lines. The first check that does not hold ends its test. Exit: 0
 * all well, 1 a test failed, 77 every test was skipped.
 */
#ifndef CHECK_H
#define CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct test {
    const char *name;
    void (*run)(const char *backend); /* backend is "cpu", "cuda", "hybrid", "hybrid:cpu" or "-"                 */
    int plays;                        /* true: run it once a backend; ONCE_A_DEVICE: not where one is made of two */
};
enum { ONCE_A_DEVICE = 2 };

/* The backend that plays files (HC_BLOCK_FILES) where this one does not; itself where it does. */
const char *backend_for_files(const char *backend);

int check_main(const char *program, const struct test *tests, int n);

/* The condition, and a printf line that says what was seen. */
#define check(condition, ...)                                                                                          \
    do {                                                                                                               \
        if (!(condition)) check_failed(__FILE__, __LINE__, #condition, __VA_ARGS__);                                   \
    } while (0)
_Noreturn void check_failed(const char *file, int line, const char *condition, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
_Noreturn void check_skip(const char *why);

/* Under a sanitizer: sizes are cut, allocations are not counted. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

/* Random numbers that are the same on every machine (xorshift64*). */
struct random { uint64_t state; };
struct random random_seeded(uint64_t seed);
uint32_t random_u32(struct random *random);
int random_int(struct random *random, int low, int high); /* low <= result <= high                              */
float random_sample(struct random *random);               /* uniform in -1...1                                  */
float *noise(struct random *random, int n);               /* [n], the caller frees                              */

void *must_alloc(size_t n, size_t size); /* calloc, or the test program ends */

#endif
