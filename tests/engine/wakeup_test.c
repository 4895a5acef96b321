/* The device thread sleeps while it has nothing to do, and no block is later for it. First wakeup.c alone, with a
 * simulated clock; then an engine whose device is faulty_device.c, with the real clock. */
#include "dsp/base/await.h"
#include "dsp/base/processors.h"
#include "dsp/device/wakeup.h"
#include "dsp/engine/engine.h"
#include "faulty_device.h"
#include "player.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- with a simulated clock -------------------------------------------------------------------------------------- */

enum { WORK_US = 40, CALL_US = 60 }; /* time for a block; longest time until a woken thread runs */

struct stream {
    struct wakeup wakeup;
    struct random random;
    int64_t done_us; /* when the device thread finished the last block */
    int64_t first_us, asleep_us;
    int n_blocks, n_sleeps, n_missed; /* missed: posted before the device thread was awake */
};

static void stream_open(struct stream *s)
{
    *s = (struct stream){.random = random_seeded(1)};
    wakeup_open(&s->wakeup);
}

static void stream_count(struct stream *s)
{
    s->n_blocks = s->n_sleeps = s->n_missed = 0;
    s->asleep_us = 0;
    s->first_us = s->done_us;
}

/* The device thread serves one block; a sleep ends up to late_us later than it should. */
static void stream_block(struct stream *s, int64_t posted_us, int late_us)
{
    int64_t until = wakeup_until(&s->wakeup, s->done_us), awake = s->done_us;
    if (until > 0 && posted_us > s->done_us) {
        int64_t call = until < posted_us ? until + random_int(&s->random, 0, late_us) : posted_us + CALL_US;
        awake = call;
        wakeup_woken(&s->wakeup, awake);
        s->n_sleeps++;
        s->n_missed += posted_us < awake;
        s->asleep_us += awake - s->done_us;
    }
    wakeup_posted(&s->wakeup, posted_us);
    s->n_blocks++;
    s->done_us = (posted_us > awake ? posted_us : awake) + WORK_US;
}

static double share_asleep(const struct stream *s)
{
    return (double)s->asleep_us / (double)(s->done_us - s->first_us);
}

struct pace {
    double period_us;
    int jitter_us, late_us; /* at most, of a post and of a sleep's end */
    int rare, rare_us;      /* one sleep in `rare` ends up to rare_us late */
};
static const struct pace usual = {1333.3, 10, 30, 0, 0};

/* n blocks, one a period. Returns when the next one is due. */
static int64_t play_paced(struct stream *s, int64_t from_us, int n, const struct pace *pace)
{
    for (int i = 0; i < n; i++) {
        bool is_rare = pace->rare && random_int(&s->random, 1, pace->rare) == 1;
        stream_block(s, from_us + (int64_t)(i * pace->period_us) + random_int(&s->random, 0, pace->jitter_us),
                     is_rare ? pace->rare_us : pace->late_us);
    }
    return from_us + (int64_t)(n * pace->period_us);
}

static void most_of_a_period_is_slept(const char *backend)
{
    static const struct {
        struct pace pace;
        double least_asleep;
        int once_in; /* a block may come before the device thread is awake */
    } streams[] = {{{1333.3, 10, 30, 0, 0}, 0.85, 2000},     {{1333.3, 100, 60, 0, 0}, 0.7, 2000},
                   {{1333.3, 10, 200, 0, 0}, 0.65, 2000},    {{1333.3, 30, 60, 1000, 500}, 0.5, 2000},
                   {{1333.3, 10, 30, 300, 30000}, 0.7, 250}, /* a machine with pauses of 30 ms */
                   {{666.7, 10, 30, 0, 0}, 0.7, 2000},       {{21333, 500, 200, 0, 0}, 0.93, 2000}};
    for (size_t i = 0; i < sizeof streams / sizeof *streams; i++) {
        struct stream s;
        const struct pace *pace = &streams[i].pace;
        stream_open(&s);
        int64_t at = play_paced(&s, 1000, 30000, pace);
        stream_count(&s);
        play_paced(&s, at, 30000, pace);
        check(
            share_asleep(&s) >= streams[i].least_asleep && s.n_missed * streams[i].once_in <= s.n_blocks,
            "period %.0f us, jitter %d, wake-ups %d late, %d once in %d: asleep for %.3f, want at least %.2f; %d of %d "
            "blocks came before the device thread was awake, want at most one in %d",
            pace->period_us, pace->jitter_us, pace->late_us, pace->rare_us, pace->rare, share_asleep(&s),
            streams[i].least_asleep, s.n_missed, s.n_blocks, streams[i].once_in);
    }
}

static void a_short_period_is_spun_through(const char *backend)
{
    struct stream s;
    stream_open(&s);
    play_paced(&s, 1000, 20000, &(struct pace){166.7, 10, 30, 0, 0});
    check(s.n_sleeps == 0, "%d sleeps between blocks of 8 frames", s.n_sleeps);
}

/* A period comes in parts, one right after another, in numbers that change: if some come at once, it does not sleep. */
static void parts_of_a_period_are_expected(const char *backend)
{
    static const int max_parts[] = {2, 3, 5};
    for (size_t i = 0; i < sizeof max_parts / sizeof *max_parts; i++) {
        struct stream s;
        stream_open(&s);
        for (int p = 0; p < 20000; p++) {
            int64_t at = 1000 + p * 2667LL;
            for (int n = random_int(&s.random, 1, max_parts[i]); n > 0; n--, at = s.done_us + 20)
                stream_block(&s, at, 50);
        }
        check(s.n_missed * 500 <= s.n_blocks,
              "1 to %d parts: %d of %d came before the device thread was awake, want one in 500", max_parts[i],
              s.n_missed, s.n_blocks);
    }
}

/* Freewheeling, the next block comes as soon as one is done; a pause, and late posts between good ones. */
static void a_change_of_pace_costs_a_block(const char *backend)
{
    struct stream s;
    stream_open(&s);
    int64_t at = play_paced(&s, 1000, 1000, &usual);
    stream_count(&s);
    for (int i = 0; i < 1000; i++, at = s.done_us + 30) stream_block(&s, at, 30);
    check(s.n_missed <= 1, "%d blocks of a host that freewheels came before the device thread was awake", s.n_missed);
    at = play_paced(&s, s.done_us + 1333, 1000, &usual);
    check(s.n_missed <= 1, "%d blocks came before the device thread was awake, after freewheeling", s.n_missed);
    stream_count(&s);
    at = play_paced(&s, at + 1000000, 1000, &usual);
    check(s.n_missed == 0 && share_asleep(&s) > 0.2, "after a pause: %d missed, asleep for %.3f", s.n_missed,
          share_asleep(&s));
    stream_count(&s);
    for (int i = 0; i < 5000; i++, at += 1333) stream_block(&s, at + (i % 10 == 9 ? 900 : 0), 30);
    check(s.n_missed == 0, "%d blocks came before the device thread was awake, behind late ones", s.n_missed);
    check(share_asleep(&s) > 0.6, "asleep for %.3f of the time where each tenth block is late", share_asleep(&s));
}

/* ---- with the real clock ---------------------------------------------------------------------------------------- */

/* Replaces the library's function: with fewer processors the device thread never spins. */
int processors_usable(void)
{
    return 4;
}

static void sleep_until(int64_t us)
{
    struct timespec t = {.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) != 0) continue;
}

enum { BLOCK = 1024, TAPS = 3000, SETTLE = WAKEUP_POSTS + 2 };

struct stage {
    struct player p;
    float *taps;
    hc_route routes[2];
    int64_t due_us;
};

static void stage_open(struct stage *s, int wait_us, bool spin, int64_t n_frames)
{
    hc_config c;
    hc_config_init(&c);
    c.block = BLOCK;
    c.max_taps = TAPS;
    c.wait_us = wait_us;
    c.spin = spin;
    struct random r = random_seeded(2);
    s->taps = noise(&r, TAPS);
    for (int ch = 0; ch < 2; ch++) s->routes[ch] = (hc_route){ch, ch, s->taps, TAPS, 1, 0};
    player_open(&s->p, &c, "cuda", n_frames, 3);
    player_swap(&s->p, player_scene(&s->p, s->routes, 2));
    s->due_us = now_us();
}

static void stage_close(struct stage *s)
{
    player_close(&s->p);
    free(s->taps);
}

static void play_on_time(struct stage *s, int n_blocks, int64_t period_us)
{
    for (int i = 0; i < n_blocks; i++) {
        s->due_us += period_us;
        sleep_until(s->due_us);
        player_run(&s->p, BLOCK);
    }
}

/* Does the device thread sleep? A thread that spins is running, or ready to run. */
static bool device_thread_sleeps(void)
{
    char path[64], stat[512] = "";
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", atomic_load(&faulty_record.thread));
    FILE *file = fopen(path, "r");
    check(file, "%s cannot be read", path);
    stat[fread(stat, 1, sizeof stat - 1, file)] = 0;
    fclose(file);
    const char *name_end = strrchr(stat, ')');
    check(name_end, "%s: %s", path, stat);
    return name_end[2] == 'S';
}

/* Looks in the middle of each period whether the device thread sleeps; n_seen: periods in which this was in time. */
static int count_asleep(bool spin, int *n_seen)
{
    enum { N = 30, PERIOD_US = 20000 };
    struct stage s;
    int n_asleep = 0;
    *n_seen = 0;
    stage_open(&s, 10000000, spin, (SETTLE + N + 1) * BLOCK);
    play_on_time(&s, SETTLE, PERIOD_US);
    for (int i = 0; i < N; i++) {
        play_on_time(&s, 1, PERIOD_US);
        sleep_until(s.due_us + PERIOD_US / 2);
        bool sleeps = device_thread_sleeps();
        if (now_us() > s.due_us + 3 * PERIOD_US / 4) continue;
        ++*n_seen;
        n_asleep += sleeps;
    }
    stage_close(&s);
    if (*n_seen < 4 * N / 5) check_skip("the machine is too busy to be looked at in time"); /* and to let it sleep */
    return n_asleep;
}

static void the_device_thread_sleeps_between_blocks(const char *backend)
{
    int n_seen, n_asleep = count_asleep(false, &n_seen);
    check(2 * n_asleep > n_seen, "the device thread slept in the middle of %d of %d periods, want most", n_asleep,
          n_seen);
}

static void the_device_thread_that_is_to_spin_does(const char *backend)
{
    int n_seen, n_asleep = count_asleep(true, &n_seen);
    check(2 * n_asleep < n_seen, "the device thread slept in the middle of %d of %d periods, want few", n_asleep,
          n_seen);
}

/* A block well before it is due: if the device thread went on sleeping, the rest of the period would pass. The machine
 * may be busy: one of three tries must succeed. */
static void a_block_that_comes_early_wakes_the_device_thread(const char *backend)
{
    enum { TRIES = 3, PERIOD_US = 60000, EARLY_US = 50000 };
    struct stage s;
    int64_t took_us = INT64_MAX;
    stage_open(&s, 10000000, false, TRIES * (SETTLE + 1) * BLOCK);
    for (int try = 0; try < TRIES && took_us > EARLY_US / 2; try++) {
        play_on_time(&s, SETTLE, PERIOD_US);
        sleep_until(s.due_us + PERIOD_US - EARLY_US);
        int64_t before = now_us();
        player_run(&s.p, BLOCK);
        took_us = now_us() - before;
        s.due_us = now_us();
    }
    stage_close(&s);
    check(took_us <= EARLY_US / 2, "a block that came %d us early took %lld", EARLY_US, (long long)took_us);
}

/* On time, in parts, in random counts at random times, freewheeling, after a pause: no block is late or lost. */
static void blocks_at_any_time_are_played_whole(const char *backend)
{
    static const int waits[] = {10000000, -1};
    for (size_t w = 0; w < sizeof waits / sizeof *waits; w++) {
        enum { FRAMES = 160 * BLOCK };
        struct stage s;
        struct random r = random_seeded(4);
        stage_open(&s, waits[w], false, FRAMES);
        for (int round = 0; round < 3; round++) {
            play_on_time(&s, SETTLE, 3000 + 2000 * round);
            for (int i = 0; i < 20; i++) {
                sleep_until(now_us() + random_int(&r, 0, 5000));
                player_run(&s.p, random_int(&r, 1, BLOCK));
            }
            for (int i = 0; i < 20; i++) player_run(&s.p, random_int(&r, 1, 64));
            check(engine_wait_set(s.p.engine, -1) == HC_OK, "engine_wait_set");
            for (int i = 0; i < 10; i++) player_run(&s.p, BLOCK);
            if (waits[w] >= 0) check(engine_wait_set(s.p.engine, waits[w]) == HC_OK, "engine_wait_set");
            s.due_us = now_us() + 30000;
        }
        hc_info info = {.size = sizeof info};
        hc_get_info(s.p.engine, &info);
        check(info.late == 0, "wait %d: %llu late blocks", waits[w], (unsigned long long)info.late);
        player_check(&s.p, 0, s.p.n_frames, PEAK_SHARE);
        stage_close(&s);
    }
}

int main(void)
{
    static const struct test tests[] = {
        TEST(most_of_a_period_is_slept, false),
        TEST(a_short_period_is_spun_through, false),
        TEST(parts_of_a_period_are_expected, false),
        TEST(a_change_of_pace_costs_a_block, false),
        TEST(the_device_thread_sleeps_between_blocks, false),
        TEST(the_device_thread_that_is_to_spin_does, false),
        TEST(a_block_that_comes_early_wakes_the_device_thread, false),
        TEST(blocks_at_any_time_are_played_whole, false),
    };
    return check_main("wakeup", tests, sizeof tests / sizeof *tests);
}
