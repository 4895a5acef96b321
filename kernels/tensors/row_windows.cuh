/* row_windows - the rows of a group of filters (fused_kernels.h), and a range of a row as the points of a window.
 */
#ifndef HALOCONV_ROW_WINDOWS_CUH
#define HALOCONV_ROW_WINDOWS_CUH

#include "fused_kernels.h"

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

/* A range of a row as points of a window: point p is data[p] for first <= p < last, else 0. */
struct window { const float *data; int first, last; };
static __device__ __forceinline__ window window_of(const float *data, const fused_rows &rows, row_position at,
                                                   int64_t start, int64_t end, int points)
{
    const int64_t left = (end < rows.frames ? end : rows.frames) - start;
    window w;
    w.data = data + at.batch * rows.stride[0] + at.channel * rows.stride[1] + start;
    w.first = start >= 0 ? 0 : start > -points ? (int)-start : points;
    w.last = left >= points ? points : left > w.first ? (int)left : w.first;
    return w;
}
static __device__ __forceinline__ float point(const window &w, int p)
{
    return (unsigned)(p - w.first) < (unsigned)(w.last - w.first) ? w.data[p] : 0.0f;
}

/* Starts to load a cache line into L2. */
static __device__ __forceinline__ void prefetch_line(const float *line)
{
#ifdef __CUDA_ARCH__
    asm volatile("prefetch.global.L2 [%0];" ::"l"(line));
#else
    (void)line;
#endif
}

/* A window in shared memory: with an offset instead of a pointer. The compiler does not know to which kind of memory a
 * pointer from shared memory points, and loads through such a pointer are slower. */
struct window_position {
    int64_t at; /* position of point 0, from the tensor's first float */
    int first, last;
};
static __device__ __forceinline__ window_position position_of_window(const float *data, const window &w)
{
    return window_position{w.data - data, w.first, w.last};
}
static __device__ __forceinline__ window window_at(const float *data, const window_position &position)
{
    return window{data + position.at, position.first, position.last};
}

#endif
