/* libFuzzer target: hc_responses_load on any bytes, as a sound file or (first byte T) as a text. make fuzz */
#include "haloconv_masks.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    bool text = size > 0 && data[0] == 'T';
    char path[64];
    snprintf(path, sizeof path, "/tmp/hc_fuzz_%d.%s", (int)getpid(), text ? "txt" : "wav");
    FILE *file = fopen(path, "wb");
    if (!file) return 0;
    fwrite(data + text, 1, size - text, file);
    fclose(file);
    hc_responses r;
    char why[128];
    if (hc_responses_load(path, 2, 48000, HC_KEEP_RATE, &r, why, sizeof why) == HC_OK) {
        for (int ch = 0; ch < r.n_channels; ch++)
            for (int i = 0; i < r.n_frames; i++)
                if (!isfinite(r.channel[ch][i])) abort();
        hc_responses_free(&r);
    }
    unlink(path);
    return 0;
}
