#include "mask_analysis.h"

#include "dsp/signal/transform.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

static void levels(const float *h, int n, struct mask_figures *f)
{
    double energy = 0;
    for (int i = 0; i < n; i++) {
        double size = fabs((double)h[i]);
        if (size > f->peak) {
            f->peak = size;
            f->peak_frame = i;
        }
        f->l1 += size;
        f->dc_gain += h[i];
        energy += size * size;
    }
    f->rms = sqrt(energy / n);
    while (f->leading_silence < n && fabs((double)h[f->leading_silence]) < f->peak * 1e-3) f->leading_silence++;
}

/* ---- the response ------------------------------------------------------------------------------- */

static void responses(float *const *channel, int n_channels, int n, int rate, struct mask_figures *figures)
{
    struct transform t;
    /* With a response padded to four times its length, the spectrum between two bins is at most 0.2 dB above them. For
     * a long response, whose bins are closer than its resonances are wide, twice the length is enough. */
    if (!transform_open(&t, transform_size((size_t)n * (n <= 1 << 16 ? 4 : 2)))) return;
    double complex *bins = malloc((t.size / 2 + 1) * sizeof *bins);
    for (int ch = 0; bins && ch < n_channels; ch++) {
        double most = 0;
        size_t at = 0;
        transform_response_float(&t, channel[ch], (size_t)n, bins);
        for (size_t bin = 0; bin <= t.size / 2; bin++) {
            double power = bin_power(bins[bin]);
            if (power > most) {
                most = power;
                at = bin;
            }
        }
        figures[ch].response_peak = sqrt(most);
        figures[ch].response_peak_hz = (double)at / (double)t.size * (rate ? rate : 1);
    }
    free(bins);
    transform_close(&t);
}

/* ---- the decay ---------------------------------------------------------------------------------- */

struct line { /* least squares of y on x */
    double n, x, y, xx, xy, yy;
};

static double energy_of(const float *h, int from, int to)
{
    double sum = 0;
    for (int i = from; i < to; i++) sum += (double)h[i] * h[i];
    return sum;
}

/* The fall of the level until the end, in dB. Backward integration makes any end look like a decay, so only this level
 * shows whether a response was cut before it had fallen by 35 dB. */
static double fall_db(const float *h, int from, int to)
{
    int window = (to - from) / 20 > 0 ? (to - from) / 20 : 1;
    double loudest = 0, last = energy_of(h, to - window, to);
    for (int i = from; i + window <= to; i += window) {
        double energy = energy_of(h, i, i + window);
        if (energy > loudest) loudest = energy;
    }
    return last > 0 ? 10 * log10(loudest / last) : 300;
}

static struct line fit(const float *h, int from, int to, int rate, double total)
{
    struct line line = {0};
    double left = total;
    int first = -1;
    for (int i = from; i < to && left > 0; i++) {
        double db = 10 * log10(left / total);
        if (db < -35) break;
        if (db <= -5) {
            if (first < 0) first = i;
            double x = (double)(i - first) / rate;
            line.n++;
            line.x += x;
            line.y += db;
            line.xx += x * x;
            line.xy += x * db;
            line.yy += db * db;
        }
        left -= (double)h[i] * h[i];
    }
    return line;
}

/* T30 of ISO 3382: Schroeder's backward integral of the squared response (J. Acoust. Soc. Am. 37, 1965), a line from -5
 * to -35 dB, and the time in which that falls by 60 dB. */
static void decay(const float *h, int n, int rate, struct mask_figures *f)
{
    enum { FEWEST_FRAMES = 32 };
    const double shortest_s = 0.02; /* a shorter fall is the ringing of a filter, not the decay of a room */
    int to = n;
    while (to > 0 && h[to - 1] == 0) to--;
    double total = energy_of(h, 0, to), fall = fall_db(h, f->peak_frame, to);
    if (rate <= 0) {
        snprintf(f->t30_reason, sizeof f->t30_reason, "the rate is not known");
        return;
    }
    if (fall < 35) {
        snprintf(f->t30_reason, sizeof f->t30_reason, "it falls by %.0f dB only before it ends", fmax(fall, 0));
        return;
    }
    struct line line = fit(h, 0, to, rate, total);
    double sxx = line.xx - line.x * line.x / line.n, syy = line.yy - line.y * line.y / line.n;
    double sxy = line.xy - line.x * line.y / line.n, slope = sxy / sxx;
    if (!(line.n >= FEWEST_FRAMES) || line.n < shortest_s * rate || !(slope < 0))
        snprintf(f->t30_reason, sizeof f->t30_reason, "it falls from -5 to -35 dB in %.3g ms: no decay to speak of",
                 1000 * line.n / rate);
    else if (sxy * sxy < 0.9 * sxx * syy)
        snprintf(f->t30_reason, sizeof f->t30_reason, "it does not fall in a straight line");
    else
        f->t30_s = -60 / slope;
}

int mask_find_onset(float *const *channel, int n_channels, int n_frames)
{
    const float within_20_db = 0.1f;
    float peak = 0;
    for (int ch = 0; ch < n_channels; ch++)
        for (int i = 0; i < n_frames; i++) peak = fmaxf(peak, fabsf(channel[ch][i]));
    for (int i = 0; i < n_frames && peak > 0; i++)
        for (int ch = 0; ch < n_channels; ch++)
            if (fabsf(channel[ch][i]) >= within_20_db * peak) return i;
    return -1;
}

void mask_find_decay(float *const *channel, int n_channels, int n_frames, int rate, struct mask_figures *figures)
{
    for (int ch = 0; ch < n_channels; ch++) {
        struct mask_figures *f = &figures[ch];
        *f = (struct mask_figures){.t30_s = NAN, .response_peak = NAN, .response_peak_hz = NAN};
        levels(channel[ch], n_frames, f);
        if (f->peak > 0)
            decay(channel[ch], n_frames, rate, f);
        else
            snprintf(f->t30_reason, sizeof f->t30_reason, "it is silent");
    }
}

void mask_analyse(float *const *channel, int n_channels, int n_frames, int rate, struct mask_figures *figures)
{
    mask_find_decay(channel, n_channels, n_frames, rate, figures);
    responses(channel, n_channels, n_frames, rate, figures);
}
