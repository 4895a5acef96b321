/* A host program that also uses FFTW: the library leaves the host's wisdom, time limit and planner alone. */
#include "check.h"
#include "haloconv.h"

#include <fftw3.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* Replaces FFTW's own: a call of the library, if it uses the host's FFTW, comes here. */
static double limit_s = FFTW_NO_TIMELIMIT;
void fftwf_set_timelimit(double s)
{
    limit_s = s;
}

static void open_and_close(int block)
{
    hc_config c;
    hc_engine *engine;
    char why[256];
    hc_config_init(&c);
    c.backend = "cpu";
    c.method = "fft";
    c.block = block;
    c.max_taps = 20000;
    check(hc_open(&c, &engine, why, sizeof why) == HC_OK, "no engine: %s", why);
    hc_close(engine);
}

static void host_plan(int n, unsigned effort)
{
    float *x = fftwf_alloc_real((size_t)n + 2);
    fftwf_plan plan = fftwf_plan_dft_r2c_1d(n, x, (fftwf_complex *)x, effort);
    check(plan, "FFTW makes no plan of %d", n);
    fftwf_destroy_plan(plan);
    fftwf_free(x);
}

static void the_hosts_wisdom_is_its_own(const char *unused)
{
#ifndef HC_FFTW_PRIVATE
    check_skip("there was no archive of FFTW: the library shares the host's");
#endif
    host_plan(240, FFTW_MEASURE);
    char *before = fftwf_export_wisdom_to_string();
    open_and_close(64);
    open_and_close(512);
    char *after = fftwf_export_wisdom_to_string();
    check(before && after && strstr(before, "fftwf_wisdom"), "no wisdom");
    check(strcmp(before, after) == 0, "%zu bytes of wisdom became %zu", strlen(before), strlen(after));
    free(before);
    free(after);
}

static void the_hosts_time_limit_is_its_own(const char *unused)
{
    open_and_close(64);
    check(limit_s == FFTW_NO_TIMELIMIT, "the limit is %g s now", limit_s);
}

static atomic_bool ends;
static void *plan_until_the_end(void *unused)
{
    for (int n = 16; !atomic_load(&ends); n = n % 500 + 2) host_plan(n, FFTW_MEASURE);
    return unused;
}

static void plans_are_made_in_parallel_with_the_library(const char *unused)
{
#if !defined(HC_FFTW_PRIVATE) && !defined(HC_FFTW_THREADS)
    check_skip("there was neither an archive of FFTW nor FFTW with threads");
#endif
    pthread_t thread;
    check(pthread_create(&thread, NULL, plan_until_the_end, NULL) == 0, "no thread");
    for (int i = 0; i < 40; i++) open_and_close(16 << i % 7);
    atomic_store(&ends, true);
    pthread_join(thread, NULL);
}

int main(void)
{
    static const struct test tests[] = {
        TEST(the_hosts_wisdom_is_its_own, false),
        TEST(the_hosts_time_limit_is_its_own, false),
        TEST(plans_are_made_in_parallel_with_the_library, false),
    };
    return check_main("fftw_host", tests, sizeof tests / sizeof *tests);
}
