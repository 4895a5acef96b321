/* Sources that move through hc_live: every sample is compared with the float64 sum of haloconv_scenes.h, while the bank,
 * the rate, the block or the backend changes and a device is lost. The test is the audio thread and the worker in turn.
 * Backend "cuda" is faulty_device.c. The banks are made here, by the test's own hc_bank_load: a path is
 * "bank:SEED:ENTRIES:TAPS:OUTPUTS". */
#include "check.h"
#include "dsp/device/backend.h" /* fade_gain */
#include "dsp/live/live.h"
#include "faulty_device.h" /* replaces "cuda" */
#include "player.h"        /* PEAK_SHARE */
#include "trap.h"

#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    RATE = 48000,
    BLOCK = 64,
    CAP = 16384,
    N_IN = 3, /* inputs: two sources, and one without a response */
    N_SOURCES = 2,
    N_OUT = 2,
    MAX_EVENTS = 1000,
    MAX_ENGINES = 16,
    MAX_SETTLING = 100, /* blocks that a change may take until it is heard alone */
    FADE = 96,          /* of a new engine, at RATE */
    WARM_UP = 16,       /* blocks that failover_start plays to the device */
    NO_ENTRY = -1
};
static const char FIRST[] = "bank:1:12:900:2", SECOND[] = "bank:2:7:640:2", LONGER[] = "bank:3:5:1200:2",
                  MONO[] = "bank:4:5:300:1", LONG[] = "bank:5:4:5000:2";

/* ---- banks ------------------------------------------------------------------------------------- */

struct made {
    float *samples, **taps;
    float (*position)[3];
};

static atomic_int loads; /* of banks, that are not freed */

int hc_bank_is_file(const char *path)
{
    return strstr(path, "bank:") != NULL && !strstr(path, ".conf");
}

int hc_bank_load(const char *path, int rate, const hc_bank_options *options, hc_bank_data *data, char *why, size_t cap)
{
    int seed, n_entries, n_taps, n_out;
    const char *name = strstr(path, "bank:"); /* a configuration puts its folder in front */
    if (!name || sscanf(name, "bank:%d:%d:%d:%d", &seed, &n_entries, &n_taps, &n_out) != 4)
        return fail(HC_EFILE, REASON(why, cap), "%s: is no bank", path);
    struct made *made = must_alloc(1, sizeof *made);
    struct random r = random_seeded((uint64_t)seed);
    int n = n_entries * n_out;
    made->samples = noise(&r, n * n_taps);
    made->taps = must_alloc((size_t)n, sizeof *made->taps);
    made->position = must_alloc((size_t)n_entries, sizeof *made->position);
    for (int i = 0; i < n; i++) made->taps[i] = made->samples + (size_t)i * (size_t)n_taps;
    for (int e = 0; e < n_entries; e++) {
        double angle = 2 * 3.14159265358979 * e / n_entries;
        made->position[e][0] = (float)cos(angle);
        made->position[e][1] = (float)sin(angle);
    }
    *data = (hc_bank_data){.size = sizeof *data,
                           .n_entries = n_entries,
                           .n_out = n_out,
                           .n_taps = n_taps,
                           .rate = rate,
                           .taps = (const float *const *)made->taps,
                           .position = (const float(*)[3])made->position,
                           .gain_db = (float)seed,
                           .notes = "a note\nanother note\n",
                           .memory = made};
    atomic_fetch_add(&loads, 1);
    return HC_OK;
}

void hc_bank_data_free(hc_bank_data *data)
{
    struct made *made = data->memory;
    if (!made) return;
    free(made->samples);
    free(made->taps);
    free(made->position);
    free(made);
    data->memory = NULL;
    atomic_fetch_sub(&loads, 1);
}

static double closeness(const hc_bank_data *data, int entry, const float p[3])
{
    const float *q = data->position[entry];
    return (double)(p[0] * q[0] + p[1] * q[1] + p[2] * q[2]);
}

int hc_bank_nearest(const hc_bank_data *data, const float position[3])
{
    int best = 0;
    for (int e = 1; e < data->n_entries; e++)
        if (closeness(data, e, position) > closeness(data, best, position)) best = e;
    return best;
}

/* Not barycentric: the nearest one and the entry behind it. */
int hc_bank_mix(const hc_bank_data *data, const float position[3], int *entries, float *weights)
{
    entries[0] = hc_bank_nearest(data, position);
    entries[1] = (entries[0] + 1) % data->n_entries;
    weights[0] = 0.75f;
    weights[1] = 0.25f;
    return 2;
}

/* ---- a session, and what it should sound like -------------------------------------------------- */

struct target { /* what a source of an engine plays from a frame on */
    int engine, at, source, bank, n, entry[HC_MAX_MIX];
    float weight[HC_MAX_MIX];
};

struct played {       /* an engine */
    int at, fade;     /* its output fades in from frame `at` on                    */
    int begin, block; /* it has the input from frame `begin` on                    */
    int bank[N_SOURCES];
    float pair[N_IN][N_OUT]; /* gains of the static responses, one tap each             */
    bool ends_at_once;       /* another rate: the next engine fades in from silence       */
    double *heard[4];        /* [bank]: [source][entry][out][CAP], x * h                  */
};

struct stage {
    hc_live *live;
    int pos;
    bool traps, mixes;
    struct {
        const char *path;
        hc_bank_data data;
    } banks[4];
    int n_banks;
    struct steer_target places[N_SOURCES];
    struct target targets[MAX_EVENTS];
    int n_targets;
    struct played engines[MAX_ENGINES];
    int n_engines;
    float *in[N_IN], *out[N_OUT];
};

static void work(struct stage *s)
{
    for (int i = 0; hc_live_has_work(s->live); i++) {
        check(hc_live_work(s->live) == HC_OK, "a worker failed");
        check(i < 1000, "a worker never ends");
    }
}

static int bank_of(struct stage *s, const char *path)
{
    for (int b = 0; b < s->n_banks; b++)
        if (strcmp(s->banks[b].path, path) == 0) return b;
    check(hc_bank_load(path, RATE, NULL, &s->banks[s->n_banks].data, NULL, 0) == HC_OK, "%s", path);
    s->banks[s->n_banks].path = path;
    return s->n_banks++;
}

/* From frame `at` on the source fades in this engine to the entries for its place. */
static void aim_in(struct stage *s, int engine, int source, int at)
{
    struct target *t = &s->targets[s->n_targets++];
    int bank_index = s->engines[engine].bank[source];
    const hc_bank_data *bank = &s->banks[bank_index].data;
    const struct steer_target *p = &s->places[source];
    check(s->n_targets < MAX_EVENTS, "too many events");
    *t = (struct target){.engine = engine, .at = at, .source = source, .bank = bank_index, .n = 1, .weight = {1}};
    if (p->entry >= 0)
        t->entry[0] = p->entry;
    else if (s->mixes)
        t->n = hc_bank_mix(bank, p->position, t->entry, t->weight);
    else
        t->entry[0] = hc_bank_nearest(bank, p->position);
    if (p->entry >= bank->n_entries) t->n = 0;
    for (int i = 0; i < t->n; i++) t->weight[i] *= p->gain;
}

/* The engine before the newest one may still be heard. */
static void aim(struct stage *s, int source)
{
    int n = s->n_engines;
    if (n > 0) aim_in(s, n - 1, source, s->pos);
    if (n > 1 && s->pos < s->engines[n - 1].at + s->engines[n - 1].fade) aim_in(s, n - 2, source, s->pos);
}

static void move_by(struct stage *s, int source, double degrees, float gain)
{
    struct steer_target *p = &s->places[source];
    double angle = degrees * 3.14159265358979 / 180;
    *p = (struct steer_target){{(float)cos(angle), (float)sin(angle), 0}, gain, NO_ENTRY, 0};
    check(hc_live_steer(s->live, source, p->position, 0, gain) == HC_OK, "source %d was not steered", source);
    aim(s, source);
}

static void move_to_entry(struct stage *s, int source, int entry, float gain)
{
    s->places[source] = (struct steer_target){{1, 0, 0}, gain, entry, 0};
    check(hc_live_steer(s->live, source, NULL, entry, gain) == HC_OK, "source %d was not steered", source);
    aim(s, source);
}

/* A new engine fades in from the next block on, and has been at the present places all the time. */
static void engine_begins(struct stage *s, const char *bank, int block, int rate)
{
    struct played *e = &s->engines[s->n_engines], *before = s->n_engines ? e - 1 : NULL;
    check(s->n_engines < MAX_ENGINES, "too many engines");
    *e = (struct played){.at = s->pos, .block = block};
    for (int i = 0; i < N_SOURCES; i++) e->bank[i] = bank_of(s, bank);
    if (before) e->fade = (int)((1e3 * FADE / RATE + 1e-9) * 1e-3 * rate);
    s->n_engines++;
    for (int i = 0; i < N_SOURCES; i++) aim_in(s, s->n_engines - 1, i, INT_MIN);
}

static void request(struct stage *s, const hc_live_change *change)
{
    check(hc_live_request(s->live, change) == HC_OK, "a request was refused");
    work(s);
}

static void request_bank(struct stage *s, const char *path)
{
    request(s, &(hc_live_change){.size = sizeof(hc_live_change), .mask = path});
}

/* All sources fade to the entries of another bank with the next block. */
static void change_bank(struct stage *s, const char *path)
{
    request_bank(s, path);
    for (int i = 0; i < N_SOURCES; i++) {
        s->engines[s->n_engines - 1].bank[i] = bank_of(s, path);
        aim_in(s, s->n_engines - 1, i, s->pos);
    }
}

static void play(struct stage *s, int blocks)
{
    int block = s->engines[s->n_engines - 1].block;
    for (int i = 0; i < blocks; i++, s->pos += block) {
        const float *in[N_IN];
        float *out[N_OUT];
        for (int ch = 0; ch < N_IN; ch++) in[ch] = s->in[ch] + s->pos;
        for (int ch = 0; ch < N_OUT; ch++) out[ch] = s->out[ch] + s->pos;
        check(s->pos + block <= CAP, "the input is too short");
        if (s->traps && !SANITIZED) trap_arm();
        trap_let_by("sem_post"); /* wakes the threads of a device and of a standby engine */
        int result = hc_live_process(s->live, in, out, block);
        const char *caught = s->traps && !SANITIZED ? trap_disarm() : NULL;
        check(result == HC_OK && !caught, "frame %d: %d; the callback reached %s", s->pos, result,
              caught ? caught : "nothing");
    }
}

static hc_live_config stage_config(const char *backend)
{
    hc_live_config c;
    hc_live_config_init(&c);
    c.n_in = N_IN;
    c.n_out = N_OUT;
    c.n_sources = N_SOURCES;
    c.rate = RATE;
    c.block = BLOCK;
    c.backend = backend;
    c.fade_ms = 1e3 * FADE / RATE + 1e-9;
    c.wait_us = 9000000;
    c.standby_share = 1e9;
    c.glide_ms = -1;
    c.mix_entries = HC_MIX_NONE;
    return c;
}

static void stage_open(struct stage *s, const hc_live_config *config)
{
    char why[400] = "";
    struct random r = random_seeded(60);
    atomic_store(&loads, 0); /* a test that failed has not freed its banks, nor has it removed the fault */
    unsetenv("HC_FAULT_SCENE");
    *s = (struct stage){.mixes = config->mix_entries >= 0, .traps = true};
    for (int ch = 0; ch < N_IN; ch++) s->in[ch] = noise(&r, CAP);
    for (int ch = 0; ch < N_OUT; ch++) s->out[ch] = must_alloc(CAP, sizeof(float));
    for (int i = 0; i < N_SOURCES; i++) s->places[i] = (struct steer_target){{1, 0, 0}, 1, NO_ENTRY, 0};
    check(hc_live_open(config, &s->live, why, sizeof why) == HC_OK, "%s", why);
}

static void stage_close(struct stage *s)
{
    check(hc_live_close(s->live) == HC_OK, "close");
    for (int b = 0; b < s->n_banks; b++) hc_bank_data_free(&s->banks[b].data);
    for (int i = 0; i < s->n_engines; i++)
        for (int b = 0; b < 4; b++) free(s->engines[i].heard[b]);
    for (int ch = 0; ch < N_IN; ch++) free(s->in[ch]);
    for (int ch = 0; ch < N_OUT; ch++) free(s->out[ch]);
    check(atomic_load(&loads) == 0, "%d banks were not freed", atomic_load(&loads));
}

/* x * h of an entry, up to frame `end`; computed when it is first heard. */
static const double *heard(struct stage *s, struct played *e, int bank, int source, int entry, int out, int end)
{
    const hc_bank_data *data = &s->banks[bank].data;
    size_t n_out = (size_t)data->n_out, rows = (size_t)N_SOURCES * (size_t)data->n_entries * n_out;
    if (!e->heard[bank]) {
        e->heard[bank] = must_alloc(rows * CAP, sizeof(double));
        for (size_t i = 0; i < rows; i++) e->heard[bank][i * CAP] = NAN;
    }
    double *y = e->heard[bank] + ((size_t)(source * data->n_entries + entry) * n_out + (size_t)out) * CAP;
    if (!isnan(y[0])) return y;
    const float *h = data->taps[entry * data->n_out + out], *x = s->in[source];
    for (int i = 0; i < end; i++) {
        double sum = 0;
        for (int k = 0; k < data->n_taps && k <= i - e->begin; k++) sum += (double)h[k] * (double)x[i - k];
        y[i] = sum;
    }
    return y;
}

/* Adds what a target plays from frame `at` to `end`: it fades in within the first block, and out in the block at `end`. */
static void model_add(struct stage *s, const struct target *t, int end, bool fades_in, double *want[N_OUT])
{
    struct played *e = &s->engines[t->engine];
    int n_out = s->banks[t->bank].data.n_out, at = t->at < e->begin ? e->begin : t->at, block = e->block;
    for (int i = 0; i < t->n; i++) {
        for (int o = 0; o < n_out; o++) {
            const double *y = heard(s, e, t->bank, t->source, t->entry[i], o, s->pos);
            for (int f = at; f < s->pos && f - block < end; f++) {
                double g = fades_in && f < at + block ? (f - at + 1.0) / block : 1;
                if (f >= end) g = 1 - (f - end + 1.0) / block;
                want[o][f] += g * (double)t->weight[i] * y[f];
            }
        }
    }
}

/* The output of an engine. */
static void model_engine(struct stage *s, int engine, double *want[N_OUT])
{
    const struct played *e = &s->engines[engine];
    for (int o = 0; o < N_OUT; o++) {
        want[o] = must_alloc(CAP, sizeof(double));
        for (int f = e->begin; f < s->pos; f++)
            for (int i = 0; i < N_IN; i++) want[o][f] += (double)e->pair[i][o] * (double)s->in[i][f];
    }
    for (int source = 0; source < N_SOURCES; source++) {
        const struct target *last = NULL;
        bool fades = false;
        for (int i = 0; i <= s->n_targets; i++) {
            const struct target *t = i < s->n_targets ? &s->targets[i] : NULL;
            if (t && (t->engine != engine || t->source != source)) continue;
            bool is_replaced = last && t && t->at == last->at; /* before it was heard */
            if (last && !is_replaced) {
                model_add(s, last, t ? t->at : CAP, fades, want);
                fades = true;
            }
            last = t;
        }
    }
}

static void model(struct stage *s, double *want[N_OUT])
{
    model_engine(s, 0, want);
    for (int k = 1; k < s->n_engines; k++) {
        const struct played *e = &s->engines[k];
        double *next[N_OUT];
        model_engine(s, k, next);
        for (int o = 0; o < N_OUT; o++) {
            for (int f = e->at; f < s->pos; f++) {
                double from = e[-1].ends_at_once ? 0 : want[o][f];
                want[o][f] = from + (double)fade_gain(f - e->at, e->fade) * (next[o][f] - from);
            }
            free(next[o]);
        }
    }
}

/* Compares frames [from, pos), without the first `unsettled` of every `period` frames. */
static void stage_check_settled(struct stage *s, int from, int period, int unsettled)
{
    double *want[N_OUT], peak = 0, worst = 0;
    model(s, want);
    for (int o = 0; o < N_OUT; o++)
        for (int f = 0; f < s->pos; f++) peak = fmax(peak, fabs(want[o][f]));
    for (int o = 0; o < N_OUT; o++) {
        for (int f = from; f < s->pos; f++) {
            if (f % period < unsettled) continue;
            double got = (double)s->out[o][f], error = fabs(got - want[o][f]);
            check(error <= PEAK_SHARE * peak, "output %d, frame %d of %d: got %.9g, want %.9g, peak %.3g", o, f, s->pos,
                  got, want[o][f], peak);
            worst = fmax(worst, error);
        }
        free(want[o]);
    }
    check(peak > 0.1 && worst >= 0, "silence");
}

static void stage_check_from(struct stage *s, int from)
{
    stage_check_settled(s, from, CAP, 0);
}

static void stage_check(struct stage *s)
{
    stage_check_from(s, 0);
}

/* ---- promises ---------------------------------------------------------------------------------- */

static void a_move_is_heard_with_the_next_block(const char *backend)
{
    struct stage s;
    for (int mixes = HC_MIX_NONE; mixes < 2; mixes++) {
        hc_live_config c = stage_config("cpu");
        c.mix_entries = mixes;
        stage_open(&s, &c);
        request_bank(&s, FIRST);
        engine_begins(&s, FIRST, BLOCK, RATE);
        play(&s, 5);
        for (int i = 0; i < 40; i++) {
            move_by(&s, i % 2, 37.0 * i, 0.5f + 0.01f * (float)i);
            if (i % 5 == 0) move_by(&s, i % 2, 11.0 * i, 1); /* the last one wins */
            if (i % 7 == 0) move_to_entry(&s, 1 - i % 2, i % 14, 0.7f);
            play(&s, 1 + i % 3);
        }
        stage_check(&s);
        stage_close(&s);
    }
}

static void a_place_may_be_given_before_there_is_a_bank(const char *backend)
{
    struct stage s;
    hc_live_config c = stage_config("cpu");
    stage_open(&s, &c);
    move_by(&s, 1, 190, 0.25f);
    request_bank(&s, FIRST);
    engine_begins(&s, FIRST, BLOCK, RATE);
    play(&s, 40);
    stage_check(&s);
    stage_close(&s);
}

static void another_bank_is_a_fade_of_every_source(const char *backend)
{
    struct stage s;
    hc_live_config c = stage_config("cpu");
    stage_open(&s, &c);
    request_bank(&s, FIRST);
    engine_begins(&s, FIRST, BLOCK, RATE);
    const char *const banks[] = {SECOND, MONO, FIRST, SECOND};
    for (int i = 0; i < 8; i++) {
        move_by(&s, i % 2, 70.0 * i, 1);
        play(&s, 6);
        if (i % 2 == 0) change_bank(&s, banks[i / 2]);
        play(&s, 6);
    }
    hc_live_stats stats = {.size = sizeof stats};
    hc_live_get_stats(s.live, &stats);
    check(stats.rebuilds == 0 && stats.masks == 4, "%d new engines, %d masks", (int)stats.rebuilds, (int)stats.masks);
    stage_check(&s);
    stage_close(&s);
}

static void turn(struct stage *s, int blocks)
{
    for (int i = 0; i < blocks; i++) {
        move_by(s, i % 2, 37.0 * (i + s->pos), 1);
        play(s, 1);
    }
}

static void sources_move_on_through_every_change(const char *backend)
{
    struct stage s;
    hc_live_config c = stage_config("cpu");
    stage_open(&s, &c);
    request_bank(&s, FIRST);
    engine_begins(&s, FIRST, BLOCK, RATE);
    turn(&s, 20);
    request_bank(&s, LONGER); /* does not fit into the engine */
    engine_begins(&s, LONGER, BLOCK, RATE);
    turn(&s, 20);
    request(&s, &(hc_live_change){.size = sizeof(hc_live_change), .block = 2 * BLOCK});
    engine_begins(&s, LONGER, 2 * BLOCK, RATE);
    turn(&s, 20);
    request(&s, &(hc_live_change){.size = sizeof(hc_live_change), .block = BLOCK});
    engine_begins(&s, LONGER, BLOCK, RATE);
    turn(&s, 20);
    request(&s, &(hc_live_change){.size = sizeof(hc_live_change), .backend = "cuda"});
    engine_begins(&s, LONGER, BLOCK, RATE);
    turn(&s, 20);
    request(&s, &(hc_live_change){.size = sizeof(hc_live_change), .rate = 44100});
    s.engines[s.n_engines - 1].ends_at_once = true;
    engine_begins(&s, LONGER, BLOCK, 44100);
    s.engines[s.n_engines - 1].begin = s.pos;
    turn(&s, 30);
    stage_check(&s);
    stage_close(&s);
}

/* Begins to play a bank on a device that is lost at the block `at`. */
static void play_bank_on_failing_device(struct stage *s, const char *bank, int at)
{
    char fault[32];
    snprintf(fault, sizeof fault, "fail %d", WARM_UP + at);
    setenv("HC_FAULT_SCENE", fault, 1);
    request_bank(s, bank);
    unsetenv("HC_FAULT_SCENE");
    engine_begins(s, bank, BLOCK, RATE);
}

/* From here on the audio thread may wait for the lock of the standby engine. The wait makes system calls. With a
 * deadline a block would be silent if a busy machine stops the standby thread while it has the lock. */
static void drop_deadlines(struct stage *s)
{
    s->traps = false;
    hc_live_set_freewheel(s->live, 1);
}

/* The frame that the standby engine has reached; -1: its thread has the lock. */
static int64_t standby_frame(struct failover *f)
{
    if (atomic_flag_test_and_set_explicit(&f->lock, memory_order_acquire)) return -1;
    int64_t at = f->standby.at;
    atomic_flag_clear_explicit(&f->lock, memory_order_release);
    return at;
}

/* Waits until the standby thread has processed all that was played. */
static void await_standby(struct stage *s)
{
    struct failover *f = s->live->playing->failover;
    int64_t at = -1;
    for (int waits = 0; at < s->pos && failover_state(f) == HC_LIVE_OK; waits++) {
        check(waits < 100000, "the standby engine has processed %ld of %d frames, and goes no further", (long)at,
              s->pos);
        pause_us(200);
        at = standby_frame(f);
        if (at >= 0 && at < s->pos) failover_wake(f); /* the thread may have found the lock taken, and sleeps again */
    }
}

/* Plays a block that the standby thread cannot process: the lock is taken. On return it most likely sleeps. */
static void play_without_standby(struct stage *s)
{
    struct failover *f = s->live->playing->failover;
    int wakes = 1;
    while (atomic_flag_test_and_set_explicit(&f->lock, memory_order_acquire)) pause_us(100);
    turn(s, 1);
    for (int waits = 0; wakes > 0; waits++) {
        check(waits < 100000 && sem_getvalue(&f->wake, &wakes) == 0, "the standby thread sleeps on");
        pause_us(200);
    }
    pause_us(1000); /* in this time it finds the lock taken */
    atomic_flag_clear_explicit(&f->lock, memory_order_release);
}

static void the_standby_engine_goes_on_in_the_right_directions(const char *backend)
{
    struct stage s;
    int behind = 0;
    for (int at = 30; at < 36; at++) {
        hc_live_config c = stage_config("cuda");
        stage_open(&s, &c);
        play_bank_on_failing_device(&s, FIRST, at);
        for (int i = 0; i < 60; i++) {
            /* The audio thread processes the block before the loss: the standby thread does not. */
            if (i == at - 1) {
                play_without_standby(&s);
                continue;
            }
            if (i == at) {
                behind += standby_frame(s.live->playing->failover) == s.pos - BLOCK;
                drop_deadlines(&s);
            }
            turn(&s, 1);
            await_standby(&s);
        }
        hc_live_stats stats = {.size = sizeof stats};
        hc_live_get_stats(s.live, &stats);
        check(stats.state == HC_LIVE_STANDBY, "the device was not lost: state %d", stats.state);
        stage_check(&s);
        stage_close(&s);
    }
    check(behind > 0, "the standby thread has processed every block before a loss");
}

/* The device is lost while a worker loads banks that are too much for the CPU. */
static void a_takeover_during_a_load_keeps_the_banks(const char *backend)
{
    struct stage s;
    hc_live_config c = stage_config("cuda");
    char why[400] = "";
    stage_open(&s, &c);
    play_bank_on_failing_device(&s, FIRST, 24);
    drop_deadlines(&s);
    for (int i = 0; i < 40; i++) {
        play(&s, 1);
        await_standby(&s);
    }
    struct failover *f = s.live->newest->failover;
    check(failover_state(f) == HC_LIVE_STANDBY, "the device was not lost");
    f->standby_share = 0;
    check(failover_load(f, NULL, 0, s.live->mask.banks, REASON(why, sizeof why)) == HC_OK, "%s", why);
    turn(&s, 20);
    stage_check(&s);
    stage_close(&s);
}

/* A reset ends all fades: the first block is at the place of the last request. */
static void a_reset_begins_at_the_last_place(const char *backend)
{
    struct stage s;
    hc_live_config c = stage_config("cpu");
    stage_open(&s, &c);
    request_bank(&s, FIRST);
    engine_begins(&s, FIRST, BLOCK, RATE);
    turn(&s, 10);
    move_by(&s, 1, 123, 1);
    hc_live_reset(s.live);
    int from = s.pos;
    s.engines[0].ends_at_once = true;
    engine_begins(&s, FIRST, BLOCK, RATE);
    s.engines[1].begin = s.pos;
    s.engines[1].fade = 1;
    turn(&s, 10);
    stage_check_from(&s, from + BLOCK); /* the mixer fades nothing, but the model's engine begins within a block */
    stage_close(&s);
}

/* The tail of a long bank follows within 20 ms, in a new engine and in a standby engine too. */
static void a_long_bank_is_complete_within_20_ms(const char *backend)
{
    enum { SETTLE = RATE / 50, ROUND = 24 };
    struct stage s;
    hc_live_config c = stage_config("cuda");
    stage_open(&s, &c);
    play_bank_on_failing_device(&s, LONG, 100);
    drop_deadlines(&s);
    for (int i = 0; i < 8; i++) { /* the device is lost in the fifth round */
        move_by(&s, i % 2, 77.0 * i, 1);
        for (int k = 0; k < ROUND; k++) {
            play(&s, 1);
            await_standby(&s);
        }
    }
    stage_check_settled(&s, 0, ROUND * BLOCK, SETTLE);
    hc_live_stats stats = {.size = sizeof stats};
    hc_live_get_stats(s.live, &stats);
    check(stats.state == HC_LIVE_STANDBY, "the device was not lost");
    stage_close(&s);
}

/* ---- configurations ---------------------------------------------------------------------------- */

static char folder[64];

static const char *configuration(const char *text)
{
    static char path[128];
    snprintf(path, sizeof path, "%s/scene.conf", folder);
    FILE *file = fopen(path, "w");
    check(file && fputs(text, file) >= 0 && fclose(file) == 0, "%s cannot be written", path);
    return path;
}

static void a_configuration_plays_pairs_and_sources(const char *backend)
{
    struct stage s;
    char text[500];
    hc_live_config c = stage_config("cpu");
    stage_open(&s, &c);
    snprintf(text, sizeof text,
             "/convolver/new 3 2 64 4096\n/bank/read %s\n/bank/read %s\n/source/new 2 2 -60 0\n"
             "/source/new 1 1 90 0 3\n/impulse/dirac 3 1 0.5 0\n/impulse/dirac 1 2 0.25 0\n",
             FIRST, SECOND);
    request_bank(&s, configuration(text));
    s.places[0] = (struct steer_target){{0, 1, 0}, 1, NO_ENTRY, 0};
    s.places[1] = (struct steer_target){{0.5f, -0.8660254f, 0}, 1, NO_ENTRY, 0};
    engine_begins(&s, FIRST, BLOCK, RATE);
    s.n_targets = 0;
    s.engines[0].bank[1] = bank_of(&s, SECOND);
    for (int i = 0; i < N_SOURCES; i++) aim_in(&s, 0, i, INT_MIN);
    s.engines[0].pair[2][0] = 0.5f;
    s.engines[0].pair[0][1] = 0.25f;
    play(&s, 20);
    turn(&s, 10);
    unsigned char reaches[N_IN][N_OUT];
    hc_live_info info = {.size = sizeof info, .reaches = reaches[0]};
    hc_live_get_info(s.live, &info);
    check(info.n_sources == 2 && info.n_banks == 2 && info.n_entries == 19 && info.n_bank_out == 2 &&
              info.bank_gain_db == 2 && info.longest == 900,
          "%d sources, %d banks, %d entries, %d outputs, %g dB, %d frames", info.n_sources, info.n_banks,
          info.n_entries, info.n_bank_out, (double)info.bank_gain_db, info.longest);
    for (int i = 0; i < N_IN; i++)
        for (int o = 0; o < N_OUT; o++) check(reaches[i][o] == (i < 2 || o == 0), "input %d, output %d", i, o);
    const int n_entries[] = {12, 7, 0};
    for (int i = 0; i < 3; i++)
        check(hc_live_n_entries(s.live, i) == n_entries[i], "source %d: %d entries", i, hc_live_n_entries(s.live, i));
    stage_check(&s);
    stage_close(&s);
}

static char said[2000];

static void keep_text(void *data, int level, const char *text)
{
    if (level == HC_LIVE_ERROR) snprintf(said, sizeof said, "%s", text);
}

static void refuses(hc_live *live, const char *path, const char *word)
{
    hc_live_change change = {.size = sizeof change, .mask = path};
    int error = HC_OK;
    said[0] = '\0';
    check(hc_live_request(live, &change) == HC_OK, "%s", path);
    while (hc_live_has_work(live)) error = hc_live_work(live);
    check(error < 0 && strstr(said, word), "%s: %d, %s; want %s", path, error, said, word);
}

static void banks_that_do_not_fit_are_refused(const char *backend)
{
    hc_live *live;
    char why[400] = "";
    hc_live_config c = stage_config("cpu");
    c.say = keep_text;
    atomic_store(&loads, 0);
    check(hc_live_open(&c, &live, why, sizeof why) == HC_OK, "%s", why);
    refuses(live, "bank:1:2:3:4", "has 4 outputs, but this session has 2");
    refuses(live, "bank:x", "is no bank");
    refuses(live, configuration("/convolver/new 3 2 64 4096\n/impulse/dirac 1 1 1 0\n"), "has no sources");
    refuses(live,
            configuration("/convolver/new 3 2 64 4096\n/bank/read bank:1:12:900:2\n/source/new 1 1 0 0\n"
                          "/source/new 2 1 0 0\n/source/new 3 1 0 0\n"),
            "needs 3 sources, but this session has 2");
    const float nowhere[] = {NAN, 0, 0}, ahead[] = {1, 0, 0};
    check(hc_live_steer(live, 2, ahead, 0, 1) == HC_EINVAL && hc_live_steer(live, -1, ahead, 0, 1) == HC_EINVAL &&
              hc_live_steer(live, 0, nowhere, 0, 1) == HC_EINVAL &&
              hc_live_steer(live, 0, ahead, 0, INFINITY) == HC_EINVAL &&
              hc_live_steer(live, 0, NULL, INT_MIN, 1) == HC_EINVAL &&
              hc_live_steer(NULL, 0, ahead, 0, 1) == HC_EINVAL && hc_live_steer(live, 0, NULL, -1, 1) == HC_EINVAL &&
              hc_live_steer(live, 2, NULL, 0, 1) == HC_EINVAL,
          "a wrong place was taken");
    check(hc_live_keep(live, &(const char *){FIRST}, 1) == HC_EINVAL && hc_live_keep(live, NULL, 0) == HC_OK, "keep");
    hc_live_close(live);
    c.n_sources = 0;
    check(hc_live_open(&c, &live, why, sizeof why) == HC_OK, "%s", why);
    refuses(live, configuration("/convolver/new 3 2 64 4096\n/bank/read bank:1:12:900:2\n/source/new 1 1 0 0\n"),
            "sources play live only");
    hc_responses responses;
    check(hc_responses_load(configuration("/convolver/new 3 2 64 4096\n/bank/read bank:1:12:900:2\n"
                                          "/source/new 1 1 0 0\n/impulse/dirac 3 1 1 0\n"),
                            0, RATE, HC_WITH_SOURCES, &responses, why, sizeof why) == HC_OK,
          "%s", why);
    check(hc_live_play(live, "scene.conf", &responses, why, sizeof why) == HC_EINVAL && strstr(why, "n_sources"), "%s",
          why);
    hc_live_close(live);
    c.n_sources = 4;
    check(hc_live_open(&c, &live, why, sizeof why) == HC_EINVAL && strstr(why, "n_sources"), "%s", why);
    c.n_sources = 1;
    c.grid_deg = 0.1;
    check(hc_live_open(&c, &live, why, sizeof why) == HC_EINVAL && strstr(why, "grid_deg"), "%s", why);
    check(atomic_load(&loads) == 0, "%d banks were not freed", atomic_load(&loads));
}

/* ---- many threads ------------------------------------------------------------------------------ */

struct storm {
    hc_live *live;
    atomic_bool ends;
};

static void *mover(void *arg)
{
    struct storm *storm = arg;
    struct random r = random_seeded(70);
    while (!atomic_load(&storm->ends)) {
        float position[3] = {random_sample(&r), random_sample(&r), random_sample(&r)};
        int source = random_int(&r, 0, N_SOURCES - 1);
        if (random_int(&r, 0, 3))
            hc_live_steer(storm->live, source, position, 0, 1);
        else
            hc_live_steer(storm->live, source, NULL, random_int(&r, 0, 12), 0.5f);
        if (random_int(&r, 0, 9) == 0) pause_us(100);
    }
    return NULL;
}

static void *worker(void *arg)
{
    struct storm *storm = arg;
    struct random r = random_seeded(71);
    const char *const banks[] = {FIRST, SECOND, LONGER, MONO}, *const backends[] = {"cpu", "cuda"};
    while (!atomic_load(&storm->ends)) {
        hc_live_change change = {.size = sizeof change, .mask = banks[random_int(&r, 0, 3)]};
        if (random_int(&r, 0, 5) == 0) change.block = BLOCK << random_int(&r, 0, 2);
        if (random_int(&r, 0, 5) == 0) change.backend = backends[random_int(&r, 0, 1)];
        hc_live_request(storm->live, &change);
        hc_live_work(storm->live);
        pause_us(random_int(&r, 0, 3000));
    }
    return NULL;
}

/* Leaves a new engine in the midst of its fade: the next engine cannot begin then. */
static void begin_fade(struct stage *s)
{
    int block = format_block(atomic_load(&s->live->stream.format)) == BLOCK ? 2 * BLOCK : BLOCK;
    request(s, &(hc_live_change){.size = sizeof(hc_live_change), .block = block});
    for (int i = 0; !s->live->is_fading; i++) {
        const float *in[N_IN] = {s->in[0], s->in[1], s->in[2]};
        check(i < MAX_SETTLING, "after %d blocks the new engine does not play yet", i);
        hc_live_process(s->live, in, s->out, BLOCK);
        work(s);
    }
}

/* Plays until the newest engine plays alone, and the worker has nothing to do any more. An engine or banks that are
 * outdated make room only when the worker has taken them, so the worker has its turn after each block. */
static void settle(struct stage *s)
{
    hc_live_stats stats = {.size = sizeof stats, .changing = 1};
    for (int i = 0; stats.changing || hc_live_has_work(s->live); i++) {
        check(i < MAX_SETTLING, "after %d blocks the last change is still under way", i);
        play(s, 1);
        work(s);
        hc_live_get_stats(s->live, &stats);
    }
}

/* In the end the sound is that of the last places. A storm lasts HC_SOAK_SECONDS, else 1 s; with a sanitizer 3 s. */
static void a_storm_of_moves_and_changes_leaves_the_last(const char *backend)
{
    struct stage s;
    struct storm storm = {0};
    pthread_t threads[3];
    hc_live_config c = stage_config("cpu");
    const char *asked = getenv("HC_SOAK_SECONDS");
    double end = now_s() + (asked ? atof(asked) : SANITIZED ? 3 : 1);
    c.standby_share = 0.9;
    stage_open(&s, &c);
    request_bank(&s, FIRST);
    storm.live = s.live;
    for (int i = 0; i < 3; i++)
        check(pthread_create(&threads[i], NULL, i < 2 ? mover : worker, &storm) == 0, "no thread");
    while (now_s() < end) {
        const float *in[N_IN] = {s.in[0], s.in[1], s.in[2]};
        hc_live_process(s.live, in, s.out, BLOCK);
        pause_us(300);
    }
    atomic_store(&storm.ends, true);
    for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
    begin_fade(&s);
    request(&s, &(hc_live_change){.size = sizeof(hc_live_change), .mask = SECOND, .backend = "cpu", .block = BLOCK});
    engine_begins(&s, SECOND, BLOCK, RATE);
    s.traps = false;
    for (int i = 0; i < N_SOURCES; i++) move_by(&s, i, 50.0 + 100 * i, 1);
    settle(&s);
    play(&s, 12); /* the taps of the bank, which would reach back to the storm, and the fade of a move */
    int from = s.pos;
    play(&s, 20);
    stage_check_from(&s, from);
    stage_close(&s);
}

int main(void)
{
    static const struct test tests[] = {
        TEST(a_move_is_heard_with_the_next_block, false),
        TEST(a_place_may_be_given_before_there_is_a_bank, false),
        TEST(another_bank_is_a_fade_of_every_source, false),
        TEST(sources_move_on_through_every_change, false),
        TEST(the_standby_engine_goes_on_in_the_right_directions, false),
        TEST(a_takeover_during_a_load_keeps_the_banks, false),
        TEST(a_reset_begins_at_the_last_place, false),
        TEST(a_long_bank_is_complete_within_20_ms, false),
        TEST(a_configuration_plays_pairs_and_sources, false),
        TEST(banks_that_do_not_fit_are_refused, false),
        TEST(a_storm_of_moves_and_changes_leaves_the_last, false),
    };
    const char *dir = getenv("TMPDIR"), *const banks[] = {FIRST, SECOND};
    char command[128], path[200];
    snprintf(folder, sizeof folder, "%.40s/hc_sources_XXXXXX", dir ? dir : "/tmp");
    if (!mkdtemp(folder)) return 1;
    for (int i = 0; i < 2; i++) { /* a configuration looks whether its banks are there */
        snprintf(path, sizeof path, "%s/%s", folder, banks[i]);
        FILE *file = fopen(path, "w");
        if (!file || fclose(file) != 0) return 1;
    }
    int status = check_main("live_steer", tests, sizeof tests / sizeof *tests);
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command) == 0 ? status : 1;
}
