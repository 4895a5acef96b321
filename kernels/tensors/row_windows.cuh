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

/* ---- filters by index, packed sequences ---- */

/* Returns the number of a group's filter; -1: none. Any number may be in the index, so the difference may wrap. */
static __device__ __forceinline__ int64_t filter_of(const fused_groups &g, unsigned group)
{
    const int64_t number =
        g.index ? (int64_t)((uint64_t)g.index[group] - (uint64_t)g.first_filter) : (int64_t)group;
    return !g.index || (number >= 0 && number < g.n_filters) ? number : -1;
}
/* The group of a packed sequence's channel. */
static __device__ __forceinline__ unsigned group_of(const fused_groups &g, int item, unsigned channel)
{
    return (g.h_batch == 1 ? 0u : (unsigned)item) * (unsigned)g.h_channels + (g.h_channels == 1 ? 0u : channel);
}
/* An offset; a wrong one becomes a frame that x has. */
static __device__ __forceinline__ int64_t offset_of(const fused_groups &g, int item)
{
    const int64_t offset = g.offsets[item];
    return offset < 0 ? 0 : offset < g.packed ? offset : g.packed;
}
/* Returns the rows of a sequence; *begin: its first frame. */
static __device__ __forceinline__ fused_rows rows_of_item(const fused_groups &g, const fused_rows &rows, int item,
                                                          int64_t *begin)
{
    const int64_t first = offset_of(g, item), end = offset_of(g, item + 1);
    fused_rows own = rows;
    own.frames = (end > first ? end - first : 0) + rows.gap;
    *begin = first + item * rows.gap;
    return own;
}
/* The windows of all sequences, without a sum over their lengths: window u belongs to the last sequence i with
 * offset / hop + i <= u, rounded down, where the offset is that of the rows that are cut. So a sequence has
 * ceil(frames / hop) windows or one more, and all together have frames / hop + batch or fewer. false: there is nothing
 * to compute in window u. */
struct item_window { int item; int64_t start; };
static __device__ __forceinline__ bool item_window_of(const fused_groups &g, int64_t hop, int64_t u, item_window *w)
{
    int item = 0, end = g.batch;
    while (end - item > 1) {
        const int mid = (item + end) / 2;
        if (offset_of(g, mid) + mid * g.gap < (u - mid + 1) * hop) item = mid;
        else end = mid;
    }
    const int64_t first = offset_of(g, item), frames = offset_of(g, item + 1) - first + g.gap;
    *w = item_window{item, (u - item - (first + item * g.gap) / hop) * hop};
    return w->start >= 0 && w->start < frames;
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
/* Kernels are compiled twice: HAS_16_BITS false for calls whose tensors are all of HC_FLOAT32, true for other calls. */
template <bool HAS_16_BITS>
static __device__ __forceinline__ window row_window_at(const void *data, const fused_rows &rows,
                                                       const window_position &at)
{
    const int type = HAS_16_BITS ? again(rows.type) : HC_FLOAT32, bytes = type == HC_FLOAT32 ? 4 : 2;
    return window{(const char *)data + at.at * bytes, type, at.first, at.last};
}

/* Loads what is not read again, and stores what is not read soon: L2 replaces it first. */
template <class T> static __device__ __forceinline__ T load_streamed(const T *from)
{
#ifdef __CUDA_ARCH__
    return __ldcs(from);
#else
    return *from;
#endif
}
template <class T> static __device__ __forceinline__ void store_streamed(T *to, T value)
{
#ifdef __CUDA_ARCH__
    __stcs(to, value);
#else
    *to = value;
#endif
}

/* Calls each(points), where points(p) returns point p: a float, or the bits of one. is_full: all of the points are in
 * the window. STREAMED: loads by load_streamed. */
template <class T, bool STREAMED = false, class Each>
static __device__ __forceinline__ void with_points(const window &w, bool is_full, Each each)
{
    const T *from = (const T *)w.data;
    const int first = w.first, n = w.last - first;
    const auto load = [&](int p) { return STREAMED ? load_streamed(from + p) : from[p]; };
    if (is_full) each([&](int p) { return load(p); });
    else each([&](int p) { return (unsigned)(p - first) < (unsigned)n ? load(p) : T(0); });
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
