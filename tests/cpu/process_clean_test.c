/* engine_process_clean is hc_process without the steps that its caller has done already: the output is the same, bit
 * for bit, and the wait counts from the time that the caller has read. "cuda" is faulty_device.c here. */
#include "check.h"
#include "dsp/base/await.h"
#include "dsp/base/denormals.h"
#include "dsp/base/samples.h"
#include "dsp/bench.h"
#include "dsp/engine/engine.h"
#include "faulty_device.h" /* replaces "cuda" */

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TAPS = 20000, BLOCK = 256, FRAMES = 200 * BLOCK, CHANNELS = 2 };

static hc_engine *open_engine(const char *backend, int block, int wait_us)
{
    char why[256] = "";
    hc_config c;
    hc_engine *e;
    hc_mask *mask;
    hc_config_init(&c);
    c.backend = backend;
    c.block = block;
    c.max_taps = TAPS;
    c.n_routes = CHANNELS * CHANNELS;
    c.wait_us = wait_us;
    check(hc_open(&c, &e, why, sizeof why) == HC_OK, "%s", why);
    check(hc_mask_make_noise(e, 0, TAPS, TAPS, 3, &mask, why, sizeof why) == HC_OK, "%s", why);
    hc_mask_swap(e, mask);
    return e;
}

static void point(float **rows, float *frames, int at)
{
    for (int ch = 0; ch < CHANNELS; ch++) rows[ch] = frames + ch * FRAMES + at;
}

/* Calls of any length. hc_process gets an input with samples that are not finite; engine_process_clean gets 0 in their
 * place. */
static void a_clean_block_is_the_same_block(const char *backend)
{
    static const char *const backends[] = {"cpu", "hybrid:cpu", "cuda"};
    for (int b = 0; b < 3; b++) {
        struct random r = random_seeded(8);
        float *in = noise(&r, CHANNELS * FRAMES), *clean = must_alloc(CHANNELS * FRAMES, sizeof *clean);
        float *out = must_alloc(CHANNELS * FRAMES, sizeof *out), *same = must_alloc(CHANNELS * FRAMES, sizeof *same);
        hc_engine *plain = open_engine(backends[b], BLOCK, -1), *live = open_engine(backends[b], BLOCK, -1);
        for (int i = 0; i < 50; i++) in[random_int(&r, 0, CHANNELS * FRAMES - 1)] = i % 2 ? INFINITY : NAN;
        samples_choose()->copy_finite(clean, in, CHANNELS * FRAMES, &(uint32_t){0});
        for (int at = 0, n; at < FRAMES; at += n) {
            float *x[CHANNELS], *c[CHANNELS], *y[CHANNELS], *z[CHANNELS];
            n = random_int(&r, 0, 3) ? BLOCK : random_int(&r, 1, BLOCK);
            if (n > FRAMES - at) n = FRAMES - at;
            point(x, in, at), point(c, clean, at), point(y, out, at), point(z, same, at);
            check(hc_process(plain, (const float *const *)x, y, n) == HC_OK, "hc_process at %d", at);
            unsigned before = denormals_off();
            int code = engine_process_clean(live, (const float *const *)c, z, n, now_ns());
            denormals_restore(before);
            check(code == HC_OK, "engine_process_clean at %d: %d", at, code);
        }
        for (int i = 0; i < CHANNELS * FRAMES; i++)
            check(memcmp(&out[i], &same[i], sizeof *out) == 0, "%s, channel %d, frame %d: %.9g, and %.9g", backends[b],
                  i / FRAMES, i % FRAMES, (double)out[i], (double)same[i]);
        hc_info info = {.size = sizeof info};
        hc_get_info(live, &info);
        check(info.frames == FRAMES && info.late == 0, "%d frames, %d late", (int)info.frames, (int)info.late);
        hc_close(plain);
        hc_close(live);
        free(in), free(clean), free(out), free(same);
    }
}

static void the_wait_counts_from_the_callers_time(const char *backend)
{
    enum { LONG = 8192, WAIT_NS = 500000000LL * LONG / 48000 };
    static hc_engine *hung[2]; /* stays open until the program ends: the device hangs */
    static float frames[CHANNELS][LONG], out[CHANNELS][LONG];
    static const char *const backends[] = {"cuda", "hybrid"};
    for (int b = 0; b < 2; b++) {
        const float *x[] = {frames[0], frames[1]};
        float *y[] = {out[0], out[1]};
        int64_t shortest = INT64_MAX;
        int code = HC_OK;
        setenv("HC_FAULT", "stall 0", 1);
        hung[b] = open_engine(backends[b], LONG, 0);
        unsetenv("HC_FAULT");
        for (int i = 0; i < 4; i++) { /* half of the wait is over */
            int64_t start = now_ns();
            int got = engine_process_clean(hung[b], x, y, LONG, start - WAIT_NS / 2);
            int64_t took = now_ns() - start;
            if (got != HC_LATE) continue;
            if (took < shortest) shortest = took;
            code = got;
        }
        check(code == HC_LATE && shortest < WAIT_NS * 3 / 4 && shortest > WAIT_NS * 2 / 5,
              "%s: %d, the shortest late call took %.6f s, want %.6f", backends[b], code, 1e-9 * (double)shortest,
              0.5e-9 * WAIT_NS);
    }
}

int main(void)
{
    static const struct test tests[] = {
        TEST(a_clean_block_is_the_same_block, false),
        TEST(the_wait_counts_from_the_callers_time, false),
    };
    return check_main("process_clean", tests, sizeof tests / sizeof *tests);
}
