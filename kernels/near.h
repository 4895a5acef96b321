/* near - the part of a matrix of responses that a call cannot wait for: their first taps, in the time domain, plus what
 * the far levels have ready. Picture and cost in near.cu. */
#ifndef HALOCONV_NEAR_H
#define HALOCONV_NEAR_H

#include "far_transform.h"

enum {
    NEAR_OUTS = 4,               /* outputs of a group                                                               */
    NEAR_CHUNK = 64              /* taps of a response are padded with zeros to a multiple of this                   */
};

struct near_terms {              /* what one input adds to a group of outputs                                        */
    const float *taps[NEAR_OUTS]; /* [n_chunks * NEAR_CHUNK], 16-byte aligned; NULL = no response                    */
    int in;
};

struct near_route {              /* one response of one output                                                       */
    const float *taps;           /* as above                                                                         */
    int in;
};

struct near_due {                /* of one far level                                                                 */
    const float *frames;         /* [n_out][mask + 1]: rings                                                         */
    unsigned mask, at;           /* at: where y[.][0] lies                                                           */
};

struct near_job {                /* y[out][i] = sum over the terms of out of taps[k] x[in][pos + i - k], + due[out][at + i] */
    const float *x;              /* row ch at x + ch * (ring_mask + 1), frame f at f & ring_mask                     */
    unsigned ring_mask, pos;
    const struct near_terms *terms;
    const int *first;            /* [n_groups + 1]: the terms of a group                                             */
    const struct near_route *routes; /* NULL, or instead of terms, for near_sparse.cu: by outputs                    */
    const int *first_route;      /* [n_out + 1]: the routes of an output                                             */
    int n_chunks, most_terms;    /* of a response, of a group                                                        */
    float *y;                    /* [n_out] rows of y_pitch floats                                                   */
    size_t y_pitch;
    int n, n_out, n_due;
    int first_group, n_groups;   /* which groups of outputs are played                                               */
    struct near_due due[FAR_LEVELS];
    void *scratch;               /* near_scratch_bytes(n_sm), zeroed once; jobs that share it run one after another  */
    int n_sm;
};

/* Are routes faster than terms? Where half of what terms may have is not there, and outputs alone fill the device. */
bool near_is_sparse(size_t n_routes, size_t n_terms, int n_out, int n_sm);
size_t near_scratch_bytes(int n_sm);
cudaError_t near_launch(const struct near_job *job, cudaStream_t stream);
cudaError_t near_load(void);

#endif
