/* rung 2, constant - the mask in constant memory (book, section 7.3): a warp reads one tap for all its threads at once.
 *
 *   x (global)     [ ghost ][ x0 x1 x2 ....... x(i-K+1) ... x(i) ....]
 *   mask (constant)                         [ h(K-1) .....  h0  ]
 *
 * cost     1 load and 1 FMA a tap: the ratio is 2
 * limits   masks of 16384 taps together (64 KiB)
 * ceiling  1/8 of the FMA rate still: an indexed tap is a separate instruction (LDC) and waits in the loads' queue.
 *          Only rung 10 makes it an operand of the FMA
 */
#include "mask_constant.cuh"

enum { B = 128 };

static __global__ void constant(const float *__restrict__ x, int at, float *__restrict__ y, int n_taps, long n_frames)
{
    const long i = (long)blockIdx.x * B + threadIdx.x;
    if (i >= n_frames) return;
    const int past = (int)min(i, (long)n_taps);
    float sum = 0.0f;
    for (int k = 0; k < n_taps; k++)
        if (k <= past) sum += mask[at + k] * x[i - k];
    y[i] = sum;
}

static cudaError_t launch(const struct task *t, void *, cudaStream_t stream)
{
    return each_channel(t, [&](struct row r) {
        constant<<<tiles_of(t->n_frames, B), B, 0, stream>>>(r.x, r.mask * t->n_taps, r.y, t->n_taps, t->n_frames);
    });
}

extern "C" const struct rung rung_constant = {
    2, "constant", "the mask in constant memory", "7.3", false,
    mask_accepts<1>, mask_prepare<1>, launch, NULL};
