#include "stretch.h"

#include <math.h>

enum { REACH = 256 /* frames on each side */, STEPS = 8192 /* in the table: linear interpolation is exact to 1e-7 */ };

/* Kaiser's window with beta 12 from its middle to its end; its Bessel function is a series. */
static void fill_window(double *table)
{
    for (int i = 0; i <= STEPS; i++) {
        double x = (double)i / STEPS, square = 36 * (1 - x * x), term = 1;
        table[i] = 1;
        for (int k = 1; k < 40; k++) table[i] += term *= square / ((double)k * k);
    }
    table[STEPS + 1] = 0;
}

void stretch(const double *x, size_t n_x, double first, double ratio, double *y, size_t n)
{
    const double min_fraction = 1e-6; /* makes an error of -110 dB */
    double table[STEPS + 2];
    fill_window(table);
    for (size_t i = 0; i < n; i++) {
        double at = first + (double)i * ratio, whole = floor(at + min_fraction), fraction = at - whole, sum = 0;
        if (fabs(fraction) < min_fraction) { /* nearly always, if both sides have one clock */
            y[i] = whole >= 0 && whole < (double)n_x ? x[(size_t)whole] : 0;
            continue;
        }
        double sine = sin(M_PI * fraction) / M_PI;
        for (int k = 1 - REACH; k <= REACH; k++) {
            double from = whole + k, distance = fraction - k, position = fabs(distance) / REACH * STEPS;
            if (!(from >= 0 && from < (double)n_x && position <= STEPS)) continue;
            double sinc = fabs(distance) < 1e-9 ? 1 : sine * (k % 2 ? -1 : 1) / distance;
            int step = (int)position;
            double window = table[step] + (position - step) * (table[step + 1] - table[step]);
            sum += x[(size_t)from] * sinc * window;
        }
        y[i] = sum / table[0];
    }
}
