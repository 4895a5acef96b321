/* long_windows - positions of the windows of long filters, and teams that transform their rows (long_kernels.h).
 */
#ifndef HALOCONV_LONG_WINDOWS_CUH
#define HALOCONV_LONG_WINDOWS_CUH

#include "fft_registers.cuh"
#include "long_kernels.h"
#include "row_windows.cuh"

struct unit_position { row_position at; int64_t start; }; /* start: the frame of the window's point 0 */
template <class Int>
static __device__ __forceinline__ unit_position divide(const long_units &u, Int unit, Int units_of_group, Int n_windows)
{
    const Int group = unit / units_of_group, task = unit - group * units_of_group, row = task / n_windows;
    unit_position position;
    position.at = position_of(u.groups, (unsigned)(u.groups.first + group), (unsigned)row);
    position.start = (int64_t)(task - row * n_windows) * u.hop + u.start;
    return position;
}
static __device__ __forceinline__ unit_position position_of_unit(const long_units &u, unsigned local)
{
    const int64_t unit = u.first + local;
    if ((unit | u.units_of_group | u.n_windows) >> 32) return divide<int64_t>(u, unit, u.units_of_group, u.n_windows);
    /* The division of 64 bits is slow. */
    return divide(u, (unsigned)unit, (unsigned)u.units_of_group, (unsigned)u.n_windows);
}

static __device__ __forceinline__ int64_t frames_of(const long_units &u, row_position at)
{
    const int64_t length = u.lengths ? u.lengths[at.filter] : u.rows.frames;
    return length < u.rows.frames ? length : u.rows.frames;
}

/* The frames of a window that are written: point p is element at + p of the data, for first <= p < last. From `length`
 * on, 0 is written. */
struct written_frames {
    int64_t at;
    int first, last, length;
};
static __device__ written_frames written_frames_of(const long_units &u, const long_output &o, int unit)
{
    const unit_position position = position_of_unit(u, (unsigned)unit);
    const int64_t left = u.rows.frames - position.start, used = frames_of(u, position.at) - position.start;
    written_frames frames;
    frames.at = position.at.batch * u.rows.stride[0] + position.at.channel * u.rows.stride[1] + position.start;
    frames.first = (int)o.first_point;
    frames.last = (int)(left < u.end ? left > 0 ? left : 0 : u.end);
    frames.length = (int)(used < frames.last ? used > 0 ? used : 0 : frames.last);
    return frames;
}

template <int LOG_N> struct row_size : fft_tree<LOG_N, log_e_of(LOG_N), true> {
    using tree = fft_tree<LOG_N, log_e_of(LOG_N), true>;
    static constexpr int RESIDENT = tree::E == 16 ? 1024 : 512, /* threads of a multiprocessor */
                         BLOCKS = RESIDENT / tree::T < 16 ? RESIDENT / tree::T : 16;
    static constexpr size_t FACTOR_BYTES = (sizeof(typename tree::factors) + 15) / 16 * 16,
                            BYTES = FACTOR_BYTES + tree::POINTS * sizeof(float2);
};

#endif
