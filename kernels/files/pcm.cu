/* pcm - converts samples. A thread converts four adjacent samples: 8, 12 or 16 bytes, so whole words for every kind.
 *
 *   24 bits   | 0 0 0 1 | 1 1 2 2 | 2 3 3 3 |     three words, four samples, the lowest byte first
 *
 * cost     the bytes of the file once, the floats once
 * limits   2^32 samples a launch
 * ceiling  memory bandwidth. The bus to the host has a hundredth of this bandwidth, so a warp may write to many rows
 *          without loss
 */
#include "pcm.h"

#include "kernels_load.h"

enum { THREADS = 256, QUAD = 4 };

__device__ static inline unsigned swapped16(unsigned v) { return (v >> 8 | v << 8) & 0xffffu; }
__device__ static inline unsigned swapped24(unsigned v) { return (v & 0xffu) << 16 | (v & 0xff00u) | v >> 16; }
__device__ static inline unsigned swapped32(unsigned v)
{
    return v << 24 | (v & 0xff00u) << 8 | (v >> 8 & 0xff00u) | v >> 24;
}

/* ---- decoding ---------------------------------------------------------------------------------------------------- */

/* Loads four samples: integers at the top of 32 bits, or the bits of floats. */
__device__ static inline void quad_load(unsigned (&v)[QUAD], const unsigned *raw, unsigned quad, int kind, bool swap)
{
    if (kind == HC_S16) {
        const uint2 w = *(const uint2 *)(raw + 2 * (size_t)quad);
        v[0] = w.x & 0xffffu, v[1] = w.x >> 16, v[2] = w.y & 0xffffu, v[3] = w.y >> 16;
#pragma unroll
        for (int u = 0; u < QUAD; u++) v[u] = (swap ? swapped16(v[u]) : v[u]) << 16;
    } else if (kind == HC_S24) {
        const unsigned *w = raw + 3 * (size_t)quad;
        const unsigned a = w[0], b = w[1], c = w[2];
        v[0] = a & 0xffffffu, v[1] = (a >> 24 | b << 8) & 0xffffffu, v[2] = (b >> 16 | c << 16) & 0xffffffu,
        v[3] = c >> 8;
#pragma unroll
        for (int u = 0; u < QUAD; u++) v[u] = (swap ? swapped24(v[u]) : v[u]) << 8;
    } else {
        const uint4 w = *(const uint4 *)(raw + 4 * (size_t)quad);
        v[0] = w.x, v[1] = w.y, v[2] = w.z, v[3] = w.w;
#pragma unroll
        for (int u = 0; u < QUAD; u++) v[u] = swap ? swapped32(v[u]) : v[u];
    }
}

static __global__ void __launch_bounds__(THREADS) decode(const __grid_constant__ struct pcm_decode job)
{
    const unsigned quad = blockIdx.x * THREADS + threadIdx.x, n_samples = (unsigned)job.n * (unsigned)job.n_ch;
    if (QUAD * quad >= n_samples) return;
    const int kind = job.samples & ~HC_BIG_ENDIAN;
    unsigned v[QUAD], frame = QUAD * quad / job.n_ch, ch = QUAD * quad % job.n_ch, non_finite = 0;
    quad_load(v, (const unsigned *)job.raw, quad, kind, job.samples & HC_BIG_ENDIAN);
#pragma unroll
    for (int u = 0; u < QUAD; u++) {
        if (QUAD * quad + u >= n_samples) break;
        float x = (float)(int)v[u] * 0x1p-31f;
        if (kind == HC_FLOAT) {
            const bool finite = (v[u] & 0x7f800000u) != 0x7f800000u;
            x = finite ? __uint_as_float(v[u]) : 0.0f;
            non_finite += !finite;
        }
        job.rows[ch * ((size_t)job.row_mask + 1) + ((job.at + frame) & job.row_mask)] = x;
        if (++ch == (unsigned)job.n_ch) ch = 0, frame++;
    }
    if (non_finite) atomicAdd(&job.seen->non_finite, non_finite);
}

/* ---- encoding ---------------------------------------------------------------------------------------------------- */

/* x as an integer whose full scale is `scale`. NaN gives the limit, as on the host. */
__device__ static inline unsigned pcm_rounded(float x, float scale)
{
    const float y = x * scale, high = scale - 1.0f; /* in float, 2^31 - 1 is 2^31 */
    const float low = y < high ? y : high;
    return (unsigned)__float2int_rn(low > -scale ? low : -scale); /* __float2int_rn turns 2^31 into 2^31 - 1 */
}

__device__ static inline void quad_store(unsigned *raw, unsigned quad, const unsigned (&v)[QUAD], int kind, bool swap)
{
    unsigned s[QUAD];
    if (kind == HC_S16) {
#pragma unroll
        for (int u = 0; u < QUAD; u++) s[u] = swap ? swapped16(v[u] & 0xffffu) : v[u] & 0xffffu;
        *(uint2 *)(raw + 2 * (size_t)quad) = make_uint2(s[0] | s[1] << 16, s[2] | s[3] << 16);
    } else if (kind == HC_S24) {
#pragma unroll
        for (int u = 0; u < QUAD; u++) s[u] = swap ? swapped24(v[u] & 0xffffffu) : v[u] & 0xffffffu;
        unsigned *w = raw + 3 * (size_t)quad;
        w[0] = s[0] | s[1] << 24, w[1] = s[1] >> 8 | s[2] << 16, w[2] = s[2] >> 16 | s[3] << 8;
    } else {
#pragma unroll
        for (int u = 0; u < QUAD; u++) s[u] = swap ? swapped32(v[u]) : v[u];
        *(uint4 *)(raw + 4 * (size_t)quad) = make_uint4(s[0], s[1], s[2], s[3]);
    }
}

/* Adds the counts of a warp to *seen. peak: the bits of a magnitude; as integers, they sort as magnitudes do. */
__device__ static inline void add_seen(struct io_counts *seen, unsigned clipped, unsigned peak)
{
#pragma unroll
    for (int step = 16; step > 0; step /= 2) {
        const unsigned other = __shfl_xor_sync(~0u, peak, step);
        peak = other > peak ? other : peak;
        clipped += __shfl_xor_sync(~0u, clipped, step);
    }
    if (threadIdx.x % 32) return;
    if (peak) atomicMax(&seen->peak_bits, peak);
    if (clipped) atomicAdd(&seen->clipped, clipped);
}

static __global__ void __launch_bounds__(THREADS) encode(const __grid_constant__ struct pcm_encode job)
{
    const unsigned quad = blockIdx.x * THREADS + threadIdx.x, n_samples = (unsigned)job.n * (unsigned)job.n_ch;
    const int kind = job.samples & ~HC_BIG_ENDIAN;
    const float scale = kind == HC_S16 ? 0x1p15f : kind == HC_S24 ? 0x1p23f : 0x1p31f;
    unsigned v[QUAD] = {}, frame = QUAD * quad / job.n_ch, ch = QUAD * quad % job.n_ch, peak = 0, clipped = 0;
#pragma unroll
    for (int u = 0; u < QUAD; u++) {
        if (QUAD * quad + u >= n_samples) break;
        const float x = job.rows[ch * job.pitch + frame];
        const unsigned magnitude = __float_as_uint(x) & 0x7fffffffu; /* its bits */
        v[u] = kind == HC_FLOAT ? __float_as_uint(x) : pcm_rounded(x, scale);
        if ((int)frame >= job.count_from && (int)frame < job.count_to) {
            peak = magnitude > peak ? magnitude : peak;
            clipped += magnitude > 0x3f800000u; /* beyond 1 */
        }
        if (++ch == (unsigned)job.n_ch) ch = 0, frame++;
    }
    if (QUAD * quad < n_samples) quad_store((unsigned *)job.raw, quad, v, kind, job.samples & HC_BIG_ENDIAN);
    add_seen(job.seen, clipped, peak);
}

/* ---- launches ---------------------------------------------------------------------------------------------------- */

static unsigned blocks_for(int n, int n_ch)
{
    return (unsigned)(((size_t)n * n_ch + QUAD * THREADS - 1) / (QUAD * THREADS));
}

cudaError_t pcm_decode_launch(const struct pcm_decode *job, cudaStream_t stream)
{
    decode<<<blocks_for(job->n, job->n_ch), THREADS, 0, stream>>>(*job);
    return cudaGetLastError();
}

cudaError_t pcm_encode_launch(const struct pcm_encode *job, cudaStream_t stream)
{
    encode<<<blocks_for(job->n, job->n_ch), THREADS, 0, stream>>>(*job);
    return cudaGetLastError();
}

cudaError_t pcm_load(void) { return kernels_load(decode, encode); }
