/* rung 8, shuffle - a warp keeps its frames in registers and passes them on, any mask width; no shared memory.
 *
 *   lane           0                31
 *   near         [ x(i) ............. ]     32 frames, as k0 stands
 *   far          [ x(i-32) .......... ]     the 32 before them: one coalesced load for 32 taps
 *   step s       lane takes near[lane-s], or far[lane-s+32] where that is below 0: the giving lane knows which, as
 *                exactly one lane takes from it; so one select and one shuffle a tap
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
    float sum = 0.0f, near = frame_or_ghost(x, i, n_frames);
    for (int k0 = 0; k0 < n_taps; k0 += 32) {
        const float far = frame_or_ghost(x, i - k0 - 32, n_frames);
#pragma unroll
        for (int s = 0; s < 32; s++) {
            if (s % UNIT == 0 && k0 + s >= n_taps) break; /* the mask is padded with zeros to a multiple of UNIT */
            sum += mask[at + k0 + s] * __shfl_sync(~0u, lane + s < 32 ? near : far, lane - s);
        }
        near = far;
    }
    if (i < n_frames) y[i] = sum;
}

static bool accepts(const struct task *t) { return mask_fits(t, UNIT); }

static cudaError_t prepare(const struct task *t, void **) { return mask_write(t, UNIT); }

static cudaError_t launch(const struct task *t, void *, cudaStream_t stream)
{
    return each_channel(t, [&](struct row r) {
        shuffle<<<tiles_of(t->n_frames, B), B, 0, stream>>>(r.x, r.mask * mask_pitch(t, UNIT), r.y, t->n_taps,
                                                            t->n_frames);
    });
}

extern "C" const struct rung rung_shuffle = {
    "shuffle", "frames passed from lane to lane, any mask width", "000", false,
    accepts, prepare, launch, NULL};
