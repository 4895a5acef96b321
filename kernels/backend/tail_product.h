/* tail_product - the sums of products of spectra of tail levels. Picture and cost in tail_product.cu. */
#ifndef HALOCONV_TAIL_PRODUCT_H
#define HALOCONV_TAIL_PRODUCT_H

#include "tail_transform.h"

enum {
    TAIL_OUTS = 4,                    /* outputs of a group; they share the reads of an input's spectra               */
    TAIL_BINS = 64                    /* bins of a unit, two a thread                                                 */
};

struct tail_terms {                   /* the responses from one input to a group of outputs                           */
    const float2 *h[TAIL_OUTS];       /* [n_parts][S]                                                                 */
    int n_parts[TAIL_OUTS];           /* 0 = no response                                                              */
    int max_parts, in;
};

/* A unit is TAIL_BINS bins of one group; unit u: bins u / n_groups, group first_group + u % n_groups.
 *   sums[out][bin] = sum over the terms of the group and parts p < n_windows of X[in][entry - p][bin] H[p][bin] */
struct tail_product {
    const struct tail_terms *terms;
    const int *first_term;           /* [n_groups + 1]: the terms of group g start at terms[first_term[g]]           */
    const float2 *x;                 /* [n_in][n_entries][S]: the level's FDL                                        */
    float2 *sums;                    /* [n_out][S]                                                                   */
    int log2_size, entry, n_entries;
    int n_windows;                   /* windows in the FDL; earlier windows are silent                               */
    int first_group, n_groups, n_out;
    int first_unit, n_units;
    int max_terms, max_parts;         /* max. terms of a group; max. parts of a term                                  */
    int log2_in_ways, log2_part_ways; /* set by the launch                                                           */
};

struct tail_products {
    int n;
    struct tail_product level[TAIL_LEVELS];
    int first_block[TAIL_LEVELS + 1]; /* set by the launch                                                           */
};

cudaError_t tail_product_load(void);
cudaError_t tail_product_launch(struct tail_products *job, int n_sm, cudaStream_t stream);

#endif
