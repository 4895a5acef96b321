/* long_windows - positions of the windows of long filters, and teams that transform their rows (long_kernels.h).
 */
#ifndef HALOCONV_LONG_WINDOWS_CUH
#define HALOCONV_LONG_WINDOWS_CUH

#include "long_kernels.h"
#include "team_windows.cuh"

struct unit_position {
    row_position at;
    int64_t start;  /* the frame of the window's point 0 */
    int64_t begin;  /* the first frame of the row: of a packed sequence */
    int64_t frames; /* of the row */
    int spectrum;   /* -1: the result is 0 */
    bool exists;    /* false: there is nothing to write */
};
template <class Int>
static __device__ __forceinline__ unit_position divide(const long_units &u, Int unit, Int units_of_group, Int n_windows)
{
    const Int group = unit / units_of_group, task = unit - group * units_of_group, row = task / n_windows;
    unit_position position;
    position.at = position_of(u.groups, (unsigned)(u.groups.first + group), (unsigned)row);
    position.start = (int64_t)(task - row * n_windows) * u.hop + u.start;
    position.begin = 0;
    position.frames = u.rows.frames;
    position.spectrum = (int)group;
    position.exists = true;
    return position;
}
/* Is the position in the index or the offsets? They are complete before the first `split` of a call begins, so it and
 * the kernels after it may read them before previous_wait (long_rows.cu). */
static __host__ __device__ __forceinline__ bool units_are_listed(const long_units &u)
{
    return u.groups.index || u.groups.offsets;
}
/* Corrects the position for filters by index and, with PACKED, for packed sequences. */
template <bool PACKED>
static __device__ void position_list(const long_units &u, int64_t unit, unit_position *position)
{
    const fused_groups &g = u.groups;
    if (PACKED && g.offsets && !u.is_filters) {
        const bool by_channel = g.h_batch > 1 && !u.by_group;
        item_window w = {position->at.batch, position->start - u.start};
        if (by_channel) position->at.channel = (int)(unit / u.n_windows);
        if (!u.by_group) position->exists = item_window_of(g, u.hop, unit % u.n_windows, &w);
        if (by_channel) position->spectrum = (int)group_of(g, w.item, (unsigned)position->at.channel) - g.first;
        position->exists = position->exists && position->spectrum >= 0 && position->spectrum < g.n;
        position->at.batch = 0;
        position->start = w.start + u.start;
        position->frames = rows_of_item(g, u.rows, w.item, &position->begin).frames;
    }
    if (g.index && position->exists) {
        const int number = (int)filter_of(g, (unsigned)(g.first + position->spectrum));
        if (u.is_filters) position->at = row_position{number, 0, number};
        if (u.by_bank || number < 0) position->spectrum = number;
    }
    if (!position->exists) position->spectrum = -1;
}
template <bool PACKED = true>
static __device__ __forceinline__ unit_position position_of_unit(const long_units &u, unsigned local)
{
    const int64_t unit = u.first + local;
    unit_position position;
    if ((unit | u.units_of_group | u.n_windows) >> 32)
        position = divide<int64_t>(u, unit, u.units_of_group, u.n_windows);
    else /* the division of 64 bits is slow */
        position = divide(u, (unsigned)unit, (unsigned)u.units_of_group, (unsigned)u.n_windows);
    if (units_are_listed(u)) position_list<PACKED>(u, unit, &position);
    return position;
}

/* The frames of a row that count: those of a filter up to its length, none if there is no filter. */
static __device__ __forceinline__ int64_t frames_of(const long_units &u, const unit_position &position)
{
    if (position.spectrum < 0) return 0;
    const int64_t length = u.lengths ? u.lengths[position.at.filter] : position.frames;
    return length < position.frames ? length : position.frames;
}
static __device__ __forceinline__ window_position window_of_unit(const long_units &u, const unit_position &position,
                                                                 int points)
{
    fused_rows rows = u.rows;
    rows.frames = frames_of(u, position);
    window_position w = window_of(rows, position.at, position.start, position.start + u.end, points);
    w.at += position.begin;
    return w;
}

/* The frames of a window that are written: point p is element at + p of the data, for first <= p < last. From `length`
 * on, 0 is written. */
struct written_frames {
    int64_t at;
    int first, last, length;
};
static __device__ written_frames written_frames_of(const long_units &u, const long_output &o,
                                                   const unit_position &position)
{
    const int64_t left = position.exists ? position.frames - position.start : 0;
    const int64_t used = frames_of(u, position) - position.start;
    written_frames frames;
    frames.at = position.at.batch * u.rows.stride[0] + position.at.channel * u.rows.stride[1] + position.begin +
                position.start;
    frames.first = (int)o.first_point;
    frames.last = (int)(left < u.end ? left > 0 ? left : 0 : u.end);
    frames.length = (int)(used < frames.last ? used > 0 ? used : 0 : frames.last);
    return frames;
}

template <int LOG_N> struct row_size : team_tree<LOG_N, true> {
    using tree = team_tree<LOG_N, true>;
    static constexpr int BLOCKS = tree::RESIDENT / tree::T < 16 ? tree::RESIDENT / tree::T : 16;
    static constexpr size_t BYTES = tree::FACTOR_BYTES + tree::POINT_BYTES;
};

#endif
