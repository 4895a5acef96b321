/* Compares the transforms of tail levels and of responses with a convolution in float64: forward, product, inverse, for
 * all sizes in one launch and for more channels than a thread block holds. Launches the products of spectra for as many
 * outputs as an engine can have. */
#include "check.h"
#ifdef HC_WITH_CUDA
#include "kernels/backend/response_spectra.h"
#include "kernels/backend/scene_product.h"
#include "kernels/backend/tail_transform.h"
#include "kernels/fft/fft_factors.h"
#include "kernels/files/partition_kernels.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    SIZES = 9,                /* 32 to TAIL_SIZE_MAX                                             */
    SKIPPED = 2,              /* channels before the first that is asked for                     */
    RING = 4 * TAIL_SIZE_MAX, /* frames                                                          */
    TAPS = 5                  /* taps of a response that are not 0                               */
};

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
    cuda(tail_transform_load(), "tail_transform_load");
    cuda(response_spectra_load(), "response_spectra_load");
    cuda(cudaDeviceGetAttribute(&n_sm, cudaDevAttrMultiProcessorCount, 0), "cudaDeviceGetAttribute");
    return n_sm;
}

struct level {
    int log2_size, size, n; /* n channels, behind SKIPPED others                               */
    unsigned from, at;      /* start of the 2S frames, which wrap round the ring's end; start of the output */
    int tap[TAPS];
    float gain[TAPS];
    float2 *tw, *spectra, *sums; /* device; spectra: two entries a channel, the second is used      */
    float *due;
};

/* Allocates device memory with a copy of `host`, or of zeros if that is NULL. */
static void *to_device(size_t bytes, const void *host)
{
    void *p;
    cuda(cudaMalloc(&p, bytes), "cudaMalloc");
    cuda(host ? cudaMemcpy(p, host, bytes, cudaMemcpyHostToDevice) : cudaMemset(p, 0, bytes), "filling memory");
    return p;
}

static void *from_device(size_t bytes, const void *device)
{
    void *p = must_alloc(bytes, 1);
    cuda(cudaMemcpy(p, device, bytes, cudaMemcpyDeviceToHost), "cudaMemcpy");
    return p;
}

static void level_make(struct level *level, int log2_size, int n, struct random *r)
{
    const int size = 1 << log2_size;
    const size_t spectra = (size_t)(SKIPPED + n) * (size_t)size * sizeof(float2);
    *level = (struct level){
        .log2_size = log2_size, .size = size, .n = n, .from = RING - (unsigned)size - 7, .at = (unsigned)size + 11};
    for (int i = 0; i < TAPS; i++) {
        level->tap[i] = i == 0 ? 0 : i == 1 ? size - 1 : random_int(r, 0, size - 1);
        level->gain[i] = 0.5f - 0.1f * (float)i;
    }
    level->tw = to_device(fft_factors_bytes(log2_size), NULL);
    cuda(fft_factors_make(level->tw, log2_size, NULL), "fft_factors_make");
    level->spectra = to_device(2 * spectra, NULL);
    level->sums = to_device(spectra, NULL);
    level->due = to_device(spectra, NULL);
}

static void level_drop(struct level *level)
{
    cudaFree(level->due), cudaFree(level->sums), cudaFree(level->spectra), cudaFree(level->tw);
}

/* Returns the spectrum of the level's response, whose taps are the second partition of the second row. */
static float2 *response_of(const struct level *level)
{
    const size_t size = (size_t)level->size, pitch = 2 * size + 2;
    const int counts[] = {1, 2, 0, 1}; /* partitions of each row; index of its first */
    float *taps = must_alloc(2 * pitch, sizeof *taps);
    for (int i = 0; i < TAPS; i++) taps[pitch + 1 + size + (size_t)level->tap[i]] += level->gain[i];
    float *taps_device = to_device(2 * pitch * sizeof *taps, taps);
    int *counts_device = to_device(sizeof counts, counts);
    float2 *spectra = to_device(3 * size * sizeof *spectra, NULL);
    const struct response_spectra job = {.taps = taps_device,
                                         .pitch = pitch,
                                         .n_rows = 2,
                                         .n_taps = (int)pitch,
                                         .offset = 1,
                                         .hop = level->size,
                                         .n_parts = 2,
                                         .parts_of_row = counts_device,
                                         .part_at = counts_device + 2,
                                         .log2_P = level->log2_size,
                                         .spectra = spectra,
                                         .tw = level->tw};
    cuda(response_spectra_launch(&job, NULL), "response_spectra_launch");
    float2 *all = from_device(3 * size * sizeof *all, spectra), *h = must_alloc(size, sizeof *h);
    for (size_t i = 0; i < 2 * size; i++)
        check(all[i].x == 0 && all[i].y == 0, "S %zu: the spectrum of zeros has a value at %zu", size, i);
    memcpy(h, all + 2 * size, size * sizeof *h);
    cudaFree(spectra), cudaFree(counts_device), cudaFree(taps_device);
    free(all), free(taps);
    return h;
}

/* Multiplies the spectra of all channels by the response's. */
static void multiply(const struct level *level)
{
    const size_t size = (size_t)level->size, rows = (size_t)(SKIPPED + level->n);
    float2 *x = from_device(2 * rows * size * sizeof *x, level->spectra), *h = response_of(level);
    float2 *sums = must_alloc(rows * size, sizeof *sums);
    for (size_t i = 0; i < 2 * rows * size; i++) {
        const size_t row = i / (2 * size), k = i % size;
        if (i / size % 2 && row >= SKIPPED)
            sums[row * size + k] = (float2){x[i].x * h[k].x - x[i].y * h[k].y, x[i].x * h[k].y + x[i].y * h[k].x};
        else
            check(x[i].x == 0 && x[i].y == 0, "S %zu: a value at %zu, which is not asked for", size, i);
    }
    cuda(cudaMemcpy(level->sums, sums, rows * size * sizeof *sums, cudaMemcpyHostToDevice), "cudaMemcpy");
    free(sums), free(h), free(x);
}

/* Checks that the rings hold, from `at` on, the convolution of the second half of the frames, and nothing else. */
static void check_frames(const struct level *level, const float *x)
{
    const size_t size = (size_t)level->size, all = (size_t)(SKIPPED + level->n) * 2 * size;
    float *due = from_device(all * sizeof *due, level->due);
    for (size_t i = 0; i < all; i++) {
        const size_t ch = i / (2 * size), frame = (i - level->at) % (2 * size);
        double want = 0;
        for (int k = 0; k < TAPS && ch >= SKIPPED && frame < size; k++) {
            const unsigned at = level->from + (unsigned)(size + frame) - (unsigned)level->tap[k];
            want += (double)level->gain[k] * (double)x[ch * RING + (at & (RING - 1))];
        }
        check(fabs(due[i] - want) <= 2e-6, "S %zu, channel %zu of %d, frame %zu: got %.9g, want %.9g", size, ch,
              level->n, frame, (double)due[i], want);
    }
    free(due);
}

/* Convolves the channels of all levels, in one launch a step. */
static void levels_match(struct level *levels, int n, struct random *r)
{
    int rows = 0;
    for (int l = 0; l < n; l++) rows = SKIPPED + levels[l].n > rows ? SKIPPED + levels[l].n : rows;
    float *x = noise(r, rows * RING);
    float *x_device = to_device((size_t)rows * RING * sizeof *x, x);
    struct tail_forwards forwards = {.x = x_device, .ring_mask = RING - 1, .n = n};
    struct tail_inverses inverses = {.n = n};
    for (int l = 0; l < n; l++) {
        const struct level *of = &levels[l];
        forwards.level[l] = (struct tail_forward){of->tw, of->spectra, of->log2_size, SKIPPED, of->n, 1, 2, of->from};
        inverses.level[l] = (struct tail_inverse){of->tw, of->sums, of->due, of->log2_size, SKIPPED, of->n, of->at};
    }
    cuda(tail_forward_launch(&forwards, NULL), "tail_forward_launch");
    for (int l = 0; l < n; l++) multiply(&levels[l]);
    cuda(tail_inverse_launch(&inverses, NULL), "tail_inverse_launch");
    for (int l = 0; l < n; l++) check_frames(&levels[l], x);
    cudaFree(x_device);
    free(x);
}

static void all_sizes_in_one_launch_match_reference(const char *backend)
{
    (void)backend;
    need_device();
    struct random r = random_seeded(91);
    struct level levels[SIZES];
    for (int i = 0; i < SIZES; i++) level_make(&levels[i], 13 - i, 1 + i % 4, &r);
    levels_match(levels, SIZES, &r);
    for (int i = 0; i < SIZES; i++) level_drop(&levels[i]);
}

static void many_channels_match_reference(const char *backend)
{
    (void)backend;
    need_device();
    struct random r = random_seeded(92);
    for (int log2_size = 5; log2_size <= 13; log2_size++) {
        struct level level;
        level_make(&level, log2_size, 2 * fft_teams(log2_size, fft_threads(log2_size)) + 1, &r);
        levels_match(&level, 1, &r);
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
static void all_sizes_in_one_launch_match_reference(const char *backend)
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
        {"all_sizes_in_one_launch_match_reference", all_sizes_in_one_launch_match_reference, false},
        {"many_channels_match_reference", many_channels_match_reference, false},
        {"every_output_fits_a_launch", every_output_fits_a_launch, false},
    };
    return check_main("transform", tests, sizeof tests / sizeof *tests);
}
