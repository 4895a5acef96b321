/* Backend hybrid: its output while the device of the tail is late, lost or shared.
 *
 * The device is faulty_device.c, which fails and waits on request: a GPU, or the CPU in the device thread if there is
 * no GPU. The other tests, which also run on this backend, test its other promises.
 */
#include "dsp/engine/engine.h"
#include "faulty_device.h"
#include "player.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { T = 512, TAPS = 5000, FRAMES = 24 * T, CALL = 64, SECONDS = 10 };

static hc_config config(int block, int max_taps)
{
    hc_config c = player_config("auto", block, max_taps, 1, 1);
    c.wait_us = SECONDS * 1000000;
    return c;
}

struct stage {
    struct player p;
    float *taps;
    hc_route route;
    long before; /* calls of the device before this engine was opened */
};

static void stage_open_as(struct stage *s, const char *backend, const char *fault, const hc_config *c)
{
    struct random r = random_seeded(5);
    if (fault) setenv("HC_FAULT", fault, 1);
    s->before = atomic_load(&faulty_record.finished);
    s->taps = noise(&r, c->max_taps);
    s->route = (hc_route){0, 0, s->taps, c->max_taps, 1, 0};
    player_open(&s->p, c, backend, FRAMES, 6);
    unsetenv("HC_FAULT");
    player_swap(&s->p, player_scene(&s->p, &s->route, 1));
}

static void stage_open(struct stage *s, const char *fault, const hc_config *c)
{
    stage_open_as(s, "hybrid", fault, c);
}

static void stage_close(struct stage *s)
{
    player_close(&s->p);
    free(s->taps);
}

/* Play on to frame `end` in calls of CALL; each must answer `want`. */
static void stage_play(struct stage *s, int end, int want)
{
    for (; s->p.n_frames < end; s->p.n_frames += CALL) {
        const float *in = s->p.in[0] + s->p.n_frames;
        float *out = s->p.out[0] + s->p.n_frames;
        int code = hc_process(s->p.engine, &in, &out, CALL);
        check(code == want, "hc_process at frame %d: %d, want %d", (int)s->p.n_frames, code, want);
    }
}

/* Until the device has done n blocks of this engine. */
static void stage_await(const struct stage *s, long n)
{
    for (int ms = 0; atomic_load(&faulty_record.finished) - s->before < n; ms++) {
        check(ms < SECONDS * 1000, "the device has done %ld blocks, want %ld",
              atomic_load(&faulty_record.finished) - s->before, n);
        pause_us(1000);
    }
}

/* Frames [from, to): taps [0, 2T) of the input, and with_tail the others of the input that reached the tail. */
static void stage_check(const struct stage *s, const float *tail_in, int from, int to, bool with_tail)
{
    double peak = 0;
    for (int i = 0; i < FRAMES; i++) peak = fmax(peak, fabs((double)s->p.out[0][i]));
    for (int i = from; i < to; i++) {
        double want = 0;
        for (int k = 0; k < TAPS && k <= i; k++)
            if (k < 2 * T || with_tail) want += (double)s->taps[k] * (double)(k < 2 * T ? s->p.in[0] : tail_in)[i - k];
        double got = (double)s->p.out[0][i];
        check(fabs(got - want) <= PEAK_SHARE * peak, "frame %d (block %d and %d): got %.9g, want %.9g, peak %g", i,
              i / T, i % T, got, want, peak);
    }
}

/* ---- head and tail ----------------------------------------------------------------------------- */

static void info_says_what_is_where(const char *backend)
{
    static const int blocks[] = {1, 64, 100, 512, 4096}, tails[] = {512, 512, 512, 512, 4096};
    for (int i = 0; i < 5; i++) {
        hc_config c = config(blocks[i], 100000);
        hc_info plan = {.size = sizeof plan}, cpu = {.size = sizeof cpu};
        struct stage s;
        stage_open(&s, NULL, &c);
        const hc_info *info = &s.p.info;
        int next = 0;
        for (int l = 0; l < info->n_levels; l++) {
            check(info->levels[l].offset == next, "level %d begins at %d, want %d", l, info->levels[l].offset, next);
            next += info->levels[l].n_taps;
        }
        check(next == 100000, "the levels have %d taps", next);
        int n_head = info->n_levels - info->n_device_levels;
        check(info->n_device_levels > 0 && info->levels[n_head].offset == 2 * tails[i],
              "block %d: %d levels of %d are the tail's, from tap %d on, want %d", blocks[i], info->n_device_levels,
              info->n_levels, info->levels[n_head].offset, 2 * tails[i]);
        check(strcmp(info->backend, "hybrid") == 0 && strstr(info->device, "tail on cuda:0"), "%s: %s", info->backend,
              info->device);
        c.backend = "hybrid";
        check(hc_plan(&c, &plan, NULL, 0) == HC_OK, "hc_plan");
        check(plan.n_levels == info->n_levels && plan.memory == info->memory && plan.swap_delay == info->swap_delay,
              "the plan is another one than the engine's");
        c.backend = "cpu";
        check(hc_plan(&c, &cpu, NULL, 0) == HC_OK, "hc_plan");
        check(plan.cost_ns < cpu.cost_ns, "its part of 100000 taps costs the CPU %g ns a frame, all of them %g",
              plan.cost_ns, cpu.cost_ns);
        stage_close(&s);
    }
}

/* A mask that ends before the tail would begin needs no device. */
static void a_short_mask_needs_no_device(const char *backend)
{
    long before = atomic_load(&faulty_record.begun);
    hc_config c = config(T, 2 * T);
    struct stage s;
    stage_open(&s, NULL, &c);
    check(s.p.info.n_device_levels == 0 && strstr(s.p.info.device, "no tail"), "%s", s.p.info.device);
    player_run_all(&s.p);
    player_check(&s.p, 0, FRAMES, PEAK_SHARE);
    check(atomic_load(&faulty_record.begun) == before, "the device was called");
    stage_close(&s);
}

/* One call of the device for T frames, on no thread of the host's. */
static void the_callback_calls_no_device(const char *backend)
{
    hc_config c = config(T, TAPS);
    struct stage s;
    stage_open(&s, NULL, &c);
    stage_play(&s, FRAMES, HC_OK);
    stage_await(&s, FRAMES / T);
    check(atomic_load(&faulty_record.finished) - s.before == FRAMES / T, "%ld calls of the device for %d blocks of %d",
          atomic_load(&faulty_record.finished) - s.before, FRAMES / T, T);
    check(atomic_load(&faulty_record.thread) != (int)gettid(), "the audio thread called the device");
    stage_check(&s, s.p.in[0], 0, FRAMES, true);
    stage_close(&s);
}

/* Engines whose streams begin in different callbacks call the device in different callbacks. */
static void engines_fall_due_in_turns(const char *backend)
{
    enum { N = T / CALL };
    hc_config c = config(CALL, TAPS);
    struct stage s[N];
    for (int i = 0; i < N; i++) stage_open(&s[i], NULL, &c);
    for (int i = 0; i < N; i++) stage_play(&s[i], i * CALL, HC_OK);
    for (int round = 0; round < 3 * N; round++) {
        for (int i = 0; i < N; i++) stage_play(&s[i], (i + round + 1) * CALL, HC_OK);
        stage_await(&s[0], round + 1);
        check(atomic_load(&faulty_record.finished) - s[0].before == round + 1, "%ld calls of the device in %d rounds",
              atomic_load(&faulty_record.finished) - s[0].before, round + 1);
    }
    for (int i = 0; i < N; i++) stage_check(&s[i], s[i].p.in[0], 0, 3 * T, true);
    for (int i = 0; i < N; i++) stage_close(&s[i]);
}

/* The same engine plays the same bits, however many the process has opened before. */
static void phase_does_not_depend_on_engines_opened_before(const char *backend)
{
    hc_config c = config(CALL, TAPS);
    struct stage first, next;
    stage_open(&first, NULL, &c);
    stage_open(&next, NULL, &c);
    stage_play(&first, FRAMES, HC_OK);
    stage_play(&next, FRAMES, HC_OK);
    for (int i = 0; i < FRAMES; i++)
        check(memcmp(&first.p.out[0][i], &next.p.out[0][i], sizeof(float)) == 0, "frame %d: %.9g, and %.9g", i,
              (double)first.p.out[0][i], (double)next.p.out[0][i]);
    stage_close(&next);
    stage_close(&first);
}

/* ---- late -------------------------------------------------------------------------------------- */

/* hc_process may wait for the device here, so that nothing is missing. */
static void a_device_that_is_slow_is_waited_for(const char *backend)
{
    hc_config c = config(T, TAPS);
    struct stage s;
    stage_open(&s, "slow 4 30", &c);
    stage_play(&s, FRAMES, HC_OK);
    stage_check(&s, s.p.in[0], 0, FRAMES, true);
    stage_close(&s);
}

/* Plays to frame 6T, where the output of block 4 is due; the device holds that block, and hc_process waits no more. */
static void stage_open_held(struct stage *s)
{
    hc_config c = config(T, TAPS);
    stage_open(s, "hold 4", &c);
    stage_play(s, 6 * T, HC_OK);
    stage_await(s, 4);
    check(engine_wait_set(s->p.engine, -2) == HC_OK, "engine_wait_set");
}

/* The device still holds block 4 when its output is due, at block 6: the head plays on alone. Later the whole tail is
 * back, also that of the input in between. */
static void a_late_tail_is_left_out_and_keeps_its_place(const char *backend)
{
    struct stage s;
    stage_open_held(&s);
    stage_play(&s, 7 * T + T / 2, HC_LATE);
    faulty_release();
    stage_await(&s, 7);
    engine_wait_set(s.p.engine, SECONDS * 1000000);
    stage_play(&s, FRAMES, HC_OK); /* from the middle of a block on */
    stage_check(&s, s.p.in[0], 0, 6 * T, true);
    stage_check(&s, s.p.in[0], 6 * T, 7 * T + T / 2, false);
    stage_check(&s, s.p.in[0], 7 * T + T / 2, FRAMES, true);
    hc_get_info(s.p.engine, &s.p.info);
    check(s.p.info.late == (T + T / 2) / CALL, "%llu late calls", (unsigned long long)s.p.info.late);
    stage_close(&s);
}

/* The device holds a block until the queue is full: blocks that find no room are silence in the past of the tail, and
 * nothing else is missing. */
static void a_block_that_finds_no_room_is_silence_in_the_past(const char *backend)
{
    struct stage s;
    stage_open_held(&s);
    stage_play(&s, 11 * T, HC_LATE); /* blocks 4 to 7 are with the device, 8 to 10 have no room */
    faulty_release();
    stage_await(&s, 8);
    stage_play(&s, 13 * T, HC_LATE); /* the output of blocks 9 and 10 is due now */
    stage_await(&s, 13);             /* blocks 11 and 12, and three of silence */
    engine_wait_set(s.p.engine, SECONDS * 1000000);
    stage_play(&s, FRAMES, HC_OK);
    float *reached = must_alloc(FRAMES, sizeof *reached);
    memcpy(reached, s.p.in[0], FRAMES * sizeof *reached);
    memset(reached + 8 * T, 0, 3 * T * sizeof *reached);
    stage_check(&s, reached, 6 * T, 13 * T, false);
    stage_check(&s, reached, 13 * T, FRAMES, true);
    free(reached);
    stage_close(&s);
}

/* The device stalls for one engine only. */
static void a_stalled_engine_holds_up_no_other(const char *backend)
{
    hc_config c = config(T, TAPS);
    struct stage held, other;
    stage_open(&held, "hold 0", &c);
    stage_play(&held, 2 * T, HC_OK);
    stage_open(&other, NULL, &c);
    stage_play(&other, FRAMES, HC_OK);
    stage_check(&other, other.p.in[0], 0, FRAMES, true);
    stage_close(&other);
    faulty_release();
    stage_play(&held, FRAMES, HC_OK);
    stage_check(&held, held.p.in[0], 0, FRAMES, true);
    stage_close(&held);
}

/* A swap while the device is late: it begins when the new mask's tail is complete, not before. */
static void a_swap_waits_for_a_late_device(const char *backend)
{
    hc_config c = config(T, TAPS);
    struct stage s;
    struct random r = random_seeded(9);
    float *taps = noise(&r, TAPS);
    hc_route next = {0, 0, taps, TAPS, 1, 0};
    stage_open(&s, "hold 4", &c);
    stage_play(&s, 6 * T, HC_OK);
    stage_await(&s, 4);
    struct scene scene = player_scene(&s.p, &next, 1); /* allocates no device buffers: see faulty_device.c */
    engine_wait_set(s.p.engine, -2);
    hc_mask_swap(s.p.engine, scene.mask);
    stage_play(&s, 8 * T, HC_LATE);
    hc_get_info(s.p.engine, &s.p.info);
    check(s.p.info.swaps == 1, "%d swaps: it began without a tail", (int)s.p.info.swaps);
    faulty_release();
    stage_await(&s, 8);
    engine_wait_set(s.p.engine, SECONDS * 1000000);
    stage_play(&s, FRAMES, HC_OK);
    hc_get_info(s.p.engine, &s.p.info);
    int begun = (int)s.p.info.swap_frame;
    check(s.p.info.swaps == 2 && begun >= 8 * T && begun <= 8 * T + s.p.info.swap_delay, "%d swaps, the last at %d",
          (int)s.p.info.swaps, begun);
    stage_check(&s, s.p.in[0], 8 * T, begun, true);
    float *first = s.taps;
    s.taps = taps;
    stage_check(&s, s.p.in[0], begun + c.fade_frames, FRAMES, true);
    s.taps = first;
    stage_close(&s);
    free(taps);
}

/* ---- lost -------------------------------------------------------------------------------------- */

static void a_lost_device_is_said_when_it_is_missed(const char *backend)
{
    hc_config c = config(T, TAPS);
    struct stage s;
    stage_open(&s, "fail 4", &c);
    stage_play(&s, 6 * T, HC_OK); /* the output of earlier jobs is still used */
    stage_play(&s, FRAMES, HC_EDEVICE);
    stage_check(&s, s.p.in[0], 0, 6 * T, true);
    for (int i = 6 * T; i < FRAMES; i++) check(s.p.out[0][i] == 0, "frame %d: %g", i, (double)s.p.out[0][i]);
    hc_get_info(s.p.engine, &s.p.info);
    check(strstr(s.p.info.error, "fell off the bus"), "the error is \"%s\"", s.p.info.error);
    hc_reset(s.p.engine); /* the reset does not bring it back, and does not hang */
    stage_close(&s);
}

/* ---- by "auto" --------------------------------------------------------------------------------- */

/* n_frames helps to choose a backend for a file only. */
static void the_length_of_a_stream_does_not_make_it_a_file(const char *backend)
{
    hc_config c = config(T, 400000);
    struct stage s;
    faulty_costs_keep();
    c.n_frames = 48000 * 600;
    stage_open_as(&s, "auto", NULL, &c);
    check(strcmp(s.p.info.backend, "hybrid") == 0, "it is %s", s.p.info.backend);
    stage_close(&s);
}

static void auto_plays_as_hybrid_by_name(const char *backend)
{
    enum { LONG = 400000 };
    hc_config c = config(T, LONG), small = config(T, TAPS);
    struct stage named, chosen, other;
    faulty_costs_keep();
    stage_open_as(&other, "auto", NULL, &small);
    check(strcmp(other.p.info.backend, "cpu") == 0, "a short response: %s", other.p.info.backend);
    stage_close(&other);
    stage_open_as(&named, "hybrid", "fail 12", &c);
    stage_open_as(&chosen, "auto", "fail 12", &c);
    check(strcmp(chosen.p.info.backend, "hybrid") == 0, "a long response: %s", chosen.p.info.backend);
    check(strcmp(chosen.p.info.device, named.p.info.device) == 0, "%s", chosen.p.info.device);
    for (struct stage *s = &named; s; s = s == &named ? &chosen : NULL) {
        hc_route softer = {0, 0, s->taps, LONG, 0.5f, 0};
        stage_play(s, 4 * T, HC_OK);
        player_swap(&s->p, player_scene(&s->p, &softer, 1));
        stage_play(s, 14 * T, HC_OK);
        stage_play(s, FRAMES, HC_EDEVICE);
        hc_get_info(s->p.engine, &s->p.info);
    }
    for (int i = 0; i < 4 * T; i++)
        check(chosen.p.out[0][i] == named.p.out[0][i], "frame %d: %.9g, by name %.9g", i, (double)chosen.p.out[0][i],
              (double)named.p.out[0][i]);
    check(chosen.p.info.swaps == 2 && named.p.info.swaps == 2, "%d swaps", (int)chosen.p.info.swaps);
    check(strstr(chosen.p.info.error, "fell off the bus"), "the error is \"%s\"", chosen.p.info.error);
    stage_close(&chosen);
    stage_close(&named);
}

int main(void)
{
    static const struct test tests[] = {
        TEST(info_says_what_is_where, false),
        TEST(a_short_mask_needs_no_device, false),
        TEST(the_callback_calls_no_device, false),
        TEST(engines_fall_due_in_turns, false),
        TEST(phase_does_not_depend_on_engines_opened_before, false),
        TEST(a_device_that_is_slow_is_waited_for, false),
        TEST(a_late_tail_is_left_out_and_keeps_its_place, false),
        TEST(a_block_that_finds_no_room_is_silence_in_the_past, false),
        TEST(a_stalled_engine_holds_up_no_other, false),
        TEST(a_swap_waits_for_a_late_device, false),
        TEST(a_lost_device_is_said_when_it_is_missed, false),
        TEST(the_length_of_a_stream_does_not_make_it_a_file, false),
        TEST(auto_plays_as_hybrid_by_name, false),
    };
    return check_main("hybrid", tests, sizeof tests / sizeof *tests);
}
