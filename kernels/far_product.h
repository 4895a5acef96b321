/* far_product - sums of products of spectra for the far levels of a plan. Picture and cost in far_product.cu. */
#ifndef HALOCONV_FAR_PRODUCT_H
#define HALOCONV_FAR_PRODUCT_H

#include "far_transform.h"

enum {
    FAR_OUTS = 4,                    /* outputs of a group: they share what is read of an input                      */
    FAR_BINS = 64                    /* bins of a unit: two a lane                                                   */
};

struct far_terms {                   /* what one input adds to a group of outputs                                    */
    const float2 *h[FAR_OUTS];       /* [n_parts][S]                                                                 */
    int n_parts[FAR_OUTS];           /* 0 = no response                                                              */
    int most_parts, in;
};

/* A unit is FAR_BINS bins of one group; unit u: bins u / n_groups, group u % n_groups.
 *   sums[out][bin] = sum over the terms of the group and parts p < n_windows of X[in][slot - p][bin] H[p][bin] */
struct far_product {
    const struct far_terms *terms;
    const int *first;                /* [n_groups + 1]: the terms of a group                                         */
    const float2 *x;                 /* [n_in][n_slots][S]                                                           */
    float2 *sums;                    /* [n_out][S]                                                                   */
    int log2_size, slot, n_slots;
    int n_windows;                   /* windows that there have been: what is older is silence                       */
    int n_groups, n_out;
    int first_unit, n_units;
    int most_terms, most_parts;      /* of a group, of a term: how the work is split, never what is computed         */
    int log2_in_ways, log2_part_ways; /* the launch's own                                                            */
};

struct far_products {
    int n;
    struct far_product level[FAR_LEVELS];
    int first_block[FAR_LEVELS + 1]; /* the launch's own                                                             */
};

cudaError_t far_product_load(void);
cudaError_t far_product_launch(struct far_products *job, int n_sm, cudaStream_t stream);

#endif
