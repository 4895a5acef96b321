/* The [rt] calls keep their promise with the default configuration, on every kind of backend: no allocation, no lock,
 * no system call but a wake-up. "cuda" is faulty_device.c here: a device behind the engine's queue.
 *
 * The trap replaces functions of the C library, and so sees every call of this program and of the engine. It checks the
 * audio thread only; the device thread may do anything.
 */
#include "dsp/engine/engine.h"
#include "faulty_device.h"
#include "haloconv_scenes.h"
#include "player.h"
#include "trap.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct rt_play { /* an engine in full use: two masks, odd calls, NaN, a swap every few calls, two steered sources */
    struct player p;
    struct scene a, b;
    float *taps;
    hc_bank *bank;
};

enum { ENTRIES = 5 };

static void rt_bank_make(struct rt_play *s, int n_taps)
{
    const float *taps[2 * ENTRIES];
    for (int i = 0; i < 2 * ENTRIES; i++) taps[i] = s->taps;
    hc_bank_data data = {.size = sizeof data, .n_entries = ENTRIES, .n_out = 2, .n_taps = n_taps, .taps = taps};
    char why[256] = "";
    check(hc_bank_make(s->p.engine, &data, &s->bank, why, sizeof why) == HC_OK, "%s", why);
}

static void rt_play_open(struct rt_play *s, const char *backend, const char *method, int block, int max_taps,
                         int n_threads)
{
    hc_config c;
    hc_config_init(&c);
    c.method = method;
    c.block = block;
    c.max_taps = max_taps;
    c.fade_frames = 300;
    c.n_threads = n_threads;
    c.n_sources = 2;
    /* The tail of sources has threads, which the audio thread wakes; with n_threads 1 it has none. */
    int bank_taps = n_threads > 0 || strcmp(backend, "cpu") != 0 ? 4000 : 500;
    c.bank_taps = max_taps < bank_taps ? max_taps : bank_taps;
    struct random r = random_seeded(1);
    s->taps = noise(&r, max_taps);
    player_open(&s->p, &c, backend, 1, 2);
    engine_wait_set(s->p.engine, c.wait_us); /* the player asks to wait; this engine has the default */
    hc_route *routes = must_alloc(5, sizeof *routes);
    for (int i = 0; i < 4; i++) routes[i] = (hc_route){i / 2, i % 2, s->taps, max_taps, 1, 0};
    routes[4] = (hc_route){0, 1, s->taps, max_taps / 2 + 1, 1, 0};
    s->a = player_scene(&s->p, routes, 4);
    s->b = player_scene(&s->p, routes + 4, 1);
    free(routes);
    rt_bank_make(s, c.bank_taps);
}

static void rt_play_close(struct rt_play *s)
{
    player_close(&s->p);
    hc_bank_free(s->bank);
    free(s->taps);
}

/* Makes every [rt] call many times. The code between them does nothing forbidden. */
static int rt_play_calls(struct rt_play *s, int calls)
{
    static float left[4096], right[4096];
    struct random r = random_seeded(3);
    int bad = 0, block = s->p.info.block;
    for (int i = 0; i < calls; i++) {
        if (i % 7 == 0) bad += hc_mask_swap(s->p.engine, i % 14 ? s->a.mask : i % 35 ? s->b.mask : NULL) != HC_OK;
        int entry[HC_MAX_MIX], n_entries = random_int(&r, 0, HC_MAX_MIX);
        for (int k = 0; k < n_entries; k++) entry[k] = random_int(&r, 0, ENTRIES - 1);
        bad += hc_steer(s->p.engine, i % 2, s->bank, entry, NULL, n_entries) != HC_OK;
        bad += hc_steer(s->p.engine, 2, s->bank, entry, NULL, n_entries) != HC_EINVAL;
        int n = i % 3 ? random_int(&r, 0, block) : block;
        for (int j = 0; j < n; j++) left[j] = right[j] = random_sample(&r);
        if (n && i % 11 == 0) memset(&left[n / 2], 0xff, sizeof *left); /* a NaN */
        const float *in[] = {left, right};
        float *out[] = {left, right};
        int code = hc_process(s->p.engine, in, out, n);
        bad += code != HC_OK && code != HC_LATE; /* played without a pause, a tail may lag behind */
        bad += hc_process(s->p.engine, in, out, -1) != HC_EINVAL;
    }
    return bad;
}

static const struct {
    const char *method;
    int block, max_taps;
} stages[] = {{"direct", 64, 500}, {"fft", 64, 5000}, {"fft", 1000, 48000}, {"auto", 512, 20000}, {"auto", 1, 300}};

enum { N_BACKENDS = 3 };
static const char *const backends[N_BACKENDS] = {"cpu", "hybrid:cpu", "cuda"};
static const char *const wakes[N_BACKENDS] = {NULL, "sem_post", "sem_post"};

static void no_allocation_and_no_lock(int b, int n_threads)
{
    trap_let_by(wakes[b]);
    for (size_t i = 0; i < sizeof stages / sizeof *stages; i++) {
        struct rt_play s;
        rt_play_open(&s, backends[b], stages[i].method, stages[i].block, stages[i].max_taps, n_threads);
        trap_arm();
        int bad = rt_play_calls(&s, 500);
        hc_config c;
        hc_config_init(&c);
        const char *caught = trap_disarm();
        check(bad == 0, "%d calls went wrong", bad);
        check(!caught, "%s %s, block %d, %d taps: an [rt] call reached %s", backends[b], stages[i].method,
              stages[i].block, stages[i].max_taps, caught);
        rt_play_close(&s);
    }
    trap_let_by(NULL);
}

static void calls_allocate_nothing_and_take_no_lock(const char *backend)
{
    if (SANITIZED) check_skip("a sanitizer brings its own malloc");
    for (int b = 0; b < N_BACKENDS; b++) no_allocation_and_no_lock(b, 0);
    no_allocation_and_no_lock(0, 1);
}

/* The trap itself must catch each forbidden call. */
static void the_trap_catches(const char *backend)
{
    if (SANITIZED) check_skip("a sanitizer brings its own malloc");
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    void *volatile p;
    trap_arm();
    p = malloc(10);
    const char *caught = trap_disarm();
    free(p);
    check(caught && strcmp(caught, "malloc") == 0, "malloc went by unseen");
    trap_arm();
    pthread_mutex_lock(&lock);
    caught = trap_disarm();
    pthread_mutex_unlock(&lock);
    check(caught && strcmp(caught, "pthread_mutex_lock") == 0, "a lock went by unseen");
}

static int play_300(void *stage)
{
    return rt_play_calls(stage, 300);
}

static int play_and_ask_the_kernel(void *stage)
{
    int bad = rt_play_calls(stage, 300);
    getppid();
    return bad;
}

/* With worker threads, the audio thread wakes them and makes no other system call. */
static void calls_with_threads_only_wake_them(const char *backend)
{
    if (SANITIZED) check_skip("a sanitizer brings its own malloc");
    for (int twice = 0; twice < 2; twice++) { /* the trap sees the wake-ups, or there would be no threads */
        struct rt_play s;
        rt_play_open(&s, "cpu", "auto", 64, 48000, 3);
        check(s.p.info.n_levels > 1, "the plan has no tail levels");
        trap_let_by(twice ? "sem_post" : NULL);
        trap_arm();
        int bad = rt_play_calls(&s, 3000);
        const char *caught = trap_disarm();
        trap_let_by(NULL);
        check(bad == 0, "%d calls went wrong", bad);
        check(twice ? !caught : caught && strcmp(caught, "sem_post") == 0, "an [rt] call reached %s",
              caught ? caught : "no wake-up");
        rt_play_close(&s);
    }
}

static void calls_make_no_system_call(const char *backend)
{
    if (SANITIZED) check_skip("a sanitizer makes system calls of its own");
    enum { N = sizeof stages / sizeof *stages };
    for (int k = 0; k < 2 * N; k++) { /* by default, and with one thread */
        struct rt_play s;
        int i = k / 2;
        rt_play_open(&s, "cpu", stages[i].method, stages[i].block, stages[i].max_taps, k % 2);
        int fate = trap_child(play_300, &s);
        check(fate == 0, "%s, block %d, %d taps: %s", stages[i].method, stages[i].block, stages[i].max_taps,
              fate == SIGSYS ? "an [rt] call made a system call" : "a call went wrong");
        if (k == 0) check(trap_child(play_and_ask_the_kernel, &s) == SIGSYS, "the trap lets getppid by");
        rt_play_close(&s);
    }
}

/* The only system call is the wake-up. */
static struct rt_play in_child;

struct choice {
    int stage, backend;
};

static void open_and_play(void *data)
{
    const struct choice *c = data;
    rt_play_open(&in_child, backends[c->backend], stages[c->stage].method, stages[c->stage].block,
                 stages[c->stage].max_taps, 0);
    rt_play_calls(&in_child, 600);
}

static int play_on(void *unused)
{
    return rt_play_calls(&in_child, 300);
}

static void calls_make_no_system_call_but_a_wake_up(const char *backend)
{
    if (SANITIZED) check_skip("a sanitizer makes system calls of its own");
    for (int i = 0; i < 6; i++) {
        struct choice c = {1 + i % 3, 1 + i / 3}; /* the stages with a tail */
        trap_let_by("sem_post");
        int fate = trap_child_after(open_and_play, play_on, &c);
        trap_let_by(NULL);
        check(fate == 0, "%s %s, block %d, %d taps: %s", backends[c.backend], stages[c.stage].method,
              stages[c.stage].block, stages[c.stage].max_taps,
              fate == SIGSYS ? "an [rt] call made a system call" : "a call went wrong");
    }
}

/* The device thread's priority is one below the audio thread's, whatever the priority of the thread that called
 * hc_open. */
static void the_device_thread_follows_the_audio_threads_priority(const char *backend)
{
    static const char *const devices[] = {"cuda", "hybrid"};
    enum { PRIORITY = 12 };
    for (int d = 0; d < 4; d++) {
        struct rt_play s;
        struct sched_param param = {.sched_priority = PRIORITY};
        int flag = d < 2 ? 0 : SCHED_RESET_ON_FORK; /* rtkit gives priorities with it */
        rt_play_open(&s, devices[d % 2], "auto", 64, 5000, 0);
        engine_wait_set(s.p.engine, -1);
        if (sched_setscheduler(0, SCHED_FIFO | flag, &param) != 0) {
            rt_play_close(&s);
            check_skip("the system grants no real-time priority");
        }
        int bad = rt_play_calls(&s, 50), tid = atomic_load(&faulty_record.thread);
        int policy = sched_getscheduler(tid);
        sched_getparam(tid, &param);
        sched_setscheduler(0, SCHED_OTHER, &(struct sched_param){0});
        rt_play_close(&s);
        check(bad == 0, "%d calls went wrong", bad);
        check(policy == SCHED_FIFO && param.sched_priority == PRIORITY - 1,
              "%s: policy %d, priority %d, want %d and %d", devices[d % 2], policy, param.sched_priority, SCHED_FIFO,
              PRIORITY - 1);
    }
}

/* At a moderate load no call takes longer than one audio block at 48 kHz. A busy machine can take the processor away,
 * so one good run of three is enough. */
static void calls_keep_up_with_the_clock(const char *backend)
{
    if (SANITIZED) check_skip("a sanitizer is slow");
    double worst_best = 1e9;
    for (int run = 0; run < 3; run++) {
        struct rt_play s;
        rt_play_open(&s, "cpu", "auto", 256, 96000, 0);
        hc_mask_swap(s.p.engine, s.a.mask);
        static float left[256], right[256];
        const float *in[] = {left, right};
        float *out[] = {left, right};
        double total = 0;
        for (int i = 0; i < 400; i++) {
            for (int j = 0; j < 256; j++) left[j] = right[j] = 0.1f;
            double start = now_s();
            hc_process(s.p.engine, in, out, 256);
            total += now_s() - start;
        }
        if (total < worst_best) worst_best = total;
        rt_play_close(&s);
    }
    check(worst_best < 400 * 256 / 48000.0, "400 blocks of 256 frames took %.3f s of %.3f s", worst_best,
          400 * 256 / 48000.0);
}

int main(void)
{
    static const struct test tests[] = {
        TEST(the_trap_catches, false),
        /* Runs in child processes, which can use a GPU only as long as this process has not. */
        TEST(calls_make_no_system_call_but_a_wake_up, false),
        TEST(calls_allocate_nothing_and_take_no_lock, false),
        TEST(calls_with_threads_only_wake_them, false),
        TEST(calls_make_no_system_call, false),
        TEST(the_device_thread_follows_the_audio_threads_priority, false),
        TEST(calls_keep_up_with_the_clock, false),
    };
    return check_main("realtime", tests, sizeof tests / sizeof *tests);
}
