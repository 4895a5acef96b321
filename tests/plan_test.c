/* The plan: a pure function whose cuts cover every tap, for any size. */
#include "../dsp/backend.h"
#include "check.h"

#include <math.h>
#include <string.h>

static bool power_of_two(int n)
{
    return n > 0 && (n & (n - 1)) == 0;
}

static void check_plan(const struct plan *p, const struct plan_costs *costs, int taps, int block, const char *method)
{
#define SEEN                                                                                                           \
    "taps %d, block %d, %s: block %d, %s, partition %d x %d, %d far levels", taps, block, method, p->block,            \
        p->direct ? "direct" : "fft", p->partition, p->n_partitions, p->n_far
    check(p->max_taps == taps, SEEN);
    check(block ? p->block == block : p->block >= 1, SEEN);
    if (strcmp(method, "direct") == 0) check(p->direct, SEEN);
#ifdef HC_WITH_FFTW
    if (strcmp(method, "fft") == 0) check(!p->direct, SEEN);
#endif
    check((int64_t)p->partition * p->n_partitions >= p->near_taps, SEEN);
    check(p->near_taps >= 1 && p->near_taps <= taps, SEEN);
    check(power_of_two(p->partition) && power_of_two(p->tick), SEEN);
    if (p->direct) {
        check(p->n_partitions == 1, SEEN);
    } else {
        check(p->tick == p->partition, SEEN);
        check(p->partition >= costs->min_partition && p->partition <= costs->max_partition, SEEN);
        check((int64_t)p->partition * (p->n_partitions - 1) < p->near_taps, SEEN); /* none in vain */
    }
    /* The levels tile the response exactly once, each starts no sooner than its slack allows, and each is larger. */
    int64_t end = p->near_taps;
    check(block > 0 || p->n_far == 0, SEEN);
    for (int i = 0; i < p->n_far; i++) {
        const struct plan_level *l = &p->far[i];
        check(l->offset == end, SEEN);
        check((int64_t)l->offset >= 2 * (int64_t)l->size - p->tick, SEEN);
        check(power_of_two(l->size) && l->size >= p->tick && l->size <= costs->max_far, SEEN);
        check(i == 0 || l->size > p->far[i - 1].size, SEEN);
        check(l->n_partitions >= 1, SEEN);
        if (i == p->n_far - 1) check(end + (int64_t)(l->n_partitions - 1) * l->size < taps, SEEN);
        end += (int64_t)l->n_partitions * l->size;
    }
    check(end >= taps, SEEN);
#undef SEEN
}

static void levels_cover_every_tap_once(const char *backend)
{
    (void)backend;
    static const char *methods[] = {"auto", "direct", "fft"};
    struct plan_costs far = *backend_cpu.costs; /* whatever this backend has, the plan must hold with far levels */
    far.max_far = 65536;
    far.slice_ns = 20;
    struct random r = random_seeded(1);
    check(power_of_two(far.min_partition) && power_of_two(far.max_partition), "%d, %d", far.min_partition,
          far.max_partition);
    for (int i = 0; i < 6000; i++) {
        const struct plan_costs *costs = i % 3 ? &far : backend_cpu.costs;
        static const int edges[] = {1, 2, 63, 64, 65, 4095, 4096, 4097, 48000, 144000, 1000003};
        static const int mosts[] = {300, 3000, 1 << 20, 10000000};
        int taps = i < 11 * 40 ? edges[i % 11] : random_int(&r, 1, mosts[i % 4]);
        int block = i % 5 == 0 ? 0 : random_int(&r, 1, i % 3 ? 300 : 8192);
        int n_in = random_int(&r, 1, 64), n_out = random_int(&r, 1, 64);
        for (int m = 0; m < 3; m++) {
            struct plan p;
            memset(&p, 0xa5, sizeof p);
            struct plan_shape shape = {taps, block, n_in, n_out, random_int(&r, 1, n_in * n_out)};
            plan_choose(&p, costs, &shape, methods[m]);
            check_plan(&p, costs, taps, block, methods[m]);
        }
    }
}

/* A long response at a small block is several times cheaper with far levels. */
static void long_responses_get_far_levels(const char *backend)
{
    (void)backend;
#ifndef HC_WITH_FFTW
    check_skip("built without FFTW");
#endif
    struct plan_costs far = *backend_cpu.costs;
    far.max_far = 65536;
    for (int matrix = 0; matrix < 2; matrix++) {
        struct plan with, without;
        struct plan_shape shape = {480000, 64, 16, 16, matrix ? 256 : 16};
        plan_choose(&with, &far, &shape, "auto");
        far.max_far = 0;
        plan_choose(&without, &far, &shape, "auto");
        far.max_far = 65536;
        double a = plan_cost_ns(&with, &far, &shape), b = plan_cost_ns(&without, &far, &shape);
        check(with.n_far >= 2 && without.n_far == 0, "%d and %d far levels", with.n_far, without.n_far);
        check(a < 0.2 * b, "%g ns a frame with far levels, %g without", a, b);
    }
}

static void same_question_same_plan(const char *backend)
{
    (void)backend;
    struct random r = random_seeded(2);
    for (int i = 0; i < 200; i++) {
        struct plan a, b;
        memset(&a, 0, sizeof a);
        memset(&b, 0, sizeof b);
        int taps = random_int(&r, 1, 200000), block = random_int(&r, 0, 2048);
        struct plan_shape shape = {taps, block, 2, 2, 4};
        plan_choose(&a, backend_cpu.costs, &shape, "auto");
        plan_choose(&b, backend_cpu.costs, &shape, "auto");
        check(memcmp(&a, &b, sizeof a) == 0, "taps %d, block %d", taps, block);
    }
}

static void auto_takes_the_cheaper(const char *backend)
{
    (void)backend;
#ifndef HC_WITH_FFTW
    check_skip("built without FFTW");
#endif
    static const int taps[] = {1, 16, 64, 256, 1024, 4096, 16384, 65536, 262144};
    static const int blocks[] = {1, 16, 64, 256, 1024, 4096, 0};
    for (int t = 0; t < 9; t++)
        for (int b = 0; b < 7; b++) {
            struct plan chosen, direct, fft;
            struct plan_shape shape = {taps[t], blocks[b], 2, 2, 2};
            plan_choose(&chosen, backend_cpu.costs, &shape, "auto");
            plan_choose(&direct, backend_cpu.costs, &shape, "direct");
            plan_choose(&fft, backend_cpu.costs, &shape, "fft");
            double c = plan_cost_ns(&chosen, backend_cpu.costs, &shape);
            double d = plan_cost_ns(&direct, backend_cpu.costs, &shape);
            double f = plan_cost_ns(&fft, backend_cpu.costs, &shape);
            check(isfinite(c) && c > 0 && c <= fmin(d, f) * 1.0001, "taps %d, block %d: auto %g, direct %g, fft %g ns",
                  taps[t], blocks[b], c, d, f);
        }
}

int main(void)
{
    static const struct test tests[] = {
        {"levels_cover_every_tap_once", levels_cover_every_tap_once, false},
        {"long_responses_get_far_levels", long_responses_get_far_levels, false},
        {"same_question_same_plan", same_question_same_plan, false},
        {"auto_takes_the_cheaper", auto_takes_the_cheaper, false},
    };
    return check_main("plan", tests, sizeof tests / sizeof *tests);
}
