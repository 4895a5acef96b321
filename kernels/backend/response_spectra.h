/* response_spectra - the spectra of the partitions of responses: for the tail levels of a mask, for banks of moving
 * sources and for masks of files. */
#ifndef HALOCONV_RESPONSE_SPECTRA_H
#define HALOCONV_RESPONSE_SPECTRA_H

#include <cuda_runtime.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct response_spectra {     /* partition p of a row: taps offset + p hop ... offset + (p + 1) hop - 1               */
    const float *taps;        /* [n_rows][pitch]                                                                      */
    size_t pitch;
    int n_rows, n_taps;       /* n_taps: taps of a row that are read; the taps behind them count as zeros             */
    int offset, hop;          /* hop <= P                                                                             */
    int n_parts;              /* partitions of a row, or the largest number of them                                   */
    /* [n_rows], device memory: the partitions of each row, and the index of the first one's spectrum. NULL: every row
     * has n_parts, and a group of n_out rows has the spectra [n_parts][n_out]. */
    const int *parts_of_row, *part_at;
    int n_out;
    int log2_P;               /* 5 to 13                                                                              */
    float2 *spectra;          /* [P] each, as in fft_teams.cuh, divided by P: the gain of the inverse                 */
    const float2 *tw;         /* fft_factors.h                                                                        */
};

cudaError_t response_spectra_launch(const struct response_spectra *job, cudaStream_t stream);
cudaError_t response_spectra_load(void); /* before the first launch on a device */

#ifdef __cplusplus
}
#endif

#endif
