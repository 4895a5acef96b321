/* head - the head of a mask: the first taps of all its responses, computed in the time domain inside the call. Adds the
 * due output of the tail levels. Picture and cost in head.cu and head_sparse.cu. */
#ifndef HALOCONV_HEAD_H
#define HALOCONV_HEAD_H

#include "fir.h"
#include "tail_transform.h"

enum {
    HEAD_OUTS = 4,               /* outputs of a group                                                               */
    HEAD_CHUNK = 64              /* taps of a response are padded with zeros to a multiple of this                   */
};

struct head_terms {              /* the responses from one input to a group of outputs                               */
    const float *taps[HEAD_OUTS]; /* [n_chunks * HEAD_CHUNK], 16-byte aligned; NULL = no response                    */
    int in;
};

struct head_due {                /* the output of one tail level for this hop                                         */
    const float *frames;         /* [n_out][ring_mask + 1]: rings                                                    */
    unsigned ring_mask, at;      /* at: the index in the ring of the frame that is added to y[.][0]                  */
};

struct head_job {                /* y[out][i] = sum taps[k] x[in][pos + i - k] + sum due[out][at + i]                */
    const float *x;              /* row ch at x + ch * (ring_mask + 1), frame f at f & ring_mask                     */
    unsigned ring_mask, pos;
    const struct head_terms *terms; /* for head.cu; NULL: cells                                                      */
    const int *first_term;       /* [all groups + 1]: the terms of group g start at terms[first_term[g]]             */
    const struct fir_cell *cells; /* for head_sparse.cu: n_chunks chunks of each; NULL: terms                         */
    const int *first_cell;       /* [n_out + 1]: index of each output's first cell                                   */
    int n_chunks;                /* chunks of a response                                                             */
    int max_terms;               /* max. terms of a group                                                            */
    float *y;                    /* [n_out] rows of y_pitch floats                                                   */
    size_t y_pitch;
    int n, n_out, n_due;
    int first_group, n_groups;   /* the groups of outputs to play                                                    */
    struct head_due due[TAIL_LEVELS];
    void *scratch;               /* head_scratch_bytes(n_sm), zeroed once; jobs that share it run one after another  */
    int n_sm;
};

/* Are cells faster than terms? Yes, if at most half of the taps[] in the terms are used, and the outputs alone fill the
 * device. */
bool head_is_sparse(size_t n_cells, size_t n_terms, int n_out, int n_sm);
size_t head_scratch_bytes(int n_sm);
cudaError_t head_launch(const struct head_job *job, cudaStream_t stream);
cudaError_t head_load(void);

#endif
