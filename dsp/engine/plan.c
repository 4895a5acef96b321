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

static int least(int a, int b)
{
    return a < b ? a : b;
}

static int most(int a, int b)
{
    return a > b ? a : b;
}

/* Nanoseconds a frame of a level of n partitions of S frames: transforms of 2S forward an input and back an output, and
 * one product a partition and route, with a share of one for each input that has a route. */
static double level_ns(const struct plan_shape *shape, int size, int n_partitions, double fft_ns, double cmac_ns,
                       double input_share)
{
    double n = 2.0 * size, rows = shape->n_routes + input_share * least(shape->n_in, shape->n_routes);
    double transform = fft_ns * n * log2(n);
    double product = cmac_ns * (size + 1.0) * n_partitions;
    return ((shape->n_in + shape->n_out) * transform + rows * product) / size;
}

static double near_ns(const struct plan_costs *costs, const struct plan_shape *shape, int size, int n_partitions)
{
    bool live = shape->block > 0 && costs->live_cmac_ns > 0;
    return level_ns(shape, size, n_partitions, costs->fft_ns, live ? costs->live_cmac_ns : costs->cmac_ns,
                    live ? costs->input_share : 0);
}

static double far_ns(const struct plan_costs *costs, const struct plan_shape *shape, int tick, int size,
                     int n_partitions)
{
    double fft_ns = costs->far_fft_ns > 0 ? costs->far_fft_ns : costs->fft_ns;
    double cmac_ns = costs->far_cmac_ns > 0    ? costs->far_cmac_ns
                     : costs->live_cmac_ns > 0 ? costs->live_cmac_ns
                                               : costs->cmac_ns;
    return level_ns(shape, size, n_partitions, fft_ns, cmac_ns, costs->input_share) + costs->slice_ns / tick;
}

double plan_cost_ns(const struct plan *plan, const struct plan_costs *costs, const struct plan_shape *shape)
{
    double ns = plan->direct ? costs->mac_ns * plan->near_taps * shape->n_routes
                             : near_ns(costs, shape, plan->partition, plan->n_partitions);
    if (!plan->direct || plan->n_far > 0) ns += costs->launch_ns / plan->tick;
    if (shape->block > 0) ns += costs->call_ns / shape->block;
    for (int i = 0; i < plan->n_far; i++)
        ns += far_ns(costs, shape, plan->tick, plan->far[i].size, plan->far[i].n_partitions);
    return ns;
}

/* The cheapest way from the start of a level of each size to the end of the response; sizes by their log2. */
struct chain {
    double ns[30]; /* of this level and all after it */
    int next[30];  /* log2 of the next level's size; 0 = this one is the last */
};

static void chain_find(struct chain *chain, const struct plan_costs *costs, const struct plan_shape *shape, int tick)
{
    for (int l = 29; l > 0; l--) {
        int size = 1 << l;
        int offset = 2 * size - tick;
        chain->ns[l] = INFINITY;
        chain->next[l] = 0;
        if (size < tick || size < costs->min_far || size > costs->max_far || offset >= shape->max_taps) continue;
        chain->ns[l] = far_ns(costs, shape, tick, size, ceil_div(shape->max_taps - offset, size));
        for (int m = l + 1; m < 30 && 1 << m <= costs->max_far; m++) {
            double ns = far_ns(costs, shape, tick, size, 2 * ((1 << m) / size - 1)) + chain->ns[m];
            if (ns < chain->ns[l]) chain->ns[l] = ns, chain->next[l] = m;
        }
    }
}

/* Put the chain that starts with size 2^first behind the near level. */
static void chain_take(struct plan *plan, const struct chain *chain, int first)
{
    plan->n_far = 0;
    for (int l = first; l != 0; l = chain->next[l]) {
        struct plan_level *level = &plan->far[plan->n_far++];
        level->size = 1 << l;
        level->offset = 2 * level->size - plan->tick;
        int end = chain->next[l] ? (2 << chain->next[l]) - plan->tick : plan->max_taps;
        level->n_partitions = ceil_div(end - level->offset, level->size);
    }
    plan->near_taps = plan->n_far ? plan->far[0].offset : plan->max_taps;
}

/* A near level of this kind and tick with the best far levels for it: taken into `best` if it is cheaper. */
static void try_near(struct plan *best, double *best_ns, const struct plan_costs *costs, const struct plan_shape *shape,
                     bool direct, int tick)
{
    struct chain chain;
    bool far = costs->max_far > 0 && shape->block > 0;
    chain.ns[0] = 0;
    if (far) chain_find(&chain, costs, shape, tick);
    for (int first = 0; first < (far ? 30 : 1); first++) { /* 0: no far level */
        if (first > 0 && (isinf(chain.ns[first]) || 1 << first < (direct ? tick : 2 * tick))) continue;
        struct plan plan = {.max_taps = shape->max_taps, .direct = direct, .tick = tick};
        chain_take(&plan, &chain, first);
        plan.partition = direct ? most(round_up_power_of_two(plan.near_taps), costs->min_partition) : tick;
        plan.n_partitions = direct ? 1 : ceil_div(plan.near_taps, tick);
        double ns = plan_cost_ns(&plan, costs, shape);
        if (ns < *best_ns) *best_ns = ns, *best = plan;
    }
}

void plan_choose(struct plan *plan, const struct plan_costs *costs, const struct plan_shape *shape, const char *method)
{
    bool transforms = costs->fft_ns > 0; /* a backend without them works in the time domain, whatever was asked for */
    bool may_direct = !transforms || strcmp(method, "fft") != 0;
    bool may_fft = transforms && strcmp(method, "direct") != 0;
    int n_channels = most(shape->n_in, shape->n_out);

    /* A tick longer than the call would put its transforms into one call out of many; files have no such worry. */
    int longest = costs->max_partition;
    if (shape->block > 0)
        while (longest > costs->min_partition && longest > shape->block) longest /= 2;
    else if (costs->file_parts > 0)
        while (longest > costs->min_partition && longest > FILE_FLOATS / n_channels / costs->file_parts) longest /= 2;

    memset(plan, 0, sizeof *plan);
    double best_ns = INFINITY;
    if (may_direct) { /* alone, without a far level */
        plan->max_taps = plan->near_taps = shape->max_taps;
        plan->direct = true;
        plan->partition = most(round_up_power_of_two(shape->max_taps), costs->min_partition);
        plan->n_partitions = 1;
        plan->tick = plan->partition;
        best_ns = plan_cost_ns(plan, costs, shape);
    }
    for (int tick = costs->min_partition; may_fft && tick <= longest; tick *= 2) {
        try_near(plan, &best_ns, costs, shape, false, tick);
        if (may_direct && costs->max_far > 0 && shape->block > 0) try_near(plan, &best_ns, costs, shape, true, tick);
    }

    int block = shape->block;
    if (block == 0) {
        int unit = plan->direct ? 4096 : plan->partition;
        block = FILE_FLOATS / n_channels < costs->file_block ? FILE_FLOATS / n_channels : costs->file_block;
        block = block < unit ? unit : block / unit * unit;
    }
    plan->block = block;
}

/* Spectra are 8 bytes a bin, read once a partition and frame: the responses' for each route, the inputs' for each input
 * (a product of a matrix finds them in the cache). */
static void level_count(const struct plan_shape *shape, int size, int n_partitions, struct plan_work *work)
{
    double n = 2.0 * size, rows = ((double)shape->n_routes + shape->n_in) * n_partitions;
    work->bytes += 8 * rows;
    work->flops += (shape->n_in + shape->n_out) * 2.5 * n * log2(n) / size + 8.0 * shape->n_routes * n_partitions;
    work->memory += 8 * rows * size;
}

void plan_count(const struct plan *plan, const struct plan_shape *shape, struct plan_work *work)
{
    *work = (struct plan_work){0};
    if (plan->direct) {
        double taps = (double)plan->near_taps * shape->n_routes;
        work->bytes = 4 * taps / most(1, plan->block < plan->tick ? plan->block : plan->tick);
        work->flops = 2 * taps;
        work->memory = 4 * taps;
    } else {
        level_count(shape, plan->partition, plan->n_partitions, work);
    }
    work->memory += 8.0 * shape->n_in * plan->partition;
    for (int i = 0; i < plan->n_far; i++) {
        level_count(shape, plan->far[i].size, plan->far[i].n_partitions, work);
        work->memory += 8.0 * shape->n_out * plan->far[i].size; /* what is heard, and what will be */
        work->memory += 8.0 * shape->n_in * plan->far[i].size;  /* a spectrum of each input for swaps */
    }
    const struct plan_level *last = plan->n_far > 0 ? &plan->far[plan->n_far - 1] : NULL;
    if (last) work->memory += 4.0 * shape->n_in * (last->n_partitions + 4) * last->size; /* the inputs' frames */
}
