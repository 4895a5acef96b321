/* The tail levels without an engine. Every hop costs the same, counted by the steps that are done and not by a clock
 * (the head does the same work in every block by construction). The pool of threads computes the same frames as slices
 * do, whatever masks come and go. */
#include "check.h"
#include "dsp/cpu/mask_partitions.h"
#include "dsp/cpu/tail_levels.h"
#include "dsp/device/backend.h"
#include "dsp/device/plan.h"
#include "dsp/engine/masks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Nanoseconds, as counted. A hop may do a quarter more than its slice, and in addition one step: of a transform at most
 * the columns of 32768 frames, of the products one output's with all inputs. */
static const double more = 1.25, step = 1500, product = 60;

struct stage {
    struct plan plan;
    hc_config config;
    struct tail *tail;
    struct matrix matrix;
    struct routing routing;
    float **x; /* [n_in][hop] */
};

static void stage_open(struct stage *s, int n_in, int n_out, bool diagonal, int taps, int block, int n_threads)
{
    struct plan_shape shape = {taps, block, n_in, n_out, diagonal ? n_in : n_in * n_out};
    memset(s, 0, sizeof *s);
    plan_choose(&s->plan, backend_cpu.costs, &shape, "auto");
    hc_config_init(&s->config);
    s->config.n_in = n_in;
    s->config.n_out = n_out;
    s->config.max_taps = taps;
    float *envelope = must_alloc((size_t)taps, sizeof *envelope);
    for (int k = 0; k < taps; k++) envelope[k] = 0.01f;
    struct noise noise = {1, diagonal, taps, envelope};
    check(matrix_of_noise(&s->matrix, &s->config, &noise, true, NULL) == HC_OK, "no matrix");
    free(envelope);
    check(routing_make(&s->routing, &s->matrix, n_out), "no memory");
    s->x = outputs_open(n_in, s->plan.hop);
    check(s->x, "no memory");
    if (s->plan.n_tail_levels > 0) s->tail = tail_open(&s->plan, n_in, n_out, shape.n_routes, n_threads);
    check(s->tail || s->plan.n_tail_levels == 0, "no memory");
}

static struct tail_mask *stage_mask(struct stage *s)
{
    struct tail_mask *mask = tail_mask_make(s->tail, &s->plan, &s->matrix, &s->routing);
    check(mask, "no memory");
    return mask;
}

static void stage_close(struct stage *s)
{
    tail_close(s->tail);
    matrix_free(&s->matrix);
    routing_free(&s->routing);
    outputs_close(s->x);
}

static void play_hop(struct stage *s)
{
    tail_begin(s->tail);
    tail_push(s->tail, (const float *const *)s->x, 0, s->plan.hop);
    tail_advance(s->tail, s->plan.hop);
}

/* Plays, and checks that no hop does more than its slice, and at most as much again for a mask that catches up, or 2%
 * of the time if that is more. */
static void play(struct stage *s, int64_t n_frames, const char *when)
{
    for (int64_t at = 0; at < n_frames; at += s->plan.hop) {
        struct tail_load load;
        play_hop(s);
        tail_get_load(s->tail, &load);
        double most = more * load.slice_ns + step + product * s->config.n_in * s->plan.tail_levels[0].n_partitions;
        double most_catch_up = fmax(load.slice_ns, 0.02 * 1e9 / 48000 * s->plan.hop);
        check(load.catch_up_ns <= most_catch_up,
              "%d x %d, %d taps, hops of %d, %s: %.0f ns to catch up, want at most %.0f", s->config.n_in,
              s->config.n_out, s->plan.max_taps, s->plan.hop, when, load.catch_up_ns, most_catch_up);
        most += load.catch_up_ns;
        check(load.hop_ns <= most, "%d x %d, %d taps, hops of %d, %s: frame %lld does %.0f of %.0f, want at most %.0f",
              s->config.n_in, s->config.n_out, s->plan.max_taps, s->plan.hop, when, (long long)at, load.hop_ns,
              load.slice_ns, most);
    }
}

static void every_hop_costs_the_same(const char *backend)
{
    static const struct {
        int n_in, n_out, diagonal;
        double s;
    } shapes[] = {{1, 1, 1, 1},  {1, 1, 1, 10}, {2, 2, 0, 3}, {64, 64, 1, 0.5},
                  {1, 16, 0, 1}, {16, 1, 0, 1}, {8, 8, 0, 1}, {16, 16, 0, 0.5}};
    static const int blocks[] = {16, 64, 128, 512, 2048}, phases[] = {0, 3, 8, 11, 15}; /* in 16ths of a block */
    int n_sliced = 0;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (size_t b = 0; b < sizeof blocks / sizeof *blocks; b++) {
            if (SANITIZED && (shapes[i].n_in > 2 || shapes[i].s > 3)) continue;
            struct stage s;
            stage_open(&s, shapes[i].n_in, shapes[i].n_out, shapes[i].diagonal, (int)(48000 * shapes[i].s), blocks[b],
                       0);
            if (s.tail) {
                int64_t largest = s.plan.tail_levels[s.plan.n_tail_levels - 1].size;
                struct tail_mask *first = stage_mask(&s), *second = stage_mask(&s);
                struct plan_shape shape = {s.plan.max_taps, blocks[b], s.config.n_in, s.config.n_out, s.matrix.n_cells};
                int64_t n_hops = 0, n_usual = tail_swap_frames(&s.plan, &shape) / s.plan.hop;
                tail_prepare(s.tail, first);
                play(&s, 4 * largest + phases[(i + b) % 5] * largest / 16 / s.plan.hop * s.plan.hop, "one mask");
                tail_prepare(s.tail, second); /* in a swap */
                for (; !tail_ready(s.tail, second); n_hops++) play(&s, s.plan.hop, "a mask that catches up");
                check(n_hops <= n_usual, "%d x %d, %d taps, hops of %d: ready after %lld hops, want at most %lld",
                      s.config.n_in, s.config.n_out, s.plan.max_taps, s.plan.hop, (long long)n_hops,
                      (long long)n_usual);
                play(&s, 3 * largest + 3 * s.plan.hop, "two masks");
                tail_retire(s.tail, first);
                play(&s, 3 * largest, "one mask again");
                tail_retire(s.tail, second);
                tail_mask_free(first);
                tail_mask_free(second);
                n_sliced++;
            }
            stage_close(&s);
        }
    check(n_sliced > 10, "%d of the plans have tail levels: this test checks nothing of the others", n_sliced);
}

/* Two stages, one of them with threads, play the same input, while masks are prepared, retired and made anew. A hop
 * that both are ready to play is the same, bit for bit. Nothing here waits for the threads: they are often too late. */
struct pair {
    struct tail_mask *of[2]; /* the same mask, in each stage */
    bool is_prepared;
    int until; /* hop */
};

/* Returns whether the mask was retired before the threads had made it ready. */
static bool pair_turn(struct pair *pair, struct stage *s, struct random *r, int hop)
{
    static const int stays[] = {1, 40, 200, 200, 200, 700}; /* 700: ready without the threads' help, too */
    bool too_soon = false;
    if (!pair->is_prepared && random_int(r, 0, 19) == 0) {
        for (int i = 0; i < 2; i++) tail_prepare(s[i].tail, pair->of[i]);
        pair->is_prepared = true;
        pair->until = hop + random_int(r, 0, stays[random_int(r, 0, 5)]);
    } else if (pair->is_prepared && hop >= pair->until) {
        too_soon = !tail_ready(s[1].tail, pair->of[1]);
        for (int i = 0; i < 2; i++) tail_retire(s[i].tail, pair->of[i]);
        pair->is_prepared = false;
    }
    for (int i = 0; i < 2 && !pair->is_prepared; i++) { /* another, perhaps at the same address */
        if (random_int(r, 0, 15) || !tail_released(s[i].tail, pair->of[i])) continue;
        tail_mask_free(pair->of[i]);
        pair->of[i] = stage_mask(&s[i]);
    }
    return too_soon;
}

/* y, z: [hop]. Returns whether both are ready. */
static bool pair_compare(const struct pair *pair, const struct stage *s, int hop, float *y, float *z)
{
    size_t bytes = (size_t)s->plan.hop * sizeof *y;
    if (!pair->is_prepared || !tail_ready(s[0].tail, pair->of[0]) || !tail_ready(s[1].tail, pair->of[1])) return false;
    for (int out = 0; out < s->config.n_out; out++) {
        memset(y, 0, bytes);
        memset(z, 0, bytes);
        tail_add(s[0].tail, pair->of[0], out, y, s->plan.hop);
        tail_add(s[1].tail, pair->of[1], out, z, s->plan.hop);
        for (int k = 0; k < s->plan.hop; k++)
            check(y[k] == z[k], "%d x %d, hop %d, channel %d, frame %d: %.9g in slices, %.9g by threads",
                  s->config.n_in, s->config.n_out, hop, out, k, (double)y[k], (double)z[k]);
    }
    return true;
}

static void play_both(int n_in, int n_out, int n_hops)
{
    struct random r = random_seeded(7);
    struct stage s[2];
    struct pair pairs[2] = {{.is_prepared = false}};
    int n_both = 0, n_too_soon = 0;
    for (int i = 0; i < 2; i++) {
        stage_open(&s[i], n_in, n_out, false, 30000, 64, 3 * i);
        check(s[i].tail, "the plan has no tail levels: this test checks nothing");
        for (int m = 0; m < 2; m++) pairs[m].of[i] = stage_mask(&s[i]);
    }
    float *y = must_alloc((size_t)s->plan.hop, sizeof *y), *z = must_alloc((size_t)s->plan.hop, sizeof *z);
    for (int hop = 0; hop < n_hops; hop++) {
        bool is_reset = random_int(&r, 0, 1999) == 0;
        for (int m = 0; m < 2; m++) n_too_soon += pair_turn(&pairs[m], s, &r, hop);
        for (int i = 0; i < 2; i++) {
            if (is_reset) tail_reset(s[i].tail);
            tail_begin(s[i].tail);
        }
        for (int m = 0; m < 2; m++) n_both += pair_compare(&pairs[m], s, hop, y, z);
        for (int in = 0; in < n_in; in++)
            for (int k = 0; k < s->plan.hop; k++) s->x[in][k] = random_sample(&r);
        for (int i = 0; i < 2; i++) {
            tail_push(s[i].tail, (const float *const *)s->x, 0, s->plan.hop);
            tail_advance(s[i].tail, s->plan.hop);
        }
    }
    check(n_both > 0 && n_too_soon > 0, "%d hops with both ready, %d masks retired before: this test checks nothing",
          n_both, n_too_soon);
    for (int i = 0; i < 2; i++) {
        tail_reset(s[i].tail);
        for (int m = 0; m < 2; m++) tail_mask_free(pairs[m].of[i]);
        stage_close(&s[i]);
    }
    free(y);
    free(z);
}

static void threads_catch_up_to_the_same_frames(const char *backend)
{
    play_both(3, 5, SANITIZED ? 2000 : 8000);
    play_both(16, 1, SANITIZED ? 1000 : 4000); /* its inputs take the most */
}

int main(void)
{
    static const struct test tests[] = {
        TEST(every_hop_costs_the_same, false),
        TEST(threads_catch_up_to_the_same_frames, false),
    };
    return check_main("tail_levels_cost", tests, sizeof tests / sizeof *tests);
}
