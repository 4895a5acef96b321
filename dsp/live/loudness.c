#include "loudness.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double PI = 3.14159265358979323846, LEAST_LUFS = -70, CLASS_LU = 0.1, RELATIVE_LU = -10;

/* BS.1770 has the coefficients for 48 kHz. These are the analogue filters that give them by the bilinear transform: a
 * shelf of +4 dB, and a high-pass at 38 Hz. */
static void design(struct loudness *m, double rate)
{
    const double shelf_hz = 1681.974450955533, gain_db = 3.999843853973347, shelf_q = 0.7071752369554196;
    const double low_hz = 38.13547087602444, low_q = 0.5003270373238773;
    double k = tan(PI * shelf_hz / rate), vh = pow(10, gain_db / 20), vb = pow(vh, 0.4996667741545416);
    double a0 = 1 + k / shelf_q + k * k;
    m->b[0][0] = (vh + vb * k / shelf_q + k * k) / a0;
    m->b[0][1] = 2 * (k * k - vh) / a0;
    m->b[0][2] = (vh - vb * k / shelf_q + k * k) / a0;
    m->a[0][0] = 2 * (k * k - 1) / a0;
    m->a[0][1] = (1 - k / shelf_q + k * k) / a0;
    k = tan(PI * low_hz / rate);
    a0 = 1 + k / low_q + k * k;
    m->b[1][0] = 1;
    m->b[1][1] = -2;
    m->b[1][2] = 1;
    m->a[1][0] = 2 * (k * k - 1) / a0;
    m->a[1][1] = (1 - k / low_q + k * k) / a0;
}

bool loudness_open(struct loudness *m, int n_channels, int rate)
{
    *m = (struct loudness){.n_channels = n_channels, .step = rate / 10 > 0 ? rate / 10 : 1};
    design(m, rate > 4000 ? rate : 4000); /* the shelf must lie below half the rate */
    m->state = calloc((size_t)n_channels, sizeof *m->state);
    return m->state != NULL;
}

void loudness_close(struct loudness *m)
{
    free(m->state);
    m->state = NULL;
}

void loudness_reset(struct loudness *m)
{
    memset(m->state, 0, (size_t)m->n_channels * sizeof *m->state);
    memset(m->energies, 0, sizeof m->energies);
    memset(m->counts, 0, sizeof m->counts);
    m->pos = m->n_steps = 0;
    m->sum = 0;
}

static double lufs_of(double mean_square)
{
    return -0.691 + 10 * log10(mean_square);
}

/* The sum of the squares of n weighted frames. */
static double weigh(const struct loudness *m, int ch, const float *x, int n)
{
    double sum = 0, (*s)[2] = m->state[ch];
    for (int i = 0; i < n; i++) {
        double y = (double)x[i];
        for (int f = 0; f < 2; f++) { /* transposed direct form II */
            double in = y;
            y = m->b[f][0] * in + s[f][0];
            s[f][0] = m->b[f][1] * in - m->a[f][0] * y + s[f][1];
            s[f][1] = m->b[f][2] * in - m->a[f][1] * y;
        }
        sum += y * y;
    }
    return sum;
}

static void block_add(struct loudness *m)
{
    double energy = 0;
    for (int i = 0; i < LOUDNESS_STEPS; i++) energy += m->sums[i];
    energy /= (double)LOUDNESS_STEPS * m->step;
    double above = (lufs_of(energy) - LEAST_LUFS) / CLASS_LU;
    if (!(above >= 0)) return; /* an overflow, too, is left out */
    int class = above < LOUDNESS_CLASSES ? (int)above : LOUDNESS_CLASSES - 1;
    m->energies[class] += energy;
    m->counts[class]++;
}

bool loudness_add(struct loudness *m, float *const *rows, int n)
{
    bool is_new = false;
    for (int at = 0, len; at < n; at += len) {
        len = n - at < m->step - m->pos ? n - at : m->step - m->pos;
        for (int ch = 0; ch < m->n_channels; ch++) m->sum += weigh(m, ch, rows[ch] + at, len);
        if ((m->pos += len) < m->step) continue;
        if (!isfinite(m->sum)) { /* the convolution overflowed */
            memset(m->state, 0, (size_t)m->n_channels * sizeof *m->state);
            m->sum = 0;
        }
        m->sums[m->n_steps++ % LOUDNESS_STEPS] = m->sum;
        m->sum = 0;
        m->pos = 0;
        if (m->n_steps < LOUDNESS_STEPS) continue;
        if (m->n_steps == 2 * LOUDNESS_STEPS) m->n_steps = LOUDNESS_STEPS; /* does not overflow */
        block_add(m);
        is_new = true;
    }
    return is_new;
}

/* The mean of the blocks from a class on. */
static double mean_from(const struct loudness *m, int first)
{
    double energy = 0, count = 0;
    for (int i = first; i < LOUDNESS_CLASSES; i++) {
        energy += m->energies[i];
        count += m->counts[i];
    }
    return count > 0 ? lufs_of(energy / count) : -INFINITY;
}

double loudness_get(const struct loudness *m)
{
    double all = mean_from(m, 0), gate = (all + RELATIVE_LU - LEAST_LUFS) / CLASS_LU;
    return isfinite(all) ? mean_from(m, gate > 0 ? (int)gate : 0) : all;
}
