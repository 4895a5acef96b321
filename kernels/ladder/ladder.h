/* ladder - the interface of a rung, which is one way to convolve on a GPU, in its own file. The bench and the test
 * run all rungs through it.
 *
 * Every rung computes the causal convolution of a task, in float32:
 *
 *   y[out][i] = sum_{k < n_taps} h[mask(out)][k] * x[in(out)][i - k]        x before frame 0 is 0 (ghost cells)
 *
 *   SHARED   n_in = n_out channels, one mask for all           in(out) = out   mask(out) = 0
 *   OWN      n_in = n_out channels, each with its own mask     in(out) = out   mask(out) = out
 *   BANK     one input, n_out masks (a filter bank)            in(out) = 0     mask(out) = out
 *
 * The book is Hwu, Kirk, El Hajj, "Programming Massively Parallel Processors", 4th edition.
 */
#ifndef HALOCONV_LADDER_H
#define HALOCONV_LADDER_H

#include <cuda_runtime.h>
#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

enum sharing { SHARED, OWN, BANK };

struct task {
    int n_taps;            /* 1 ...                                                                          */
    long n_frames;         /* of each channel                                                                */
    int n_in, n_out;       /* channels                                                                       */
    enum sharing sharing;
    const float *x;        /* device, [n_in][x_pitch]; 16-byte aligned, x_pitch a multiple of 4 frames       */
    const float *h;        /* device, [1 or n_out][n_taps], contiguous                                       */
    float *y;              /* device, [n_out][y_pitch]; 16-byte aligned, y_pitch a multiple of 4             */
    long x_pitch, y_pitch; /* frames from one channel to the next, >= n_frames                               */
    const float *h_host;   /* a copy of h in host memory, for prepare                                        */
};

struct rung {
    int number;            /* 1: the file is rung01_basic.cu. Rungs of one number stand side by side         */
    const char *name;      /* "basic"                                                                        */
    const char *idea;      /* the difference from the rung before, in half a line                            */
    const char *book;      /* the section in the book: "7.2"; "": the book has no such kernel                */
    bool production;       /* measured also if a run takes over 0.2 s: more than a step of the ladder        */
    bool (*accepts)(const struct task *); /* can the rung run this shape?                                    */
    /* Makes the mask's form that the kernel needs (constant memory, spectra, Toeplitz blocks ...) and allocates scratch
     * memory; not timed. Everything is on the device when prepare returns, because the launch may use any stream.
     * *prepared may stay NULL; discard frees it. */
    cudaError_t (*prepare)(const struct task *, void **prepared);
    cudaError_t (*launch)(const struct task *, void *prepared, cudaStream_t stream); /* timed; checks its launches   */
    void (*discard)(void *prepared);
};

/* The rungs that the program is linked with, in the order of the ladder; *n receives how many. */
const struct rung *const *ladder_rungs(int *n);

#ifdef __cplusplus
}
#endif
#endif
