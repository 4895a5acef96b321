/* The resident kernel (kernels/resident/resident.h): it stays while blocks come, and nothing hangs behind it. */
#include "check.h"
#include "dsp/base/await.h"
#include "dsp/engine/closing.h"
#include "dsp/engine/engine.h"
#include "dsp/live/failover.h"
#include "haloconv.h"
#include "haloconv_live.h"
#include "player.h"

#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { BLOCK = 64, TAPS = 500, FRAMES = 1 << 16, SECOND_US = 1000000 };
enum { WIDE = 12 }; /* outputs of an engine of three workers */
enum { SHORT_US = 50000, SLACK_US = 400000 }; /* wait for a device with a fault; a busy machine may stop the test */
#ifdef CUDA_ON_CPU
enum {
    SLOWER = 10,
    N_ENGINES = 4,
    LONG_S = 10,
    WAIT_US = 900000
}; /* the emulated device has the multiprocessors for 8 */
#else
enum { SLOWER = 1, N_ENGINES = 20, LONG_S = 2, WAIT_US = 500000 };
#endif

/* An engine of one channel whose response is 1 at frame 0 and 0.5 at frame TAPS - 1. */
struct echo {
    hc_engine *engine;
    int64_t at; /* frames played */
    float in[FRAMES], out[FRAMES];
};

static void echo_open(struct echo *echo, int wait_us)
{
    static float taps[TAPS];
    const hc_route route = {.taps = taps, .n_taps = TAPS, .gain = 1};
    char why[256] = "";
    hc_config c;
    hc_mask *mask;
    taps[0] = 1;
    taps[TAPS - 1] = 0.5f;
    hc_config_init(&c);
    c.backend = "cuda:resident";
    c.n_in = c.n_out = 1;
    c.max_taps = TAPS;
    c.block = BLOCK;
    c.wait_us = wait_us;
    int code = hc_open(&c, &echo->engine, why, sizeof why);
    if (code == HC_EUNSUPPORTED) check_skip(why);
    check(code == HC_OK, "hc_open: %d, %s", code, why);
    check(hc_mask_make(echo->engine, &route, sizeof route, 1, &mask, why, sizeof why) == HC_OK, "%s", why);
    check(hc_mask_swap(echo->engine, mask) == HC_OK, "hc_mask_swap");
    struct random r = random_seeded(7);
    for (int i = 0; i < FRAMES; i++) echo->in[i] = random_sample(&r);
    echo->at = 0;
}

static struct echo *echo_make(const char *backend, int wait_us)
{
    if (strncmp(backend, "cuda", 4) != 0) check_skip("of a GPU only");
    struct echo *echo = must_alloc(1, sizeof *echo);
    echo_open(echo, wait_us);
    return echo;
}

static void echo_free(struct echo *echo)
{
    hc_close(echo->engine);
    free(echo);
}

static int echo_play(struct echo *echo)
{
    const float *in = echo->in + echo->at % FRAMES;
    float *out = echo->out + echo->at % FRAMES;
    echo->at += BLOCK;
    return hc_process(echo->engine, &in, &out, BLOCK);
}

/* The last block's output is that of the whole input since open. */
static void echo_check(const struct echo *echo)
{
    for (int64_t i = echo->at - BLOCK; i < echo->at; i++) {
        float want = echo->in[i % FRAMES] + (i >= TAPS - 1 ? 0.5f * echo->in[(i - TAPS + 1) % FRAMES] : 0);
        check(fabsf(echo->out[i % FRAMES] - want) < 1e-6f, "frame %lld: %g, want %g", (long long)i,
              (double)echo->out[i % FRAMES], (double)want);
    }
}

static void a_pause_of_seconds_makes_no_block_late(const char *backend)
{
    struct echo *echo = echo_make(backend, WAIT_US);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 20; i++) {
            int code = echo_play(echo);
            check(code == HC_OK, "round %d, block %d: %d", round, i, code);
            echo_check(echo);
        }
        pause_us(2500000); /* the kernel has left */
    }
    echo_free(echo);
}

static void late_blocks_stay_in_the_history(const char *backend)
{
    struct echo *echo = echo_make(backend, 1);
    int n_late = 0;
    for (int i = 0; i < 300; i++) {
        int code = echo_play(echo);
        check(code == HC_OK || code == HC_LATE, "block %d: %d", i, code);
        n_late += code == HC_LATE;
        for (int k = 0; k < BLOCK && code == HC_LATE; k++)
            check(echo->out[(echo->at - BLOCK + k) % FRAMES] == 0, "a late block is not silent");
        if (code == HC_OK) echo_check(echo);
        pause_us(1000);
    }
    check(n_late > 0, "no block was late within 1 us");
    hc_close(echo->engine);
    free(echo);
}

static void a_process_that_was_stopped_goes_on(const char *backend)
{
    struct echo *echo = echo_make(backend, WAIT_US);
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 20; i++) check(echo_play(echo) == HC_OK, "block %d", i);
        pid_t parent = getpid(), child = fork();
        if (child == 0) {
            usleep(SECOND_US);
            kill(parent, SIGCONT);
            _exit(0);
        }
        raise(SIGSTOP);
        waitpid(child, NULL, 0);
        int code = echo_play(echo);
        check(code == HC_OK, "after SIGSTOP: %d", code);
        echo_check(echo);
    }
    echo_free(echo);
}

struct player_thread {
    struct echo *echo;
    atomic_bool ends;
    int worst;
    long n;
};

static void *play_paced(void *arg)
{
    struct player_thread *p = arg;
    for (double next = now_s(); !atomic_load(&p->ends); next += BLOCK / 48000.0) {
        while (now_s() < next) continue;
        int code = echo_play(p->echo);
        if (code != HC_OK) p->worst = code;
        p->n++;
    }
    return NULL;
}

/* A file engine, which allocates and frees memory of the GPU. */
static void file_play(void)
{
    static float frames[4096];
    const float *in = frames;
    float *out = frames;
    char why[256] = "";
    hc_config c;
    hc_engine *e;
    hc_config_init(&c);
    c.backend = "cuda";
    c.block = HC_BLOCK_FILES;
    c.n_in = c.n_out = 1;
    check(hc_open(&c, &e, why, sizeof why) == HC_OK, "%s", why);
    check(hc_process(e, &in, &out, 4096) == HC_OK, "a file's block");
    hc_close(e);
}

/* Another process that keeps the GPU busy for seconds: haloconv, whose path is in HALOCONV. */
static pid_t neighbour_start(void)
{
    const char *program = getenv("HALOCONV");
#ifdef CUDA_ON_CPU
    check_skip("of a GPU only");
#endif
    if (!program) check_skip("HALOCONV, the path of the program, is not set");
    pid_t child = fork();
    if (child == 0) {
        int null = open("/dev/null", O_WRONLY);
        dup2(null, 1);
        execl(program, program, "bench", "engine", "--inputs", "64", "--routes", "matrix", "--seconds", "1",
              "--backend", "cuda:launched", "--unpaced", "--time", "3", (char *)NULL);
        _exit(127);
    }
    return child;
}

static void beside_another_process_it_is_launched(const char *backend)
{
    struct echo *echo = echo_make(backend, WAIT_US);
    hc_info info = {.size = sizeof info};
    int status;
    pid_t child = neighbour_start();
    for (int i = 0; i < 5000 && !strstr(info.device, "another process"); i++) {
        check(echo_play(echo) == HC_OK, "block %d", i);
        echo_check(echo);
        pause_us(1333);
        hc_get_info(echo->engine, &info);
    }
    check(waitpid(child, &status, 0) == child && status == 0, "the other process ended with %d", status);
    check(strstr(info.device, "; launched: another process uses the GPU"), "%s", info.device);
    echo_free(echo);
}

static void engines_open_and_close_beside_it(const char *backend)
{
    struct player_thread p = {.echo = echo_make(backend, WAIT_US)};
    pthread_t thread;
    check(pthread_create(&thread, NULL, play_paced, &p) == 0, "no thread");
    double longest = 0;
    for (int i = 0; i < 10; i++) {
        double start = now_s();
        struct echo *other = must_alloc(1, sizeof *other);
        echo_open(other, WAIT_US);
        for (int k = 0; k < 20; k++) {
            check(echo_play(other) == HC_OK, "engine %d, block %d", i, k);
            echo_check(other);
        }
        echo_free(other);
        file_play();
        if (now_s() - start > longest) longest = now_s() - start;
    }
    atomic_store(&p.ends, true);
    pthread_join(thread, NULL);
    echo_check(p.echo);
    check(p.worst == HC_OK, "a block: %d", p.worst);
    check(longest < LONG_S, "an engine took %g s", longest);
    echo_free(p.echo);
}

static void many_engines_share_the_gpu(const char *backend)
{
    struct echo *echoes[N_ENGINES];
    for (int i = 0; i < N_ENGINES; i++) echoes[i] = echo_make(backend, WAIT_US);
    for (int k = 0; k < 100; k++)
        for (int i = 0; i < N_ENGINES; i++) {
            check(echo_play(echoes[i]) == HC_OK, "engine %d, block %d", i, k);
            echo_check(echoes[i]);
        }
    for (int i = 0; i < N_ENGINES; i++) echo_free(echoes[i]);
}

static void heads_that_it_cannot_play_are_refused(const char *backend)
{
    const struct {
        int n_in, n_sources, code;
        const char *why;
    } cases[] = {{1024, 0, HC_EUNSUPPORTED, "too large"}, {1, 1, HC_EINVAL, "sources"}};
    echo_free(echo_make(backend, WAIT_US)); /* skips the test if the GPU has no resident kernel */
    for (int i = 0; i < 2; i++) {
        hc_config c;
        hc_engine *engine;
        char why[256] = "";
        hc_config_init(&c);
        c.backend = "cuda:resident";
        c.n_in = cases[i].n_in;
        c.n_out = 1;
        c.n_sources = cases[i].n_sources;
        int code = hc_open(&c, &engine, why, sizeof why);
        check(code == cases[i].code && strstr(why, cases[i].why), "%s: %d, \"%s\"", cases[i].why, code, why);
    }
}

/* An H100 plays this head in 18 us, and a GPU with so few multiprocessors in more than 100. */
static void a_head_that_needs_more_multiprocessors_is_launched(const char *backend)
{
    hc_info info = {.size = sizeof info};
    hc_config c;
    hc_engine *engine;
    char why[256] = "";
#ifndef CUDA_ON_CPU
    check_skip("of the emulated device only");
#endif
    hc_config_init(&c);
    c.backend = "cuda";
    c.n_in = 48;
    c.n_out = 56;
    c.n_routes = 48 * 56;
    c.block = 16;
    check(hc_open(&c, &engine, why, sizeof why) == HC_OK, "%s", why);
    hc_get_info(engine, &info);
    check(!strstr(info.device, "resident") && !strstr(info.device, "launched"), "%s", info.device);
    hc_close(engine);
}

/* ---- several workers --------------------------------------------------------------------------------------------- */

/* Opens an engine of three workers. routes: [WIDE], of TAPS taps each. */
static void wide_open(struct player *p, hc_route *routes, int fade_frames, const char *backend, int64_t cap)
{
    if (strncmp(backend, "cuda", 4) != 0) check_skip("of a GPU only");
    hc_config c = player_config("auto", BLOCK, TAPS, 1, WIDE);
    c.fade_frames = fade_frames;
    player_open(p, &c, "cuda:resident", cap, 31);
    struct random r = random_seeded(32);
    for (int i = 0; i < WIDE; i++) routes[i] = (hc_route){.out = i, .taps = noise(&r, TAPS), .n_taps = TAPS, .gain = 1};
}

static void wide_close(struct player *p, hc_route *routes)
{
    player_close(p);
    for (int i = 0; i < WIDE; i++) free((void *)routes[i].taps);
}

/* Plays n blocks, each when the block before would have been heard. */
static void wide_play(struct player *p, int n)
{
    for (double next = now_s(); n > 0; n--, next += BLOCK / 48000.0) {
        while (now_s() < next) pause_us(100);
        player_run(p, BLOCK);
    }
}

static void workers_hand_over_in_mid_fade(const char *backend)
{
    hc_route routes[WIDE], reversed[WIDE];
    struct player p;
    wide_open(&p, routes, 3000, backend, 150 * BLOCK); /* 62 ms: a dozen generations */
    memcpy(reversed, routes, sizeof routes);
    for (int i = 0; i < WIDE; i++) reversed[i].out = WIDE - 1 - i;
    struct scene scenes[] = {player_scene(&p, routes, WIDE), player_scene(&p, reversed, WIDE)};
    for (int i = 0; i < 3; i++) {
        player_swap(&p, scenes[i % 2]);
        wide_play(&p, 50);
    }
    player_check(&p, 0, p.n_frames, PEAK_SHARE);
    for (int i = 0; i < 2; i++) hc_mask_free(p.engine, scenes[i].mask);
    wide_close(&p, routes);
}

static void a_close_ends_all_workers(const char *backend)
{
    enum { N = 9 };
    int n_slow = 0;
    for (int i = 0; i < N; i++) {
        hc_route routes[WIDE];
        struct player p;
        wide_open(&p, routes, 0, backend, 4 * BLOCK);
        wide_play(&p, 4);
        double start = now_s();
        hc_close(p.engine);
        n_slow += now_s() - start > SLOWER * 0.008;
        p.engine = NULL;
        wide_close(&p, routes);
    }
    check(n_slow <= N / 2, "%d of %d closes were slow: a worker stayed until its time was over", n_slow, N);
}

struct storm {
    hc_engine *engine;
    atomic_bool ends;
    long n, n_failed; /* n: mask n is the last one */
};

/* Makes masks whose gain at frequency 0 is 1 or 2, in turn, and frees each as soon as the next one is requested. */
static void *masks_swap(void *arg)
{
    struct storm *s = arg;
    struct random r = random_seeded(33);
    float taps[TAPS];
    hc_mask *mask = NULL, *before;
    while (!atomic_load(&s->ends)) {
        hc_route routes[WIDE];
        const int n = random_int(&r, TAPS - 50, TAPS); /* a mask can have the memory of a freed one */
        s->n++;
        for (int i = 0; i < n; i++) taps[i] = (float)(1 + s->n % 2) / (float)n;
        for (int i = 0; i < WIDE; i++) routes[i] = (hc_route){.out = i, .taps = taps, .n_taps = n, .gain = 1};
        before = mask;
        s->n_failed += hc_mask_make(s->engine, routes, sizeof *routes, WIDE, &mask, NULL, 0) != HC_OK;
        s->n_failed += hc_mask_swap(s->engine, mask) != HC_OK;
        hc_mask_free(s->engine, before);
    }
    return NULL;
}

static void a_storm_of_swaps_plays_whole_masks(const char *backend)
{
    hc_route routes[WIDE];
    struct player p;
    pthread_t thread;
    float ones[BLOCK], y[WIDE][BLOCK], *out[WIDE];
    const float *in = ones;
    wide_open(&p, routes, 2 * BLOCK, backend, 1);
    for (int i = 0; i < BLOCK; i++) ones[i] = 1;
    for (int i = 0; i < WIDE; i++) out[i] = y[i];
    struct storm storm = {.engine = p.engine};
    check(pthread_create(&thread, NULL, masks_swap, &storm) == 0, "no thread");
    hc_info info = {.size = sizeof info};
    struct random r = random_seeded(35);
    float want = 0;
    for (int last = -1, n = 0; last != 0; n++) {
        pause_us(random_int(&r, 0, 5) * 1000); /* generations start between two blocks */
        check(hc_process(p.engine, &in, out, BLOCK) == HC_OK, "block %d", n);
        hc_get_info(p.engine, &info);
        for (int i = 0; i < WIDE * BLOCK && n > 2 * TAPS / BLOCK; i++) {
            const float got = y[i / BLOCK][i % BLOCK];
            check(got > 0.9999f && got < 2.0001f, "output %d of gain 1 or 2: %g", i / BLOCK, (double)got);
            check(last != 1 || fabsf(got - want) < 1e-4f, "output %d: %g, want %g", i / BLOCK, (double)got,
                  (double)want);
        }
        last--;
        if (last < 0 && (info.swaps > 100 / SLOWER + 10 || n > 10000)) {
            atomic_store(&storm.ends, true);
            pthread_join(thread, NULL);
            want = (float)(1 + storm.n % 2);
            last = 2 * TAPS / BLOCK; /* it fades, and the response of the mask before ends */
        }
    }
    check(storm.n_failed == 0 && info.swaps > 10, "%ld calls failed, %lld swaps", storm.n_failed,
          (long long)info.swaps);
    wide_close(&p, routes);
}

/* ---- faults ------------------------------------------------------------------------------------------------------ */

static void a_late_block_does_not_delay_a_close(const char *backend)
{
    enum { N = 9 };
    int n_slow = 0;
    for (int i = 0; i < N; i++) {
        struct echo *late = echo_make(backend, 1);
        for (int k = 0; k < 4 + i; k++) echo_play(late); /* up to 4 are posted and not answered */
        double start = now_s();
        echo_free(late);
        n_slow += now_s() - start > SLOWER * 0.008;
    }
    check(n_slow <= N / 2, "%d of %d closes were slow", n_slow, N);
}

static void a_stop_while_it_plays_ends(const char *backend)
{
    struct echo *echo = echo_make(backend, SLOWER * 20000);
    for (int round = 0; round < 3; round++) {
        check(echo_play(echo) == HC_OK, "before the stop");
        double next = now_s(), end = next + 1 + LONG_S;
        pid_t parent = getpid(), child = fork();
        if (child == 0) {
            usleep(20000);
            kill(parent, SIGSTOP);
            usleep(SECOND_US);
            kill(parent, SIGCONT);
            _exit(0);
        }
        bool was_stopped = false;
        for (int n_ok = 0; n_ok < 100; next += BLOCK / 48000.0) { /* blocks in time after the stop */
            while (now_s() < next) continue;
            double start = now_s();
            int code = echo_play(echo);
            was_stopped = was_stopped || now_s() - next > 0.5;
            check(code == HC_OK || code == HC_LATE, "%d", code);
            if (code == HC_OK) echo_check(echo);
            n_ok = !was_stopped || code != HC_OK ? 0 : n_ok + 1;
            check(start < end, "the stop is over, and blocks are late");
            if (now_s() > next + 0.5) next = now_s();
        }
        waitpid(child, NULL, 0);
    }
    echo_free(echo);
}

/* Runs this program with an argument; it must end well, and soon. */
static void child_run(const char *backend, const char *argument)
{
    int status;
    echo_free(echo_make(backend, WAIT_US)); /* skips the test if the GPU has no resident kernel */
    pid_t child = fork();
    if (child == 0) execl("/proc/self/exe", "resident_test", argument, (char *)NULL);
    check(child > 0 && waitpid(child, &status, 0) == child, "no child");
    check(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the program ended with status %d", status);
}

static void a_program_may_end_with_an_open_engine(const char *backend)
{
    child_run(backend, "ends");
}

/* Only the emulated device can have a fault: tests/cuda/emulator/README.md. */
static void fault_run(const char *backend, const char *argument)
{
#ifndef CUDA_ON_CPU
    check_skip("of the emulated device only");
#endif
    child_run(backend, argument);
}

static void a_lost_device_is_said_at_once(const char *backend)
{
    fault_run(backend, "lost");
}

static void a_standby_engine_replaces_a_lost_device(const char *backend)
{
    fault_run(backend, "lost standby");
}

static void a_program_may_end_with_a_lost_device(const char *backend)
{
    fault_run(backend, "lost ends");
}

static void a_slow_clock_loses_no_input(const char *backend)
{
    fault_run(backend, "slow");
}

static void from_a_slow_clock_the_standby_engine_takes_over_and_gives_back(const char *backend)
{
    fault_run(backend, "slow live");
}

static void changes_of_knobs_at_every_frame_make_no_block_late(const char *backend)
{
    fault_run(backend, "slow changes");
}

static void a_standby_engine_replaces_a_device_that_hangs(const char *backend)
{
    fault_run(backend, "hangs standby");
}

static void no_call_waits_for_ever_for_a_device_that_hangs(const char *backend)
{
    fault_run(backend, "hangs");
}

static void a_close_ends_though_no_call_of_the_driver_returns(const char *backend)
{
    fault_run(backend, "stuck");
}

static void a_program_may_end_though_no_call_of_the_driver_returns(const char *backend)
{
    fault_run(backend, "stuck ends");
}

static void other_engines_open_beside_a_kernel_that_hangs(const char *backend)
{
    fault_run(backend, "slow others");
}

/* ---- in a process of their own ----------------------------------------------------------------------------------- */

static char folder[] = "/tmp/resident_test_XXXXXX", fault_path[64], draft_path[64], mask_path[64];

static struct echo *volatile left_open; /* when the program ends; volatile: LeakSanitizer finds it */

/* Gives the device a fault from now on; NULL: none. */
static void fault_set(const char *text)
{
    FILE *file = fopen(draft_path, "w");
    check(file && (!text || fputs(text, file) >= 0) && fclose(file) == 0, "%s", draft_path);
    check(rename(draft_path, fault_path) == 0, "%s", fault_path); /* the device reads a whole text */
    pause_us(2000);                                               /* it reads the file once a ms */
}

static void lost(bool closes)
{
    struct echo *echo = echo_make("cuda", 20 * SECOND_US);
    for (int i = 0; i < 50; i++) check(echo_play(echo) == HC_OK, "before");
    fault_set("lost");
    int code = HC_OK;
    double start = now_s();
    for (int i = 0; i < 1000 && code == HC_OK; i++) code = echo_play(echo);
    check(code == HC_EDEVICE, "%d", code);
    for (int i = 0; i < BLOCK; i++) check(echo->out[(echo->at - BLOCK + i) % FRAMES] == 0, "not silence");
    check(echo_play(echo) == HC_EDEVICE, "the next block");
    left_open = echo;
    if (closes) echo_free(echo);
    check(now_s() - start < 2, "%g s until the engine was closed", now_s() - start);
}

static void standby(const char *fault, int wait_us)
{
    enum { N = 400, LONG = 3000, LOST_AT = 100 };
    struct random r = random_seeded(34);
    float *taps = noise(&r, LONG), *x = noise(&r, N * BLOCK), *y = must_alloc(N * BLOCK, sizeof *y);
    hc_route route = {.taps = taps, .n_taps = LONG, .gain = 1};
    struct input_history history;
    struct failover *f;
    char why[256] = "";
    hc_config c;
    hc_config_init(&c);
    c.backend = "cuda:resident";
    c.n_in = c.n_out = 1;
    c.block = BLOCK;
    c.max_taps = LONG;
    check(input_history_open(&history, 1, 16384, BLOCK), "no history");
    check(failover_open(&c, &history, NULL, 1e9, &f, REASON(why, sizeof why)) == HC_OK, "%s", why);
    check(failover_load(f, &route, 1, NULL, REASON(why, sizeof why)) == HC_OK, "%s", why);
    check(failover_start(f, 0, REASON(why, sizeof why)) == HC_OK, "%s", why);
    failover_set_wait(f, wait_us);
    double start = now_s();
    int n_late = 0;
    for (int i = 0; i < N; i++) {
        const float *in = x + i * BLOCK, *row;
        float *out = y + i * BLOCK;
        uint32_t peak = 0;
        if (i == LOST_AT) fault_set(fault);
        int64_t called_ns = now_ns();
        input_history_write(&history, &in, 0, BLOCK, &row, &peak);
        enum failover_result result = failover_process(f, &row, &out, BLOCK, called_ns);
        input_history_publish(&history, BLOCK);
        failover_wake(f);
        check(now_ns() - called_ns < (wait_us + SLACK_US) * 1000LL, "block %d took %g s", i,
              (double)(now_ns() - called_ns) * 1e-9);
        n_late += result == FAILOVER_LATE; /* the standby engine has a backlog */
        check(result == FAILOVER_PLAYED || (result == FAILOVER_LATE && i >= LOST_AT), "block %d: %d", i, result);
        pause_us(1000);
        for (int k = i < LOST_AT || result == FAILOVER_LATE ? BLOCK : 0; k < BLOCK; k++) {
            int at = i * BLOCK + k;
            double want = 0;
            for (int t = 0; t < LONG && t <= at; t++) want += (double)taps[t] * x[at - t];
            check(fabs(y[at] - want) < 1e-3, "frame %d: %g, want %g", at, (double)y[at], want);
        }
    }
    check(failover_state(f) == HC_LIVE_STANDBY && n_late < 50, "%d late blocks", n_late);
    const bool hangs = strcmp(fault, "hangs") == 0;
    check(failover_close(f) == !hangs, "of a device that hangs the engine stays, else not");
    check(now_s() - start < 20, "%g s", now_s() - start);
    check(!hangs || closing_check("cuda", 0, NULL) == HC_EDEVICE, "no thread closes the engine");
    fault_set(NULL);
    for (start = now_s(); closing_check("cuda", 0, NULL) != HC_OK; pause_us(1000))
        check(now_s() - start < 5, "the device answers again, and the engine is not closed");
    input_history_close(&history);
    free(taps);
    free(x);
    free(y);
}

/* Plays a block, which must end in time and, unless it is late, be right. Returns the result. */
static int bounded_play(struct echo *echo, bool is_right)
{
    int64_t start = now_us();
    int code = echo_play(echo);
    check(now_us() - start < SHORT_US + SLACK_US, "a block took %g s", (double)(now_us() - start) * 1e-6);
    check(code == HC_OK || code == HC_LATE, "%d", code);
    if (code == HC_OK && is_right) echo_check(echo);
    return code;
}

static void slow(void)
{
    static const struct {
        const char *clock;
        int n;
    } drops[] = {{"slow 2", 12},
                 {"slow 10", 12},
                 {"slow 100", 12},
                 {"slow 1e7", 12},
                 {"slow 1e7", 50}}; /* 16 may be unanswered */
    struct echo *echo = echo_make("cuda", SHORT_US);
    hc_info info = {.size = sizeof info};
    uint64_t n_late = 0;
    for (int d = 0; d < (int)(sizeof drops / sizeof *drops); d++) {
        const bool keeps = drops[d].n <= 16;
        uint64_t before = n_late;
        int n_ok = 0;
        fault_set(drops[d].clock);
        for (int i = 0; i < drops[d].n; i++) n_late += bounded_play(echo, true) == HC_LATE;
        check(d < 3 || n_late - before >= 10, "the device with clock \"%s\" was late %d times", drops[d].clock,
              (int)(n_late - before));
        fault_set(NULL);
        pause_us(200000); /* the backlog is played */
        for (int i = 0; n_ok < 50; i++) {
            check(i < 500, "the clock is back, and blocks are late");
            int code = bounded_play(echo, keeps || n_ok > TAPS / BLOCK);
            n_late += code == HC_LATE;
            n_ok = code == HC_OK ? n_ok + 1 : 0;
        }
    }
    hc_get_info(echo->engine, &info);
    check(info.late == n_late, "%d late blocks were counted, of %d", (int)info.late, (int)n_late);
    echo_free(echo);
}

static void note_answer(void *data, int level, const char *text)
{
    (void)level;
    if (strstr(text, "answers again")) *(bool *)data = true;
}

struct stage {
    hc_live *live;
    float *x, *y;
    bool *is_late;
    int n, n_late;
};

/* Plays up to n blocks, or until the state is `until`. */
static void live_play(struct stage *s, int n, int until)
{
    hc_live_stats stats = {.size = sizeof stats};
    for (bool is_there = false; n > 0 && !is_there; n--, s->n++) {
        const float *in = s->x + s->n * BLOCK;
        float *out = s->y + s->n * BLOCK;
        int64_t start = now_us();
        int code = hc_live_process(s->live, &in, &out, BLOCK);
        check(now_us() - start < SHORT_US + SLACK_US, "block %d took %g s", s->n, (double)(now_us() - start) * 1e-6);
        check(code == HC_OK || code == HC_LATE, "block %d: %d", s->n, code);
        s->is_late[s->n] = code == HC_LATE;
        s->n_late += code == HC_LATE;
        hc_live_get_stats(s->live, &stats);
        is_there = stats.state == until;
        if (hc_live_has_work(s->live)) check(hc_live_work(s->live) == HC_OK, "hc_live_work");
        pause_us(1000);
    }
    check(until < 0 || stats.state == until, "block %d: state %d, want %d", s->n, stats.state, until);
    check((int)stats.late == s->n_late, "%d late blocks were counted, of %d", (int)stats.late, s->n_late);
}

static void slow_live(void)
{
    enum { N = 8000, LONG = 3000 };
    struct random r = random_seeded(36);
    float *taps = noise(&r, LONG);
    bool *is_late = must_alloc(N, sizeof *is_late), answers = false;
    struct stage s = {.x = noise(&r, N * BLOCK), .y = must_alloc(N * BLOCK, sizeof *s.y), .is_late = is_late};
    hc_live_change change = {.size = sizeof change, .mask = mask_path};
    hc_live_config c;
    char why[256] = "";
    FILE *file = fopen(mask_path, "w");
    for (int i = 0; i < LONG; i++) fprintf(file, "%.9g\n", (double)taps[i]);
    check(fclose(file) == 0, "%s", mask_path);
    hc_live_config_init(&c);
    c.n_in = c.n_out = 1;
    c.block = BLOCK;
    c.backend = "cuda:resident";
    c.wait_us = SHORT_US;
    c.standby_share = 1e9;
    c.say = note_answer;
    c.data = &answers;
    check(hc_live_open(&c, &s.live, why, sizeof why) == HC_OK, "%s", why);
    check(hc_live_request(s.live, &change) == HC_OK && hc_live_work(s.live) == HC_OK, "no mask");
    live_play(&s, 100, -1);
    fault_set("slow 2");
    live_play(&s, 50, -1);
    int n_late = s.n_late, first = s.n;
    check(n_late < 8, "%d late blocks before the clock drops", n_late);
    fault_set("slow 1e7");
    live_play(&s, 100, HC_LIVE_STANDBY);
    n_late = s.n_late - n_late;
    check(n_late >= 7 && n_late < 50, "the standby engine played after %d late blocks, 8 are enough", n_late);
    for (int i = s.n; i < first + 400; i++) live_play(&s, 1, -1);
    n_late = s.n_late;
    live_play(&s, 200, -1);
    check(s.n_late == n_late, "the standby engine was late");
    fault_set(NULL);
    live_play(&s, 6000, HC_LIVE_OK);
    check(answers, "the device did not answer again");
    live_play(&s, 500, -1);
    double peak = 0, worst = 0;
    for (int i = 0; i < s.n * BLOCK; i++) {
        double want = 0;
        for (int t = 0; t < LONG && t <= i; t++) want += (double)taps[t] * (double)s.x[i - t];
        peak = fmax(peak, fabs(want));
        if (!is_late[i / BLOCK]) worst = fmax(worst, fabs(want - (double)s.y[i]));
    }
    check(worst < 1e-6 * peak, "%g of %g", worst, peak);
    check(hc_live_close(s.live) == HC_OK, "hc_live_close");
    free(s.x);
    free(s.y);
    free(taps);
    free(is_late);
}

/* A call has half of a second, and a device with this clock needs some milliseconds. For each of 256 pieces of a call it
 * would have 2 ms. */
static void slow_changes(void)
{
    enum { CALL = 256, RATE = 250, CALLS = 50 };
    static float x[CALL], y[CALL];
    const float *in = x;
    float *out = y;
    hc_live_knob_change changes[CALL];
    hc_live_change change = {.size = sizeof change, .mask = mask_path};
    hc_live_stats stats = {.size = sizeof stats};
    hc_live *live;
    hc_live_config c;
    char why[256] = "";
    FILE *file = fopen(mask_path, "w");
    check(file && fputs("1\n0.5\n", file) >= 0 && fclose(file) == 0, "%s", mask_path);
    hc_live_config_init(&c);
    c.n_in = c.n_out = 1;
    c.rate = RATE;
    c.block = CALL;
    c.backend = "cuda:resident";
    c.standby_share = -1;
    check(hc_live_open(&c, &live, why, sizeof why) == HC_OK, "%s", why);
    check(hc_live_request(live, &change) == HC_OK && hc_live_work(live) == HC_OK, "no mask");
    for (int i = 0; i < CALLS; i++) {
        for (int k = 0; k < CALL; k++) changes[k] = (hc_live_knob_change){k, HC_GAIN, (float)((i + k) % 7)};
        fault_set(i < 10 ? NULL : "slow 10");
        check(hc_live_process_changes(live, &in, &out, CALL, changes, CALL) == HC_OK, "call %d is late", i);
        pause_us(1000);
    }
    hc_live_get_stats(live, &stats);
    check(stats.late == 0 && stats.state == HC_LIVE_OK && !hc_live_has_work(live), "%d late blocks, state %d",
          (int)stats.late, stats.state);
    fault_set(NULL);
    check(hc_live_close(live) == HC_OK, "hc_live_close");
}

struct setup_call {
    hc_engine *engine; /* that makes a mask; NULL: an engine is opened */
    const char *backend;
    int code;
    char why[256];
};

static int config_open(const char *backend, hc_engine **engine, char *why, size_t cap)
{
    hc_config c;
    hc_config_init(&c);
    c.backend = backend;
    c.n_in = c.n_out = 1;
    c.max_taps = TAPS;
    c.block = BLOCK;
    return hc_open(&c, engine, why, cap);
}

static void *setup_run(void *arg)
{
    struct setup_call *call = arg;
    const float tap = 1;
    const hc_route route = {.taps = &tap, .n_taps = 1, .gain = 1};
    hc_engine *engine;
    hc_mask *mask;
    call->code = call->engine ? hc_mask_make(call->engine, &route, sizeof route, 1, &mask, call->why, sizeof call->why)
                              : config_open(call->backend, &engine, call->why, sizeof call->why);
    return NULL;
}

/* Closes an engine of a device that does not answer: this must end, and no other engine opens there. */
static void close_checked(struct echo *echo)
{
    static const char *const backends[] = {"cuda", "cuda:resident", "cuda:launched", "hybrid"};
    char why[256] = "";
    hc_engine *engine;
    double start = now_s();
    echo_free(echo);
    check(now_s() - start < 12, "the close took %g s", now_s() - start);
    start = now_s();
    for (int i = 0; i < 4; i++) {
        int code = config_open(backends[i], &engine, why, sizeof why);
        check(code == HC_EDEVICE && strstr(why, "cuda:0 does not answer"), "%s: %d, %s", backends[i], code, why);
    }
    check(now_s() - start < 1, "refusals took %g s", now_s() - start);
    clock_t busy = clock();
    pause_us(SECOND_US);
    busy = clock() - busy;
    check(busy < CLOCKS_PER_SEC / 2, "after the close %g processors are busy", (double)busy / CLOCKS_PER_SEC);
}

static void hangs(void)
{
    struct echo *echo = echo_make("cuda", SHORT_US);
    struct setup_call calls[] = {{.engine = echo->engine}, {.backend = "cuda"}, {.backend = "cuda:launched"}};
    pthread_t threads[3];
    for (int i = 0; i < 50; i++) bounded_play(echo, true);
    fault_set("hangs");
    double start = now_s();
    for (int i = 0; i < 3; i++) check(pthread_create(&threads[i], NULL, setup_run, &calls[i]) == 0, "no thread");
    for (int i = 0; i < 50; i++) check(bounded_play(echo, true) == HC_LATE, "block %d is not late", i);
    for (int i = 0; i < 3; i++) {
        pthread_join(threads[i], NULL);
        check(calls[i].code == HC_EDEVICE && strstr(calls[i].why, "timed out"), "%d, %s", calls[i].code, calls[i].why);
    }
    check(now_s() - start < 40, "the calls took %g s", now_s() - start);
    close_checked(echo);
    fault_set(NULL);
    hc_engine *engine;
    char why[256] = "";
    for (start = now_s(); config_open("cuda:resident", &engine, why, sizeof why) != HC_OK; pause_us(1000))
        check(now_s() - start < 5, "the device answers again, but %s", why);
    hc_close(engine);
    echo = echo_make("cuda", WAIT_US);
    for (int i = 0; i < 50; i++) check(bounded_play(echo, true) == HC_OK, "block %d", i);
    echo_free(echo);
}

static void stuck(bool closes)
{
    struct echo *echo = echo_make("cuda", SHORT_US);
    for (int i = 0; i < 50; i++) bounded_play(echo, true);
    fault_set("stuck");
    for (int i = 0; i < 20; i++) bounded_play(echo, true);
    alarm(closes ? 30 : 5);
    left_open = echo;
    if (closes) close_checked(echo);
}

/* The kernel hangs, and the rest of the device works. */
static void slow_others(void)
{
    struct echo *echo = echo_make("cuda", SHORT_US);
    const float *in = echo->in;
    float *out = echo->out;
    const float tap = 1;
    const hc_route route = {.taps = &tap, .n_taps = 1, .gain = 1};
    char why[256] = "";
    hc_mask *mask;
    hc_engine *other;
    check(hc_mask_make(echo->engine, &route, sizeof route, 1, &mask, why, sizeof why) == HC_OK, "%s", why);
    for (int i = 0; i < 50; i++) bounded_play(echo, true);
    fault_set("slow 1e9");
    for (int i = 0; i < 10; i++) bounded_play(echo, true);
    hc_mask_free(echo->engine, mask); /* its memory is freed behind the kernel */
    double start = now_s();
    check(config_open("cuda:launched", &other, why, sizeof why) == HC_OK, "%s", why);
    check(now_s() - start < 5, "the open took %g s", now_s() - start);
    engine_wait_set(other, WAIT_US);
    check(hc_mask_make(other, &route, sizeof route, 1, &mask, why, sizeof why) == HC_OK, "%s", why);
    check(hc_mask_swap(other, mask) == HC_OK && hc_process(other, &in, &out, BLOCK) == HC_OK, "a block");
    check(memcmp(in, out, BLOCK * sizeof *in) == 0, "not the input");
    fault_set(NULL);
    hc_close(other);
    echo_free(echo);
}

static void folder_remove(void)
{
    unlink(fault_path);
    unlink(mask_path);
    rmdir(folder);
}

static int child_main(const char *argument)
{
    alarm(100);
    atexit(folder_remove); /* after the library's functions, which come later: the device has the fault until then */
    check(mkdtemp(folder), "%s", folder);
    snprintf(fault_path, sizeof fault_path, "%s/fault", folder);
    snprintf(draft_path, sizeof draft_path, "%s/draft", folder);
    snprintf(mask_path, sizeof mask_path, "%s/mask.txt", folder);
    setenv("CUDA_ON_CPU_FAULT", fault_path, 1);
    if (strcmp(argument, "ends") == 0) {
        left_open = echo_make("cuda", WAIT_US);
        check(echo_play(left_open) == HC_OK, "a block");
    }
    if (strcmp(argument, "lost") == 0) lost(true);
    if (strcmp(argument, "lost ends") == 0) lost(false);
    if (strcmp(argument, "lost standby") == 0) standby("lost", WAIT_US);
    if (strcmp(argument, "hangs standby") == 0) standby("hangs", 4 * SHORT_US);
    if (strcmp(argument, "hangs") == 0) hangs();
    if (strcmp(argument, "stuck") == 0) stuck(true);
    if (strcmp(argument, "stuck ends") == 0) stuck(false);
    if (strcmp(argument, "slow") == 0) slow();
    if (strcmp(argument, "slow live") == 0) slow_live();
    if (strcmp(argument, "slow changes") == 0) slow_changes();
    if (strcmp(argument, "slow others") == 0) slow_others();
    return 0;
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(a_pause_of_seconds_makes_no_block_late, ONCE_A_DEVICE),
        TEST(late_blocks_stay_in_the_history, ONCE_A_DEVICE),
        TEST(a_process_that_was_stopped_goes_on, ONCE_A_DEVICE),
        TEST(beside_another_process_it_is_launched, ONCE_A_DEVICE),
        TEST(engines_open_and_close_beside_it, ONCE_A_DEVICE),
        TEST(many_engines_share_the_gpu, ONCE_A_DEVICE),
        TEST(heads_that_it_cannot_play_are_refused, ONCE_A_DEVICE),
        TEST(a_head_that_needs_more_multiprocessors_is_launched, ONCE_A_DEVICE),
        TEST(workers_hand_over_in_mid_fade, ONCE_A_DEVICE),
        TEST(a_close_ends_all_workers, ONCE_A_DEVICE),
        TEST(a_storm_of_swaps_plays_whole_masks, ONCE_A_DEVICE),
        TEST(a_late_block_does_not_delay_a_close, ONCE_A_DEVICE),
        TEST(a_stop_while_it_plays_ends, ONCE_A_DEVICE),
        TEST(a_program_may_end_with_an_open_engine, ONCE_A_DEVICE),
        TEST(a_lost_device_is_said_at_once, ONCE_A_DEVICE),
        TEST(a_standby_engine_replaces_a_lost_device, ONCE_A_DEVICE),
        TEST(a_program_may_end_with_a_lost_device, ONCE_A_DEVICE),
        TEST(a_slow_clock_loses_no_input, ONCE_A_DEVICE),
        TEST(from_a_slow_clock_the_standby_engine_takes_over_and_gives_back, ONCE_A_DEVICE),
        TEST(changes_of_knobs_at_every_frame_make_no_block_late, ONCE_A_DEVICE),
        TEST(a_standby_engine_replaces_a_device_that_hangs, ONCE_A_DEVICE),
        TEST(no_call_waits_for_ever_for_a_device_that_hangs, ONCE_A_DEVICE),
        TEST(a_close_ends_though_no_call_of_the_driver_returns, ONCE_A_DEVICE),
        TEST(a_program_may_end_though_no_call_of_the_driver_returns, ONCE_A_DEVICE),
        TEST(other_engines_open_beside_a_kernel_that_hangs, ONCE_A_DEVICE),
    };
    if (argc > 1) return child_main(argv[1]);
    return check_main("resident", tests, sizeof tests / sizeof *tests);
}
