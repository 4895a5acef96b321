#include "check.h"
#include "haloconv.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static jmp_buf leave;
static char skip_why[256];

_Noreturn void check_failed(const char *file, int line, const char *condition, const char *format, ...)
{
    va_list args;
    printf("%s:%d: %s\n    ", file, line, condition);
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    printf("\n");
    longjmp(leave, 1);
}

_Noreturn void check_skip(const char *why)
{
    snprintf(skip_why, sizeof skip_why, "%s", why);
    longjmp(leave, 2);
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

struct random random_seeded(uint64_t seed)
{
    struct random r = {seed * 0x9E3779B97F4A7C15u + 0x1234567u};
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

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static int n_ok, n_failed;

static void run_one(const char *program, const struct test *test, const char *backend)
{
    double start = now_ms();
    int jumped = setjmp(leave);
    if (jumped == 0) test->run(backend);
    const char *word = jumped == 0 ? "ok  " : jumped == 1 ? "FAIL" : "skip";
    if (jumped == 0) n_ok++;
    if (jumped == 1) n_failed++;
    printf("%s %-4s %s/%s  %.0f ms%s%s\n", word, backend, program, test->name, now_ms() - start,
           jumped == 2 ? ": " : "", jumped == 2 ? skip_why : "");
    fflush(stdout);
}

int check_main(const char *program, const struct test *tests, int n)
{
    const char *only = getenv("HC_TEST_BACKEND"); /* "cpu" or "cuda" */
    const char *name = getenv("HC_TEST_NAME");    /* one test, while hunting a fault */
    char why[256] = "";
    bool cpu = !only || strcmp(only, "cuda") != 0;
    bool cuda = !only || strcmp(only, "cpu") != 0;
    bool device = false, asked = false;
    for (int i = 0; i < n; i++) {
        if (name && strcmp(name, tests[i].name) != 0) continue;
        if (!tests[i].plays) {
            run_one(program, &tests[i], "-");
            continue;
        }
        if (cpu) run_one(program, &tests[i], "cpu");
        if (!cuda) continue;
        if (!asked) device = device_opens(why, sizeof why);
        asked = true;
        if (device) {
            run_one(program, &tests[i], "cuda");
        } else if (only) {
            printf("FAIL cuda %s/%s: %s\n", program, tests[i].name, why);
            n_failed++;
        } else {
            printf("skip cuda %s/%s: %s\n", program, tests[i].name, why);
        }
    }
    return n_failed ? 1 : n_ok ? 0 : 77;
}
