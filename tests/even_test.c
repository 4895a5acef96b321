/* Every tick costs the same: the work of the far levels, counted by the pieces that are done and not by a clock. The
 * near level does the same in every block by its making. */
#include "../dsp/far.h"
#include "../dsp/matrix.h"
#include "../dsp/plan.h"
#include "check.h"

#include <stdlib.h>
#include <string.h>

/* Nanoseconds, as counted. A tick may do a quarter more than its share, and beside that one piece: of a transform at
 * most the columns of 32768 frames, of the products one output's with all inputs. */
static const double more = 1.25, piece = 1500, product = 60;

struct stage {
    struct plan plan;
    hc_config config;
    struct far *far;
    struct matrix matrix;
    int *first_cell;
    float *x;
};

static void stage_open(struct stage *s, int n_in, int n_out, bool diagonal, int taps, int block)
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
    check(matrix_of_noise(&s->matrix, &s->config, &noise, NULL, 0) == HC_OK, "no matrix");
    free(envelope);
    s->first_cell = must_alloc((size_t)n_out + 1, sizeof *s->first_cell);
    for (int c = 0; c < s->matrix.n_cells; c++) s->first_cell[s->matrix.cells[c].out + 1]++;
    for (int out = 0; out < n_out; out++) s->first_cell[out + 1] += s->first_cell[out];
    s->x = must_alloc((size_t)s->plan.tick, sizeof *s->x);
    if (s->plan.n_far > 0) s->far = far_open(&s->plan, n_in, n_out, shape.n_routes, 0, simd_choose());
    check(s->far || s->plan.n_far == 0, "no memory");
}

static struct far_mask *stage_mask(struct stage *s)
{
    struct far_mask *mask = far_mask_make(s->far, &s->plan, &s->matrix, s->matrix.cells, s->first_cell);
    check(mask, "no memory");
    return mask;
}

static void stage_close(struct stage *s)
{
    far_close(s->far);
    matrix_free(&s->matrix);
    free(s->first_cell);
    free(s->x);
}

/* Plays, and sees that no tick does more than its share. */
static void play(struct stage *s, int64_t n_frames, const char *when)
{
    for (int64_t at = 0; at < n_frames; at += s->plan.tick) {
        struct far_work work;
        far_begin(s->far);
        for (int in = 0; in < s->config.n_in; in++) far_push(s->far, in, s->x, s->plan.tick);
        far_advance(s->far, s->plan.tick);
        far_count(s->far, &work);
        double most = more * work.share_ns + piece + product * s->config.n_in * s->plan.far[0].n_partitions;
        check(work.tick_ns <= most,
              "%d x %d, %d taps, ticks of %d, %s: frame %lld does %.0f of %.0f, want at most %.0f", s->config.n_in,
              s->config.n_out, s->plan.max_taps, s->plan.tick, when, (long long)at, work.tick_ns, work.share_ns, most);
    }
}

static void every_tick_costs_the_same(const char *backend)
{
    (void)backend;
#ifndef HC_WITH_FFTW
    check_skip("built without FFTW");
#endif
    static const struct {
        int n_in, n_out, diagonal;
        double s;
    } shapes[] = {{1, 1, 1, 1},  {1, 1, 1, 10}, {2, 2, 0, 3}, {64, 64, 1, 0.5},
                  {1, 16, 0, 1}, {16, 1, 0, 1}, {8, 8, 0, 1}, {16, 16, 0, 0.5}};
    static const int blocks[] = {16, 64, 128, 512, 2048};
    int n_sliced = 0;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (size_t b = 0; b < sizeof blocks / sizeof *blocks; b++) {
            if (SANITIZED && (shapes[i].n_in > 2 || shapes[i].s > 3)) continue;
            struct stage s;
            stage_open(&s, shapes[i].n_in, shapes[i].n_out, shapes[i].diagonal, (int)(48000 * shapes[i].s), blocks[b]);
            if (s.far) {
                int64_t largest = s.plan.far[s.plan.n_far - 1].size;
                struct far_mask *first = stage_mask(&s), *second = stage_mask(&s);
                far_warm(s.far, first);
                play(&s, 4 * largest, "one mask");
                far_warm(s.far, second); /* in a swap */
                play(&s, 3 * largest + 3 * s.plan.tick, "two masks");
                far_rest(s.far, first);
                play(&s, 3 * largest, "one mask again");
                far_rest(s.far, second);
                far_mask_free(first);
                far_mask_free(second);
                n_sliced++;
            }
            stage_close(&s);
        }
    check(n_sliced > 10, "%d of the plans have far levels: nothing is promised of the others", n_sliced);
}

int main(void)
{
    static const struct test tests[] = {
        {"every_tick_costs_the_same", every_tick_costs_the_same, false},
    };
    return check_main("even", tests, sizeof tests / sizeof *tests);
}
