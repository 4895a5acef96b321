/* A build without any optional library has every method on the CPU. tests.mk links this program with the library's
 * objects, of which those with an optional part are compiled without it, and with no other library. */
#include "check.h"
#include "haloconv_masks.h"
#include "haloconv_tensors.h"
#include "moving.h"
#include "player.h"
#include "reference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TAPS = 20000 };

static void a_bare_build_plays_tail_levels(const char *unused)
{
    struct random r = random_seeded(1);
    float *taps = noise(&r, TAPS);
    const hc_route route = {.taps = taps, .n_taps = TAPS, .gain = 1};
    hc_config c = player_config("auto", 64, TAPS, 1, 1);
    struct player p;
    player_open(&p, &c, "cpu", 2 * TAPS, 2);
    check(p.info.n_levels > 1, "no tail levels");
    player_swap(&p, player_scene(&p, &route, 1));
    player_run_all(&p);
    player_check(&p, 0, p.n_frames, PEAK_SHARE);
    player_close(&p);
    free(taps);
}

static void a_bare_build_plays_moving_sources(const char *unused)
{
    hc_config c = moving_config(64, TAPS / 4, 2, 2);
    struct moving m;
    struct moving_bank bank;
    moving_open(&m, &c, "cpu", TAPS / 2, 3);
    check(m.info.n_steer_levels > 1, "no tail levels");
    moving_bank(&m, &bank, 5, 2, TAPS / 4, 4);
    while (m.n_frames < m.cap) {
        moving_steer_all(&m, &bank, 2);
        moving_play(&m, 64);
    }
    moving_check(&m);
    moving_close(&m);
    moving_bank_free(&bank);
}

static void a_bare_build_convolves_files_and_tensors(const char *unused)
{
    enum { FRAMES = 2 * TAPS };
    struct random r = random_seeded(5);
    float *taps = noise(&r, TAPS), *x = noise(&r, FRAMES), *y = must_alloc(FRAMES, sizeof *y);
    const hc_route route = {.taps = taps, .n_taps = TAPS, .gain = 1};
    hc_config c = player_config("auto", 0, TAPS, 1, 1);
    struct player p;
    player_open(&p, &c, "cpu", FRAMES, 6);
    player_swap(&p, player_scene(&p, &route, 1));
    player_run_all(&p);
    player_check(&p, 0, p.n_frames, PEAK_SHARE);
    player_close(&p);

    hc_tensors t = {
        .size = sizeof t, .mode = HC_CAUSAL, .n_batch = 1, .n_channels = 1, .n_frames = FRAMES, .n_taps = TAPS};
    char why[256] = "";
    size_t bytes = 0;
    hc_tensor_plan *plan;
    check(hc_tensor_plan_open(&t, HC_CONVOLVE, &plan, &bytes, why, sizeof why) == HC_OK, "%s", why);
    void *workspace = aligned_alloc(256, (bytes + 255) / 256 * 256);
    hc_tensor_data data = {.size = sizeof data, .a = x, .b = taps, .out = y, .workspace = workspace, .bytes = bytes};
    int code = hc_tensor_plan_run(plan, &data, why, sizeof why);
    check(code == HC_OK, "%s", why);
    hc_tensor_plan_close(plan);
    double peak = 0, off = 0;
    for (int i = 0; i < FRAMES; i += 37) {
        double want = reference_sum(taps, TAPS, x, FRAMES, i), d = fabs((double)y[i] - want);
        if (!(d <= off) && !isnan(off)) off = d; /* NaN stays */
        peak = fmax(peak, fabs(want));
    }
    check(off <= PEAK_SHARE * peak, "off by %g of the peak", off / peak);
    free(workspace);
    free(taps);
    free(x);
    free(y);
}

static void a_bare_build_names_the_missing_library(const char *unused)
{
    hc_responses responses;
    char why[256] = "", path[] = "/tmp/bare_test_XXXXXX.wav";
    int file = mkstemps(path, 4);
    check(file >= 0 && write(file, "RIFF", 4) == 4, "no file %s", path);
    int code = hc_responses_load(path, 0, 48000, 0, &responses, why, sizeof why);
    hc_responses_free(&responses);
    close(file);
    unlink(path);
    check(code == HC_EUNSUPPORTED && strstr(why, "libsndfile"), "%d, %s", code, why);
}

int main(void)
{
    static const struct test tests[] = {
        TEST(a_bare_build_plays_tail_levels, false),
        TEST(a_bare_build_plays_moving_sources, false),
        TEST(a_bare_build_convolves_files_and_tensors, false),
        TEST(a_bare_build_names_the_missing_library, false),
    };
    return check_main("bare", tests, sizeof tests / sizeof *tests);
}
