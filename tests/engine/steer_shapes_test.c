/* Compares steered sources with the time-varying sum in float64 for shapes that a device cuts in its own way: odd
 * blocks, calls of any length, many sources on one entry, many outputs, banks of several sizes. Every source gets a new
 * request before every call. */
#include "check.h"
#include "dsp/scene/device_bank.h"
#include "haloconv_scenes.h"
#include "reference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BANKS = 2, CHECKED = 60, MAX_CALLS = 4096 };
static const double bound = 1e-6; /* of the peak: -120 dB */

struct shape {
    int block, rate, n_sources, n_out, n_frames;
    int n_entries[BANKS], n_taps[BANKS], bank_out[BANKS];
    int most_call;  /* frames of a call, from 1; 0: a block each                                      */
    bool one_entry; /* all sources play the same one                                                  */
};

struct request {
    int bank; /* -1: silence */
    int n, entry[2];
    float weight[2];
};

struct play {
    const struct shape *shape;
    hc_engine *engine;
    hc_info info;
    hc_bank *banks[BANKS];
    float *taps[BANKS];       /* [entry][out][tap]                                                              */
    float *in, *out;          /* [source][n_frames], [out][n_frames]                                            */
    struct request *requests; /* [n_calls][n_sources]                                                           */
    int64_t starts[MAX_CALLS];
    int n_calls;
};

static void bank_make(struct play *p, int b, struct random *r)
{
    const struct shape *s = p->shape;
    const int n_rows = s->n_entries[b] * s->bank_out[b];
    char why[256] = "";
    p->taps[b] = noise(r, n_rows * s->n_taps[b]);
    const float **rows = must_alloc((size_t)n_rows, sizeof *rows);
    for (int i = 0; i < n_rows; i++) rows[i] = p->taps[b] + (size_t)i * (size_t)s->n_taps[b];
    hc_bank_data data = {.size = sizeof data,
                         .n_entries = s->n_entries[b],
                         .n_out = s->bank_out[b],
                         .n_taps = s->n_taps[b],
                         .taps = rows};
    check(hc_bank_make(p->engine, &data, &p->banks[b], why, sizeof why) == HC_OK, "%s", why);
    check(p->banks[b]->bytes > 0, "bank %d has no memory", b);
    free(rows);
}

static void play_open(struct play *p, const struct shape *s, const char *backend, struct random *r)
{
    char why[256] = "";
    hc_config c;
    memset(p, 0, sizeof *p);
    p->shape = s;
    hc_config_init(&c);
    c.backend = backend;
    c.rate = s->rate;
    c.block = s->block;
    c.n_in = c.n_sources = s->n_sources;
    c.n_out = s->n_out;
    c.max_taps = 1;
    c.wait_us = HC_WAIT_FOREVER;
    for (int b = 0; b < BANKS; b++) c.bank_taps = s->n_taps[b] > c.bank_taps || !b ? s->n_taps[b] : c.bank_taps;
    const int code = hc_open(&c, &p->engine, why, sizeof why);
    if (code == HC_EUNSUPPORTED) check_skip(why);
    check(code == HC_OK, "%s", why);
    p->info.size = sizeof p->info;
    hc_get_info(p->engine, &p->info);
    for (int b = 0; b < BANKS; b++)
        if (s->n_entries[b]) bank_make(p, b, r);
    p->in = noise(r, s->n_sources * s->n_frames);
    p->out = must_alloc((size_t)s->n_out * (size_t)s->n_frames, sizeof *p->out);
    p->requests = must_alloc((size_t)MAX_CALLS * (size_t)s->n_sources, sizeof *p->requests);
}

static void play_close(struct play *p)
{
    for (int b = 0; b < BANKS; b++) hc_bank_free(p->banks[b]);
    hc_close(p->engine);
    for (int b = 0; b < BANKS; b++) free(p->taps[b]);
    free(p->in);
    free(p->out);
    free(p->requests);
}

static struct request request_draw(const struct play *p, struct random *r)
{
    struct request request = {.bank = random_int(r, 0, 9) ? random_int(r, 0, p->banks[1] ? 1 : 0) : -1};
    if (p->shape->one_entry) request.bank = 0;
    if (request.bank < 0) return request;
    request.n = p->shape->one_entry ? 1 : random_int(r, 1, 2);
    for (int i = 0; i < request.n; i++) {
        request.entry[i] = p->shape->one_entry ? 0 : random_int(r, 0, p->shape->n_entries[request.bank] - 1);
        request.weight[i] = random_sample(r);
    }
    return request;
}

static void play_all(struct play *p, struct random *r)
{
    const struct shape *s = p->shape;
    const float **in = must_alloc((size_t)s->n_sources, sizeof *in);
    float **out = must_alloc((size_t)s->n_out, sizeof *out);
    for (int64_t at = 0; at < s->n_frames; p->n_calls++) {
        int n = s->most_call ? random_int(r, 1, s->most_call) : s->block;
        if (n > s->n_frames - at) n = (int)(s->n_frames - at);
        check(p->n_calls < MAX_CALLS, "%d calls", p->n_calls);
        p->starts[p->n_calls] = at;
        for (int i = 0; i < s->n_sources; i++) {
            struct request *request = &p->requests[(size_t)p->n_calls * (size_t)s->n_sources + (size_t)i];
            *request = request_draw(p, r);
            check(hc_steer(p->engine, i, request->bank < 0 ? NULL : p->banks[request->bank], request->entry,
                           request->weight, request->n) == HC_OK,
                  "source %d, call %d", i, p->n_calls);
            in[i] = p->in + (size_t)i * (size_t)s->n_frames + at;
        }
        for (int o = 0; o < s->n_out; o++) out[o] = p->out + (size_t)o * (size_t)s->n_frames + at;
        check(hc_process(p->engine, in, out, n) == HC_OK, "frame %lld", (long long)at);
        at += n;
    }
    free(in);
    free(out);
}

/* The part of a source's output at a frame that a level's taps give, if they were those of a request. */
static double level_sum(const struct play *p, const hc_steer_level *level, int source, const struct request *request,
                        int out, int64_t frame)
{
    const struct shape *s = p->shape;
    double sum = 0;
    if (request->bank < 0 || out >= s->bank_out[request->bank]) return 0;
    const int n_taps = s->n_taps[request->bank], end = level->offset + level->n_taps;
    const float *x = p->in + (size_t)source * (size_t)s->n_frames;
    for (int i = 0; i < request->n; i++) {
        const float *h =
            p->taps[request->bank] +
            ((size_t)request->entry[i] * (size_t)s->bank_out[request->bank] + (size_t)out) * (size_t)n_taps;
        if (level->offset < n_taps)
            sum += (double)request->weight[i] * reference_sum(h + level->offset,
                                                              (end < n_taps ? end : n_taps) - level->offset, x,
                                                              s->n_frames, frame - level->offset);
    }
    return sum;
}

/* The last request for a source that was made at this frame or before. */
static const struct request *request_at(const struct play *p, int source, int64_t edge)
{
    int call = p->n_calls - 1;
    while (call > 0 && p->starts[call] > edge) call--;
    return &p->requests[(size_t)call * (size_t)p->shape->n_sources + (size_t)source];
}

static double want_at(const struct play *p, int out, int64_t frame)
{
    double sum = 0;
    for (int l = 0; l < p->info.n_steer_levels; l++) {
        const hc_steer_level *level = &p->info.steer_levels[l];
        if (frame < level->delay) continue; /* its taps reach no input yet */
        const int64_t j = (frame - level->delay) / level->hop;
        const int i = (int)(frame - level->delay - j * level->hop);
        double g = i + 1 < level->fade && j > 0 ? (i + 1.0) / level->fade : 1;
        for (int source = 0; source < p->shape->n_sources; source++) {
            sum += g * level_sum(p, level, source, request_at(p, source, j * level->hop), out, frame);
            if (g < 1)
                sum += (1 - g) * level_sum(p, level, source, request_at(p, source, (j - 1) * level->hop), out, frame);
        }
    }
    return sum;
}

static void matches(const struct shape *s, const char *backend, uint64_t seed)
{
    struct random r = random_seeded(seed);
    struct play p;
    double peak = 0;
    play_open(&p, s, backend, &r);
    play_all(&p, &r);
    for (int64_t i = 0; i < (int64_t)s->n_out * s->n_frames; i++) peak = fmax(peak, fabs((double)p.out[i]));
    check(peak > 0.1, "the loudest frame is %g", peak);
    for (int k = 0; k < CHECKED; k++) {
        const int out = k < s->n_out ? s->n_out - 1 - k : random_int(&r, 0, s->n_out - 1);
        const int64_t frame = k == 0 ? s->n_frames - 1 : k == 1 ? 0 : random_int(&r, 0, s->n_frames - 1);
        const double want = want_at(&p, out, frame), got = p.out[(size_t)out * (size_t)s->n_frames + (size_t)frame];
        check(fabs(got - want) <= bound * peak,
              "block %d, %d sources, %d outputs, seed %llu: output %d, frame %lld: "
              "got %.9g, want %.9g, peak %.3g",
              s->block, s->n_sources, s->n_out, (unsigned long long)seed, out, (long long)frame, got, want, peak);
    }
    play_close(&p);
}

static void every_block_matches(const char *backend)
{
    const int blocks[] = {16, 33, 64, 100, 256, 1000};
    for (int i = 0; i < 6; i++) {
        struct shape s = {.block = blocks[i], .rate = 48000, .n_sources = 3, .n_out = 2, .n_frames = 6000};
        s.n_entries[0] = 5, s.n_taps[0] = 2500, s.bank_out[0] = 2;
        matches(&s, backend, 10 + (uint64_t)i);
    }
}

static void calls_of_any_length_match(const char *backend)
{
    struct shape s = {.block = 64, .rate = 48000, .n_sources = 4, .n_out = 2, .n_frames = 6000, .most_call = 64};
    s.n_entries[0] = 5, s.n_taps[0] = 3000, s.bank_out[0] = 2;
    matches(&s, backend, 20);
}

static void many_sources_of_one_entry_match(const char *backend)
{
    struct shape s = {.block = 64, .rate = 16000, .n_sources = 75, .n_out = 2, .n_frames = 3000, .one_entry = true};
    s.n_entries[0] = 1, s.n_taps[0] = 1500, s.bank_out[0] = 2;
    matches(&s, backend, 30);
}

static void many_sources_and_entries_match(const char *backend)
{
    struct shape s = {.block = 32, .rate = 16000, .n_sources = 150, .n_out = 2, .n_frames = 2000};
    s.n_entries[0] = 40, s.n_taps[0] = 1500, s.bank_out[0] = 2;
    s.n_entries[1] = 300, s.n_taps[1] = 700, s.bank_out[1] = 2;
    matches(&s, backend, 40);
}

static void many_outputs_match(const char *backend)
{
    struct shape s = {.block = 64, .rate = 48000, .n_sources = 5, .n_out = 19, .n_frames = 4000};
    s.n_entries[0] = 6, s.n_taps[0] = 2500, s.bank_out[0] = 19;
    s.n_entries[1] = 3, s.n_taps[1] = 40, s.bank_out[1] = 11;
    matches(&s, backend, 50);
}

int main(void)
{
    const struct test tests[] = {
        TEST(every_block_matches, ONCE_A_DEVICE),
        TEST(calls_of_any_length_match, ONCE_A_DEVICE),
        TEST(many_sources_of_one_entry_match, ONCE_A_DEVICE),
        TEST(many_sources_and_entries_match, ONCE_A_DEVICE),
        TEST(many_outputs_match, ONCE_A_DEVICE),
    };
    return check_main("steer_shapes_test", tests, sizeof tests / sizeof *tests);
}
