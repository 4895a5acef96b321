/* fir - which of two kernels a job goes to.
 *
 *   few        a block has 64 outputs: as many blocks as a live block needs to fill the device, and the taps are dealt out;
 *              a block of outputs and a tap take 64 FMA at 52% of a multiprocessor's 128 a cycle
 *   register   a warp has 896 outputs: a tile and a tap take 28 cycles of one of four schedulers at 75%, and the last
 *              tiles leave schedulers idle
 *
 * On an H200, few against register: 64 frames, 2 channels, 4096 taps 3 to 75 us; 512 x 1024 x 1024 taps 31 to 42;
 * 131072 x 8 x 1024 taps 62 to 60; from 16 channels on register is ahead.
 */
#include "fir.h"

enum { REGISTER_TILE = 896, FEW_TILE = 64, SCHEDULERS = 4 };

static long pieces(long n, long size) { return (n + size - 1) / size; }

cudaError_t fir_launch(const struct fir_job *job, cudaStream_t stream)
{
    const long tiles = pieces(job->n, REGISTER_TILE) * job->n_out, blocks = pieces(job->n, FEW_TILE) * job->n_out;
    const double register_cycles = (double)pieces(tiles, SCHEDULERS * job->n_sm) * 28 / 0.75;
    const double few_cycles = (double)blocks / job->n_sm * FEW_TILE / (0.52 * 128);
    return register_cycles < few_cycles ? fir_register_launch(job, stream) : fir_few_launch(job, stream);
}

cudaError_t fir_load_kernels(void)
{
    const cudaError_t e = fir_few_load();
    return e == cudaSuccess ? fir_register_load() : e;
}
