/* fir - chooses between the two FIR kernels. */
#include "fir.h"

/* fir_few has blocks of 64 frames, which divide the taps among themselves until the device is full; fir_register has
 * warps of 896 frames, which do not divide taps. So fir_few is faster up to some number of tiles, which grows with the
 * number of taps. Against the faster kernel of each of 74 shapes on an H200 (n_sm = 132; 8 to 512 outputs, each with a
 * separate response, 4 to 4096 taps, 64 to 2^20 frames), this rule loses 0.13% on average and 6.2% at worst (64 outputs
 * of 4096 frames, 4096 taps). */
static bool few_is_faster(const struct fir_job *job)
{
    const long tiles = (job->n + 63L) / 64 * job->n_out, limit = 1 + job->max_taps / 24;
    return tiles <= (limit < 8 ? limit : 8) * job->n_sm;
}

cudaError_t fir_launch(const struct fir_job *job, cudaStream_t stream)
{
    return few_is_faster(job) ? fir_few_launch(job, stream) : fir_register_launch(job, stream);
}

cudaError_t fir_load(void)
{
    const cudaError_t e = fir_few_load();
    return e == cudaSuccess ? fir_register_load() : e;
}
