#include "acoustics.h"

#include "dsp/base/order.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { LONGEST_S = 120, MIN_BT = 4 };

const char *const acoustic_names[ACOUSTIC_FIGURES] = {"edt_s",      "t20_s",    "t30_s",         "c50_db",
                                                      "c80_db",     "d50",      "centre_time_s", "drr_db",
                                                      "noise_dbfs", "noise_db", "noise_time_s"};

static const struct {
    const char *name;
    double from_db, to_db;
} times[ACOUSTIC_TIMES] = {{"EDT", 0, -10}, {"T20", -5, -25}, {"T30", -5, -35}};

int acoustics_start(float *const *channel, int n_channels, int n_frames)
{
    const float within_20_db = 0.1f;
    float peak = 0;
    for (int ch = 0; ch < n_channels; ch++)
        for (int i = 0; i < n_frames; i++) peak = fmaxf(peak, fabsf(channel[ch][i]));
    for (int i = 0; i < n_frames && peak > 0; i++)
        for (int ch = 0; ch < n_channels; ch++)
            if (fabsf(channel[ch][i]) >= within_20_db * peak) return i;
    return 0;
}

/* ---- the figures of a curve ------------------------------------------------------------------------------------- */

#define REFUSE(band, figure, ...) (void)snprintf((band)->reason[figure], ACOUSTIC_REASON, __VA_ARGS__)

/* Is the decay long enough for the line? ISO 3382-1, 5.3.3 asks for a noise 10 dB below its end. */
static bool has_range(struct acoustic_band *band, int figure, const struct decay *d)
{
    double range = d->falls ? -decay_db(d, d->n) : d->fall_db, needed = -times[figure].to_db;
    if (d->noise > 0 && range < needed + 10)
        REFUSE(band, figure, "the decay meets the noise at -%.0f dB; %s needs -%.0f dB", range, times[figure].name,
               needed + 10);
    else if (range < needed)
        REFUSE(band, figure, "it falls by %.0f dB and ends; %s needs %.0f dB", range, times[figure].name, needed);
    else if (!d->falls)
        REFUSE(band, figure, "it does not fall in a straight line");
    else
        return true;
    return false;
}

static void find_time(struct acoustic_band *band, int figure, const struct decay *d)
{
    const double shortest_s = band->hz ? MIN_BT / octave_bandwidth(band->hz) : 0.04;
    const double from_db = times[figure].from_db, to_db = times[figure].to_db;
    struct decay_fit *fit = &band->fit[figure];
    *fit = decay_fit(d, from_db, to_db);
    if (!has_range(band, figure, d)) return;
    /* EDT is the slope of a curve that bends. */
    bool must_be_straight = figure != ACOUSTIC_EDT;
    double seconds = -60 / fit->slope, first_db = decay_db(d, (int)lrint(fit->from_s * d->rate));
    if (!(fit->slope < 0) || (!band->hz && seconds < shortest_s))
        REFUSE(band, figure, "it falls from %.0f to %.0f dB in %.3g ms, too fast for a room", from_db, to_db,
               1000 * (fit->to_s - fit->from_s));
    else if (seconds < shortest_s)
        REFUSE(band, figure, "it is shorter than the %.2g s that the octave's filter allows", shortest_s);
    else if (must_be_straight && first_db < (from_db + to_db) / 2)
        REFUSE(band, figure, "it drops by %.0f dB at once", -first_db);
    else if (must_be_straight && fit->r2 < 0.9)
        REFUSE(band, figure, "it does not fall in a straight line");
    else
        band->value[figure] = seconds;
}

/* The shares of energy before and after a time. */
static bool energy_split(struct acoustic_band *band, int figure, const struct decay *d, double seconds, double *early,
                         double *late)
{
    *late = decay_after(d, seconds - (band->hz ? octave_delay(band->hz) : 0)) / decay_total(d);
    *early = 1 - *late;
    if (*late > 0 && *early > 0) return true;
    REFUSE(band, figure, d->noise > 0 ? "the decay meets the noise after %.0f ms" : "it ends after %.3g ms",
           1000.0 * d->n / d->rate);
    return false;
}

static void find_clarity(struct acoustic_band *band, int figure, const struct decay *d, double seconds)
{
    double early, late;
    if (energy_split(band, figure, d, seconds, &early, &late)) band->value[figure] = 10 * log10(early / late);
}

static void set_noise_figures(struct acoustic_band *band, const struct decay *d, double peak)
{
    if (d->noise > 0) {
        band->value[ACOUSTIC_NOISE_DBFS] = 10 * log10(d->noise);
        band->value[ACOUSTIC_NOISE_DB] = 10 * log10(d->noise) - 20 * log10(peak);
        band->value[ACOUSTIC_NOISE_TIME] = (double)d->n / d->rate;
        return;
    }
    for (int i = ACOUSTIC_NOISE_DBFS; i <= ACOUSTIC_NOISE_TIME; i++)
        REFUSE(band, i, d->falls ? "it decays until it ends" : "it does not decay by 10 dB");
}

/* Sets the figures of a band. early_moment: the sum of seconds times energy before the start. */
static void set_band_figures(struct acoustic_band *band, const struct decay *d, double early_moment, double peak)
{
    const double direct_s = 2.5e-3;
    double late, early, moment = early_moment;
    for (int i = 0; i < ACOUSTIC_TIMES; i++) find_time(band, i, d);
    find_clarity(band, ACOUSTIC_C50, d, 0.05);
    find_clarity(band, ACOUSTIC_C80, d, 0.08);
    if (energy_split(band, ACOUSTIC_D50, d, 0.05, &early, &late)) band->value[ACOUSTIC_D50] = early;
    for (int i = 1; i <= d->n; i++) moment += d->energy[i] / d->rate; /* sum of i h^2 = sum of the energy curve */
    if (d->falls) moment += d->energy[d->n] * 10 / M_LN10 / -d->late.slope;
    band->value[ACOUSTIC_TS] = moment / decay_total(d) + (band->hz ? octave_delay(band->hz) : 0);
    if (!band->hz || octave_delay(band->hz) < direct_s / 2)
        find_clarity(band, ACOUSTIC_DRR, d, direct_s);
    else
        REFUSE(band, ACOUSTIC_DRR, "the octave's filter rings longer than the direct sound");
    set_noise_figures(band, d, peak);
}

/* ---- a response ------------------------------------------------------------------------------------------------- */

static struct acoustic_band no_band(int hz, const char *reason)
{
    struct acoustic_band band = {.hz = hz};
    for (int i = 0; i < ACOUSTIC_FIGURES; i++) {
        band.value[i] = NAN;
        REFUSE(&band, i, "%s", reason);
    }
    return band;
}

/* The response from its start to its last value that is not 0, as double. NULL: no memory. */
static double *cut_from_start(const float *h, int *n, int rate, int *start)
{
    *start = acoustics_start((float *[]){(float *)h}, 1, *n);
    while (*n > *start + 1 && h[*n - 1] == 0) --*n;
    *n -= *start;
    if (*n / rate >= LONGEST_S) *n = LONGEST_S * rate;
    double *x = malloc((size_t)*n * sizeof *x);
    for (int i = 0; x && i < *n; i++) x[i] = (double)h[*start + i];
    return x;
}

static bool make_broadband(struct decay *d, const double *x, int n, int rate)
{
    return decay_make(d, x, n, 0, rate, rate / 100 > 1 ? rate / 100 : 1);
}

/* Makes the decay curve of an octave. moment: the sum of seconds times energy before the start. */
static bool make_octave(struct decay *d, struct octave_bank *bank, int hz, double *moment, double *peak)
{
    const double *y = octave_filter(bank, hz);
    double delay = octave_delay(hz) * bank->rate;
    int n_ends = (int)fmin(4 * delay, bank->n / 2.0); /* length of the ringing of the filter before the end */
    if (!decay_make(d, y, bank->n, n_ends, bank->rate, (int)fmax(bank->rate / 100.0, 2 * delay))) return false;
    *moment = *peak = 0;
    for (size_t i = bank->size - (bank->size - (size_t)bank->n) / 2; i < bank->size; i++) {
        double frames = (double)(bank->size - i);
        d->before += y[i] * y[i];
        *moment -= frames / bank->rate * y[i] * y[i];
        *peak = fmax(*peak, fabs(y[i]));
    }
    for (int i = 0; i < bank->n; i++) *peak = fmax(*peak, fabs(y[i]));
    return true;
}

/* Makes the levels relative to the passband. */
static void find_passband(struct acoustics *a)
{
    const double within_db = 20, outside_db = 25;
    double loudest = -INFINITY, levels[OCTAVES] = {0};
    int n = 0;
    for (int i = 0; i < a->n_octaves; i++) loudest = fmax(loudest, a->octave[i].level_db);
    for (int i = 0; i < a->n_octaves; i++)
        if (a->octave[i].level_db >= loudest - within_db) levels[n++] = a->octave[i].level_db;
    qsort(levels, (size_t)n, sizeof *levels, order_of_doubles);
    for (int i = 0; i < a->n_octaves; i++) {
        a->octave[i].level_db -= levels[n / 2];
        a->octave[i].is_outside = a->octave[i].level_db <= -outside_db;
    }
}

static bool find_octaves(struct acoustics *a, const double *x, int n, int rate)
{
    struct octave_bank bank;
    bool good = octave_open(&bank, x, n, rate);
    if (!good) return false;
    for (int i = 0; i < OCTAVES && good && octave_fits(octave_hz[i], rate); i++) {
        struct decay d;
        double moment, peak;
        a->octave[i] = no_band(octave_hz[i], "");
        good = make_octave(&d, &bank, octave_hz[i], &moment, &peak);
        if (good) set_band_figures(&a->octave[i], &d, moment, peak);
        if (good) a->octave[i].level_db = 10 * log10(fmax(decay_total(&d), 1e-300) / octave_bandwidth(octave_hz[i]));
        decay_free(&d);
        a->n_octaves = i + 1;
    }
    octave_close(&bank);
    if (good && a->n_octaves > 0) find_passband(a);
    return good;
}

bool acoustics_find(struct acoustics *a, const float *h, int n, int rate, bool with_octaves)
{
    float peak = 0;
    for (int i = 0; i < n; i++) peak = fmaxf(peak, fabsf(h[i]));
    *a = (struct acoustics){.all = no_band(0, rate > 0 ? "it is silent" : "the rate is not known")};
    if (rate <= 0 || peak == 0) return true;
    struct decay d;
    double *x = cut_from_start(h, &n, rate, &a->start);
    a->all = no_band(0, "");
    bool good = x && make_broadband(&d, x, n, rate);
    if (good) {
        set_band_figures(&a->all, &d, 0, (double)peak);
        decay_free(&d);
        bool is_room = !isnan(a->all.value[ACOUSTIC_T20]) || !isnan(a->all.value[ACOUSTIC_T30]);
        if (with_octaves && is_room) good = find_octaves(a, x, n, rate);
    }
    free(x);
    return good;
}

bool acoustics_curve(struct decay *d, const float *h, int n, int rate)
{
    int start;
    double *x = cut_from_start(h, &n, rate, &start);
    bool good = x && make_broadband(d, x, n, rate);
    free(x);
    return good;
}
