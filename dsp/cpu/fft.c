#include "fft.h"

#include <pthread.h>
#include <stdio.h>
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
 * If there is no archive, the shared library is used: its planner is made safe if FFTW has threads, the time limit is
 * lifted after each plan, and our wisdom remains. */
static pthread_mutex_t planner = PTHREAD_MUTEX_INITIALIZER;
static bool wise; /* under planner */

struct reader { /* where it is in `wisdom` */
    int line, at;
};

static int next_char(void *data)
{
    struct reader *reader = data;
    const char *line = wisdom[reader->line];
    if (!line) return EOF;
    int c = line[reader->at++];
    if (line[reader->at] == 0) *reader = (struct reader){.line = reader->line + 1};
    return c;
}

/* Ours, then the system's, which counts for more. Under planner. */
static void gather_wisdom(void)
{
    if (wise) return;
#ifdef HC_FFTW_THREADS
    fftwf_make_planner_thread_safe();
#endif
    fftwf_import_wisdom(next_char, &(struct reader){0});
    fftwf_import_system_wisdom();
    wise = true;
}

const char *fft_library(void)
{
    return fftwf_version; /* "fftw-3.3.10-sse2-avx" */
}

struct fft *fft_open(int n, bool measured)
{
    struct fft *fft = calloc(1, sizeof *fft);
    float *real = fftwf_alloc_real((size_t)n), *spectrum = fftwf_alloc_real((size_t)n + 2);
    if (!fft || !real || !spectrum) goto fail;
    pthread_mutex_lock(&planner);
    gather_wisdom();
    fftwf_set_timelimit(0.3);
    unsigned effort = measured ? FFTW_MEASURE : FFTW_ESTIMATE;
    fft->forward = fftwf_plan_dft_r2c_1d(n, real, (fftwf_complex *)spectrum, effort | FFTW_PRESERVE_INPUT);
    fft->inverse = fftwf_plan_dft_c2r_1d(n, (fftwf_complex *)spectrum, real, effort | FFTW_DESTROY_INPUT);
    fftwf_set_timelimit(FFTW_NO_TIMELIMIT);
    pthread_mutex_unlock(&planner);
    if (!fft->forward || !fft->inverse) goto fail;
    fftwf_free(real);
    fftwf_free(spectrum);
    return fft;
fail:
    fftwf_free(real);
    fftwf_free(spectrum);
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

#else

const char *fft_library(void)
{
    return NULL;
}
struct fft *fft_open(int n, bool measured)
{
    (void)n;
    (void)measured;
    return NULL;
}
void fft_close(struct fft *fft)
{
    (void)fft;
}
void fft_forward(const struct fft *fft, const float *real, float *spectrum)
{
    (void)fft;
    (void)real;
    (void)spectrum;
}
void fft_inverse(const struct fft *fft, float *spectrum, float *real)
{
    (void)fft;
    (void)real;
    (void)spectrum;
}
#endif
