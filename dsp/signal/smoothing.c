#include "smoothing.h"

#include <math.h>

/* One edge of the band; it moves up as the bin index grows. */
struct edge {
    size_t bin;
    long double below; /* the sum of all bins below the edge; a double would lose bins 150 dB below the largest */
    double share;      /* the part of the edge's bin that lies below the edge */
};

static void edge_move(struct edge *edge, const double *power, size_t n_bins, double to)
{
    double end = fmin(to + 0.5, (double)n_bins); /* bin b goes from b to b + 1 */
    while ((double)(edge->bin + 1) <= end && edge->bin + 1 < n_bins) edge->below += (long double)power[edge->bin++];
    edge->share = fmax(end - (double)edge->bin, 0);
}

static void smooth(const double *power, double *out, size_t n_bins, double octaves, const double *varying)
{
    struct edge low = {0}, high = {0};
    for (size_t k = 0; k < n_bins; k++) {
        double ratio = exp2((varying ? varying[k] : octaves) / 2);
        edge_move(&low, power, n_bins, (double)k / ratio);
        edge_move(&high, power, n_bins, (double)k * ratio);
        double width = (double)(high.bin - low.bin) + high.share - low.share;
        long double sum = high.below - low.below + (long double)(high.share * power[high.bin]) -
                          (long double)(low.share * power[low.bin]);
        out[k] = high.bin == low.bin ? power[k] : fmax((double)sum, 0) / width;
    }
}

void smooth_octaves(const double *power, double *out, size_t n_bins, double octaves)
{
    smooth(power, out, n_bins, octaves, NULL);
}

void smooth_octaves_varying(const double *power, double *out, size_t n_bins, const double *octaves)
{
    smooth(power, out, n_bins, 0, octaves);
}
