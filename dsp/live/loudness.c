#include "loudness.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double MIN_LUFS = -70, CLASS_LU = 0.1, RELATIVE_LU = -10;
static const double TOO_LOUD = 1e30; /* sum of the squares of a step: samples of 1e13 */

bool loudness_open(struct loudness *m, int n_channels, int rate)
{
    *m = (struct loudness){.n_channels = n_channels, .step = rate / 10 > 0 ? rate / 10 : 1};
    k_weighting(rate, m->filters);
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

/* Returns the sum of the squares of n weighted frames. */
static double weigh(const struct loudness *m, int ch, const float *x, int n)
{
    double sum = 0, (*s)[2] = m->state[ch];
    for (int i = 0; i < n; i++) {
        double y = (double)x[i];
        for (int f = 0; f < 2; f++) { /* transposed direct form II */
            const struct biquad *filter = &m->filters[f];
            double in = y;
            y = filter->b0 * in + s[f][0];
            s[f][0] = filter->b1 * in - filter->a1 * y + s[f][1];
            s[f][1] = filter->b2 * in - filter->a2 * y;
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
    double above = (lufs_of(energy) - MIN_LUFS) / CLASS_LU;
    if (!(above >= 0)) return; /* the block is below -70 LUFS, or NaN after an overflow */
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
        if (!(m->sum < TOO_LOUD)) { /* raw bytes that are played as floats, or NaN: it would outweigh all music */
            memset(m->state, 0, (size_t)m->n_channels * sizeof *m->state);
            m->sum = 0;
        }
        m->sums[m->n_steps++ % LOUDNESS_STEPS] = m->sum;
        m->sum = 0;
        m->pos = 0;
        if (m->n_steps < LOUDNESS_STEPS) continue;
        if (m->n_steps == 2 * LOUDNESS_STEPS) m->n_steps = LOUDNESS_STEPS; /* so that the count does not overflow */
        block_add(m);
        is_new = true;
    }
    return is_new;
}

/* Returns the mean of the blocks of a class and all higher ones. */
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
    double all = mean_from(m, 0), gate = (all + RELATIVE_LU - MIN_LUFS) / CLASS_LU;
    return isfinite(all) ? mean_from(m, gate > 0 ? (int)gate : 0) : all;
}
