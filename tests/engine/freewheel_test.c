/* A host that freewheels gets the same frames each time, however late the engine's threads on the CPU are; a host that
 * plays live waits for none of them. realtime_pool.c and device_queue.c are compiled for this program so that their
 * threads wake up late (see tests.mk). */
#include "check.h"
#include "dsp/bench.h"
#include "dsp/engine/engine.h"
#include "haloconv_live.h"

#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BLOCK = 64, CHANNELS = 2, N_MASKS = 7, N_BLOCKS = SANITIZED ? 1000 : 2000, NEVER = -1 };

static atomic_int late_us; /* longest delay of a worker thread; NEVER: it waits until this changes */
static atomic_uint n_late;
static _Thread_local bool is_realtime_pool;

static void come_late(void)
{
    struct random r = random_seeded(1 + atomic_fetch_add(&n_late, 1));
    int most = atomic_load(&late_us);
    if (most > 0) pause_us(random_int(&r, 0, most));
    while (atomic_load(&late_us) == NEVER) pause_us(1000);
}

/* A worker thread calls these in place of sem_wait and sem_post: as it waits, and when its first job is done. */
int late_sem_wait(sem_t *sem);
int late_sem_post(sem_t *sem);
int late_sem_wait(sem_t *sem)
{
    int error = sem_wait(sem);
    is_realtime_pool = gettid() != getpid(); /* the audio thread is the program's first */
    if (is_realtime_pool) come_late();
    return error;
}
int late_sem_post(sem_t *sem)
{
    int error = sem_post(sem);
    if (is_realtime_pool) come_late();
    return error;
}

struct kind {
    const char *backend;
    int wait_us, max_taps, n_taps; /* n_taps: of the masks */
};

struct bounce { /* a stream that is played without a clock, as a host exports a song */
    hc_engine *engine;
    hc_mask *masks[N_MASKS];
    struct random random; /* for the calls */
    float *in, *out;      /* [N_BLOCKS * BLOCK] a channel */
    int pos;
};

static void bounce_open(struct bounce *s, const struct kind *kind)
{
    char why[256] = "";
    hc_config c;
    hc_config_init(&c);
    c.block = BLOCK;
    c.max_taps = kind->max_taps;
    c.fade_frames = 100;
    c.n_routes = CHANNELS * CHANNELS;
    c.wait_us = kind->wait_us;
    c.backend = kind->backend;
    c.n_threads = 3;
    memset(s, 0, sizeof *s);
    s->random = random_seeded(2);
    if (strncmp(kind->backend, "hybrid", 6) == 0) c.rate = 192000; /* the head on the CPU has tail levels then */
    check(hc_open(&c, &s->engine, why, sizeof why) == HC_OK, "%s", why);
    hc_info info = {.size = sizeof info};
    hc_get_info(s->engine, &info);
    check(info.n_levels > 1, "%s has no tail levels: this test would check nothing", kind->backend);
    for (int i = 0; i < N_MASKS; i++)
        check(hc_mask_make_noise(s->engine, 0, kind->n_taps, kind->n_taps, 5 + (uint64_t)i, &s->masks[i], why,
                                 sizeof why) == HC_OK,
              "%s", why);
    struct random r = random_seeded(3);
    s->in = noise(&r, CHANNELS * N_BLOCKS * BLOCK);
    s->out = must_alloc(CHANNELS * N_BLOCKS * BLOCK, sizeof *s->out);
}

static void bounce_close(struct bounce *s)
{
    atomic_store(&late_us, 0);
    hc_close(s->engine);
    free(s->in);
    free(s->out);
}

static void bounce_play(struct bounce *s, int n)
{
    const float *in[CHANNELS];
    float *out[CHANNELS];
    for (int ch = 0; ch < CHANNELS; ch++) {
        in[ch] = s->in + ch * N_BLOCKS * BLOCK + s->pos;
        out[ch] = s->out + ch * N_BLOCKS * BLOCK + s->pos;
    }
    check(hc_process(s->engine, in, out, n) == HC_OK, "hc_process at frame %d", s->pos);
    s->pos += n;
}

static uint64_t last_swap(const struct bounce *s)
{
    hc_info info = {.size = sizeof info};
    hc_get_info(s->engine, &info);
    return info.swap_frame;
}

/* Calls of any size, and swaps at short and long intervals, the same in each bounce. Threads that are not to be late
 * get time to finish early. */
static void bounce(struct bounce *s, const struct kind *kind, int pool_late_us)
{
    bounce_open(s, kind);
    atomic_store(&late_us, pool_late_us);
    check(engine_wait_set(s->engine, -1) == HC_OK, "engine_wait_set");
    for (int n; s->pos < N_BLOCKS * BLOCK; bounce_play(s, n)) {
        n = random_int(&s->random, 0, 9) ? BLOCK : random_int(&s->random, 1, BLOCK);
        if (n > N_BLOCKS * BLOCK - s->pos) n = N_BLOCKS * BLOCK - s->pos;
        int often = s->pos / (N_BLOCKS * BLOCK / 4) % 2 ? 5 : 100;
        if (pool_late_us == 0 && s->pos % (16 * BLOCK) < n) pause_us(1000);
        if (s->pos == 0 || random_int(&s->random, 1, often) == 1)
            hc_mask_swap(s->engine, s->masks[random_int(&s->random, 0, N_MASKS - 1)]);
    }
}

static void two_bounces_are_the_same(const char *backend)
{
    /* One tail level, and several. */
    static const struct kind kinds[] = {{"cpu", -1, 60000, 60000},
                                        {"cpu", 500, 1200, 1200},
                                        {"hybrid:cpu", 10000000, 60000, 60000},
                                        {"hybrid:cpu", 10000000, 60000, 4000}};
    static const int lates_us[] = {3000, 200, NEVER};
    for (size_t e = 0; e < sizeof kinds / sizeof *kinds; e++) {
        const struct kind *kind = &kinds[e];
        struct bounce first, again;
        hc_info info = {.size = sizeof info};
        bounce(&first, kind, 0);
        hc_get_info(first.engine, &info);
        check(info.swaps > 4, "%llu swaps: little is promised", (unsigned long long)info.swaps);
        for (size_t i = 0; i < sizeof lates_us / sizeof *lates_us; i++) {
            if (lates_us[i] == NEVER && kind->backend[0] == 'h') continue; /* its tail has one thread and no other */
            bounce(&again, kind, lates_us[i]);
            for (int k = 0; k < CHANNELS * N_BLOCKS * BLOCK; k++)
                check(memcmp(&again.out[k], &first.out[k], sizeof *first.out) == 0,
                      "%s of %d taps, opened with %d, threads %d us late: channel %d, frame %d: %.9g, before %.9g",
                      kind->backend, kind->n_taps, kind->wait_us, lates_us[i], k / (N_BLOCKS * BLOCK),
                      k % (N_BLOCKS * BLOCK), (double)again.out[k], (double)first.out[k]);
            bounce_close(&again);
        }
        bounce_close(&first);
    }
}

/* Frames from a swap to its fade. */
static int delay_of(struct bounce *s, int i)
{
    int asked = s->pos;
    hc_mask_swap(s->engine, s->masks[i]);
    while (last_swap(s) < (uint64_t)asked) {
        check(s->pos < N_BLOCKS * BLOCK - 3 * BLOCK, "a swap at frame %d has not begun", asked);
        bounce_play(s, BLOCK);
    }
    int delay = (int)last_swap(s) - asked;
    for (int k = 0; k < 3; k++) bounce_play(s, BLOCK); /* the fade's end */
    return delay;
}

/* The worker threads never run: a host that freewheels does their work itself; a live host gets the new mask later. */
static void a_live_engine_waits_for_no_thread(const char *backend)
{
    static const int opened_us[] = {-1, 500};
    for (int i = 0; i < 2; i++) {
        struct bounce s;
        bounce_open(&s, &(struct kind){"cpu", opened_us[i], 60000, 60000});
        atomic_store(&late_us, NEVER);
        hc_mask_swap(s.engine, s.masks[0]);
        for (int k = 0; k < 500; k++) bounce_play(&s, BLOCK);
        int live = delay_of(&s, 1);
        check(engine_wait_set(s.engine, -1) == HC_OK, "engine_wait_set to -1");
        int freewheeling = delay_of(&s, 2);
        check(engine_wait_set(s.engine, 500) == HC_OK, "engine_wait_set back, opened with %d", opened_us[i]);
        int live_again = delay_of(&s, 0);
        check(freewheeling < live / 4 && freewheeling < live_again / 4,
              "opened with %d: fades began after %d frames live, %d freewheeling, %d live again", opened_us[i], live,
              freewheeling, live_again);
        bounce_close(&s);
    }
}

/* Frames from a swap to its fade, in a live convolver that freewheels or not. */
static int delay_live(bool freewheels)
{
    enum { TAPS = 60000, HEARD = 300, FADE = 5 };
    char path[] = "/tmp/hc_freewheel_XXXXXX.txt", why[400] = "";
    int file = mkstemps(path, 4);
    FILE *stream = file >= 0 ? fdopen(file, "w") : NULL;
    check(stream, "%s cannot be written", path);
    for (int k = 0; k < TAPS; k++) fprintf(stream, "%d\n", k == TAPS - 1);
    check(fclose(stream) == 0, "%s cannot be written", path);
    hc_live *live;
    hc_live_config c;
    hc_live_config_init(&c);
    c.n_in = c.n_out = 1;
    c.backend = "cpu";
    c.n_threads = 3;
    c.fade_ms = -1;
    check(hc_live_open(&c, &live, why, sizeof why) == HC_OK, "%s", why);
    hc_live_change change = {.size = sizeof change, .mask = path};
    hc_live_request(live, &change);
    check(hc_live_work(live) == HC_OK, "no mask");
    hc_live_set_freewheel(live, freewheels);
    /* The last tap is 1 in the first mask and 0.5 in the second: the output tells when the second one plays. */
    float x[BLOCK], y[BLOCK];
    const float *in = x;
    float *out = y;
    int delay = -1;
    for (int i = 0; i < BLOCK; i++) x[i] = 1;
    for (int i = 0; i < HEARD + 2 * TAPS / BLOCK && delay < 0; i++) {
        if (i == HEARD + TAPS / BLOCK) {
            stream = fopen(path, "w");
            for (int k = 0; stream && k < TAPS; k++) fprintf(stream, "%s\n", k == TAPS - 1 ? "0.5" : "0");
            check(stream && fclose(stream) == 0, "%s cannot be written", path);
            hc_live_request(live, &change);
            check(hc_live_work(live) == HC_OK, "no second mask");
        }
        check(hc_live_process(live, &in, &out, BLOCK) == HC_OK, "block %d", i);
        for (int k = 0; k < BLOCK && i >= HEARD + TAPS / BLOCK && delay < 0; k++)
            if (y[k] < 0.75f) delay = (i - HEARD - TAPS / BLOCK) * BLOCK + k;
    }
    check(delay >= 0, "the swap has not begun");
    atomic_store(&late_us, 0);
    hc_live_close(live);
    unlink(path);
    return delay;
}

static void a_session_waits_for_threads_when_it_freewheels(const char *backend)
{
    atomic_store(&late_us, NEVER);
    int live = delay_live(false);
    atomic_store(&late_us, NEVER);
    int freewheeling = delay_live(true);
    check(freewheeling < live / 4, "fades began after %d frames live, %d freewheeling", live, freewheeling);
}

int main(void)
{
    static const struct test tests[] = {
        TEST(two_bounces_are_the_same, false),
        TEST(a_live_engine_waits_for_no_thread, false),
        TEST(a_session_waits_for_threads_when_it_freewheels, false),
    };
    return check_main("freewheel", tests, sizeof tests / sizeof *tests);
}
