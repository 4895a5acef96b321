/* Any bytes as the comment of a sweep's file. A sweep that is accepted is within the limits of the options, and stays
 * the same when it is described and parsed again. */
#include "fuzz.h"

#include "host/measure/sweep.h"
#include "host/message.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sweep sweep = {0}, again = {0};
    char why[MESSAGE_CAP], described[MESSAGE_CAP], twice[MESSAGE_CAP];
    char *text = malloc(size + 1);
    must(text);
    memcpy(text, data, size);
    text[size] = '\0';
    bool good = sweep_parse(text, &sweep);
    free(text);
    if (!good) return 0;
    must(sweep.n_outputs >= 1 && sweep.n_outputs <= SWEEP_MAX_OUTPUTS && sweep.level > 0 && sweep.level <= 1);
    sweep_describe(&sweep, described, sizeof described);
    must(sweep_parse(described, &again));
    sweep_describe(&again, twice, sizeof twice);
    must(strcmp(described, twice) == 0);
    if (!sweep_complete(&sweep, 48000, why, sizeof why)) return 0;
    float play[64];
    sweep_fill(&sweep, 48000, (int64_t)(48000 * (sweep_start_s(&sweep, 0) + sweep.length_s / 2)), play, 64);
    for (int i = 0; i < 64; i++)
        must((double)play[i] >= -sweep.level * 1.000001 && (double)play[i] <= sweep.level * 1.000001);
    return 0;
}
