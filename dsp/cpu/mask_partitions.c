#include "mask_partitions.h"

#include <stdlib.h>
#include <string.h>

bool routing_make(struct routing *routing, const struct matrix *matrix, int n_out)
{
    routing->n_cells = matrix->n_cells;
    routing->cells = calloc((size_t)matrix->n_cells + 1, sizeof *routing->cells);
    routing->first_cell = calloc((size_t)n_out + 1, sizeof *routing->first_cell);
    if (!routing->cells || !routing->first_cell) return false;
    memcpy(routing->cells, matrix->cells, (size_t)matrix->n_cells * sizeof *routing->cells);
    for (int c = 0; c < matrix->n_cells; c++) routing->first_cell[matrix->cells[c].out + 1]++;
    for (int out = 0; out < n_out; out++) routing->first_cell[out + 1] += routing->first_cell[out];
    return true;
}

void routing_free(struct routing *routing)
{
    free(routing->cells);
    free(routing->first_cell);
}

bool all_zero(const float *x, int n)
{
    for (int k = 0; k < n; k++)
        if (x[k] != 0) return false;
    return true;
}

/* Returns the number of taps of partition i; the last partition of a response may have fewer than `size`. */
static int taps_of(int n_taps, int size, int i)
{
    return n_taps - i * size < size ? n_taps - i * size : size;
}

void partitions_find(const float *taps, int n_taps, int size, int *first, int *end)
{
    *first = 0;
    *end = n_taps > 0 ? (n_taps - 1) / size + 1 : 0;
    while (*end > 0 && all_zero(taps + (*end - 1) * size, taps_of(n_taps, size, *end - 1))) --*end;
    while (*first < *end && all_zero(taps + *first * size, taps_of(n_taps, size, *first))) ++*first;
}

void taps_transform(const struct fft *fft, const float *taps, int n, float *work, float *spectrum, size_t stride)
{
    int size = fft->size;
    float *frames = work + 2 * (size_t)size, scale = 1.0f / (float)size;
    for (int k = 0; k < n; k++) frames[k] = taps[k] * scale;
    memset(frames + n, 0, (size_t)(2 * size - n) * sizeof(float));
    fft_forward(fft, frames, frames + size, work, spectrum, stride);
}

void partition_transform(const struct fft *fft, const float *taps, int n_taps, int i, float *work, float *spectrum,
                         size_t stride)
{
    taps_transform(fft, taps + i * fft->size, taps_of(n_taps, fft->size, i), work, spectrum, stride);
}
