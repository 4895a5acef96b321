#include "planned_fft.h"

#include <stdlib.h>
#include <string.h>

#ifdef HC_WITH_FFTW
#include "dsp/engine/fork_safety.h"
#include "fft_wisdom.h"
#include "memory.h"

#include <fftw3.h>
#include <stdbool.h>
#include <stdio.h>

struct planned_fft {
    fftwf_plan forward, inverse;
};

/* FFTW's planner is not safe in two threads at once, and its wisdom and its time limit are global. A host program and
 * its other plugins may use FFTW too. So this object file contains an FFTW of its own, linked in from the archive with
 * all its symbols local (HC_FFTW_PRIVATE; Makefile): static and shared library, program and plugin share this one file.
 * If there is no archive, we use the shared library: we make its planner safe if FFTW has threads, and lift the time
 * limit after each plan; our wisdom stays in it. */
static bool has_wisdom, has_measured;  /* under LOCK_PLANNER */
static _Thread_local bool has_planner; /* this thread holds the lock */

static void planner_lock(void)
{
    global_lock(LOCK_PLANNER);
    has_planner = true;
}

static void planner_unlock(void)
{
    has_planner = false;
    global_unlock(LOCK_PLANNER);
}

/* ---- memory ---------------------------------------------------------------------------------------------------------
 *
 * FFTW ends the process if it gets no memory while it plans. planned_fft_open therefore allocates a reserve first, larger than
 * the most that a planner was seen to need (2.3 MB and 24 bytes a point). If an allocation of FFTW fails, FFTW gets a
 * piece of the reserve. The pieces are a stack: the last ones that are free are used again, because the planner of a
 * size that is not in our wisdom allocates 12 MB in all. The reserve is freed after its last piece. A shared FFTW
 * allocates by itself: there planned_fft_open frees the reserve just before FFTW plans, and another thread may take this
 * memory.
 */

struct piece {
    size_t size, before; /* bytes, with this struct; of the piece before it */
    bool is_free;
};

struct reserve {
    size_t size, used; /* bytes, with this struct       */
    size_t last;       /* bytes of the last piece       */
    int n_pieces;      /* pieces that FFTW has not freed */
    struct reserve *next;
};

enum { PIECE_HEAD = 64 }; /* bytes of struct piece before a piece, which stays aligned to 64 */

static struct reserve *reserves; /* the first belongs to the plans being made; under LOCK_PLANNER */

static bool reserve_open(int n)
{
    size_t size = ((size_t)1 << 23) + 64 * (size_t)n;
    struct reserve *r = aligned_alloc(64, size);
    if (!r) return false;
    *r = (struct reserve){.size = size, .used = round_up(sizeof *r, 64), .next = reserves};
    reserves = r;
    return true;
}

/* Frees the reserves that have no piece in use. */
static void reserves_sweep(void)
{
    for (struct reserve **link = &reserves, *r; (r = *link);) {
        if (r->n_pieces > 0) {
            link = &r->next;
        } else {
            *link = r->next;
            free(r);
        }
    }
}

#ifdef HC_FFTW_PRIVATE /* these two replace FFTW's own */
void *fftwf_kernel_malloc(size_t n);
void fftwf_kernel_free(void *p);

void *fftwf_kernel_malloc(size_t n)
{
    void *p = NULL;
    if (posix_memalign(&p, 64, n) == 0) return p;
    struct reserve *r = has_planner ? reserves : NULL;
    n = round_up(n, 64) + PIECE_HEAD;
    if (!r || r->size - r->used < n) return NULL;
    struct piece *piece = (struct piece *)((char *)r + r->used);
    *piece = (struct piece){.size = n, .before = r->last};
    r->last = n;
    r->used += n;
    r->n_pieces++;
    return (char *)piece + PIECE_HEAD;
}

void fftwf_kernel_free(void *p)
{
    struct reserve *r = has_planner ? reserves : NULL;
    while (r && ((char *)p < (char *)r || (char *)p >= (char *)r + r->size)) r = r->next;
    if (!r) {
        free(p);
        return;
    }
    ((struct piece *)((char *)p - PIECE_HEAD))->is_free = true;
    r->n_pieces--;
    while (r->last > 0) {
        const struct piece *piece = (struct piece *)((char *)r + r->used - r->last);
        if (!piece->is_free) break;
        r->used -= piece->size;
        r->last = piece->before;
    }
}
#endif

/* ---- plans ------------------------------------------------------------------------------------------------------- */

/* Our wisdom, then the system's, which replaces ours. Under LOCK_PLANNER. */
static void import_wisdom(void)
{
    if (has_wisdom) return;
#ifdef HC_FFTW_THREADS
    fftwf_make_planner_thread_safe();
#endif
    fftwf_import_wisdom_from_string(wisdom);
    FILE *file = fopen("/etc/fftw/wisdomf", "re"); /* fftwf_import_system_wisdom opens it without O_CLOEXEC */
    if (file) {
        fftwf_import_wisdom_from_file(file);
        fclose(file);
    }
    has_wisdom = true;
}

const char *fft_library(void)
{
    return fftwf_version; /* "fftw-3.3.10-sse2-avx" */
}

/* Plans that were measured in this process would serve a later FFTW_ESTIMATE too, and they differ from run to run. So
 * such a plan is made without their wisdom. A shared FFTW keeps it: a thread of the host may be planning. Returns the
 * wisdom for wisdom_restore; NULL: none, or no memory. Under LOCK_PLANNER. */
static char *wisdom_set_aside(void)
{
#ifdef HC_FFTW_PRIVATE
    if (!has_measured) return NULL;
    char *measured = fftwf_export_wisdom_to_string();
    fftwf_forget_wisdom();
    has_wisdom = false;
    import_wisdom();
    return measured;
#else
    return NULL;
#endif
}

static void wisdom_restore(char *measured)
{
    if (measured) fftwf_import_wisdom_from_string(measured);
    free(measured);
}

static struct planned_fft *open_with(int n, unsigned effort)
{
    struct planned_fft *fft = calloc(1, sizeof *fft);
    float *real = memory_floats((size_t)n), *spectrum = memory_floats((size_t)n + 2);
    planner_lock();
    if (fft && real && spectrum && reserve_open(n)) {
#ifndef HC_FFTW_PRIVATE
        reserves_sweep();
#endif
        import_wisdom();
        char *measured = effort == FFTW_ESTIMATE ? wisdom_set_aside() : NULL;
        has_measured = has_measured || effort == FFTW_MEASURE;
        fftwf_set_timelimit(0.3);
        fft->forward = fftwf_plan_dft_r2c_1d(n, real, (fftwf_complex *)spectrum, effort | FFTW_PRESERVE_INPUT);
        fft->inverse = fftwf_plan_dft_c2r_1d(n, (fftwf_complex *)spectrum, real, effort | FFTW_DESTROY_INPUT);
        fftwf_set_timelimit(FFTW_NO_TIMELIMIT);
        wisdom_restore(measured);
        reserves_sweep();
    }
    planner_unlock();
    free(real);
    free(spectrum);
    if (fft && fft->forward && fft->inverse) return fft;
    planned_fft_close(fft);
    return NULL;
}

struct planned_fft *planned_fft_open(int n)
{
    const char *set = getenv("HALOCONV_FFT");
    return open_with(n, set && strcmp(set, "guess") == 0 ? FFTW_ESTIMATE : FFTW_MEASURE);
}

struct planned_fft *planned_fft_open_repeatable(int n)
{
    return open_with(n, FFTW_ESTIMATE);
}

void planned_fft_close(struct planned_fft *fft)
{
    if (!fft) return;
    planner_lock();
    if (fft->forward) fftwf_destroy_plan(fft->forward);
    if (fft->inverse) fftwf_destroy_plan(fft->inverse);
    reserves_sweep();
    planner_unlock();
    free(fft);
}

void planned_fft_forward(const struct planned_fft *fft, const float *real, float *spectrum)
{
    fftwf_execute_dft_r2c(fft->forward, (float *)real, (fftwf_complex *)spectrum);
}

void planned_fft_inverse(const struct planned_fft *fft, float *spectrum, float *real)
{
    fftwf_execute_dft_c2r(fft->inverse, (fftwf_complex *)spectrum, real);
}

#else /* a build without transforms: planned_fft_open returns NULL, and nobody calls the rest */
#pragma GCC diagnostic ignored "-Wunused-parameter"

const char *fft_library(void)
{
    return NULL;
}
struct planned_fft *planned_fft_open(int n)
{
    return NULL;
}
struct planned_fft *planned_fft_open_repeatable(int n)
{
    return NULL;
}
void planned_fft_close(struct planned_fft *fft) {}
void planned_fft_forward(const struct planned_fft *fft, const float *real, float *spectrum) {}
void planned_fft_inverse(const struct planned_fft *fft, float *spectrum, float *real) {}
#endif
