/* crossfade - mixes the outputs of two masks during a fade. */
#ifndef HALOCONV_CROSSFADE_H
#define HALOCONV_CROSSFADE_H

#include <cuda_runtime.h>
#include <stddef.h>

struct crossfade {           /* y[ch][i] = from[ch][i] (1 - g) + to[ch][i] g, where g = fade_gain(pos + i, len)    */
    float *y;                /* may be `from` or `to`                                                          */
    const float *from, *to;  /* NULL: silence                                                                  */
    size_t pitch;            /* floats between the rows of y, from and to                                      */
    int n_ch, n;
    int pos, len;            /* as in struct fade                                                              */
};

cudaError_t crossfade_launch(const struct crossfade *job, cudaStream_t stream);
cudaError_t crossfade_load(void); /* before the first launch on a device */

#endif
