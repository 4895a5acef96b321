#include "fuzz.h"

#include <ftw.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#ifdef HC_WITH_SNDFILE
#include <sndfile.h>
#endif

static char folder[64];

_Noreturn void must_failed(const char *file, int line, const char *condition)
{
    fprintf(stderr, "%s:%d: does not hold: %s\n", file, line, condition);
    abort();
}

void file_put(const char *name, const void *bytes, size_t n)
{
    FILE *file = fopen(name, "wbe");
    must(file && fwrite(bytes, 1, n, file) == n && fclose(file) == 0);
}

/* ---- the folder -------------------------------------------------------------------------------------------------- */

static int path_remove(const char *path, const struct stat *status, int kind, struct FTW *place)
{
    (void)status, (void)kind, (void)place;
    return remove(path);
}

static void folder_remove(void)
{
    nftw(folder, path_remove, 8, FTW_DEPTH | FTW_PHYS);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    const char *temporary = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%.40s/hc_fuzz_XXXXXX", temporary ? temporary : "/tmp");
    must(mkdtemp(folder) && chdir(folder) == 0);
    atexit(folder_remove);
    if (target_begin) target_begin();
    return 0;
}

/* ---- masks ------------------------------------------------------------------------------------------------------- */

enum { LOOKED_AT = 4096 }; /* taps at each end of a route: sums of delays may be long and empty */

static void route_look(const hc_route *route, const hc_responses *r)
{
    must(route->in >= 0 && route->in < r->n_in && route->out >= 0 && route->out < r->n_out);
    must(route->n_taps >= 1 && route->delay >= 0 && route->delay <= r->n_frames - route->n_taps);
    must(isfinite(route->gain));
    for (int k = 0; k < route->n_taps; k++) {
        if (k == LOOKED_AT && route->n_taps > 2 * LOOKED_AT) k = route->n_taps - LOOKED_AT;
        must(isfinite(route->taps[k]));
    }
}

void responses_look(const hc_responses *r)
{
    must(r->n_in >= 0 && r->n_in <= 1024 && r->n_out >= 0 && r->n_out <= 1024 && r->n_channels <= 1024);
    must(r->n_frames >= 0 && r->rate >= 0 && r->file_rate >= 0);
    for (int i = 0; i < r->n_routes; i++) route_look(&r->routes[i], r);
    for (int ch = 0; ch < r->n_channels; ch++)
        for (int i = 0; i < r->n_frames; i++) must(isfinite(r->channel[ch][i]));
}

void configuration_look(int code, const char *why, const hc_responses *r)
{
    must((code == HC_OK) == (r->n_errors == 0) && (code == HC_OK || *why));
    for (int i = 0; i < r->n_diagnostics; i++) {
        must(i == 0 || r->diagnostics[i].line >= r->diagnostics[i - 1].line);
        for (const char *at = r->diagnostics[i].text; *at; at++) must((unsigned char)*at >= ' ');
    }
    for (int i = 0; hc_responses_file(r, i); i++) must(*hc_responses_file(r, i));
    responses_look(r);
    for (int ch = 0; r->in_port && ch < r->n_in; ch++) must(*r->in_port[ch].name);
    must(r->n_sources <= r->n_in);
    for (int i = 0; i < r->n_banks; i++) must(*r->banks[i]);
    for (int i = 0; i < r->n_sources; i++) {
        const hc_source *source = &r->sources[i];
        must(source->bank >= 0 && source->bank < r->n_banks);
        for (int k = 0; k < 3; k++) must(isfinite(source->position[k]));
    }
}

void sound_put(void)
{
#ifdef HC_WITH_SNDFILE
    enum { FRAMES = 60 };
    float frames[2 * FRAMES];
    SF_INFO info = {.channels = 2, .samplerate = 44100, .format = SF_FORMAT_WAV | SF_FORMAT_FLOAT};
    SNDFILE *file = sf_open("a.wav", SFM_WRITE, &info);
    for (int i = 0; i < 2 * FRAMES; i++) frames[i] = (float)(i % 7) / 7;
    must(file && sf_writef_float(file, frames, FRAMES) == FRAMES);
    sf_close(file);
#endif
}
