#include "cpu_costs.h"

#include "dsp/base/memory.h"
#include "simd.h"
#include "dsp/base/await.h"
#include "dsp/fft/fft.h"
#include "haloconv.h"

#include <math.h>
#include <stdlib.h>

/* ---- built in -------------------------------------------------------------------------------------------------- */

/* Measured on an EPYC (Zen 5). For files only the ratios matter: one read of a spectrum serves FFT_BLOCKS blocks. */
const struct plan_costs cpu_costs = {
    .mac_ns = 0.016,
    .cmac_ns = 0.3,
    .fft_ns = 0.058,
    .tail_fft_ns = 0.033,
    .tail_cmac_ns = 0.32,
    .launch_ns = 50,
    .slice_ns = 60,
    .call_ns = 100,
    .min_partition = 32,
    .max_partition = 8192,
    .min_tail = FFT_LONG,
    .max_tail = 32768,
    .file_block = 65536,
};
const struct plan_costs cpu_files_costs = {
    .mac_ns = 0.03,
    .cmac_ns = 0.12,
    .fft_ns = 0.03,
    .launch_ns = 500,
    .min_partition = FFT_LONG,
    .max_partition = 1 << 22,
    .file_block = 262144,
    .file_partitions = FFT_BLOCKS,
    .file_share = 4,
};
/* Measured with responses that do not fit into the cache. */
const struct cpu_slice_costs cpu_slice_costs = {.columns_ns = 0.45, .rows_ns = 0.4, .product_ns = 0.32};
const struct cpu_tensor_costs cpu_tensor_costs = {.tap_ns = 0.035, .product_ns = 0.25, .transform_ns = 0.125};
/* Measured on an Intel Ice Lake at 2.8 GHz: products of random entries wait for memory. An EPYC needs a third of it. */
const struct cpu_scene_costs cpu_scene_costs = {.float_ns = 0.38, .transform_ns = 0.16};

/* ---- measured --------------------------------------------------------------------------------------------------- */

enum {
    TAPS = 512,
    FRAMES = 64,    /* frames of a block */
    PARTITION = 64, /* taps of a partition of the head */
    SIZE = 2048,    /* taps of a partition of a tail level */
    PARTITIONS = 8,
    FLOATS = 1 << 20, /* floats of an array. 4 MiB exceed a core's cache and fit into the shared cache */
    ROUNDS = 5,
    RUNS = 16,
};

static const int64_t round_ns = 1000000; /* a round runs a loop for at least this time; the fastest of ROUNDS counts */

/* Each run uses the next range of a and b, so that it finds them in the shared cache only. So does an engine:
 * since the last block, data of other channels and engines have replaced them in the core's cache. */
struct loop_data {
    const struct simd *simd;
    const struct fft *fft, *tail_fft;
    float *a, *b, *c; /* c: [2 * SIZE] */
    size_t at;
};

static size_t loop_data_next(struct loop_data *s, size_t floats)
{
    s->at = s->at + 2 * floats > FLOATS ? 0 : s->at + floats;
    return s->at;
}

/* Returns the nanoseconds of one run: the mean of the fastest round. */
static double time_of(void (*run)(struct loop_data *), struct loop_data *s)
{
    double best = INFINITY;
    run(s);
    for (int r = 0; r < ROUNDS; r++) {
        int n = 0;
        int64_t start = now_ns(), spent = 0;
        for (; spent < round_ns; n += RUNS) { /* reading the clock lasts as long as a short run */
            for (int i = 0; i < RUNS; i++) run(s);
            spent = now_ns() - start;
        }
        best = fmin(best, (double)spent / n);
    }
    return best;
}

static void run_fir(struct loop_data *s)
{
    s->simd->fir(s->c, s->a + TAPS, s->b, FRAMES, TAPS);
}

static void loop_products(struct loop_data *s, const struct fft *fft)
{
    size_t at = loop_data_next(s, PARTITIONS * (size_t)fft->chunk);
    struct fft_ring product = {s->a + at, s->b + at, PARTITIONS / 2, PARTITIONS, PARTITIONS};
    fft->products->rings(s->c, &product, 1, false, fft->chunk);
}
static void run_products(struct loop_data *s)
{
    loop_products(s, s->fft);
}
static void run_tail_products(struct loop_data *s)
{
    loop_products(s, s->tail_fft);
}

static void transform(struct loop_data *s, const struct fft *fft)
{
    size_t size = (size_t)fft->size, at = loop_data_next(s, 2 * size);
    fft_forward(fft, s->a + at, s->a + at + size, s->c, s->b + at, (size_t)fft->chunk);
    fft_inverse(fft, s->b + at, s->c);
}
static void run_fft(struct loop_data *s)
{
    transform(s, s->fft);
}
static void run_tail_fft(struct loop_data *s)
{
    transform(s, s->tail_fft);
}

int cpu_costs_measure(struct plan_costs *costs)
{
    int error = HC_ENOMEM;
    struct loop_data s = {.simd = simd_choose(),
                          .fft = fft_get(PARTITION),
                          .tail_fft = fft_get(SIZE),
                          .a = memory_floats(FLOATS),
                          .b = memory_floats(FLOATS),
                          .c = memory_floats(2 * (size_t)SIZE)};
    if (!s.fft || !s.tail_fft || !s.a || !s.b || !s.c) goto end;
    /* memory: reading uncached data lasts about twice as long as reading from the shared cache, longer while other
     * programs read memory. This fixed factor is steadier than a measurement. */
    const double memory = 2, transforms = 2;
    costs->mac_ns = time_of(run_fir, &s) / (TAPS * FRAMES);
    costs->cmac_ns = memory * time_of(run_products, &s) / (PARTITIONS * PARTITION);
    costs->fft_ns = memory * time_of(run_fft, &s) / transforms / (2 * PARTITION * log2(2 * PARTITION));
    costs->tail_fft_ns = memory * time_of(run_tail_fft, &s) / transforms / (2 * SIZE * log2(2 * SIZE));
    costs->tail_cmac_ns = memory * time_of(run_tail_products, &s) / (PARTITIONS * FFT_CHUNK / 2);
    error = HC_OK;
end:
    fft_put(s.fft);
    fft_put(s.tail_fft);
    free(s.a);
    free(s.b);
    free(s.c);
    return error;
}
