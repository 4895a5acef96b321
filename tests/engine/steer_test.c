/* Steered sources: the promises of haloconv_scenes.h, on every backend. tests/tools/moving.c has the definition of a
 * right output in float64. */
#include "dsp/scene/device_bank.h"
#include "dsp/signal/transform.h"
#include "moving.h"

#include <float.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 64, TAPS = 3000, FRAMES = SANITIZED ? 3000 : 6000 };

static const int both[] = {0, 1};

/* Plays the whole input in calls of n frames. Each source gets a random mix with the probability 1 / `rarely` a call. */
static void play_steered(struct moving *m, const struct moving_bank *bank, int n, int rarely)
{
    while (m->n_frames < m->cap) {
        for (int i = 0; i < m->config.n_sources; i++)
            if (random_int(&m->random, 1, rarely) == 1) moving_steer_any(m, i, bank, HC_MAX_MIX);
        moving_play(m, n ? n : random_int(&m->random, 1, m->config.block));
    }
}

/* One engine, one bank, random requests; every frame is compared with the definition. n = 0: calls of random sizes. */
static void run_random(const char *backend, hc_config c, int frames, int n, int rarely, uint64_t seed)
{
    struct moving m;
    struct moving_bank bank;
    moving_open(&m, &c, backend, frames, seed);
    moving_bank(&m, &bank, 6, c.n_out, c.bank_taps, seed + 1);
    play_steered(&m, &bank, n, rarely);
    moving_check(&m);
    moving_close(&m);
    moving_bank_free(&bank);
}

/* ---- the definition ---------------------------------------------------------------------------------------------- */

static void every_source_is_steered_every_block(const char *backend)
{
    run_random(backend, moving_config(BLOCK, TAPS, 3, 2), FRAMES, BLOCK, 1, 1);
    run_random(backend, moving_config(BLOCK, 200, 2, 3), FRAMES / 2, BLOCK, 1, 2);
    run_random(backend, moving_config(BLOCK, 1, 1, 1), FRAMES / 2, BLOCK, 1, 3);
}

/* Shorter than a block, equal, longer, no multiple of the block, longer than a hop of the tail. */
static void fades_of_every_length(const char *backend)
{
    static const int fades[] = {1, 32, 64, 65, 200, 600, 2000};
    for (int i = 0; i < 7; i++) {
        hc_config c = moving_config(BLOCK, TAPS, 2, 2);
        c.steer_fade = fades[i];
        run_random(backend, c, FRAMES, BLOCK, i % 2 ? 1 : 20, 10 + (uint64_t)i);
    }
}

static void calls_of_every_size(const char *backend)
{
    run_random(backend, moving_config(BLOCK, TAPS, 2, 2), FRAMES, 0, 3, 20);
    run_random(backend, moving_config(BLOCK, TAPS, 2, 2), FRAMES, 63, 2, 21);
    run_random(backend, moving_config(BLOCK, TAPS, 1, 1), FRAMES / 2, 1, 5, 22);
}

static void blocks_and_rates_of_every_kind(const char *backend)
{
    static const int blocks[] = {1, 16, 48, 100, 512, 1024}, rates[] = {16000, 44100, 48000, 96000, 192000};
    for (int i = 0; i < 6; i++) {
        hc_config c = moving_config(blocks[i], i ? TAPS : 700, 2, 2);
        run_random(backend, c, i ? FRAMES : FRAMES / 2, i % 2 ? blocks[i] : 0, 1 + i % 3, 30 + (uint64_t)i);
    }
    for (int i = 0; i < 5; i++) {
        hc_config c = moving_config(BLOCK, 2 * TAPS, 2, 1);
        c.rate = rates[i];
        run_random(backend, c, 2 * FRAMES, BLOCK, 2, 40 + (uint64_t)i);
    }
}

static void a_change_during_a_fade_starts_from_what_is_heard(const char *backend)
{
    hc_config c = moving_config(BLOCK, TAPS, 1, 2);
    c.steer_fade = 10 * BLOCK;
    struct moving m;
    struct moving_bank bank;
    moving_open(&m, &c, backend, FRAMES, 50);
    moving_bank(&m, &bank, 6, 2, TAPS, 51);
    for (int i = 0; m.n_frames < m.cap; i++) {
        if (i % 4 == 0) moving_steer_one(&m, 0, &bank, i / 4 % bank.n_entries);
        moving_play(&m, BLOCK);
    }
    moving_check(&m);
    moving_close(&m);
    moving_bank_free(&bank);
}

/* Ten mixes of four in a fade of 20 blocks are up to 40 entries. */
static void more_entries_than_may_sound_wait(const char *backend)
{
    hc_config c = moving_config(BLOCK, TAPS, 2, 1);
    c.steer_fade = 20 * BLOCK;
    struct moving m;
    struct moving_bank bank;
    moving_open(&m, &c, backend, 2 * FRAMES, 60);
    moving_bank(&m, &bank, 60, 1, TAPS, 61);
    for (int i = 0; m.n_frames < m.cap; i++) {
        int entry[HC_MAX_MIX];
        for (int k = 0; k < HC_MAX_MIX; k++) entry[k] = (4 * i + k) % bank.n_entries;
        if (i % 30 < 10) moving_steer(&m, 0, &bank, entry, NULL, HC_MAX_MIX);
        if (i % 30 == 9) moving_steer(&m, 1, &bank, (int[]){7, 7, 8, 7}, (float[]){0.5f, 0.25f, 1, 1}, 4);
        moving_play(&m, BLOCK);
    }
    moving_check(&m);
    moving_close(&m);
    moving_bank_free(&bank);
}

/* A repeated request changes nothing, and does not begin its fade anew. */
static void the_same_request_again_is_no_change(const char *backend)
{
    hc_config c = moving_config(BLOCK, 500, 1, 1);
    c.steer_fade = 8 * BLOCK;
    struct moving m;
    struct moving_bank bank;
    moving_open(&m, &c, backend, FRAMES, 70);
    moving_bank(&m, &bank, 3, 1, 500, 71);
    moving_steer_one(&m, 0, &bank, 0);
    moving_play_to(&m, 10 * BLOCK, BLOCK);
    for (int i = 0; i < 8; i++) {
        moving_steer_one(&m, 0, &bank, 1);
        moving_play(&m, BLOCK);
    }
    moving_check(&m);
    double *after = must_alloc((size_t)m.cap, sizeof *after), peak = 0;
    moving_play_to(&m, m.cap, BLOCK);
    moving_check(&m);
    moving_convolve(m.in[0], m.cap, bank.taps[1], 0, 500, after);
    for (int i = 0; i < m.cap; i++) peak = fmax(peak, fabs(after[i]));
    int level = m.info.steer_levels[m.info.n_steer_levels - 1].delay + m.info.steer_levels[0].hop;
    for (int i = 18 * BLOCK + level; i < m.cap; i++)
        check(fabs(after[i] - (double)m.out[0][i]) <= PEAK_SHARE * peak, "frame %d: the fade is not over", i);
    free(after);
    moving_close(&m);
    moving_bank_free(&bank);
}

/* ---- requests ---------------------------------------------------------------------------------------------------- */

/* The first frame in which two outputs differ by more than rounding. */
static int first_difference(const float *a, const float *b, int n)
{
    for (int i = 0; i < n; i++)
        if (!(fabs((double)a[i] - (double)b[i]) <= 1e-5)) return i;
    return n;
}

/* Two engines play the same; one is steered when `at` frames have been played, in calls of n frames. */
static int first_changed(const char *backend, int at, int n)
{
    hc_config c = moving_config(BLOCK, 1000, 1, 1);
    struct moving a, b;
    struct moving_bank bank;
    moving_open(&a, &c, backend, 40 * BLOCK, 80);
    moving_open(&b, &c, backend, 40 * BLOCK, 80);
    moving_bank(&a, &bank, 2, 1, 1000, 81);
    moving_steer_one(&a, 0, &bank, 0);
    moving_steer_one(&b, 0, &bank, 0);
    moving_play_to(&a, at, n);
    moving_play_to(&b, at, n);
    moving_steer_one(&b, 0, &bank, 1);
    moving_play_to(&a, a.cap, n);
    moving_play_to(&b, b.cap, n);
    moving_check(&b);
    int first = first_difference(a.out[0], b.out[0], a.cap);
    moving_close(&a);
    moving_close(&b);
    moving_bank_free(&bank);
    return first;
}

static void a_request_is_heard_with_the_next_block(const char *backend)
{
    static const int at[] = {20 * BLOCK, 21 * BLOCK, 20 * BLOCK + 1, 20 * BLOCK + 16, 21 * BLOCK - 1};
    static const int calls[] = {BLOCK, BLOCK, 1, 16, 7};
    for (int i = 0; i < 5; i++) {
        int first = first_changed(backend, at[i], calls[i]), want = (at[i] + BLOCK - 1) / BLOCK * BLOCK;
        /* The fade begins at 1 / BLOCK, times a difference that may be near 0. */
        check(first >= want && first <= want + 2, "%s: a request at frame %d is heard from frame %d on, want %d",
              backend, at[i], first, want);
    }
}

static void the_last_request_wins(const char *backend)
{
    hc_config c = moving_config(BLOCK, TAPS, 2, 2);
    struct moving m;
    struct moving_bank bank;
    moving_open(&m, &c, backend, FRAMES, 90);
    moving_bank(&m, &bank, 8, 2, TAPS, 91);
    while (m.n_frames < m.cap) {
        for (int i = random_int(&m.random, 0, 9); i > 0; i--) moving_steer_all(&m, &bank, HC_MAX_MIX);
        moving_play(&m, random_int(&m.random, 1, BLOCK));
    }
    moving_check(&m);
    moving_close(&m);
    moving_bank_free(&bank);
}

static void no_entries_are_silence(const char *backend)
{
    hc_config c = moving_config(BLOCK, TAPS, 2, 1);
    struct moving m;
    struct moving_bank bank;
    moving_open(&m, &c, backend, FRAMES, 100);
    moving_bank(&m, &bank, 2, 1, TAPS, 101);
    moving_play_to(&m, 5 * BLOCK, BLOCK);
    for (int i = 0; i < 5 * BLOCK; i++) check(m.out[0][i] == 0, "frame %d is not silent before a request", i);
    moving_steer_one(&m, 0, &bank, 0);
    moving_steer_one(&m, 1, &bank, 1);
    moving_play_to(&m, 25 * BLOCK, BLOCK);
    moving_steer(&m, 0, NULL, NULL, NULL, 0);
    moving_steer(&m, 1, &bank, both, (float[]){0, 0}, 2);
    moving_play_to(&m, m.cap, BLOCK);
    moving_check(&m);
    int silent = 26 * BLOCK + 2 * m.info.steer_levels[m.info.n_steer_levels - 1].hop + BLOCK;
    for (int i = silent; i < m.cap; i++) /* no spectrum, so no rounding either */
        check(m.out[0][i] == 0, "frame %d is %g after all sources fell silent", i, (double)m.out[0][i]);
    moving_close(&m);
    moving_bank_free(&bank);
}

/* Weight 0 beside others, before and after the bank is freed. */
static void entries_of_weight_0_hold_no_bank(const char *backend)
{
    hc_config c = moving_config(BLOCK, 500, 1, 1);
    struct moving m;
    struct moving_bank bank, other;
    hc_info info = {.size = sizeof info};
    moving_open(&m, &c, backend, 60 * BLOCK, 105);
    moving_bank(&m, &bank, 2, 1, 500, 106);
    moving_bank(&m, &other, 2, 1, 500, 107);
    moving_steer_one(&m, 0, &bank, 0);
    moving_play_to(&m, 4 * BLOCK, BLOCK);
    moving_steer(&m, 0, NULL, NULL, NULL, 0);
    moving_play_to(&m, 20 * BLOCK, BLOCK);
    moving_steer(&m, 0, &bank, both, (float[]){0, 0}, 2); /* silence is no change */
    moving_play_to(&m, 24 * BLOCK, BLOCK);
    moving_steer(&m, 0, NULL, NULL, NULL, 0);
    moving_play_to(&m, 40 * BLOCK, BLOCK);
    hc_bank_free(bank.bank);
    bank.bank = NULL;
    hc_get_info(m.engine, &info);
    check(info.bank_memory == other.bank->bytes, "the bank is still there");
    moving_steer_one(&m, 0, &other, 1);
    moving_play_to(&m, m.cap, BLOCK);
    moving_check(&m);
    moving_close(&m);
    moving_bank_free(&bank);
    moving_bank_free(&other);
}

static void the_first_request_does_not_fade(const char *backend)
{
    hc_config c = moving_config(BLOCK, 1, 1, 1);
    c.steer_fade = 1000;
    struct moving m;
    struct moving_bank bank;
    moving_open(&m, &c, backend, 20 * BLOCK, 110);
    moving_bank(&m, &bank, 2, 1, 1, 111);
    moving_steer_one(&m, 0, &bank, 0);
    moving_play_to(&m, m.cap, 60);
    moving_check(&m);
    double want = (double)m.in[0][0] * (double)bank.taps[0][0];
    check(fabs((double)m.out[0][0] - want) <= 1e-6, "the first frame is %g, want %g", (double)m.out[0][0], want);
    moving_close(&m);
    moving_bank_free(&bank);
}

/* Also a reset in the middle of a block, of a fade, and with more entries sounding than a request leaves room for. */
static void reset_forgets_the_input_and_keeps_the_requests(const char *backend)
{
    static const int at[] = {40 * BLOCK, 50 * BLOCK + 17, BLOCK, 7 * BLOCK};
    hc_config c = moving_config(BLOCK, TAPS, 3, 2);
    c.steer_fade = 5 * BLOCK;
    struct moving m;
    struct moving_bank bank;
    moving_open(&m, &c, backend, 60 * BLOCK, 120);
    moving_bank(&m, &bank, 30, 2, TAPS, 121);
    for (int i = 0; i < 4; i++) {
        moving_steer_all(&m, &bank, HC_MAX_MIX);
        while (m.n_frames < at[i]) {
            if (m.n_frames > at[i] - 5 * BLOCK) moving_steer_any(&m, 0, &bank, HC_MAX_MIX);
            if (random_int(&m.random, 0, 4) == 0) moving_steer_any(&m, 1, &bank, HC_MAX_MIX);
            moving_play(&m, at[i] - m.n_frames < BLOCK ? at[i] - m.n_frames : BLOCK);
        }
        if (i % 2) moving_steer_any(&m, 2, &bank, 4); /* pending during the reset */
        moving_reset(&m);
    }
    moving_play_to(&m, 30 * BLOCK, BLOCK);
    moving_check(&m);
    moving_close(&m);
    moving_bank_free(&bank);
}

/* ---- banks ------------------------------------------------------------------------------------------------------- */

static void a_bank_is_shared_by_engines_and_sources(const char *backend)
{
    hc_config c = moving_config(BLOCK, TAPS, 3, 2);
    struct moving a, b;
    struct moving_bank bank;
    moving_open(&a, &c, backend, FRAMES / 2, 130);
    moving_open(&b, &c, backend, FRAMES / 2, 131);
    moving_bank(&a, &bank, 2, 2, TAPS, 132);
    while (a.n_frames < a.cap) {
        moving_steer_all(&a, &bank, 2);
        moving_steer_all(&b, &bank, 2);
        moving_play(&a, BLOCK);
        moving_play(&b, BLOCK);
    }
    moving_check(&a);
    moving_check(&b);
    moving_close(&a); /* the bank outlives the engine that made it */
    hc_bank_data data = moving_data(&bank);
    hc_bank *again;
    check(hc_bank_make(b.engine, &data, &again, NULL, 0) == HC_OK, "hc_bank_make");
    hc_bank_free(again);
    moving_reset(&b);
    moving_steer_all(&b, &bank, 2);
    moving_play_to(&b, b.cap, BLOCK);
    moving_check(&b);
    moving_close(&b);
    check(bank.bank->bytes > 0, "no memory");
    moving_bank_free(&bank);
}

static void steering_goes_from_bank_to_bank(const char *backend)
{
    hc_config c = moving_config(BLOCK, TAPS, 3, 3);
    struct moving m;
    struct moving_bank banks[3];
    static const int n_taps[] = {TAPS, 300, 1500}, n_out[] = {3, 2, 1};
    moving_open(&m, &c, backend, FRAMES, 140);
    for (int i = 0; i < 3; i++) moving_bank(&m, &banks[i], 4, n_out[i], n_taps[i], 141 + (uint64_t)i);
    while (m.n_frames < m.cap) {
        for (int s = 0; s < 3; s++)
            if (random_int(&m.random, 0, 2) == 0) moving_steer_any(&m, s, &banks[random_int(&m.random, 0, 2)], 4);
        moving_play(&m, BLOCK);
    }
    moving_check(&m);
    moving_close(&m);
    for (int i = 0; i < 3; i++) moving_bank_free(&banks[i]);
}

/* A bank with fewer outputs adds nothing to the others. */
static void a_bank_of_fewer_outputs_leaves_the_others(const char *backend)
{
    hc_config c = moving_config(BLOCK, TAPS, 1, 4);
    struct moving m;
    struct moving_bank bank;
    moving_open(&m, &c, backend, FRAMES / 2, 150);
    moving_bank(&m, &bank, 3, 2, TAPS, 151);
    play_steered(&m, &bank, BLOCK, 1);
    moving_check(&m);
    for (int i = 0; i < m.cap; i++)
        check(m.out[2][i] == 0 && m.out[3][i] == 0, "frame %d: %g, %g", i, (double)m.out[2][i], (double)m.out[3][i]);
    moving_close(&m);
    moving_bank_free(&bank);
}

static uint64_t bank_memory(const struct moving *m)
{
    hc_info info = {.size = sizeof info};
    hc_get_info(m->engine, &info);
    return info.bank_memory;
}

static void a_freed_bank_plays_until_no_source_plays_it(const char *backend)
{
    hc_config c = moving_config(BLOCK, TAPS, 2, 2);
    struct moving m;
    struct moving_bank bank, other;
    moving_open(&m, &c, backend, 200 * BLOCK, 160);
    moving_bank(&m, &bank, 4, 2, TAPS, 161);
    moving_bank(&m, &other, 4, 2, TAPS, 162);
    moving_steer_all(&m, &bank, 4);
    moving_play_to(&m, 20 * BLOCK, BLOCK);
    uint64_t first = bank.bank->bytes, second = other.bank->bytes;
    check(first >= 4ull * 4 * 2 * TAPS && bank_memory(&m) == first + second, "%llu and %llu bytes, in all %llu",
          (unsigned long long)first, (unsigned long long)second, (unsigned long long)bank_memory(&m));
    hc_bank_free(bank.bank);
    bank.bank = NULL;
    moving_play_to(&m, 60 * BLOCK, BLOCK);
    check(bank_memory(&m) == first + second, "a bank that plays was freed");
    moving_steer_all(&m, &other, 4);
    moving_play_to(&m, 61 * BLOCK + 3, BLOCK);
    hc_bank_free(NULL); /* the fade is under way */
    moving_play_to(&m, 100 * BLOCK, BLOCK);
    hc_bank_free(NULL);
    check(bank_memory(&m) == second, "%llu bytes are left, want %llu", (unsigned long long)bank_memory(&m),
          (unsigned long long)second);
    moving_play_to(&m, m.cap, BLOCK);
    moving_check(&m);
    moving_steer_all(&m, &other, 1); /* pending when the engine closes */
    moving_close(&m);
    moving_bank_free(&bank);
    moving_bank_free(&other);
}

static void a_bank_that_never_plays_is_freed_at_once(const char *backend)
{
    hc_config c = moving_config(BLOCK, TAPS, 1, 1);
    struct moving m;
    struct moving_bank bank, other;
    moving_open(&m, &c, backend, 20 * BLOCK, 170);
    moving_bank(&m, &bank, 1, 1, TAPS, 171);
    moving_bank(&m, &other, 1, 1, TAPS, 172);
    moving_steer_one(&m, 0, &bank, 0);
    moving_steer_one(&m, 0, &other, 0); /* replaces the request */
    hc_bank_free(bank.bank);
    bank.bank = NULL;
    check(bank_memory(&m) == other.bank->bytes, "a replaced request holds its bank");
    moving_play_to(&m, m.cap, BLOCK);
    moving_steer(&m, 0, NULL, NULL, NULL, 0);
    hc_bank_free(other.bank);
    other.bank = NULL;
    check(bank_memory(&m) > 0, "a bank that plays was freed");
    moving_close(&m);
    moving_bank_free(&bank);
    moving_bank_free(&other);
}

/* ---- beside a mask ----------------------------------------------------------------------------------------------- */

/* Engine 0 plays sources and masks, engine 1 the sources, engine 2 the masks: 0 is the sum of 1 and 2. Input 2 is no
 * source. */
static void a_mask_plays_and_swaps_beside_sources(const char *backend)
{
    struct moving m[3];
    struct moving_bank banks[2];
    struct random r = random_seeded(180);
    float *taps = noise(&r, TAPS);
    hc_mask *masks[3][2];
    for (int e = 0; e < 3; e++) {
        hc_config c = moving_config(BLOCK, TAPS, 3, 2);
        c.n_sources = 2; /* those of engine 2 are silent: without sources a GPU may swap masks at another frame */
        c.max_taps = e == 1 ? 1 : TAPS;
        c.fade_frames = 100;
        moving_open(&m[e], &c, backend, FRAMES, 181);
        if (e < 2) moving_bank(&m[e], &banks[e], 4, 2, TAPS, 182);
        for (int k = 0; k < 2 && e != 1; k++) {
            hc_route routes[] = {{2, 0, taps + k, TAPS - 1, 0.5f, 0}, {0, 1, taps, 700, 1, 5 * k}};
            check(hc_mask_make(m[e].engine, routes, sizeof *routes, 2, &masks[e][k], NULL, 0) == HC_OK, "hc_mask_make");
        }
    }
    for (int i = 0; m[0].n_frames < m[0].cap; i++) {
        for (int s = 0; s < 2; s++) {
            struct random same = m[0].random;
            moving_steer_any(&m[0], s, &banks[0], 4);
            m[1].random = same;
            moving_steer_any(&m[1], s, &banks[1], 4);
        }
        for (int e = 0; e < 3; e++) {
            if (i % 30 == 0 && e != 1) hc_mask_swap(m[e].engine, masks[e][i / 30 % 2]);
            moving_play(&m[e], BLOCK);
        }
    }
    moving_check(&m[1]);
    double peak = 0;
    for (int i = 0; i < 2 * FRAMES; i++) peak = fmax(peak, fabs((double)m[0].out[i / FRAMES][i % FRAMES]));
    for (int i = 0; i < 2 * FRAMES; i++) {
        int o = i / FRAMES, at = i % FRAMES;
        double want = (double)m[1].out[o][at] + (double)m[2].out[o][at], got = (double)m[0].out[o][at];
        check(fabs(got - want) <= PEAK_SHARE * peak, "output %d, frame %d: %g, want %g", o, at, got, want);
    }
    for (int e = 0; e < 3; e++) moving_close(&m[e]);
    for (int e = 0; e < 2; e++) moving_bank_free(&banks[e]);
    free(taps);
}

/* ---- the time that a change takes -------------------------------------------------------------------------------- */

/* A bank of 0.5 s, steered at every place within a hop of the tail: 20 ms after the call that plays the request, only
 * the new entry is heard. */
static void half_a_second_changes_within_20_ms(const char *backend)
{
    static const int rates[] = {44100, 48000, 96000};
    for (int i = 0; i < 3; i++) {
        int rate = rates[i], n_taps = rate / 2, from = n_taps + n_taps / 4 - n_taps / 4 % BLOCK;
        hc_config c = moving_config(BLOCK, n_taps, 1, 1);
        c.rate = rate;
        for (int phase = 0; phase < (SANITIZED ? 1 : 3); phase++) {
            struct moving m;
            struct moving_bank bank;
            int at = (from / BLOCK + 3 * phase) * BLOCK, end = at + rate / 5;
            moving_open(&m, &c, backend, end, 190);
            for (int l = 0; l < m.info.n_steer_levels; l++) {
                const hc_steer_level *level = &m.info.steer_levels[l];
                check(level->hop + level->delay + level->fade <= rate / 50,
                      "%d Hz, level %d: hop %d, delay %d, fade %d: more than 20 ms", rate, l, level->hop, level->delay,
                      level->fade);
            }
            moving_bank(&m, &bank, 2, 1, n_taps, 191);
            moving_steer_one(&m, 0, &bank, 0);
            moving_play_to(&m, at, BLOCK);
            moving_steer_one(&m, 0, &bank, 1);
            moving_play_to(&m, end, BLOCK);
            double *want = must_alloc((size_t)end, sizeof *want), peak = 0;
            moving_convolve(m.in[0], end, bank.taps[1], 0, n_taps, want);
            for (int k = 0; k < end; k++) peak = fmax(peak, fabs(want[k]));
            for (int k = at + rate / 50; k < end; k++)
                check(fabs((double)m.out[0][k] - want[k]) <= PEAK_SHARE * peak,
                      "%d Hz: %d frames after the request: got %g, want %g", rate, k - at, (double)m.out[0][k],
                      want[k]);
            if (phase == 0) moving_check(&m);
            free(want);
            moving_close(&m);
            moving_bank_free(&bank);
        }
    }
}

static void levels_follow_each_other(const char *backend)
{
    static const int blocks[] = {1, 64, 100, 512, 4096}, fades[] = {0, 1, 100, 5000};
    for (int i = 0; i < 21; i++) {
        hc_config c = moving_config(i < 20 ? blocks[i % 5] : BLOCK, 20000, 1, 1);
        c.rate = i < 20 ? 48000 : 50; /* Hz: a hop of a usual time has no frame */
        c.steer_fade = fades[i / 5 % 4];
        struct moving m;
        moving_open(&m, &c, backend, 1, 195);
        int next = 0, fade = c.steer_fade ? c.steer_fade : c.block;
        check(m.info.n_sources == 1 && m.info.n_steer_levels >= 1, "%d levels", m.info.n_steer_levels);
        for (int l = 0; l < m.info.n_steer_levels; l++) {
            const hc_steer_level *level = &m.info.steer_levels[l];
            check(level->offset == next && level->n_taps > 0, "level %d: %d taps from %d on, want %d", l, level->n_taps,
                  level->offset, next);
            check(level->hop % c.block == 0 && (l || (level->hop == c.block && level->delay == 0)),
                  "level %d: hop %d, delay %d", l, level->hop, level->delay);
            check(level->fade == (fade < level->hop ? fade : level->hop), "level %d: fade %d", l, level->fade);
            next += level->n_taps;
        }
        check(next == 20000, "the levels have %d taps", next);
        check(m.info.memory > 0 && m.info.bank_memory == 0, "%llu bytes of banks",
              (unsigned long long)m.info.bank_memory);
        moving_close(&m);
    }
}

/* ---- a pure sine ------------------------------------------------------------------------------------------------- */

/* The largest line of the spectrum of x[n], n a power of two, through a Hann window. */
static double largest_line(const double *x, int n)
{
    struct transform transform;
    double complex *bins = must_alloc((size_t)n / 2 + 1, sizeof *bins);
    double *windowed = (double *)bins, most = 0;
    check(transform_open(&transform, (size_t)n), "no memory for a transform");
    for (int i = 0; i < n; i++) windowed[i] = x[i] * (0.5 - 0.5 * cos(2 * M_PI * i / n));
    transform_forward(&transform, bins);
    for (int i = 0; i <= n / 2; i++) most = fmax(most, sqrt(bin_power(bins[i])));
    transform_close(&transform);
    free(bins);
    return most;
}

/* The spectrum of the output of a sine, less that of the formula in float64, is empty at every frequency: there is
 * neither a click nor a modulation at the block rate beyond the formula's own. */
static void a_sine_gets_no_modulation_but_the_formulas(const char *backend)
{
    enum { N = 16384 };
    hc_config c = moving_config(BLOCK, TAPS, 1, 1);
    struct moving m;
    struct moving_bank bank;
    moving_open(&m, &c, backend, N + TAPS, 200);
    moving_bank(&m, &bank, 8, 1, TAPS, 201);
    for (int i = 0; i < m.cap; i++) m.in[0][i] = (float)sin(2 * M_PI * 997 * i / 48000);
    play_steered(&m, &bank, BLOCK, 1);
    double *wants = moving_wants(&m);
    double *errors = must_alloc((size_t)m.cap, sizeof *errors);
    for (int i = 0; i < m.cap; i++) errors[i] = (double)m.out[0][i] - wants[i];
    double loudest = largest_line(wants + TAPS, N), error = largest_line(errors + TAPS, N);
    check(loudest > 0 && error <= PEAK_SHARE * loudest, "the largest line of the error is %.1f dB",
          20 * log10(error / loudest));
    if (getenv("HC_TEST_VERBOSE")) printf("    largest line of the error %.1f dB\n", 20 * log10(error / loudest));
    free(wants);
    free(errors);
    moving_check(&m);
    moving_close(&m);
    moving_bank_free(&bank);
}

/* ---- refusals ---------------------------------------------------------------------------------------------------- */

static void refuse_bank(hc_engine *engine, hc_bank_data data, const char *text)
{
    char why[256] = "";
    hc_bank *bank = (void *)&data;
    int code = hc_bank_make(engine, &data, &bank, why, sizeof why);
    check(code == HC_EINVAL && !bank && strstr(why, text), "code %d, \"%s\", want \"%s\"", code, why, text);
}

static void broken_banks_are_refused(const char *backend)
{
    hc_config c = moving_config(BLOCK, 500, 1, 2);
    struct moving m;
    struct moving_bank bank;
    moving_open(&m, &c, backend, 1, 210);
    moving_taps(&bank, 3, 2, 500, 211);
    hc_bank_data good = moving_data(&bank), data;
    refuse_bank(m.engine, (data = good, data.n_taps = 501, data), "n_taps 501");
    refuse_bank(m.engine, (data = good, data.n_taps = 0, data), "n_taps is 0");
    refuse_bank(m.engine, (data = good, data.n_entries = 0, data), "n_entries is 0");
    refuse_bank(m.engine, (data = good, data.n_out = 3, data), "n_out 3");
    refuse_bank(m.engine, (data = good, data.n_out = 0, data), "n_out is 0");
    refuse_bank(m.engine, (data = good, data.taps = NULL, data), "taps are missing");
    refuse_bank(m.engine, (data = good, data.size = 0, data), "its size");
    bank.memory[(2 * 2 + 1) * 500 + 77] = NAN;
    refuse_bank(m.engine, good, "entry 2, output 2: tap 77 is not a finite number");
    bank.memory[(2 * 2 + 1) * 500 + 77] = -INFINITY;
    refuse_bank(m.engine, good, "entry 2, output 2: tap 77 is not a finite number");
    bank.taps[3] = NULL;
    refuse_bank(m.engine, good, "entry 1, output 2 has no taps");
    hc_bank *none = (void *)&m;
    check(hc_bank_make(m.engine, NULL, &none, NULL, 0) == HC_EINVAL && !none, "data NULL is taken");
    check(hc_bank_make(m.engine, &good, NULL, NULL, 0) == HC_EINVAL, "bank NULL is taken");
    check(hc_bank_make(NULL, &good, &none, NULL, 0) == HC_EINVAL, "engine NULL is taken");
    moving_close(&m);
    moving_bank_free(&bank);
}

static void requests_out_of_range_are_refused(const char *backend)
{
    hc_config c = moving_config(BLOCK, 500, 2, 2);
    struct moving m, others[5];
    struct moving_bank bank, foreign;
    moving_open(&m, &c, backend, 10 * BLOCK, 220);
    moving_bank(&m, &bank, 3, 2, 500, 221);
    hc_engine *e = m.engine;
    moving_steer_one(&m, 0, &bank, 2);
    check(hc_steer(e, -1, bank.bank, both, NULL, 1) == HC_EINVAL, "source -1");
    check(hc_steer(e, 2, bank.bank, both, NULL, 1) == HC_EINVAL, "source 2");
    check(hc_steer(e, 0, bank.bank, both, NULL, -1) == HC_EINVAL, "-1 entries");
    check(hc_steer(e, 0, bank.bank, (int[]){0, 1, 2, 0, 1}, NULL, 5) == HC_EINVAL, "5 entries");
    check(hc_steer(e, 0, bank.bank, (int[]){3}, NULL, 1) == HC_EINVAL, "entry 3");
    check(hc_steer(e, 0, bank.bank, (int[]){0, -1}, NULL, 2) == HC_EINVAL, "entry -1");
    check(hc_steer(e, 0, bank.bank, both, (float[]){1, NAN}, 2) == HC_EINVAL, "weight NaN");
    check(hc_steer(e, 0, bank.bank, both, (float[]){INFINITY}, 1) == HC_EINVAL, "weight Inf");
    check(hc_steer(e, 0, NULL, both, NULL, 1) == HC_EINVAL, "bank NULL");
    check(hc_steer(e, 0, bank.bank, NULL, NULL, 1) == HC_EINVAL, "entry NULL");
    check(hc_steer(NULL, 0, bank.bank, both, NULL, 1) == HC_EINVAL, "engine NULL");
    for (int i = 0; i < 5; i++) { /* another size of each kind */
        hc_config d = c;
        d.rate = i == 0 ? 44100 : 48000;
        d.block = i == 1 ? 2 * BLOCK : BLOCK;
        d.bank_taps = i == 2 ? 501 : 500;
        d.steer_fade = i == 3 ? 32 : i == 1 ? BLOCK : 0;
        d.n_out = i == 4 ? 1 : 2;
        moving_open(&others[i], &d, backend, 1, 222);
        check(hc_steer(others[i].engine, 0, bank.bank, both, NULL, 2) == HC_EINVAL, "an engine of other sizes, %d", i);
        moving_close(&others[i]);
    }
    hc_config with_fade = c;
    with_fade.steer_fade = BLOCK; /* the default, spelled out */
    moving_open(&others[0], &with_fade, backend, 1, 223);
    check(hc_steer(others[0].engine, 0, bank.bank, both, NULL, 2) == HC_OK, "an engine of the same sizes");
    moving_close(&others[0]);
    if (strcmp(backend, "cpu") != 0) { /* a bank of another device */
        moving_open(&others[0], &c, "cpu", 1, 224);
        moving_bank(&others[0], &foreign, 3, 2, 500, 225);
        check(hc_steer(e, 0, foreign.bank, both, NULL, 1) == HC_EINVAL, "a bank of the CPU");
        moving_close(&others[0]);
        moving_bank_free(&foreign);
    }
    moving_play_to(&m, m.cap, BLOCK); /* no refused request has any effect */
    moving_check(&m);
    moving_close(&m);
    moving_bank_free(&bank);
}

static void refuse_config(hc_config c, const char *text)
{
    char why[256] = "";
    hc_engine *engine = (void *)&c;
    int code = hc_open(&c, &engine, why, sizeof why);
    check(code == HC_EINVAL && !engine && strstr(why, text), "code %d, \"%s\", want \"%s\"", code, why, text);
}

static void configs_out_of_range_are_refused(const char *backend)
{
    hc_config good = moving_config(BLOCK, 500, 2, 2), c;
    good.backend = backend;
    refuse_config((c = good, c.n_sources = 3, c), "n_sources 3");
    refuse_config((c = good, c.n_sources = -1, c), "n_sources -1");
    refuse_config((c = good, c.bank_taps = -1, c), "bank_taps -1");
    refuse_config((c = good, c.bank_taps = (1 << 24) + 1, c), "bank_taps 16777217");
    refuse_config((c = good, c.steer_fade = -1, c), "steer_fade -1");
    refuse_config((c = good, c.steer_fade = 65537, c), "steer_fade 65537");
    refuse_config((c = good, c.block = HC_BLOCK_FILES, c.backend = "cpu", c), "live blocks only; use hc_render");
    struct moving m;
    good.n_sources = 0;
    moving_open(&m, &good, backend, 1, 230);
    struct moving_bank bank;
    moving_taps(&bank, 1, 1, 10, 231);
    refuse_bank(m.engine, moving_data(&bank), "the engine has no sources; set hc_config.n_sources");
    check(hc_steer(m.engine, 0, NULL, NULL, NULL, 0) == HC_EINVAL, "an engine without sources is steered");
    check(m.info.n_sources == 0 && m.info.n_steer_levels == 0, "%d sources", m.info.n_sources);
    moving_close(&m);
    moving_bank_free(&bank);
}

/* ---- many threads ------------------------------------------------------------------------------------------------ */

enum { STORM_SOURCES = 4, STORM_ENTRIES = 8, STORM_TAPS = 1400 }; /* with a tail */

struct storm {
    hc_engine *engine;
    const struct moving_bank *bank; /* NULL: the thread makes banks and frees them */
    uint64_t seed;
    atomic_bool stop;
    atomic_int failed, made;
};

/* Requests whose weights have the sum 1. */
static void storm_steer(struct storm *storm, struct random *r, const hc_bank *bank)
{
    static const float weights[4][4] = {{1}, {0.25f, 0.75f}, {0.5f, 0.25f, 0.25f}, {0.5f, 0.25f, 0.125f, 0.125f}};
    int n = random_int(r, 1, 4), entry[4];
    for (int i = 0; i < 4; i++) entry[i] = random_int(r, 0, STORM_ENTRIES - 1);
    if (hc_steer(storm->engine, random_int(r, 0, STORM_SOURCES - 1), bank, entry, weights[n - 1], n) != HC_OK)
        atomic_fetch_add(&storm->failed, 1);
    atomic_fetch_add(&storm->made, 1);
}

static void *storm_steers(void *data)
{
    struct storm *storm = data;
    struct random r = random_seeded(storm->seed);
    while (!atomic_load(&storm->stop)) storm_steer(storm, &r, storm->bank->bank);
    return NULL;
}

static void *storm_makes_banks(void *data)
{
    struct storm *storm = data;
    struct random r = random_seeded(storm->seed);
    struct moving_bank taps;
    moving_taps(&taps, STORM_ENTRIES, 1, 1, 1);
    for (int i = 0; i < STORM_ENTRIES; i++) taps.memory[i] = 1;
    hc_bank_data bank_data = moving_data(&taps);
    while (!atomic_load(&storm->stop)) {
        hc_bank *bank;
        if (hc_bank_make(storm->engine, &bank_data, &bank, NULL, 0) != HC_OK) {
            atomic_fetch_add(&storm->failed, 1);
            break;
        }
        for (int i = 0; i < 10; i++) storm_steer(storm, &r, bank);
        hc_bank_free(bank);
    }
    moving_bank_free(&taps);
    return NULL;
}

/* Every response is an impulse and every request has weights of the sum 1, so the output of a constant is constant,
 * whichever requests win. */
static bool all_have_made(struct storm storms[4])
{
    for (int i = 0; i < 4; i++)
        if (atomic_load(&storms[i].made) == 0) return false;
    return true;
}

static void a_storm_of_steering_keeps_the_audio_whole(const char *backend)
{
    hc_config c = moving_config(BLOCK, STORM_TAPS, STORM_SOURCES, 1);
    c.steer_fade = 150;
    struct moving m;
    struct moving_bank bank;
    moving_open(&m, &c, backend, 1, 240);
    moving_bank(&m, &bank, STORM_ENTRIES, 1, STORM_TAPS, 241);
    hc_bank_free(bank.bank);
    memset(bank.memory, 0, (size_t)STORM_ENTRIES * STORM_TAPS * sizeof(float));
    for (int i = 0; i < STORM_ENTRIES; i++) bank.memory[(size_t)i * STORM_TAPS] = 1;
    hc_bank_data data = moving_data(&bank);
    check(hc_bank_make(m.engine, &data, &bank.bank, NULL, 0) == HC_OK, "hc_bank_make");
    for (int s = 0; s < STORM_SOURCES; s++) moving_steer_one(&m, s, &bank, s);
    struct storm storms[4];
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) {
        storms[i] = (struct storm){.engine = m.engine, .bank = i < 3 ? &bank : NULL, .seed = 242 + (uint64_t)i};
        check(pthread_create(&threads[i], NULL, i < 3 ? storm_steers : storm_makes_banks, &storms[i]) == 0,
              "pthread_create");
    }
    float x[BLOCK], y[BLOCK];
    const float *in[STORM_SOURCES] = {x, x, x, x};
    float *out[] = {y};
    double worst = 0;
    int bad = 0;
    struct random r = random_seeded(246);
    for (int i = 0; i < BLOCK; i++) x[i] = 1;
    double end = now_s() + 20; /* a thread of a busy machine may begin late */
    for (int calls = 0; calls < (SANITIZED ? 400 : 4000) || (!all_have_made(storms) && now_s() < end); calls++) {
        int n = random_int(&r, 1, BLOCK);
        if (hc_process(m.engine, in, out, n) != HC_OK) bad++;
        for (int i = 0; i < n; i++) worst = fmax(worst, fabs((double)y[i] - STORM_SOURCES));
    }
    for (int i = 0; i < 4; i++) atomic_store(&storms[i].stop, true);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    check(bad == 0 && worst <= 1e-4, "%d calls failed; the output is off by %g", bad, worst);
    for (int i = 0; i < 4; i++)
        check(atomic_load(&storms[i].failed) == 0 && atomic_load(&storms[i].made) > 0, "thread %d: %d of %d failed", i,
              atomic_load(&storms[i].failed), atomic_load(&storms[i].made));
    for (int s = 0; s < STORM_SOURCES; s++) hc_steer(m.engine, s, NULL, NULL, NULL, 0);
    for (int i = 0; i < 100; i++) hc_process(m.engine, in, out, BLOCK);
    hc_bank_free(NULL);
    check(bank_memory(&m) == bank.bank->bytes, "a bank of the storm is still there: %llu bytes, want %llu",
          (unsigned long long)bank_memory(&m), (unsigned long long)bank.bank->bytes);
    moving_close(&m);
    moving_bank_free(&bank);
}

/* ---- huge samples ------------------------------------------------------------------------------------------------ */

enum { HUGE_AT = 1000, HUGE_LENGTH = 300 };

static void fill_burst(struct moving *m, float high, float low)
{
    for (int i = 0; i < HUGE_LENGTH; i++) m->in[0][HUGE_AT + i] = i % 2 ? low : high;
}

/* Finite samples that would overflow in a transform, while sources move. */
static void huge_samples_count_as_zero(const char *backend)
{
    for (int taps = 200; taps <= TAPS; taps += TAPS - 200) {
        hc_config c = moving_config(BLOCK, taps, 2, 2);
        struct moving m;
        struct moving_bank bank;
        moving_open(&m, &c, backend, FRAMES, 71);
        moving_bank(&m, &bank, 6, 2, taps, 72);
        fill_burst(&m, FLT_MAX, -1e38f);
        play_steered(&m, &bank, 0, 4);
        fill_burst(&m, 0, 0);
        moving_check(&m);
        hc_get_info(m.engine, &m.info);
        check(m.info.non_finite == HUGE_LENGTH && m.info.overflowed == 0, "%llu counted, %llu overflowed",
              (unsigned long long)m.info.non_finite, (unsigned long long)m.info.overflowed);
        moving_close(&m);
        moving_bank_free(&bank);
    }
}

/* Weights may take samples beyond a float. They become 0, and nothing of them stays. */
static void an_overflow_of_weights_is_silent(const char *backend)
{
    float *outs[2], peak = 0;
    for (int k = 0; k < 2; k++) {
        hc_config c = moving_config(BLOCK, 300, 2, 2);
        struct moving m;
        struct moving_bank bank;
        moving_open(&m, &c, backend, FRAMES, 73);
        moving_bank(&m, &bank, 6, 2, 300, 74);
        fill_burst(&m, k ? 1e30f : 0, k ? -1e30f : 0);
        moving_steer(&m, 0, &bank, both, (float[]){1e20f, -1e20f}, 2);
        moving_steer_one(&m, 1, &bank, 2);
        moving_play_to(&m, HUGE_AT + HUGE_LENGTH, BLOCK);
        moving_steer_one(&m, 0, &bank, 1);
        moving_play_to(&m, FRAMES, BLOCK);
        hc_get_info(m.engine, &m.info);
        check((m.info.overflowed > 0) == k, "%llu overflowed", (unsigned long long)m.info.overflowed);
        outs[k] = must_alloc(2 * FRAMES, sizeof(float));
        for (int o = 0; o < 2; o++) memcpy(outs[k] + o * FRAMES, m.out[o], FRAMES * sizeof(float));
        moving_close(&m);
        moving_bank_free(&bank);
    }
    for (int i = 0; i < 2 * FRAMES; i++) check(isfinite(outs[1][i]), "sample %d is %g", i, (double)outs[1][i]);
    for (int i = FRAMES - 1000; i < FRAMES; i++) peak = fmaxf(peak, fabsf(outs[0][i]));
    for (int i = FRAMES - 1000; i < FRAMES; i++)
        check(fabsf(outs[1][i] - outs[0][i]) <= (float)PEAK_SHARE * peak, "sample %d is %g, want %g", i,
              (double)outs[1][i], (double)outs[0][i]);
    free(outs[0]);
    free(outs[1]);
}

int main(void)
{
    static const struct test tests[] = {
        TEST(every_source_is_steered_every_block, true),
        TEST(fades_of_every_length, true),
        TEST(calls_of_every_size, true),
        TEST(blocks_and_rates_of_every_kind, true),
        TEST(a_change_during_a_fade_starts_from_what_is_heard, true),
        TEST(more_entries_than_may_sound_wait, true),
        TEST(the_same_request_again_is_no_change, true),
        TEST(a_request_is_heard_with_the_next_block, true),
        TEST(the_last_request_wins, true),
        TEST(no_entries_are_silence, true),
        TEST(entries_of_weight_0_hold_no_bank, true),
        TEST(the_first_request_does_not_fade, true),
        TEST(reset_forgets_the_input_and_keeps_the_requests, true),
        TEST(a_bank_is_shared_by_engines_and_sources, true),
        TEST(steering_goes_from_bank_to_bank, true),
        TEST(a_bank_of_fewer_outputs_leaves_the_others, true),
        TEST(a_freed_bank_plays_until_no_source_plays_it, true),
        TEST(a_bank_that_never_plays_is_freed_at_once, true),
        TEST(a_mask_plays_and_swaps_beside_sources, true),
        TEST(half_a_second_changes_within_20_ms, true),
        TEST(levels_follow_each_other, true),
        TEST(a_sine_gets_no_modulation_but_the_formulas, true),
        TEST(huge_samples_count_as_zero, true),
        TEST(an_overflow_of_weights_is_silent, true),
        TEST(broken_banks_are_refused, true),
        TEST(requests_out_of_range_are_refused, true),
        TEST(configs_out_of_range_are_refused, true),
        TEST(a_storm_of_steering_keeps_the_audio_whole, true),
    };
    return check_main("steer", tests, sizeof tests / sizeof *tests);
}
