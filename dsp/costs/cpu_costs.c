#include "cpu_costs.h"

#include "dsp/cpu/fft.h"
#include "dsp/cpu/long_fft.h"
#include "dsp/cpu/memory.h"
#include "dsp/cpu/simd.h"
#include "haloconv.h"

#include <math.h>
#include <stdlib.h>
#include <time.h>

enum {
    TAPS = 512,
    FRAMES = 64,    /* of a block */
    PARTITION = 64, /* of the near level */
    PARTITIONS = 8,
    SIZE = 2048, /* of a far level */
    WINDOWS = 8,
    FAR_CHUNKS = 512, /* WINDOWS KiB each, twice: past a core's own cache, within what it shares */
    ROUNDS = 5,
};

static const double round_s = 1e-3; /* at least so long is each loop timed; the best of ROUNDS counts */

struct subject {
    const struct simd *simd;
    struct fft *fft;
    const struct long_fft *long_fft;
    float *a, *b, *c;
    int next;
};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Nanoseconds of one run. */
static double time_of(void (*run)(struct subject *), struct subject *s)
{
    double best = INFINITY;
    run(s);
    for (int r = 0; r < ROUNDS; r++) {
        int n = 0;
        double start = now(), spent = 0;
        for (; spent < round_s; n++) {
            run(s);
            spent = now() - start;
        }
        best = fmin(best, spent / n);
    }
    return 1e9 * best;
}

static void run_fir(struct subject *s)
{
    s->simd->fir(s->c, s->a + TAPS, s->b, FRAMES, TAPS);
}

static void run_cmac(struct subject *s)
{
    size_t stride = 2 * PARTITION + 2 * SIMD_PAD;
    s->simd->cmac(s->c, s->a + (PARTITIONS - 1) * stride, s->b, stride, PARTITIONS, 1, PARTITION + SIMD_PAD / 2);
}

static void run_fft(struct subject *s)
{
    fft_forward(s->fft, s->a, s->c);
    fft_inverse(s->fft, s->c, s->b);
}

static void run_long_fft(struct subject *s)
{
    const struct long_fft *f = s->long_fft;
    const struct simd_long *pieces = s->simd->pieces;
    for (int i = 0; i < f->column_pieces; i++) pieces->columns_in(f, s->b, s->a, s->a + SIZE, i);
    for (int i = 0; i < f->row_pieces; i++) pieces->rows_in(f, s->b, s->c, LONG_CHUNK, i);
    for (int i = 0; i < f->row_pieces; i++) pieces->rows_out(f, s->b, i);
    for (int i = 0; i < f->column_pieces; i++) pieces->columns_out(f, s->b, s->c, i);
}

static void run_products(struct subject *s)
{
    size_t at = (size_t)s->next * WINDOWS * LONG_CHUNK;
    struct long_product product = {s->a + at, s->b + at, WINDOWS / 2, WINDOWS, WINDOWS};
    s->simd->pieces->products(s->c, &product, 1, false);
    s->next = (s->next + 1) % FAR_CHUNKS;
}

int cpu_costs_measure(struct plan_costs *costs)
{
    int error = HC_ENOMEM;
    size_t n = (size_t)FAR_CHUNKS * WINDOWS * LONG_CHUNK;
    struct subject s = {
        .simd = simd_choose(), .a = memory_floats(n), .b = memory_floats(n), .c = memory_floats(4 * SIZE)};
    if (!s.a || !s.b || !s.c) goto end;
    costs->mac_ns = time_of(run_fir, &s) / (TAPS * FRAMES);
    costs->cmac_ns = time_of(run_cmac, &s) / (PARTITIONS * (PARTITION + 1));
    if (fft_library()) {
        s.fft = fft_open(2 * PARTITION, true);
        s.long_fft = long_fft_get(SIZE);
        if (!s.fft || !s.long_fft) goto end;
        costs->fft_ns = time_of(run_fft, &s) / 2 / (2 * PARTITION * log2(2 * PARTITION));
        costs->far_fft_ns = time_of(run_long_fft, &s) / 2 / (2 * SIZE * log2(2 * SIZE));
        /* A mask that does not fit into any cache takes about twice as long, or more while others read memory too: to
         * double what the last cache gives is a steadier measure than to wait for the memory itself. */
        costs->far_cmac_ns = 2 * time_of(run_products, &s) / (WINDOWS * LONG_CHUNK / 2);
    }
    error = HC_OK;
end:
    fft_close(s.fft);
    long_fft_put(s.long_fft);
    free(s.a);
    free(s.b);
    free(s.c);
    return error;
}
