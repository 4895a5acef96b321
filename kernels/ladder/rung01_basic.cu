/* rung 1, basic - one thread an output, everything from global memory (book, section 7.2).
 *
 *   x (global)   [ ghost ][ x0 x1 x2 ....... x(i-K+1) ... x(i) ....]     thread i: y[i] = sum_k h[k] x[i-k]
 *   h (global)                            [ h(K-1) .....  h0  ]         ghost cells by an `if`
 *
 * cost     2 loads and 1 FMA a tap: the textbook's ratio of 1
 * limits   none
 * ceiling  the load path: a warp's load a cycle and multiprocessor, where 4 warps' FMA could issue: 2 loads an FMA are
 *          1/8 of the FMA rate. Neighbours read the same frames, and L1 serves 88% of the loads at 11 taps
 */
#include "rung.cuh"

enum { B = 128 };

static __global__ void basic(const float *__restrict__ x, const float *__restrict__ h, float *__restrict__ y,
                             int n_taps, long n_frames)
{
    const long i = (long)blockIdx.x * B + threadIdx.x;
    if (i >= n_frames) return;
    const int past = (int)min(i, (long)n_taps); /* number of frames before frame i, up to n_taps */
    float sum = 0.0f;
    for (int k = 0; k < n_taps; k++)
        if (k <= past) sum += h[k] * x[i - k];
    y[i] = sum;
}

static bool accepts(const struct task *) { return true; }

static cudaError_t launch(const struct task *t, void *, cudaStream_t stream)
{
    return each_channel(t, [&](struct row r) {
        basic<<<tiles_of(t->n_frames, B), B, 0, stream>>>(r.x, r.h, r.y, t->n_taps, t->n_frames);
    });
}

extern "C" const struct rung rung_basic = {
    1, "basic", "one thread an output, all from global memory", "7.2", false,
    accepts, NULL, launch, NULL};
