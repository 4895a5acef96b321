/* pcm - decodes the samples of sound files (frame by frame, integer or float) to rows of floats, and encodes rows. So
 * samples cross the bus as the file stores them, and the host does not convert them. */
#ifndef HALOCONV_PCM_H
#define HALOCONV_PCM_H

#include "dsp/device/backend.h"

#include <cuda_runtime.h>

struct pcm_decode {           /* rows[ch][(at + i) & row_mask] = sample ch of frame i; NaN and Inf become 0          */
    int samples;              /* enum hc_samples, not HC_PLANAR                                                      */
    const void *raw;          /* [n][n_ch], then 16 bytes that may be read; 16-byte aligned                          */
    int n_ch, n;
    float *rows;              /* row ch at rows + ch * (row_mask + 1)                                                */
    unsigned row_mask, at;
    struct io_counts *seen;   /* samples that are not finite are added to seen->non_finite                           */
};

struct pcm_encode {           /* raw[i][ch] = rows[ch][i], limited to full scale and rounded to nearest, ties to even */
    int samples;
    const float *rows;        /* row ch at rows + ch * pitch                                                         */
    size_t pitch;
    int n_ch, n;
    void *raw;                /* [n][n_ch], then 16 bytes that may be written; 16-byte aligned                       */
    int count_from, count_to; /* frames whose peak and clipping are added to *seen                                   */
    struct io_counts *seen;
};

cudaError_t pcm_load(void); /* before the first launch on a device */
cudaError_t pcm_decode_launch(const struct pcm_decode *job, cudaStream_t stream);
cudaError_t pcm_encode_launch(const struct pcm_encode *job, cudaStream_t stream);

#endif
