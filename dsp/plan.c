#include "plan.h"

#include <math.h>
#include <string.h>

enum { FILE_FLOATS = 1 << 21 }; /* of all channels in a file's block: 8 MiB, of which a host holds a few */

static int round_up_power_of_two(int n)
{
    int p = 1;
    while (p < n && p < 1 << 30) p *= 2;
    return p;
}

static int ceil_div(int a, int b)
{
    return (int)(((long long)a + b - 1) / b);
}

static double direct_ns(const struct plan_costs *costs, int max_taps, int n_channels)
{
    return costs->mac_ns * max_taps * n_channels;
}

/* A block of P frames: a transform of 2P forward an input and back an output, and one product a partition and route. */
static double fft_ns(const struct plan_costs *costs, int max_taps, int partition, int n_channels)
{
    double n = 2.0 * partition;
    double transform = costs->fft_ns * n * log2(n);
    double product = costs->cmac_ns * (partition + 1.0) * ceil_div(max_taps, partition);
    return (n_channels * (2 * transform + product) + costs->launch_ns) / partition;
}

double plan_cost_ns(const struct plan *plan, const struct plan_costs *costs, int n_in, int n_out)
{
    int n_channels = n_in > n_out ? n_in : n_out;
    return plan->direct ? direct_ns(costs, plan->max_taps, n_channels)
                        : fft_ns(costs, plan->max_taps, plan->partition, n_channels);
}

void plan_choose(struct plan *plan, const struct plan_costs *costs, int max_taps, int block, int n_in, int n_out,
                 const char *method)
{
    int n_channels = n_in > n_out ? n_in : n_out;

    /* A partition longer than the call would put its transforms into one call out of many; files have no such worry. */
    int longest = costs->max_partition;
    if (block > 0) {
        while (longest > costs->min_partition && longest > block) longest /= 2;
    }
    int best = costs->min_partition;
    for (int p = 2 * best; p <= longest; p *= 2)
        if (fft_ns(costs, max_taps, p, n_channels) < fft_ns(costs, max_taps, best, n_channels)) best = p;

    bool direct = strcmp(method, "direct") == 0;
    if (strcmp(method, "auto") == 0)
        direct = direct_ns(costs, max_taps, n_channels) < fft_ns(costs, max_taps, best, n_channels);
    if (costs->fft_ns <= 0) direct = true; /* a backend without transforms */

    plan->max_taps = max_taps;
    plan->direct = direct;
    if (direct) {
        plan->partition = round_up_power_of_two(max_taps);
        if (plan->partition < costs->min_partition) plan->partition = costs->min_partition;
        plan->n_partitions = 1;
    } else {
        plan->partition = best;
        plan->n_partitions = ceil_div(max_taps, best);
    }
    if (block == 0) {
        int unit = direct ? 4096 : plan->partition;
        block = FILE_FLOATS / n_channels < costs->file_block ? FILE_FLOATS / n_channels : costs->file_block;
        block = block < unit ? unit : block / unit * unit;
    }
    plan->block = block;
}
