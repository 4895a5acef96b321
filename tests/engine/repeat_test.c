/* The output has the same bits in every process: this program runs itself twice and compares what both have played. */
#include "check.h"
#include "dsp/engine/engine.h"
#include "haloconv_scenes.h"
#include "moving.h"
#include "player.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BLOCK = 64, TAPS = 60000, N = 3, FRAMES = (SANITIZED ? 600 : 2000) * BLOCK };

static uint64_t hash(uint64_t h, const float *x, size_t n) /* FNV-1a; 0: silence */
{
    for (const unsigned char *p = (const unsigned char *)x, *end = p + n * sizeof *x; p < end; p++)
        h = (h ^ *p) * 0x100000001b3u;
    return h;
}

/* Masks that swap, with tail levels on threads. */
static uint64_t play_masks(void)
{
    struct random r = random_seeded(1);
    hc_config c = player_config("fft", BLOCK, TAPS, N, N);
    hc_route routes[2][N * N];
    float *taps = noise(&r, N * N * TAPS);
    struct player p;
    c.n_threads = 3;
    player_open(&p, &c, "cpu", FRAMES, 2);
    engine_wait_set(p.engine, HC_WAIT_FOREVER); /* a swap's fade then begins at the same frame */
    check(p.info.n_levels > 1, "no tail levels");
    for (int m = 0; m < 2; m++)
        for (int i = 0; i < N * N; i++)
            routes[m][i] = (hc_route){i % N, i / N, taps + (m ? N * N - 1 - i : i) * TAPS, TAPS, 1, 0};
    for (int m = 0; p.n_frames < p.cap; m = !m) {
        player_swap(&p, player_scene(&p, routes[m], N * N));
        for (int i = 0; i < 400 && p.n_frames < p.cap; i++) player_run(&p, BLOCK);
    }
    uint64_t h = 0;
    for (int out = 0; out < N; out++) h = hash(h, p.out[out], FRAMES);
    player_close(&p);
    free(taps);
    return h;
}

/* Sources that move in every block. */
static uint64_t play_sources(void)
{
    hc_config c = moving_config(BLOCK, TAPS / 4, N, 2);
    struct moving m;
    struct moving_bank bank;
    c.n_threads = 3;
    moving_open(&m, &c, "cpu", FRAMES / 2, 3);
    check(m.info.n_steer_levels > 1, "no tail levels");
    moving_bank(&m, &bank, 7, 2, TAPS / 4, 4);
    while (m.n_frames < m.cap) {
        moving_steer_all(&m, &bank, 3);
        moving_play(&m, BLOCK);
    }
    uint64_t h = 0;
    for (int out = 0; out < 2; out++) h = hash(h, m.out[out], FRAMES / 2);
    moving_close(&m);
    moving_bank_free(&bank);
    return h;
}

static uint64_t hash_of_a_process(const char *act)
{
    int ends[2], status = -1;
    uint64_t h = 0;
    fflush(NULL);
    check(pipe(ends) == 0, "no pipe");
    pid_t child = fork();
    check(child >= 0, "fork");
    if (child == 0) {
        dup2(ends[1], 3);
        execl("/proc/self/exe", "repeat_test", act, NULL); /* its memory lies at other addresses */
        _exit(127);
    }
    close(ends[1]);
    bool whole = read(ends[0], &h, sizeof h) == sizeof h;
    close(ends[0]);
    check(waitpid(child, &status, 0) == child && status == 0 && whole, "%s: the process ended with %#x", act, status);
    return h;
}

static void check_repeats(const char *act)
{
    uint64_t first = hash_of_a_process(act), second = hash_of_a_process(act);
    check(first == second && first, "%s: the outputs have the hashes %016llx and %016llx", act,
          (unsigned long long)first, (unsigned long long)second);
}

static void masks_have_the_same_bits_in_every_process(const char *unused)
{
    check_repeats("masks");
}

static void moving_sources_have_the_same_bits_in_every_process(const char *unused)
{
    check_repeats("sources");
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(masks_have_the_same_bits_in_every_process, false),
        TEST(moving_sources_have_the_same_bits_in_every_process, false),
    };
    setenv("HALOCONV_COSTS", "builtin", 1);
    if (argc == 1) return check_main("repeat", tests, sizeof tests / sizeof *tests);
    uint64_t h = strcmp(argv[1], "masks") == 0 ? play_masks() : play_sources();
    return write(3, &h, sizeof h) == sizeof h ? 0 : 1;
}
