/* libFuzzer target (make fuzz): hc_responses_load reads any bytes as a configuration, in a folder with a sound file
 * a.wav and a text b.txt. */
#include "haloconv_masks.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#ifdef HC_WITH_SNDFILE
#include <sndfile.h>
#endif

enum { FRAMES = 60, LOOKED_AT = 4096 }; /* sums may be long and empty: their ends tell */

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char path[64];

static void put(const char *name, const void *bytes, size_t n)
{
    FILE *file = fopen(name, "wb");
    if (!file || fwrite(bytes, 1, n, file) != n || fclose(file) != 0) abort();
}

static void clean(void)
{
    unlink("a.wav");
    unlink("b.txt");
    unlink(path);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    snprintf(path, sizeof path, "fuzz_%d.conf", (int)getpid());
    atexit(clean);
    put("b.txt", "1 2 3\n4 5 6\n", 12);
#ifdef HC_WITH_SNDFILE
    float frames[2 * FRAMES];
    SF_INFO info = {.channels = 2, .samplerate = 44100, .format = SF_FORMAT_WAV | SF_FORMAT_FLOAT};
    SNDFILE *file = sf_open("a.wav", SFM_WRITE, &info);
    for (int i = 0; i < 2 * FRAMES; i++) frames[i] = (float)(i % 7) / 7;
    if (!file || sf_writef_float(file, frames, FRAMES) != FRAMES) abort();
    sf_close(file);
#endif
    return 0;
}

static void look_at(const hc_route *route, const hc_responses *r)
{
    if (route->in < 0 || route->in >= r->n_in || route->out < 0 || route->out >= r->n_out) abort();
    if (route->n_taps < 1 || route->delay < 0 || route->delay > r->n_frames - route->n_taps) abort();
    if (!isfinite(route->gain)) abort();
    for (int k = 0; k < route->n_taps; k++) {
        if (k == LOOKED_AT && route->n_taps > 2 * LOOKED_AT) k = route->n_taps - LOOKED_AT;
        if (!isfinite(route->taps[k])) abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    hc_responses r;
    char why[300] = "";
    bool resample = size > 0 && data[0] & 1; /* of the first letter: '#' or '/' mostly */
    put(path, data, size);
    int code = hc_responses_load(path, 0, resample ? 48000 : 0, 0, &r, why, sizeof why);
    if ((code == HC_OK) != (r.n_errors == 0) || (code != HC_OK && !*why)) abort();
    for (int i = 0; i < r.n_diagnostics; i++)
        for (const char *at = r.diagnostics[i].text; *at; at++)
            if ((unsigned char)*at < ' ' || (i > 0 && r.diagnostics[i].line < r.diagnostics[i - 1].line)) abort();
    for (int i = 0; i < r.n_routes; i++) look_at(&r.routes[i], &r);
    for (int ch = 0; code == HC_OK && ch < r.n_in; ch++)
        if (!*r.in_port[ch].name) abort();
    hc_responses_free(&r);
    return 0;
}
