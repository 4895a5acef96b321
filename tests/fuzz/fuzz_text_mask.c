/* Any bytes as a text of coefficients, with a header or without. A mask that is read, printed and read again stays the
 * same. */
#include "fuzz.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { RATE = 48000 }; /* a text of REW states its rate and is resampled */

static int load(const char *name, hc_responses *r)
{
    char why[300] = "";
    int code = hc_responses_load(name, 0, RATE, 0, r, why, sizeof why);
    must(code == HC_OK || *why);
    return code;
}

static void try_as(const char *name, const uint8_t *data, size_t size)
{
    hc_responses r, again;
    file_put(name, data, size);
    if (load(name, &r) != HC_OK) {
        hc_responses_free(&r); /* the diagnostics of a text that is read as one of Equalizer APO */
        return;
    }
    responses_look(&r);
    must(r.n_channels >= 1 && r.n_frames >= 1 && (r.rate == 0 || r.rate == RATE) && isfinite(r.start));
    FILE *file = fopen("again.csv", "we");
    must(file);
    for (int i = 0; i < r.n_frames; i++)
        for (int ch = 0; ch < r.n_channels; ch++)
            fprintf(file, "%.9g%c", (double)r.channel[ch][i], ch + 1 < r.n_channels ? ',' : '\n');
    must(fclose(file) == 0 && load("again.csv", &again) == HC_OK);
    must(again.n_channels == r.n_channels && again.n_frames == r.n_frames);
    for (int ch = 0; ch < r.n_channels; ch++)
        must(memcmp(again.channel[ch], r.channel[ch], (size_t)r.n_frames * sizeof(float)) == 0);
    hc_responses_free(&r);
    hc_responses_free(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    try_as("t.txt", data, size);
    try_as("t.csv", data, size);
    return 0;
}
