/* hc_process returns in time with the default configuration, whatever the device does. The test uses the public header
 * only. The device is faulty_device.c in place of "cuda"; it never returns. */
#include "check.h"
#include "dsp/engine/engine.h"
#include "faulty_device.h" /* replaces "cuda" */
#include "haloconv.h"

#include <stdlib.h>

enum { TAPS = 20000, FRAMES = 16 * 4096, MAX_BLOCK = 4096 };

/* Stay open until the program ends: the engine's thread hangs with the device. */
static hc_engine *hung[16];
static int n_hung;

static hc_engine *open_hanging(const char *backend, int block)
{
    static float taps[TAPS];
    char why[256] = "";
    hc_config c;
    hc_mask *mask;
    hc_config_init(&c);
    c.backend = backend;
    c.block = block;
    c.n_in = c.n_out = 1;
    c.max_taps = TAPS;
    setenv("HC_FAULT", "stall 2", 1);
    int code = hc_open(&c, &hung[n_hung], why, sizeof why);
    unsetenv("HC_FAULT");
    check(code == HC_OK, "hc_open: %d, %s", code, why);
    hc_engine *e = hung[n_hung++];
    taps[0] = taps[TAPS - 1] = 1;
    hc_route route = {.taps = taps, .n_taps = TAPS, .gain = 1};
    check(hc_mask_make(e, &route, sizeof route, 1, &mask, why, sizeof why) == HC_OK, "%s", why);
    hc_mask_swap(e, mask);
    return e;
}

/* A busy machine delays some calls, so the limit is for the shortest of the late ones. */
static void returns_in_time(const char *backend, int block)
{
    static float frames[MAX_BLOCK];
    const float *in[] = {frames};
    float *out[] = {frames};
    hc_engine *e = open_hanging(backend, block);
    double block_s = block / 48000.0, shortest = 1e9, longest = 0;
    int n_late = 0;
    for (int at = 0; at < FRAMES; at += block) {
        for (int i = 0; i < block; i++) frames[i] = 0.5f;
        double start = now_s();
        int code = hc_process(e, in, out, block);
        double took = now_s() - start;
        check(code == HC_OK || code == HC_LATE, "hc_process at frame %d: %d", at, code);
        if (took > longest) longest = took;
        if (code != HC_LATE) continue;
        if (took < shortest) shortest = took;
        n_late++;
    }
    check(n_late > 0, "%s, block %d: no block was late; the device does not hang", backend, block);
    check(shortest < block_s, "%s, block %d: every late call took %.6f s or more; a block is %.6f", backend, block,
          shortest, block_s);
    check(longest < 1, "%s, block %d: a call took %.3f s", backend, block, longest);
}

static void default_wait_is_bounded_on_a_device_that_hangs(const char *backend)
{
    static const char *const backends[] = {"cuda", "hybrid"};
    for (int b = 0; b < 2; b++) {
        returns_in_time(backends[b], 64);
        returns_in_time(backends[b], MAX_BLOCK);
    }
}

/* A device hangs in the third block, and each call waits for it as long as the last engine_wait_set said. (A backend made
 * of two waits once a block of the tail, and not for a block that was lost.) */
static void waits_as_told(const char *backend, int wait_us, double wait_s)
{
    static float frames[MAX_BLOCK];
    const float *in[] = {frames};
    float *out[] = {frames};
    double shortest = 1e9, longest = 0;
    hc_engine *e = open_hanging(backend, MAX_BLOCK);
    check(engine_wait_set(e, -3) == HC_EINVAL, "a wait of -3 was taken");
    check(engine_wait_set(e, -1) == HC_OK, "engine_wait_set(-1)");
    for (int i = 0; i < 2; i++) check(hc_process(e, in, out, MAX_BLOCK) == HC_OK, "block %d", i);
    check(engine_wait_set(e, wait_us) == HC_OK, "engine_wait_set(%d)", wait_us);
    for (int i = 0; i < 8; i++) {
        double start = now_s();
        int code = hc_process(e, in, out, MAX_BLOCK);
        double took = now_s() - start;
        if (code != HC_LATE) continue;
        if (took < shortest) shortest = took;
        if (took > longest) longest = took;
    }
    check(longest >= 0.9 * wait_s && shortest < wait_s + 0.02, "%s, wait %d: late calls took %.6f to %.6f s, want %.6f",
          backend, wait_us, shortest, longest, wait_s);
}

static void a_wait_without_bound_can_be_taken_back(const char *backend)
{
    static const char *const backends[] = {"cuda", "hybrid"};
    for (int b = 0; b < 2; b++) {
        waits_as_told(backends[b], -2, 0);
        waits_as_told(backends[b], 2000, 0.002);
        waits_as_told(backends[b], 0, 0.5 * MAX_BLOCK / 48000.0);
    }
}

int main(void)
{
    static const struct test tests[] = {
        TEST(default_wait_is_bounded_on_a_device_that_hangs, false),
        TEST(a_wait_without_bound_can_be_taken_back, false),
    };
    return check_main("default_wait", tests, sizeof tests / sizeof *tests);
}
