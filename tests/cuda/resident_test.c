/* The resident kernel (kernels/resident/resident.h): it stays while blocks come, and nothing hangs behind it. */
#include "check.h"
#include "dsp/base/await.h"
#include "dsp/live/failover.h"
#include "haloconv.h"
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
#include <unistd.h>

enum { BLOCK = 64, TAPS = 500, FRAMES = 1 << 16, SECOND_US = 1000000 };
enum { WIDE = 12 }; /* outputs of an engine of three workers */
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

/* Only the emulated device can be lost: tests/cuda/emulator/README.md. */
static void lost_run(const char *backend, const char *argument)
{
#ifndef CUDA_ON_CPU
    check_skip("of the emulated device only");
#endif
    child_run(backend, argument);
}

static void a_lost_device_is_said_at_once(const char *backend)
{
    lost_run(backend, "lost");
}

static void a_standby_engine_replaces_a_lost_device(const char *backend)
{
    lost_run(backend, "standby");
}

static void a_program_may_end_with_a_lost_device(const char *backend)
{
    lost_run(backend, "lost ends");
}

/* ---- in a process of their own ----------------------------------------------------------------------------------- */

static char lost_folder[] = "/tmp/resident_test_XXXXXX", lost_file[64];

static struct echo *volatile left_open; /* when the program ends; volatile: LeakSanitizer finds it */

static void device_lose(void)
{
    int fd = open(lost_file, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    check(fd >= 0 && close(fd) == 0, "%s", lost_file);
}

static void lost(bool closes)
{
    struct echo *echo = echo_make("cuda", 20 * SECOND_US);
    for (int i = 0; i < 50; i++) check(echo_play(echo) == HC_OK, "before");
    device_lose();
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

static void standby(void)
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
    failover_set_wait(f, WAIT_US);
    double start = now_s();
    int n_late = 0;
    for (int i = 0; i < N; i++) {
        const float *in = x + i * BLOCK, *row;
        float *out = y + i * BLOCK;
        uint32_t peak = 0;
        int64_t called_ns = now_ns();
        if (i == LOST_AT) device_lose();
        input_history_write(&history, &in, 0, BLOCK, &row, &peak);
        enum failover_result result = failover_process(f, &row, &out, BLOCK, called_ns);
        input_history_publish(&history, BLOCK);
        failover_wake(f);
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
    check(failover_close(f), "a lost device must not keep the engine");
    check(now_s() - start < 20, "%g s", now_s() - start);
    input_history_close(&history);
    free(taps);
    free(x);
    free(y);
}

static int child_main(const char *argument)
{
    alarm(60);
    check(mkdtemp(lost_folder), "%s", lost_folder);
    snprintf(lost_file, sizeof lost_file, "%s/lost", lost_folder);
    setenv("CUDA_ON_CPU_LOST", lost_file, 1);
    if (strcmp(argument, "ends") == 0) {
        left_open = echo_make("cuda", WAIT_US);
        check(echo_play(left_open) == HC_OK, "a block");
    }
    if (strncmp(argument, "lost", 4) == 0) lost(strcmp(argument, "lost") == 0);
    if (strcmp(argument, "standby") == 0) standby();
    unlink(lost_file);
    rmdir(lost_folder);
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
        TEST(workers_hand_over_in_mid_fade, ONCE_A_DEVICE),
        TEST(a_close_ends_all_workers, ONCE_A_DEVICE),
        TEST(a_storm_of_swaps_plays_whole_masks, ONCE_A_DEVICE),
        TEST(a_late_block_does_not_delay_a_close, ONCE_A_DEVICE),
        TEST(a_stop_while_it_plays_ends, ONCE_A_DEVICE),
        TEST(a_program_may_end_with_an_open_engine, ONCE_A_DEVICE),
        TEST(a_lost_device_is_said_at_once, ONCE_A_DEVICE),
        TEST(a_standby_engine_replaces_a_lost_device, ONCE_A_DEVICE),
        TEST(a_program_may_end_with_a_lost_device, ONCE_A_DEVICE),
    };
    if (argc > 1) return child_main(argv[1]);
    return check_main("resident", tests, sizeof tests / sizeof *tests);
}
