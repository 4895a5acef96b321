/* row_windows - the rows of a group of filters (fused_kernels.h), and a range of a row as the points of a window.
 */
#ifndef HALOCONV_ROW_WINDOWS_CUH
#define HALOCONV_ROW_WINDOWS_CUH

#include "fused_kernels.h"
#include "half_pairs.cuh"

/* A row of a tensor that shares the filter of group f. */
struct row_position { int batch, channel, filter; };
static __device__ __forceinline__ row_position position_of(const fused_groups &g, unsigned f, unsigned row)
{
    const unsigned hb = f / (unsigned)g.h_channels, hc = f - hb * (unsigned)g.h_channels;
    const unsigned n_channels = g.h_channels == 1 ? (unsigned)g.channels : 1u;
    const unsigned b = row / n_channels, c = row - b * n_channels;
    row_position at = {(int)(g.h_batch == 1 ? b : hb), (int)(g.h_channels == 1 ? c : hc), (int)f};
    return at;
}
static __host__ __device__ __forceinline__ unsigned rows_of_group(const fused_groups &g)
{
    return (g.h_batch == 1 ? (unsigned)g.batch : 1u) * (g.h_channels == 1 ? (unsigned)g.channels : 1u);
}

/* Returns t, but the compiler does not know that the value is t: it computes addresses again instead of keeping all of
 * them in registers. */
static __device__ __forceinline__ int again(int t)
{
    asm volatile("" : "+r"(t));
    return t;
}

/* A window in shared memory. It has no pointer: the compiler does not know to which kind of memory a pointer from there
 * points, and loads through it are slower. */
struct window_position {
    int64_t at; /* element of the tensor that is point 0 */
    int first, last;
};
/* A range of a row as points of a window: point p is data[p] for first <= p < last, else 0. */
struct window {
    const void *data;
    int type, first, last; /* type: enum hc_tensor_type */
};
static __device__ __forceinline__ window_position window_of(const fused_rows &rows, row_position at, int64_t start,
                                                            int64_t end, int points)
{
    const int64_t left = (end < rows.frames ? end : rows.frames) - start;
    window_position w;
    w.at = at.batch * rows.stride[0] + at.channel * rows.stride[1] + start;
    w.first = start >= 0 ? 0 : start > -points ? (int)-start : points;
    w.last = left >= points ? points : left > w.first ? (int)left : w.first;
    return w;
}
/* Kernels are compiled twice: HALF false for calls whose tensors are all of HC_FLOAT32, true for other calls. */
template <bool HALF>
static __device__ __forceinline__ window window_at(const void *data, const fused_rows &rows, const window_position &at)
{
    const int type = HALF ? again(rows.type) : HC_FLOAT32, bytes = type == HC_FLOAT32 ? 4 : 2;
    return window{(const char *)data + at.at * bytes, type, at.first, at.last};
}

/* Calls each(points), where points(p) returns point p: a float, or the bits of one. is_full: all of the points are in
 * the window. */
template <class T, class Each>
static __device__ __forceinline__ void with_points(const window &w, bool is_full, Each each)
{
    const T *from = (const T *)w.data;
    const int first = w.first, n = w.last - first;
    if (is_full) each([&](int p) { return from[p]; });
    else each([&](int p) { return (unsigned)(p - first) < (unsigned)n ? from[p] : T(0); });
}

/* Starts to load a cache line into L2. */
static __device__ __forceinline__ void prefetch_line(const void *line)
{
#ifdef __CUDA_ARCH__
    asm volatile("prefetch.global.L2 [%0];" ::"l"(line));
#else
    (void)line;
#endif
}

#endif
