/* A standby engine on the CPU, and the input that it has processed when it takes over. The device is faulty_device.c.
 * The test is the audio thread, and holds the lock to keep the standby thread behind. */
#include "check.h"
#include "dsp/base/await.h"
#include "dsp/live/failover.h"
#include "faulty_device.h" /* replaces "cuda" */
#include "reference.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    TAPS = 2000,
    BLOCK = 64,
    HISTORY = 16000, /* frames */
    WARM_UP = 16,    /* blocks that failover_start plays to the device */
    MAX_BEHIND = 4,  /* blocks that a standby engine may miss and still play in the same block */
    FRAMES = BLOCK * 2000,
    PATIENCE_S = 60,
    NO_FREEWHEEL_US = 9000000 /* a device may take long on a busy machine, but it plays against the clock */
};

struct play {
    struct failover *failover;
    struct input_history history;
    long pos, lost; /* lost: the first frame that the device did not play */
    float *taps, *in, *out;
};

static void play_open_fault(struct play *p, const char *backend, int max_taps, const char *fault, int block)
{
    char why[400] = "";
    struct random r = random_seeded(21);
    *p = (struct play){0};
    p->taps = noise(&r, TAPS);
    p->in = noise(&r, FRAMES);
    p->out = must_alloc(FRAMES, sizeof(float));
    check(input_history_open(&p->history, 1, HISTORY + 4 * block, block), "no history");
    hc_config config;
    hc_config_init(&config);
    config.block = block;
    config.n_in = config.n_out = 1;
    config.max_taps = max_taps;
    config.wait_us = NO_FREEWHEEL_US;
    config.backend = backend;
    setenv("HC_FAULT", fault, 1);
    int error = failover_open(&config, &p->history, NULL, 1e9, &p->failover, REASON(why, sizeof why));
    unsetenv("HC_FAULT");
    check(error == HC_OK, "%s", why);
    hc_route route = {.taps = p->taps, .n_taps = TAPS, .gain = 1};
    check(failover_load(p->failover, &route, 1, NULL, REASON(why, sizeof why)) == HC_OK, "%s", why);
    check(failover_start(p->failover, 0, REASON(why, sizeof why)) == HC_OK, "%s", why);
    failover_set_wait(p->failover, NO_FREEWHEEL_US);
}

static void play_open_as(struct play *p, const char *backend, int max_taps, int lost_at_block, int block)
{
    char fault[32];
    snprintf(fault, sizeof fault, "fail %d", lost_at_block + WARM_UP);
    play_open_fault(p, backend, max_taps, fault, block);
    p->lost = (long)lost_at_block * BLOCK;
}

static void play_open_in_blocks(struct play *p, int lost_at_block, int block)
{
    play_open_as(p, "cuda", TAPS, lost_at_block, block);
}

static void play_open(struct play *p, int lost_at_block)
{
    play_open_in_blocks(p, lost_at_block, BLOCK);
}

static void play_close(struct play *p)
{
    check(failover_close(p->failover), "a lost device must not keep the process");
    input_history_close(&p->history);
    free(p->taps);
    free(p->in);
    free(p->out);
}

static enum failover_result process(struct play *p, const float *const *in, float *const *out, int n)
{
    const float *row;
    uint32_t peak = 0;
    int64_t called_ns = now_ns();
    input_history_write(&p->history, in, 0, n, &row, &peak);
    enum failover_result result = failover_process(p->failover, &row, out, n, called_ns);
    input_history_publish(&p->history, n);
    failover_wake(p->failover);
    return result;
}

static enum failover_result play_block(struct play *p)
{
    const float *in = p->in + p->pos;
    float *out = p->out + p->pos;
    check(p->pos + BLOCK <= FRAMES, "the input is too short");
    enum failover_result result = process(p, &in, &out, BLOCK);
    p->pos += BLOCK;
    return result;
}

static void play_to(struct play *p, long frame)
{
    while (p->pos < frame) check(play_block(p) == FAILOVER_PLAYED, "frame %ld was not played", p->pos - BLOCK);
}

/* The standby thread processes nothing from here on. */
static void lock_standby(struct play *p)
{
    while (atomic_flag_test_and_set_explicit(&p->failover->lock, memory_order_acquire)) pause_us(1000);
}

static void unlock_standby(struct play *p)
{
    atomic_flag_clear_explicit(&p->failover->lock, memory_order_release);
}

/* Waits until the standby thread has processed all that was played. */
static void await_standby(struct play *p)
{
    long waited_ms = 0;
    for (int64_t at = -1; at < p->pos; waited_ms++) {
        check(waited_ms < PATIENCE_S * 1000, "the standby engine has processed %ld of %ld frames, and goes no further",
              (long)at, p->pos);
        pause_us(1000);
        lock_standby(p);
        at = p->failover->standby.at;
        unlock_standby(p);
        if (waited_ms % 100 == 0)
            failover_wake(p->failover); /* the thread may have found the lock taken, and sleeps again */
    }
}

/* Ends the standby thread: from here on only the audio thread can process the history. */
static void end_thread(struct play *p)
{
    await_standby(p);
    atomic_store(&p->failover->end, true);
    sem_post(&p->failover->wake);
    pthread_join(p->failover->thread, NULL);
    p->failover->has_thread = false;
}

/* Checks frames [first, last): the taps convolved with the input from frame `start` on. */
static void play_check(const struct play *p, long start, long first, long last)
{
    double peak = 0;
    for (long i = first; i < last; i++) peak = fmax(peak, fabs((double)p->out[i]));
    check(last > first && peak > 0, "silence from frame %ld to %ld", first, last);
    for (long i = first; i < last; i++) {
        double want = reference_sum(p->taps, TAPS, p->in + start, FRAMES - start, i - start), got = (double)p->out[i];
        check(fabs(got - want) <= 1e-6 * peak, "frame %ld of %ld to %ld: got %.9g, want %.9g, peak %.3g", i, first,
              last, got, want, peak);
    }
}

/* ---- promises ---------------------------------------------------------------------------------- */

static void the_standby_processes_the_input_by_itself(const char *backend)
{
    struct play p;
    play_open(&p, 200); /* the history holds all 200 blocks, however late the standby thread starts */
    play_to(&p, p.lost);
    end_thread(&p);
    play_to(&p, p.lost + 50 * BLOCK);
    check(failover_state(p.failover) == HC_LIVE_STANDBY, "state %d", (int)failover_state(p.failover));
    play_check(&p, 0, 0, p.pos);
    play_close(&p);
}

/* By name and by "auto" alike. The device fails in a job of its tail, some blocks before it is missed. */
static void the_standby_replaces_hybrid(const char *backend)
{
    static const char *const names[] = {"hybrid", "auto"};
    faulty_costs_keep();
    for (int i = 0; i < 2; i++) {
        struct play p;
        play_open_as(&p, names[i], 400000, 20, BLOCK);
        check(strcmp(p.failover->info.backend, "hybrid") == 0, "%s is %s", names[i], p.failover->info.backend);
        for (play_to(&p, 10 * BLOCK); failover_state(p.failover) == HC_LIVE_OK; play_to(&p, p.pos + BLOCK))
            await_standby(&p);
        play_to(&p, p.pos + 50 * BLOCK);
        check(failover_state(p.failover) == HC_LIVE_STANDBY, "%s: state %d", names[i], (int)failover_state(p.failover));
        play_check(&p, 0, 0, p.pos);
        play_close(&p);
    }
}

/* A job of the tail stalls whose output is not due yet. The first round counts the blocks until it is. */
static void to_forget_waits_for_a_device_as_a_block_does(const char *backend)
{
    faulty_costs_keep();
    for (int round = 0, blocks = 0; round < 2; round++) {
        struct play p;
        int played = 0;
        play_open_fault(&p, "hybrid", 400000, "hold 40", BLOCK);
        failover_set_wait(p.failover, 100000);
        while ((round == 0 || played < blocks - 1) && play_block(&p) == FAILOVER_PLAYED) played++;
        check(round == 0 || played == blocks - 1, "late after %d blocks, before after %d", played, blocks);
        blocks = played;
        int64_t start = now_us();
        if (round == 1) failover_forget(p.failover, p.pos);
        check(now_us() - start < 5000000, "a wait of %ld us", (long)(now_us() - start));
        faulty_release();
        play_close(&p);
    }
}

/* If the system has stopped the standby thread, the audio thread processes the missing blocks first. More than
 * MAX_BEHIND would take longer than a block may. */
static void missing_blocks_are_processed_first(const char *backend)
{
    for (int behind = 1; behind <= MAX_BEHIND + 1; behind++) {
        struct play p;
        play_open(&p, 100);
        play_to(&p, p.lost - behind * BLOCK);
        end_thread(&p);
        play_to(&p, p.lost);
        enum failover_result result = play_block(&p), want = behind <= MAX_BEHIND ? FAILOVER_PLAYED : FAILOVER_LATE;
        check(result == want, "%d blocks behind: result %d, want %d", behind, (int)result, (int)want);
        if (result == FAILOVER_PLAYED) play_to(&p, p.lost + 50 * BLOCK);
        play_check(&p, 0, 0, result == FAILOVER_PLAYED ? p.pos : p.lost);
        play_close(&p);
    }
}

static void freewheeling_all_missing_blocks_are_processed_first(const char *backend)
{
    struct play p;
    play_open(&p, 100);
    play_to(&p, 10 * BLOCK);
    end_thread(&p);
    failover_set_wait(p.failover, HC_WAIT_FOREVER); /* there is no deadline */
    play_to(&p, p.lost + 50 * BLOCK);
    play_check(&p, 0, 0, p.pos);
    play_close(&p);
}

/* If the standby engine is too far behind for one block, or its thread has the lock, the output is silence until it has
 * caught up. */
static void from_too_far_behind_the_standby_plays_a_few_blocks_later(const char *backend)
{
    static const int behind[] = {0, 1, MAX_BEHIND + 1};
    for (int i = 0; i < 3; i++) {
        struct play p;
        play_open(&p, 100);
        play_to(&p, p.lost - behind[i] * BLOCK);
        await_standby(&p);
        lock_standby(&p);
        play_to(&p, p.lost);
        check(play_block(&p) == FAILOVER_LATE, "%d blocks behind the standby played without the lock", behind[i]);
        for (int k = 0; k < BLOCK; k++) check(p.out[p.lost + k] == 0, "frame %d of a late block is not silence", k);
        unlock_standby(&p);
        long first = p.pos;
        for (enum failover_result result = FAILOVER_LATE; result == FAILOVER_LATE; first = p.pos - BLOCK) {
            await_standby(&p);
            result = play_block(&p);
        }
        play_to(&p, first + 50 * BLOCK);
        play_check(&p, 0, 0, p.lost);
        play_check(&p, 0, first, p.pos);
        play_close(&p);
    }
}

/* Frames that the history no longer holds. */
static void overwritten_history_counts_as_silence(const char *backend)
{
    struct play p;
    play_open(&p, 500);
    play_to(&p, 10 * BLOCK);
    await_standby(&p);
    lock_standby(&p);
    play_to(&p, p.lost);
    unlock_standby(&p);
    end_thread(&p);
    play_to(&p, p.lost + 50 * BLOCK);
    play_check(&p, 0, 0, p.lost);
    play_check(&p, p.lost, p.lost, p.pos);
    play_close(&p);
}

/* A standby thread that the system does not let run keeps the lock: the audio thread does not wait half a block for
 * it. */
static void a_standby_thread_that_cannot_run_costs_little(const char *backend)
{
    enum { LONG = 8192 };
    struct play p;
    play_open_in_blocks(&p, 3, LONG);
    float *in = must_alloc(LONG, sizeof(float)), *out = must_alloc(LONG, sizeof(float));
    const float *x = in;
    lock_standby(&p);
    double worst = 0;
    for (int i = 0; i < 8; i++) {
        double start = now_s();
        process(&p, &x, &out, LONG);
        if (i > 3) worst = fmax(worst, now_s() - start); /* the device has failed by then */
    }
    unlock_standby(&p);
    check(failover_state(p.failover) == HC_LIVE_STANDBY, "state %d", (int)failover_state(p.failover));
    check(worst < 0.25 * LONG / 48000, "a block of %d frames took %.1f ms", LONG, 1e3 * worst);
    free(in);
    free(out);
    play_close(&p);
}

/* hc_live_work then reports the reason, or takes another backend. */
static void a_device_that_fails_before_it_plays_is_refused(const char *backend)
{
    char why[400] = "";
    struct input_history history;
    struct failover *failover;
    hc_config config;
    hc_config_init(&config);
    config.n_in = config.n_out = 1;
    config.backend = "cuda";
    check(input_history_open(&history, 1, HISTORY, BLOCK), "no history");
    setenv("HC_FAULT", "fail 3", 1);
    int error = failover_open(&config, &history, NULL, 1, &failover, REASON(why, sizeof why));
    unsetenv("HC_FAULT");
    check(error == HC_OK, "%s", why);
    check(failover_start(failover, 0, REASON(why, sizeof why)) == HC_EDEVICE && strstr(why, "fell off the bus"),
          "\"%s\"", why);
    check(failover_close(failover), "a lost device must not keep the process");
    input_history_close(&history);
}

int main(void)
{
    static const struct test tests[] = {
        TEST(a_standby_thread_that_cannot_run_costs_little, false),
        TEST(a_device_that_fails_before_it_plays_is_refused, false),
        TEST(the_standby_processes_the_input_by_itself, false),
        TEST(the_standby_replaces_hybrid, false),
        TEST(to_forget_waits_for_a_device_as_a_block_does, false),
        TEST(missing_blocks_are_processed_first, false),
        TEST(freewheeling_all_missing_blocks_are_processed_first, false),
        TEST(from_too_far_behind_the_standby_plays_a_few_blocks_later, false),
        TEST(overwritten_history_counts_as_silence, false),
    };
    return check_main("failover", tests, sizeof tests / sizeof *tests);
}
