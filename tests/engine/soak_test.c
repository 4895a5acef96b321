/* A long random run: engines of random shape, random calls, swaps, resets and NaN; every stream is compared with the
 * reference. HC_SOAK_SECONDS (2) is the time for each backend. Stream i has the seed HC_TEST_SEED + i, so that the seed
 * printed by a failure makes its stream the first one. */
#include "moving.h"
#include "player.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static void one_stream(const char *backend, uint64_t seed)
{
    enum { MASKS = 4, ROUTES = 6 };
    static const char *methods[] = {"auto", "direct", "fft"};
    struct random r = random_seeded(seed);
    hc_config c;
    hc_config_init(&c);
    c.method = methods[random_int(&r, 0, 2)];
    c.block = random_int(&r, 0, 9) ? random_int(&r, 1, random_int(&r, 0, 1) ? 130 : 2000) : HC_BLOCK_FILES;
    if (c.block == HC_BLOCK_FILES) backend = backend_for_files(backend);
    c.max_taps = random_int(&r, 1, random_int(&r, 0, 3) ? 600 : 9000);
    c.n_routes = random_int(&r, 0, 2) ? 0 : 1 << 14; /* a hint that makes the plan use tail levels */
    c.n_in = random_int(&r, 1, 4);
    c.n_out = random_int(&r, 1, 4);
    c.fade_frames = random_int(&r, 0, 700);
    if (c.fade_frames == 0) c.fade_frames = HC_NO_FADE;
    int cap = random_int(&r, 100, 6000);
    struct player p;
    player_open(&p, &c, backend, cap, seed);

    float *taps[MASKS];
    hc_route routes[MASKS][ROUTES];
    struct scene scenes[MASKS + 1] = {0}; /* the last is silence */
    for (int m = 0; m < MASKS; m++) {
        taps[m] = noise(&r, c.max_taps);
        int n = random_int(&r, 0, ROUTES);
        for (int i = 0; i < n; i++) {
            int len = random_int(&r, 1, c.max_taps);
            routes[m][i] = (hc_route){random_int(&r, 0, c.n_in - 1),
                                      random_int(&r, 0, c.n_out - 1),
                                      taps[m] + random_int(&r, 0, c.max_taps - len),
                                      len,
                                      random_sample(&r),
                                      random_int(&r, 0, c.max_taps - len)};
        }
        scenes[m] = player_scene(&p, routes[m], n);
        /* A short stream may end before a delayed response begins. The tolerance then comes from the expected peak of
         * noise through the mask. */
        double energy = 0;
        for (int i = 0; i < n; i++)
            for (int k = 0; k < routes[m][i].n_taps; k++)
                energy += pow((double)routes[m][i].gain * (double)routes[m][i].taps[k], 2);
        p.loudness = fmax(p.loudness, sqrt(energy / 3));
    }
    int block = p.info.block, swaps = 0, resets = 0, mostly = random_int(&r, 1, block < 3000 ? block : 3000);
    while (p.n_frames < cap) {
        if (random_int(&r, 0, 12) == 0 && swaps < PLAYER_SWAPS - 4) {
            player_swap(&p, scenes[random_int(&r, 0, MASKS)]);
            swaps++;
        }
        if (random_int(&r, 0, 300) == 0 && p.n_frames > 500 && resets++ < 2) { /* less has no peak to speak of */
            player_check(&p, 0, p.n_frames, PEAK_SHARE);
            player_reset(&p);
            swaps = 0;
        }
        player_run_up_to(&p, random_int(&r, 0, 2) ? mostly : random_int(&r, 0, block), cap);
    }
    player_check(&p, 0, p.n_frames, PEAK_SHARE);
    player_close(&p);
    for (int m = 0; m < MASKS; m++) free(taps[m]);
}

/* Sources of random shape, steered at random between banks, with resets. */
static void one_stream_of_sources(const char *backend, uint64_t seed)
{
    enum { BANKS = 3 };
    static const int rates[] = {16000, 44100, 48000, 96000};
    struct random r = random_seeded(seed);
    int block = random_int(&r, 1, random_int(&r, 0, 1) ? 130 : 2000);
    hc_config c = moving_config(block, random_int(&r, 1, random_int(&r, 0, 1) ? 600 : 9000), random_int(&r, 1, 3),
                                random_int(&r, 1, 3));
    c.rate = rates[random_int(&r, 0, 3)];
    c.n_in += random_int(&r, 0, 1);
    c.steer_fade = random_int(&r, 0, 1) ? random_int(&r, 1, 3 * block) : random_int(&r, 0, 2000);
    c.n_threads = random_int(&r, 0, 2);
    struct moving m;
    struct moving_bank banks[BANKS];
    moving_open(&m, &c, backend, random_int(&r, 100, 12000), seed);
    for (int i = 0; i < BANKS; i++)
        moving_bank(&m, &banks[i], random_int(&r, 1, 30), random_int(&r, 1, c.n_out), random_int(&r, 1, c.bank_taps),
                    seed + (uint64_t)i);
    int rarely = random_int(&r, 0, 10), mostly = random_int(&r, 1, block), resets = 0;
    while (m.n_frames < m.cap) {
        for (int s = 0; s < c.n_sources; s++) {
            if (random_int(&r, 0, rarely) > 0) continue;
            if (random_int(&r, 0, 20) == 0)
                moving_steer(&m, s, NULL, NULL, NULL, 0);
            else
                moving_steer_any(&m, s, &banks[random_int(&r, 0, BANKS - 1)], HC_MAX_MIX);
        }
        if (random_int(&r, 0, 300) == 0 && resets++ < 2) moving_reset(&m);
        moving_play(&m, random_int(&r, 0, 2) ? mostly : random_int(&r, 0, block));
    }
    moving_check(&m);
    moving_close(&m);
    for (int i = 0; i < BANKS; i++) moving_bank_free(&banks[i]);
}

static void random_streams_match_reference(const char *backend)
{
    const char *asked = getenv("HC_SOAK_SECONDS"); /* unset: the same streams on each machine */
    double until = asked ? now_s() + atof(asked) : 0;
    int n = 0;
    for (; now_s() < until || n < (asked ? 20 : 60); n++) {
        if (n % 3 == 2)
            one_stream_of_sources(backend, 1000);
        else
            one_stream(backend, 1000);
        test_seed_next();
    }
    printf("    %d streams, the next HC_TEST_SEED is %llu\n", n, (unsigned long long)test_seed());
}

int main(void)
{
    static const struct test tests[] = {TEST(random_streams_match_reference, true)};
    return check_main("soak", tests, 1);
}
