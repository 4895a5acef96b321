/* scene_render_kernels - the kernels of hc_render on a GPU. Picture and cost in scene_render_kernels.cu. A spectrum is [P] float2 as
 * in fft_teams.cuh, tw a table of fft_factors.h. */
#ifndef HALOCONV_RENDER_KERNELS_H
#define HALOCONV_RENDER_KERNELS_H

#include <cuda_runtime.h>
#include <stddef.h>

struct scene_render_line {        /* weight * sum over parts p from `first` to `end` - 1 of X[x - p] H[entry][p]            */
    int x, entry;
    float weight;
    unsigned short first, end;
};

struct scene_render_span {        /* a window of the output                                                                 */
    int line;               /* its first line: n_from lines of `from`, then n_to of `to`                              */
    int n_from, n_to;       /* n_from -1: no fade                                                                     */
    int out, pitch;         /* output o at out + o * pitch                                                            */
};

struct scene_render_batch {       /* all in device memory                                                                   */
    const float2 *tw, *h;   /* h: [n_entries][n_parts][n_out][P]                                                      */
    int log2_P, step, n_parts, n_out;
    const float *in;        /* frames of all sources                                                                  */
    const int *rows;        /* [n_rows]: index in `in` of the first of a spectrum's 2 step frames                     */
    int n_rows;
    float2 *x;              /* [n_rows][P]                                                                            */
    const struct scene_render_line *lines;
    const struct scene_render_span *spans; /* [n_spans]                                                                     */
    int n_spans;
    float2 *sums;           /* [n_spans][2][n_out][P]                                                                 */
    float *out;
};

cudaError_t scene_render_batch_launch(const struct scene_render_batch *batch, cudaStream_t stream);
cudaError_t scene_render_kernels_load(void); /* before the first launch on a device */

#endif
