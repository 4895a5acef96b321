/* mask_partitions - a mask as the CPU backends keep it: which partitions of a response have taps (silent ones
 * cost nothing), the spectrum of a partition, and the routing. */
#ifndef HALOCONV_MASK_PARTITIONS_H
#define HALOCONV_MASK_PARTITIONS_H

#include "dsp/device/backend.h"
#include "dsp/fft/fft.h"

struct routing {
    int n_cells;
    struct cell *cells; /* sorted by out */
    int *first_cell;    /* [n_out + 1]: cells [first_cell[out], first_cell[out + 1]) are those of an output */
};

/* Copies the cells of a matrix. false: no memory; routing_free is due all the same. [setup] */
bool routing_make(struct routing *routing, const struct matrix *matrix, int n_out);
void routing_free(struct routing *routing);

bool all_zero(const float *x, int n);

/* Partitions [*first, *end) of `size` taps each, from the first to the last that has a tap other than 0. */
void partitions_find(const float *taps, int n_taps, int size, int *first, int *end);

/* n <= 2 size taps -> spectrum, scaled by 1 / fft->size, in chunks `stride` floats apart. work: [4 size]. */
void taps_transform(const struct fft *fft, const float *taps, int n, float *work, float *spectrum, size_t stride);
/* The same for partition i. */
void partition_transform(const struct fft *fft, const float *taps, int n_taps, int i, float *work, float *spectrum,
                         size_t stride);

#endif
