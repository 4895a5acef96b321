/* Sources that glide between the places of a tracker: the lines that a moving tone gets beside it, and where a source is
 * meanwhile. The bank is a ring of directions around a simple head, made here by the test's own hc_bank_load. */
#include "check.h"
#include "dsp/live/scene_glide.h"
#include "haloconv_live.h"
#include "host/live/session/live_scene.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RATE = 48000, ENTRIES = 180, TAPS = 64, MAX_BLOCK = 512, N = 32768, SETTLE = 16384, TONE_HZ = 1000 };
static const double PI = 3.14159265358979, DEGREE = 3.14159265358979 / 180;

/* ---- the bank ---------------------------------------------------------------------------------- */

static float samples[ENTRIES * 2 * TAPS], positions[ENTRIES][3];
static const float *taps[ENTRIES * 2];

/* Each ear is up to 12.5 frames nearer than the middle of the head, or farther, and as much louder. */
static void ring_make(void)
{
    for (int e = 0; e < ENTRIES; e++) {
        double left = sin(2 * PI * e / ENTRIES);
        positions[e][0] = (float)cos(2 * PI * e / ENTRIES);
        positions[e][1] = (float)left;
        for (int o = 0; o < 2; o++) {
            double nearer = o == 0 ? left : -left, delay = TAPS / 2 - 12.5 * nearer;
            float *h = samples + (e * 2 + o) * TAPS;
            taps[e * 2 + o] = h;
            for (int i = 0; i < TAPS; i++) {
                double t = PI * (i - delay), sinc = fabs(t) < 1e-9 ? 1 : sin(t) / t;
                h[i] = (float)((0.6 + 0.3 * nearer) * sinc * (fabs(i - delay) < 19 ? pow(cos(t / 38), 2) : 0));
            }
        }
    }
}

int hc_bank_is_file(const char *path)
{
    return strcmp(path, "ring") == 0;
}

int hc_bank_load(const char *path, int rate, const hc_bank_options *options, hc_bank_data *data, char *why, size_t cap)
{
    (void)path, (void)options, (void)why, (void)cap;
    *data = (hc_bank_data){.size = sizeof *data, .n_entries = ENTRIES, .n_out = 2, .n_taps = TAPS, .rate = rate};
    data->taps = taps;
    data->position = (const float(*)[3])positions;
    data->notes = "";
    return HC_OK;
}

void hc_bank_data_free(hc_bank_data *data)
{
    (void)data;
}

static double entry_at(const float p[3])
{
    double turns = atan2((double)p[1], (double)p[0]) / (2 * PI);
    return (turns - floor(turns)) * ENTRIES;
}

int hc_bank_nearest(const hc_bank_data *data, const float position[3])
{
    (void)data;
    return (int)lrint(entry_at(position)) % ENTRIES;
}

int hc_bank_mix(const hc_bank_data *data, const float position[3], int *entries, float *weights)
{
    (void)data;
    double at = entry_at(position), share = at - floor(at);
    for (int i = 0; i < 2; i++) entries[i] = ((int)floor(at) + i) % ENTRIES;
    weights[0] = (float)(1 - share);
    weights[1] = (float)share;
    return 2;
}

/* ---- a session --------------------------------------------------------------------------------- */

static float out[2][SETTLE + N + MAX_BLOCK];

static hc_live *live_open(int block, double glide_ms)
{
    hc_live *live;
    char why[400] = "";
    hc_live_config c;
    hc_live_config_init(&c);
    c.n_in = c.n_sources = 1; /* a source plays mixes by default */
    c.block = block;
    c.glide_ms = glide_ms;
    c.backend = "cpu";
    ring_make();
    check(hc_live_open(&c, &live, why, sizeof why) == HC_OK, "%s", why);
    hc_live_set_freewheel(live, 1); /* messages count from the block before which they come */
    hc_live_change change = {.size = sizeof change, .mask = "ring"};
    check(hc_live_request(live, &change) == HC_OK, "refused");
    while (hc_live_has_work(live)) check(hc_live_work(live) == HC_OK, "a worker failed");
    return live;
}

static void play(hc_live *live, const float *in, int pos, int block)
{
    check(hc_live_process(live, &in, (float *[]){out[0] + pos, out[1] + pos}, block) == HC_OK, "frame %d", pos);
}

static void steer(hc_live *live, double degrees, float gain)
{
    const float at[] = {(float)cos(degrees * DEGREE), (float)sin(degrees * DEGREE), 0};
    check(hc_live_steer(live, 0, at, 0, gain) == HC_OK, "%g degrees", degrees);
}

/* ---- a tone beside which there are lines ------------------------------------------------------- */

/* The loudest line 30 to 400 Hz beside the tone, in dB of the tone. The tone itself is wider by the change of level and
 * the Doppler shift of a turn a second, 3 Hz, and by the window. */
static double lines_db(int ch)
{
    static double x[N];
    double tone = 0, most = 0;
    for (int i = 0; i < N; i++)
        x[i] = (0.42 - 0.5 * cos(2 * PI * i / N) + 0.08 * cos(4 * PI * i / N)) * (double)out[ch][SETTLE + i];
    for (int d = -400; d <= 400; d += 2) {
        if (abs(d) > 4 && abs(d) < 30) continue;
        double w = 2 * PI * (TONE_HZ + d) / RATE, before = 0, now = 0; /* Goertzel */
        for (int i = 0; i < N; i++) {
            double next = x[i] + 2 * cos(w) * now - before;
            before = now;
            now = next;
        }
        double level = now * now + before * before - 2 * cos(w) * now * before;
        double *to = abs(d) <= 4 ? &tone : &most;
        *to = fmax(*to, level);
    }
    return 10 * log10(most / tone);
}

struct tracker {
    int block;
    double hz, jitter_ms; /* of messages */
    double glide_ms;
    bool is_of_head;
    bool has_still_head; /* a tracker of the head sends 150 messages a second, all the same */
};

/* A turn a second. */
static double turn_db(const struct tracker *t)
{
    hc_live *live = live_open(t->block, t->glide_ms);
    char why[400] = "";
    struct live_scene *scene =
        t->is_of_head || t->has_still_head ? live_scene_open(live, 1, NULL, NULL, why, sizeof why) : NULL;
    struct random r = random_seeded(7);
    double next = 0;
    check(scene || !why[0], "%s", why);
    for (int pos = 0, k = 0; pos < SETTLE + N; pos += t->block) {
        float in[MAX_BLOCK];
        for (int i = 0; i < t->block; i++) in[i] = (float)sin(2 * PI * TONE_HZ * (pos + i) / RATE);
        for (; next <= pos; k++) {
            struct scene_change turn = {.act = t->is_of_head ? SCENE_ANGLES : SCENE_AED,
                                        .values = {360 * k / t->hz, 0, t->is_of_head ? 0 : 1}};
            if (scene)
                check(live_scene_change(scene, &turn, why, sizeof why), "%s", why);
            else
                steer(live, 360 * k / t->hz, 1);
            next = RATE * ((k + 1) / t->hz + 1e-3 * t->jitter_ms * (double)random_sample(&r));
        }
        struct scene_change still = {.act = SCENE_ANGLES};
        if (t->has_still_head && pos % (RATE / 150) < t->block) live_scene_change(scene, &still, why, sizeof why);
        play(live, in, pos, t->block);
    }
    live_scene_close(scene);
    hc_live_close(live);
    return fmax(lines_db(0), lines_db(1));
}

/* ---- promises ---------------------------------------------------------------------------------- */

static void a_tracker_is_followed_without_a_staircase(const char *backend)
{
    const struct tracker trackers[] = {{64, 50, 0, 0, false, false},   {64, 100, 0, 0, false, false},
                                       {64, 100, 1, 0, true, false},   {64, 150, 1, 0, false, false},
                                       {256, 100, 1, 0, false, false}, {64, 100, 1, 25, false, false},
                                       {64, 30, 0, 0, false, true}};
    const int n = sizeof trackers / sizeof *trackers, step = SANITIZED ? n - 1 : 1; /* the first and the last */
    for (int i = 0; i < n; i += step) {
        const struct tracker *t = &trackers[i];
        double db = turn_db(t);
        check(db < -60, "blocks of %d, %g messages a second, jitter %g ms, --glide %g: lines of %.1f dB", t->block,
              t->hz, t->jitter_ms, t->glide_ms, db);
    }
    for (int hz = 50; hz <= 100; hz += 50) { /* 50 and 100 */
        double db = turn_db(&(struct tracker){64, hz, 0, -1, false, false});
        check(db > -40 && db < -30, "without a glide %d messages a second make lines of %.1f dB: are they seen?", hz,
              db);
    }
}

/* The level of the left ear after `blocks` more blocks of an input of 1: 0.6 + 0.3 * sin(azimuth). */
static double level_after(hc_live *live, int blocks)
{
    float in[64];
    for (int i = 0; i < 64; i++) in[i] = 1;
    for (int b = 0; b < blocks; b++) play(live, in, 0, 64);
    return (double)out[0][63];
}

static void check_level(hc_live *live, int blocks, double degrees, double gain, const char *when)
{
    double got = level_after(live, blocks), want = gain * (0.6 + 0.3 * sin(degrees * DEGREE));
    check(fabs(got - want) < 2e-3, "%s: the level is %.4f, not %.4f, as at %g degrees", when, got, want, degrees);
}

static void a_lone_move_begins_with_the_next_block_and_lasts_10_ms(const char *backend)
{
    hc_live *live = live_open(64, 0);
    steer(live, -60, 1);
    check_level(live, 2, -60, 1, "before the first block there is no glide");
    steer(live, 60, 0.5f);
    check_level(live, 1, -60 + 120 * 64 / 480.0, 1 - 0.5 * 64 / 480, "a block");
    check_level(live, 3, -60 + 120 * 256 / 480.0, 1 - 0.5 * 256 / 480, "half of the way");
    check_level(live, 4, 60, 0.5, "10 ms");
    level_after(live, 1000);
    steer(live, 170, 1);
    level_after(live, 1000);
    steer(live, -170, 1);
    check_level(live, 4, 170 + 20 * 256 / 480.0, 1, "the short way is behind the head");
    level_after(live, 1000);
    steer(live, 10, 1);
    check_level(live, 4, -170 + 180 * 256 / 480.0, 1, "opposite: on the left side of where it was");
    hc_live_close(live);
}

static void an_entry_and_a_glide_of_0_play_at_once(const char *backend)
{
    hc_live *live = live_open(64, 0);
    steer(live, -60, 1);
    level_after(live, 8);
    check(hc_live_steer(live, 0, NULL, ENTRIES / 4, 1) == HC_OK, "entry");
    level_after(live, 1);
    check_level(live, 1, 90, 1, "an entry");
    steer(live, 0, 1);
    level_after(live, 1);
    check_level(live, 1, 0, 1, "from an entry to a place");
    hc_live_close(live);
    live = live_open(64, -1);
    steer(live, -60, 1);
    level_after(live, 8);
    steer(live, 60, 1);
    level_after(live, 1);
    check_level(live, 1, 60, 1, "no glide");
    hc_live_close(live);
}

/* Blocks are longer than the time between messages: only the last message of a block is seen, with its time. */
static void messages_count_from_their_time_within_a_long_block(const char *backend)
{
    enum { BLOCK = 512, BLOCKS = 200, EVERY = RATE / 100 };
    struct glide g;
    struct steer_target place = {{1, 0, 0}, 1, -1, 0};
    double before = 0, worst = 0;
    glide_jump(&g, &place);
    for (int b = 1, k = 0; b < BLOCKS; b++) {
        struct glide_clock clock = {.frame = (int64_t)b * BLOCK, .n = BLOCK, .rate = RATE};
        bool is_new = false;
        for (; k * EVERY <= b * BLOCK; k++) is_new = true;
        double turned = 3.6 * (k - 1) * DEGREE;
        place = (struct steer_target){{(float)cos(turned), (float)sin(turned), 0}, 1, -1, 0};
        if (is_new) glide_to(&g, &place, b * BLOCK - (k - 1) * EVERY, &clock);
        glide_at(&g, clock.frame + BLOCK, &place);
        double now = atan2((double)place.position[1], (double)place.position[0]) / DEGREE;
        double speed = remainder(now - before, 360) / BLOCK * RATE;
        if (b > 20) worst = fmax(worst, fabs(speed - 360));
        before = now;
    }
    check(worst < 6, "the speed is off by %.1f of 360 degrees a second", worst);
}

int main(void)
{
    static const struct test tests[] = {
        TEST(a_tracker_is_followed_without_a_staircase, false),
        TEST(a_lone_move_begins_with_the_next_block_and_lasts_10_ms, false),
        TEST(an_entry_and_a_glide_of_0_play_at_once, false),
        TEST(messages_count_from_their_time_within_a_long_block, false),
    };
    return check_main("glide", tests, sizeof tests / sizeof *tests);
}
