#include "check.h"
#include "haloconv.h"

#include <dirent.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static jmp_buf leave;
static pid_t owner; /* of `leave` */
static char skip_why[256];

_Noreturn void check_failed(const char *file, int line, const char *condition, const char *format, ...)
{
    va_list args;
    printf("%s:%d: %s\n    ", file, line, condition);
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    printf("\n");
    if (getpid() != owner) { /* a child of a test */
        fflush(stdout);
        _exit(1);
    }
    longjmp(leave, 1);
}

_Noreturn void check_skip(const char *why)
{
    snprintf(skip_why, sizeof skip_why, "%s", why);
    longjmp(leave, 2);
}

double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

void pause_us(long us)
{
    nanosleep(&(struct timespec){.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000}, NULL);
}

void *must_alloc(size_t n, size_t size)
{
    void *p = calloc(n ? n : 1, size);
    if (!p) {
        printf("FAIL -    out of memory in a test\n");
        exit(1);
    }
    return p;
}

static uint64_t seed_asked, seed_now;

__attribute__((constructor)) static void seed_read(void) /* before any thread, and in programs without check_main */
{
    const char *text = getenv("HC_TEST_SEED");
    seed_now = seed_asked = text ? strtoull(text, NULL, 0) : 0;
}

uint64_t test_seed(void)
{
    return seed_now;
}

void test_seed_next(void)
{
    seed_now++;
}

struct random random_seeded(uint64_t seed)
{
    struct random r = {(seed + seed_now) * 0x9E3779B97F4A7C15u + 0x1234567u};
    for (int i = 0; i < 4; i++) random_u32(&r);
    return r;
}

uint32_t random_u32(struct random *r)
{
    r->state ^= r->state >> 12;
    r->state ^= r->state << 25;
    r->state ^= r->state >> 27;
    return (uint32_t)((r->state * 0x2545F4914F6CDD1Du) >> 32);
}

int random_int(struct random *r, int low, int high)
{
    return low + (int)(random_u32(r) % (uint32_t)(high - low + 1));
}

float random_sample(struct random *r)
{
    return (float)((double)random_u32(r) / 2147483647.5 - 1.0);
}

float *noise(struct random *r, int n)
{
    float *x = must_alloc((size_t)n, sizeof *x);
    for (int i = 0; i < n; i++) x[i] = random_sample(r);
    return x;
}

static bool device_opens(char *why, size_t cap)
{
    hc_config c;
    hc_config_init(&c);
    c.backend = "cuda";
    c.max_taps = 64;
    hc_engine *e = NULL;
    bool opens = hc_open(&c, &e, why, cap) == HC_OK;
    hc_close(e);
    return opens;
}

static int n_ok, n_failed;

/* Is `name` one of `names`, which commas separate? */
static bool is_among(const char *names, const char *name)
{
    const size_t n = strlen(name);
    for (const char *at = names; (at = strstr(at, name)); at += n)
        if ((at == names || at[-1] == ',') && (at[n] == ',' || !at[n])) return true;
    return false;
}

/* The name of a backend in a line of results: "emul" for the emulated "cuda". */
static const char *label_of(const char *backend)
{
#ifdef CUDA_ON_CPU
    if (strcmp(backend, "cuda") == 0) return "emul";
#endif
    return backend;
}

/* Says how to repeat a test that failed. */
static void print_again(const struct test *test, const char *backend)
{
    printf("    again: ");
#ifdef CUDA_ON_CPU
    const char *schedule = getenv("CUDA_ON_CPU_SEED");
    printf("CUDA_ON_CPU_SEED=%s ", schedule && *schedule ? schedule : "1");
#endif
    if (test->plays) printf("HC_TEST_BACKEND=%.*s ", (int)strcspn(backend, ":"), backend);
    printf("HC_TEST_SEED=%llu HC_TEST_NAME=%s tests/run %s\n", (unsigned long long)test_seed(), test->name,
           program_invocation_name);
}

/* Not now_s: capacity_test makes the time of clock_gettime virtual. */
static double seconds_of_day(void)
{
    struct timespec t;
    timespec_get(&t, TIME_UTC);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void run_one(const char *program, const struct test *test, const char *backend)
{
    double start = seconds_of_day();
    owner = getpid();
    seed_now = seed_asked;
    int jumped = setjmp(leave);
    if (jumped == 0) test->run(backend);
    const char *word = jumped == 0 ? "ok  " : jumped == 1 ? "FAIL" : "skip";
    if (jumped == 0) n_ok++;
    if (jumped == 1) n_failed++;
    printf("%s %-4s %s/%s  %.0f ms%s%s\n", word, label_of(backend), program, test->name, 1e3 * (seconds_of_day() - start),
           jumped == 2 ? ": " : "", jumped == 2 ? skip_why : "");
    if (jumped == 1) print_again(test, backend);
    fflush(stdout);
}

const char *backend_for_files(const char *backend)
{
    if (strncmp(backend, "hybrid", 6) != 0) return backend;
    return strcmp(backend, "hybrid:cpu") == 0 ? "cpu" : "cuda";
}

/* Is there a CUDA device? */
static bool device_is_there(char *why, size_t cap)
{
    static bool asked, there;
    static char text[256];
    if (!asked) there = device_opens(text, sizeof text);
    asked = true;
    snprintf(why, cap, "%s", text);
    return there;
}

/* Runs a test on the device; without one the test is skipped, or fails if the device is a must. */
static void run_on_device(const char *program, const struct test *test, const char *backend, bool must)
{
    char why[256];
    if (device_is_there(why, sizeof why)) {
        run_one(program, test, backend);
    } else if (must) {
        printf("FAIL %s %s/%s: %s\n", backend, program, test->name, why);
        n_failed++;
    } else {
        printf("skip %s %s/%s: %s\n", backend, program, test->name, why);
    }
}

int count_own(const char *folder)
{
    char path[64];
    int n = 0;
    (void)snprintf(path, sizeof path, "/proc/self/%s", folder);
    DIR *dir = opendir(path);
    check(dir, "%s", path);
    while (readdir(dir)) n++;
    closedir(dir);
    return n;
}

int check_main(const char *program, const struct test *tests, int n)
{
    const char *only = getenv("HC_TEST_BACKEND"); /* "cpu", "cuda", "cuda:launched" or "hybrid" */
    const char *name = getenv("HC_TEST_NAME");    /* these tests only, separated by commas */
    char why[256];
    bool on_cpu = !only || strcmp(only, "cpu") == 0, on_cuda = !only || strncmp(only, "cuda", 4) == 0;
    for (int i = 0; i < n; i++) {
        const struct test *test = &tests[i];
        if (name && !is_among(name, test->name)) continue;
        if (!test->plays) {
            run_one(program, test, "-");
            continue;
        }
        if (on_cpu) run_one(program, test, "cpu");
        if (on_cuda) run_on_device(program, test, only ? only : "cuda", only != NULL);
        if (test->plays == ONCE_A_DEVICE || (only && strcmp(only, "hybrid") != 0)) continue;
        run_one(program, test, device_is_there(why, sizeof why) ? "hybrid" : "hybrid:cpu");
    }
    return n_failed ? 1 : n_ok ? 0 : 77;
}
