/* crossfade - what is heard while a new mask takes over. */
#ifndef HALOCONV_CROSSFADE_H
#define HALOCONV_CROSSFADE_H

#include <cuda_runtime.h>
#include <stddef.h>

struct crossfade {           /* y[ch][i] = from[ch][i] (1 - g) + to[ch][i] g, g: the gain at frame pos + i of len */
    float *y;                /* rows `pitch` floats apart, all three; may be one of the others                 */
    const float *from, *to;  /* NULL is silence                                                                */
    size_t pitch;
    int n_ch, n;
    int pos, len;            /* as in struct fade                                                              */
};

cudaError_t crossfade_launch(const struct crossfade *job, cudaStream_t stream);
cudaError_t crossfade_load(void); /* before the first launch on a device */

#endif
