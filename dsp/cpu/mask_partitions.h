/* mask_partitions - a mask on the CPU backends: the partitions of a response that have taps (silent partitions cost
 * nothing), the spectrum of a partition, and the routing. */
#ifndef HALOCONV_MASK_PARTITIONS_H
#define HALOCONV_MASK_PARTITIONS_H

#include "dsp/device/backend.h"
#include "dsp/fft/fft.h"

struct routing {
    int n_cells;
    struct cell *cells; /* sorted by out */
    int *first_cell;    /* [n_out + 1]: cells [first_cell[out], first_cell[out + 1]) are those of an output */
};

/* Copies the cells of a matrix. false: no memory; the caller must call routing_free then, too. [setup] */
bool routing_make(struct routing *routing, const struct matrix *matrix, int n_out);
void routing_free(struct routing *routing);

bool all_zero(const float *x, int n);

/* Finds partitions [*first, *end) of `size` taps: from the first to the last one that has a tap other than 0. */
void partitions_find(const float *taps, int n_taps, int size, int *first, int *end);

/* Transforms n taps, n <= 2 size, to a spectrum scaled by 1 / size, in chunks `stride` floats apart. work: [4 size]. */
void taps_transform(const struct fft *fft, const float *taps, int n, float *work, float *spectrum, size_t stride);
/* Does the same with partition i of a response. */
void partition_transform(const struct fft *fft, const float *taps, int n_taps, int i, float *work, float *spectrum,
                         size_t stride);

#endif
