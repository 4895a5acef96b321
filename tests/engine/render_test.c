/* hc_render: whole signals through a bank, beside a float64 sum; the same bits for any jobs and threads. */
#include "haloconv_scenes.h"

#include "check.h"
#include "reference.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_OUT = 4 };
static const double peak_share = 1e-6;

struct scene_of_test {
    int n_entries, n_out, n_taps, step, n_sources, n_steps;
    int64_t n_in, n_frames;
    const float **taps;
    float **in;
    hc_step *steps;
    float *out[MAX_OUT];
};

static struct scene_of_test scene_make(uint64_t seed, int n_entries, int n_out, int n_taps, int step, int n_sources,
                                       int64_t n_in, int64_t n_frames, int n_steps)
{
    struct random r = random_seeded(seed);
    struct scene_of_test s = {n_entries,
                              n_out,
                              n_taps,
                              step,
                              n_sources,
                              n_steps,
                              n_in,
                              n_frames,
                              must_alloc((size_t)(n_entries * n_out), sizeof(float *)),
                              must_alloc((size_t)n_sources, sizeof(float *)),
                              must_alloc((size_t)n_steps + 1, sizeof(hc_step)),
                              {0}};
    for (int i = 0; i < n_entries * n_out; i++) s.taps[i] = noise(&r, n_taps);
    for (int i = 0; i < n_sources; i++) s.in[i] = noise(&r, (int)n_in);
    for (int o = 0; o < n_out; o++) s.out[o] = must_alloc((size_t)n_frames + 1, sizeof(float));
    int64_t frame = -step;
    for (int i = 0; i < n_steps; i++) {
        hc_step *t = &s.steps[i];
        frame += random_int(&r, 0, 3) == 0 ? 0 : random_int(&r, 0, 2 * (int)(n_frames / (n_steps + 1)));
        *t = (hc_step){.frame = frame, .source = random_int(&r, 0, n_sources - 1), .n = random_int(&r, 0, HC_MAX_MIX)};
        if (i < n_sources) *t = (hc_step){.frame = -step, .source = i, .n = 1}, frame = -step;
        for (int k = 0; k < t->n; k++) {
            t->entry[k] = random_int(&r, 0, n_entries - 1);
            t->weight[k] = random_sample(&r);
        }
    }
    return s;
}

static void scene_free(struct scene_of_test *s)
{
    for (int i = 0; i < s->n_entries * s->n_out; i++) free((void *)s->taps[i]);
    for (int i = 0; i < s->n_sources; i++) free(s->in[i]);
    for (int o = 0; o < s->n_out; o++) free(s->out[o]);
    free(s->taps);
    free(s->in);
    free(s->steps);
}

static hc_renderer *renderer_open(const struct scene_of_test *s, const char *backend, int n_threads)
{
    hc_bank_data data = {
        .size = sizeof data, .n_entries = s->n_entries, .n_out = s->n_out, .n_taps = s->n_taps, .taps = s->taps};
    hc_render_config config = {.size = sizeof config, .backend = backend, .step = s->step, .n_threads = n_threads};
    hc_renderer *renderer;
    char why[200] = "";
    int error = hc_renderer_open(&config, &data, &renderer, why, sizeof why);
    if (error == HC_EUNSUPPORTED) check_skip(why);
    check(!error, "%s", why);
    return renderer;
}

static void render(hc_renderer *renderer, const hc_render_job *jobs, int n)
{
    char why[200] = "";
    int error = hc_render(renderer, jobs, sizeof *jobs, n, why, sizeof why);
    check(!error, "%s", why);
}

static hc_render_job whole_job(const struct scene_of_test *s)
{
    return (hc_render_job){.n_sources = s->n_sources,
                           .in = (const float *const *)s->in,
                           .n_in_frames = s->n_in,
                           .steps = s->steps,
                           .step_size = sizeof *s->steps,
                           .n_steps = s->n_steps,
                           .out = (float *const *)s->out,
                           .n_out_frames = s->n_frames};
}

/* The last step of a source at or before an edge; NULL: none. */
static const hc_step *step_at(const struct scene_of_test *s, int source, int64_t edge)
{
    const hc_step *last = NULL;
    for (int i = 0; i < s->n_steps && s->steps[i].frame <= edge; i++)
        if (s->steps[i].source == source) last = &s->steps[i];
    return last;
}

static double mix_at(const struct scene_of_test *s, const hc_step *step, int source, int out, int64_t frame)
{
    double sum = 0;
    for (int k = 0; step && k < step->n; k++)
        sum += (double)step->weight[k] *
               reference_sum(s->taps[step->entry[k] * s->n_out + out], s->n_taps, s->in[source], s->n_in, frame);
    return sum;
}

static double expected(const struct scene_of_test *s, int out, int64_t frame)
{
    int64_t edge = frame / s->step * s->step;
    double g = (double)(frame - edge + 1) / s->step, sum = 0;
    for (int i = 0; i < s->n_sources; i++) {
        const hc_step *to = step_at(s, i, edge), *from = edge > 0 ? step_at(s, i, edge - s->step) : to;
        double new = mix_at(s, to, i, out, frame);
        sum += from == to ? new : (1 - g) * mix_at(s, from, i, out, frame) + g *new;
    }
    return sum;
}

static void check_frames(const struct scene_of_test *s, int every)
{
    double peak = 0;
    for (int o = 0; o < s->n_out; o++)
        for (int64_t f = 0; f < s->n_frames; f++) peak = fmax(peak, fabs((double)s->out[o][f]));
    check(peak > 0, "silence");
    for (int o = 0; o < s->n_out; o++)
        for (int64_t f = o; f < s->n_frames; f += every) {
            double want = expected(s, o, f), err = fabs(s->out[o][f] - want);
            check(err <= peak_share * peak, "output %d, frame %lld: got %.9g, want %.9g, peak %.3g (step %d, %d taps)",
                  o, (long long)f, (double)s->out[o][f], want, peak, s->step, s->n_taps);
        }
}

static void moving_sources_match_a_float64_sum(const char *backend)
{
    static const struct {
        int n_entries, n_out, n_taps, step, n_sources, n_in, n_frames, n_steps, every;
    } cases[] = {{5, 2, 1, 16, 1, 400, 500, 40, 1},
                 {7, 2, 256, 256, 2, 5000, 6000, 60, 7},
                 {7, 1, 257, 256, 3, 4000, 9000, 200, 7},
                 {3, 3, 1000, 37, 2, 3000, 3500, 300, 3},
                 {3, 2, 700, 43, 2, 3000, 3500, 300, 3},
                 {9, 2, 3000, 256, 1, 90000, 91000, 300, 211},
                 {2, 4, 50, 64, 5, 2000, 1900, 4, 3},
                 {4, 2, 700, 65536, 1, 1000, 140000, 6, 901},
                 {6, 2, 100, 16, 2, 40, 1000, 30, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct scene_of_test s = scene_make(31 + i, cases[i].n_entries, cases[i].n_out, cases[i].n_taps, cases[i].step,
                                            cases[i].n_sources, cases[i].n_in, cases[i].n_frames, cases[i].n_steps);
        hc_renderer *renderer = renderer_open(&s, backend, 3);
        hc_render_job job = whole_job(&s);
        render(renderer, &job, 1);
        check_frames(&s, cases[i].every);
        hc_renderer_close(renderer);
        scene_free(&s);
    }
}

/* Jobs that cut a stream, each with the input that it needs, one after the other or all at once, on any threads. */
static void cuts_and_threads_change_no_bit(const char *backend)
{
    struct scene_of_test s = scene_make(47, 6, 2, 2000, 64, 3, 40000, 50000, 500);
    hc_renderer *renderer = renderer_open(&s, backend, 1);
    hc_render_job job = whole_job(&s);
    render(renderer, &job, 1);
    hc_renderer_close(renderer);
    struct random r = random_seeded(48);
    for (int round = 0; round < 3; round++) {
        enum { MAX_JOBS = 400 };
        hc_render_job *jobs = must_alloc(MAX_JOBS, sizeof *jobs);
        const float **in = must_alloc(MAX_JOBS * 3, sizeof *in);
        float **out = must_alloc(MAX_JOBS * 2, sizeof *out);
        float *got[2] = {must_alloc((size_t)s.n_frames, sizeof(float)), must_alloc((size_t)s.n_frames, sizeof(float))};
        int n = 0;
        for (int64_t from = 0; from < s.n_frames; n++) {
            int64_t need = s.n_taps + 2 * s.step, begin = from > need ? from - need : 0;
            int64_t end = from + 64 * random_int(&r, 1, round == 2 ? 5 : 200);
            if (end > s.n_frames) end = s.n_frames;
            if (begin > s.n_in) begin = s.n_in;
            int64_t in_end = end < s.n_in ? end : s.n_in;
            for (int i = 0; i < 3; i++) in[3 * n + i] = s.in[i] + begin;
            for (int o = 0; o < 2; o++) out[2 * n + o] = got[o] + from;
            jobs[n] = job;
            jobs[n].in = in + 3 * (ptrdiff_t)n;
            jobs[n].in_from = begin;
            jobs[n].n_in_frames = in_end - begin;
            jobs[n].out = out + 2 * (ptrdiff_t)n;
            jobs[n].from = from;
            jobs[n].n_out_frames = end - from;
            from = end;
        }
        renderer = renderer_open(&s, backend, round + 1);
        if (round == 0)
            for (int i = n - 1; i >= 0; i--) render(renderer, &jobs[i], 1);
        else
            render(renderer, jobs, n);
        hc_renderer_close(renderer);
        for (int o = 0; o < 2; o++)
            for (int64_t f = 0; f < s.n_frames; f++)
                check(memcmp(&got[o][f], &s.out[o][f], 4) == 0, "round %d, output %d, frame %lld: %.9g and %.9g", round,
                      o, (long long)f, (double)got[o][f], (double)s.out[o][f]);
        for (int o = 0; o < 2; o++) free(got[o]);
        free(jobs);
        free(in);
        free(out);
    }
    scene_free(&s);
}

/* An engine measures transforms of the same size in between. */
static void an_engine_in_the_process_changes_no_bit(const char *backend)
{
    enum { STEP = 441 };
    struct scene_of_test s = scene_make(51, 3, 1, 500, STEP, 1, 5000, 5000, 20);
    float *first = must_alloc((size_t)s.n_frames, sizeof *first);
    hc_render_job job = whole_job(&s);
    for (int i = 0; i < 2; i++) {
        hc_renderer *renderer = renderer_open(&s, backend, 1);
        render(renderer, &job, 1);
        hc_renderer_close(renderer);
        if (i == 0) memcpy(first, s.out[0], (size_t)s.n_frames * sizeof *first);
        hc_config c;
        hc_engine *engine;
        char why[200] = "";
        hc_config_init(&c);
        c.backend = "cpu";
        c.n_in = c.n_out = c.n_sources = 1;
        c.block = STEP;
        c.max_taps = c.bank_taps = 500;
        check(hc_open(&c, &engine, why, sizeof why) == HC_OK, "%s", why);
        hc_close(engine);
    }
    check(memcmp(first, s.out[0], (size_t)s.n_frames * sizeof *first) == 0, "other bits");
    free(first);
    scene_free(&s);
}

/* More windows than a chunk has: the spectra of one chunk continue in the next. */
static void long_signals_match(const char *backend)
{
    struct scene_of_test s =
        scene_make(53, 3, 1, 300, 16, 2, 9000000 / (SANITIZED ? 9 : 1), 9000100 / (SANITIZED ? 9 : 1), 50);
    hc_renderer *renderer = renderer_open(&s, backend, 2);
    hc_render_job job = whole_job(&s);
    render(renderer, &job, 1);
    check_frames(&s, 2003);
    hc_renderer_close(renderer);
    scene_free(&s);
}

/* All fades lie in one group of windows, the first of the second chunk. */
static void a_chunk_may_begin_with_the_densest_group(const char *backend)
{
    enum { SOURCES = 64, STEP = 16, FIRST = 5461, WINDOWS = 128, N_STEPS = (WINDOWS + 1) * SOURCES };
    const int64_t n_frames = (FIRST + 2 * WINDOWS) * STEP;
    struct scene_of_test s = scene_make(57, 8, 1, 10, STEP, SOURCES, n_frames, n_frames, N_STEPS);
    for (int i = 0; i < N_STEPS; i++) {
        int window = i / SOURCES;
        hc_step *step = &s.steps[i];
        *step = (hc_step){.frame = (FIRST + window) * STEP, .source = i % SOURCES, .n = window < WINDOWS ? 4 : 0};
        for (int k = 0; k < step->n; k++) {
            step->entry[k] = 4 * (window % 2) + k;
            step->weight[k] = 0.25f * (float)(k + 1);
        }
    }
    hc_renderer *renderer = renderer_open(&s, backend, 1);
    hc_render_job job = whole_job(&s);
    render(renderer, &job, 1);
    check_frames(&s, 997);
    hc_renderer_close(renderer);
    scene_free(&s);
}

static void nan_and_infinity_count_as_silence(const char *backend)
{
    struct scene_of_test s = scene_make(59, 2, 2, 90, 32, 1, 1000, 1100, 9);
    s.in[0][300] = NAN;
    s.in[0][301] = -INFINITY;
    hc_renderer *renderer = renderer_open(&s, backend, 2);
    hc_render_job job = whole_job(&s);
    render(renderer, &job, 1);
    s.in[0][300] = s.in[0][301] = 0;
    check_frames(&s, 1);
    hc_renderer_close(renderer);
    scene_free(&s);
}

static void wrong_jobs_are_refused(const char *backend)
{
    struct scene_of_test s = scene_make(61, 2, 1, 10, 32, 1, 100, 100, 2);
    hc_renderer *renderer = renderer_open(&s, backend, 1);
    hc_render_job job = whole_job(&s), bad = job;
    hc_step steps[2] = {{.frame = 40, .n = 1, .weight = {1}}, {.frame = 50, .n = 1, .weight = {1}}};
    char why[200];
    bad.steps = steps;
    check(hc_render(renderer, &bad, sizeof bad, 1, why, sizeof why) == HC_OK, "%s", why);
#define REFUSED(change, text)                                                                                          \
    do {                                                                                                               \
        hc_step kept[2] = {steps[0], steps[1]};                                                                        \
        hc_render_job kept_job = bad;                                                                                  \
        change;                                                                                                        \
        check(hc_render(renderer, &bad, sizeof bad, 1, why, sizeof why) == HC_EINVAL && strstr(why, text), "%s", why); \
        memcpy(steps, kept, sizeof kept);                                                                              \
        bad = kept_job;                                                                                                \
    } while (0)
    REFUSED(steps[1].frame = 39, "sort the steps");
    REFUSED(bad.step_size = 0, "step_size");
    REFUSED(steps[1].source = 1, "source 1");
    REFUSED(steps[1].n = 5, "n 5");
    REFUSED(steps[1].entry[0] = 2, "entry 2");
    REFUSED(steps[1].weight[0] = NAN, "weight");
    REFUSED(bad.from = 31, "multiple of step");
    REFUSED(bad.out = NULL, "NULL");
    REFUSED(bad.n_out_frames = -1, "negative");
    REFUSED(bad.in_from = INT64_MAX, "2^61");
    REFUSED(bad.from = INT64_MAX / 32 * 32, "2^61");
#undef REFUSED
    check(hc_render(renderer, &bad, sizeof bad - 8, 1, why, sizeof why) == HC_EINVAL && strstr(why, "job_size"), "%s",
          why);
    check(hc_render(renderer, NULL, 0, 0, NULL, 0) == HC_OK, "no jobs");
    hc_renderer_close(renderer);
    hc_renderer_close(NULL);
    hc_bank_data data = {.size = sizeof data, .n_entries = 2, .n_out = 1, .n_taps = 10, .taps = s.taps};
    hc_render_config config = {.size = sizeof config, .backend = backend, .step = 15};
    check(hc_renderer_open(&config, &data, &renderer, why, sizeof why) == HC_EINVAL && !renderer, "%s", why);
    config.step = 16;
    ((float *)s.taps[1])[3] = NAN;
    check(hc_renderer_open(&config, &data, &renderer, why, sizeof why) == HC_EINVAL && strstr(why, "tap 3"), "%s", why);
    config.backend = "gpu";
    check(hc_renderer_open(&config, &data, &renderer, why, sizeof why) == HC_EINVAL, "%s", why);
    scene_free(&s);
}

/* The struct of an older program may lack the last field; that of a later program may have another one. */
static void configs_of_other_versions_are_read(const char *backend)
{
    struct {
        hc_render_config config;
        size_t later;
    } newer = {.config = {.size = sizeof newer, .backend = backend}};
    char why[400] = "";
    float taps[1] = {1}, *rows[1] = {taps};
    hc_bank_data data = {.size = sizeof data, .n_entries = 1, .n_out = 1, .n_taps = 1, .taps = (void *)rows};
    hc_renderer *renderer;
    hc_render_config older = {.size = offsetof(hc_render_config, device), .backend = backend};
    older.device = (char *)taps; /* whatever lies behind the program's struct */
    check(hc_renderer_open(&older, &data, &renderer, why, sizeof why) == HC_OK, "%s", why);
    hc_renderer_close(renderer);
    check(taps[0] == 1, "the field behind an older struct was read");
    check(hc_renderer_open(&newer.config, &data, &renderer, why, sizeof why) == HC_OK, "%s", why);
    hc_renderer_close(renderer);
    newer.later = 1;
    check(hc_renderer_open(&newer.config, &data, &renderer, why, sizeof why) == HC_EINVAL && !renderer &&
              strstr(why, "newer library"),
          "%s", why);
    newer.config.size = 0;
    check(hc_renderer_open(&newer.config, &data, &renderer, why, sizeof why) == HC_EINVAL &&
              strstr(why, "sizeof(hc_render_config)"),
          "%s", why);
}

int main(void)
{
    static const struct test tests[] = {TEST(moving_sources_match_a_float64_sum, ONCE_A_DEVICE),
                                        TEST(cuts_and_threads_change_no_bit, ONCE_A_DEVICE),
                                        TEST(an_engine_in_the_process_changes_no_bit, ONCE_A_DEVICE),
                                        TEST(long_signals_match, ONCE_A_DEVICE),
                                        TEST(a_chunk_may_begin_with_the_densest_group, ONCE_A_DEVICE),
                                        TEST(nan_and_infinity_count_as_silence, ONCE_A_DEVICE),
                                        TEST(wrong_jobs_are_refused, ONCE_A_DEVICE),
                                        TEST(configs_of_other_versions_are_read, ONCE_A_DEVICE)};
    return check_main("render_test", tests, sizeof tests / sizeof *tests);
}
