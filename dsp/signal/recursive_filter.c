#include "recursive_filter.h"

#include "response_cut.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

bool recursion_is_stable(const double *a, int n_a)
{
    double p[RECURSION_ORDER + 1] = {0}, q[RECURSION_ORDER + 1] = {0};
    if (n_a - 1 > RECURSION_ORDER) return false;
    if (n_a > 0) memcpy(p, a, (size_t)n_a * sizeof *p);
    for (int order = n_a - 1; order > 0; order--) {
        double k = p[order];
        if (!(fabs(k) < 1)) return false;
        for (int i = 1; i < order; i++) q[i] = (p[i] - k * p[order - i]) / (1 - k * k);
        memcpy(p + 1, q + 1, (size_t)(order - 1) * sizeof *p);
    }
    return true;
}

static void recursive_run(const double *b, int n_b, const double *a, int n_a, double *h, int n)
{
    for (int i = 0; i < n; i++) {
        double y = i < n_b ? b[i] : 0;
        for (int k = 1; k < n_a && k <= i; k++) y -= a[k] * h[i - k];
        h[i] = y;
    }
}

int recursion_taps(const double *b, int n_b, const double *a, int n_a, double error_db, int max, double **taps,
                   double *rest_db)
{
    /* The response is long enough when its second half is 20 dB below the error. */
    for (int n = n_b + 4096;; n *= 2) {
        double *h = *taps = malloc((size_t)n * sizeof *h);
        if (!h) return 0;
        recursive_run(b, n_b, a, n_a, h, n);
        if (n_a == 1 || n / 2 > max || (n / 2 >= n_b && response_cut(h, n, error_db - 20, n, NULL) <= n / 2))
            return response_cut(h, n, error_db, max, rest_db);
        free(h);
    }
}
