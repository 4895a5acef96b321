/* Compares every rung of the kernel ladder with float64, at the edges of tiles, chunks and masks. */
#include "check.h"

#include <stdlib.h>
#include <string.h>
#ifdef HC_WITH_CUDA
#include "kernels/ladder/ladder_check.h"

static void need_device(void)
{
    const char *only = getenv("HC_TEST_BACKEND");
    int n = 0;
    cudaError_t status = cudaGetDeviceCount(&n);
    if (status == cudaSuccess && n > 0) return;
    check(!only || strcmp(only, "cuda") != 0, "no CUDA device: %s", cudaGetErrorString(status));
    check_skip("no CUDA device");
}

/* Compares all rungs on one shape. */
static void compare(const struct shape *shape, int pitch_unit, struct random *r)
{
    int n, n_ran;
    const struct rung *const *rungs = ladder_rungs(&n);
    const char *why = ladder_check(rungs, n, shape, pitch_unit, random_u32(r), &n_ran);
    check(!why, "%s", why);
    check(n_ran >= 1, "no rung accepts %d taps, %d channels", shape->taps, shape->channels);
}

static void rungs_match_reference(const char *backend)
{
    (void)backend;
    need_device();
    static const int taps[] = {1,    2,    3,    5,    11,   31,   32,    33,    63,   64,  65,
                               127,  128,  129,  240,  241,  255,  256,   257,   511,  512, 513,
                               1023, 1024, 1025, 2049, 4096, 8193, 16384, 16385, 20000};
    static const long frames[] = {1,   2,    31,   32,   33,   64,   127,  128,  129,  255,  257,  511,  512,  513, 767,
                                  769, 1023, 1025, 1279, 1280, 1281, 1535, 1537, 2047, 2049, 3000, 4097, 6151, 8195};
    enum { TAPS = sizeof taps / sizeof *taps, FRAMES = sizeof frames / sizeof *frames };
    struct random r = random_seeded(3);
    for (int i = 0; i < TAPS; i++)
        for (int j = 0; j < (taps[i] > 2048 ? 3 : 7); j++) {
            const long n = frames[random_int(&r, taps[i] > 64 ? 6 : 0, FRAMES - 1)];
            const int n_ch = 1 + (i + j) % 3;
            const enum sharing sharing = n_ch == 1 ? SHARED : (enum sharing)((i + j + j / 3) % 3);
            compare(&(struct shape){taps[i], n, n_ch, sharing}, j % 2 ? 4 : 128, &r);
        }
}

static void many_channels_match_reference(const char *backend)
{
    (void)backend;
    need_device();
    struct random r = random_seeded(4);
    static const struct {
        int taps;
        long frames;
        int n_ch;
    } shapes[] = {{100, 64, 130}, {4096, 64, 6}, {300, 1600, 37}, {33, 5000, 16}, {512, 1, 65}, {700, 512, 12}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int sharing = SHARED; sharing <= BANK; sharing++)
            compare(&(struct shape){shapes[i].taps, shapes[i].frames, shapes[i].n_ch, (enum sharing)sharing}, 128, &r);
}

/* So many taps that rung 16 has more segments, a channel each, than places in its ring. */
static void masks_of_seconds_match_reference(const char *backend)
{
    (void)backend;
    need_device();
    struct random r = random_seeded(5);
    compare(&(struct shape){150000, 8, 6, SHARED}, 128, &r);
}

static void textbook_exercises_are_exact(const char *backend)
{
    (void)backend;
    need_device();
    int n;
    const struct rung *const *rungs = ladder_rungs(&n);
    const char *why = ladder_check_exercises(rungs, n);
    check(!why, "%s", why);
}
#else
static void rungs_match_reference(const char *backend)
{
    (void)backend;
    check_skip("built without CUDA");
}
#endif

int main(void)
{
    static const struct test tests[] = {
        {"rungs_match_reference", rungs_match_reference, false},
#ifdef HC_WITH_CUDA
        {"many_channels_match_reference", many_channels_match_reference, false},
        {"masks_of_seconds_match_reference", masks_of_seconds_match_reference, false},
        {"textbook_exercises_are_exact", textbook_exercises_are_exact, false},
#endif
    };
    return check_main("ladder_test", tests, sizeof tests / sizeof *tests);
}
