/* The plan: a pure function whose cuts cover every tap, for any size. */
#include "check.h"
#include "dsp/backends/backends.h"
#include "dsp/cpu/cpu_costs.h"
#include "dsp/device/backend.h"

#include <math.h>
#include <string.h>

static bool power_of_two(int n)
{
    return n > 0 && (n & (n - 1)) == 0;
}

static void check_plan(const struct plan *p, const struct plan_costs *costs, int taps, int block, const char *method)
{
#define SEEN                                                                                                           \
    "taps %d, block %d, %s: block %d, %s, partition %d x %d, %d tail levels", taps, block, method, p->block,           \
        p->direct ? "direct" : "fft", p->partition, p->n_partitions, p->n_tail_levels
    check(p->max_taps == taps, SEEN);
    check(block ? p->block == block : p->block >= 1, SEEN);
    if (strcmp(method, "direct") == 0) check(p->direct, SEEN);
    if (strcmp(method, "fft") == 0) check(!p->direct, SEEN);
    check((int64_t)p->partition * p->n_partitions >= p->head_taps, SEEN);
    check(p->head_taps >= 1 && p->head_taps <= taps, SEEN);
    check(power_of_two(p->partition) && power_of_two(p->hop), SEEN);
    if (p->direct) {
        check(p->n_partitions == 1, SEEN);
    } else {
        check(p->hop == p->partition, SEEN);
        check(p->partition >= costs->min_partition && p->partition <= costs->max_partition, SEEN);
        check((int64_t)p->partition * (p->n_partitions - 1) < p->head_taps, SEEN); /* none in vain */
    }
    /* The levels tile the response exactly once, each starts no sooner than its slack allows, and each is larger. */
    int64_t end = p->head_taps;
    check(block > 0 || p->n_tail_levels == 0, SEEN);
    for (int i = 0; i < p->n_tail_levels; i++) {
        const struct plan_level *l = &p->tail_levels[i];
        check(l->offset == end, SEEN);
        check((int64_t)l->offset >= 2 * (int64_t)l->size - p->hop, SEEN);
        check(power_of_two(l->size) && l->size >= p->hop && l->size <= costs->max_tail, SEEN);
        check(i == 0 || l->size > p->tail_levels[i - 1].size, SEEN);
        check(l->n_partitions >= 1, SEEN);
        if (i == p->n_tail_levels - 1) check(end + (int64_t)(l->n_partitions - 1) * l->size < taps, SEEN);
        end += (int64_t)l->n_partitions * l->size;
    }
    check(end >= taps, SEEN);
#undef SEEN
}

static void levels_cover_every_tap_once(const char *backend)
{
    static const char *methods[] = {"auto", "direct", "fft"};
    struct plan_costs tailed = *backend_cpu.costs;
    tailed.max_tail = 65536;
    tailed.slice_ns = 20;
    struct random r = random_seeded(1);
    check(power_of_two(tailed.min_partition) && power_of_two(tailed.max_partition), "%d, %d", tailed.min_partition,
          tailed.max_partition);
    for (int i = 0; i < 6000; i++) {
        const struct plan_costs *costs = i % 3 ? &tailed : backend_cpu.costs;
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

/* A long response at a small block is several times cheaper with tail levels. */
static void long_responses_get_tail_levels(const char *backend)
{
    struct plan_costs tailed = *backend_cpu.costs;
    tailed.max_tail = 65536;
    for (int matrix = 0; matrix < 2; matrix++) {
        struct plan with, without;
        struct plan_shape shape = {480000, 64, 16, 16, matrix ? 256 : 16};
        plan_choose(&with, &tailed, &shape, "auto");
        tailed.max_tail = 0;
        plan_choose(&without, &tailed, &shape, "auto");
        tailed.max_tail = 65536;
        double a = plan_cost_ns(&with, &tailed, &shape), b = plan_cost_ns(&without, &tailed, &shape);
        check(with.n_tail_levels >= 2 && without.n_tail_levels == 0, "%d and %d tail levels", with.n_tail_levels,
              without.n_tail_levels);
        check(a < 0.2 * b, "%g ns a frame with tail levels, %g without", a, b);
    }
}

static void same_question_same_plan(const char *backend)
{
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

/* A GPU like an H200, and one whose memory is read at a tenth of its rate. */
static struct plan_costs gpu_like(bool slow_memory)
{
    return (struct plan_costs){.min_partition = 32,
                               .max_partition = 4096,
                               .max_tail = 8192,
                               .fir_first = true,
                               .mac_ns = 6e-5,
                               .cmac_ns = 1e-4,
                               .live_cmac_ns = slow_memory ? 2.2e-2 : 2.2e-3,
                               .input_share = 0.8,
                               .fft_ns = 5e-4,
                               .launch_ns = 1500,
                               .slice_ns = 1000,
                               .call_ns = 13000,
                               .file_block = 262144};
}

/* A wide matrix in blocks that no partition divides has a short head: on a GPU each call convolves the first partition
 * in the time domain. A stereo engine has the long one all the same, and a file, whose calls are whole partitions. */
static void a_first_partition_in_the_time_domain_is_counted(const char *backend)
{
    struct plan_costs gpu = gpu_like(false), blind = gpu;
    blind.fir_first = false;
    for (int block = 1025; block <= 8193; block = 2 * block - 1) {
        struct plan_shape wide = {12000, block, 64, 64, 64 * 64}, stereo = {48000, block, 2, 2, 2};
        struct plan_shape file = {12000, 0, 64, 64, 64 * 64};
        struct plan p, unseen;
        plan_choose(&unseen, &blind, &wide, "auto");
        plan_choose(&p, &gpu, &wide, "auto");
        check(!unseen.direct && unseen.partition >= 1024 && p.hop <= 256, "block %d: partitions of %d, hop of %d",
              block, unseen.partition, p.hop);
        double difference = plan_cost_ns(&unseen, &gpu, &wide) - plan_cost_ns(&unseen, &blind, &wide);
        check(difference > 0.9 * gpu.mac_ns * unseen.partition * wide.n_routes, "block %d: %g ns", block, difference);
        plan_choose(&p, &gpu, &stereo, "auto");
        check(!p.direct && p.partition >= 1024, "stereo, block %d: partitions of %d", block, p.partition);
        check(plan_cost_ns(&p, &gpu, &file) == plan_cost_ns(&p, &blind, &file), "a file costs more");
    }
}

/* A block that is a multiple of the hop transforms it for the first partition too, if that costs less than its taps. */
static void whole_hops_are_transformed_where_it_pays(const char *backend)
{
    static const struct { int taps, block, side; bool whole;
    } cases[] = {{2000, 4096, 256, true}, {48000, 1024, 64, true},  {2000, 512, 64, true},  {20000, 4096, 8, true},
                 {3000, 4096, 8, true},   {48000, 4095, 64, false}, {48000, 64, 64, false}, {48000, 64, 2, false},
                 {48000, 256, 64, false}, {48000, 64, 512, false}};
    struct plan_costs gpu = gpu_like(false);
    for (int i = 0; i < (int)(sizeof cases / sizeof *cases); i++) {
        const int side = cases[i].side;
        struct plan_shape shape = {cases[i].taps, cases[i].block, side, side, side * side};
        struct plan p;
        plan_choose(&p, &gpu, &shape, "auto");
        check(p.whole_hops == cases[i].whole, "%d x %d, %d taps, block %d: %s", side, side, cases[i].taps,
              cases[i].block, p.whole_hops ? "whole hops are transformed" : "they are not");
    }
    struct plan_shape shape = {48000, 1024, 64, 64, 64 * 64};
    struct plan p;
    plan_choose(&p, backend_cpu.costs, &shape, "auto");
    check(!p.whole_hops, "of a GPU only");
}

/* The same work costs more there, and it is cut so that less is read of memory than by the fast one's plan. */
static void slow_memory_is_read_less(const char *backend)
{
    struct plan_costs fast = gpu_like(false), slow = gpu_like(true);
    int less = 0, n = 0;
    for (int side = 1; side <= 256; side *= 2)
        for (int block = 16; block <= 1024; block *= 2)
            for (int taps = 4800; taps <= 480000; taps *= 10, n++) {
                struct plan of_fast, of_slow;
                struct plan_work work_fast, work_slow;
                struct plan_shape shape = {taps, block, side, side, side * side};
                plan_choose(&of_fast, &fast, &shape, "auto");
                plan_choose(&of_slow, &slow, &shape, "auto");
                plan_count(&of_fast, &shape, &work_fast);
                plan_count(&of_slow, &shape, &work_slow);
                double on_fast = plan_cost_ns(&of_fast, &fast, &shape), on_slow = plan_cost_ns(&of_slow, &slow, &shape);
                double unfit = plan_cost_ns(&of_fast, &slow, &shape);
                check(on_fast <= on_slow && on_slow <= 10 * on_fast, "%d x %d, %d taps, block %d: %g and %g ns", side,
                      side, taps, block, on_fast, on_slow);
                check(on_slow <= unfit, "%d x %d, %d taps, block %d: %g ns, and %g by the fast one's plan", side, side,
                      taps, block, on_slow, unfit);
                check_plan(&of_slow, &slow, taps, block, "auto");
                less += on_slow < 0.9 * unfit && work_slow.bytes < work_fast.bytes;
            }
    check(less >= n / 10, "%d of %d plans read less and are cheaper by a tenth", less, n);
}

static double cost_of(const struct plan_costs *costs, const struct plan_shape *shape, struct plan_work *work)
{
    struct plan p;
    plan_choose(&p, costs, shape, "auto");
    plan_count(&p, shape, work);
    check_plan(&p, costs, shape->max_taps, shape->block, "auto");
    return plan_cost_ns(&p, costs, shape);
}

/* Thousands of channels that share no input read as much of their inputs' spectra as of their responses': they are cut
 * so that less is read. A matrix reads an input once for many routes: its plan stays. */
static void inputs_of_their_own_are_counted(const char *backend)
{
    struct plan_costs gpu = gpu_like(false), blind = gpu;
    blind.input_share = 0;
    for (int n = 4096; n <= 65536; n *= 2) {
        struct plan_shape shape = {48000, 64, n, n, n};
        struct plan_work seen, unseen;
        double ns = cost_of(&gpu, &shape, &seen), less_ns = cost_of(&blind, &shape, &unseen);
        check(seen.bytes < 0.8 * unseen.bytes, "%d channels: %g bytes a frame, and %g with inputs for nothing", n,
              seen.bytes, unseen.bytes);
        check(less_ns < ns && ns < 1.8 * less_ns, "%d channels: %g ns a frame, %g with inputs for nothing", n, ns,
              less_ns);
    }
    for (int n = 64; n <= 512; n *= 2) {
        struct plan_shape shape = {48000, 64, n, n, n * n}, few = {48000, 64, 16 * n, n, n};
        struct plan_work seen, unseen;
        double ns = cost_of(&gpu, &shape, &seen), less_ns = cost_of(&blind, &shape, &unseen);
        check(seen.bytes == unseen.bytes, "%d x %d: %g bytes a frame, and %g with inputs for nothing", n, n, seen.bytes,
              unseen.bytes);
        check(ns < 1.02 * less_ns, "%d x %d: %g ns a frame, %g with inputs for nothing", n, n, ns, less_ns);
        ns = cost_of(&gpu, &few, &seen), less_ns = cost_of(&blind, &few, &unseen);
        check(ns < 1.3 * less_ns, "%d routes of %d inputs: %g ns a frame, %g with inputs for nothing", n, 16 * n, ns,
              less_ns);
    }
}

static double plan_ns(const struct plan_costs *costs, struct plan_shape shape, bool tail_levels)
{
    struct plan p;
    plan_choose(&p, costs, &shape, "auto");
    if (!tail_levels) p.n_tail_levels = 0;
    return plan_cost_ns(&p, costs, &shape);
}

/* The slower a GPU reads its memory the fewer engines it is taken for. The measured way with the lowest cost to the
 * audio thread wins, of three that fit; hybrid must cost less than half of the others. */
static void a_slow_gpu_is_taken_for_less(const char *backend)
{
    enum { GPUS = 3, T = 512 };
    const struct plan_costs *cpu = backend_cpu.costs;
    struct plan_costs gpus[GPUS] = {gpu_like(false), gpu_like(true), gpu_like(true)};
    int n_cpu[GPUS] = {0}, n_cuda[GPUS] = {0};
    gpus[2].live_cmac_ns *= 10;
    for (int i = 0; i < 2 * 2 * 4 * 64; i++) {
        int n = 1 + i % 64, block = 64 << i / 64 % 4, taps = i / 256 % 2 ? 48000 : 480000;
        bool matrix = i / 512, taken[GPUS];
        struct auto_task task = {{taps, block, n, n, matrix ? n * n : n}, "auto", 48000, 0, 1, 0};
        struct plan_shape head = task.shape, tail = task.shape;
        head.max_taps = 2 * T;
        tail.max_taps -= 2 * T;
        tail.block = T;
        double cpu_ns = plan_ns(cpu, task.shape, true), head_ns = plan_ns(cpu, head, true);
        for (int g = 0; g < GPUS; g++) {
            double busy_ns = plan_ns(&gpus[g], task.shape, true), tail_ns = plan_ns(&gpus[g], tail, true);
            double gpu_ns = busy_ns < 1e9 / 48000 ? plan_ns(&gpus[g], task.shape, false) : busy_ns;
            double hybrid_ns = fmax(head_ns, tail_ns < 1e9 / 48000 ? 0 : tail_ns);
            bool is_hybrid = hybrid_ns < 0.5 * fmin(cpu_ns, gpu_ns);
            enum auto_way want = is_hybrid ? AUTO_HYBRID : gpu_ns < cpu_ns ? AUTO_CUDA : AUTO_CPU;
            enum auto_way way = auto_choose(&task, &(struct auto_costs){cpu, &gpus[g], NULL, true});
            taken[g] = way != AUTO_CPU;
            n_cpu[g] += way == AUTO_CPU;
            n_cuda[g] += way == AUTO_CUDA;
            check(way == want, "%d channels, %d taps, block %d: GPU %d: way %d, want %d; %g, %g and %g ns", n, taps,
                  block, g, way, want, cpu_ns, gpu_ns, hybrid_ns);
            way = auto_choose(&task, &(struct auto_costs){cpu, &gpus[g], NULL, false});
            check(way == (cpu_ns * 48000 > 0.33e9 ? want : AUTO_CPU),
                  "%d channels, %d taps, block %d: GPU %d, by costs that nobody measured", n, taps, block, g);
            check(g == 0 || taken[g - 1] || !taken[g], "%d channels, %d taps, block %d: only GPU %d is taken", n, taps,
                  block, g);
        }
        check(auto_probes_gpu(&task, cpu) == (cpu_ns * 48000 >= 0.02e9), "%d channels, %d taps, block %d", n, taps,
              block);
    }
    check(n_cuda[0] > n_cuda[1] && n_cuda[1] > n_cuda[2] && n_cuda[2] > 0, "cuda plays %d, %d and %d engines",
          n_cuda[0], n_cuda[1], n_cuda[2]);
    check(n_cpu[0] <= n_cpu[1] && n_cpu[1] < n_cpu[2], "the CPU plays %d, %d and %d engines", n_cpu[0], n_cpu[1],
          n_cpu[2]);
}

/* The CPU, cuda and hybrid are each the best by some costs: of a GPU whose calls or whose resident kernel are slow, too. */
static void auto_chooses_among_three_ways(const char *backend)
{
    const struct plan_shape narrow = {1000, 64, 2, 2, 2}, wide = {1000, 64, 9, 9, 81}, file = {480000, 0, 4, 4, 16};
    const struct plan_shape long_narrow = {480000, 64, 4, 4, 16}, long_wide = {480000, 64, 9, 9, 81};
    const struct plan_costs kernel = {.call_ns = 6500,
                                      .hop_ns = 1400,
                                      .word_ns = 3.7,
                                      .mac_ns = 7.6e-3,
                                      .far_mac_ns = 4.5e-2,
                                      .max_workers = 64,
                                      .worker_bytes = 225e3};
    struct plan_costs gpu = gpu_like(false), slow_gpu, slow_kernel = kernel, small_kernel = kernel;
    gpu.call_ns = 18000;
    gpu.cmac_ns = 0.05; /* only files have this cost */
    slow_gpu = gpu;
    slow_gpu.call_ns = 1.1e7; /* longer than a block of hybrid's tail */
    slow_kernel.call_ns = 16000;
    small_kernel.max_workers = 1;
    const struct {
        const char *name;
        const struct plan_shape *shape;
        const struct plan_costs *gpu, *kernel;
        enum auto_way want;
    } cases[] = {
        {"a short response", &narrow, &gpu, &kernel, AUTO_CPU},
        {"long responses", &long_narrow, &gpu, &kernel, AUTO_HYBRID},
        {"long responses, slow calls", &long_narrow, &slow_gpu, &kernel, AUTO_CPU},
        {"many long responses", &long_wide, &gpu, &kernel, AUTO_CUDA},
        {"many short responses", &wide, &gpu, &kernel, AUTO_CUDA},
        {"many short responses, a slow kernel", &wide, &gpu, &slow_kernel, AUTO_CPU},
        {"many short responses, a kernel of one worker", &wide, &gpu, &small_kernel, AUTO_CPU},
        {"many short responses, launches", &wide, &gpu, NULL, AUTO_CPU},
        {"a file", &file, &gpu, &kernel, AUTO_CUDA},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct auto_task task = {*cases[i].shape, "auto", 48000, 0, 1, 0};
        struct auto_costs costs = {backend_cpu.costs, cases[i].gpu, cases[i].kernel, true};
        enum auto_way way = auto_choose(&task, &costs);
        check(way == cases[i].want, "%s: way %d, want %d", cases[i].name, way, cases[i].want);
    }
}

/* A GPU is started for a file if all processors of the CPU would take two seconds or more, and longer than the GPU. */
static void a_file_must_be_long_for_a_gpu(const char *backend)
{
    struct plan_costs gpu = gpu_like(true);
    struct auto_task file = {{480000, 0, 64, 64, 64 * 64}, "auto", 48000, 48000, 1, 0};
    struct plan p;
    plan_choose(&p, backend_cpu.costs, &file.shape, "auto");
    double cpu_ns = plan_cost_ns(&p, backend_cpu.costs, &file.shape);
    for (int processors = 1; processors <= 64; processors *= 8)
        for (int seconds = 1; seconds <= 100; seconds *= 10) {
            file.n_processors = processors;
            file.n_frames = (int64_t)(seconds * 1e9 * processors / cpu_ns) + 1;
            check(auto_probes_gpu(&file, backend_cpu.costs) == (seconds > 2), "%d s on %d processors", seconds,
                  processors);
        }
    file.n_processors = 1;
    file.n_frames = (int64_t)(1e10 / cpu_ns);
    check(auto_choose(&file, &(struct auto_costs){backend_cpu.costs, &gpu, NULL, false}) == AUTO_CUDA,
          "ten seconds of the CPU are not worth a GPU");
    file.n_processors = 1 << 20;
    check(auto_choose(&file, &(struct auto_costs){backend_cpu.costs, &gpu, NULL, true}) == AUTO_CPU,
          "ten microseconds are worth a GPU");
}

/* Steered sources go to a GPU once they keep one of two processors busy, also if nobody has measured a cost. */
static void many_steered_sources_take_a_gpu(const char *backend)
{
    struct plan_costs gpu = gpu_like(true);
    struct scene_plan scene;
    scene_plan_make(&scene, 48000, 64, 64, 24000);
    for (int n = 1; n <= 8192; n *= 2) {
        struct auto_task task = {{1, 64, n, 2, n}, "auto", 48000, 0, 1, scene_cpu_ns(&scene, n, 2)};
        check(task.sources_ns > 0, "%d sources cost %g ns", n, task.sources_ns);
        check(auto_probes_gpu(&task, backend_cpu.costs) == (n > 128), "%d sources: %g ns a frame", n, task.sources_ns);
        enum auto_way way = auto_choose(&task, &(struct auto_costs){backend_cpu.costs, &gpu, NULL, false});
        check(way == (n > 128 ? AUTO_CUDA : AUTO_CPU), "%d sources", n);
    }
}

/* The work for a frame grows with the logarithm of a mask's length, on the CPU: its partitions grow with the mask. Their
 * memory remains a share of that of the mask. Blocks of short masks, of wide matrices and of a GPU do not grow. */
static void masks_of_minutes_get_long_partitions(const char *backend)
{
    const struct plan_costs *files = backend_cpu.files->costs, gpu = gpu_like(false);
    for (int seconds = 1; seconds <= 1200; seconds += seconds < 60 ? 7 : 60)
        for (int n = 1; n <= 64; n *= 4) {
            struct plan p;
            struct plan_shape shape = {48000 * seconds, 0, n, n, n};
            plan_choose(&p, files, &shape, "auto");
            check_plan(&p, files, shape.max_taps, 0, "auto");
            check(p.n_partitions <= 64, "%d s, %d channels: %d partitions of %d", seconds, n, p.n_partitions,
                  p.partition);
            check(p.block <= 262144 || p.block <= shape.max_taps / 4, "%d s, %d channels: a block of %d", seconds, n,
                  p.block);
            check(p.block % (4 * p.partition) == 0, "%d s, %d channels: a block of %d, partitions of %d", seconds, n,
                  p.block, p.partition);
            plan_choose(&p, &gpu, &shape, "auto");
            check(p.block <= gpu.file_block && p.partition <= gpu.max_partition, "a GPU: %d s, %d channels: %d and %d",
                  seconds, n, p.block, p.partition);
        }
}

int main(void)
{
    static const struct test tests[] = {
        TEST(levels_cover_every_tap_once, false),
        TEST(long_responses_get_tail_levels, false),
        TEST(same_question_same_plan, false),
        TEST(auto_takes_the_cheaper, false),
        TEST(slow_memory_is_read_less, false),
        TEST(inputs_of_their_own_are_counted, false),
        TEST(a_first_partition_in_the_time_domain_is_counted, false),
        TEST(whole_hops_are_transformed_where_it_pays, false),
        TEST(a_slow_gpu_is_taken_for_less, false),
        TEST(auto_chooses_among_three_ways, false),
        TEST(a_file_must_be_long_for_a_gpu, false),
        TEST(many_steered_sources_take_a_gpu, false),
        TEST(masks_of_minutes_get_long_partitions, false),
    };
    return check_main("plan", tests, sizeof tests / sizeof *tests);
}
