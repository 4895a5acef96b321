#include "plan.h"

#include "dsp/base/order.h"

#include <math.h>
#include <string.h>

enum {
    FILE_FLOATS = 1 << 21,   /* max. floats of a file's block, all channels: 8 MiB, because a host holds a few */
    DIRECT_FILE_UNIT = 4096, /* a file's block of a direct plan is a multiple of this many frames */
    MAX_LOG2 = 30,           /* partition sizes are below 2^MAX_LOG2 */
    WHOLE_HOP_LAUNCHES = 10  /* transforms of a whole hop inside a call cost so many launch_ns: three more kernels */
};

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

/* Returns the ns of a frame of a level: a transform of 2 * size points for each input and output, a product for each
 * partition and route, with a share of a product for each input that has a route. */
static double level_ns(const struct plan_shape *shape, int size, int n_partitions, double fft_ns, double cmac_ns,
                       double input_share)
{
    double n = 2.0 * size, products = shape->n_routes + input_share * min_int(shape->n_in, shape->n_routes);
    double transform = fft_ns * n * log2(n);
    double product = cmac_ns * (size + 1.0) * n_partitions;
    return ((shape->n_in + shape->n_out) * transform + products * product) / size;
}

static double tail_level_ns(const struct plan_costs *costs, const struct plan_shape *shape, int hop, int size,
                            int n_partitions)
{
    double fft_ns = costs->tail_fft_ns > 0 ? costs->tail_fft_ns : costs->fft_ns;
    double cmac_ns = costs->tail_cmac_ns > 0   ? costs->tail_cmac_ns
                     : costs->live_cmac_ns > 0 ? costs->live_cmac_ns
                                               : costs->cmac_ns;
    return level_ns(shape, size, n_partitions, fft_ns, cmac_ns, costs->input_share) + costs->slice_ns / hop;
}

double plan_cost_ns(const struct plan *plan, const struct plan_costs *costs, const struct plan_shape *shape)
{
    bool live = shape->block > 0 && costs->live_cmac_ns > 0;
    bool fir_first = shape->block > 0 && costs->fir_first && !plan->whole_hops;
    int n_fir = plan->direct ? plan->head_taps : fir_first ? plan->partition : 0;
    double ns = costs->mac_ns * n_fir * shape->n_routes;
    if (plan->whole_hops) /* nothing runs beside the first partition: it costs twice its share */
        ns += WHOLE_HOP_LAUNCHES * costs->launch_ns / plan->hop +
              level_ns(shape, plan->partition, 1, costs->fft_ns, costs->live_cmac_ns, costs->input_share);
    if (!plan->direct)
        ns += level_ns(shape, plan->partition, plan->n_partitions - (n_fir > 0), costs->fft_ns,
                       live ? costs->live_cmac_ns : costs->cmac_ns, live ? costs->input_share : 0);
    if (!plan->direct || plan->n_tail_levels > 0) ns += costs->launch_ns / plan->hop;
    if (shape->block > 0) ns += costs->call_ns / shape->block;
    for (const struct plan_level *level = plan->tail_levels; level < plan->tail_levels + plan->n_tail_levels; level++)
        ns += tail_level_ns(costs, shape, plan->hop, level->size, level->n_partitions);
    return ns;
}

/* For each size of a level, by its log2: the cheapest tail levels from this level to the end of the response. */
struct plan_chain {
    double ns[MAX_LOG2]; /* cost of this level and all later levels; infinite: the size is not possible */
    int next[MAX_LOG2];  /* log2 of the next level's size; 0: this level is the last */
};

static void chain_find(struct plan_chain *chain, const struct plan_costs *costs, const struct plan_shape *shape,
                       int hop)
{
    for (int l = MAX_LOG2 - 1; l > 0; l--) {
        int size = 1 << l;
        int offset = 2 * size - hop;
        chain->ns[l] = INFINITY;
        chain->next[l] = 0;
        if (size < hop || size < costs->min_tail || size > costs->max_tail || offset >= shape->max_taps) continue;
        chain->ns[l] = tail_level_ns(costs, shape, hop, size, ceil_div(shape->max_taps - offset, size));
        for (int m = l + 1; m < MAX_LOG2 && 1 << m <= costs->max_tail; m++) {
            double ns = tail_level_ns(costs, shape, hop, size, 2 * ((1 << m) / size - 1)) + chain->ns[m];
            if (ns < chain->ns[l]) chain->ns[l] = ns, chain->next[l] = m;
        }
    }
}

/* Sets the tail levels to the chain that starts with size 2^first; 0: no tail levels. */
static void chain_apply(struct plan *plan, const struct plan_chain *chain, int first)
{
    plan->n_tail_levels = 0;
    for (int l = first; l != 0; l = chain->next[l]) {
        struct plan_level *level = &plan->tail_levels[plan->n_tail_levels++];
        level->size = 1 << l;
        level->offset = 2 * level->size - plan->hop;
        int end = chain->next[l] ? (2 << chain->next[l]) - plan->hop : plan->max_taps;
        level->n_partitions = ceil_div(end - level->offset, level->size);
    }
    plan->head_taps = plan->n_tail_levels ? plan->tail_levels[0].offset : plan->max_taps;
}

/* Replaces *best by a head of this kind and hop, with its cheapest tail levels, if that plan is cheaper. */
static void try_head(struct plan *best, double *best_ns, const struct plan_costs *costs, const struct plan_shape *shape,
                     bool direct, int hop)
{
    struct plan_chain chain;
    bool may_tail = costs->max_tail > 0 && shape->block > 0;
    if (may_tail) chain_find(&chain, costs, shape, hop);
    for (int first = 0; first < (may_tail ? MAX_LOG2 : 1); first++) {
        if (first > 0 && (isinf(chain.ns[first]) || 1 << first < (direct ? hop : 2 * hop))) continue;
        struct plan plan = {.max_taps = shape->max_taps, .direct = direct, .hop = hop};
        chain_apply(&plan, &chain, first);
        plan.partition = direct ? max_int(round_up_power_of_two(plan.head_taps), costs->min_partition) : hop;
        plan.n_partitions = direct ? 1 : ceil_div(plan.head_taps, hop);
        int n_ways = !direct && costs->fir_first && shape->block > 0 && shape->block % hop == 0 ? 2 : 1;
        for (int way = 0; way < n_ways; way++) {
            plan.whole_hops = way == 1;
            double ns = plan_cost_ns(&plan, costs, shape);
            if (ns < *best_ns) *best_ns = ns, *best = plan;
        }
    }
}

void plan_choose(struct plan *plan, const struct plan_costs *costs, const struct plan_shape *shape, const char *method)
{
    bool has_fft = costs->fft_ns > 0; /* a backend without transforms ignores the method */
    bool may_direct = !has_fft || strcmp(method, "fft") != 0;
    bool may_fft = has_fft && strcmp(method, "direct") != 0;
    int file_frames = min_int(FILE_FLOATS / max_int(shape->n_in, shape->n_out), costs->file_block);
    if (costs->file_share > 0) file_frames = max_int(file_frames, shape->max_taps / costs->file_share);

    /* A hop may not be longer than a live call: else one call out of many would do all transforms of the hop. */
    int longest = costs->max_partition;
    if (shape->block > 0)
        while (longest > costs->min_partition && longest > shape->block) longest /= 2;
    else if (costs->file_partitions > 0)
        while (longest > costs->min_partition && longest > file_frames / costs->file_partitions) longest /= 2;

    double best_ns = INFINITY;
    memset(plan, 0, sizeof *plan);
    if (may_direct) /* a hop longer than the response, so without tail levels */
        try_head(plan, &best_ns, costs, shape, true,
                 max_int(round_up_power_of_two(shape->max_taps), costs->min_partition));
    for (int hop = costs->min_partition; may_fft && hop <= longest; hop *= 2) {
        try_head(plan, &best_ns, costs, shape, false, hop);
        if (may_direct && costs->max_tail > 0 && shape->block > 0) try_head(plan, &best_ns, costs, shape, true, hop);
    }

    plan->costs = *costs;
    plan->block = shape->block;
    if (shape->block == 0) {
        int unit = plan->direct ? DIRECT_FILE_UNIT : max_int(1, costs->file_partitions) * plan->partition;
        plan->block = file_frames < unit ? unit : file_frames / unit * unit;
    }
}

/* A bin of a spectrum has 8 bytes. A level reads each route's and each input's spectra once a frame:
 * the routes of one input find its spectra in the cache. */
static void level_count(const struct plan_shape *shape, int size, int n_partitions, struct plan_work *work)
{
    double n = 2.0 * size, spectra = ((double)shape->n_routes + shape->n_in) * n_partitions;
    work->bytes += 8 * spectra;
    work->flops += (shape->n_in + shape->n_out) * 2.5 * n * log2(n) / size + 8.0 * shape->n_routes * n_partitions;
    work->memory += 8 * spectra * size;
}

void plan_count(const struct plan *plan, const struct plan_shape *shape, struct plan_work *work)
{
    *work = (struct plan_work){0};
    if (plan->direct) {
        double taps = (double)plan->head_taps * shape->n_routes;
        work->bytes = 4 * taps / max_int(1, plan->block < plan->hop ? plan->block : plan->hop);
        work->flops = 2 * taps;
        work->memory = 4 * taps;
    } else {
        level_count(shape, plan->partition, plan->n_partitions, work);
    }
    work->memory += 8.0 * shape->n_in * plan->partition;
    for (int i = 0; i < plan->n_tail_levels; i++) {
        const struct plan_level *level = &plan->tail_levels[i];
        level_count(shape, level->size, level->n_partitions, work);
        work->memory += 8.0 * shape->n_out * level->size; /* the due output and the next output */
        work->memory += 8.0 * shape->n_in * level->size;  /* a spectrum of each input, for swaps */
        if (i == plan->n_tail_levels - 1)
            work->memory += 4.0 * shape->n_in * (level->n_partitions + 4) * level->size; /* input history */
    }
}
