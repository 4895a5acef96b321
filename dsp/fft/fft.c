#include "fft.h"

#include "dsp/engine/fork_safety.h"
#include "dsp/cpu/memory.h"

#include <math.h>
#include <stdlib.h>

enum { LONG_ROW = 128 }; /* columns: from here on 16 rows take more than a microsecond, and need several stages */

static struct long_fft *all_tables; /* under LOCK_TABLES */

static void unit_root(float *re, float *im, double turn) /* e^(-2 pi i turn) */
{
    *re = (float)cos(2 * M_PI * turn);
    *im = (float)-sin(2 * M_PI * turn);
}

static int log2_of(int n)
{
    int l = 0;
    while (1 << l < n) l++;
    return l;
}

/* Twiddles in the order of the passes (long_fft_simd.c): radix 2 first if log2(n) is odd, then radix 4. */
static float *twiddles_make(int n)
{
    float *table = memory_floats(4 * (size_t)n), *w = table;
    if (!table) return NULL;
    int len = n;
    if (log2_of(n) % 2) {
        for (int j = 0; j < len / 2; j++, w += 2) unit_root(&w[0], &w[1], (double)j / len);
        len /= 2;
    }
    for (; len > 4; len /= 4)
        for (int j = 0; j < len / 4; j++, w += 6)
            for (int q = 1; q < 4; q++) unit_root(&w[2 * q - 2], &w[2 * q - 1], (double)(q * j) / len);
    return table;
}

/* The bin that the passes leave at place i: each pass sorts by one digit, the last digit first. */
static int bin_at(int i, int n)
{
    int bin = 0, step = 1, len = n;
    while (len > 1) {
        int radix = (log2_of(len) % 2) ? 2 : 4;
        len /= radix;
        bin += i / len * step;
        i %= len;
        step *= radix;
    }
    return bin;
}

/* The step twiddles of a row for all columns: those of the first 16 columns times that of each group's first column, so
 * that one value in 16 takes a sine and a cosine. */
static void step_twiddles_fill(struct long_fft *f, int k)
{
    double turn = (bin_at(k, f->n_rows) + 0.25) / f->size; /* 1/4: the factor of e^(-i pi n / 2S) that weights lack */
    double re[LONG_LANES], im[LONG_LANES];
    for (int c = 0; c < LONG_LANES; c++) re[c] = cos(2 * M_PI * turn * c), im[c] = -sin(2 * M_PI * turn * c);
    for (int group = 0; group < f->column_steps; group++) {
        float *t = f->step_twiddles + 2 * LONG_LANES * ((size_t)group * f->n_rows + k);
        double first = 2 * M_PI * turn * LONG_LANES * group, first_re = cos(first), first_im = -sin(first);
        for (int c = 0; c < LONG_LANES; c++) {
            t[c] = (float)(first_re * re[c] - first_im * im[c]);
            t[c + LONG_LANES] = (float)(first_re * im[c] + first_im * re[c]);
        }
    }
}

static void tables_free(struct long_fft *f)
{
    free(f->weights);
    free(f->step_twiddles);
    free(f->column_twiddles);
    free(f->row_twiddles);
    free(f);
}

static struct long_fft *tables_make(int size)
{
    struct long_fft *f = calloc(1, sizeof *f);
    if (!f) return NULL;
    f->size = size;
    f->n_rows = 1 << log2_of(size) / 2;
    if (f->n_rows > LONG_MOST_ROWS) f->n_rows = LONG_MOST_ROWS;
    f->n_cols = size / f->n_rows;
    f->n_chunks = size / (LONG_CHUNK / 2);
    f->row_stages = f->n_cols < LONG_ROW ? 1 : log2_of(f->n_cols) % 2 ? 3 : 5;
    f->column_steps = f->n_cols / LONG_LANES;
    f->row_steps = f->n_rows / LONG_LANES * f->row_stages;
    f->weights = memory_floats(2 * (size_t)f->n_rows);
    f->step_twiddles = memory_floats(2 * (size_t)size);
    f->column_twiddles = twiddles_make(f->n_rows);
    f->row_twiddles = twiddles_make(f->n_cols);
    if (!f->weights || !f->step_twiddles || !f->column_twiddles || !f->row_twiddles) {
        tables_free(f);
        return NULL;
    }
    for (int r = 0; r < f->n_rows; r++) unit_root(&f->weights[2 * r], &f->weights[2 * r + 1], r / (4.0 * f->n_rows));
    for (int k = 0; k < f->n_rows; k++) step_twiddles_fill(f, k);
    return f;
}

const struct long_fft *long_fft_get(int size)
{
    global_lock(LOCK_TABLES);
    struct long_fft *f = all_tables;
    while (f && f->size != size) f = f->next;
    if (!f && (f = tables_make(size))) {
        f->next = all_tables;
        all_tables = f;
    }
    if (f) f->uses++;
    global_unlock(LOCK_TABLES);
    return f;
}

void long_fft_put(const struct long_fft *fft)
{
    if (!fft) return;
    global_lock(LOCK_TABLES);
    struct long_fft **link = &all_tables;
    while (*link != fft) link = &(*link)->next;
    struct long_fft *f = *link;
    if (--f->uses == 0) {
        *link = f->next;
        tables_free(f);
    }
    global_unlock(LOCK_TABLES);
}

void long_fft_forward(const struct long_fft *f, const struct simd_long *steps, const float *before, const float *now,
                      float *work, float *spectrum, size_t stride)
{
    for (int i = 0; i < f->column_steps; i++) steps->columns_in(f, work, before, now, i);
    for (int i = 0; i < f->row_steps; i++) steps->rows_in(f, work, spectrum, stride, i);
}

void long_fft_inverse(const struct long_fft *f, const struct simd_long *steps, float *spectrum, float *out)
{
    for (int i = 0; i < f->row_steps; i++) steps->rows_out(f, spectrum, i);
    for (int i = 0; i < f->column_steps; i++) steps->columns_out(f, spectrum, out, i);
}
