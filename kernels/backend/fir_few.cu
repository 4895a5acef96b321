/* fir_few - convolves a stream (fir.h) by the kernel for small blocks: fir_few.cuh.
 *
 * An output has any number of cells. The taps of each cell are cut into shares; the blocks of a tile divide the shares
 * of all cells in turn. Copies of 16 bytes need frames in fours, but the job's first frame may lie anywhere in the
 * rings of the inputs: tiles start up to 3 frames before the job's first frame.
 */
#include "fir.h"
#include "fir_few.cuh"
#include "kernels_load.h"

/* grid: n_out x tiles x splits. Share i of an output goes to split i % splits. No share has taps of two cells. */
static __global__ void __launch_bounds__(THREADS, BLOCKS_AN_SM)
    fir_few_stream(const __grid_constant__ struct fir_job job, int share)
{
    extern __shared__ __align__(16) float shared[];
    __shared__ float warps[THREADS / 32][TILE];
    const int out = blockIdx.x, early = (int)(job.pos % 4), c_end = __ldg(job.first_cell + out + 1);
    const unsigned first = job.pos - early + blockIdx.y * TILE; /* a multiple of 4 */
    struct sums sums = {};
    float total;

    int skip = blockIdx.z; /* shares to skip, counted from the first share of cell c */
    for (int c = __ldg(job.first_cell + out); c < c_end; c++) {
        const struct fir_cell cell = job.cells[c];
        const float *x = job.x + (size_t)cell.in * ((size_t)job.ring_mask + 1);
        const int n_taps = (cell.n_taps + V - 1) / V * V; /* the padding is zeros */
        int k0 = skip * share;
        for (; k0 < n_taps; k0 += (int)gridDim.z * share, skip += gridDim.z) {
            const int n = min(share, n_taps - k0);
            const unsigned from = first - k0 - n;
            add_share(sums, shared, shared + padded(TILE + share), cell.taps + k0, n,
                      [&](float *to, int j) { copy16(to, x + ((from + j) & job.ring_mask), 16); });
        }
        skip -= (n_taps + share - 1) / share;
    }
    float *device_sums = (float *)job.scratch;
    unsigned *arrived = (unsigned *)(device_sums + (size_t)job.n_sm * TILE);
    const bool done = add_up(sums, warps, device_sums, arrived, blockIdx.y * gridDim.x + blockIdx.x, &total);
    const int i = (int)(blockIdx.y * TILE + threadIdx.x) - early;
    if (done && threadIdx.x < TILE && i >= 0 && i < job.n)
        job.y[out * job.y_pitch + i] = total + (job.add ? job.add[out * job.add_pitch + i] : 0.0f);
}

size_t fir_scratch_bytes(int n_sm) { return (size_t)n_sm * (TILE * sizeof(float) + sizeof(unsigned)); }

cudaError_t fir_few_load(void) { return kernels_load(fir_few_stream); }

cudaError_t fir_few_launch(const struct fir_job *job, cudaStream_t stream)
{
    const unsigned tiles = (unsigned)((job->n + (int)(job->pos % 4) + TILE - 1) / TILE);
    const int wanted = splits_of((long)tiles * job->n_out, job->max_taps, job->n_sm);
    int share = ((job->max_taps + wanted - 1) / wanted + GRAIN - 1) / GRAIN * GRAIN;
    if (share > SHARE_MAX) share = SHARE_MAX;
    if (share < GRAIN) share = GRAIN;
    const int shares = job->max_taps / share + job->max_cells; /* max. shares of an output */
    const int splits = shares < wanted ? shares : wanted;
    const dim3 grid(job->n_out, tiles, splits > 1 ? splits : 1); /* up to 65536 outputs */
    fir_few_stream<<<grid, THREADS, shared_bytes(share), stream>>>(*job, share);
    return cudaGetLastError();
}
