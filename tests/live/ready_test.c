/* Masks that are ready before they are asked for (hc_live_keep). Every block is compared with the float64 crossfade. The
 * test is the audio thread and the worker in turn: hc_live_work runs only where the test calls it. Backend "cuda" is
 * faulty_device.c. */
#include "check.h"
#include "dsp/device/backend.h" /* fade_gain */
#include "dsp/live/live.h"
#include "faulty_device.h" /* replaces "cuda" */
#include "player.h"        /* PEAK_SHARE */
#include "reference.h"
#include "trap.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { N_MASKS = 4, CHANNELS = 2, BLOCK = 64, FADE = 96, CAP = 300000, MAX_CHANGES = 300, PATIENCE_S = 60 };
static const int lengths[N_MASKS] = {1500, 700, 9000, 2100};
static const char *const backends[] = {"cpu", "hybrid:cpu", "cuda"};
enum { N_BACKENDS = sizeof backends / sizeof *backends };

static char folder[64];
static char paths[N_MASKS][128];
static float *taps[N_MASKS][CHANNELS], *input[CHANNELS];

struct stage {
    const char *backend;
    hc_live *live;
    int pos, n_changes, at[MAX_CHANGES], to[MAX_CHANGES]; /* the first frame of each fade, and its mask */
    float *out[CHANNELS];
};

/* Noise that falls by decay_db on the left, and by twice as much on the right. */
static void make_taps(int i, uint64_t seed, double decay_db)
{
    struct random r = random_seeded(seed);
    for (int ch = 0; ch < CHANNELS; ch++) {
        free(taps[i][ch]);
        taps[i][ch] = noise(&r, lengths[i]);
        for (int k = 0; k < lengths[i]; k++)
            taps[i][ch][k] *= (float)pow(10, -decay_db * (1 + ch) * k / lengths[i] / 20);
    }
}

static void write_taps(int i)
{
    FILE *file = fopen(paths[i], "w");
    check(file, "%s cannot be written", paths[i]);
    for (int k = 0; k < lengths[i]; k++) fprintf(file, "%.9g %.9g\n", (double)taps[i][0][k], (double)taps[i][1][k]);
    check(fclose(file) == 0, "%s cannot be written", paths[i]);
}

static void write_mask(int i, uint64_t seed)
{
    make_taps(i, seed, 0);
    write_taps(i);
}

static void work(struct stage *s)
{
    while (hc_live_has_work(s->live)) check(hc_live_work(s->live) == HC_OK, "%s: a worker failed", s->backend);
}

static void request(struct stage *s, int mask)
{
    hc_live_change change = {.size = sizeof change, .mask = paths[mask]};
    check(hc_live_request(s->live, &change) == HC_OK, "%s was refused", paths[mask]);
}

static void keep(struct stage *s, int n)
{
    const char *list[N_MASKS];
    for (int i = 0; i < n; i++) list[i] = paths[i];
    check(hc_live_keep(s->live, list, n) == HC_OK, "hc_live_keep");
}

static hc_live_stats stats_of(const struct stage *s)
{
    hc_live_stats stats = {.size = sizeof stats};
    hc_live_get_stats(s->live, &stats);
    return stats;
}

static void play(struct stage *s, int blocks)
{
    for (int i = 0; i < blocks; i++, s->pos += BLOCK) {
        const float *in[] = {input[0] + s->pos, input[1] + s->pos};
        float *out[] = {s->out[0] + s->pos, s->out[1] + s->pos};
        check(s->pos + BLOCK <= CAP, "the input is too short");
        if (!SANITIZED) trap_arm();
        trap_let_by("sem_post"); /* wakes the ready thread */
        int result = hc_live_process(s->live, in, out, BLOCK);
        const char *caught = SANITIZED ? NULL : trap_disarm();
        check(result == HC_OK && !caught, "%s, frame %d: %d; the callback reached %s", s->backend, s->pos, result,
              caught ? caught : "nothing");
    }
}

/* Waits until the ready thread has processed all that was played. */
static void await_ready(struct stage *s, int n)
{
    const struct ready *r = &s->live->ready;
    double give_up = now_s() + PATIENCE_S;
    int playing = (int)(atomic_load(&r->wanted) & NUMBER_MASK) - 1;
    for (int i = 0; i < MAX_READY; i++) {
        const struct ready_mask *m = &r->masks[i];
        while (i != playing && atomic_load(&m->at) > 0 && atomic_load(&m->at) <= s->pos) {
            check(now_s() < give_up, "%s: the ready thread has processed %lld of %d frames", s->backend,
                  (long long)atomic_load(&m->at), s->pos);
            pause_us(200);
        }
    }
    check(stats_of(s).ready == n, "%s: %d masks are ready, want %d", s->backend, stats_of(s).ready, n);
}

/* The fade to the mask begins with the next block. */
static void begins(struct stage *s, int mask)
{
    check(s->n_changes < MAX_CHANGES, "more than %d changes", MAX_CHANGES);
    s->at[s->n_changes] = s->pos;
    s->to[s->n_changes++] = mask;
}

static void stage_open(struct stage *s, const char *backend, int n_kept)
{
    char why[400] = "";
    hc_live_config c;
    *s = (struct stage){.backend = backend};
    for (int ch = 0; ch < CHANNELS; ch++) s->out[ch] = must_alloc(CAP, sizeof(float));
    hc_live_config_init(&c);
    c.backend = backend;
    c.fade_ms = 1e3 * FADE / 48000 + 1e-9;
    c.wait_us = 9000000;
    c.standby_share = 1e9;
    check(hc_live_open(&c, &s->live, why, sizeof why) == HC_OK, "%s", why);
    request(s, 0);
    work(s);
    begins(s, 0);
    play(s, 20);
    keep(s, n_kept);
    work(s);
    play(s, 20);
    await_ready(s, n_kept);
}

static double value(int mask, int ch, int frame)
{
    return reference_sum(taps[mask][ch], lengths[mask], input[ch], CAP, frame);
}

/* Compares frames [from, pos): every one of a fade's first block and every `step`-th. */
static void stage_check(const struct stage *s, int from, int step)
{
    double peak = 0;
    for (int i = from; i < s->pos; i++) peak = fmax(peak, fabs((double)s->out[0][i]));
    for (int frame = from, last = 0; frame < s->pos; frame++) {
        while (last + 1 < s->n_changes && s->at[last + 1] <= frame) last++;
        if (frame % step && !(frame - s->at[last] < BLOCK && step < 100)) continue;
        for (int ch = 0; ch < CHANNELS; ch++) {
            double gain = last ? (double)fade_gain(frame - s->at[last], FADE) : 1;
            double want = gain * value(s->to[last], ch, frame);
            if (gain < 1) want += (1 - gain) * value(s->to[last - 1], ch, frame);
            double got = (double)s->out[ch][frame];
            check(fabs(got - want) <= PEAK_SHARE * peak, "%s: channel %d, frame %d of fade %d: got %.9g, want %.9g",
                  s->backend, ch, frame - s->at[last], last, got, want);
        }
    }
}

static void stage_close(struct stage *s)
{
    check(hc_live_close(s->live) == HC_OK, "%s: close", s->backend);
    for (int ch = 0; ch < CHANNELS; ch++) free(s->out[ch]);
}

/* A fade to a ready mask, without any call of the worker. */
static void fade_to(struct stage *s, int mask)
{
    request(s, mask);
    begins(s, mask);
    play(s, FADE / BLOCK + 2);
}

/* The same by a worker that has the path from elsewhere. */
static void load_ready(struct stage *s, int mask)
{
    check(hc_live_load(s->live, paths[mask], 0) == HC_OK, "%s was refused", paths[mask]);
    begins(s, mask);
    play(s, FADE / BLOCK + 2);
}

/* ---- promises ---------------------------------------------------------------------------------- */

static void a_ready_mask_fades_in_with_the_next_block(const char *backend)
{
    for (int b = 0; b < N_BACKENDS; b++) {
        struct stage s;
        stage_open(&s, backends[b], 3);
        static const int order[] = {2, 1, 0, 2, 0};
        for (int i = 0; i < 5; i++) {
            play(&s, 30 + 7 * i);
            await_ready(&s, 3);
            fade_to(&s, order[i]);
        }
        check(stats_of(&s).rebuilds == 0 && stats_of(&s).masks == 0, "a worker was needed");
        work(&s);
        char path[128];
        check(hc_live_mask(s.live, path, sizeof path) && strcmp(path, paths[0]) == 0, "%s plays", path);
        stage_check(&s, 0, SANITIZED ? 97 : 13);
        stage_close(&s);
    }
}

static double resident_mb(void)
{
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    check(file && fscanf(file, "%*d %ld", &pages) == 1, "no resident memory in /proc");
    fclose(file);
    return (double)(pages * sysconf(_SC_PAGESIZE)) / 1e6;
}

static void back_and_forth_neither_grows_nor_clicks(const char *backend)
{
    for (int b = 0; b < N_BACKENDS; b++) {
        struct stage s;
        double before = 0;
        stage_open(&s, backends[b], 2);
        memset(s.out[0] + s.pos, 1, (CAP - (size_t)s.pos) * sizeof(float)); /* resident from here on */
        memset(s.out[1] + s.pos, 1, (CAP - (size_t)s.pos) * sizeof(float));
        for (int i = 0; i < 100; i++) {
            await_ready(&s, 2);
            (i % 5 == 0 ? load_ready : fade_to)(&s, 1 - i % 2);
            if (i % 7 == 0) work(&s);
            if (i == 20) before = resident_mb();
        }
        work(&s);
        double grown = resident_mb() - before;
        check(SANITIZED || grown < 2, "%s: %.1f MB more", s.backend, grown);
        check(stats_of(&s).rebuilds == 0, "%llu engines were made", (unsigned long long)stats_of(&s).rebuilds);
        stage_check(&s, 0, SANITIZED ? 101 : 5);
        stage_close(&s);
    }
}

static int plays(struct stage *s)
{
    char path[128] = "";
    hc_live_mask(s->live, path, sizeof path);
    for (int i = 0; i < N_MASKS; i++)
        if (strcmp(path, paths[i]) == 0) return i;
    return -1;
}

/* The mask plays alone from some block on. A new engine is filled after 160 blocks. */
static void settles(struct stage *s, int mask)
{
    const struct ready *r = &s->live->ready;
    double give_up = now_s() + PATIENCE_S;
    for (int i = 0; i < 20 || r->obeyed != atomic_load(&r->wanted) || stats_of(s).changing; i++) {
        check(now_s() < give_up, "mask %d does not begin to play", mask);
        work(s);
        play(s, i < 20 ? 8 : 1);
        pause_us(i < 20 ? 1000 : 20000); /* the ready thread may have the engine, and no processor */
    }
    check(plays(s) == mask, "mask %d is told to play, want %d", plays(s), mask);
    s->n_changes = 0;
    begins(s, mask);
    play(s, 4);
    s->at[0] = s->pos - 4 * BLOCK;
    stage_check(s, s->pos - 4 * BLOCK, 3);
}

/* Mask 3 is not in the list: a worker loads it. */
static void the_last_request_wins(const char *backend)
{
    static const struct {
        int first, second;
        bool works; /* between the two */
    } cases[] = {{3, 1, false}, {3, 1, true},  {1, 3, false}, {1, 3, true}, {1, 2, false},
                 {2, 1, true},  {1, 0, false}, {0, 3, false}, {3, 3, true}};
    struct stage s;
    stage_open(&s, "cpu", 3);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        await_ready(&s, 3);
        request(&s, cases[i].first);
        if (cases[i].works) work(&s);
        if (i % 2) play(&s, 1); /* the second request comes within the fade */
        request(&s, cases[i].second);
        settles(&s, cases[i].second);
        request(&s, 0);
        settles(&s, 0);
    }
    stage_close(&s);
}

/* A worker tells that mask 1 plays. Mask 2 is asked for at this moment, and then mask 3, which has to be loaded. */
static void ask_for_two(void *data, int level, const char *text)
{
    struct stage *s = data;
    s->live->config.say = NULL;
    request(s, 2);
    request(s, 3);
}

static void the_last_request_within_a_workers_call_wins(const char *backend)
{
    struct stage s;
    stage_open(&s, "cpu", 3);
    s.live->config.say = ask_for_two;
    s.live->config.data = &s;
    request(&s, 1);
    settles(&s, 3);
    stage_close(&s);
}

static void played_responses_replace_earlier_requests(const char *backend)
{
    char why[400] = "";
    struct stage s;
    stage_open(&s, "cpu", 2);
    for (int first = 1; first < 4; first += 2) { /* a ready mask, and one that a worker has to load */
        hc_responses responses;
        check(hc_responses_load(paths[2], 0, 48000, 0, &responses, why, sizeof why) == HC_OK &&
                  hc_responses_route(&responses, paths[2], CHANNELS, why, sizeof why) == HC_OK,
              "%s", why);
        request(&s, first);
        check(hc_live_play(s.live, paths[2], &responses, why, sizeof why) == HC_OK, "%s", why);
        settles(&s, 2);
        request(&s, 0);
        settles(&s, 0);
    }
    stage_close(&s);
}

/* The file changes while its mask waits, or plays. */
static void a_changed_file_is_loaded_again(const char *backend)
{
    struct stage s;
    stage_open(&s, "cpu", 2);
    write_mask(1, 91);
    fade_to(&s, 1); /* to the earlier content at once, then to the new one */
    settles(&s, 1);
    request(&s, 0);
    settles(&s, 0);
    write_mask(1, 92);
    keep(&s, 2); /* as --watch does */
    work(&s);
    play(&s, 4);
    await_ready(&s, 2);
    s.n_changes = 0;
    begins(&s, 0);
    int from = s.pos;
    fade_to(&s, 1);
    stage_check(&s, from, 3);
    write_mask(1, 93);
    request(&s, 1); /* it plays: load it again */
    settles(&s, 1);
    stage_close(&s);
    write_mask(1, 1);
}

static void ask_format(struct stage *s, int rate, int block)
{
    hc_live_change change = {.size = sizeof change, .rate = rate, .block = block};
    check(hc_live_request(s->live, &change) == HC_OK, "a format was refused");
}

static void another_block_or_rate_prepares_all_again(const char *backend)
{
    struct stage s;
    stage_open(&s, "cpu", 3);
    ask_format(&s, 0, 256);
    request(&s, 1); /* its engine has the block of before: it plays until there is one with the new block */
    settles(&s, 1);
    await_ready(&s, 3);
    ask_format(&s, 44100, 0);
    play(&s, 1);
    request(&s, 2); /* its engine has the rate of before and must not play */
    play(&s, 1);
    check(s.out[0][s.pos - 1] == 0, "an engine of another rate plays");
    ask_format(&s, 48000, BLOCK);
    for (int i = 0; i < 200; i++) { /* the history begins anew: until the mask is filled */
        work(&s);
        play(&s, 1);
        pause_us(100);
    }
    settles(&s, 2);
    await_ready(&s, 3);
    int from = s.pos;
    fade_to(&s, 0);
    stage_check(&s, from, 3);
    stage_close(&s);
}

/* Cuts the taps of a mask behind the last frame of any channel that is within db of the peak. Returns their number. */
static int cut_taps(int i, double db)
{
    double peak = 0;
    int end = lengths[i];
    for (int k = 0; k < lengths[i]; k++)
        for (int ch = 0; ch < CHANNELS; ch++) peak = fmax(peak, fabs((double)taps[i][ch][k]));
    for (; fmax(fabs((double)taps[i][0][end - 1]), fabs((double)taps[i][1][end - 1])) < peak * pow(10, -db / 20); end--)
        taps[i][0][end - 1] = taps[i][1][end - 1] = 0;
    return end;
}

static void trim(struct stage *s, float trim_db)
{
    hc_live_change change = {.size = sizeof change, .trim_db = trim_db};
    check(hc_live_request(s->live, &change) == HC_OK, "trim_db %g was refused", (double)trim_db);
}

static void trimmed_masks_play_up_to_the_level(const char *backend)
{
    static const float db[] = {50, 20, 35, INFINITY}; /* shorter and longer than before */
    for (int b = 0; b < N_BACKENDS; b++) {
        struct stage s;
        for (int i = 0; i < 3; i++) make_taps(i, (uint64_t)i, 60), write_taps(i);
        stage_open(&s, backends[b], b < 2 ? 3 : 1);
        for (int k = 0; k < 4; k++) {
            int n = 0;
            trim(&s, db[k]);
            for (int i = 2; i >= 0; i--) {
                make_taps(i, (uint64_t)i, 60);
                n = isinf(db[k]) ? lengths[i] : cut_taps(i, (double)db[k]);
            }
            settles(&s, 0);
            hc_live_info info = {.size = sizeof info};
            hc_live_get_info(s.live, &info);
            check(info.longest == n, "%g dB: %d frames, want %d", (double)db[k], info.longest, n);
            int from = s.pos;
            play(&s, 20);
            for (int i = 2; i >= 0; i--) {
                if (b < 2) await_ready(&s, 3);
                if (b < 2) fade_to(&s, i); /* ready masks, too */
                if (b == 2) request(&s, i), settles(&s, i), from = s.pos, play(&s, 8);
                stage_check(&s, from, 31);
            }
        }
        trim(&s, 20);
        cut_taps(0, 20);
        settles(&s, 0);
        make_taps(0, 0, 60);
        request(&s, 1);
        trim(&s, INFINITY); /* mask 0 waits, as it was cut while it played */
        settles(&s, 1);
        request(&s, 0);
        settles(&s, 0);
        int from = s.pos;
        play(&s, 20);
        stage_check(&s, from, 31);
        stage_close(&s);
    }
    for (int i = 0; i < 3; i++) write_mask(i, (uint64_t)i);
}

/* Each ready mask has a standby engine of its own, which follows while the mask waits. */
static void a_lost_device_is_replaced_in_its_block(const char *backend)
{
    struct stage s;
    setenv("HC_FAULT", "fail 200", 1);
    stage_open(&s, "cuda", 2);
    unsetenv("HC_FAULT");
    play(&s, 30);
    await_ready(&s, 2);
    fade_to(&s, 1);
    for (int i = 0; i < 200; i++) {
        play(&s, 1);
        pause_us(SANITIZED ? 3000 : 1000); /* the standby thread keeps up */
    }
    check(stats_of(&s).state == HC_LIVE_STANDBY, "state %d", stats_of(&s).state);
    stage_check(&s, 0, 13);
    stage_close(&s);
}

/* The list may change at any time, also while its masks play. */
static void a_list_may_change(const char *backend)
{
    struct stage s;
    stage_open(&s, "cpu", 3);
    fade_to(&s, 2);
    keep(&s, 2); /* without the mask that plays: it stays ready as long as it plays */
    settles(&s, 2);
    await_ready(&s, 3);
    int from = s.pos;
    fade_to(&s, 1);
    stage_check(&s, from, 3);
    work(&s);
    await_ready(&s, 2);
    request(&s, 0);
    work(&s); /* before the audio thread takes mask 0 */
    keep(&s, 0);
    work(&s);
    settles(&s, 0);
    request(&s, 2);
    settles(&s, 2);
    check(stats_of(&s).ready == 0, "%d masks are ready", stats_of(&s).ready);
    keep(&s, 4);
    settles(&s, 2);
    await_ready(&s, 4);
    hc_live_reset(s.live);
    s.n_changes = 0;
    await_ready(&s, 4);
    request(&s, 3);
    work(&s);
    play(&s, 100);
    settles(&s, 3);
    stage_close(&s);
}

static double cost_ns(const hc_live_config *live, int mask)
{
    hc_config c;
    hc_info info = {.size = sizeof info};
    hc_config_init(&c);
    c.max_taps = lengths[mask];
    c.backend = live->backend;
    c.method = live->method;
    check(hc_plan(&c, &info, NULL, 0) == HC_OK, "hc_plan");
    return info.cost_ns;
}

/* The rate is so high that one of masks 2 and 3 may wait for its time, but not both. */
static void the_first_of_a_list_are_ready(const char *backend)
{
    static const int lists[][3] = {{0, 2, 3}, {0, 3, 2}, {0, 2, 3}};
    struct stage s = {.backend = "cpu"};
    hc_live_config c;
    hc_live_config_init(&c);
    c.backend = "cpu";
    c.method = "direct";
    c.keep_rate = 1;
    c.rate = (int)(0.65e9 / (cost_ns(&c, 2) + cost_ns(&c, 3)));
    check(hc_live_open(&c, &s.live, NULL, 0) == HC_OK, "a rate of %d Hz", c.rate);
    request(&s, 0);
    work(&s);
    for (int i = 0; i < 3; i++) {
        const char *list[] = {paths[lists[i][0]], paths[lists[i][1]], paths[lists[i][2]]};
        check(hc_live_keep(s.live, list, 3) == HC_OK, "hc_live_keep");
        work(&s);
        for (int k = 0; k < 3; k++)
            check(!ready_find(&s.live->ready, list[k]) == (k == 2), "list %d: mask %d is %sready", i, lists[i][k],
                  k == 2 ? "" : "not ");
    }
    stage_close(&s);
}

struct storm {
    struct stage *stage;
    atomic_bool end;
};

static void *storm_work(void *arg)
{
    struct storm *storm = arg;
    while (!atomic_load(&storm->end)) {
        while (hc_live_has_work(storm->stage->live)) hc_live_work(storm->stage->live);
        pause_us(50);
    }
    return NULL;
}

static void *storm_ask(void *arg)
{
    struct storm *storm = arg;
    struct random r = random_seeded(4);
    while (!atomic_load(&storm->end)) {
        int what = random_int(&r, 0, 19);
        if (what == 0 && random_int(&r, 0, 1))
            hc_live_compare(storm->stage->live, paths[0], paths[random_int(&r, 1, 2)]);
        if (what == 0) keep(storm->stage, random_int(&r, 0, N_MASKS));
        if (what == 1) ask_format(storm->stage, 0, random_int(&r, 0, 1) ? 256 : BLOCK);
        if (what == 2) ask_format(storm->stage, random_int(&r, 0, 1) ? 44100 : 48000, 0);
        if (what == 3) hc_live_set_freewheel(storm->stage->live, random_int(&r, 0, 1));
        if (what > 3) request(storm->stage, random_int(&r, 0, N_MASKS - 1));
        pause_us(random_int(&r, 0, 400));
    }
    return NULL;
}

/* Requests, lists and formats come from other threads at any time. The last request plays in the end. */
static void a_storm_of_requests_leaves_the_last(const char *backend)
{
    for (int b = 0; b < N_BACKENDS; b++) {
        struct stage s;
        stage_open(&s, backends[b], 3);
        struct storm storm = {.stage = &s};
        pthread_t worker, asker;
        check(pthread_create(&worker, NULL, storm_work, &storm) == 0, "no thread");
        check(pthread_create(&asker, NULL, storm_ask, &storm) == 0, "no thread");
        for (int i = 0; i < 400; i++) {
            play(&s, 1);
            pause_us(100);
        }
        atomic_store(&storm.end, true);
        pthread_join(worker, NULL);
        pthread_join(asker, NULL);
        hc_live_compare(s.live, NULL, NULL);
        hc_live_set_freewheel(s.live, false);
        ask_format(&s, 48000, BLOCK);
        keep(&s, 3);
        request(&s, 2);
        for (int i = 0; i < 200; i++) { /* until the mask is filled after a change of the rate */
            work(&s);
            play(&s, 1);
            pause_us(100);
        }
        settles(&s, 2);
        await_ready(&s, 3);
        int from = s.pos;
        fade_to(&s, 1);
        stage_check(&s, from, 3);
        stage_close(&s);
    }
}

/* Cases of EBU Tech 3341, and the K-weighting by the coefficients that BS.1770 prints: sines of so many dB, each for so
 * many seconds. Blocks that reach over the edges of 6 s take 0.2 LU off. */
static void loudness_is_that_of_bs1770(const char *backend)
{
    enum { MOST = 12 * 48000 };
    static const struct {
        int rate, n_channels;
        double hz, db[3], seconds[3], lufs;
    } cases[] = {{48000, 1, 997, {0}, {2}, -3.01},
                 {48000, 2, 1000, {-23}, {2}, -23},
                 {44100, 2, 1000, {-33}, {2}, -33},
                 {96000, 2, 1000, {-23}, {2}, -23},
                 {48000, 2, 1000, {-36, -23, -36}, {3, 6, 3}, -23.2},
                 {48000, 2, 1000, {-72, -23, -72}, {3, 6, 3}, -23.2},
                 {48000, 1, 38, {0}, {2}, -9.70},
                 {48000, 1, 10000, {0}, {2}, 0.34}};
    float *x = must_alloc(MOST, sizeof *x), *rows[] = {x, x};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct loudness meter;
        int n = 0;
        check(loudness_open(&meter, cases[i].n_channels, cases[i].rate), "no memory");
        check(isinf(loudness_get(&meter)), "something before the first block");
        for (int part = 0; part < 3; part++)
            for (int end = n + (int)(cases[i].seconds[part] * cases[i].rate); n < end; n++)
                x[n] =
                    (float)(pow(10, cases[i].db[part] / 20) * sin(6.283185307179586 * cases[i].hz * n / cases[i].rate));
        for (int at = 0; at < n; at += 1000, rows[0] += 1000, rows[1] += 1000)
            loudness_add(&meter, rows, n - at < 1000 ? n - at : 1000);
        rows[0] = rows[1] = x;
        double got = loudness_get(&meter);
        check(fabs(got - cases[i].lufs) < 0.1, "case %zu: %.2f LUFS, want %.2f", i, got, cases[i].lufs);
        loudness_close(&meter);
    }
    free(x);
}

/* Raw bytes that are played as floats, for a moment: the rest is as loud as it was. */
static void huge_samples_do_not_count_as_loudness(const char *backend)
{
    static const float values[] = {1e30f, 1e37f, INFINITY, NAN};
    struct random r = random_seeded(60);
    float *x = must_alloc(4 * 48000, sizeof *x), *rows[] = {x};
    struct loudness meter, clean;
    for (int v = 0; v < 4; v++) {
        check(loudness_open(&meter, 1, 48000) && loudness_open(&clean, 1, 48000), "no memory");
        for (int i = 0; i < 4 * 48000; i++) x[i] = random_sample(&r);
        loudness_add(&clean, rows, 4 * 48000);
        for (int i = 0; i < 700; i++) x[50000 + i] = i % 2 ? values[v] : -values[v];
        loudness_add(&meter, rows, 4 * 48000);
        double got = loudness_get(&meter), want = loudness_get(&clean);
        check(fabs(got - want) < 0.2, "%g: %g LUFS, want %g", (double)values[v], got, want);
        loudness_close(&meter);
        loudness_close(&clean);
    }
    free(x);
}

/* The K-weighted loudness of what was heard from frame `from` on. */
static double heard(const struct stage *s, int from)
{
    struct loudness meter;
    float *rows[] = {s->out[0] + from, s->out[1] + from};
    check(loudness_open(&meter, CHANNELS, 48000), "no memory");
    loudness_add(&meter, rows, s->pos - from);
    double lufs = loudness_get(&meter);
    loudness_close(&meter);
    return lufs;
}

static void compared_masks_are_equally_loud(const char *backend)
{
    for (int b = 0; b < N_BACKENDS; b++) {
        struct stage s;
        stage_open(&s, backends[b], 3);
        check(hc_live_compare(s.live, paths[0], paths[1]) == HC_OK, "hc_live_compare");
        hc_live_stats stats = stats_of(&s);
        check(stats.compared == 1 && isinf(stats.loudness[0]) && stats.compared_gain[0] == 1, "at the beginning");
        double lufs[2];
        for (int mask = 0; mask < 2; mask++) {
            if (mask) fade_to(&s, 1);
            for (int i = 0; i < 10; i++) { /* neither thread runs far ahead */
                play(&s, mask ? 75 : 150);
                await_ready(&s, 3);
            }
            lufs[mask] = heard(&s, s.pos - 30000);
        }
        stats = stats_of(&s);
        double apart = (double)(stats.loudness[0] - stats.loudness[1]);
        check(stats.compared == 2, "%d is heard", stats.compared);
        check(apart > 1 && fabs((double)stats.compared_gain[0] - pow(10, -apart / 20)) < 1e-3 &&
                  stats.compared_gain[1] == 1,
              "%.2f and %.2f LUFS: gains %.4f and %.4f", (double)stats.loudness[0], (double)stats.loudness[1],
              (double)stats.compared_gain[0], (double)stats.compared_gain[1]);
        check(fabs(lufs[0] - lufs[1]) < 0.3, "%s: A was heard with %.2f LUFS, B with %.2f", s.backend, lufs[0],
              lufs[1]);
        stage_check(&s, s.pos - 2000, 13); /* the quieter mask, as it is */
        check(hc_live_compare(s.live, NULL, NULL) == HC_OK && stats_of(&s).compared == 0, "the end");
        int from = s.pos;
        s.n_changes = 0;
        begins(&s, 1);
        play(&s, 20);
        await_ready(&s, 3);
        fade_to(&s, 0);
        stage_check(&s, from, 13);
        stage_close(&s);
    }
}

int main(void)
{
    static const struct test tests[] = {
        TEST(a_ready_mask_fades_in_with_the_next_block, false),
        TEST(back_and_forth_neither_grows_nor_clicks, false),
        TEST(the_last_request_wins, false),
        TEST(the_last_request_within_a_workers_call_wins, false),
        TEST(played_responses_replace_earlier_requests, false),
        TEST(a_changed_file_is_loaded_again, false),
        TEST(another_block_or_rate_prepares_all_again, false),
        TEST(trimmed_masks_play_up_to_the_level, false),
        TEST(a_lost_device_is_replaced_in_its_block, false),
        TEST(a_list_may_change, false),
        TEST(the_first_of_a_list_are_ready, false),
        TEST(a_storm_of_requests_leaves_the_last, false),
        TEST(loudness_is_that_of_bs1770, false),
        TEST(huge_samples_do_not_count_as_loudness, false),
        TEST(compared_masks_are_equally_loud, false),
    };
    const char *dir = getenv("TMPDIR");
    char command[128];
    struct random r = random_seeded(50);
    snprintf(folder, sizeof folder, "%.40s/hc_ready_XXXXXX", dir ? dir : "/tmp");
    if (!mkdtemp(folder)) return 1;
    for (int ch = 0; ch < CHANNELS; ch++) input[ch] = noise(&r, CAP);
    for (int i = 0; i < N_MASKS; i++) {
        snprintf(paths[i], sizeof paths[i], "%s/%d.txt", folder, i);
        write_mask(i, (uint64_t)i);
    }
    int status = check_main("ready", tests, sizeof tests / sizeof *tests);
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command) == 0 ? status : 1;
}
