#include "reference.h"

double reference_sum(const float *h, int n_taps, const float *x, int64_t n_x, int64_t frame)
{
    int64_t first = frame - n_x + 1 > 0 ? frame - n_x + 1 : 0; /* taps whose x exists */
    int64_t last = frame < n_taps - 1 ? frame : n_taps - 1;
    enum { CHAINS = 16 }; /* the compiler makes vectors of them, and no adder waits */
    double sum[CHAINS] = {0}, all = 0;
    int64_t k = first;
    for (; k + CHAINS - 1 <= last; k += CHAINS)
        for (int j = 0; j < CHAINS; j++) sum[j] += (double)h[k + j] * (double)x[frame - k - j];
    for (; k <= last; k++) all += (double)h[k] * (double)x[frame - k];
    for (int j = 0; j < CHAINS; j++) all += sum[j];
    return all;
}

void reference_add(const float *a, int64_t n_a, const float *b, int64_t n_b, int64_t from, bool reversed, int64_t n_y,
                   double *restrict sum, double *restrict squares)
{
    for (int64_t n = 0; n < n_b; n++) {
        int64_t at = reversed ? n - from : from - n, end = n_a - at < n_y ? n_a - at : n_y; /* a[m + at], m < end */
        for (int64_t m = at < 0 ? -at : 0; m < end; m++) {
            double product = (double)a[m + at] * (double)b[n];
            sum[m] += product;
            squares[m] += product * product;
        }
    }
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
