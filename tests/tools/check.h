/* check - runs the tests of a program: a list of functions, each named by the promise that it checks.
 *
 * A test that plays sound runs once for each backend: "cpu", "cuda" and "hybrid", or the one in HC_TEST_BACKEND.
 * Without a device the run on "cuda" is skipped, or fails if HC_TEST_BACKEND is "cuda"; the tail of "hybrid" then runs
 * on a thread of the CPU. One line a result, `ok`, `FAIL` or `skip`, then the backend,
 * `program/test` and the time; tests/run counts these lines. The first check that does not hold ends its test. A line
 * `again:` below a FAIL is the command that repeats it, with its seed. Exit: 0 all well, 1 a test failed, 77 every test
 * was skipped.
 */
#ifndef CHECK_H
#define CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct test {
    const char *name;
    void (*run)(const char *backend); /* backend is "cpu", "cuda", "hybrid", "hybrid:cpu" or "-"                 */
    int plays;                        /* true: run it for each backend; ONCE_A_DEVICE: but not for "hybrid"       */
};
enum { ONCE_A_DEVICE = 2 };
#define TEST(function, plays) {#function, function, plays}

#pragma GCC diagnostic ignored "-Wunused-parameter" /* not every test needs its backend, nor a callback its data */

/* The backend that plays files (HC_BLOCK_FILES) for this one: "hybrid" itself does not. */
const char *backend_for_files(const char *backend);

int check_main(const char *program, const struct test *tests, int n);

/* The condition, and a printf line with the values that were found. */
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

/* Random numbers that are the same on every machine (xorshift64*). HC_TEST_SEED (0) is added to every seed: 0 gives the
 * numbers that every run has, another number new ones for the whole program. */
struct random { uint64_t state; };
struct random random_seeded(uint64_t seed);
uint64_t test_seed(void);       /* HC_TEST_SEED of this moment                                                */
void test_seed_next(void);      /* adds 1 until the test ends: a long test that draws anew in each round      */
uint32_t random_u32(struct random *random);
int random_int(struct random *random, int low, int high); /* low <= result <= high                              */
float random_sample(struct random *random);               /* uniform in -1...1                                  */
float *noise(struct random *random, int n);               /* [n], the caller frees                              */

void *must_alloc(size_t n, size_t size); /* calloc, or the test program ends                                    */
double now_s(void);                      /* CLOCK_MONOTONIC                                                     */
void pause_us(long us);                  /* sleeps, if no signal comes                                          */
int count_own(const char *folder);       /* entries of a folder in /proc/self: "fd", "task"                     */

#endif
