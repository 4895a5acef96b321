/* Compares the transforms of tail levels with the discrete transform of 2S real frames in float64, and the inverse
 * with the frames; for few channels, and for so many that a level is launched alone, by another kernel. Launches
 * the products of spectra for as many outputs as an engine can have. */
#include "check.h"
#ifdef HC_WITH_CUDA
#include "kernels/backend/scene_product.h"
#include "kernels/backend/tail_transform_many.h"
#include "kernels/files/partition_kernels.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BINS = 24, CHANNELS = 5, SKIPPED = 2 /* channels before the first that is asked for */ };
static const double pi = 3.14159265358979323846;

static void cuda(cudaError_t status, const char *what)
{
    check(status == cudaSuccess, "%s: %s", what, cudaGetErrorString(status));
}

/* Returns the number of multiprocessors; skips the test without a device. */
static int need_device(void)
{
    const char *only = getenv("HC_TEST_BACKEND");
    int n = 0, n_sm = 0;
    cudaError_t status = cudaGetDeviceCount(&n);
    if (status != cudaSuccess || n < 1) {
        check(!only || strcmp(only, "cuda") != 0, "no CUDA device: %s", cudaGetErrorString(status));
        check_skip("no CUDA device");
    }
    cuda(cudaDeviceGetAttribute(&n_sm, cudaDevAttrMultiProcessorCount, 0), "cudaDeviceGetAttribute");
    cuda(tail_transform_load(0), "tail_transform_load");
    return n_sm;
}

struct level {
    int log2_size, size, n;       /* n channels, behind SKIPPED others                           */
    unsigned ring, from;          /* frames of a ring; the start of the 2S frames, which wrap round its end */
    float *x;                     /* [SKIPPED + n][ring]                                         */
    float2 *tw, *spectra;         /* device; spectra: two entries a channel, the second is used  */
    float *x_device, *due;
};

/* Allocates device memory with a copy of `host`, or of zeros if that is NULL. */
static void *to_device(size_t bytes, const void *host)
{
    void *p;
    cuda(cudaMalloc(&p, bytes), "cudaMalloc");
    cuda(host ? cudaMemcpy(p, host, bytes, cudaMemcpyHostToDevice) : cudaMemset(p, 0, bytes), "filling memory");
    return p;
}

static void level_make(struct level *level, int log2_size, int n, struct random *r)
{
    const int size = 1 << log2_size;
    const size_t rows = (size_t)(SKIPPED + n);
    float2 *tw = must_alloc((size_t)size, sizeof *tw);
    *level = (struct level){.log2_size = log2_size, .size = size, .n = n, .ring = 4u * (unsigned)size};
    level->from = 3u * (unsigned)size - 6;
    level->x = noise(r, (int)(rows * level->ring));
    for (int i = 0; i < size; i++) tw[i] = (float2){(float)cos(pi * i / size), (float)-sin(pi * i / size)};
    level->tw = to_device((size_t)size * sizeof *tw, tw);
    level->x_device = to_device(rows * level->ring * sizeof(float), level->x);
    level->spectra = to_device(rows * 2 * (size_t)size * sizeof(float2), NULL);
    level->due = to_device(rows * 2 * (size_t)size * sizeof(float), NULL);
    free(tw);
}

static void level_drop(struct level *level)
{
    cudaFree(level->due), cudaFree(level->spectra), cudaFree(level->x_device), cudaFree(level->tw);
    free(level->x);
}

static double frame_of(const struct level *level, int ch, int i)
{
    return level->x[(size_t)ch * level->ring + ((level->from + (unsigned)i) & (level->ring - 1))];
}

static void check_bin(const struct level *level, int ch, int bin, float2 got)
{
    const int n = 2 * level->size;
    double re = 0, im = 0, bound = 1e-6 * sqrt(n);
    for (int i = 0; i < n; i++) {
        const double a = pi * (double)((int64_t)bin * i % n) / level->size;
        re += frame_of(level, ch, i) * cos(a);
        if (bin) im -= frame_of(level, ch, i) * sin(a);
        else
            im += frame_of(level, ch, i) * (i % 2 ? -1 : 1); /* bin 0 holds the lowest and the highest frequency */
    }
    check(fabs(got.x - re) <= bound && fabs(got.y - im) <= bound,
          "S %d, channel %d of %d, bin %d: got %.9g %+.9gi, want %.9g %+.9gi", level->size, ch, level->n, bin,
          (double)got.x, (double)got.y, re, im);
}

static void check_spectra(const struct level *level, struct random *r)
{
    const size_t size = (size_t)level->size, all = (size_t)(SKIPPED + level->n) * 2 * size;
    float2 *spectra = must_alloc(all, sizeof *spectra);
    cuda(cudaMemcpy(spectra, level->spectra, all * sizeof *spectra, cudaMemcpyDeviceToHost), "cudaMemcpy");
    for (int i = 0; i < CHANNELS; i++) {
        const int ch = i == 0 ? SKIPPED : i == 1 ? SKIPPED + level->n - 1 : SKIPPED + random_int(r, 0, level->n - 1);
        const float2 *of = spectra + ((size_t)ch * 2 + 1) * size;
        const int some[] = {0, 1, level->size / 8, level->size / 2, level->size - 1};
        for (int b = 0; b < BINS; b++) {
            const int bin = b < 5 ? some[b] : random_int(r, 0, level->size - 1);
            check_bin(level, ch, bin, of[bin]);
        }
    }
    for (size_t i = 0; i < all; i++) { /* nothing else is written */
        const bool is = i / size % 2 && i / (2 * size) >= SKIPPED;
        check(is || (spectra[i].x == 0 && spectra[i].y == 0), "S %zu: a value at %zu of %zu", size, i, all);
    }
    free(spectra);
}

/* Checks that the rings hold, from `at` on, the second half of the frames of every channel, and nothing else. */
static void check_frames(const struct level *level, unsigned at)
{
    const size_t size = (size_t)level->size, all = (size_t)(SKIPPED + level->n) * 2 * size;
    float *due = must_alloc(all, sizeof *due);
    cuda(cudaMemcpy(due, level->due, all * sizeof *due, cudaMemcpyDeviceToHost), "cudaMemcpy");
    for (size_t i = 0; i < all; i++) {
        const int ch = (int)(i / (2 * size));
        const size_t frame = (i - at) % (2 * size);
        const double got = due[i] / (2.0 * level->size),
                     want = ch < SKIPPED || frame >= size ? 0 : frame_of(level, ch, (int)(size + frame));
        check(fabs(got - want) <= 2e-6, "S %zu, channel %d of %d, frame %zu: got %.9g, want %.9g", size, ch, level->n,
              frame, got, want);
    }
    free(due);
}

/* Transforms each level forward and back. */
static void there_and_back(struct level *levels, int n, struct random *r)
{
    for (int l = 0; l < n; l++) {
        struct level *level = &levels[l], *few = &levels[(l + 1) % n];
        struct tail_forwards forwards = {.x = level->x_device, .ring_mask = level->ring - 1, .n = 1};
        forwards.level[0] = (struct tail_forward){level->tw, level->spectra, level->log2_size, SKIPPED, level->n, 1, 2,
                                                 level->from};
        cuda(tail_forward_launch(&forwards, NULL), "tail_forward_launch");
        check_spectra(level, r);
        /* The inverse reads rows of S; here a channel has two, of which the second is filled. */
        float2 *sums = to_device((size_t)(SKIPPED + level->n) * (size_t)level->size * sizeof *sums, NULL);
        const size_t row = (size_t)level->size * sizeof *sums;
        cuda(cudaMemcpy2D(sums, row, level->spectra + level->size, 2 * row, row, (size_t)(SKIPPED + level->n),
                          cudaMemcpyDeviceToDevice), "cudaMemcpy2D");
        const unsigned at = (unsigned)level->size + 10;
        struct tail_inverses inverses = {.n = 2};
        inverses.level[0] = (struct tail_inverse){level->tw, sums, level->due, level->log2_size, SKIPPED, level->n, at};
        /* A second level: one channel of zeros. */
        float *other = to_device(2 * (size_t)few->size * sizeof *other, NULL);
        float2 *zeros = to_device((size_t)few->size * sizeof *zeros, NULL);
        inverses.level[1] = (struct tail_inverse){few->tw, zeros, other, few->log2_size, 0, 1, 0};
        cuda(tail_inverse_launch(&inverses, NULL), "tail_inverse_launch");
        check_frames(level, at);
        cudaFree(zeros), cudaFree(other), cudaFree(sums);
    }
}

static void few_channels_match_reference(const char *backend)
{
    (void)backend;
    need_device();
    struct random r = random_seeded(91);
    enum { SIZES = 9 };
    struct level levels[SIZES];
    for (int i = 0; i < SIZES; i++) level_make(&levels[i], 5 + i, 1 + i % 4, &r);
    there_and_back(levels, SIZES, &r);
    for (int i = 0; i < SIZES; i++) level_drop(&levels[i]);
}

static void many_channels_match_reference(const char *backend)
{
    (void)backend;
    const int n_sm = need_device();
    struct random r = random_seeded(92);
    for (int log2_size = 6; log2_size <= 13; log2_size++) { /* 6 and 13 have no separate kernel */
        struct level level;
        int n = 1;
        while (n < 1 << 20 && !tail_are_many(n, log2_size == 6 ? 7 : log2_size == 13 ? 12 : log2_size, n_sm)) n *= 2;
        while (tail_are_many(n - 1, log2_size, n_sm)) n--;
        check(tail_are_many(n, log2_size, n_sm) == (log2_size > 6 && log2_size < 13), "S %d, %d channels",
              1 << log2_size, n);
        level_make(&level, log2_size, n + 1, &r); /* one more than fill their blocks */
        there_and_back(&level, 1, &r);
        level_drop(&level);
    }
}

/* The first of the outputs has the value `first` in all bins, the last one `last`, the others 0. */
static void check_outputs(const float2 *sums, int n_out, int bins, float first, float last)
{
    const size_t n = (size_t)n_out * (size_t)bins;
    float2 *got = must_alloc(n, sizeof *got);
    cuda(cudaMemcpy(got, sums, n * sizeof *got, cudaMemcpyDeviceToHost), "cudaMemcpy");
    for (size_t i = 0; i < n; i++) {
        const int out = (int)(i / (size_t)bins);
        const float want = out == 0 ? first : out == n_out - 1 ? last : 0;
        check(got[i].x == want && got[i].y == 0, "output %d, bin %zu: got %g %+gi, want %g", out, i % (size_t)bins,
              (double)got[i].x, (double)got[i].y, (double)want);
    }
    free(got);
}

/* All outputs of an engine lie in one launch, although a grid's y and z end at 65535. */
static void every_output_fits_a_launch(const char *backend)
{
    (void)backend;
    const int n_sm = need_device();
    enum { OUTS = 65536, P = 32, BLOCKS = 2 };
    cuda(part_load(), "part_load");
    cuda(scene_product_load(), "scene_product_load");
    float2 spectra[3][P]; /* X, and the response of the first and of the last output */
    for (int i = 0; i < 3 * P; i++) spectra[i / P][i % P] = (float2){(float)(1 + i / P), 0};
    float2 *device = to_device(sizeof spectra, spectra);
    int *first_cell = must_alloc(OUTS + 1, sizeof *first_cell);
    for (int out = 1; out <= OUTS; out++) first_cell[out] = out < OUTS ? 1 : 2;
    const struct part_cell cells[] = {{device + P, 1, 0}, {device + 2 * P, 1, 0}};
    const size_t bytes = (size_t)OUTS * BLOCKS * P * sizeof(float2);
    float2 *sums = to_device(bytes, NULL), *partial = to_device(bytes, NULL);
    struct part_mac mac = {.x = device,
                           .n_entries = 1,
                           .cells = to_device(sizeof cells, cells),
                           .first_cell = to_device((OUTS + 1) * sizeof *first_cell, first_cell),
                           .n_out = OUTS,
                           .max_parts = 1,
                           .sums = sums,
                           .sums_capacity = (size_t)OUTS * BLOCKS,
                           .n_sm = n_sm};
    for (mac.n_blocks = 1; mac.n_blocks <= BLOCKS; mac.n_blocks++) {
        int n_splits = 0;
        cuda(cudaMemset(sums, -1, bytes), "cudaMemset");
        cuda(part_mac_launch(&mac, P, &n_splits, NULL), "part_mac_launch");
        check(n_splits == 1, "%d splits", n_splits);
        check_outputs(sums, OUTS, mac.n_blocks * P, 2, 3);
    }
    /* A piece whose bank has one output: response 1, and one source of weight 1. */
    const struct scene_source source = {.source = 0, .weight = 1};
    const struct scene_piece piece = {.h = (const float *)(device + P), .n_partitions = 1, .n_out = 1, .n = 1};
    struct scene_product product = {.n_lists = 1,
                                    .x = device,
                                    .n_sources = 1,
                                    .n_entries = 1,
                                    .log2_P = 5,
                                    .n_parts = 1,
                                    .n_out = OUTS,
                                    .partial = partial,
                                    .capacity = OUTS,
                                    .sums = sums};
    product.lists[0] = (struct scene_list){
        .n = 1, .pieces = to_device(sizeof piece, &piece), .sources = to_device(sizeof source, &source)};
    cuda(scene_product_launch(&product, NULL), "scene_product_launch");
    check_outputs(sums, OUTS, P, 2, 0);
    cudaFree((void *)product.lists[0].sources), cudaFree((void *)product.lists[0].pieces);
    cudaFree((void *)mac.first_cell), cudaFree((void *)mac.cells);
    cudaFree(partial), cudaFree(sums), cudaFree(device);
    free(first_cell);
}
#else
static void few_channels_match_reference(const char *backend)
{
    (void)backend;
    check_skip("built without CUDA");
}
static void many_channels_match_reference(const char *backend)
{
    (void)backend;
    check_skip("built without CUDA");
}
static void every_output_fits_a_launch(const char *backend)
{
    (void)backend;
    check_skip("built without CUDA");
}
#endif

int main(void)
{
    static const struct test tests[] = {
        {"few_channels_match_reference", few_channels_match_reference, false},
        {"many_channels_match_reference", many_channels_match_reference, false},
        {"every_output_fits_a_launch", every_output_fits_a_launch, false},
    };
    return check_main("transform", tests, sizeof tests / sizeof *tests);
}
