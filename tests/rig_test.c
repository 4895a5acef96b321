/* An understudy on the CPU, and what it has heard when it is called on stage. The device is faulty_device.c; the test
 * is the audio thread, and holds the baton where the understudy's thread is to fall behind. */
#include "check.h"
#include "host/live/rig.h"
#include "reference.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    TAPS = 2000,
    BLOCK = 64,
    TAPE = 24000,    /* 8192 of them may be half written: it serves 247 blocks */
    WARM = 16,       /* blocks that rig_warm plays to the device */
    MOST_BEHIND = 4, /* blocks that an understudy may miss and still play in the same block */
    FRAMES = BLOCK * 2000,
    PATIENCE_S = 60,
    NO_FREEWHEEL_US = 9000000 /* a device may take long on a busy machine, but the rig plays against the clock */
};

struct play {
    struct rig *rig;
    struct tape tape;
    long pos, lost; /* lost: the first frame that the device did not play */
    float *taps, *in, *out;
};

static void play_open(struct play *p, int lost_at_block)
{
    char fault[32], why[400] = "";
    struct random r = random_seeded(21);
    *p = (struct play){.lost = (long)lost_at_block * BLOCK};
    p->taps = noise(&r, TAPS);
    p->in = noise(&r, FRAMES);
    p->out = must_alloc(FRAMES, sizeof(float));
    check(tape_open(&p->tape, 1, TAPE), "no tape");
    hc_config config;
    hc_config_init(&config);
    config.block = BLOCK;
    config.n_in = config.n_out = 1;
    config.max_taps = TAPS;
    config.wait_us = NO_FREEWHEEL_US;
    config.backend = "cuda";
    snprintf(fault, sizeof fault, "fail %d", lost_at_block + WARM);
    setenv("HC_FAULT", fault, 1);
    p->rig = rig_open(&config, &p->tape, 1e9, why, sizeof why);
    unsetenv("HC_FAULT");
    check(p->rig, "%s", why);
    hc_route route = {.taps = p->taps, .n_taps = TAPS, .gain = 1};
    check(rig_load(p->rig, &route, 1, why, sizeof why), "%s", why);
    rig_warm(p->rig);
    rig_follow(p->rig, 0);
    rig_wait(p->rig, NO_FREEWHEEL_US);
}

static void play_close(struct play *p)
{
    check(rig_close(p->rig), "a lost device must not keep the process");
    tape_close(&p->tape);
    free(p->taps);
    free(p->in);
    free(p->out);
}

static enum rig_answer play_block(struct play *p)
{
    const float *in = p->in + p->pos;
    float *out = p->out + p->pos;
    check(p->pos + BLOCK <= FRAMES, "the piece is too short");
    enum rig_answer answer = rig_process(p->rig, &in, &out, BLOCK);
    tape_write(&p->tape, &in, BLOCK);
    rig_heard(p->rig);
    p->pos += BLOCK;
    return answer;
}

static void play_to(struct play *p, long frame)
{
    while (p->pos < frame) check(play_block(p) == RIG_PLAYED, "frame %ld was not played", p->pos - BLOCK);
}

static void pause_ms(int ms)
{
    nanosleep(&(struct timespec){.tv_nsec = ms * 1000000}, NULL);
}

/* From here on the understudy's thread gets no further. */
static void hold(struct play *p)
{
    while (atomic_flag_test_and_set_explicit(&p->rig->baton, memory_order_acquire)) pause_ms(1);
}

static void let_go(struct play *p)
{
    atomic_flag_clear_explicit(&p->rig->baton, memory_order_release);
}

/* Until the understudy has heard all that was played, which it is to do by itself. */
static void await_understudy(struct play *p)
{
    long waited_ms = 0;
    for (int64_t at = -1; at < p->pos; waited_ms++) {
        check(waited_ms < PATIENCE_S * 1000, "the understudy has heard %ld of %ld frames, and goes no further",
              (long)at, p->pos);
        pause_ms(1);
        hold(p);
        at = p->rig->understudy.at;
        let_go(p);
        if (waited_ms % 100 == 0) rig_heard(p->rig); /* it woke up while we looked, and went to sleep again */
    }
}

/* Ends the understudy's thread where it stands: nothing is heard but what the audio thread catches up with. */
static void dismiss_shadow(struct play *p)
{
    await_understudy(p);
    atomic_store(&p->rig->shadow_end, true);
    sem_post(&p->rig->wake);
    pthread_join(p->rig->shadow, NULL);
    p->rig->has_shadow = false;
}

/* Frames first...last - 1 are the taps on everything since frame `heard`. */
static void play_check(const struct play *p, long heard, long first, long last)
{
    double peak = 0;
    for (long i = first; i < last; i++) peak = fmax(peak, fabs((double)p->out[i]));
    check(last > first && peak > 0, "nothing was heard from frame %ld to %ld", first, last);
    for (long i = first; i < last; i++) {
        double want = reference_sum(p->taps, TAPS, p->in + heard, FRAMES - heard, i - heard), got = (double)p->out[i];
        check(fabs(got - want) <= 1e-6 * peak, "frame %ld of %ld to %ld: got %.9g, want %.9g, peak %.3g", i, first,
              last, got, want, peak);
    }
}

/* ---- promises ---------------------------------------------------------------------------------- */

static void it_plays_along_by_itself(const char *backend)
{
    (void)backend;
    struct play p;
    play_open(&p, 200); /* the tape has them all, however late its thread starts */
    play_to(&p, p.lost);
    dismiss_shadow(&p);
    play_to(&p, p.lost + 50 * BLOCK);
    check(rig_state(p.rig) == RIG_UNDERSTUDY, "state %d", (int)rig_state(p.rig));
    play_check(&p, 0, 0, p.pos);
    play_close(&p);
}

/* The system may have kept its thread from the last blocks: they are heard before the next one is played. More of them
 * would take longer than a block may. */
static void what_it_has_not_heard_it_hears_first(const char *backend)
{
    (void)backend;
    for (int behind = 1; behind <= MOST_BEHIND + 1; behind++) {
        struct play p;
        play_open(&p, 100);
        play_to(&p, p.lost - behind * BLOCK);
        dismiss_shadow(&p);
        play_to(&p, p.lost);
        enum rig_answer answer = play_block(&p), want = behind <= MOST_BEHIND ? RIG_PLAYED : RIG_LATE;
        check(answer == want, "%d blocks behind: answer %d, want %d", behind, (int)answer, (int)want);
        if (answer == RIG_PLAYED) play_to(&p, p.lost + 50 * BLOCK);
        play_check(&p, 0, 0, answer == RIG_PLAYED ? p.pos : p.lost);
        play_close(&p);
    }
}

static void freewheeling_it_hears_all_of_it_first(const char *backend)
{
    (void)backend;
    struct play p;
    play_open(&p, 100);
    play_to(&p, 10 * BLOCK);
    dismiss_shadow(&p);
    rig_wait(p.rig, 10000000); /* nothing needs to be done in time */
    play_to(&p, p.lost + 50 * BLOCK);
    play_check(&p, 0, 0, p.pos);
    play_close(&p);
}

/* Too far behind for one block, or held by its thread: that goes on until it is there, and silence is played meanwhile.
 */
static void from_far_behind_it_comes_a_few_blocks_later(const char *backend)
{
    (void)backend;
    static const int behind[] = {0, 1, MOST_BEHIND + 1};
    for (int i = 0; i < 3; i++) {
        struct play p;
        play_open(&p, 100);
        play_to(&p, p.lost - behind[i] * BLOCK);
        await_understudy(&p);
        hold(&p);
        play_to(&p, p.lost);
        check(play_block(&p) == RIG_LATE, "%d blocks behind it played without the baton", behind[i]);
        for (int k = 0; k < BLOCK; k++) check(p.out[p.lost + k] == 0, "frame %d of a late block is not silence", k);
        let_go(&p);
        long first = p.pos;
        for (enum rig_answer answer = RIG_LATE; answer == RIG_LATE; first = p.pos - BLOCK) {
            await_understudy(&p);
            answer = play_block(&p);
        }
        play_to(&p, first + 50 * BLOCK);
        play_check(&p, 0, 0, p.lost);
        play_check(&p, 0, first, p.pos);
        play_close(&p);
    }
}

/* The tape has come round to what it has not heard: it starts as one that was silent until now. */
static void what_is_no_longer_on_the_tape_counts_as_silence(const char *backend)
{
    (void)backend;
    struct play p;
    play_open(&p, 500);
    play_to(&p, 10 * BLOCK);
    await_understudy(&p);
    hold(&p);
    play_to(&p, p.lost);
    let_go(&p);
    dismiss_shadow(&p);
    play_to(&p, p.lost + 50 * BLOCK);
    play_check(&p, 0, 0, p.lost);
    play_check(&p, p.lost, p.lost, p.pos);
    play_close(&p);
}

int main(void)
{
    static const struct test tests[] = {
        {"it_plays_along_by_itself", it_plays_along_by_itself, false},
        {"what_it_has_not_heard_it_hears_first", what_it_has_not_heard_it_hears_first, false},
        {"freewheeling_it_hears_all_of_it_first", freewheeling_it_hears_all_of_it_first, false},
        {"from_far_behind_it_comes_a_few_blocks_later", from_far_behind_it_comes_a_few_blocks_later, false},
        {"what_is_no_longer_on_the_tape_counts_as_silence", what_is_no_longer_on_the_tape_counts_as_silence, false},
    };
    return check_main("rig", tests, sizeof tests / sizeof *tests);
}
