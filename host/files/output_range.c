#include "output_range.h"

struct output_range output_range_make(enum range_choice choice, int n_taps)
{
    return (struct output_range){.skip = choice == RANGE_CENTRE ? (n_taps - 1) / 2 : 0,
                                 .extra = choice == RANGE_FULL ? n_taps - 1 : 0};
}

int64_t output_range_end(struct output_range range, int64_t n_frames_in)
{
    return range.skip + n_frames_in + range.extra;
}

int output_range_cut(struct output_range range, int64_t end, int64_t first, int n, int *from)
{
    int64_t start = range.skip > first ? range.skip - first : 0, stop = end - first < n ? end - first : n;
    *from = (int)(start < n ? start : n);
    return stop > *from ? (int)(stop - *from) : 0;
}

int routes_taps(const hc_route *routes, int n)
{
    int longest = 1;
    for (int i = 0; i < n; i++) {
        int length = routes[i].delay + routes[i].n_taps;
        if (length > longest) longest = length;
    }
    return longest;
}
