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
    "taps %d, block %d, %s: block %d, %s, partition %d x %d", taps, block, method, p->block,                           \
        p->direct ? "direct" : "fft", p->partition, p->n_partitions
    check(p->max_taps == taps, SEEN);
    check(block ? p->block == block : p->block >= 1, SEEN);
    if (strcmp(method, "direct") == 0) check(p->direct, SEEN);
#ifdef HC_WITH_FFTW
    if (strcmp(method, "fft") == 0) check(!p->direct, SEEN);
#endif
    check((int64_t)p->partition * p->n_partitions >= taps, SEEN);
    if (p->direct) {
        check(p->n_partitions == 1, SEEN);
    } else {
        check(power_of_two(p->partition), SEEN);
        check(p->partition >= costs->min_partition && p->partition <= costs->max_partition, SEEN);
        check((int64_t)p->partition * (p->n_partitions - 1) < taps, SEEN); /* none in vain */
    }
#undef SEEN
}

static void partitions_cover_every_tap(const char *backend)
{
    (void)backend;
    static const char *methods[] = {"auto", "direct", "fft"};
    const struct plan_costs *costs = backend_cpu.costs;
    struct random r = random_seeded(1);
    check(power_of_two(costs->min_partition) && power_of_two(costs->max_partition), "%d, %d", costs->min_partition,
          costs->max_partition);
    for (int i = 0; i < 6000; i++) {
        static const int edges[] = {1, 2, 63, 64, 65, 4095, 4096, 4097, 48000, 144000, 1000003};
        int taps = i < 11 * 40 ? edges[i % 11] : random_int(&r, 1, i % 2 ? 3000 : 1 << 20);
        int block = i % 5 == 0 ? 0 : random_int(&r, 1, i % 3 ? 300 : 8192);
        int n_in = random_int(&r, 1, 64), n_out = random_int(&r, 1, 64);
        for (int m = 0; m < 3; m++) {
            struct plan p;
            memset(&p, 0xa5, sizeof p);
            plan_choose(&p, costs, taps, block, n_in, n_out, methods[m]);
            check_plan(&p, costs, taps, block, methods[m]);
        }
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
        plan_choose(&a, backend_cpu.costs, taps, block, 2, 2, "auto");
        plan_choose(&b, backend_cpu.costs, taps, block, 2, 2, "auto");
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
            plan_choose(&chosen, backend_cpu.costs, taps[t], blocks[b], 2, 2, "auto");
            plan_choose(&direct, backend_cpu.costs, taps[t], blocks[b], 2, 2, "direct");
            plan_choose(&fft, backend_cpu.costs, taps[t], blocks[b], 2, 2, "fft");
            double c = plan_cost_ns(&chosen, backend_cpu.costs, 2, 2),
                   d = plan_cost_ns(&direct, backend_cpu.costs, 2, 2), f = plan_cost_ns(&fft, backend_cpu.costs, 2, 2);
            check(isfinite(c) && c > 0 && c <= fmin(d, f) * 1.0001, "taps %d, block %d: auto %g, direct %g, fft %g ns",
                  taps[t], blocks[b], c, d, f);
        }
}

int main(void)
{
    static const struct test tests[] = {
        {"partitions_cover_every_tap", partitions_cover_every_tap, false},
        {"same_question_same_plan", same_question_same_plan, false},
        {"auto_takes_the_cheaper", auto_takes_the_cheaper, false},
    };
    return check_main("plan", tests, sizeof tests / sizeof *tests);
}
