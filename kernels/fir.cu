/* fir - which of two kernels a job goes to, by what was measured: choice.h. Live blocks go to `few`, whose blocks have
 * 64 outputs and share out the taps until the device is full; large ones to `register`, whose warps have 896. */
#include "fir.h"

#include "choice.h"

cudaError_t fir_launch(const struct fir_job *job, cudaStream_t stream)
{
    const int n_taps = job->most_taps > 0 ? job->most_taps : 1;
    return ladder_choose(n_taps, job->n, job->n_out, OWN, CHOICE_FIR) == FEW ? fir_few_launch(job, stream)
                                                                              : fir_register_launch(job, stream);
}

cudaError_t fir_load_kernels(void)
{
    const cudaError_t e = fir_few_load();
    return e == cudaSuccess ? fir_register_load() : e;
}
