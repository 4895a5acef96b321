/* RLIMIT_RTTIME of 200 ms, as RTKit and PipeWire's module-rt set it: overloaded threads with real-time priority rest in
 * time, and the process lives. Each test plays in a child, which has the limit; its first thread is the audio thread,
 * and sleeps itself. */
#include "check.h"
#include "dsp/base/await.h"
#include "dsp/base/priority.h"
#include "dsp/base/realtime_pool.h"
#include "dsp/device/device_queue.h"
#include "dsp/engine/engine.h"
#include "dsp/live/failover.h"
#include "dsp/live/live.h"
#include "faulty_device.h" /* replaces "cuda" */
#include "player.h"
#include "reference.h"

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LIMIT_US = 200000, PRIORITY = 10, N_RESTS = 8, LEAST_MS = 700, PATIENCE_S = 30 };

static void set_limit(rlim_t soft, rlim_t hard)
{
    struct rlimit limit = {soft, hard};
    check(setrlimit(RLIMIT_RTTIME, &limit) == 0, "RLIMIT_RTTIME cannot be set");
}

/* Gives the calling thread real-time priority, once it has prepared what it plays. */
static bool take_priority(void)
{
    struct sched_param param = {.sched_priority = PRIORITY};
    return sched_setscheduler(0, SCHED_FIFO, &param) == 0;
}

/* Plays until the overloaded threads have rested often enough. A call of play lasts less than 50 ms, or rests itself. */
static void play_until_rested(void (*play)(void *data), void *data)
{
    unsigned before = priority_rests();
    double start = now_s();
    take_priority();
    while (priority_rests() - before < N_RESTS || now_s() - start < LEAST_MS * 1e-3) {
        check(now_s() - start < PATIENCE_S, "no overload: the threads rested %u times", priority_rests() - before);
        play(data);
        pause_us(200);
    }
}

/* Runs the test in a child with real-time priority and the limit. */
static void in_child(void (*test)(void), rlim_t soft, rlim_t hard)
{
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        if (!take_priority()) _exit(77);
        sched_setscheduler(0, SCHED_OTHER, &(struct sched_param){0});
        set_limit(soft, hard);
        test();
        _exit(0);
    }
    int status = 0;
    check(waitpid(child, &status, 0) == child, "no child");
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77) check_skip("the system grants no real-time priority");
    check(!WIFSIGNALED(status), "the process was ended by signal %d", WTERMSIG(status));
    check(WEXITSTATUS(status) == 0, "the child failed");
}

/* ---- the pool of the tail levels --------------------------------------------------------------- */

static atomic_int policy_of_pool;

static bool job_of_a_ms(void *data, int thread)
{
    (void)data, (void)thread;
    for (double start = now_s(); now_s() - start < 1e-3;) cpu_relax();
    atomic_store(&policy_of_pool, sched_getscheduler(0));
    return true;
}

static void wake(void *pool)
{
    realtime_pool_wake(pool);
}

static struct realtime_pool *pool_with_work(void)
{
    struct realtime_pool *pool = realtime_pool_open(1, job_of_a_ms, NULL);
    check(pool, "no pool");
    return pool;
}

static void pool(void)
{
    play_until_rested(wake, pool_with_work());
    check(atomic_load(&policy_of_pool) == SCHED_FIFO, "the pool has no real-time priority");
}

static void pool_limited_later(void)
{
    struct realtime_pool *pool = pool_with_work();
    take_priority();
    wake(pool);
    pause_us(300000);
    check(atomic_load(&policy_of_pool) == SCHED_FIFO && priority_rests() == 0, "without a limit it rests");
    set_limit(LIMIT_US, LIMIT_US);
    play_until_rested(wake, pool);
}

/* A limit that is too small for a job: no real-time priority. */
static void pool_with_small_limit(void)
{
    struct realtime_pool *pool = pool_with_work();
    set_limit(PRIORITY_MIN_LIMIT_US, LIMIT_US);
    take_priority();
    wake(pool);
    pause_us(300000);
    check(atomic_load(&policy_of_pool) == SCHED_FIFO, "the smallest limit: policy %d", atomic_load(&policy_of_pool));
    set_limit(PRIORITY_MIN_LIMIT_US - 1, LIMIT_US);
    pause_us(300000);
    check(atomic_load(&policy_of_pool) == SCHED_OTHER, "a small limit: policy %d", atomic_load(&policy_of_pool));
    set_limit(LIMIT_US, LIMIT_US);
    pause_us(300000);
    check(atomic_load(&policy_of_pool) == SCHED_FIFO, "the limit is raised: policy %d", atomic_load(&policy_of_pool));
}

static void an_overloaded_pool_ends_no_process(const char *backend)
{
    in_child(pool, LIMIT_US, LIMIT_US);
}

static void an_overloaded_pool_gets_no_sigxcpu(const char *backend)
{
    in_child(pool, LIMIT_US, RLIM_INFINITY);
}

static void a_limit_set_while_it_plays_is_obeyed(const char *backend)
{
    in_child(pool_limited_later, RLIM_INFINITY, RLIM_INFINITY);
}

static void a_small_limit_takes_real_time_priority(const char *backend)
{
    in_child(pool_with_small_limit, RLIM_INFINITY, RLIM_INFINITY);
}

/* ---- hc_process -------------------------------------------------------------------------------- */

static void process(void *player)
{
    static float x[16][512];
    struct player *p = player;
    const float *in[16];
    float *out[16];
    for (int ch = 0; ch < 16; ch++) in[ch] = out[ch] = x[ch];
    hc_process(p->engine, in, out, 512);
}

/* Long responses: a job, and a call of the audio thread, last longer than the limit. */
static void engine(void)
{
    struct player p;
    struct random r = random_seeded(1);
    hc_config c;
    hc_config_init(&c);
    c.n_in = c.n_out = 16;
    c.block = 512;
    c.max_taps = 2000000;
    c.n_threads = 2;
    player_open(&p, &c, "cpu", 16, 16);
    engine_wait_set(p.engine, 0);
    float *taps = noise(&r, c.max_taps);
    hc_route *routes = must_alloc(256, sizeof *routes);
    for (int i = 0; i < 256; i++) routes[i] = (hc_route){i / 16, i % 16, taps, c.max_taps, 1, 0};
    struct scene s = player_scene(&p, routes, 256);
    hc_mask_swap(p.engine, s.mask);
    play_until_rested(process, &p);
}

static void an_overloaded_engine_ends_no_process(const char *backend)
{
    if (SANITIZED) check_skip("a sanitizer is slow");
    in_child(engine, LIMIT_US, LIMIT_US);
}

/* ---- the device thread ------------------------------------------------------------------------- */

static int play_a_ms(void *data, int64_t block, int n, struct reason *why)
{
    (void)block, (void)n, (void)why;
    job_of_a_ms(data, 0);
    return HC_OK;
}

static void post(void *data)
{
    struct device_queue *q = data;
    while (device_queue_has_capacity(q, 0)) device_queue_post(q, 64, now_us());
}

static void device(void)
{
    const struct device_queue_setup setup = {.n_blocks = DEVICE_QUEUE_MAX, .block = 64, .play = play_a_ms};
    struct device_queue *q = device_queue_open(&setup, NULL);
    check(q, "no queue");
    play_until_rested(post, q);
}

/* The thread spins until the next block, which always comes before it sleeps. */
static void spinning_device(void)
{
    const struct device_queue_setup setup = {
        .n_blocks = DEVICE_QUEUE_MAX, .block = 64, .play = play_a_ms, .spin_us = 25000, .spins = true};
    struct device_queue *q = device_queue_open(&setup, NULL);
    check(q, "no queue");
    play_until_rested(post, q);
}

static void an_overloaded_device_thread_ends_no_process(const char *backend)
{
    in_child(device, LIMIT_US, LIMIT_US);
    in_child(spinning_device, LIMIT_US, LIMIT_US);
}

/* ---- the standby thread ------------------------------------------------------------------------ */

struct standby {
    struct failover *failover;
    struct input_history history;
};

/* The input comes much faster than the standby engine can process it. */
static void feed(void *data)
{
    static float x[64];
    struct standby *s = data;
    const float *in[8], *rows[8];
    uint32_t peak_bits[8] = {0};
    for (int ch = 0; ch < 8; ch++) in[ch] = x;
    for (int i = 0; i < 100; i++) {
        input_history_write(&s->history, in, 0, 64, rows, peak_bits);
        input_history_publish(&s->history, 64);
    }
    failover_wake(s->failover);
}

static void standby(void)
{
    enum { TAPS = 2000, HISTORY = 500000 };
    struct standby s = {0};
    struct random r = random_seeded(2);
    char why[400] = "";
    hc_config config;
    hc_config_init(&config);
    config.block = 64;
    config.n_in = config.n_out = 8;
    config.max_taps = TAPS;
    config.backend = "cuda";
    check(input_history_open(&s.history, 8, HISTORY, 64), "no history");
    check(failover_open(&config, &s.history, NULL, 1e9, &s.failover, REASON(why, sizeof why)) == HC_OK, "%s", why);
    float *taps = noise(&r, TAPS);
    hc_route routes[64];
    for (int i = 0; i < 64; i++) routes[i] = (hc_route){i / 8, i % 8, taps, TAPS, 1, 0};
    check(failover_load(s.failover, routes, 64, NULL, REASON(why, sizeof why)) == HC_OK, "%s", why);
    check(failover_start(s.failover, 0, REASON(why, sizeof why)) == HC_OK, "%s", why);
    play_until_rested(feed, &s);
}

static void an_overloaded_standby_thread_ends_no_process(const char *backend)
{
    in_child(standby, LIMIT_US, LIMIT_US);
}

/* ---- the ready thread -------------------------------------------------------------------------- */

static void process_live(void *live)
{
    static float x[256];
    const float *in = x;
    float *out = x;
    for (int i = 0; i < 300; i++) hc_live_process(live, &in, &out, 256);
}

/* No call waits for anything: a host whose cycles are all late. */
static void process_late(void *live)
{
    for (double start = now_s(); now_s() - start < 1;) process_live(live);
}

/* n masks are kept ready, and the input comes faster than one thread can process it for all of them. */
static void play_masks(int n, void (*play)(void *live))
{
    enum { N = 4, TAPS = 2000 };
    char paths[N][64];
    const char *list[N];
    struct random r = random_seeded(3);
    hc_live_config c;
    hc_live_config_init(&c);
    c.n_in = c.n_out = 1;
    c.rate = 48000;
    c.block = 256;
    c.backend = "cpu";
    for (int i = 0; i < n; i++) {
        snprintf(paths[i], sizeof paths[i], "/tmp/hc_rttime_%d_%d.txt", getpid(), i);
        FILE *file = fopen(list[i] = paths[i], "w");
        check(file, "%s cannot be written", paths[i]);
        for (int k = 0; k < TAPS; k++) fprintf(file, "%g\n", (double)random_sample(&r));
        fclose(file);
    }
    hc_live *live = NULL;
    char why[400] = "";
    check(hc_live_open(&c, &live, why, sizeof why) == HC_OK, "%s", why);
    check(hc_live_keep(live, list, n) == HC_OK, "hc_live_keep");
    hc_live_change change = {.size = sizeof change, .mask = paths[0]};
    check(hc_live_request(live, &change) == HC_OK, "%s was refused", paths[0]);
    take_priority(); /* before the first block: the thread follows what the audio thread has then */
    for (int i = 0; i < 100 || hc_live_has_work(live); i++) {
        process_live(live);
        hc_live_work(live);
        pause_us(200);
    }
    for (int i = 0; i < n; i++) unlink(paths[i]);
    play_until_rested(play, live);
}

static void ready(void)
{
    play_masks(4, process_live);
}

static void late_calls(void)
{
    play_masks(1, process_late);
}

static void an_overloaded_ready_thread_ends_no_process(const char *backend)
{
    in_child(ready, LIMIT_US, LIMIT_US);
}

static void an_audio_thread_without_a_pause_ends_no_process(const char *backend)
{
    in_child(late_calls, LIMIT_US, LIMIT_US);
}

int main(void)
{
    static const struct test tests[] = {
        TEST(an_overloaded_pool_ends_no_process, false),
        TEST(an_overloaded_pool_gets_no_sigxcpu, false),
        TEST(a_limit_set_while_it_plays_is_obeyed, false),
        TEST(a_small_limit_takes_real_time_priority, false),
        TEST(an_overloaded_engine_ends_no_process, false),
        TEST(an_overloaded_device_thread_ends_no_process, false),
        TEST(an_overloaded_standby_thread_ends_no_process, false),
        TEST(an_overloaded_ready_thread_ends_no_process, false),
        TEST(an_audio_thread_without_a_pause_ends_no_process, false),
    };
    return check_main("rttime", tests, sizeof tests / sizeof *tests);
}
