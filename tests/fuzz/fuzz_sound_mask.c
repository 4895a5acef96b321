/* Any bytes as a mask in a sound file, at its own rate and resampled. */
#include "fuzz.h"

#include <math.h>

enum { RATE = 48000, MIN_RATE = 8000, MAX_RATE = 384000 }; /* lower rates would make long responses */

static int load(int n_in, unsigned flags, hc_responses *r)
{
    char why[300] = "";
    int code = hc_responses_load("t.wav", n_in, RATE, flags, r, why, sizeof why);
    must(code == HC_OK || *why);
    if (code != HC_OK) return code;
    responses_look(r);
    must(r->n_channels >= 1 && r->n_frames >= 1 && r->n_in == n_in && r->n_routes >= n_in);
    return HC_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    hc_responses r, resampled;
    file_put("t.wav", data, size);
    if (load(1, HC_KEEP_RATE, &r) != HC_OK) return 0;
    must(r.rate == r.file_rate && r.n_routes == r.n_channels);
    bool usual = r.rate >= MIN_RATE && r.rate <= MAX_RATE;
    if (usual && load(0, 0, &resampled) == HC_OK) {
        must(resampled.rate == RATE && resampled.file_rate == r.rate && resampled.n_channels == r.n_channels);
        must(fabs(resampled.n_frames - (double)r.n_frames * RATE / r.rate) <= 2 || r.rate == RATE);
        hc_responses_free(&resampled);
    }
    hc_responses_free(&r);
    return 0;
}
