/* Any bytes as a configuration, in a folder with a sound file a.wav and texts b.txt and c-96000.txt. */
#include "fuzz.h"

#ifdef HC_WITH_SNDFILE
#include <sndfile.h>
#endif

enum { FRAMES = 60 };

void target_begin(void)
{
    file_put("b.txt", "1 2 3\n4 5 6\n", 12);
    file_put("c-96000.txt", "1 2\n3 4\n", 8);
#ifdef HC_WITH_SNDFILE
    float frames[2 * FRAMES];
    SF_INFO info = {.channels = 2, .samplerate = 44100, .format = SF_FORMAT_WAV | SF_FORMAT_FLOAT};
    SNDFILE *file = sf_open("a.wav", SFM_WRITE, &info);
    for (int i = 0; i < 2 * FRAMES; i++) frames[i] = (float)(i % 7) / 7;
    must(file && sf_writef_float(file, frames, FRAMES) == FRAMES);
    sf_close(file);
#endif
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    hc_responses r;
    char why[300] = "";
    bool resample = size > 0 && data[0] & 1; /* of the first letter: '#' or '/' mostly */
    file_put("t.conf", data, size);
    int code = hc_responses_load("t.conf", 0, resample ? 48000 : 0, 0, &r, why, sizeof why);
    must((code == HC_OK) == (r.n_errors == 0) && (code == HC_OK || *why));
    for (int i = 0; i < r.n_diagnostics; i++) {
        must(i == 0 || r.diagnostics[i].line >= r.diagnostics[i - 1].line);
        for (const char *at = r.diagnostics[i].text; *at; at++) must((unsigned char)*at >= ' ');
    }
    for (int i = 0; hc_responses_file(&r, i); i++) must(*hc_responses_file(&r, i));
    responses_look(&r);
    for (int ch = 0; code == HC_OK && ch < r.n_in; ch++) must(*r.in_port[ch].name);
    hc_responses_free(&r);
    return 0;
}
