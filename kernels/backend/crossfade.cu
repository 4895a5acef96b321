/* crossfade - mixes two outputs, one thread for each frame of a channel; runs only during a fade.
 *
 *   from   |====----____        |
 *   to     |    ____----====    |      gains that add up to 1 (fade_gain)
 *
 * cost     a frame: 8 bytes read, 4 written
 * limits   65535 x 128 frames a launch
 * ceiling  memory bandwidth, or the bus if y is in the host's memory; for a live block the launch time
 */
#include "crossfade.h"

#include "dsp/device/backend.h"
#include "kernels_load.h"

/* Computes a struct crossfade. grid: channels x frames */
static __global__ void crossfade_blend(float *y, const float *from, const float *to, size_t pitch, int n, int pos,
                                       int len)
{
    const int i = blockIdx.y * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const size_t at = blockIdx.x * pitch + i;
    const float g = fade_gain(pos + i, len);
    y[at] = (from ? from[at] * (1.0f - g) : 0.0f) + (to ? to[at] * g : 0.0f);
}

cudaError_t crossfade_launch(const struct crossfade *job, cudaStream_t stream)
{
    crossfade_blend<<<dim3(job->n_ch, (job->n + 127) / 128), 128, 0, stream>>>(job->y, job->from, job->to, job->pitch,
                                                                               job->n, job->pos, job->len);
    return cudaGetLastError();
}

cudaError_t crossfade_load(void)
{
    return kernels_load(crossfade_blend);
}
