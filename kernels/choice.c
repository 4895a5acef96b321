#include "choice.h"

#include "choice_table.h"

#include <stdbool.h>
#include <stddef.h>

const char *const choice_rung[CHOICES] = {"few", "register", "tensor", "overlap_save"};
const char *const choice_gpu = CHOICE_GPU;

enum { N_TAPS = sizeof choice_taps / sizeof *choice_taps, N_FRAMES = sizeof choice_frames / sizeof *choice_frames };
enum { N_OUT = sizeof choice_out / sizeof *choice_out, CORNERS = 8 };

/* Where v lies on an axis of rising values: between *at and *at + 1, the share *above of the way. What a kernel takes
 * is about a constant and a product of taps, frames and outputs: straight lines between the corners hit that
 * exactly. */
static void axis_find(const int *axis, int n, double v, int *at, double *above)
{
    int i = 0;
    while (i < n - 2 && v >= axis[i + 1]) i++;
    double share = (v - axis[i]) / (axis[i + 1] - axis[i]);
    *at = i;
    *above = share < 0 ? 0 : share > 1 ? 1 : share;
}

/* Beyond the longest row the work of more channels is that of more frames. */
static double fold(int n_out, long n_frames)
{
    int most = choice_out[N_OUT - 1];
    return n_out > most ? (double)n_frames * n_out / most : (double)n_frames;
}

void choice_expected_ns(double ns[CHOICES], int n_taps, long n_frames, int n_out, enum sharing sharing)
{
    int tap, frame, out;
    double tap_above, frame_above, out_above, weights = 0, sums[CHOICES] = {0};
    bool slow[CHOICES] = {false};
    axis_find(choice_taps, N_TAPS, n_taps, &tap, &tap_above);
    axis_find(choice_frames, N_FRAMES, fold(n_out, n_frames), &frame, &frame_above);
    axis_find(choice_out, N_OUT, n_out, &out, &out_above);
    for (int c = 0; c < CORNERS; c++) {
        int o = out + (c >> 2), f = frame + (c >> 1 & 1), t = tap + (c & 1);
        double weight = (c >> 2 ? out_above : 1 - out_above) * (c >> 1 & 1 ? frame_above : 1 - frame_above) *
                        (c & 1 ? tap_above : 1 - tap_above);
        const int *row = choice_ns[choice_out[o] == 1 ? SHARED : sharing][o][f][t];
        bool measured = false;
        for (int i = 0; i < CHOICES; i++) measured = measured || row[i] > 0;
        if (weight <= 0 || !measured) continue;
        weights += weight;
        for (int i = 0; i < CHOICES; i++) {
            if (row[i] > 0) sums[i] += weight * row[i];
            else slow[i] = true;
        }
    }
    for (int i = 0; i < CHOICES; i++) ns[i] = weights > 0 && !slow[i] ? sums[i] / weights : 0;
}

enum choice ladder_choose(int n_taps, long n_frames, int n_out, enum sharing sharing, unsigned among)
{
    double ns[CHOICES];
    int best = -1;
    choice_expected_ns(ns, n_taps, n_frames, n_out, sharing);
    for (int i = 0; i < CHOICES; i++)
        if (among >> i & 1 && ns[i] > 0 && (best < 0 || ns[i] < ns[best])) best = i;
    if (best >= 0) return (enum choice)best;
    /* None was measured near here: many frames or many taps. Transforms if they may be used, else the register tile. */
    return among >> OVERLAP_SAVE & 1 ? OVERLAP_SAVE
           : among >> REGISTER & 1   ? REGISTER
           : among >> FEW & 1        ? FEW
                                     : TENSOR;
}

const struct choice_probe *choice_probe_at(int i)
{
    return i >= 0 && i < (int)(sizeof choice_probes / sizeof *choice_probes) ? &choice_probes[i] : NULL;
}
