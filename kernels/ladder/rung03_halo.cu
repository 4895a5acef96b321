/* rung 3, halo - a tile with its left halo, centre and right halo in shared memory, loaded by three steps
 * (book, section 7.4).
 *
 *   x (global)   ..[== left halo, n ==][====== centre, B ======][== right halo ==]..    K = n + 1 + right, n = K / 2
 *   N (shared)     0 ............. n-1  n ............... n+B-1  n+B .. n+B+right-1     thread t: sum_j N[t+j] M[j]
 *
 * The book's mask is centred and not flipped. Ours is causal: flipped, M[j] = h[K-1-j], and the output shifted by
 * `right`: the thread at centre frame c holds y[c + right], so that nothing right of the output's own frame is read. A
 * halo can be no wider than the block, as each thread loads at most one cell of it: longer masks run in chunks of 2 B
 * taps.
 *
 * cost     a tile and chunk of K taps: B + K - 1 loads where rung 2 has B K: (128 x 11) / (128 + 10) = 10.2 times fewer
 *          for B = 128, n = 5, 8.38 for B = 32. A block at an end of the signal skips n (n+1) / 2 reads and n loads: 10.5, 9.1
 * limits   masks of 16384 taps together
 * ceiling  1 load, now from shared memory, and 1 tap an FMA: 1/8 of the FMA rate. Only L1 has less to do, and L1 was
 *          not the limit; the loads from DRAM and L2 are those of rung 2, whose halo cells L1 already kept
 */
#include "mask_constant.cuh"

template <int B>
static __global__ void halo(const float *__restrict__ x, int at, float *__restrict__ y, int n_taps, long n_frames)
{
    __shared__ float N[3 * B];
    const int t = threadIdx.x;
    const long tile = (long)blockIdx.x * B;
    float sum = 0.0f;
    for (int k0 = 0; k0 < n_taps; k0 += 2 * B) {
        const int width = min(2 * B, n_taps - k0), n = width / 2, right = width - 1 - n;
        const long centre = tile - k0 - right;
        if (t >= B - n) N[t - (B - n)] = frame_or_ghost(x, centre - B + t, n_frames);
        N[n + t] = frame_or_ghost(x, centre + t, n_frames);
        if (t < right) N[n + B + t] = frame_or_ghost(x, centre + B + t, n_frames);
        __syncthreads();
        for (int j = 0; j < width; j++) sum += N[t + j] * mask[at + k0 + width - 1 - j];
        __syncthreads();
    }
    if (tile + t < n_frames) y[tile + t] = sum;
}

template <int B> static cudaError_t launch(const struct task *t, void *, cudaStream_t stream)
{
    return each_channel(t, [&](struct row r) {
        halo<B><<<tiles_of(t->n_frames, B), B, 0, stream>>>(r.x, r.mask * t->n_taps, r.y, t->n_taps, t->n_frames);
    });
}

extern "C" const struct rung rung_halo = {
    3, "halo", "left halo, centre, right halo in shared memory", "7.4", false,
    mask_accepts<1>, mask_prepare<1>, launch<128>, NULL};
/* The book's other example, to show that small tiles are mostly halo. */
extern "C" const struct rung rung_halo_32 = {
    3, "halo-32", "the same in tiles of 32", "7.4", false,
    mask_accepts<1>, mask_prepare<1>, launch<32>, NULL};
