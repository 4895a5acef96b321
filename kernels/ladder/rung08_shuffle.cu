/* rung 8, shuffle - a warp keeps its frames in registers and its lanes pass them on, for any mask width; no shared
 * memory.
 *
 *   lane           0                31
 *   newer        [ x(i) ............. ]     32 frames from i - k0 on
 *   older        [ x(i-32) .......... ]     the 32 before them: one coalesced load for 32 taps
 *   step s       a lane takes newer[lane-s], or older[lane-s+32] if lane-s is below 0. Exactly one lane takes from each
 *                lane, so the lane that gives can select the value: one select and one shuffle a tap
 *
 * cost     1 shuffle and 1 FMA a tap; 1/32 load
 * limits   masks of 16384 taps together
 * ceiling  a shuffle passes the same 32 lanes a cycle as a load from shared memory: no better than rung 6
 */
#include "mask_constant.cuh"

enum { B = 128, UNIT = 8 };

static __global__ void __launch_bounds__(B, 8)
    shuffle(const float *__restrict__ x, int at, float *__restrict__ y, int n_taps, long n_frames)
{
    const int lane = threadIdx.x % 32;
    const long i = (long)blockIdx.x * B + threadIdx.x;
    float sum = 0.0f, newer = frame_or_ghost(x, i, n_frames);
    for (int k0 = 0; k0 < n_taps; k0 += 32) {
        const float older = frame_or_ghost(x, i - k0 - 32, n_frames);
#pragma unroll
        for (int s = 0; s < 32; s++) {
            if (s % UNIT == 0 && k0 + s >= n_taps) break; /* the mask is padded with zeros to a multiple of UNIT */
            sum += mask[at + k0 + s] * __shfl_sync(~0u, lane + s < 32 ? newer : older, lane - s);
        }
        newer = older;
    }
    if (i < n_frames) y[i] = sum;
}

static cudaError_t launch(const struct task *t, void *, cudaStream_t stream)
{
    return each_channel(t, [&](struct row r) {
        shuffle<<<tiles_of(t->n_frames, B), B, 0, stream>>>(r.x, r.mask * mask_pitch(t, UNIT), r.y, t->n_taps,
                                                            t->n_frames);
    });
}

extern "C" const struct rung rung_shuffle = {
    8, "shuffle", "frames passed from lane to lane, any mask width", "", false,
    mask_accepts<UNIT>, mask_prepare<UNIT>, launch, NULL};
