/* The resident kernel (kernels/resident/resident.h): it stays while blocks come, and nothing hangs behind it. */
#include "check.h"
#include "haloconv.h"

#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BLOCK = 64, TAPS = 500, FRAMES = 1 << 16, SECOND_US = 1000000 };

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
    check(code == HC_OK, "hc_open: %d, %s", code, why);
    hc_info info = {.size = sizeof info};
    hc_get_info(echo->engine, &info);
    if (!strstr(info.device, "; resident")) check_skip(info.device);
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
    struct echo *echo = echo_make(backend, SECOND_US / 2);
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
        pause_us(300);
    }
    check(n_late > 0, "no block was late within 1 us");
    hc_close(echo->engine);
    free(echo);
}

static void a_process_that_was_stopped_goes_on(const char *backend)
{
    struct echo *echo = echo_make(backend, SECOND_US / 2);
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

static void engines_open_and_close_beside_it(const char *backend)
{
    struct player_thread p = {.echo = echo_make(backend, SECOND_US / 2)};
    pthread_t thread;
    check(pthread_create(&thread, NULL, play_paced, &p) == 0, "no thread");
    double longest = 0;
    for (int i = 0; i < 10; i++) {
        double start = now_s();
        struct echo *other = must_alloc(1, sizeof *other);
        echo_open(other, SECOND_US / 2);
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
    check(longest < 2, "an engine took %g s", longest);
    echo_free(p.echo);
}

static void twenty_engines_share_the_gpu(const char *backend)
{
    enum { N = 20 };
    struct echo *echoes[N];
    for (int i = 0; i < N; i++) echoes[i] = echo_make(backend, SECOND_US / 2);
    for (int k = 0; k < 100; k++)
        for (int i = 0; i < N; i++) {
            check(echo_play(echoes[i]) == HC_OK, "engine %d, block %d", i, k);
            echo_check(echoes[i]);
        }
    for (int i = 0; i < N; i++) echo_free(echoes[i]);
}

static void a_program_may_end_with_an_open_engine(const char *backend)
{
    int status;
    if (strncmp(backend, "cuda", 4) != 0) check_skip("of a GPU only");
    pid_t child = fork();
    if (child == 0) execl("/proc/self/exe", "resident_test", "ends", (char *)NULL);
    check(child > 0 && waitpid(child, &status, 0) == child, "no child");
    check(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the program ended with status %d", status);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(a_pause_of_seconds_makes_no_block_late, ONCE_A_DEVICE),
        TEST(late_blocks_stay_in_the_history, ONCE_A_DEVICE),
        TEST(a_process_that_was_stopped_goes_on, ONCE_A_DEVICE),
        TEST(engines_open_and_close_beside_it, ONCE_A_DEVICE),
        TEST(twenty_engines_share_the_gpu, ONCE_A_DEVICE),
        TEST(a_program_may_end_with_an_open_engine, ONCE_A_DEVICE),
    };
    if (argc > 1 && strcmp(argv[1], "ends") == 0) {
        struct echo *echo = echo_make("cuda", SECOND_US / 2);
        return echo_play(echo) != HC_OK; /* the engine is open */
    }
    return check_main("resident", tests, sizeof tests / sizeof *tests);
}
