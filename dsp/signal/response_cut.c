#include "response_cut.h"

#include <math.h>

int response_cut(const double *h, int n, double rest_db, int max, double *cut_db)
{
    double energy = 0, rest = 0;
    for (int i = 0; i < n; i++) energy += h[i] * h[i];
    double allowed = energy * pow(10, rest_db / 10);
    while (n > 1 && (n > max || rest + h[n - 1] * h[n - 1] <= allowed)) {
        n--;
        rest += h[n] * h[n];
    }
    if (cut_db) *cut_db = rest > 0 ? 10 * log10(rest / energy) : -INFINITY;
    return n;
}
