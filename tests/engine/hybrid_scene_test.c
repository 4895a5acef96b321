/* Steered sources on backend hybrid: the output while the device of the tail is late or lost.
 *
 * The device is faulty_device.c, which fails and waits on request: a GPU, or the CPU in the device thread if there is
 * no GPU. steer_test.c runs on this backend too, and tests its other promises.
 */
#include "dsp/engine/engine.h"
#include "dsp/scene/device_bank.h"
#include "faulty_device.h"
#include "moving.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 64, TAPS = 3000, FRAMES = 7000, SECONDS = 10, PATIENT = SECONDS * 1000000, HURRIED = 1 };

struct stage {
    struct moving m;
    struct moving_bank bank;
    int hop;
    long before; /* calls of the device before this engine was opened */
};

static void stage_open(struct stage *s, const char *fault)
{
    hc_config c = moving_config(BLOCK, TAPS, 2, 2);
    setenv("HC_FAULT_SCENE", fault, 1);
    s->before = atomic_load(&faulty_record.scenes_finished);
    moving_open(&s->m, &c, "hybrid", FRAMES, 1);
    unsetenv("HC_FAULT_SCENE");
    check(s->m.info.n_steer_levels == 2, "%d levels", s->m.info.n_steer_levels);
    s->hop = s->m.info.steer_levels[1].hop;
    moving_bank(&s->m, &s->bank, 6, 2, TAPS, 2);
}

static void stage_close(struct stage *s)
{
    moving_close(&s->m);
    moving_bank_free(&s->bank);
}

/* Plays to the edge of a hop, steering all the time; each call waits for wait_us and must answer `want`. */
static void stage_play(struct stage *s, int end_hop, int wait_us, int want)
{
    engine_wait_set(s->m.engine, wait_us);
    while (s->m.n_frames < end_hop * s->hop) {
        const float *in[] = {s->m.in[0] + s->m.n_frames, s->m.in[1] + s->m.n_frames};
        float *out[] = {s->m.out[0] + s->m.n_frames, s->m.out[1] + s->m.n_frames};
        moving_steer_all(&s->m, &s->bank, HC_MAX_MIX);
        int code = hc_process(s->m.engine, in, out, BLOCK);
        check(code == want, "hc_process at frame %d (hop %d): %d, want %d", s->m.n_frames, s->m.n_frames / s->hop, code,
              want);
        s->m.n_frames += BLOCK;
    }
}

/* Until the device has played n hops of this engine. */
static void stage_await(const struct stage *s, long n)
{
    for (int ms = 0; atomic_load(&faulty_record.scenes_finished) - s->before < n; ms++) {
        check(ms < SECONDS * 1000, "the device has played %ld hops, want %ld",
              atomic_load(&faulty_record.scenes_finished) - s->before, n);
        pause_us(1000);
    }
}

/* The output is right, apart from the tail: hops [from, to) have none, and the device got silence for hop `skipped`. */
static void stage_check(struct stage *s, int from, int to, int skipped)
{
    struct moving head = s->m, tail = s->m;
    float *in[2];
    head.info.n_steer_levels = tail.info.n_steer_levels = 1;
    tail.info.steer_levels[0] = s->m.info.steer_levels[1];
    tail.in = in;
    for (int i = 0; i < 2; i++) {
        in[i] = must_alloc(FRAMES, sizeof **in);
        memcpy(in[i], s->m.in[i], FRAMES * sizeof **in);
        if (skipped >= 0) memset(in[i] + skipped * s->hop, 0, (size_t)s->hop * sizeof **in);
    }
    double *heads = moving_wants(&head), *tails = moving_wants(&tail), peak = 0;
    int n = s->m.n_frames;
    for (int i = 0; i < 2 * n; i++) peak = fmax(peak, fabs(heads[i] + tails[i]));
    for (int i = 0; i < 2 * n; i++) {
        int hop = i % n / s->hop;
        bool has_tail = (hop < from || hop >= to) && (skipped < 0 || hop != skipped + 2);
        double want = heads[i] + (has_tail ? tails[i] : 0), got = (double)s->m.out[i / n][i % n];
        check(fabs(got - want) <= PEAK_SHARE * peak, "output %d, frame %d (hop %d): got %.9g, want %.9g, peak %g",
              i / n, i % n, hop, got, want, peak);
    }
    free(heads);
    free(tails);
    for (int i = 0; i < 2; i++) free(in[i]);
}

/* The device's call 3 plays hop 3, which is due in hop 5. */
static void a_late_device_leaves_the_head(const char *backend)
{
    struct stage s;
    stage_open(&s, "hold 3");
    stage_play(&s, 5, PATIENT, HC_OK);
    stage_play(&s, 6, HURRIED, HC_LATE);
    faulty_release();
    stage_await(&s, 5);
    stage_play(&s, FRAMES / s.hop, PATIENT, HC_OK);
    stage_check(&s, 5, 6, -1);
    hc_info info = {.size = sizeof info};
    hc_get_info(s.m.engine, &info);
    check(info.late == (uint64_t)(s.hop / BLOCK), "%llu late blocks", (unsigned long long)info.late);
    stage_close(&s);
}

/* While all jobs are in use, a hop is skipped. */
static void a_hanging_device_gets_silence_for_a_skipped_hop(const char *backend)
{
    struct stage s;
    stage_open(&s, "hold 3");
    stage_play(&s, 5, PATIENT, HC_OK);
    stage_play(&s, 8, HURRIED, HC_LATE);
    faulty_release();
    stage_await(&s, 7);
    stage_play(&s, 9, PATIENT, HC_OK); /* hop 6 is due */
    stage_play(&s, 10, PATIENT, HC_LATE);
    stage_play(&s, FRAMES / s.hop, PATIENT, HC_OK);
    stage_check(&s, 5, 8, 7);
    stage_close(&s);
}

static void a_wait_without_bound_waits_for_the_device(const char *backend)
{
    struct stage s;
    stage_open(&s, "slow 2 30 3");
    stage_play(&s, FRAMES / s.hop, HC_WAIT_FOREVER, HC_OK);
    stage_check(&s, 0, 0, -1);
    stage_close(&s);
}

static void a_lost_device_is_reported(const char *backend)
{
    struct stage s;
    stage_open(&s, "fail 3");
    stage_play(&s, 5, PATIENT, HC_OK);
    stage_check(&s, 0, 0, -1);
    stage_play(&s, 7, PATIENT, HC_EDEVICE);
    for (int i = 5 * s.hop; i < s.m.n_frames; i++)
        check(s.m.out[0][i] == 0 && s.m.out[1][i] == 0, "frame %d is not silent", i);
    hc_info info = {.size = sizeof info};
    hc_get_info(s.m.engine, &info);
    check(strstr(info.error, "fell off the bus"), "%s", info.error);
    stage_close(&s);
}

static void a_bank_lives_until_a_late_device_is_done_with_it(const char *backend)
{
    struct stage s;
    hc_info info = {.size = sizeof info};
    stage_open(&s, "hold 3");
    stage_play(&s, 5, PATIENT, HC_OK); /* until the device is done with call 2 */
    uint64_t bytes = s.bank.bank->bytes;
    for (int i = 0; i < 2; i++) hc_steer(s.m.engine, i, NULL, NULL, NULL, 0);
    hc_bank_free(s.bank.bank);
    s.bank.bank = NULL;
    engine_wait_set(s.m.engine, HURRIED);
    float zeros[BLOCK] = {0}, rest[2][BLOCK];
    const float *in[] = {zeros, zeros};
    float *out[] = {rest[0], rest[1]};
    for (int i = 0; i < 10 * s.hop / BLOCK; i++) hc_process(s.m.engine, in, out, BLOCK);
    hc_bank_free(NULL);
    hc_get_info(s.m.engine, &info);
    check(info.bank_memory == bytes, "a late job's bank was freed");
    faulty_release();
    stage_await(&s, 7);
    for (int ms = 0; info.bank_memory > 0 && ms < SECONDS * 1000; ms++) { /* the count follows the call */
        pause_us(1000);
        hc_bank_free(NULL);
        hc_get_info(s.m.engine, &info);
    }
    check(info.bank_memory == 0, "%llu bytes are left", (unsigned long long)info.bank_memory);
    stage_close(&s);
}

/* Jobs that no device has played are dropped. */
static void an_engine_closes_while_jobs_wait(const char *backend)
{
    struct stage s;
    for (int i = 0; i < 20; i++) {
        stage_open(&s, "slow 2 2 1");
        stage_play(&s, 3, PATIENT, HC_OK);
        engine_wait_set(s.m.engine, HC_WAIT_NONE);
        for (int k = 0; k < 30 * i; k++) {
            const float *in[] = {s.m.in[0], s.m.in[1]};
            float *out[] = {s.m.out[0], s.m.out[1]};
            moving_steer_all(&s.m, &s.bank, HC_MAX_MIX);
            int code = hc_process(s.m.engine, in, out, BLOCK);
            check(code == HC_OK || code == HC_LATE, "hc_process: %d", code);
        }
        if (i % 3 == 0) hc_reset(s.m.engine);
        stage_close(&s);
    }
}

/* A fade costs the device two products a hop. */
static void sources_at_rest_do_not_fade(const char *backend)
{
    enum { HOPS = 9 };
    struct stage s;
    stage_open(&s, "none");
    long still = atomic_load(&faulty_record.scenes_still);
    for (int i = 0; i < 2; i++) moving_steer_one(&s.m, i, &s.bank, i);
    moving_play_to(&s.m, (HOPS + 1) * s.hop, BLOCK);
    stage_await(&s, HOPS);
    still = atomic_load(&faulty_record.scenes_still) - still;
    check(still == HOPS, "%ld hops of %d had no fade", still, HOPS);
    moving_check(&s.m);
    stage_close(&s);
}

static void info_says_what_is_where(const char *backend)
{
    struct stage s;
    stage_open(&s, "none");
    const hc_steer_level *levels = s.m.info.steer_levels;
    check(levels[1].offset == 2 * s.hop && levels[1].delay == s.hop, "offset %d, delay %d, hop %d", levels[1].offset,
          levels[1].delay, s.hop);
    check(strcmp(s.m.info.backend, "hybrid") == 0 && strstr(s.m.info.device, "tail on cuda:0"), "%s: %s",
          s.m.info.backend, s.m.info.device);
    stage_close(&s);
    hc_config c = moving_config(BLOCK, 1000, 1, 1);
    struct moving m;
    long before = atomic_load(&faulty_record.scenes_finished);
    moving_open(&m, &c, "hybrid", 40 * BLOCK, 3);
    check(strstr(m.info.device, "no tail") && m.info.n_steer_levels == 1, "%s", m.info.device);
    moving_play_to(&m, m.cap, BLOCK);
    check(atomic_load(&faulty_record.scenes_finished) == before, "a short bank called the device");
    moving_close(&m);
}

int main(void)
{
    static const struct test tests[] = {
        TEST(info_says_what_is_where, false),
        TEST(sources_at_rest_do_not_fade, false),
        TEST(a_late_device_leaves_the_head, false),
        TEST(a_hanging_device_gets_silence_for_a_skipped_hop, false),
        TEST(a_wait_without_bound_waits_for_the_device, false),
        TEST(a_lost_device_is_reported, false),
        TEST(a_bank_lives_until_a_late_device_is_done_with_it, false),
        TEST(an_engine_closes_while_jobs_wait, false),
    };
    return check_main("hybrid_scene", tests, sizeof tests / sizeof *tests);
}
