#include "fft.h"

#include "dsp/base/memory.h"
#include "dsp/base/fork_safety.h"
#include "dsp/base/isa.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

enum { LONG_ROW = 128 }; /* from so many columns on, 16 rows take more than a microsecond: they get several stages */

/* ---- instruction sets -------------------------------------------------------------------------------------------- */

struct build {
    const struct fft_steps *steps;
    const struct fft_products *products;
    const struct fft_short *single[2], *batch[2]; /* [0]: S < 64; [1]: 64 <= S < FFT_LONG */
};

extern const struct fft_steps fft_steps_base, fft_steps_v3, fft_steps_v4;
extern const struct fft_products fft_products_base, fft_products_v3, fft_products_v4;
extern const struct fft_short fft_short_base_4_4;
extern const struct fft_short fft_short_v3_4_4, fft_short_v3_8_8, fft_short_v3_8_4;
extern const struct fft_short fft_short_v4_4_4, fft_short_v4_8_8, fft_short_v4_16_4, fft_short_v4_16_8;

static const struct build builds[] = {
    [ISA_BASELINE] = {&fft_steps_base,
                      &fft_products_base,
                      {&fft_short_base_4_4, &fft_short_base_4_4},
                      {&fft_short_base_4_4, &fft_short_base_4_4}},
#if defined __x86_64__
    [ISA_AVX2] = {&fft_steps_v3,
                  &fft_products_v3,
                  {&fft_short_v3_4_4, &fft_short_v3_8_8},
                  {&fft_short_v3_8_4, &fft_short_v3_8_8}},
    [ISA_AVX512] = {&fft_steps_v4,
                    &fft_products_v4,
                    {&fft_short_v4_4_4, &fft_short_v4_8_8},
                    {&fft_short_v4_16_4, &fft_short_v4_16_8}},
#endif
};

/* ---- tables ------------------------------------------------------------------------------------------------------ */

static struct fft *all_tables; /* under LOCK_TABLES */

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

/* Makes twiddles, in the order of the passes. */
static float *twiddles_make(int n)
{
    float *table = memory_floats(4 * (size_t)n), *w = table;
    if (!table) return NULL;
    for (int len = n, radix = fft_first_radix(n); len > radix; len /= radix, radix = 8)
        for (int j = 0; j < len / radix; j++)
            for (int q = 1; q < radix; q++, w += 2) unit_root(&w[0], &w[1], (double)(q * j) / len);
    return table;
}

/* Returns the bin that the passes leave at position i: each pass sorts by one digit, the last digit first. */
static int bin_at(int i, int n)
{
    int bin = 0, step = 1;
    for (int len = n, radix = fft_first_radix(n); (len /= radix) > 0; radix = 8) {
        bin += i / len * step;
        i %= len;
        step *= radix;
    }
    return bin;
}

/* Fills the step twiddles of row k, in groups of `lanes` columns. Angles add up: a twiddle is that of its group's first
 * column times that of its lane in group 0, so only first columns and group 0 need a sine and a cosine. */
static void step_twiddles_fill(struct fft *f, int lanes, int k)
{
    double turn = (bin_at(k, f->n_rows) + 0.25) / f->size; /* 1/4: the part of e^(-i pi n / 2S) that `weights` lacks */
    double re[FFT_LANES], im[FFT_LANES];
    for (int c = 0; c < lanes; c++) re[c] = cos(2 * M_PI * turn * c), im[c] = -sin(2 * M_PI * turn * c);
    for (int group = 0; group < f->n_cols / lanes; group++) {
        float *t = f->step_twiddles + 2 * (size_t)lanes * ((size_t)group * (size_t)f->n_rows + (size_t)k);
        double first = 2 * M_PI * turn * lanes * group, first_re = cos(first), first_im = -sin(first);
        for (int c = 0; c < lanes; c++) {
            t[c] = (float)(first_re * re[c] - first_im * im[c]);
            t[c + lanes] = (float)(first_re * im[c] + first_im * re[c]);
        }
    }
}

static void tables_free(struct fft *f)
{
    free(f->weights);
    free(f->step_twiddles);
    free(f->column_twiddles);
    free(f->row_twiddles);
    free(f);
}

static struct fft *tables_make(int size, enum isa isa)
{
    const struct build *build = &builds[isa];
    struct fft *f = calloc(1, sizeof *f);
    if (!f) return NULL;
    bool is_long = size >= FFT_LONG;
    f->size = size;
    f->isa = isa;
    f->products = build->products;
    f->chunk = 2 * size < FFT_CHUNK ? 2 * size : FFT_CHUNK;
    f->n_chunks = 2 * size / f->chunk;
    if (is_long) {
        f->steps = build->steps;
        f->n_rows = 1 << log2_of(size) / 2;
        if (f->n_rows > FFT_MAX_ROWS) f->n_rows = FFT_MAX_ROWS;
    } else {
        f->single = build->single[size >= 64];
        f->batch = build->batch[size >= 64];
        f->n_rows = size / f->single->sub;
    }
    f->n_cols = size / f->n_rows;
    f->row_stages = f->n_cols < LONG_ROW ? 1 : 1 + fft_first_radix(f->n_cols);
    f->column_steps = is_long ? f->n_cols / FFT_LANES : 0;
    f->row_steps = is_long ? f->n_rows / FFT_LANES * f->row_stages : 1;
    f->weights = memory_floats(2 * (size_t)f->n_rows);
    f->step_twiddles = memory_floats(2 * (size_t)size);
    f->column_twiddles = twiddles_make(f->n_rows);
    f->row_twiddles = twiddles_make(f->n_cols);
    if (!f->weights || !f->step_twiddles || !f->column_twiddles || !f->row_twiddles) {
        tables_free(f);
        return NULL;
    }
    for (int r = 0; r < f->n_rows; r++) unit_root(&f->weights[2 * r], &f->weights[2 * r + 1], r / (4.0 * f->n_rows));
    for (int k = 0; k < f->n_rows; k++) step_twiddles_fill(f, is_long ? FFT_LANES : f->n_cols, k);
    return f;
}

const struct fft *fft_get(int size)
{
    enum isa isa = isa_best();
    global_lock(LOCK_TABLES);
    struct fft *f = all_tables;
    while (f && (f->size != size || f->isa != isa)) f = f->next;
    if (!f && (f = tables_make(size, isa))) {
        f->next = all_tables;
        all_tables = f;
    }
    if (f) f->uses++;
    global_unlock(LOCK_TABLES);
    return f;
}

void fft_put(const struct fft *fft)
{
    if (!fft) return;
    global_lock(LOCK_TABLES);
    struct fft **link = &all_tables;
    while (*link != fft) link = &(*link)->next;
    struct fft *f = *link;
    if (--f->uses == 0) {
        *link = f->next;
        tables_free(f);
    }
    global_unlock(LOCK_TABLES);
}

/* ---- transforms -------------------------------------------------------------------------------------------------- */

void fft_forward(const struct fft *f, const float *before, const float *now, float *work, float *spectrum,
                 size_t stride)
{
    if (f->single) {
        f->single->in(f, &before, &now, &spectrum);
        return;
    }
    for (int i = 0; i < f->column_steps; i++) f->steps->columns_in(f, work, before, now, i);
    for (int i = 0; i < f->row_steps; i++) f->steps->rows_in(f, work, spectrum, stride, i);
}

void fft_inverse(const struct fft *f, float *spectrum, float *out)
{
    if (f->single) {
        f->single->out(f, (const float *const *)&spectrum, &out);
        return;
    }
    for (int i = 0; i < f->row_steps; i++) f->steps->rows_out(f, spectrum, i);
    for (int i = 0; i < f->column_steps; i++) f->steps->columns_out(f, spectrum, out, i);
}

void fft_forward_batch(const struct fft *f, int n, const float *const *before, const float *const *now, float *work,
                       float *const *spectra, size_t stride)
{
    int i = 0;
    if (f->batch)
        for (; i + f->batch->channels <= n; i += f->batch->channels) f->batch->in(f, before + i, now + i, spectra + i);
    for (; i < n; i++) fft_forward(f, before[i], now[i], work, spectra[i], stride);
}

void fft_inverse_batch(const struct fft *f, int n, float *const *spectra, float *const *out)
{
    int i = 0;
    if (f->batch)
        for (; i + f->batch->channels <= n; i += f->batch->channels)
            f->batch->out(f, (const float *const *)(spectra + i), out + i);
    for (; i < n; i++) fft_inverse(f, spectra[i], out[i]);
}
