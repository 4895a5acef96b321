#include "decay.h"

#include <math.h>
#include <stdlib.h>

/* ---- lines ------------------------------------------------------------------------------------------------------ */

struct line_sums { /* sums for the least-squares line of y over x */
    double n, x, y, xx, xy, yy;
};

static void sums_add(struct line_sums *s, double x, double y)
{
    s->n++;
    s->x += x;
    s->y += y;
    s->xx += x * x;
    s->xy += x * y;
    s->yy += y * y;
}

/* Returns the least-squares line; x counts from first_s. */
static struct decay_fit sums_fit(const struct line_sums *s, double first_s, double last_s)
{
    double sxx = s->xx - s->x * s->x / s->n, syy = s->yy - s->y * s->y / s->n, sxy = s->xy - s->x * s->y / s->n;
    double slope = sxy / sxx;
    if (!(s->n >= 3) || !(slope < 0)) return (struct decay_fit){0};
    return (struct decay_fit){.slope = slope,
                              .at_start_db = (s->y - slope * s->x) / s->n - slope * first_s,
                              .from_s = first_s,
                              .to_s = last_s,
                              .r2 = sxy * sxy / (sxx * syy)};
}

static double level_at(const struct decay_fit *line, double seconds)
{
    return line->at_start_db + line->slope * seconds;
}

static double fit_time(const struct decay_fit *line, double db)
{
    return (db - line->at_start_db) / line->slope;
}

/* ---- the noise -------------------------------------------------------------------------------------------------- */

struct levels { /* levels of h^2 in windows; energy[n + 1] is the backward integral, exact also at its end */
    const double *energy;
    int n, rate;
    int window, loudest; /* frames; the number of the loudest window */
    double noise;        /* mean square, which is subtracted */
};

static double mean_square(const struct levels *l, int from, int to)
{
    return (l->energy[from] - l->energy[to]) / (to - from);
}

static double level(const struct levels *l, int i) /* dB; -INFINITY: not above the noise */
{
    double power = mean_square(l, i * l->window, (i + 1) * l->window) - l->noise;
    return power > 0 ? 10 * log10(power) : -INFINITY;
}

static void set_window(struct levels *l, int window)
{
    l->window = window < l->n / 10 ? window : l->n / 10;
    if (l->window < 1) l->window = 1;
    double max = -1;
    for (int i = 0; (i + 1) * l->window <= l->n; i++) {
        double power = mean_square(l, i * l->window, (i + 1) * l->window);
        if (power > max) max = power, l->loudest = i;
    }
}

/* Fits a line to the levels above `min` dB between two times, from the loudest level on. Lower levels are gaps, such as
 * silence between the direct sound and the first reflection. */
static struct decay_fit fit_levels(const struct levels *l, double from_s, double to_s, double min)
{
    struct line_sums sums = {0};
    double first = 0, last = 0;
    for (int i = l->loudest; (i + 1) * l->window <= l->n; i++) {
        double x = (i + 0.5) * l->window / l->rate, y = level(l, i);
        if (x > to_s) break;
        if (x < from_s || !(y > min)) continue;
        if (sums.n == 0) first = x;
        last = x;
        sums_add(&sums, x - first, y);
    }
    return sums_fit(&sums, first, last);
}

/* The first line: from the loudest level to 10 dB above the noise, in windows that are short enough for three levels,
 * but too long for a peak of the noise to be 10 dB above it. */
static struct decay_fit fit_first(struct levels *l, int window, double noise_db)
{
    enum { SHORTEST = 8 };
    struct decay_fit line;
    do {
        set_window(l, window);
        line = fit_levels(l, 0, INFINITY, noise_db + 10);
        window /= 2;
    } while (line.slope == 0 && window >= SHORTEST);
    return line;
}

/* Is the end of the response noise, and not the decay itself? The two halves of noise have the same level. */
static bool ends_in_noise(const struct levels *l, int from, double slope)
{
    int half = from + (l->n - from) / 2;
    double expected = slope * (l->n - from) / 2 / l->rate; /* fall of the decay, dB */
    return half > from && 10 * log10(mean_square(l, half, l->n) / mean_square(l, from, half)) > expected / 2;
}

/* The line through the levels just above the noise, and the noise behind its crossing with it. */
static bool find_crossing(struct decay *d, struct levels *l, int window, struct decay_fit *line)
{
    int behind = 0, last_tenth = l->n - (l->n + 9) / 10;
    double noise_db = 10 * log10(mean_square(l, last_tenth, l->n)), crossing = fit_time(line, noise_db);
    for (int i = 0; i < 5; i++) {
        double behind_frames = (crossing - 10 / line->slope) * l->rate; /* where the decay is 10 dB below the noise */
        behind = behind_frames > 0 && behind_frames < last_tenth ? (int)behind_frames : last_tenth;
        l->noise = mean_square(l, behind, l->n);
        noise_db = 10 * log10(l->noise);
        set_window(l, (int)fmax(window, fmin(-2 / line->slope * l->rate, l->n)));
        struct decay_fit next = fit_levels(l, fit_time(line, noise_db + 25), fit_time(line, noise_db + 5), -INFINITY);
        if (next.slope == 0) break;
        *line = next;
        crossing = fit_time(line, noise_db);
    }
    double frames = crossing * l->rate;
    if (!(frames >= 1 && frames < l->n) || !ends_in_noise(l, behind, line->slope)) return false;
    d->n = (int)frames;
    d->noise = l->noise;
    return true;
}

static void find_noise_level(struct decay *d, const double *energy, int n, int window)
{
    struct levels l = {.energy = energy, .n = n, .rate = d->rate};
    const double end_s = (double)n / d->rate;
    double end_db = 10 * log10(mean_square(&l, n - (n + 9) / 10, n));
    set_window(&l, window);
    d->n = n;
    d->fall_db = fmax(level(&l, l.loudest) - end_db, 0);
    d->late = fit_first(&l, window, end_db);
    d->falls = d->fall_db >= 10 && d->late.slope < 0;
    if (!d->falls || find_crossing(d, &l, window, &d->late)) return;
    l.noise = 0; /* the end is the decay itself */
    struct decay_fit line = fit_levels(&l, fit_time(&d->late, level_at(&d->late, end_s) + 25), end_s, -INFINITY);
    if (line.slope < 0) d->late = line;
}

/* ---- the curve -------------------------------------------------------------------------------------------------- */

bool decay_make(struct decay *d, const double *h, int n, int n_ends, int rate, int window)
{
    *d = (struct decay){.rate = rate, .energy = malloc(((size_t)n + 1) * sizeof *d->energy)};
    if (!d->energy) return false;
    double *energy = d->energy, rest = 0;
    n -= n_ends;
    energy[n] = 0;
    for (int i = n - 1; i >= 0; i--) energy[i] = energy[i + 1] + h[i] * h[i];
    find_noise_level(d, energy, n, window);
    /* The energy of the decay behind frame n: there a line in dB is an exponential. */
    if (d->falls) rest = pow(10, level_at(&d->late, (double)d->n / rate) / 10) * 10 / M_LN10 / -d->late.slope * rate;
    double behind = energy[d->n];
    for (int i = 0; i <= d->n; i++) energy[i] += rest - behind - d->noise * (d->n - i);
    return true;
}

void decay_free(struct decay *d)
{
    free(d->energy);
    *d = (struct decay){0};
}

double decay_total(const struct decay *d)
{
    return d->energy[0] + d->before;
}

double decay_after(const struct decay *d, double seconds)
{
    double frame = seconds * d->rate;
    int i = (int)floor(frame);
    if (i < 0 || i >= d->n) return NAN;
    return d->energy[i] + (frame - i) * (d->energy[i + 1] - d->energy[i]);
}

double decay_db(const struct decay *d, int frame)
{
    return 10 * log10(fmax(d->energy[frame], 0) / decay_total(d));
}

struct decay_fit decay_fit(const struct decay *d, double from_db, double to_db)
{
    struct line_sums sums = {0};
    double first = 0, last = 0;
    for (int i = 0; i <= d->n; i++) {
        double x = (double)i / d->rate, y = decay_db(d, i);
        if (y < to_db) break;
        if (y > from_db) continue;
        if (sums.n == 0) first = x;
        last = x;
        sums_add(&sums, x - first, y);
    }
    return sums_fit(&sums, first, last);
}
