/* Masks are swapped while audio plays: the history stays, the fade has no step, the last request wins. */
#include "dsp/bench.h"
#include "dsp/engine/engine_state.h"
#include "player.h"

#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { TAPS = 2000, BLOCK = 128, FADE = 512 };

static const char *const methods[] = {"direct", "fft"};

static hc_config config(const char *method)
{
    hc_config c = player_config(method, BLOCK, TAPS, 2, 2);
    c.fade_frames = FADE;
    return c;
}

struct mask {
    float *taps[2];
    hc_route routes[2];
};

static struct mask mask_of_noise(uint64_t seed, int n_taps)
{
    struct random r = random_seeded(seed);
    struct mask m;
    for (int i = 0; i < 2; i++) {
        m.taps[i] = noise(&r, n_taps);
        m.routes[i] = (hc_route){i, i, m.taps[i], n_taps, 1, 0};
    }
    return m;
}

static void mask_drop(struct mask *m)
{
    free(m->taps[0]);
    free(m->taps[1]);
}

/* Play: old mask, swap at `at`, on to the end; the whole stream is checked against the float64 crossfade. */
static void one_swap(const char *backend, const char *method, int at, const int *calls, int n_calls, int fade)
{
    struct mask a = mask_of_noise(1, TAPS), b = mask_of_noise(2, TAPS);
    hc_config c = config(method);
    c.fade_frames = fade > 0 ? fade : HC_NO_FADE;
    struct player p;
    player_open(&p, &c, backend, 9000, 3);
    player_swap(&p, player_scene(&p, a.routes, 2));
    struct scene next = player_scene(&p, b.routes, 2);
    bool swapped = false;
    for (int i = 0; p.n_frames < p.cap; i++) {
        if (!swapped && p.n_frames >= at) {
            player_swap(&p, next);
            swapped = true;
        }
        player_run_up_to(&p, calls[i % n_calls], p.cap);
    }
    player_check(&p, 0, p.cap, PEAK_SHARE);
    player_close(&p);
    mask_drop(&a);
    mask_drop(&b);
}

/* After the fade the output equals that of an engine which always had the new mask: the new tail covers the time before
 * the swap. */
static void swap_keeps_history(const char *backend)
{
    for (int m = 0; m < 2; m++) {
        struct mask a = mask_of_noise(11, TAPS), b = mask_of_noise(12, TAPS);
        hc_config c = config(methods[m]);
        struct player p, always;
        player_open(&p, &c, backend, 6144, 13);
        player_open(&always, &c, backend, 6144, 13);
        player_swap(&always, player_scene(&always, b.routes, 2));
        player_swap(&p, player_scene(&p, a.routes, 2));
        while (p.n_frames < 3072) player_run(&p, BLOCK);
        player_swap(&p, player_scene(&p, b.routes, 2));
        player_run_all(&p);
        player_run_all(&always);
        check(p.n_changes == 2 && p.changes[1].at <= 3072 + p.info.swap_delay, "%d changes", p.n_changes);
        double peak = 0;
        for (int i = 0; i < 6144; i++) peak = fmax(peak, fabs((double)always.out[0][i]));
        for (int ch = 0; ch < 2; ch++)
            for (int i = (int)p.changes[1].at + FADE; i < 6144; i++) {
                double got = (double)p.out[ch][i], want = (double)always.out[ch][i];
                check(fabs(got - want) <= PEAK_SHARE * peak, "%s %s: channel %d, frame %d: got %.9g, want %.9g",
                      backend, methods[m], ch, i, got, want);
            }
        player_check(&p, 0, 6144, PEAK_SHARE);
        player_check(&always, 0, 6144, PEAK_SHARE);
        player_close(&p);
        player_close(&always);
        mask_drop(&a);
        mask_drop(&b);
    }
}

/* The fade follows its curve frame by frame, whatever the calls. */
static void swap_follows_the_fade_curve(const char *backend)
{
    static const int whole[] = {BLOCK}, odd[] = {1, 63, 64, 65, 128, 17}, primes[] = {2, 3, 5, 7, 11, 101};
    static const int fades[] = {0, 1, 2, 100, 512, 513, 2000};
    for (int m = 0; m < 2; m++) {
        for (int f = 0; f < 7; f++) one_swap(backend, methods[m], 3000, odd, 6, fades[f]);
        one_swap(backend, methods[m], 3072, whole, 1, FADE);
        one_swap(backend, methods[m], 2999, primes, 6, FADE);
        one_swap(backend, methods[m], 1, odd, 6, FADE);
    }
}

/* The longest fade that a program can ask for lasts hours: the test begins with its first frames, and then plays its
 * last. */
static void the_longest_fade_begins_and_ends(const char *backend)
{
    const float one = 1, minus = -1;
    const hc_route routes[] = {{0, 0, &one, 1, 1, 0}, {0, 0, &minus, 1, 1, 0}};
    const float want[] = {1, 1, -1, -1, -1}; /* a block each */
    hc_config c = player_config("direct", BLOCK, 1, 1, 1);
    c.fade_frames = INT_MAX;
    struct player p;
    player_open(&p, &c, backend, 1, 4);
    struct scene scenes[] = {player_scene(&p, &routes[0], 1), player_scene(&p, &routes[1], 1)};
    for (int b = 0; b < 5; b++) {
        float frames[BLOCK], *row = frames;
        const float *in = frames;
        struct mask_swap *swap = &p.engine->swap; /* between two calls no thread plays */
        if (b < 2) hc_mask_swap(p.engine, scenes[b].mask);
        if (b == 2) swap->fade_pos = swap->fade_len - BLOCK - BLOCK / 2;
        for (int i = 0; i < BLOCK; i++) frames[i] = 1;
        check(hc_process(p.engine, &in, &row, BLOCK) == HC_OK, "block %d", b);
        for (int i = 0; i < BLOCK; i++)
            check(fabsf(frames[i] - want[b]) < 1e-5f, "%s: block %d, frame %d: %g", backend, b, i, frames[i]);
    }
    check(p.engine->swap.fade_len == 0, "the fade has not ended");
    player_close(&p);
}

/* On a held tone the largest step during the swap is no larger than that of the two tones, faded. */
static void swap_fades_without_a_step(const char *backend)
{
    for (int m = 0; m < 2; m++) {
        float one = 1, minus = -0.5f;
        hc_route a[] = {{0, 0, &one, 1, 1, 0}, {1, 1, &one, 1, 1, 0}};
        hc_route b[] = {{0, 0, &minus, 1, 1, 0}, {1, 1, &minus, 1, 1, 0}};
        hc_config c = config(methods[m]);
        struct player p;
        player_open(&p, &c, backend, 4096, 21);
        for (int ch = 0; ch < 2; ch++)
            for (int i = 0; i < 4096; i++) p.in[ch][i] = (float)cos(0.01 * i);
        player_swap(&p, player_scene(&p, a, 2));
        while (p.n_frames < 1024) player_run(&p, BLOCK);
        player_swap(&p, player_scene(&p, b, 2));
        player_run_all(&p);
        double step = 0, allowed = 0;
        for (int i = 1; i < 4096; i++) {
            step = fmax(step, fabs((double)p.out[0][i] - (double)p.out[0][i - 1]));
            allowed = fmax(allowed, fabs(player_wants(&p, 0, i) - player_wants(&p, 0, i - 1)));
        }
        check(allowed < 0.016, "the reference itself steps by %g", allowed);
        check(step <= allowed + 2e-6, "%s %s: a step of %g, the faded tones have %g", backend, methods[m], step,
              allowed);
        player_close(&p);
    }
}

static void first_swap_does_not_fade(const char *backend)
{
    struct mask a = mask_of_noise(31, TAPS), b = mask_of_noise(32, TAPS);
    hc_config c = config("auto");
    struct player p;
    player_open(&p, &c, backend, 3000, 33);
    player_swap(&p, player_scene(&p, a.routes, 2));
    player_swap(&p, player_scene(&p, b.routes, 2)); /* and the later of two is the one */
    player_run_all(&p);
    player_check(&p, 0, 3000, PEAK_SHARE);
    check(p.changes[0].len == 0, "the test's own player fades");
    player_close(&p);
    mask_drop(&a);
    mask_drop(&b);
}

/* A, then B. During the fade to B, first C and then D are requested: D follows B, and C is never played. */
static void last_swap_wins(const char *backend)
{
    for (int m = 0; m < 2; m++) {
        struct mask masks[4];
        for (int i = 0; i < 4; i++) masks[i] = mask_of_noise((uint64_t)(41 + i), TAPS - 100 * i);
        hc_config c = config(methods[m]);
        struct player p;
        player_open(&p, &c, backend, 6016, 45);
        struct scene s[4];
        for (int i = 0; i < 4; i++) s[i] = player_scene(&p, masks[i].routes, 2);
        player_swap(&p, s[0]);
        while (p.n_frames < 2048) player_run(&p, BLOCK);
        player_swap(&p, s[1]);
        player_run(&p, BLOCK);
        player_swap(&p, s[2]);
        player_run(&p, BLOCK);
        player_swap(&p, s[3]);
        player_run_all(&p);
        check(p.n_changes == 3, "%d changes", p.n_changes);
        player_check(&p, 0, p.cap, PEAK_SHARE);
        hc_get_info(p.engine, &p.info);
        check(p.info.swaps == 3, "swaps begun: %llu, want 3", (unsigned long long)p.info.swaps);
        player_close(&p);
        for (int i = 0; i < 4; i++) mask_drop(&masks[i]);
    }
}

static void swap_to_nothing_fades_to_silence(const char *backend)
{
    for (int m = 0; m < 2; m++) {
        struct mask a = mask_of_noise(51, TAPS);
        struct scene silence = {0};
        hc_config c = config(methods[m]);
        struct player p;
        player_open(&p, &c, backend, 8192, 52);
        struct scene scene = player_scene(&p, a.routes, 2);
        player_swap(&p, scene);
        while (p.n_frames < 2048) player_run(&p, BLOCK);
        player_swap(&p, silence);
        while (p.n_frames < 5120) player_run(&p, BLOCK);
        for (int i = 2048 + FADE; i < 5120; i++)
            check(p.out[0][i] == 0, "%s %s: frame %d: %g, want silence", backend, methods[m], i, (double)p.out[0][i]);
        player_swap(&p, scene); /* and back: the history went on under the silence */
        player_run_all(&p);
        player_check(&p, 0, p.cap, PEAK_SHARE);
        player_close(&p);
        mask_drop(&a);
    }
}

/* The swap comes between two calls, in the middle of a block of the engine. */
static void swap_in_mid_block(const char *backend)
{
    static const int thirds[] = {43, 43, 42}, singles[] = {1, 100, 27};
    for (int m = 0; m < 2; m++) {
        one_swap(backend, methods[m], 2 * BLOCK * 10 + 43, thirds, 3, FADE);
        one_swap(backend, methods[m], 2 * BLOCK * 10 + 1, singles, 3, 50);
    }
}

/* Long masks at a small block: the tail levels of the new mask are ready before it fades in; its tail is complete. */
static void long_masks_swap_with_their_tails(const char *backend)
{
    enum { LONG = 30000 };
    static const int odd[] = {1, 63, 64, 17};
    for (int m = 0; m < 3; m++) {
        struct mask a = mask_of_noise(141, LONG), b = mask_of_noise(142, LONG), c = mask_of_noise(143, 300);
        hc_config k = config("auto");
        k.block = 64;
        k.max_taps = LONG;
        k.n_threads = m < 2 ? 1 : 3; /* with threads at work on a mask that is already given up */
        struct player p;
        player_open(&p, &k, backend, SANITIZED ? 70000 : 160000, 144);
        struct scene scenes[] = {
            player_scene(&p, a.routes, 2), player_scene(&p, b.routes, 2), player_scene(&p, c.routes, 2), {0}};
        static const int order[] = {0, 1, 0, 2, 1, 3, 1, 1, 2, 0};
        for (int i = 0; p.n_frames < p.cap; i++) {
            if (i % 150 == 0) player_swap(&p, scenes[order[i / 150 % 10]]);
            if (i == 700) { /* in the middle of everything */
                player_check(&p, 0, p.n_frames, PEAK_SHARE);
                player_reset(&p);
                player_noise(&p, 145);
            }
            player_run_up_to(&p, m == 1 ? odd[i % 4] : 64, p.cap);
        }
        player_check(&p, 0, p.cap, PEAK_SHARE);
        check(m == 1 || p.n_changes > 4, "%d changes", p.n_changes);
        player_close(&p);
        mask_drop(&a);
        mask_drop(&b);
        mask_drop(&c);
    }
}

/* A mask is freed while threads work on its tail levels: its memory stays until they are done (for a sanitizer). */
static void freed_mask_outlives_its_threads(const char *backend)
{
    if (strcmp(backend, "cuda") == 0) check_skip("of the CPU only");
    enum { LONG = 60000, ROUNDS = 6, WINDOW = 16384 };
    hc_config c = config("auto");
    c.block = 64;
    c.max_taps = LONG;
    c.n_in = c.n_out = 4;
    c.n_routes = 16;
    c.n_threads = 3;
    c.fade_frames = HC_NO_FADE;
    struct player p;
    player_open(&p, &c, backend, (ROUNDS + 1) * WINDOW, 151);
    for (int round = 0; round < ROUNDS; round++) {
        hc_mask *mask;
        check(hc_mask_make_noise(p.engine, 0, LONG, LONG, (uint64_t)round, &mask, NULL, 0) == HC_OK, "no mask");
        hc_mask_swap(p.engine, mask);
        const float *in[4];
        float *out[4];
        for (int at = round * WINDOW; at < (round + 1) * WINDOW + 128; at += 64) {
            for (int ch = 0; ch < 4; ch++) in[ch] = p.in[ch] + at, out[ch] = p.out[ch] + at;
            if (at == (round + 1) * WINDOW) hc_mask_swap(p.engine, NULL); /* the work of this hop has just begun */
            check(hc_process(p.engine, in, out, 64) == HC_OK, "hc_process");
        }
        hc_mask_free(p.engine, mask);
        hc_reset(p.engine); /* so that the next one plays at once */
    }
    player_close(&p);
}

static void masks_of_other_shapes_swap(const char *backend)
{
    struct random r = random_seeded(61);
    float *h = noise(&r, TAPS);
    hc_route diagonal[] = {{0, 0, h, 5, 1, 0}, {1, 1, h, TAPS, 1, 0}};
    hc_route crossed[] = {{0, 1, h, TAPS, -1, 0}, {1, 0, h, 700, 1, 1000}, {0, 0, h, 1, 0.5f, 1999}};
    for (int m = 0; m < 2; m++) {
        hc_config c = config(methods[m]);
        struct player p;
        player_open(&p, &c, backend, 9000, 62);
        struct scene s[] = {player_scene(&p, diagonal, 2), player_scene(&p, crossed, 3)};
        for (int i = 0; p.n_frames + 900 <= p.cap; i++) {
            player_swap(&p, s[i & 1]);
            for (int j = 0; j < 9; j++) player_run(&p, 100);
        }
        player_check(&p, 0, p.n_frames, PEAK_SHARE);
        player_close(&p);
    }
    free(h);
}

/* A mask that is freed while it plays goes on until the next one has faded in. */
static void freed_mask_plays_on(const char *backend)
{
    struct mask a = mask_of_noise(71, TAPS), b = mask_of_noise(72, TAPS);
    hc_config c = config("fft");
    struct player p;
    player_open(&p, &c, backend, 6000, 73);
    struct scene first = player_scene(&p, a.routes, 2), second = player_scene(&p, b.routes, 2);
    player_swap(&p, first);
    player_run(&p, 100);
    hc_mask_free(p.engine, first.mask);
    while (p.n_frames < 2500) player_run(&p, 100);
    player_swap(&p, second);
    hc_mask_free(p.engine, second.mask); /* asked for, not yet begun */
    player_run_all(&p);
    player_check(&p, 0, p.n_frames, PEAK_SHARE);
    hc_mask_free(p.engine, NULL);
    player_close(&p);
    mask_drop(&a);
    mask_drop(&b);
}

static void reset_forgets(const char *backend)
{
    for (int m = 0; m < 2; m++) {
        struct mask a = mask_of_noise(81, TAPS), b = mask_of_noise(82, TAPS);
        hc_config c = config(methods[m]);
        struct player p;
        player_open(&p, &c, backend, 5000, 83);
        player_swap(&p, player_scene(&p, a.routes, 2));
        for (int i = 0; i < 20; i++) player_run(&p, 77);
        player_reset(&p); /* the mask stays, the sound before is gone */
        player_noise(&p, 84);
        for (int i = 0; i < 20; i++) player_run(&p, 101);
        player_swap(&p, player_scene(&p, b.routes, 2));
        player_run(&p, 99); /* in mid-fade: b it is */
        player_check(&p, 0, p.n_frames, PEAK_SHARE);
        player_reset(&p);
        player_noise(&p, 85);
        player_run_all(&p);
        player_check(&p, 0, p.n_frames, PEAK_SHARE);
        player_reset(&p); /* the first swap after a reset does not fade */
        player_swap(&p, player_scene(&p, a.routes, 2));
        player_run_all(&p);
        player_check(&p, 0, p.n_frames, PEAK_SHARE);
        player_close(&p);
        mask_drop(&a);
        mask_drop(&b);
    }
}

/* ---- other threads make and swap masks while audio plays --------------------------------------------------------- */

struct storm {
    hc_engine *engine;
    uint64_t seed;
    atomic_bool stop;
    atomic_int made, failed;
};

/* Makes masks that add up to a gain of 1 or less, swaps each in, gives it up. */
static void *storm_turns(void *arg)
{
    struct storm *s = arg;
    struct random r = random_seeded(s->seed);
    float *taps = must_alloc(TAPS, sizeof *taps);
    while (!atomic_load(&s->stop)) {
        int n = random_int(&r, 1, TAPS);
        for (int i = 0; i < n; i++) taps[i] = 1.0f / (float)n;
        hc_route routes[] = {{0, 0, taps, n, 1, 0}, {1, 1, taps, n, 1, 0}};
        hc_mask *mask;
        if (hc_mask_make(s->engine, routes, sizeof *routes, 2, &mask, NULL, 0) != HC_OK) {
            atomic_fetch_add(&s->failed, 1);
            break;
        }
        /* Only one thread swaps: a mask of another thread might be freed between its swap and ours. */
        if (hc_mask_swap(s->engine, random_int(&r, 0, 9) ? mask : NULL) != HC_OK) atomic_fetch_add(&s->failed, 1);
        hc_mask_free(s->engine, mask);
        atomic_fetch_add(&s->made, 1);
    }
    free(taps);
    return NULL;
}

/* Makes masks and frees them without playing them. */
static void *storm_makes(void *arg)
{
    struct storm *s = arg;
    struct random r = random_seeded(s->seed);
    float *taps = noise(&r, TAPS);
    while (!atomic_load(&s->stop)) {
        hc_route routes[] = {{0, 1, taps, random_int(&r, 1, TAPS), 1, 0}};
        hc_mask *mask;
        if (hc_mask_make(s->engine, routes, sizeof *routes, 1, &mask, NULL, 0) != HC_OK)
            atomic_fetch_add(&s->failed, 1);
        else
            hc_mask_free(s->engine, mask);
        atomic_fetch_add(&s->made, 1);
    }
    free(taps);
    return NULL;
}

static void swap_storm_keeps_the_audio_whole(const char *backend)
{
    for (int m = 0; m < 3; m++) {
        hc_config c = config(methods[m > 0]);
        c.n_threads = m < 2 ? 1 : 3;
        c.fade_frames = m < 2 ? 64 : HC_NO_FADE;
        struct player p;
        player_open(&p, &c, backend, 1, 91);
        struct storm turns = {.engine = p.engine, .seed = 92}, makes = {.engine = p.engine, .seed = 93};
        pthread_t a, b;
        check(pthread_create(&a, NULL, storm_turns, &turns) == 0, "pthread_create");
        check(pthread_create(&b, NULL, storm_makes, &makes) == 0, "pthread_create");
        float left[BLOCK], right[BLOCK];
        double worst = 0;
        int bad = 0, calls = 0;
        struct random r = random_seeded(94);
        hc_info info = {.size = sizeof info};
        time_t start = time(NULL); /* on one core the threads take turns of milliseconds */
        while (bad == 0 && (calls < 3000 || (info.swaps < 20 && time(NULL) - start < 30))) {
            int n = random_int(&r, 1, BLOCK);
            if (calls % 64 == 0) hc_get_info(p.engine, &info);
            for (int i = 0; i < n; i++) left[i] = right[i] = 1;
            const float *in[] = {left, right};
            float *out[] = {left, right};
            if (hc_process(p.engine, in, out, n) != HC_OK) bad++;
            for (int i = 0; i < n; i++) {
                worst = fmax(worst, fabs((double)left[i]));
                if (!(fabs((double)left[i]) <= 1.0001)) bad++;
            }
            calls++;
        }
        atomic_store(&turns.stop, true);
        atomic_store(&makes.stop, true);
        pthread_join(a, NULL);
        pthread_join(b, NULL);
        check(bad == 0, "%s %s: output of a mask of gain 1 reached %g (or a call failed) after %d calls", backend,
              methods[m > 0], worst, calls);
        check(atomic_load(&turns.failed) + atomic_load(&makes.failed) == 0, "a call of the storm failed");
        check(info.swaps >= 20, "%s %s: %d swaps asked for, %llu played in %d calls", backend, methods[m > 0],
              atomic_load(&turns.made), (unsigned long long)info.swaps, calls);
        player_close(&p);
    }
}

int main(void)
{
    static const struct test tests[] = {
        TEST(swap_keeps_history, true),
        TEST(swap_follows_the_fade_curve, true),
        TEST(the_longest_fade_begins_and_ends, true),
        TEST(swap_fades_without_a_step, true),
        TEST(first_swap_does_not_fade, true),
        TEST(last_swap_wins, true),
        TEST(swap_to_nothing_fades_to_silence, true),
        TEST(swap_in_mid_block, true),
        TEST(long_masks_swap_with_their_tails, true),
        TEST(freed_mask_outlives_its_threads, true),
        TEST(masks_of_other_shapes_swap, true),
        TEST(freed_mask_plays_on, true),
        TEST(reset_forgets, true),
        TEST(swap_storm_keeps_the_audio_whole, true),
    };
    return check_main("swap", tests, sizeof tests / sizeof *tests);
}
