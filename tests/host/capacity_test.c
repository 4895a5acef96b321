/* haloconv bench capacity judges the engine and not the machine. Time is virtual: calls of the clock, of sleep and of
 * hc_process advance it, so the result is the same on every machine. */
#include "check.h"
#include "dsp/bench.h"
#include "haloconv.h"
#include "host/commands.h"
#include "host/message.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

static const struct scenario {
    const char *name;
    int holds;                  /* channels that the engine plays in 300 us; more take 2000. A block lasts 1333 */
    int late_every, stop_every; /* one wake-up, one hc_process of so many lasts 3 ms longer; 0: none */
    const char *says;
} scenarios[] = {
    {"a calm machine", 130, 0, 0, "128 channels of 10 taps"},
    {"a calm machine", 1, 0, 0, " s without a miss on virtual"},
    {"some late wake-ups", 130, 50, 0, " s without a miss by the engine on virtual"},
    {"some interruptions", 130, 0, 97, "; the system ran this program too late for "},
    {"every wake-up is late", 130, 1, 0, "the system runs this program too late to judge the engine"},
    {"a slow engine", 0, 0, 0, "is more than virtual plays in time"},
    {"a slow engine, late wake-ups", 0, 50, 0, "is more than virtual plays in time"},
};
static const double delay_s = 3e-3;

static const struct scenario *scene;
static double now = 1;
static int n_channels, n_sleeps, n_calls;
static long n_stops;

/* ---- in the place of the C library's calls and the library's ------------------------------------------------------ */

int __wrap_clock_gettime(clockid_t clock, struct timespec *t);
int __wrap_clock_gettime(clockid_t clock, struct timespec *t)
{
    (void)clock;
    now += 1e-6;
    *t = (struct timespec){.tv_sec = (time_t)now, .tv_nsec = (long)((now - (double)(time_t)now) * 1e9)};
    return 0;
}

int __wrap_clock_nanosleep(clockid_t clock, int flags, const struct timespec *until, struct timespec *left);
int __wrap_clock_nanosleep(clockid_t clock, int flags, const struct timespec *until, struct timespec *left)
{
    (void)clock, (void)flags, (void)left;
    double due = (double)until->tv_sec + 1e-9 * (double)until->tv_nsec;
    if (due > now) now = due;
    if (scene->late_every && ++n_sleeps % scene->late_every == 0) now += delay_s;
    return 0;
}

int __wrap_getrusage(int who, struct rusage *usage);
int __wrap_getrusage(int who, struct rusage *usage)
{
    (void)who;
    *usage = (struct rusage){.ru_nivcsw = n_stops};
    return 0;
}

int __wrap_sched_setscheduler(pid_t pid, int policy, const struct sched_param *param);
int __wrap_sched_setscheduler(pid_t pid, int policy, const struct sched_param *param)
{
    (void)pid, (void)policy, (void)param;
    return -1;
}

static char engine;

int __wrap_hc_open(const hc_config *config, hc_engine **e, char *why, size_t cap);
int __wrap_hc_open(const hc_config *config, hc_engine **e, char *why, size_t cap)
{
    (void)why, (void)cap;
    n_channels = config->n_in;
    *e = (hc_engine *)(void *)&engine;
    return HC_OK;
}

int __wrap_hc_close(hc_engine *e);
int __wrap_hc_close(hc_engine *e)
{
    (void)e;
    return HC_OK;
}

int __wrap_hc_get_info(hc_engine *e, hc_info *info);
int __wrap_hc_get_info(hc_engine *e, hc_info *info)
{
    (void)e;
    *info = (hc_info){.size = sizeof *info, .backend = "cpu", .device = "virtual"};
    return HC_OK;
}

int __wrap_hc_plan(const hc_config *config, hc_info *info, char *why, size_t cap);
int __wrap_hc_plan(const hc_config *config, hc_info *info, char *why, size_t cap)
{
    (void)config, (void)why, (void)cap;
    return __wrap_hc_get_info(NULL, info);
}

int __wrap_hc_mask_make_noise(hc_engine *e, int diagonal, int n_taps, int decay, uint64_t seed, hc_mask **mask,
                              char *why, size_t cap);
int __wrap_hc_mask_make_noise(hc_engine *e, int diagonal, int n_taps, int decay, uint64_t seed, hc_mask **mask,
                              char *why, size_t cap)
{
    (void)e, (void)diagonal, (void)n_taps, (void)decay, (void)seed, (void)mask, (void)why, (void)cap;
    return HC_OK;
}

int __wrap_hc_mask_swap(hc_engine *e, hc_mask *mask);
int __wrap_hc_mask_swap(hc_engine *e, hc_mask *mask)
{
    (void)e, (void)mask;
    return HC_OK;
}

int __wrap_hc_process(hc_engine *e, const float *const *in, float *const *out, int n);
int __wrap_hc_process(hc_engine *e, const float *const *in, float *const *out, int n)
{
    (void)e, (void)in, (void)out, (void)n;
    now += n_channels <= scene->holds ? 300e-6 : 2000e-6;
    if (scene->stop_every && ++n_calls % scene->stop_every == 0) now += delay_s, n_stops++;
    return HC_OK;
}

/* ---- the test ------------------------------------------------------------------------------------------------------ */

/* The output of the command; the caller frees it. */
static char *run(const struct scenario *s, const char *json)
{
    char *argv[] = {"capacity", "--which", "channels", "--taps", "10", "--time", "1", (char *)(uintptr_t)json, NULL};
    char *text = NULL;
    size_t bytes = 0;
    FILE *before = stdout;
    scene = s;
    stdout = open_memstream(&text, &bytes);
    check(stdout, "open_memstream");
    int status = bench_capacity_command(json ? 8 : 7, argv);
    fclose(stdout);
    stdout = before;
    check(status == 0, "%s: status %d: %s", s->name, status, text);
    return text;
}

static void the_engine_is_judged_and_not_the_machine(const char *backend)
{
    for (size_t i = 0; i < sizeof scenarios / sizeof *scenarios; i++) {
        const struct scenario *s = &scenarios[i];
        char *text = run(s, NULL), *json = run(s, "--json");
        bool judged = strstr(s->says, "too late to judge") == NULL;
        const char *inputs = strstr(json, "\"inputs\": "), *says = strstr(json, "\"judged\": ");
        check(strstr(text, s->says) && strncmp(text, "0 ", 2) != 0, "%s: says %s", s->name, text);
        check(inputs && says && (strncmp(says + 10, "true", 4) == 0) == judged, "%s: %s", s->name, json);
        int n = atoi(inputs + 10), least = judged ? s->holds - s->holds / 16 : 0;
        check(n >= least && n <= s->holds, "%s: %d channels: %s", s->name, n, json);
        check(n == 0 || strstr(json, "\"blocks\": 750,"), "%s: not all blocks were played: %s", s->name, json);
        free(text);
        free(json);
    }
}

int main(void)
{
    message_set_quiet(true);
    static const struct test tests[] = {TEST(the_engine_is_judged_and_not_the_machine, false)};
    return check_main("capacity", tests, sizeof tests / sizeof *tests);
}
