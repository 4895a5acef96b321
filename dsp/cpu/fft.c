#include "fft.h"

#include <pthread.h>
#include <stdlib.h>

#ifdef HC_WITH_FFTW
#include "fft_wisdom.h"

#include <fftw3.h>

struct fft {
    fftwf_plan forward, inverse;
};

/* FFTW's planner is not safe in two threads at once, and its wisdom and its time limit are global. A host program and
 * its other plugins may use FFTW too. So this object file contains an FFTW of its own, linked in from the archive with
 * all its symbols local (HC_FFTW_PRIVATE; Makefile): static and shared library, program and plugin share this one file.
 * If there is no archive, we use the shared library: we make its planner safe if FFTW has threads, and lift the time
 * limit after each plan; our wisdom stays in it. */
static pthread_mutex_t planner = PTHREAD_MUTEX_INITIALIZER;
static bool has_wisdom; /* under planner */

/* Our wisdom, then the system's, which replaces ours. Under planner. */
static void import_wisdom(void)
{
    if (has_wisdom) return;
#ifdef HC_FFTW_THREADS
    fftwf_make_planner_thread_safe();
#endif
    fftwf_import_wisdom_from_string(wisdom);
    fftwf_import_system_wisdom();
    has_wisdom = true;
}

const char *fft_library(void)
{
    return fftwf_version; /* "fftw-3.3.10-sse2-avx" */
}

struct fft *fft_open(int n, bool measured)
{
    struct fft *fft = calloc(1, sizeof *fft);
    float *real = fftwf_alloc_real((size_t)n), *spectrum = fftwf_alloc_real((size_t)n + 2);
    unsigned effort = measured ? FFTW_MEASURE : FFTW_ESTIMATE;
    if (fft && real && spectrum) {
        pthread_mutex_lock(&planner);
        import_wisdom();
        fftwf_set_timelimit(0.3);
        fft->forward = fftwf_plan_dft_r2c_1d(n, real, (fftwf_complex *)spectrum, effort | FFTW_PRESERVE_INPUT);
        fft->inverse = fftwf_plan_dft_c2r_1d(n, (fftwf_complex *)spectrum, real, effort | FFTW_DESTROY_INPUT);
        fftwf_set_timelimit(FFTW_NO_TIMELIMIT);
        pthread_mutex_unlock(&planner);
    }
    fftwf_free(real);
    fftwf_free(spectrum);
    if (fft && fft->forward && fft->inverse) return fft;
    fft_close(fft);
    return NULL;
}

void fft_close(struct fft *fft)
{
    if (!fft) return;
    pthread_mutex_lock(&planner);
    if (fft->forward) fftwf_destroy_plan(fft->forward);
    if (fft->inverse) fftwf_destroy_plan(fft->inverse);
    pthread_mutex_unlock(&planner);
    free(fft);
}

void fft_forward(const struct fft *fft, const float *real, float *spectrum)
{
    fftwf_execute_dft_r2c(fft->forward, (float *)real, (fftwf_complex *)spectrum);
}

void fft_inverse(const struct fft *fft, float *spectrum, float *real)
{
    fftwf_execute_dft_c2r(fft->inverse, (fftwf_complex *)spectrum, real);
}

#else /* a build without transforms: fft_open returns NULL, and nobody calls the rest */
#pragma GCC diagnostic ignored "-Wunused-parameter"

const char *fft_library(void)
{
    return NULL;
}
struct fft *fft_open(int n, bool measured)
{
    return NULL;
}
void fft_close(struct fft *fft) {}
void fft_forward(const struct fft *fft, const float *real, float *spectrum) {}
void fft_inverse(const struct fft *fft, float *spectrum, float *real) {}
#endif
