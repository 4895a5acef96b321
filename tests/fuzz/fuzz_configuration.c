/* Any bytes as a configuration, in a folder with a sound file a.wav and texts b.txt and c-96000.txt. */
#include "fuzz.h"

void target_begin(void)
{
    file_put("b.txt", "1 2 3\n4 5 6\n", 12);
    file_put("c-96000.txt", "1 2\n3 4\n", 8);
    sound_put();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    hc_responses r;
    char why[300] = "";
    bool resample = size > 0 && data[0] & 1; /* of the first letter: '#' or '/' mostly */
    unsigned flags = size > 1 && data[1] & 1 ? 0 : HC_WITH_SOURCES; /* of the second: ' ' or 'c' mostly */
    file_put("t.conf", data, size);
    int code = hc_responses_load("t.conf", 0, resample ? 48000 : 0, flags, &r, why, sizeof why);
    configuration_look(code, why, &r);
    hc_responses_free(&r);
    return 0;
}
