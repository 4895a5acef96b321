#include "reference.h"

double reference_sum(const float *h, int n_taps, const float *x, int64_t n_x, int64_t frame)
{
    int64_t first = frame - n_x + 1 > 0 ? frame - n_x + 1 : 0; /* taps whose x exists */
    int64_t last = frame < n_taps - 1 ? frame : n_taps - 1;
    double sum[4] = {0}; /* four chains, so that the adder does not wait */
    int64_t k = first;
    for (; k + 3 <= last; k += 4)
        for (int j = 0; j < 4; j++) sum[j] += (double)h[k + j] * (double)x[frame - k - j];
    for (; k <= last; k++) sum[0] += (double)h[k] * (double)x[frame - k];
    return sum[0] + sum[1] + sum[2] + sum[3];
}

double reference_frame(const hc_route *routes, int n, const float *const *in, int64_t n_x, int out, int64_t frame)
{
    double y = 0;
    for (int r = 0; r < n; r++)
        if (routes[r].out == out)
            y += (double)routes[r].gain *
                 reference_sum(routes[r].taps, routes[r].n_taps, in[routes[r].in], n_x, frame - routes[r].delay);
    return y;
}

void reference_textbook(const double *N, int width, const double *M, int mask_width, double *P)
{
    for (int i = 0; i < width; i++) {
        P[i] = 0;
        for (int j = 0; j < mask_width; j++) {
            int at = i - mask_width / 2 + j;
            if (at >= 0 && at < width) P[i] += N[at] * M[j];
        }
    }
}
