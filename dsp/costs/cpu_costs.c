#include "cpu_costs.h"

#include "dsp/cpu/memory.h"
#include "dsp/cpu/simd.h"
#include "dsp/engine/await.h"
#include "dsp/fft/fft.h"
#include "haloconv.h"

#include <math.h>
#include <stdlib.h>

enum {
    TAPS = 512,
    FRAMES = 64,    /* of a block */
    PARTITION = 64, /* of the head */
    PARTITIONS = 8,
    SIZE = 2048, /* of a partition of a tail level */
    TAIL_PARTITIONS = 8,
    CHUNKS = 512, /* TAIL_PARTITIONS KiB each, twice: more than a core's own cache, less than the shared one */
    ROUNDS = 5,
};

static const int64_t round_ns = 1000000; /* a round runs a loop for at least this time; the fastest of ROUNDS counts */

struct loop_data {
    const struct simd *simd;
    const struct fft *fft, *tail_fft;
    float *a, *b, *c;
    int next;
};

/* Nanoseconds for one run: the mean of the fastest round. */
static double time_of(void (*run)(struct loop_data *), struct loop_data *s)
{
    double best = INFINITY;
    run(s);
    for (int r = 0; r < ROUNDS; r++) {
        int n = 0;
        int64_t start = now_ns(), spent = 0;
        for (; spent < round_ns; n++) {
            run(s);
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

static void run_products(struct loop_data *s)
{
    struct fft_ring product = {s->a, s->b, PARTITIONS - 1, PARTITIONS, PARTITIONS};
    s->fft->products->rings(s->c, &product, 1, false, s->fft->chunk);
}

static void run_fft(struct loop_data *s)
{
    fft_forward(s->fft, s->a, s->a + PARTITION, s->b, s->c, (size_t)s->fft->chunk);
    fft_inverse(s->fft, s->c, s->b);
}

static void run_tail_fft(struct loop_data *s)
{
    fft_forward(s->tail_fft, s->a, s->a + SIZE, s->b, s->c, FFT_CHUNK);
    fft_inverse(s->tail_fft, s->b, s->c);
}

static void run_tail_products(struct loop_data *s)
{
    size_t at = (size_t)s->next * TAIL_PARTITIONS * FFT_CHUNK;
    struct fft_ring product = {s->a + at, s->b + at, TAIL_PARTITIONS / 2, TAIL_PARTITIONS, TAIL_PARTITIONS};
    s->tail_fft->products->rings(s->c, &product, 1, false, FFT_CHUNK);
    s->next = (s->next + 1) % CHUNKS;
}

int cpu_costs_measure(struct plan_costs *costs)
{
    int error = HC_ENOMEM;
    size_t n = (size_t)CHUNKS * TAIL_PARTITIONS * FFT_CHUNK;
    struct loop_data s = {.simd = simd_choose(),
                          .fft = fft_get(PARTITION),
                          .tail_fft = fft_get(SIZE),
                          .a = memory_floats(n),
                          .b = memory_floats(n),
                          .c = memory_floats(4 * SIZE)};
    if (!s.fft || !s.tail_fft || !s.a || !s.b || !s.c) goto end;
    costs->mac_ns = time_of(run_fir, &s) / (TAPS * FRAMES);
    costs->cmac_ns = time_of(run_products, &s) / (PARTITIONS * PARTITION);
    costs->fft_ns = time_of(run_fft, &s) / 2 / (2 * PARTITION * log2(2 * PARTITION));
    costs->tail_fft_ns = time_of(run_tail_fft, &s) / 2 / (2 * SIZE * log2(2 * SIZE));
    /* A mask that fits into no cache takes about twice as long, or more while other programs read memory. Twice the time
     * from the last cache is a steadier figure than a measurement of the memory. */
    costs->tail_cmac_ns = 2 * time_of(run_tail_products, &s) / (TAIL_PARTITIONS * FFT_CHUNK / 2);
    error = HC_OK;
end:
    fft_put(s.fft);
    fft_put(s.tail_fft);
    free(s.a);
    free(s.b);
    free(s.c);
    return error;
}
