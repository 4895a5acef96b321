/* bench_fft - the real transform of dsp/fft beside FFTW, pffft and MKL: time and error.
 *
 *   make bench-fft FFTW_FAST=/path/libfftw3f.so.3 PFFFT=/path/libpffft.so      both levels below; records the table
 *   build/tests/bench_fft [FROM [TO]]                                            sizes in points, 32 to 131072
 *   HALOCONV_SIMD=avx2 build/tests/bench_fft                                     ours with AVX2 at most
 *
 * Standard error has one row for each size, for one channel and for eight: nanoseconds of one transform forward and of
 * one back, and behind each peer's times how many times as fast ours is (below 1: ours is slower). Then come the
 * errors and the smallest ratios. Standard output has the short table that is recorded.
 *
 * Libraries run in turns. A figure is the fastest of ROUNDS rounds, because only delays are added to it. Every library
 * plans first (FFTW: FFTW_MEASURE, which on a busy machine may choose a slower plan), may destroy the spectrum on the
 * way back, and has its own order of bins (pffft: the unordered one). Ours gives the frames that overlap-save keeps, the
 * second half of the input; the peers give all frames. Eight channels are one call where the library has one (FFTW's and
 * MKL's batches, fft_forward_batch); pffft has none.
 *
 * Errors. back: rms of forward and back against the input. convolved: rms of an overlap-save convolution with n / 2 taps
 * against sums in long double, up to MAX_CONVOLVED points. Both are shares of the rms of what is wanted. A library with
 * an error above MAX_ERROR ends the bench.
 *
 * The peers are opened while the bench runs, each if a variable names it:
 *   FFTW       libfftw3f.so.3 of the system unless it names another; Debian builds it for SSE and AVX, without FMA
 *   FFTW_FAST  FFTW 3.3.10 from source: ./configure --enable-single --enable-shared --enable-sse2 --enable-avx
 *              --enable-avx2 --enable-avx512 --enable-fma
 *   FFTW_AVX2  the same without --enable-avx512
 *   PFFFT      the sources of marton78/pffft: gcc -O3 -march=native -fPIC -shared -Iinclude/pffft src/pffft.c
 *              src/pffft_common.c -lm -o libpffft.so. -march=native adds FMA; no option of its CMake file makes its
 *              vectors of float longer than four lanes.
 *   MKL        libmkl_rt.so.3 of Intel's oneMKL (DFTI, one thread), with its other libraries beside it
 *
 * With HALOCONV_SIMD=avx2 FFTW_AVX2 runs in the place of FFTW_FAST, and MKL gets MKL_ENABLE_INSTRUCTIONS=AVX2. The
 * system's FFTW and pffft cannot be limited; Debian's FFTW has no code beyond AVX. On a processor that is not Intel's,
 * MKL takes its generic path (it loads libmkl_def) with and without that variable: its figures there say nothing about
 * MKL on Intel's processors.
 */
#include "check.h"
#include "dsp/base/memory.h"
#include "dsp/fft/fft.h"
#include "dsp/base/isa.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MIN_POINTS = 2 * FFT_MIN,
    MAX_POINTS = 131072,
    MAX_CONVOLVED = 4096,
    MAX_CHANNELS = 8,
    MAX_LIBRARIES = 6,
    PAD = 16, /* floats behind a spectrum of n: FFTW and MKL write n + 2, and the next spectrum begins a cache line */
    ROUNDS = 200,
    ROUND_POINTS = 200000, /* a library transforms as many points in each round */
    SMALLEST = 10,         /* ratios that are printed last */
};
#define MAX_ERROR 1e-5

static struct {
    int n, channels;
    float *x, *y;    /* [channels][n] */
    float *spectra;  /* [channels][n + PAD] */
    float *response; /* the same: spectra of taps */
} bench;

static float *x_of(int ch)
{
    return bench.x + (size_t)ch * (size_t)bench.n;
}
static float *y_of(int ch)
{
    return bench.y + (size_t)ch * (size_t)bench.n;
}
static size_t spectrum_at(int ch)
{
    return (size_t)ch * (size_t)(bench.n + PAD);
}
static float *spectrum_of(int ch)
{
    return bench.spectra + spectrum_at(ch);
}

/* ---- libraries ----------------------------------------------------------------------------------------------------- */

struct library {
    char name[32];
    const struct calls *calls;
    int kept; /* frames of an output: the last ones of n */
    union {
        struct {
            const struct fft *fft;
            const float *before[MAX_CHANNELS], *now[MAX_CHANNELS];
            float *spectra[MAX_CHANNELS], *out[MAX_CHANNELS];
        } ours;
        struct {
            void *(*plan_forward)(int, const int *, int, float *, const int *, int, int, float *, const int *, int, int,
                                  unsigned);
            void *(*plan_inverse)(int, const int *, int, float *, const int *, int, int, float *, const int *, int, int,
                                  unsigned);
            void (*execute)(void *);
            void (*destroy)(void *);
            void *forward, *inverse;
        } fftw;
        struct {
            void *(*new_setup)(int, int);
            void (*transform)(void *, const float *, float *, float *, int);
            void (*multiply)(void *, const float *, const float *, float *, float);
            void (*destroy)(void *);
            void *setup;
            float *work;
        } pffft;
        struct {
            long (*create)(void **, int, int, long, ...);
            long (*set)(void *, int, ...);
            long (*commit)(void *);
            long (*forward)(void *, void *, ...);
            long (*backward)(void *, void *, ...);
            long (*destroy)(void **);
            void *in, *out;
        } mkl;
    } is;
};

struct calls { /* on all channels of `bench` */
    bool (*open)(struct library *l);
    void (*forward)(struct library *l); /* x -> spectra */
    void (*inverse)(struct library *l); /* spectra -> y, times the frames that are kept; may destroy spectra */
    /* One channel, with 1: product = spectrum * response. product: zeros */
    void (*multiply)(struct library *l, const float *spectrum, const float *response, float *product);
    void (*close)(struct library *l);
};

static bool is_found(void *code, const char *name, void *function)
{
    void *found = dlsym(code, name);
    memcpy(function, &found, sizeof found);
    if (!found) fprintf(stderr, "bench_fft: there is no %s in that library\n", name);
    return found;
}

/* ---- ours */

static bool ours_open(struct library *l)
{
    l->is.ours.fft = fft_get(bench.n / 2);
    l->kept = bench.n / 2;
    for (int ch = 0; ch < bench.channels; ch++) {
        l->is.ours.before[ch] = x_of(ch);
        l->is.ours.now[ch] = x_of(ch) + bench.n / 2;
        l->is.ours.spectra[ch] = spectrum_of(ch);
        l->is.ours.out[ch] = y_of(ch) + bench.n / 2;
    }
    return l->is.ours.fft;
}

static void ours_forward(struct library *l)
{
    const struct fft *fft = l->is.ours.fft;
    const float *const *before = l->is.ours.before, *const *now = l->is.ours.now;
    float *const *spectra = l->is.ours.spectra;
    if (fft->batch)
        fft_forward_batch(fft, bench.channels, before, now, NULL, spectra, (size_t)fft->chunk);
    else /* in place: a work area for all channels would be more memory */
        for (int ch = 0; ch < bench.channels; ch++)
            fft_forward(fft, before[ch], now[ch], spectra[ch], spectra[ch], (size_t)fft->chunk);
}

static void ours_inverse(struct library *l)
{
    fft_inverse_batch(l->is.ours.fft, bench.channels, l->is.ours.spectra, l->is.ours.out);
}

static void ours_multiply(struct library *l, const float *spectrum, const float *response, float *product)
{
    const struct fft *fft = l->is.ours.fft;
    for (int at = 0; at < bench.n; at += fft->chunk) {
        struct fft_ring ring = {.x = spectrum + at, .h = response + at, .n_entries = 1, .n_partitions = 1};
        fft->products->rings(product + at, &ring, 1, false, fft->chunk);
    }
}

static void ours_close(struct library *l)
{
    fft_put(l->is.ours.fft);
}

/* ---- FFTW */

enum { MEASURE = 0, DESTROY_INPUT = 1 << 0, PRESERVE_INPUT = 1 << 4 }; /* fftw3.h */

static bool fftw_load(struct library *l, void *code)
{
    return is_found(code, "fftwf_plan_many_dft_r2c", &l->is.fftw.plan_forward) &&
           is_found(code, "fftwf_plan_many_dft_c2r", &l->is.fftw.plan_inverse) &&
           is_found(code, "fftwf_execute", &l->is.fftw.execute) &&
           is_found(code, "fftwf_destroy_plan", &l->is.fftw.destroy);
}

static bool fftw_open(struct library *l)
{
    int n = bench.n, channels = bench.channels, apart = (n + PAD) / 2; /* complex numbers */
    l->kept = n;
    l->is.fftw.forward = l->is.fftw.plan_forward(1, &n, channels, bench.x, NULL, 1, n, bench.spectra, NULL, 1, apart,
                                                 MEASURE | PRESERVE_INPUT);
    l->is.fftw.inverse = l->is.fftw.plan_inverse(1, &n, channels, bench.spectra, NULL, 1, apart, bench.y, NULL, 1, n,
                                                 MEASURE | DESTROY_INPUT);
    return l->is.fftw.forward && l->is.fftw.inverse;
}

static void fftw_forward(struct library *l)
{
    l->is.fftw.execute(l->is.fftw.forward);
}

static void fftw_inverse(struct library *l)
{
    l->is.fftw.execute(l->is.fftw.inverse);
}

static void interleaved_multiply(struct library *l, const float *spectrum, const float *response, float *product)
{
    (void)l;
    for (int i = 0; i <= bench.n; i += 2) {
        const float *a = spectrum + i, *b = response + i;
        product[i] = a[0] * b[0] - a[1] * b[1];
        product[i + 1] = a[0] * b[1] + a[1] * b[0];
    }
}

static void fftw_close(struct library *l)
{
    l->is.fftw.destroy(l->is.fftw.forward);
    l->is.fftw.destroy(l->is.fftw.inverse);
}

/* ---- pffft */

enum { PFFFT_REAL = 0, PFFFT_FORWARD = 0, PFFFT_BACKWARD = 1 }; /* pffft.h */

static bool pffft_load(struct library *l, void *code)
{
    return is_found(code, "pffft_new_setup", &l->is.pffft.new_setup) &&
           is_found(code, "pffft_transform", &l->is.pffft.transform) &&
           is_found(code, "pffft_zconvolve_accumulate", &l->is.pffft.multiply) &&
           is_found(code, "pffft_destroy_setup", &l->is.pffft.destroy);
}

static bool pffft_open(struct library *l)
{
    l->kept = bench.n;
    l->is.pffft.setup = l->is.pffft.new_setup(bench.n, PFFFT_REAL);
    l->is.pffft.work = memory_floats((size_t)bench.n);
    return l->is.pffft.setup && l->is.pffft.work;
}

static void pffft_forward(struct library *l)
{
    for (int ch = 0; ch < bench.channels; ch++)
        l->is.pffft.transform(l->is.pffft.setup, x_of(ch), spectrum_of(ch), l->is.pffft.work, PFFFT_FORWARD);
}

static void pffft_inverse(struct library *l)
{
    for (int ch = 0; ch < bench.channels; ch++)
        l->is.pffft.transform(l->is.pffft.setup, spectrum_of(ch), y_of(ch), l->is.pffft.work, PFFFT_BACKWARD);
}

static void pffft_multiply(struct library *l, const float *spectrum, const float *response, float *product)
{
    l->is.pffft.multiply(l->is.pffft.setup, spectrum, response, product, 1);
}

static void pffft_close(struct library *l)
{
    l->is.pffft.destroy(l->is.pffft.setup);
    free(l->is.pffft.work);
}

/* ---- MKL */

enum { /* mkl_dfti.h */
       DFTI_NUMBER_OF_TRANSFORMS = 7,
       DFTI_CONJUGATE_EVEN_STORAGE = 10,
       DFTI_PLACEMENT = 11,
       DFTI_INPUT_DISTANCE = 14,
       DFTI_OUTPUT_DISTANCE = 15,
       DFTI_THREAD_LIMIT = 27,
       DFTI_REAL = 33,
       DFTI_SINGLE = 35,
       DFTI_COMPLEX_COMPLEX = 39,
       DFTI_NOT_INPLACE = 44,
};

static bool mkl_load(struct library *l, void *code)
{
    return is_found(code, "DftiCreateDescriptor", &l->is.mkl.create) &&
           is_found(code, "DftiSetValue", &l->is.mkl.set) &&
           is_found(code, "DftiCommitDescriptor", &l->is.mkl.commit) &&
           is_found(code, "DftiComputeForward", &l->is.mkl.forward) &&
           is_found(code, "DftiComputeBackward", &l->is.mkl.backward) &&
           is_found(code, "DftiFreeDescriptor", &l->is.mkl.destroy);
}

static bool mkl_plan(struct library *l, void **plan, long frames_apart, long floats_apart, bool is_forward)
{
    long bins_apart = floats_apart / 2;
    return l->is.mkl.create(plan, DFTI_SINGLE, DFTI_REAL, 1, (long)bench.n) == 0 &&
           l->is.mkl.set(*plan, DFTI_PLACEMENT, DFTI_NOT_INPLACE) == 0 &&
           l->is.mkl.set(*plan, DFTI_CONJUGATE_EVEN_STORAGE, DFTI_COMPLEX_COMPLEX) == 0 &&
           l->is.mkl.set(*plan, DFTI_NUMBER_OF_TRANSFORMS, (long)bench.channels) == 0 &&
           l->is.mkl.set(*plan, DFTI_THREAD_LIMIT, 1L) == 0 &&
           l->is.mkl.set(*plan, DFTI_INPUT_DISTANCE, is_forward ? frames_apart : bins_apart) == 0 &&
           l->is.mkl.set(*plan, DFTI_OUTPUT_DISTANCE, is_forward ? bins_apart : frames_apart) == 0 &&
           l->is.mkl.commit(*plan) == 0;
}

static bool mkl_open(struct library *l)
{
    l->kept = bench.n;
    return mkl_plan(l, &l->is.mkl.in, bench.n, bench.n + PAD, true) &&
           mkl_plan(l, &l->is.mkl.out, bench.n, bench.n + PAD, false);
}

static void mkl_forward(struct library *l)
{
    l->is.mkl.forward(l->is.mkl.in, bench.x, bench.spectra);
}

static void mkl_inverse(struct library *l)
{
    l->is.mkl.backward(l->is.mkl.out, bench.spectra, bench.y);
}

static void mkl_close(struct library *l)
{
    l->is.mkl.destroy(&l->is.mkl.in);
    l->is.mkl.destroy(&l->is.mkl.out);
}

/* ---- which libraries are here */

static const struct calls ours_calls = {ours_open, ours_forward, ours_inverse, ours_multiply, ours_close};
static const struct calls fftw_calls = {fftw_open, fftw_forward, fftw_inverse, interleaved_multiply, fftw_close};
static const struct calls pffft_calls = {pffft_open, pffft_forward, pffft_inverse, pffft_multiply, pffft_close};
static const struct calls mkl_calls = {mkl_open, mkl_forward, mkl_inverse, interleaved_multiply, mkl_close};

static struct library libraries[MAX_LIBRARIES] = {{.name = "haloconv", .calls = &ours_calls}};
static int n_libraries = 1;

/* path: NULL or "" leaves the peer out. */
static void add_peer(const char *name, const char *path, const struct calls *calls,
                     bool (*load)(struct library *l, void *code))
{
    if (!path || !*path) return;
    struct library *l = &libraries[n_libraries];
    *l = (struct library){.calls = calls};
    snprintf(l->name, sizeof l->name, "%s", name);
    /* Two FFTWs must not share symbols. */
    void *code = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
    if (!code)
        fprintf(stderr, "bench_fft: without %s: %s\n", name, dlerror());
    else if (load(l, code))
        n_libraries++;
}

static void add_peers(void)
{
    const char *limit = getenv("HALOCONV_SIMD"), *fftw = getenv("FFTW");
    bool is_avx2 = limit && strcmp(limit, "avx2") == 0;
    if (is_avx2) setenv("MKL_ENABLE_INSTRUCTIONS", "AVX2", 1);
    setenv("MKL_THREADING_LAYER", "SEQUENTIAL", 0);
    add_peer("FFTW", fftw ? fftw : "libfftw3f.so.3", &fftw_calls, fftw_load);
    if (is_avx2)
        add_peer("FFTW AVX2", getenv("FFTW_AVX2"), &fftw_calls, fftw_load);
    else
        add_peer("FFTW AVX-512", getenv("FFTW_FAST"), &fftw_calls, fftw_load);
    add_peer("pffft", getenv("PFFFT"), &pffft_calls, pffft_load);
    add_peer("MKL", getenv("MKL"), &mkl_calls, mkl_load);
}

/* ---- errors -------------------------------------------------------------------------------------------------------- */

struct error {
    double off, power; /* sums of squares */
};

static void error_add(struct error *e, double got, double want)
{
    e->off += (got - want) * (got - want);
    e->power += want * want;
}

static double share(struct error e)
{
    return sqrt(e.off / e.power);
}

static void fill(float *frames, int n, uint64_t seed)
{
    struct random r = random_seeded(seed);
    for (int i = 0; i < n; i++) frames[i] = random_sample(&r);
}

/* Forward and back, of the frames that the library gives. */
static double back_error(struct library *l)
{
    struct error e = {0, 0};
    fill(bench.x, bench.n * bench.channels, 1);
    l->calls->forward(l);
    l->calls->inverse(l);
    for (int ch = 0; ch < bench.channels; ch++)
        for (int i = bench.n - l->kept; i < bench.n; i++)
            error_add(&e, (double)y_of(ch)[i] / l->kept, (double)x_of(ch)[i]);
    return share(e);
}

/* [channels][n / 2]: the last n / 2 frames of x, convolved with the n / 2 taps. */
static void convolution_sums(long double *sums, const float *taps)
{
    int size = bench.n / 2;
    for (int ch = 0; ch < bench.channels; ch++)
        for (int i = 0; i < size; i++) {
            long double sum = 0;
            const float *newest = x_of(ch) + size + i, *h = taps + (size_t)ch * (size_t)bench.n;
            for (int tap = 0; tap < size; tap++) sum += (long double)h[tap] * (long double)newest[-tap];
            sums[ch * size + i] = sum;
        }
}

/* taps: [channels][n], n / 2 taps and zeros. signal: [channels][n] */
static double convolved_error(struct library *l, const float *taps, const float *signal, const long double *want)
{
    int size = bench.n / 2;
    size_t floats = (size_t)bench.n * (size_t)bench.channels * sizeof *taps;
    struct error e = {0, 0};
    float *product = memory_floats(spectrum_at(bench.channels));
    memcpy(bench.x, taps, floats);
    l->calls->forward(l);
    memcpy(bench.response, bench.spectra, spectrum_at(bench.channels) * sizeof *bench.spectra);
    memcpy(bench.x, signal, floats);
    l->calls->forward(l);
    for (int ch = 0; ch < bench.channels; ch++) {
        size_t at = spectrum_at(ch);
        l->calls->multiply(l, bench.spectra + at, bench.response + at, product + at);
    }
    memcpy(bench.spectra, product, spectrum_at(bench.channels) * sizeof *product);
    l->calls->inverse(l);
    for (int ch = 0; ch < bench.channels; ch++)
        for (int i = 0; i < size; i++) error_add(&e, (double)y_of(ch)[size + i] / l->kept, (double)want[ch * size + i]);
    free(product);
    return share(e);
}

/* ---- a size -------------------------------------------------------------------------------------------------------- */

enum { FORWARD, INVERSE };
static const char *const directions[] = {"forward", "inverse"};

struct figures { /* of a size, for each library */
    int n, channels;
    double ns[MAX_LIBRARIES][2];                          /* of one channel's transform */
    double back[MAX_LIBRARIES], convolved[MAX_LIBRARIES]; /* convolved: 0 above MAX_CONVOLVED */
};
static struct figures all[64];
static int n_all;

static double ratio(const struct figures *f, int peer, int direction)
{
    return f->ns[peer][direction] / f->ns[0][direction];
}

static void measure_errors(struct figures *f)
{
    for (int i = 0; i < n_libraries; i++) f->back[i] = back_error(&libraries[i]);
    if (bench.n <= MAX_CONVOLVED) {
        int n = bench.n * bench.channels;
        float *taps = memory_floats((size_t)n), *signal = memory_floats((size_t)n);
        long double *want = must_alloc((size_t)n / 2, sizeof *want);
        for (int ch = 0; ch < bench.channels; ch++)
            fill(taps + (size_t)ch * (size_t)bench.n, bench.n / 2, (uint64_t)(ch + 2));
        fill(bench.x, n, 100);
        memcpy(signal, bench.x, (size_t)n * sizeof *signal);
        convolution_sums(want, taps);
        for (int i = 0; i < n_libraries; i++) f->convolved[i] = convolved_error(&libraries[i], taps, signal, want);
        free(taps);
        free(signal);
        free(want);
    }
    for (int i = 0; i < n_libraries; i++)
        if (!(f->back[i] <= MAX_ERROR && f->convolved[i] <= MAX_ERROR)) { /* NaN too */
            fprintf(stderr, "bench_fft: %s, %d points, %d channels: errors of %g and %g\n", libraries[i].name, f->n,
                    f->channels, f->back[i], f->convolved[i]);
            exit(1);
        }
}

static void time_one(struct library *l, void (*run)(struct library *), int runs, double *fastest_ns)
{
    double start = now_s();
    for (int i = 0; i < runs; i++) run(l);
    double ns = (now_s() - start) * 1e9 / runs / bench.channels;
    if (ns < *fastest_ns) *fastest_ns = ns;
}

static void measure_times(struct figures *f)
{
    int runs = ROUND_POINTS / (bench.n * bench.channels);
    if (runs < 1) runs = 1;
    for (int i = 0; i < n_libraries; i++) f->ns[i][FORWARD] = f->ns[i][INVERSE] = INFINITY;
    for (int round = 0; round < ROUNDS; round++)
        for (int i = 0; i < n_libraries; i++) {
            time_one(&libraries[i], libraries[i].calls->forward, runs, &f->ns[i][FORWARD]);
            /* Inverse after inverse would end in infinity. */
            memset(bench.spectra, 0, spectrum_at(bench.channels) * sizeof *bench.spectra);
            time_one(&libraries[i], libraries[i].calls->inverse, runs, &f->ns[i][INVERSE]);
        }
}

static void measure(int n, int channels)
{
    struct figures *f = &all[n_all++];
    *f = (struct figures){.n = n, .channels = channels};
    bench.n = n;
    bench.channels = channels;
    bench.x = memory_floats((size_t)n * (size_t)channels);
    bench.y = memory_floats((size_t)n * (size_t)channels);
    bench.spectra = memory_floats(spectrum_at(channels));
    bench.response = memory_floats(spectrum_at(channels));
    for (int i = 0; i < n_libraries; i++)
        if (!libraries[i].calls->open(&libraries[i])) {
            fprintf(stderr, "bench_fft: %s: no plan for %d points\n", libraries[i].name, n);
            exit(1);
        }
    measure_errors(f);
    measure_times(f);
    for (int i = 0; i < n_libraries; i++) libraries[i].calls->close(&libraries[i]);
    free(bench.x);
    free(bench.y);
    free(bench.spectra);
    free(bench.response);
}

/* ---- what is printed ----------------------------------------------------------------------------------------------- */

static void print_heads(const char *first, int width)
{
    fprintf(stderr, "\n%9s", first);
    for (int i = 0; i < n_libraries; i++) fprintf(stderr, "  %*s", i ? width : 19, libraries[i].name);
    fprintf(stderr, "\n");
}

static void print_times(const struct figures *f)
{
    fprintf(stderr, "%6d %2d", f->n, f->channels);
    for (int i = 0; i < n_libraries; i++) {
        fprintf(stderr, "  %9.1f %9.1f", f->ns[i][FORWARD], f->ns[i][INVERSE]);
        if (i) fprintf(stderr, " %5.2f %5.2f", ratio(f, i, FORWARD), ratio(f, i, INVERSE));
    }
    fprintf(stderr, "\n");
}

static void print_errors(const struct figures *f)
{
    fprintf(stderr, "%6d %2d", f->n, f->channels);
    for (int i = 0; i < n_libraries; i++) {
        fprintf(stderr, "  %9.2e", f->back[i]);
        if (f->convolved[i] > 0)
            fprintf(stderr, " %9.2e", f->convolved[i]);
        else
            fprintf(stderr, " %9s", "-");
    }
    fprintf(stderr, "\n");
}

struct place {
    const struct figures *f;
    int peer, direction;
};

static int by_ratio(const void *a, const void *b)
{
    const struct place *p = a, *q = b;
    double x = ratio(p->f, p->peer, p->direction), y = ratio(q->f, q->peer, q->direction);
    return (x > y) - (x < y);
}

static void print_smallest(void)
{
    int n = 0;
    struct place *places = must_alloc((size_t)(n_all * n_libraries * 2), sizeof *places);
    for (int i = 0; i < n_all; i++)
        for (int peer = 1; peer < n_libraries; peer++)
            for (int direction = FORWARD; direction <= INVERSE; direction++)
                places[n++] = (struct place){&all[i], peer, direction};
    qsort(places, (size_t)n, sizeof *places, by_ratio);
    fprintf(stderr, "\nthe smallest ratios\n");
    for (int i = 0; i < n && i < SMALLEST; i++) {
        const struct place *p = &places[i];
        fprintf(stderr, "  %5.2f  %s, %d points, %s, channels: %d\n", ratio(p->f, p->peer, p->direction),
                libraries[p->peer].name, p->f->n, directions[p->direction], p->f->channels);
    }
    free(places);
}

static const struct figures *figures_of(int n, int channels)
{
    for (int i = 0; i < n_all; i++)
        if (all[i].n == n && all[i].channels == channels) return &all[i];
    return NULL;
}

/* MKL is here, and the processor is not Intel's. */
static bool is_generic_mkl(void)
{
#if defined __x86_64__
    if (__builtin_cpu_is("intel")) return false;
#endif
    for (int i = 0; i < n_libraries; i++)
        if (libraries[i].calls == &mkl_calls) return true;
    return false;
}

static void print_table(void)
{
    static const int sizes[] = {64, 128, 256, 512, 1024, 4096, 32768, 131072};
    static const char *const levels[] = {"SSE2 or NEON", "AVX2", "AVX-512"};
    printf("Real transforms in float, ours with %s. A cell: ns of one forward and one inverse transform, alone / one "
           "of %d "
           "channels. The inverse of ours gives the half of the frames that overlap-save keeps.%s\n\n| points |",
           levels[isa_best()], MAX_CHANNELS, is_generic_mkl() ? " MKL takes its generic path on this processor." : "");
    for (int i = 0; i < n_libraries; i++) printf(" %s |", libraries[i].name);
    printf("\n|--:|");
    for (int i = 0; i < n_libraries; i++) printf("--:|");
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        const struct figures *one = figures_of(sizes[s], 1), *several = figures_of(sizes[s], MAX_CHANNELS);
        if (!one || !several) continue;
        printf("\n| %d |", sizes[s]);
        for (int i = 0; i < n_libraries; i++)
            printf(" %.0f / %.0f |", one->ns[i][FORWARD] + one->ns[i][INVERSE],
                   several->ns[i][FORWARD] + several->ns[i][INVERSE]);
    }
    printf("\n\nThe largest rms error of a convolution:");
    for (int i = 0; i < n_libraries; i++) {
        double largest = 0;
        for (int k = 0; k < n_all; k++) largest = fmax(largest, all[k].convolved[i]);
        printf("%s %s %.1e", i ? "," : "", libraries[i].name, largest);
    }
    printf(".\n");
    fflush(stdout);
}

int main(int argc, char **argv)
{
    int from = argc > 1 ? atoi(argv[1]) : MIN_POINTS, to = argc > 2 ? atoi(argv[2]) : MAX_POINTS;
    if (argc > 3 || from < MIN_POINTS || (from & (from - 1)) != 0 || to < from || to > MAX_POINTS) {
        fprintf(stderr, "usage: bench_fft [FROM [TO]]: powers of 2, %d to %d points\n", MIN_POINTS, MAX_POINTS);
        return 2;
    }
    add_peers();
    print_heads("ns     ch", 31);
    for (int channels = 1; channels <= MAX_CHANNELS; channels += MAX_CHANNELS - 1)
        for (int n = from; n <= to; n *= 2) {
            measure(n, channels);
            print_times(&all[n_all - 1]);
        }
    print_heads("error  ch", 19);
    for (int i = 0; i < n_all; i++) print_errors(&all[i]);
    print_table();
    print_smallest();
    return 0;
}
