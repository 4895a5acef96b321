/* synthesis - computes the impulse responses that ship with haloconv, and a drum loop to try them on.
 *
 *   synthesis FOLDER        writes hall.wav, room.wav, chamber.wav, plate.wav, spring.wav, cabinet.wav, drums.wav, and
 *                           the folder head: responses of a head from 266 directions
 *
 *   |        direct sound (frame 20)
 *   |  |  || reflections off the six walls of a box (image sources, Allen and Berkley 1979)
 *   | ,|,;||;:::::::......      tail: noise that decays in six bands, each with its own RT60
 *   0 ------------------> time
 *
 * RT60 is the time in which a sound decays by 60 dB. No file is read, so the output is the same bytes on every machine
 * with the same floating-point arithmetic. README.md says what each response is good for.
 */
#include <complex.h>
#include <errno.h>
#include <math.h>
#include <sndfile.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { RATE = 48000 };
static const double pi = 3.14159265358979323846, speed_of_sound = 343.0; /* m/s */

struct sound {
    int n_channels, n_frames;
    double *x; /* [n_channels][n_frames] */
};

static double *zeros(size_t n)
{
    double *x = calloc(n, sizeof *x);
    if (x) return x;
    fprintf(stderr, "synthesis: out of memory\n");
    exit(1);
}

static struct sound sound_make(int n_channels, double seconds)
{
    int n_frames = (int)lrint(seconds * RATE);
    return (struct sound){n_channels, n_frames, zeros((size_t)n_channels * n_frames)};
}

static double *channel(const struct sound *s, int ch)
{
    return s->x + (size_t)ch * s->n_frames;
}

/* ---- noise and filters ------------------------------------------------------------------------------------------- */

static uint64_t noise_state;

static double uniform(void) /* in (0, 1); splitmix64 */
{
    uint64_t z = (noise_state += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return ((double)((z ^ (z >> 31)) >> 11) + 0.5) / 9007199254740992.0;
}

static double gaussian(void)
{
    double radius = sqrt(-2 * log(uniform()));
    return radius * cos(2 * pi * uniform());
}

/* Transposed direct form II, with the formulas of the Audio EQ Cookbook (Robert Bristow-Johnson). */
struct biquad {
    double b0, b1, b2, a1, a2, s1, s2;
};

static double biquad_run(struct biquad *q, double x)
{
    double y = q->b0 * x + q->s1;
    q->s1 = q->b1 * x - q->a1 * y + q->s2;
    q->s2 = q->b2 * x - q->a2 * y;
    return y;
}

enum shape { LOWPASS, HIGHPASS, BANDPASS, PEAK };

static struct biquad biquad_make(enum shape shape, double hz, double q, double gain_db)
{
    double w = 2 * pi * hz / RATE, c = cos(w), alpha = sin(w) / (2 * q), a = pow(10, gain_db / 40);
    struct biquad f = {0};
    double a0 = 1 + alpha;
    switch (shape) {
    case LOWPASS:
        f.b0 = f.b2 = (1 - c) / 2, f.b1 = 1 - c, f.a1 = -2 * c, f.a2 = 1 - alpha;
        break;
    case HIGHPASS:
        f.b0 = f.b2 = (1 + c) / 2, f.b1 = -1 - c, f.a1 = -2 * c, f.a2 = 1 - alpha;
        break;
    case BANDPASS:
        f.b0 = alpha, f.b2 = -alpha, f.a1 = -2 * c, f.a2 = 1 - alpha;
        break;
    case PEAK:
        a0 = 1 + alpha / a;
        f.b0 = 1 + alpha * a, f.b1 = f.a1 = -2 * c, f.b2 = 1 - alpha * a, f.a2 = 1 - alpha / a;
        break;
    }
    f.b0 /= a0, f.b1 /= a0, f.b2 /= a0, f.a1 /= a0, f.a2 /= a0;
    return f;
}

static void filter(double *x, int n, struct biquad q)
{
    for (int i = 0; i < n; i++) x[i] = biquad_run(&q, x[i]);
}

/* ---- spaces ------------------------------------------------------------------------------------------------------ */

enum { BANDS = 6 }; /* below 200, 200 to 500, 500 to 1250, 1250 to 3100, 3100 to 7800 Hz, above */
static const double crossover_hz[BANDS - 1] = {200, 500, 1250, 3100, 7800};

/* Adds noise that starts at start_s, rises for rise_s, and decays by 60 dB in rt60_s[band]. First-order low-passes
 * split the bands, so that their sum is the noise. */
static void add_tail(double *h, int n, double start_s, double rise_s, const double *rt60_s, double gain)
{
    double low[BANDS - 1] = {0}, pole[BANDS - 1];
    for (int b = 0; b < BANDS - 1; b++) pole[b] = exp(-2 * pi * crossover_hz[b] / RATE);
    for (int i = (int)(start_s * RATE); i < n; i++) {
        double t = (double)i / RATE - start_s, x = gaussian(), y = 0;
        for (int b = 0; b < BANDS; b++) {
            double band = x;
            if (b < BANDS - 1) {
                low[b] = (1 - pole[b]) * x + pole[b] * low[b];
                band = low[b];
                x -= low[b];
            }
            y += band * exp(-6.907755 * t / rt60_s[b]);
        }
        double rise = t < rise_s ? 0.5 - 0.5 * cos(pi * t / rise_s) : 1;
        h[i] += gain * rise * y;
    }
}

struct point {
    double x, y, z;
}; /* metres */

/* Adds a reflection, at a time that may lie between frames: a band-limited impulse through a first-order low-pass. */
static void add_impulse(double *h, int n, double seconds, double gain, double lowpass_hz)
{
    enum { REACH = 16, LENGTH = 256 };
    double at = seconds * RATE, pole = lowpass_hz < RATE / 2.0 ? exp(-2 * pi * lowpass_hz / RATE) : 0, low = 0;
    int first = (int)floor(at) - REACH;
    for (int i = first; i < first + LENGTH; i++) {
        double d = i - at, x = 0;
        if (fabs(d) < REACH) {
            double window = 0.5 + 0.5 * cos(pi * d / REACH);
            x = window * (fabs(d) < 1e-9 ? 1 : sin(pi * d) / (pi * d));
        }
        low = (1 - pole) * x + pole * low;
        if (i >= 0 && i < n) h[i] += gain * low;
    }
}

/* Returns the gain of a cardioid microphone that faces (aim_x, aim_y), for sound from direction d. */
static double cardioid(struct point d, double aim_x, double aim_y)
{
    double r = sqrt(d.x * d.x + d.y * d.y + d.z * d.z);
    return 0.5 + 0.5 * (d.x * aim_x + d.y * aim_y) / (r > 0 ? r : 1);
}

struct box {
    struct point size, source, microphone;
    double reflection; /* share of the pressure that a wall reflects     */
    double wall_hz;    /* low-pass of the first reflection               */
    int order;         /* max. walls on a path                           */
    double aim;        /* the microphone's angle off straight ahead, rad */
};

/* Returns the position of the n-th image of a source on one axis; adds the walls on its path. */
static double image(double at, double size, int n, int *walls)
{
    *walls += abs(n);
    return n % 2 == 0 ? n * size + at : (n + 1) * size - at;
}

/* Adds the direct sound at frame 20 with gain 1, and the reflections, which are softer by distance and walls. */
static void add_reflections(double *h, int n, const struct box *box)
{
    struct point m = box->microphone, direct = {box->source.x - m.x, box->source.y - m.y, box->source.z - m.z};
    double direct_m = sqrt(direct.x * direct.x + direct.y * direct.y + direct.z * direct.z);
    for (int i = -box->order; i <= box->order; i++)
        for (int j = -box->order; j <= box->order; j++)
            for (int k = -box->order; k <= box->order; k++) {
                int walls = 0;
                struct point p = {image(box->source.x, box->size.x, i, &walls) - m.x,
                                  image(box->source.y, box->size.y, j, &walls) - m.y,
                                  image(box->source.z, box->size.z, k, &walls) - m.z};
                if (walls > box->order) continue;
                double r = sqrt(p.x * p.x + p.y * p.y + p.z * p.z);
                double gain = pow(box->reflection, walls) * direct_m / r * cardioid(p, sin(box->aim), cos(box->aim));
                double hz = walls ? box->wall_hz / sqrt(walls) : RATE;
                add_impulse(h, n, (r - direct_m) / speed_of_sound + 20.0 / RATE, walls % 2 ? -gain : gain, hz);
            }
}

static double energy(const double *x, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++) sum += x[i] * x[i];
    return sum;
}

/* Fades out the last tenth of a channel, and scales it to an energy of `level_db`. */
static void finish(double *h, int n, double level_db)
{
    for (int i = 0; i < n / 10; i++) h[n - 1 - i] *= 0.5 - 0.5 * cos(pi * i / (n / 10.0));
    double gain = pow(10, level_db / 20) / sqrt(energy(h, n));
    for (int i = 0; i < n; i++) h[i] *= gain;
}

/* Adds reflections, and a tail with `ratio_db` more energy than they have. */
static void add_space(double *h, int n, const struct box *box, double mixing_s, const double *rt60_s, double ratio_db)
{
    double *tail = zeros((size_t)n);
    add_reflections(h, n, box);
    add_tail(tail, n, 20.0 / RATE + mixing_s / 4, mixing_s, rt60_s, 1);
    double gain = pow(10, ratio_db / 20) * sqrt(energy(h, n) / energy(tail, n));
    for (int i = 0; i < n; i++) h[i] += gain * tail[i];
    free(tail);
}

enum { LEVEL_DB = -3 }; /* energy of all responses of an output: white noise comes out 3 dB softer */

/* Makes the sound at two microphones, `spacing` metres left and right of the box's; each channel has its own noise. */
static struct sound stereo_space(double seconds, uint64_t seed, const struct box *box, double spacing, double mixing_s,
                                 const double *rt60_s, double ratio_db)
{
    struct sound s = sound_make(2, seconds);
    for (int ch = 0; ch < 2; ch++) {
        double side = ch ? 1 : -1;
        struct box ours = *box;
        ours.microphone.x += spacing * side;
        ours.aim *= side;
        noise_state = seed + (uint64_t)ch;
        add_space(channel(&s, ch), s.n_frames, &ours, mixing_s, rt60_s, ratio_db);
        finish(channel(&s, ch), s.n_frames, LEVEL_DB);
    }
    return s;
}

static struct sound hall(void)
{
    static const double rt60_s[BANDS] = {2.1, 2.0, 1.8, 1.5, 1.05, 0.7};
    static const struct box box = {{24, 38, 14}, {12, 29, 1.8}, {12, 21, 3}, 0.82, 9000, 4, 0.9};
    return stereo_space(2.2, 100, &box, 0.3, 0.08, rt60_s, 1);
}

static struct sound room(void)
{
    static const double rt60_s[BANDS] = {0.5, 0.45, 0.4, 0.36, 0.3, 0.22};
    static const struct box box = {{5.2, 6.8, 2.9}, {2.3, 4.9, 1.4}, {2.6, 3.2, 1.5}, 0.72, 11000, 4, 0.9};
    return stereo_space(0.6, 200, &box, 0.15, 0.02, rt60_s, -4);
}

static struct sound chamber(void) /* true stereo: L>L L>R R>L R>R */
{
    static const double rt60_s[BANDS] = {1.1, 1.2, 1.2, 1.1, 0.9, 0.6};
    struct sound s = sound_make(4, 1.4);
    for (int in = 0; in < 2; in++)
        for (int out = 0; out < 2; out++) {
            noise_state = (uint64_t)(300 + 2 * in + out);
            double from = in ? 1 : -1, to = out ? 1 : -1;
            struct box box = {{7.1, 9.3, 4.2}, {3.5 + 1.6 * from, 6.8, 1.5}, {3.5 + 0.9 * to, 3.7, 1.7}, 0.86, 10000, 4,
                              0.8 * to};
            add_space(channel(&s, 2 * in + out), s.n_frames, &box, 0.03, rt60_s, 2);
        }
    for (int out = 0; out < 2; out++) { /* an output is the sum of two responses, which keep their balance */
        double *left = channel(&s, out), *right = channel(&s, out + 2);
        double both = energy(left, s.n_frames) + energy(right, s.n_frames), split = energy(left, s.n_frames) / both;
        finish(left, s.n_frames, LEVEL_DB + 10 * log10(split));
        finish(right, s.n_frames, LEVEL_DB + 10 * log10(1 - split));
    }
    return s;
}

static struct sound plate(void) /* no direct sound: to be mixed with the dry signal */
{
    static const double rt60_s[BANDS] = {1.2, 1.6, 1.9, 1.8, 1.4, 0.9};
    struct sound s = sound_make(2, 2.0);
    for (int ch = 0; ch < 2; ch++) {
        noise_state = (uint64_t)(400 + ch);
        add_tail(channel(&s, ch), s.n_frames, 0, 0.004, rt60_s, 1);
        filter(channel(&s, ch), s.n_frames, biquad_make(HIGHPASS, 120, 0.7, 0));
        filter(channel(&s, ch), s.n_frames, biquad_make(PEAK, 5500, 0.8, 4));
        finish(channel(&s, ch), s.n_frames, LEVEL_DB);
    }
    return s;
}

/* Low frequencies travel faster along a spring: each pass is a chain of all-passes, and the ends reflect the wave. */
static struct sound spring(void)
{
    struct sound s = sound_make(1, 1.6);
    double *h = channel(&s, 0), *wave = zeros((size_t)s.n_frames);
    enum { SECTIONS = 60, STRETCH = 4 };
    static const double delays_s[2] = {0.0331, 0.0413}; /* two springs */
    for (int spring = 0; spring < 2; spring++) {
        memset(wave, 0, (size_t)s.n_frames * sizeof *wave);
        wave[0] = 1;
        for (int echo = 0; echo < 30; echo++) {
            for (int section = 0; section < SECTIONS; section++) {
                double x_old[STRETCH] = {0}, y_old[STRETCH] = {0};
                for (int i = 0; i < s.n_frames; i++) { /* y = -a x + x[-4] + a y[-4] */
                    double x = wave[i], y = 0.62 * (y_old[i % STRETCH] - x) + x_old[i % STRETCH];
                    x_old[i % STRETCH] = x;
                    y_old[i % STRETCH] = wave[i] = y;
                }
            }
            int later = (int)((echo + 1) * delays_s[spring] * RATE) - echo * 20;
            for (int i = 0; i + later < s.n_frames; i++) h[i + later] += (echo % 2 ? -1 : 1) * wave[i];
            for (int i = 0; i < s.n_frames; i++) wave[i] *= 0.78;
        }
    }
    free(wave);
    for (int i = 0; i < 3; i++) filter(h, s.n_frames, biquad_make(LOWPASS, 4300, 0.75, 0));
    filter(h, s.n_frames, biquad_make(HIGHPASS, 110, 0.7, 0));
    finish(h, s.n_frames, LEVEL_DB);
    return s;
}

/* A guitar loudspeaker as a chain of filters: minimum phase, so no delay. */
static struct sound cabinet(void)
{
    struct sound s = sound_make(1, 2048.0 / RATE);
    double *h = channel(&s, 0);
    h[0] = 1;
    filter(h, s.n_frames, biquad_make(HIGHPASS, 75, 0.8, 0));
    filter(h, s.n_frames, biquad_make(PEAK, 115, 1.6, 4));
    filter(h, s.n_frames, biquad_make(PEAK, 420, 1.0, -4));
    filter(h, s.n_frames, biquad_make(PEAK, 1500, 2.5, 2));
    filter(h, s.n_frames, biquad_make(PEAK, 2700, 1.8, 6));
    filter(h, s.n_frames, biquad_make(PEAK, 3900, 5, -5));
    filter(h, s.n_frames, biquad_make(LOWPASS, 4900, 0.9, 0));
    filter(h, s.n_frames, biquad_make(LOWPASS, 5600, 0.7, 0));
    finish(h, s.n_frames, -10); /* the loudest note then passes at about 0 dB */
    return s;
}

/* ---- a drum loop ------------------------------------------------------------------------------------------------- */

static void add_kick(double *x, int n)
{
    for (int i = 0; i < n; i++) {
        double t = (double)i / RATE, phase = 2 * pi * (48 * t + 130 * 0.035 * (1 - exp(-t / 0.035)));
        x[i] += 0.9 * sin(phase) * exp(-t / 0.16) + (t < 0.003 ? 0.2 * (uniform() - 0.5) : 0);
    }
}

static void add_snare(double *x, int n)
{
    struct biquad body = biquad_make(BANDPASS, 1900, 0.5, 0);
    for (int i = 0; i < n; i++) {
        double t = (double)i / RATE;
        x[i] += 0.9 * biquad_run(&body, gaussian()) * exp(-t / 0.07) + 0.4 * sin(2 * pi * 186 * t) * exp(-t / 0.05);
    }
}

static void add_hat(double *x, int n, double gain, double decay_s)
{
    struct biquad bright = biquad_make(HIGHPASS, 7500, 0.8, 0);
    for (int i = 0; i < n; i++) x[i] += gain * biquad_run(&bright, gaussian()) * exp(-(double)i / RATE / decay_s);
}

/* Adds a plucked string (Karplus and Strong 1983): noise in a loop that is one period long and loses its highs. */
static void add_pluck(double *x, int n, double hz, double gain)
{
    double loop[2048], last = 0;
    int period = (int)lrint(RATE / hz - 0.5);
    for (int i = 0; i < period; i++) loop[i] = gaussian();
    for (int i = 0; i < n; i++) {
        double now = loop[i % period];
        x[i] += gain * now * fmin(1, (n - i) / 400.0);
        loop[i % period] = 0.4985 * (now + last);
        last = now;
    }
}

static struct sound drums(void) /* four bars at 120 beats a minute */
{
    static const double notes_hz[16] = {220,    261.63, 329.63, 440,    174.61, 220,    261.63, 349.23,
                                        261.63, 329.63, 392,    523.25, 196,    246.94, 293.66, 392};
    enum instrument { KICK, SNARE, HAT, PLUCK, N_INSTRUMENTS };
    static const double pan[N_INSTRUMENTS][2] = {{0.7, 0.7}, {0.62, 0.74}, {0.85, 0.5}, {0.45, 0.9}};
    struct sound s = sound_make(2, 8);
    struct sound hit = sound_make(1, 1);
    noise_state = 500;
    for (int i = 0; i < 64; i++) { /* sixteenths */
        int at = i * (RATE / 8), beat = i % 16, left = s.n_frames - at;
        int n = left < hit.n_frames ? left : hit.n_frames;
        bool plays[] = {beat == 0 || beat == 6 || beat == 10, beat == 4 || beat == 12 || i == 63, i % 2 == 0,
                        i % 4 == 0};
        for (int p = 0; p < N_INSTRUMENTS; p++) {
            if (!plays[p]) continue;
            memset(hit.x, 0, (size_t)hit.n_frames * sizeof *hit.x);
            if (p == KICK) add_kick(hit.x, n);
            if (p == SNARE) add_snare(hit.x, n);
            if (p == HAT) add_hat(hit.x, n, i % 4 == 2 ? 0.3 : 0.18, beat == 14 ? 0.12 : 0.03);
            if (p == PLUCK) add_pluck(hit.x, n, notes_hz[i / 4], 0.16);
            for (int ch = 0; ch < 2; ch++)
                for (int j = 0; j < n; j++) channel(&s, ch)[at + j] += pan[p][ch] * hit.x[j];
        }
    }
    free(hit.x);
    double peak = 0;
    for (int i = 0; i < 2 * s.n_frames; i++) peak = fmax(peak, fabs(s.x[i]));
    for (int i = 0; i < 2 * s.n_frames; i++) s.x[i] *= 0.5 / peak; /* -6 dBFS */
    return s;
}

/* ---- a head ------------------------------------------------------------------------------------------------------ */

enum { HEAD_FFT = 512, HEAD_FRAMES = 160, HEAD_CENTRE = 24 }; /* a sound reaches the centre at frame 24 */
static const double head_radius = 0.0875 /* m */, ear_azimuth = 100 * 3.14159265358979323846 / 180;

/* Returns the sound pressure on a rigid sphere, relative to that at its centre without the sphere, for a plane wave
 * from an angle with this cosine; mu is 2 pi radius / wavelength (R. Duda and W. Martens, "Range dependence of the
 * response of a spherical head model", J. Acoust. Soc. Am. 104, 1998). The sum is over spherical Hankel functions h, by
 * recursion. */
static double complex sphere_pressure(double mu, double cosine)
{
    double complex before = cexp(I * mu) / mu, h = -I * before, power = I, sum = 0; /* h[-1], h[0], (-i)^(m-1) */
    double legendre_before = 0, legendre = 1;
    for (int m = 0; m < 200; m++) {
        double complex slope = before - (m + 1) / mu * h, term = power * (2 * m + 1) * legendre / slope;
        sum += term;
        if (m > mu && (2 * m + 1) / cabs(slope) < 1e-12 * mu * mu) break;
        double complex next_h = (2 * m + 1) / mu * h - before;
        double next_legendre = ((2 * m + 1) * cosine * legendre - m * legendre_before) / (m + 1);
        before = h, h = next_h;
        legendre_before = legendre, legendre = next_legendre;
        power *= -I;
    }
    return sum / (mu * mu);
}

static void head_response(double *x, const double direction[3], int ear)
{
    double complex spectrum[HEAD_FFT / 2 + 1] = {1};
    double side = ear == 0 ? 1 : -1;
    double cosine = cos(ear_azimuth) * direction[0] + side * sin(ear_azimuth) * direction[1];
    for (int k = 1; k <= HEAD_FFT / 2; k++) {
        double radians = 2 * pi * k / HEAD_FFT; /* a frame */
        double complex pressure = conj(sphere_pressure(radians * RATE * head_radius / speed_of_sound, cosine));
        double high = fmax(0, 4.0 * k / HEAD_FFT * 2 - 3); /* 18 kHz: 0, 24 kHz: 1 */
        spectrum[k] = pressure * cexp(-I * radians * HEAD_CENTRE) * (0.5 + 0.5 * cos(pi * high));
    }
    for (int i = 0; i < HEAD_FRAMES; i++) {
        double sum = creal(spectrum[0]) + creal(spectrum[HEAD_FFT / 2]) * (i % 2 ? -1 : 1);
        for (int k = 1; k < HEAD_FFT / 2; k++) {
            double angle = 2 * pi * (i * k % HEAD_FFT) / HEAD_FFT;
            sum += 2 * (creal(spectrum[k]) * cos(angle) - cimag(spectrum[k]) * sin(angle));
        }
        double left = (HEAD_FRAMES - i) / 32.0; /* share of the frames that fade out */
        x[i] = 0.5 * sum / HEAD_FFT * (left < 1 ? 0.5 - 0.5 * cos(pi * left) : 1);
    }
}

static struct sound head(double azimuth, double elevation) /* degrees */
{
    struct sound s = sound_make(2, (double)HEAD_FRAMES / RATE);
    double az = azimuth * pi / 180, el = elevation * pi / 180;
    double direction[3] = {cos(el) * cos(az), cos(el) * sin(az), sin(el)};
    for (int ear = 0; ear < 2; ear++) head_response(channel(&s, ear), direction, ear);
    return s;
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

static int sound_write(const struct sound *s, const char *folder, const char *name, int subtype)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s.wav", folder, name);
    SF_INFO info = {.samplerate = RATE, .channels = s->n_channels, .format = SF_FORMAT_WAV | subtype};
    SNDFILE *file = sf_open(path, SFM_WRITE, &info);
    double *frames = malloc((size_t)s->n_channels * s->n_frames * sizeof *frames);
    if (!file || !frames) {
        fprintf(stderr, "synthesis: %s: cannot be written: %s\n", path, sf_strerror(file));
        free(frames);
        sf_close(file);
        return 1;
    }
    for (int i = 0; i < s->n_frames; i++)
        for (int ch = 0; ch < s->n_channels; ch++) frames[(size_t)i * s->n_channels + ch] = channel(s, ch)[i];
    sf_count_t written = sf_writef_double(file, frames, s->n_frames);
    free(frames);
    if (sf_close(file) != 0 || written != s->n_frames) {
        fprintf(stderr, "synthesis: %s: not written; is the disk full?\n", path);
        return 1;
    }
    return 0;
}

static int head_write(const char *folder)
{
    enum { STEP = 15 };
    char path[3072], name[64];
    snprintf(path, sizeof path, "%s/head", folder);
    if (mkdir(path, 0777) != 0 && errno != EEXIST) {
        fprintf(stderr, "synthesis: %s: %s\n", path, strerror(errno));
        return 1;
    }
    int failed = 0;
    for (int el = -90; el <= 90; el += STEP)
        for (int az = 0; az < (el == -90 || el == 90 ? 1 : 360) && !failed; az += STEP) {
            struct sound s = head(az, el);
            snprintf(name, sizeof name, "azi_%d_ele_%d", az, el);
            failed = sound_write(&s, path, name, SF_FORMAT_PCM_24);
            free(s.x);
        }
    return failed;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        struct sound (*make)(void);
        int subtype;
    } sounds[] = {
        {"hall", hall, SF_FORMAT_PCM_24},       {"room", room, SF_FORMAT_PCM_24},
        {"chamber", chamber, SF_FORMAT_PCM_24}, {"plate", plate, SF_FORMAT_PCM_24},
        {"spring", spring, SF_FORMAT_PCM_24},   {"cabinet", cabinet, SF_FORMAT_PCM_24},
        {"drums", drums, SF_FORMAT_PCM_16},
    };
    if (argc != 2) {
        fprintf(stderr, "usage: synthesis FOLDER\n");
        return 2;
    }
    int failed = 0;
    for (size_t i = 0; i < sizeof sounds / sizeof *sounds && !failed; i++) {
        struct sound s = sounds[i].make();
        failed = sound_write(&s, argv[1], sounds[i].name, sounds[i].subtype);
        free(s.x);
    }
    return failed || head_write(argv[1]);
}
