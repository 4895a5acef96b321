/* rung 15, many - many masks: two masks share the tile of one input (a filter bank), or each channel has its own.
 *
 *   x (global)     ..[====== halo, CHUNK ======][====== tile, T ======]..      moves CHUNK frames back for each chunk
 *   s (shared)       0 ................ CHUNK-1  CHUNK ....... CHUNK+T-1        thread t: outputs V t ... V t + V - 1
 *   taps (shared)  [ tap 0: mask 0 1 ][ tap 1: mask 0 1 ]..                         of MASKS masks: sum[mask][V]
 *
 *   window (registers)  [ 4 new | V kept ] slides 4 frames down every 4 taps: a 16-byte load of x feeds 4 V MASKS FMA,
 *                       one of 4 taps 4 V. V = 12, V = 20: 8 lanes of 16 bytes at a stride of V words hit every bank
 *                       once.
 *
 *   bank       MASKS 2, V 12: a frame in registers meets 2 masks, and x is staged half as often; 4 masks want 159
 *              registers a thread, which leaves 12 warps: 5% slower
 *   own        MASKS 1, V 20: nothing is shared between channels, so the taps are, between more outputs
 *   few        MASKS 1, V 4, a warp a block: blocks of 1 to 512 frames (live audio) of many channels
 *
 * The backend does not use this kernel. On a full GPU its limit is the FMA rate, as that of rung register, which also
 * copies in the background. On a GPU that is not full, rung few divides the taps too, and is as fast (256 taps, frames
 * and channels).
 *
 * cost     a tile and chunk: T + CHUNK loads of x, MASKS CHUNK of taps, MASKS T CHUNK FMA; 6 wavefronts of shared
 *          memory in the time of 24 (bank), 5 in 20 (own)
 * error    CHUNK taps in one sum, those added up: below 1e-6 up to 65536 taps
 * limits   none on taps and frames; n_out up to 65535
 * ceiling  the FMA rate
 */
#include "rung.cuh"

enum {
    CHUNK = 240,     /* taps; whole slides of the windows (16, 24 and 8 taps)                                     */
    FILLED = 4 * 132 /* blocks of 128 threads that fill an H200; with fewer, blocks of 64 threads are faster      */
};

template <int MASKS, int V, int THREADS>
static __global__ void __launch_bounds__(THREADS) many(struct task job)
{
    constexpr int TILE = V * THREADS, QUADS = V / 4 + 1;
    constexpr int SLIDE = 4 * QUADS; /* taps after which the window is back at its start */
    static_assert(CHUNK % SLIDE == 0, "a chunk ends inside a slide of the window");
    __shared__ __align__(16) float s[CHUNK + TILE];
    __shared__ __align__(16) float taps[CHUNK * MASKS];
    const int t = threadIdx.x, first = blockIdx.y * MASKS; /* of the outputs */
    const long tile = (long)blockIdx.x * TILE;
    const float *x = job.x + (job.sharing == BANK ? 0 : first) * job.x_pitch;
    float total[MASKS][V] = {};

    for (int k0 = 0; k0 < job.n_taps; k0 += CHUNK) {
        const long from = tile - k0 - CHUNK; /* a multiple of 4 */
        __syncthreads();
#pragma unroll 4
        for (int j = 4 * t; j < CHUNK + TILE; j += 4 * THREADS) {
            float4 v;
            if (from + j >= 0 && from + j + 3 < job.n_frames)
                v = *(const float4 *)(x + from + j);
            else
                v = make_float4(
                    frame_or_ghost(x, from + j, job.n_frames), frame_or_ghost(x, from + j + 1, job.n_frames),
                    frame_or_ghost(x, from + j + 2, job.n_frames), frame_or_ghost(x, from + j + 3, job.n_frames));
            *(float4 *)(s + j) = v;
        }
        for (int j = t; j < CHUNK * MASKS; j += THREADS) {
            const int m = j / CHUNK, k = j % CHUNK, which = job.sharing == SHARED ? 0 : first + m;
            const bool there = k0 + k < job.n_taps && first + m < job.n_out;
            taps[k * MASKS + m] = there ? job.h[(long)which * job.n_taps + k0 + k] : 0.0f;
        }
        __syncthreads();

        float window[QUADS][4], sum[MASKS][V] = {};
        const float *mine = s + CHUNK + V * t;
#pragma unroll
        for (int q = 1; q < QUADS; q++) {
            const float4 v = *(const float4 *)(mine + 4 * (q - 1));
            window[q][0] = v.x, window[q][1] = v.y, window[q][2] = v.z, window[q][3] = v.w;
        }
        const int width = min((int)CHUNK, job.n_taps - k0); /* the last slide may read zeros behind the taps */
        for (int k = 0; k < width; k += SLIDE) {
#pragma unroll
            for (int step = 0; step < QUADS; step++) {
                const int low = (QUADS - step) % QUADS; /* the quad that the new frames replace */
                const float4 v = *(const float4 *)(mine - k - 4 * step - 4);
                window[low][0] = v.x, window[low][1] = v.y, window[low][2] = v.z, window[low][3] = v.w;
                float h[4 * MASKS];
#pragma unroll
                for (int i = 0; i < MASKS; i++) {
                    const float4 u = *(const float4 *)(taps + (k + 4 * step) * MASKS + 4 * i);
                    h[4 * i] = u.x, h[4 * i + 1] = u.y, h[4 * i + 2] = u.z, h[4 * i + 3] = u.w;
                }
#pragma unroll
                for (int i = 0; i < 4; i++)
#pragma unroll
                    for (int m = 0; m < MASKS; m++)
#pragma unroll
                        for (int o = 0; o < V; o++) {
                            const int j = 4 + o - i; /* of the V + 4 frames in the window, lowest first */
                            sum[m][o] = fmaf(h[i * MASKS + m], window[(low + j / 4) % QUADS][j % 4], sum[m][o]);
                        }
            }
        }
#pragma unroll
        for (int m = 0; m < MASKS; m++)
#pragma unroll
            for (int o = 0; o < V; o++) total[m][o] += sum[m][o];
    }
#pragma unroll
    for (int m = 0; m < MASKS; m++) { /* through shared memory, so that a warp writes whole lines */
        __syncthreads();
#pragma unroll
        for (int q = 0; q < V; q += 4)
            *(float4 *)(s + V * t + q) = make_float4(total[m][q], total[m][q + 1], total[m][q + 2], total[m][q + 3]);
        __syncthreads();
        if (first + m < job.n_out)
            for (int o = t; o < TILE && tile + o < job.n_frames; o += THREADS)
                job.y[(first + m) * job.y_pitch + tile + o] = s[o];
    }
}

static bool accepts(const struct task *t) { return t->n_out <= 65535; }

template <int MASKS, int V, int THREADS> static void start(const struct task *t, cudaStream_t stream)
{
    const dim3 grid(tiles_of(t->n_frames, V * THREADS), tiles_of(t->n_out, MASKS));
    many<MASKS, V, THREADS><<<grid, THREADS, 0, stream>>>(*t);
}

static cudaError_t launch(const struct task *t, void *, cudaStream_t stream)
{
    const bool bank = t->sharing == BANK && t->n_out > 1;
    const long blocks = bank ? (long)tiles_of(t->n_frames, 12 * 128) * tiles_of(t->n_out, 2)
                             : (long)tiles_of(t->n_frames, 20 * 128) * t->n_out;
    if (t->n_frames <= 512) start<1, 4, 32>(t, stream);
    else if (blocks < FILLED) start<1, 20, 64>(t, stream);
    else if (bank) start<2, 12, 128>(t, stream);
    else start<1, 20, 128>(t, stream);
    return cudaGetLastError();
}

extern "C" const struct rung rung_many = {
    15, "many", "several masks over one tile, or each channel its own", "", false,
    accepts, NULL, launch, NULL};
