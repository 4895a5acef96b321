/* One table of scenarios of a live convolver, played through each driver (live_driver.h): haloconv_live.h itself and
 * its adapters. Every frame is compared with the float64 reference (live_take.h). The
 * device is faulty_device.c, which fails when it is told to.
 */
#include "fake_pipewire.h"
#include "faulty_device.h"
#include "live_driver.h"
#include "live_take.h"
#include "trap.h"

#include <float.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const int OTHER_RATE = 44100;
static const double RAMP_MS = 20;
enum { SETTLE = 3000, MAX_STEPS = 16, WAIT_US = 20000, LONG_WAIT_US = 10000000 };
static const double GIVE_UP_S = 120;

/* ---- masks ------------------------------------------------------------------------------------- */

enum { FIRST, SECOND, THIRD, LONG, LONGER, SHORT, HALL, N_MASKS };
static const int lengths[N_MASKS] = {2000, 1700, 1900, 4500, 6000, 500, 34000};
static struct live_mask masks[N_MASKS];
static char folder[] = "/tmp/hc_scenarios_XXXXXX";

static void make_masks(void)
{
    if (!mkdtemp(folder)) exit(1);
    for (int i = 0; i < N_MASKS; i++) {
        struct random r = random_seeded(20 + (uint64_t)i);
        struct live_mask *mask = &masks[i];
        snprintf(mask->path, sizeof mask->path, "%s/%d.txt", folder, i);
        mask->n_taps = lengths[i];
        for (int ch = 0; ch < LIVE_CHANNELS; ch++) {
            mask->taps[ch] = noise(&r, mask->n_taps);
            for (int k = 0; k < mask->n_taps; k++) mask->taps[ch][k] /= 40;
        }
        FILE *file = fopen(mask->path, "w");
        if (!file) exit(1);
        for (int k = 0; k < mask->n_taps; k++)
            fprintf(file, "%.9g %.9g\n", (double)mask->taps[0][k], (double)mask->taps[1][k]);
        if (fclose(file) != 0) exit(1);
    }
}

static void remove_masks(void)
{
    for (int i = 0; i < N_MASKS; i++) remove(masks[i].path);
    rmdir(folder);
}

static struct sound mask_sound(int mask, int origin)
{
    return (struct sound){.kind = SOUND_MASK, .mask = &masks[mask], .origin = origin};
}

/* ---- steps ------------------------------------------------------------------------------------- */

struct play { /* a scenario that is played */
    const struct live_driver *driver;
    struct take *take;
    int rate, block;
    int mask, origin; /* of the newest sound that was asked for */
    int n_masks;      /* asked for */
    bool bypassed;
};

static int fade_frames(const struct play *p)
{
    return (int)(LIVE_FADE_MS * 1e-3 * p->rate);
}

static int ramp_frames(void)
{
    return (int)(LIVE_RATE * RAMP_MS / 1000) + 1;
}

static struct sound sound_now(const struct play *p)
{
    return p->bypassed ? (struct sound){.kind = SOUND_DRY} : mask_sound(p->mask, p->origin);
}

static void expect(struct play *p, struct sound to, int shape, int length, int at)
{
    take_expect(p->take,
                (struct take_change){.to = to, .shape = shape, .length = length, .earliest = p->take->pos, .at = at});
}

static void block_step(struct play *p)
{
    take_call(p->take, p->block);
    pause_us(p->block * (SANITIZED ? 20 : 5)); /* the other threads keep up */
}

static void play_on(struct play *p, int frames)
{
    for (int end = p->take->pos + frames; p->take->pos < end;) block_step(p);
}

/* Hold the audio until the masks that were asked for are there. */
static void await_masks(struct play *p)
{
    double give_up = now_s() + GIVE_UP_S;
    if (p->driver->asks_in_callback) block_step(p);
    while (p->driver->counts().masks < p->n_masks) {
        check(now_s() < give_up, "%s %s: the mask does not come", p->driver->name, p->take->scenario);
        pause_us(500);
    }
}

static void await_rebuild(struct play *p, int rebuilds, bool plays)
{
    double give_up = now_s() + GIVE_UP_S;
    while (p->driver->counts().rebuilds < rebuilds) {
        check(now_s() < give_up, "%s %s: no new engine comes", p->driver->name, p->take->scenario);
        if (plays)
            block_step(p);
        else
            pause_us(500);
    }
}

/* Play until the newest sound has played alone for longer than a fade. */
static void play_until_alone(struct play *p)
{
    double give_up = now_s() + GIVE_UP_S;
    for (int since = p->take->pos; p->take->pos - since < SETTLE;) {
        check(now_s() < give_up, "%s %s: the newest sound does not play", p->driver->name, p->take->scenario);
        block_step(p);
        if (!take_sounds_like(p->take, sound_now(p))) since = p->take->pos;
    }
}

/* Play until the sound of before begins to change. */
static void hear_the_fade_begin(struct play *p, struct sound before)
{
    double give_up = now_s() + GIVE_UP_S;
    do {
        check(now_s() < give_up, "%s %s: the newest sound does not play", p->driver->name, p->take->scenario);
        block_step(p);
    } while (take_sounds_like(p->take, before));
}

static void ask_mask(struct play *p, int mask)
{
    p->driver->ask_mask(masks[mask].path);
    p->mask = mask;
    p->n_masks++;
    expect(p, sound_now(p), CHANGE_FADE, fade_frames(p), -1);
}

/* The mask has just begun to fade in. */
static void begin_swap(struct play *p, int mask)
{
    struct sound before = sound_now(p);
    ask_mask(p, mask);
    await_masks(p);
    hear_the_fade_begin(p, before);
}

/* ---- scenarios --------------------------------------------------------------------------------- */

static void swap(struct play *p)
{
    ask_mask(p, SECOND);
    await_masks(p);
    play_until_alone(p);
}

/* The second swap waits for the end of the first. */
static void swap_during_a_swap(struct play *p)
{
    begin_swap(p, SECOND);
    ask_mask(p, THIRD);
    await_masks(p);
    play_until_alone(p);
    check(p->driver->counts().rebuilds == 0, "%d engines were made for masks no longer than the first",
          p->driver->counts().rebuilds);
}

static void longer_mask(struct play *p)
{
    ask_mask(p, LONG);
    await_masks(p);
    play_until_alone(p);
}

/* Two crossfades run at once: of masks in the former engine, and to the new one. */
static void longer_mask_during_a_swap(struct play *p)
{
    begin_swap(p, SECOND);
    ask_mask(p, LONG);
    await_masks(p);
    play_until_alone(p);
}

/* The new engine swaps its mask while the crossfade to it runs. */
static void swap_during_a_longer_mask(struct play *p)
{
    begin_swap(p, LONG);
    ask_mask(p, SECOND);
    p->take->changes[p->take->n_changes - 1].inside = true;
    await_masks(p);
    play_until_alone(p);
}

/* The third engine waits for the end of the crossfade to the second. */
static void longer_mask_during_a_longer_mask(struct play *p)
{
    begin_swap(p, LONG);
    ask_mask(p, LONGER);
    await_masks(p);
    play_until_alone(p);
}

static void a_mask_that_fails(struct play *p)
{
    p->driver->ask_mask("/nonexistent/hall.wav");
    play_on(p, SETTLE);
    swap(p);
    check(p->driver->counts().masks == 1, "%d masks were loaded", p->driver->counts().masks);
}

static void other_block(struct play *p)
{
    for (int i = 0; i < 2; i++) {
        p->block = i == 0 ? p->driver->other_block : p->driver->block;
        p->driver->ask_block(p->block);
        if (!p->driver->is_plugin) await_rebuild(p, i + 1, true);
        play_on(p, SETTLE);
    }
}

/* The new engine fades in over the swap in the former one, and plays the newer mask. */
static void other_block_during_a_swap(struct play *p)
{
    begin_swap(p, SECOND);
    expect(p, sound_now(p), CHANGE_FADE, fade_frames(p), -1);
    p->block = p->driver->other_block;
    p->driver->ask_block(p->block);
    await_rebuild(p, 1, false);
    play_until_alone(p);
}

static void other_rate(struct play *p)
{
    for (int i = 0; i < 2; i++) {
        p->rate = i == 0 ? OTHER_RATE : LIVE_RATE;
        p->driver->ask_rate(p->rate);
        p->origin = p->take->pos;
        expect(p, (struct sound){.kind = SOUND_SILENCE}, CHANGE_CUT, 0, p->take->pos);
        expect(p, sound_now(p), CHANGE_FADE, fade_frames(p), -1);
        await_rebuild(p, i + 1, true);
        play_until_alone(p);
    }
}

/* The mask that comes is the newer one, at the newer rate. */
static void other_rate_and_mask(struct play *p)
{
    p->rate = OTHER_RATE;
    p->driver->ask_mask(masks[LONG].path);
    p->mask = LONG;
    p->driver->ask_rate(p->rate);
    p->origin = p->take->pos;
    expect(p, (struct sound){.kind = SOUND_SILENCE}, CHANGE_CUT, 0, p->take->pos);
    expect(p, sound_now(p), CHANGE_FADE, fade_frames(p), -1);
    play_until_alone(p);
}

static void freewheel_on_and_off(struct play *p)
{
    p->driver->set_freewheel(true);
    play_on(p, SETTLE);
    swap(p);
    p->driver->set_freewheel(false);
    play_on(p, SETTLE);
}

static void bypass(struct play *p)
{
    for (int i = 0; i < 2; i++) {
        p->bypassed = i == 0;
        p->driver->set_bypass(p->bypassed);
        expect(p, sound_now(p), CHANGE_RAMP, ramp_frames(), p->take->pos);
        play_until_alone(p);
    }
}

static void swap_while_bypassed(struct play *p)
{
    for (int i = 0; i < 2; i++) {
        p->bypassed = i == 0;
        p->driver->set_bypass(p->bypassed);
        expect(p, sound_now(p), CHANGE_RAMP, ramp_frames(), p->take->pos);
        play_until_alone(p);
        if (i == 1) break;
        p->driver->ask_mask(masks[LONG].path);
        p->mask = LONG;
        p->n_masks++;
        await_masks(p);
        play_on(p, SETTLE);
    }
}

static void reset_now(struct play *p)
{
    p->driver->reset();
    p->origin = p->take->pos;
    expect(p, sound_now(p), CHANGE_CUT, 0, p->take->pos);
}

static void reset(struct play *p)
{
    reset_now(p);
    play_until_alone(p);
    begin_swap(p, SECOND);
    reset_now(p); /* ends the fade */
    play_on(p, SETTLE);
    begin_swap(p, LONG);
    reset_now(p); /* of two engines the newer one stays */
    play_on(p, SETTLE);
    p->driver->ask_mask(masks[LONGER].path);
    p->mask = LONGER;
    p->n_masks++;
    await_masks(p);
    reset_now(p); /* before the first callback with it */
    play_on(p, SETTLE);
}

/* ---- scenarios of a device --------------------------------------------------------------------- */

static char hang_file[64];  /* the device hangs when this file is there */
static char hang_fault[96]; /* HC_FAULT for that */

/* Plays blocks while another thread makes an engine. They are few, because the length of a take is limited. */
static void some_blocks(struct play *p)
{
    for (int i = 0; i < 20; i++) block_step(p);
    pause_us(50000);
}

static void await_loss(struct play *p)
{
    double give_up = now_s() + GIVE_UP_S;
    struct live_counts counts;
    do {
        check(now_s() < give_up, "%s: the device is not lost", p->driver->name);
        some_blocks(p);
        counts = p->driver->counts();
    } while (p->driver->has_standby ? !counts.on_standby : counts.rebuilds == 0);
}

/* Without a standby engine the output is silent until an engine on the CPU fades in. */
static void hear_the_cpu_fade_in(struct play *p)
{
    expect(p, (struct sound){.kind = SOUND_SILENCE}, CHANGE_CUT, 0, -1);
    expect(p, sound_now(p), CHANGE_FADE, fade_frames(p), -1);
    await_loss(p);
    play_until_alone(p);
    p->take->changes[p->take->n_changes - 2].at = take_last_silence(p->take);
    check(take_last_silence(p->take) >= 0, "%s: the loss left no silence", p->driver->name);
}

static void lost_gpu(struct play *p)
{
    if (!p->driver->has_standby) {
        hear_the_cpu_fade_in(p);
        return;
    }
    await_loss(p);
    play_on(p, 3 * SETTLE);
    check(p->driver->counts().late == 0, "%d late blocks", p->driver->counts().late);
    swap(p); /* to an engine on the CPU */
    check(!p->driver->counts().on_standby, "the standby engine plays on");
}

/* The device hangs at the next block. Until then the host freewheels, so that a busy machine makes no block late. */
static void hear_the_device_hang(struct play *p)
{
    p->driver->set_freewheel(true);
    play_on(p, SETTLE);
    FILE *file = fopen(hang_file, "w");
    check(file && fclose(file) == 0, "%s was not written", hang_file);
    p->driver->set_freewheel(false);
    hear_the_cpu_fade_in(p);
}

/* With a standby engine the device stalls until the CPU plays: a few blocks are late, then the CPU plays, then the device
 * again. Without one it hangs until the CPU plays, and another engine is requested. */
static void gpu_back(struct play *p)
{
    double give_up = now_s() + GIVE_UP_S;
    if (p->driver->has_standby) {
        await_loss(p);
        faulty_release();
    } else {
        hear_the_device_hang(p);
        remove(hang_file);
        pause_us(500000); /* the engine is closed, and the device does not refuse others any more */
    }
    int rebuilds = p->driver->counts().rebuilds;
    if (p->driver->set_freewheel) p->driver->set_freewheel(true); /* a busy machine makes no block late */
    if (p->driver->ask_device_again) {
        p->driver->ask_device_again();
        block_step(p);
        p->driver->ask_device_again();
    }
    do {
        check(now_s() < give_up, "%s: the device does not play again", p->driver->name);
        some_blocks(p);
    } while (p->driver->counts().rebuilds == rebuilds || strcmp(p->driver->counts().backend, "cuda") != 0);
    play_on(p, 2 * SETTLE);
}

/* The device takes longer for a block than the host can wait, but for a host that is freewheeling. */
static void freewheel_with_a_slow_gpu(struct play *p)
{
    double give_up = now_s() + GIVE_UP_S;
    p->driver->set_freewheel(true);
    play_on(p, 4 * SETTLE);
    check(p->driver->counts().late == 0, "%d blocks are late", p->driver->counts().late);
    p->driver->set_freewheel(false);
    while (p->driver->counts().late == 0) {
        check(now_s() < give_up, "%s waits for the device as if it were freewheeling", p->driver->name);
        block_step(p);
    }
}

/* Plays finite samples that overflow in a convolution. They count as 0: the take has 0 there. */
static void play_burst(struct play *p)
{
    static const float values[] = {FLT_MAX, -1e38f, 1e38f};
    float *x = p->take->in[0] + p->take->pos;
    const int n = 600;
    for (int i = 0; i < n; i++) x[i] = values[i % 3];
    play_on(p, n);
    memset(x, 0, n * sizeof *x);
}

/* In the crossfade of two masks, and in that of two engines. */
static void huge_samples(struct play *p)
{
    begin_swap(p, SECOND);
    play_burst(p);
    play_until_alone(p);
    begin_swap(p, LONG);
    play_burst(p);
    play_until_alone(p);
}

/* The standby engine follows the input with the burst in it, and takes over. */
static void huge_samples_and_a_lost_gpu(struct play *p)
{
    play_on(p, SETTLE);
    play_burst(p);
    lost_gpu(p);
}

static void huge_samples_while_bypassed(struct play *p)
{
    bypass(p);
    play_burst(p);
    play_on(p, SETTLE);
}

/* ---- gaps of PipeWire's graph ---- */

static void gap(struct play *p, int n, bool is_reported)
{
    fake_pipewire_pause(n, is_reported);
    take_gap(p->take, n, sound_now(p));
    play_on(p, SETTLE);
}

/* As when a quantum is forced. */
static void a_pause_is_silence(struct play *p)
{
    gap(p, 1234, true);
}

static void a_pause_is_silence_while_a_new_engine_comes(struct play *p)
{
    p->block = p->driver->other_block;
    gap(p, 333, true);
    await_rebuild(p, 1, true);
    play_on(p, SETTLE);
}

static void missing_cycles_are_silence(struct play *p)
{
    gap(p, 3 * p->block, false);
}

/* 28800 frames of silence would leave the end of the tail. */
static void a_long_pause_ends_the_past(struct play *p)
{
    ask_mask(p, HALL);
    await_masks(p);
    play_until_alone(p);
    play_on(p, 6000);
    p->origin = p->take->pos + LIVE_RATE * 6 / 10;
    gap(p, LIVE_RATE * 6 / 10, true);
}

/* ---- the table --------------------------------------------------------------------------------- */

struct scenario {
    const char *name;
    void (*play)(struct play *play);
    enum live_step needs;    /* LIVE_MASK: nothing that a driver may lack */
    const char *fault;       /* NULL: the CPU plays */
    const char *fault_alone; /* where there is no standby engine */
};

#define SCENARIOS(S, driver)                                                                                           \
    S(driver, swap, LIVE_MASK, NULL, NULL)                                                                             \
    S(driver, swap_during_a_swap, LIVE_MASK, NULL, NULL)                                                               \
    S(driver, longer_mask, LIVE_MASK, NULL, NULL)                                                                      \
    S(driver, longer_mask_during_a_swap, LIVE_MASK, NULL, NULL)                                                        \
    S(driver, swap_during_a_longer_mask, LIVE_MASK, NULL, NULL)                                                        \
    S(driver, longer_mask_during_a_longer_mask, LIVE_MASK, NULL, NULL)                                                 \
    S(driver, a_mask_that_fails, LIVE_BAD_MASK, NULL, NULL)                                                            \
    S(driver, other_block, LIVE_BLOCK, NULL, NULL)                                                                     \
    S(driver, other_block_during_a_swap, LIVE_BLOCK_AT_ONCE, NULL, NULL)                                               \
    S(driver, other_rate, LIVE_RATE_CHANGE, NULL, NULL)                                                                \
    S(driver, other_rate_and_mask, LIVE_RATE_CHANGE, NULL, NULL)                                                       \
    S(driver, lost_gpu, LIVE_MASK, "fail 200", "fail 200")                                                             \
    S(driver, gpu_back, LIVE_MASK, "hold 100", hang_fault)                                                             \
    S(driver, freewheel_on_and_off, LIVE_FREEWHEEL, NULL, NULL)                                                        \
    S(driver, freewheel_with_a_slow_gpu, LIVE_FREEWHEEL, "slow 100 3 1", "slow 100 3 1")                               \
    S(driver, reset, LIVE_RESET, NULL, NULL)                                                                           \
    S(driver, huge_samples, LIVE_MASK, NULL, NULL)                                                                     \
    S(driver, huge_samples_and_a_lost_gpu, LIVE_MASK, "fail 200", "fail 200")                                          \
    S(driver, huge_samples_while_bypassed, LIVE_BYPASS, NULL, NULL)                                                    \
    S(driver, bypass, LIVE_BYPASS, NULL, NULL)                                                                         \
    S(driver, swap_while_bypassed, LIVE_BYPASS, NULL, NULL)

static const struct live_driver *const drivers[] = {&live_core, &live_jack, &live_pipewire, &live_portaudio,
                                                    &live_lv2,  &live_clap, &live_vst3};
enum { N_DRIVERS = sizeof drivers / sizeof *drivers };

static void open_play(struct play *p, const struct live_driver *driver, const char *name, struct live_setup setup,
                      int mask)
{
    for (int i = 0; i < N_DRIVERS; i++) drivers[i]->close(); /* where a test has failed */
    remove(hang_file);
    unsetenv("HC_FAULT");
    trap_let_by(setup.fault ? "sem_post" : NULL);
    setup.mask = masks[mask].path;
    driver->open(&setup);
    *p = (struct play){
        .driver = driver, .take = take_open(driver, name), .rate = LIVE_RATE, .block = driver->block, .mask = mask};
    p->take->first = driver->fades_in ? (struct sound){.kind = SOUND_SILENCE} : sound_now(p);
    if (driver->fades_in) expect(p, sound_now(p), CHANGE_RAMP, ramp_frames(), 0);
}

static void run(const struct scenario *s, const struct live_driver *driver)
{
    struct play p;
    if (driver->missing) check_skip(driver->missing);
    if (driver->lacks[s->needs]) check_skip(driver->lacks[s->needs]);
    /* The faulty device has the costs of the GPU then, and the plugin gives it the tail alone. */
    if (s->fault && driver->is_plugin && access("/dev/nvidiactl", F_OK) == 0)
        check_skip("with a GPU the plugin plays hybrid: lv2_device_test has that");
    struct live_setup setup = {.fault = driver->has_standby ? s->fault : s->fault_alone,
                               .wait_us = s->fault && s->needs != LIVE_FREEWHEEL ? WAIT_US : 0};
    /* A device that fails says so at once: with a long wait a busy machine makes no block late before that. */
    if (setup.fault && strncmp(setup.fault, "fail", 4) == 0) setup.wait_us = LONG_WAIT_US;
    open_play(&p, driver, s->name, setup, s->fault ? SHORT : FIRST);
    if (!s->fault) play_on(&p, SETTLE);
    s->play(&p);
    int late = p.driver->counts().late;
    driver->close();
    trap_let_by(NULL);
    int silent = take_check(p.take, s->fault != NULL);
    check(driver->has_standby ? silent == late : silent <= late, "%d callbacks are silent, and %d were counted late",
          silent, late);
}

#define SCENARIO(driver, name, needs, fault, fault_alone)                                                              \
    static void driver##_##name(const char *backend)                                                                   \
    {                                                                                                                  \
        run(&(struct scenario){#name, name, needs, fault, fault_alone}, &live_##driver);                               \
    }
SCENARIOS(SCENARIO, core)
SCENARIOS(SCENARIO, jack)
SCENARIOS(SCENARIO, pipewire)
SCENARIO(pipewire, a_pause_is_silence, LIVE_MASK, NULL, NULL)
SCENARIO(pipewire, a_pause_is_silence_while_a_new_engine_comes, LIVE_MASK, NULL, NULL)
SCENARIO(pipewire, missing_cycles_are_silence, LIVE_MASK, NULL, NULL)
SCENARIO(pipewire, a_long_pause_ends_the_past, LIVE_MASK, NULL, NULL)
SCENARIOS(SCENARIO, portaudio)
SCENARIOS(SCENARIO, lv2)
SCENARIOS(SCENARIO, clap)
SCENARIOS(SCENARIO, vst3)

/* ---- all at once ------------------------------------------------------------------------------- */

static atomic_bool storm_ends;

/* Any thread may ask. */
static void *ask_for_everything(void *arg)
{
    static const int blocks[] = {48, 64, 256};
    struct random r = random_seeded(12);
    for (int i = 0; i < 150; i++) {
        int what = random_int(&r, 0, 9);
        if (what < 4) live_core.ask_mask(masks[random_int(&r, 0, SHORT)].path);
        if (what == 4) live_core.ask_block(blocks[random_int(&r, 0, 2)]);
        if (what == 5) live_core.ask_rate(random_int(&r, 0, 1) ? LIVE_RATE : OTHER_RATE);
        if (what == 6) live_core.set_bypass(random_int(&r, 0, 1));
        if (what == 7) live_core.set_freewheel(random_int(&r, 0, 1));
        if (what == 8) live_core.ask_mask("/nonexistent/hall.wav");
        if (what == 9) live_core.counts();
        pause_us(random_int(&r, 0, 8000));
    }
    atomic_store(&storm_ends, true);
    return NULL;
}

static void a_storm_leaves_the_core_whole(const char *backend)
{
    struct play p;
    struct random r = random_seeded(11);
    pthread_t thread;
    open_play(&p, &live_core, "storm", (struct live_setup){0}, FIRST);
    atomic_store(&storm_ends, false);
    check(pthread_create(&thread, NULL, ask_for_everything, NULL) == 0, "no thread");
    while (!atomic_load(&storm_ends)) {
        int n = random_int(&r, 1, 300);
        if (p.take->pos + n < TAKE_CAP / 2) take_call(p.take, n);
        pause_us(SANITIZED ? 3000 : 1000);
    }
    pthread_join(thread, NULL);
    live_core.set_freewheel(false);
    live_core.set_bypass(false);
    live_core.ask_rate(LIVE_RATE);
    live_core.ask_block(p.block);
    live_core.ask_mask(masks[SECOND].path);
    p.mask = SECOND;
    play_until_alone(&p); /* longer than the mask: all of the past is there */
    take_begin_here(p.take, sound_now(&p));
    play_on(&p, SETTLE);
    live_core.close();
    take_check(p.take, false);
}

/* ---- the callback ------------------------------------------------------------------------------ */

static struct trapped { /* what a child process plays; the take is in memory that it shares */
    const struct live_driver *driver;
    const char *fault;
    int first, second; /* masks */
    bool calls_the_system;
    struct play play;
} trapped;

static const double STANDARD_FADE_MS = 10; /* but the plugins' */

/* The second mask is handed over, and the audio thread has not taken it. */
static void prepare(void *arg)
{
    struct trapped *t = arg;
    struct play *p = &t->play;
    struct live_setup setup = {.fault = t->fault, .is_default = true};
    open_play(p, t->driver, "the_callback", setup, t->first);
    if (t->fault && p->driver->set_freewheel) p->driver->set_freewheel(false);
    play_on(p, SETTLE);
    ask_mask(p, t->second);
    double fade_ms = t->driver->is_plugin ? LIVE_FADE_MS : STANDARD_FADE_MS;
    p->take->changes[p->take->n_changes - 1].length = (int)(fade_ms * 1e-3 * LIVE_RATE);
    await_masks(p);
}

static int play_200(void *arg)
{
    struct trapped *t = arg;
    for (int i = 0; i < 200; i++) take_call(t->play.take, t->play.block);
    if (t->calls_the_system) getppid();
    return t->play.take->caught != NULL;
}

static int fate_of_the_callback(struct trapped what)
{
    if (SANITIZED) check_skip("a sanitizer makes system calls of its own");
    trapped = what;
    trapped.play.take = take_open(what.driver, "the_callback");
    trap_let_by(what.fault ? "sem_post" : NULL);
    int fate = trap_child_after(prepare, play_200, &trapped);
    trap_let_by(NULL);
    return fate;
}

/* 200 callbacks, with a swap in the engine in them, then with a new engine that catches up and fades in. */
static void the_callback_is_free_of_system_calls(const struct live_driver *driver, const char *fault)
{
    if (driver->missing) check_skip(driver->missing);
    for (int longer = 0; longer < 2; longer++) {
        int fate = fate_of_the_callback((struct trapped){
            .driver = driver, .fault = fault, .first = longer ? SHORT : FIRST, .second = longer ? FIRST : SECOND});
        struct take *take = trapped.play.take;
        check(fate == 0, "%s: %s", driver->name,
              fate == SIGSYS ? "the callback made a system call"
              : take->caught ? take->caught
                             : "the callback went wrong");
        if (!fault) take_check(take, false); /* a device may be late on a busy machine */
    }
}

static void the_trap_catches(const char *backend)
{
    for (int i = 0; i < N_DRIVERS; i++) {
        if (drivers[i]->missing) continue;
        int fate = fate_of_the_callback(
            (struct trapped){.driver = drivers[i], .first = SHORT, .second = FIRST, .calls_the_system = true});
        check(fate == SIGSYS, "%s: the trap lets getppid by: %d", drivers[i]->name, fate);
    }
}

#define CALLBACK(driver)                                                                                               \
    static void driver##_makes_no_system_call(const char *backend)                                                     \
    {                                                                                                                  \
        the_callback_is_free_of_system_calls(&live_##driver, NULL);                                                    \
    }                                                                                                                  \
    static void driver##_makes_no_system_call_but_a_wake_up(const char *backend)                                       \
    {                                                                                                                  \
        the_callback_is_free_of_system_calls(&live_##driver, "none");                                                  \
    }
CALLBACK(core)
CALLBACK(jack)
CALLBACK(pipewire)
CALLBACK(portaudio)
CALLBACK(lv2)
CALLBACK(clap)
CALLBACK(vst3)
#define CALLBACK_ROWS(driver)                                                                                          \
    TEST(driver##_makes_no_system_call, false), TEST(driver##_makes_no_system_call_but_a_wake_up, false)
#define ROW(driver, name, needs, fault, fault_alone) TEST(driver##_##name, false),

int main(void)
{
    /* clang-format off */
    static const struct test tests[] = {
        TEST(the_trap_catches, false),
        CALLBACK_ROWS(core),
        CALLBACK_ROWS(jack),
        CALLBACK_ROWS(pipewire),
        CALLBACK_ROWS(portaudio),
        CALLBACK_ROWS(lv2),
        CALLBACK_ROWS(clap),
        CALLBACK_ROWS(vst3),
        SCENARIOS(ROW, core)
        SCENARIOS(ROW, jack)
        SCENARIOS(ROW, pipewire)
        TEST(pipewire_a_pause_is_silence, false),
        TEST(pipewire_a_pause_is_silence_while_a_new_engine_comes, false),
        TEST(pipewire_missing_cycles_are_silence, false),
        TEST(pipewire_a_long_pause_ends_the_past, false),
        SCENARIOS(ROW, portaudio)
        SCENARIOS(ROW, lv2)
        SCENARIOS(ROW, clap)
        SCENARIOS(ROW, vst3)
        TEST(a_storm_leaves_the_core_whole, false),
    };
    /* clang-format on */
    setenv("HALOCONV_COSTS", "builtin", 1);
    setenv("LV2_BUNDLE", "tests/faulty.lv2", 1);
    setenv("CLAP_PLUGIN", "tests/faulty.clap", 1);
    setenv("VST3_PLUGIN", "tests/faulty.vst3", 1);
    unsetenv("NSM_URL");
    make_masks();
    snprintf(hang_file, sizeof hang_file, "%s/hang", folder);
    snprintf(hang_fault, sizeof hang_fault, "stall %s", hang_file);
    int failed = check_main("live_scenarios", tests, sizeof tests / sizeof *tests);
    remove(hang_file);
    remove_masks();
    return failed;
}
