/* Moving sources on the CPU, without an engine: what scene_cpu.c promises beside the sound that
 * tests/engine/steer_test.c checks. */
#include "check.h"
#include "dsp/cpu/scene_state.h"
#include "dsp/device/hc_bank.h"

#include <math.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

struct stage {
    struct scene_plan plan;
    struct scene_shape shape;
    void *state;
    hc_bank banks[2];
    int n_banks, n_entries[2], n_out[2], n_taps[2];
    float **taps[2]; /* [bank][entry * n_out + out] */
    float **x, **y;
    struct scene_term *terms[3]; /* [n_sources] of a block, of the block before, of the last edge of each tail level */
    int64_t frame;
};

static void stage_open(struct stage *s, int block, int fade, int taps, int n_sources, int n_out, int n_threads)
{
    char why[256] = "";
    memset(s, 0, sizeof *s);
    scene_plan_make(&s->plan, 48000, block, fade, taps);
    s->shape = (struct scene_shape){.n_sources = n_sources, .n_out = n_out, .n_threads = n_threads};
    check(scene_cpu.open(&s->plan, &s->shape, 0, &s->state, REASON(why, sizeof why)) == HC_OK, "%s", why);
    s->x = must_alloc((size_t)n_sources, sizeof *s->x);
    s->y = must_alloc((size_t)n_out, sizeof *s->y);
    for (int i = 0; i < n_sources; i++) s->x[i] = must_alloc((size_t)block, sizeof(float));
    for (int i = 0; i < n_out; i++) s->y[i] = must_alloc((size_t)block, sizeof(float));
    for (int i = 0; i < 3; i++) s->terms[i] = must_alloc((size_t)n_sources, sizeof *s->terms[i]);
}

static void stage_bank(struct stage *s, struct random *random, int n_entries, int n_out, int n_taps)
{
    char why[256] = "";
    uint64_t bytes;
    int b = s->n_banks++, n = n_entries * n_out;
    s->taps[b] = must_alloc((size_t)n, sizeof *s->taps[b]);
    for (int i = 0; i < n; i++) s->taps[b][i] = noise(random, n_taps);
    hc_bank_data data = {.size = sizeof data, .n_entries = n_entries, .n_out = n_out, .n_taps = n_taps};
    data.taps = (const float *const *)s->taps[b];
    s->n_entries[b] = n_entries;
    s->n_out[b] = n_out;
    s->n_taps[b] = n_taps;
    check(scene_cpu.bank_make(&s->plan, 0, &data, s->banks[b].impl, &bytes, REASON(why, sizeof why)) == HC_OK, "%s",
          why);
}

static void stage_close(struct stage *s)
{
    scene_cpu.close(s->state);
    for (int b = 0; b < s->n_banks; b++) {
        scene_cpu.bank_free(s->banks[b].impl[0]);
        for (int i = 0; i < s->n_entries[b] * s->n_out[b]; i++) free(s->taps[b][i]);
        free(s->taps[b]);
    }
    for (int i = 0; i < s->shape.n_sources; i++) free(s->x[i]);
    for (int i = 0; i < s->shape.n_out; i++) free(s->y[i]);
    for (int i = 0; i < 3; i++) free(s->terms[i]);
    free(s->x);
    free(s->y);
}

/* Plays n frames of noise in one block of the stream; every source takes another entry at each block. */
static void stage_play(struct stage *s, struct random *random, int n)
{
    struct scene_call call = {.frame = s->frame, .n = n, .n_active = s->shape.n_out};
    struct scene_mix tail = {s->shape.n_sources, s->terms[2]};
    char why[256] = "";
    if (s->frame % s->plan.block == 0) {
        struct scene_term *before = s->terms[1];
        s->terms[1] = s->terms[0];
        s->terms[0] = before;
        for (int i = 0; i < s->shape.n_sources; i++) {
            int b = random_int(random, 0, s->n_banks - 1);
            s->terms[0][i] = (struct scene_term){.bank = &s->banks[b], .source = i, .weight = random_sample(random)};
            s->terms[0][i].entry = random_int(random, 0, s->n_entries[b] - 1);
        }
    }
    for (int l = 1; l < s->plan.n_levels; l++) {
        if (s->frame % s->plan.levels[l].hop) continue;
        memcpy(s->terms[2], s->terms[0], (size_t)s->shape.n_sources * sizeof *s->terms[2]);
        call.tail[l] = &tail;
    }
    for (int i = 0; i < s->shape.n_sources; i++)
        for (int k = 0; k < n; k++) s->x[i][k] = random_sample(random);
    for (int i = 0; i < s->shape.n_out; i++) memset(s->y[i], 0, (size_t)n * sizeof(float));
    call.in = (const float *const *)s->x;
    call.out = s->y;
    call.is_still = s->frame < s->plan.block;
    call.to = (struct scene_mix){s->shape.n_sources, s->terms[0]};
    call.from = (struct scene_mix){s->shape.n_sources, s->terms[call.is_still ? 0 : 1]};
    check(scene_cpu.play(s->state, &call, REASON(why, sizeof why)) == HC_OK, "%s", why);
    s->frame += n;
}

/* ---- tests ------------------------------------------------------------------------------------------------------- */

/* One source and one entry, which never changes: the taps themselves, in every level and partition. `block` 64 and
 * 0.5 s have partitions of several hops. */
static void check_response(int block, int fade, int n_taps, int n_out, int n_threads)
{
    struct stage s;
    struct random random = random_seeded(3);
    char why[256] = "";
    stage_open(&s, block, fade, n_taps, 1, n_out, n_threads);
    stage_bank(&s, &random, 2, n_out, n_taps);
    int n = (n_taps + 3 * block) / block * block, impulse = 5;
    float *y = must_alloc((size_t)n * (size_t)n_out, sizeof *y);
    struct scene_term term = {.bank = &s.banks[0], .entry = 1, .weight = 0.5f};
    struct scene_mix mix = {1, &term};
    for (int64_t frame = 0; frame < n; frame += block) {
        struct scene_call call = {
            .frame = frame, .n = block, .n_active = n_out, .is_still = true, .to = mix, .from = mix};
        for (int l = 1; l < s.plan.n_levels; l++)
            if (frame % s.plan.levels[l].hop == 0) call.tail[l] = &mix;
        for (int k = 0; k < block; k++) s.x[0][k] = frame + k == impulse;
        for (int out = 0; out < n_out; out++) memset(s.y[out], 0, (size_t)block * sizeof(float));
        call.in = (const float *const *)s.x;
        call.out = s.y;
        check(scene_cpu.play(s.state, &call, REASON(why, sizeof why)) == HC_OK, "%s", why);
        for (int out = 0; out < n_out; out++)
            memcpy(y + (size_t)out * (size_t)n + frame, s.y[out], (size_t)block * sizeof *y);
    }
    for (int out = 0; out < n_out; out++) {
        for (int k = 0; k < n; k++) {
            int tap = k - impulse;
            double want = tap >= 0 && tap < n_taps ? 0.5 * s.taps[0][n_out + out][tap] : 0;
            double error = fabs(y[(size_t)out * (size_t)n + (size_t)k] - want);
            check(error <= 0.5e-6, "block %d, %d taps, output %d, frame %d: error %g", block, n_taps, out, k, error);
        }
    }
    free(y);
    stage_close(&s);
}

static void every_tap_of_a_response_is_played(const char *backend)
{
    check_response(64, 64, 24000, 2, 1);
    check_response(64, 64, 24000, 3, 2);
    check_response(64, 64, 48000, 2, 2);
    check_response(64, 200, 9000, 1, 1);
    check_response(16, 5, 5000, 2, 1);
    check_response(48, 48, 100, 5, 1);
    check_response(64, 32, 961, 2, 1);
    check_response(1024, 1024, 3000, 2, 1);
}

/* Parts of blocks and whole ones, two banks, outputs in pairs and one alone. */
static void threads_do_not_change_a_bit(const char *backend)
{
    enum { N_STAGES = 3, BLOCK = 64 };
    const int threads[N_STAGES] = {1, 2, 4};
    struct stage stages[N_STAGES];
    struct random randoms[N_STAGES];
    for (int i = 0; i < N_STAGES; i++) {
        randoms[i] = random_seeded(7);
        stage_open(&stages[i], BLOCK, BLOCK, 30000, 9, 3, threads[i]);
        stage_bank(&stages[i], &randoms[i], 10, 3, 30000);
        stage_bank(&stages[i], &randoms[i], 5, 2, 2500);
    }
    struct random sizes = random_seeded(8);
    for (int round = 0; round < 2; round++) {
        while (stages[0].frame < 200 * BLOCK) {
            int left = BLOCK - (int)(stages[0].frame % BLOCK);
            int n = random_int(&sizes, 0, 3) > 0 ? left : random_int(&sizes, 1, left);
            for (int i = 0; i < N_STAGES; i++) {
                stage_play(&stages[i], &randoms[i], n);
                for (int out = 0; out < 3; out++)
                    check(memcmp(stages[i].y[out], stages[0].y[out], (size_t)n * sizeof(float)) == 0,
                          "%d threads: frame %lld, output %d", threads[i], (long long)stages[i].frame, out);
            }
        }
        for (int i = 0; i < N_STAGES; i++) { /* with jobs under way */
            check(scene_cpu.reset(stages[i].state, NULL) == HC_OK, "reset");
            stages[i].frame = 0;
        }
    }
    for (int i = 0; i < N_STAGES; i++) stage_close(&stages[i]);
}

/* Work as it is counted, not timed: without threads, no call does one and a half times the mean; one transform may come
 * in addition, which matters with a few sources only. */
static void check_even(int n_taps, int n_sources, int n_out)
{
    const double transform = 11e6; /* picoseconds */
    struct stage s;
    struct random random = random_seeded(11);
    stage_open(&s, 64, 64, n_taps, n_sources, n_out, 1);
    stage_bank(&s, &random, 4, n_out, n_taps);
    const struct scene_tail *tail = ((struct scene_state *)s.state)->tail;
    check(tail, "%d taps: the plan has no tail", n_taps);
    int hop = s.plan.levels[s.plan.n_levels - 1].hop;
    for (int n = 64; n >= 32; n -= 32) {
        int n_calls = 2 * hop / n;
        int64_t most = 0, start = scene_tail_work(tail);
        for (int i = 0; i < n_calls; i++) {
            int64_t before = scene_tail_work(tail);
            stage_play(&s, &random, n);
            int64_t work = scene_tail_work(tail) - before;
            if (work > most) most = work;
        }
        double mean = (double)(scene_tail_work(tail) - start) / n_calls;
        check(mean > 0 && (double)most < 1.5 * mean + transform, "%d taps, calls of %d frames: %g of %g on average",
              n_taps, n, (double)most, mean);
    }
    stage_close(&s);
}

static void calls_share_the_work_of_a_hop_evenly(const char *backend)
{
    check_even(24000, 16, 2);
    check_even(24000, 3, 1);
    check_even(24000, 128, 2);
    check_even(48000, 16, 2);
    check_even(5000, 4, 16);
}

/* On one processor, with real-time priorities: an engine thread that waits for a job without sleep takes the processor
 * from the thread that has begun the job. */
static void a_job_of_a_lower_priority_is_completed(const char *backend)
{
    struct stage s;
    struct random random = random_seeded(13);
    cpu_set_t before, one;
    struct sched_param priority = {.sched_priority = 5};
    check(sched_getaffinity(0, sizeof before, &before) == 0, "affinity");
    CPU_ZERO(&one);
    for (int cpu = 0; CPU_COUNT(&one) == 0; cpu++)
        if (CPU_ISSET(cpu, &before)) CPU_SET(cpu, &one);
    if (sched_setscheduler(0, SCHED_FIFO, &priority) != 0) check_skip("no real-time priority is granted");
    check(sched_setaffinity(0, sizeof one, &one) == 0, "affinity");
    stage_open(&s, 64, 64, 24000, 64, 2, 2);
    stage_bank(&s, &random, 4, 2, 24000);
    for (int i = 0; i < 60; i++) {
        stage_play(&s, &random, 64);
        pause_us(50); /* too short for all jobs */
    }
    priority.sched_priority = 0;
    sched_setscheduler(0, SCHED_OTHER, &priority);
    sched_setaffinity(0, sizeof before, &before);
    stage_close(&s);
}

static void sizes_that_no_machine_has_are_refused(const char *backend)
{
    struct scene_plan plan;
    struct scene_shape shape = {.n_sources = 65536, .n_out = 4096};
    void *state = NULL;
    char why[256] = "";
    scene_plan_make(&plan, 48000, 64, 64, 1 << 24);
    check(scene_cpu.open(&plan, &shape, 0, &state, REASON(why, sizeof why)) == HC_ENOMEM && !state, "opened");
    check(strstr(why, "65536 sources") && strstr(why, "GiB"), "%s", why);
    check(scene_cpu.memory(&plan, &shape) >= 4.0 * 65536 * (1 << 24), "%g bytes", scene_cpu.memory(&plan, &shape));
    uint64_t bytes;
    float tap = 1;
    int n = 1 << 22;
    const float **taps = must_alloc((size_t)n, sizeof *taps);
    for (int i = 0; i < n; i++) taps[i] = &tap;
    hc_bank_data data = {.size = sizeof data, .n_entries = n, .n_out = 1, .n_taps = 1 << 24, .taps = taps};
    check(scene_cpu.bank_make(&plan, 0, &data, &state, &bytes, REASON(why, sizeof why)) == HC_ENOMEM && !state, "made");
    check(strstr(why, "a bank of 4194304 entries") && strstr(why, "GiB"), "%s", why);
    free(taps);
}

static const struct test tests[] = {
    TEST(every_tap_of_a_response_is_played, false),     TEST(threads_do_not_change_a_bit, false),
    TEST(calls_share_the_work_of_a_hop_evenly, false),  TEST(a_job_of_a_lower_priority_is_completed, false),
    TEST(sizes_that_no_machine_has_are_refused, false),
};

int main(void)
{
    return check_main("scene_cpu_test", tests, sizeof tests / sizeof *tests);
}
