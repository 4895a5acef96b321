/* A child of fork(): it opens engines while threads of the parent did, and plays on with an engine of the parent, whose
 * threads it lacks. */
#include "check.h"
#include "dsp/backends/backends.h"
#include "dsp/base/await.h"
#include "dsp/device/backend.h"
#include "dsp/engine/closing.h"
#include "dsp/engine/engine.h"
#include "haloconv_files.h"
#include "haloconv_scenes.h"

#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BLOCK = 64, TAPS = 20000, N_OUT = 6, BEFORE = 150, AFTER = SANITIZED ? 40 : 200, ROUNDS = 4, PATIENCE_S = 30 };

/* Runs act(data) in a child, which must end well within PATIENCE_S. */
static void in_child(void (*act)(void *), void *data, const char *what)
{
    double end = now_s() + PATIENCE_S;
    int status = 0;
    fflush(NULL);
    pid_t child = fork();
    check(child >= 0, "fork");
    if (child == 0) {
        act(data);
        _exit(0);
    }
    while (waitpid(child, &status, WNOHANG) == 0) {
        if (now_s() > end) {
            kill(child, SIGKILL);
            waitpid(child, &status, 0);
            check(false, "%s: the child waits for ever", what);
        }
        pause_us(200);
    }
    check(WIFEXITED(status) && WEXITSTATUS(status) == 0, "%s: the child ended with %#x", what, status);
}

/* ---- global state ---------------------------------------------------------------------------------------------- */

static void open_and_close(void *data)
{
    hc_engine *engine;
    hc_config c;
    char why[400] = "";
    hc_config_init(&c);
    c.block = HC_BLOCK_FILES;
    c.backend = "cpu";
    c.max_taps = *(int *)data;
    c.n_threads = 2;
    check(hc_open(&c, &engine, why, sizeof why) == HC_OK, "%s", why);
    hc_close(engine);
}

static atomic_bool ends;

static void *opener(void *data)
{
    while (!atomic_load(&ends)) open_and_close(data);
    return NULL;
}

static void a_child_can_open_while_threads_of_the_parent_do(const char *backend)
{
    if (SANITIZED) check_skip("a child waits for a lock of the sanitizer's allocator, which another thread held at fork()");
    enum { THREADS = 3, FORKS = 60 };
    pthread_t threads[THREADS];
    int taps[THREADS] = {300, 5000, 60000};
    atomic_store(&ends, false);
    for (int i = 0; i < THREADS; i++) check(pthread_create(&threads[i], NULL, opener, &taps[i]) == 0, "no thread");
    for (int i = 0; i < FORKS; i++) in_child(open_and_close, &taps[i % THREADS], "hc_open");
    atomic_store(&ends, true);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
}

/* ---- an engine of the parent -------------------------------------------------------------------------------------- */

struct player {
    hc_engine *engine;
    bool moves;
    hc_bank *bank;
    hc_mask *masks[2];
    float *in, *out; /* out: shared by both processes, [process][N_OUT][AFTER * BLOCK] */
    int process;
};

static void player_open(struct player *p, const hc_config *c, bool moves)
{
    char why[400] = "";
    struct random r = random_seeded(3);
    float *taps = noise(&r, 2 * N_OUT * TAPS);
    const float *rows[2 * N_OUT];
    *p = (struct player){.moves = moves, .in = noise(&r, (BEFORE + AFTER) * BLOCK)};
    p->out = mmap(NULL, 2 * N_OUT * AFTER * BLOCK * sizeof(float), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                  -1, 0);
    check(p->out != MAP_FAILED && hc_open(c, &p->engine, why, sizeof why) == HC_OK, "%s", why);
    for (int i = 0; i < 2 * N_OUT; i++) rows[i] = taps + i * TAPS;
    if (moves) {
        hc_bank_data data = {.size = sizeof data, .n_entries = 2, .n_out = N_OUT, .n_taps = TAPS, .taps = rows};
        check(hc_bank_make(p->engine, &data, &p->bank, why, sizeof why) == HC_OK, "%s", why);
    }
    for (int m = 0; m < 2 && !moves; m++) {
        hc_route routes[N_OUT];
        for (int o = 0; o < N_OUT; o++)
            routes[o] = (hc_route){.out = o, .taps = rows[m * N_OUT + o], .n_taps = TAPS, .gain = 1};
        check(hc_mask_make(p->engine, routes, sizeof *routes, N_OUT, &p->masks[m], why, sizeof why) == HC_OK, "%s",
              why);
    }
    free(taps);
}

static void player_close(struct player *p)
{
    hc_close(p->engine);
    hc_bank_free(p->bank);
    free(p->in);
    munmap(p->out, 2 * N_OUT * AFTER * BLOCK * sizeof(float));
}

static void player_block(struct player *p, int block)
{
    float *out[N_OUT];
    int entry = block / 200 % 2;
    for (int o = 0; o < N_OUT; o++)
        out[o] = p->out + ((p->process * N_OUT + o) * AFTER + (block < BEFORE ? block : block - BEFORE)) * BLOCK;
    if (block % 200 == 0 && p->moves) hc_steer(p->engine, 0, p->bank, &entry, NULL, 1);
    if (block % 200 == 0 && !p->moves) hc_mask_swap(p->engine, p->masks[entry]);
    const float *in = p->in + block * BLOCK;
    check(hc_process(p->engine, &in, out, BLOCK) == HC_OK, "block %d", block);
}

static void play_after(void *data)
{
    struct player *p = data;
    for (int b = BEFORE; b < BEFORE + AFTER; b++) player_block(p, b);
}

static void play_on_in_child(void *data)
{
    struct player *p = data;
    p->process = 1;
    play_after(p);
    hc_close(p->engine);
}

static void check_children_play_on(const hc_config *c, bool moves, int rounds, const char *what)
{
    for (int round = 0; round < rounds; round++) {
        struct player p;
        double peak = 0, worst = 0;
        player_open(&p, c, moves);
        engine_wait_set(p.engine, HC_WAIT_FOREVER); /* the same masks begin at the same block in both processes */
        for (int b = 0; b < BEFORE + round; b++) player_block(&p, b);
        in_child(play_on_in_child, &p, what);
        play_after(&p);
        for (int i = 0; i < N_OUT * AFTER * BLOCK; i++) {
            peak = fmax(peak, fabs((double)p.out[i]));
            worst = fmax(worst, fabs((double)p.out[i] - (double)p.out[N_OUT * AFTER * BLOCK + i]));
        }
        check(peak > 0 && worst <= 1e-6 * peak, "%s: the child is off by %g of %g", what, worst, peak);
        player_close(&p);
    }
}

static hc_config live_config(void)
{
    hc_config c;
    hc_config_init(&c);
    c.n_in = 1;
    c.n_out = N_OUT;
    c.block = BLOCK;
    c.max_taps = TAPS;
    c.backend = "cpu";
    c.n_threads = 4;
    return c;
}

static void an_engine_with_helper_threads_plays_on_in_a_child(const char *backend)
{
    hc_config c = live_config();
    check_children_play_on(&c, false, ROUNDS, "masks");
    c.max_taps = 1;
    c.n_sources = 1;
    c.bank_taps = TAPS;
    check_children_play_on(&c, true, ROUNDS, "sources");
}

static void an_engine_for_files_plays_on_in_a_child(const char *backend)
{
    hc_config c = live_config();
    c.block = HC_BLOCK_FILES;
    check_children_play_on(&c, false, 1, "files");
}

/* ---- an engine of a device that hangs ---------------------------------------------------------------------------- */

static void *check_device(void *data)
{
    while (!atomic_load(&ends)) closing_check("hangs", 0, NULL); /* as every hc_open */
    return NULL;
}

static void wait_for_end(hc_engine *engine)
{
    while (!atomic_load(&ends)) pause_us(1000);
}

static void device_is_free(void *data)
{
    check(closing_check("hangs", 0, NULL) == HC_OK, "the child waits for a thread of the parent");
}

static void a_child_does_not_wait_for_a_close_of_its_parent(const char *backend)
{
    enum { FORKS = 200 };
    pthread_t thread;
    atomic_store(&ends, false);
    check(!closing_run(wait_for_end, NULL, "hangs", 0, now_us()), "the close has ended");
    check(closing_check("hangs", 0, NULL) == HC_EDEVICE, "the device is free");
    check(pthread_create(&thread, NULL, check_device, NULL) == 0, "no thread");
    for (int i = 0; i < FORKS; i++) in_child(device_is_free, NULL, "closing_check");
    atomic_store(&ends, true);
    pthread_join(thread, NULL);
    while (closing_check("hangs", 0, NULL) != HC_OK) pause_us(1000);
}

/* ---- a device ---------------------------------------------------------------------------------------------------- */

static void play_on_lost_device(void *data)
{
    hc_engine *engine = data;
    hc_info info = {.size = sizeof info};
    float block[BLOCK] = {1}, y[N_OUT][BLOCK], *out[N_OUT];
    const float *in = block, tap = 1;
    char why[400] = "";
    hc_mask *mask;
    hc_route route = {.taps = &tap, .n_taps = 1, .gain = 1};
    for (int o = 0; o < N_OUT; o++) out[o] = memset(y[o], 1, sizeof y[o]);
    check(hc_process(engine, &in, out, BLOCK) == HC_EDEVICE && y[0][0] == 0, "the child plays on a device");
    check(hc_get_info(engine, &info) == HC_OK && strstr(info.error, "fork"), "%s", info.error);
    check(hc_mask_make(engine, &route, sizeof route, 1, &mask, why, sizeof why) == HC_EDEVICE && strstr(why, "fork"),
          "%s", why);
    hc_reset(engine);
    hc_close(engine);
}

static void a_child_learns_that_it_has_no_device(const char *backend)
{
    hc_config c = live_config();
    hc_engine *engine;
    char why[400] = "";
    c.backend = "hybrid:cpu";
    check(hc_open(&c, &engine, why, sizeof why) == HC_OK, "%s", why);
    in_child(play_on_lost_device, engine, "hybrid");
    hc_close(engine);
}

/* ---- a device that convolves files ------------------------------------------------------------------------------- */

static int n_begun;

static int count_begin(void *state, struct io_buffer *buffer, int n, const struct fade *fade, struct reason *why)
{
    n_begun++;
    return HC_OK;
}

static int end(void *state, struct reason *why)
{
    return HC_OK;
}

static void submit_to_lost_device(void *data)
{
    hc_engine *engine = data;
    check(hc_submit(engine, NULL, BLOCK) == HC_EDEVICE && n_begun == 1, "the child begins %d blocks", n_begun - 1);
}

static void a_child_submits_nothing_to_a_device(const char *backend)
{
    static struct backend device;
    hc_engine *engine;
    hc_config c = live_config();
    char why[400] = "";
    device = backend_cpu;
    device.name = device.choice = "files of the test";
    device.files = NULL;
    device.begin = count_begin;
    device.end = end;
    backend_add(&device);
    c.block = HC_BLOCK_FILES;
    c.max_taps = 1;
    c.backend = device.name;
    check(hc_open(&c, &engine, why, sizeof why) == HC_OK, "%s", why);
    check(hc_submit(engine, NULL, BLOCK) == HC_OK && n_begun == 1, "%d blocks", n_begun);
    in_child(submit_to_lost_device, engine, "hc_submit");
    hc_close(engine);
}

int main(void)
{
    static const struct test tests[] = {
        TEST(a_child_can_open_while_threads_of_the_parent_do, false),
        TEST(an_engine_with_helper_threads_plays_on_in_a_child, false),
        TEST(an_engine_for_files_plays_on_in_a_child, false),
        TEST(a_child_does_not_wait_for_a_close_of_its_parent, false),
        TEST(a_child_learns_that_it_has_no_device, false),
        TEST(a_child_submits_nothing_to_a_device, false),
    };
    return check_main("fork", tests, sizeof tests / sizeof *tests);
}
