/* Any bytes as the text of another program. The first byte chooses the extension of its name, and so the readers that
 * look at it: c .conf, g .cfg, t .txt, y .yml, j .json, others none. The folder has a sound file a.wav, bare floats a.f64 and
 * a bank for one ear, b.csv. */
#include "fuzz.h"

#include <string.h>

void target_begin(void)
{
    static const double samples[] = {1, -0.5, 0.25};
    static const char bank[] = "file,azimuth,elevation\na.f64,0,0\n";
    file_put("a.f64", samples, sizeof samples);
    file_put("b.csv", bank, sizeof bank - 1);
    sound_put();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char letters[] = "cgtyj", *const names[] = {"t.conf", "t.cfg", "t.txt", "t.yml", "t.json"};
    hc_responses r;
    char why[300] = "";
    if (size == 0) return 0;
    const char *letter = strchr(letters, data[0] ? data[0] : '-'), *name = letter ? names[letter - letters] : "t";
    file_put(name, data + 1, size - 1);
    int code = hc_responses_load(name, 0, size & 1 ? 48000 : 0, HC_TELL_FILTERS, &r, why, sizeof why);
    if (r.memory && !r.channel)
        configuration_look(code, why, &r);
    else
        must(code == HC_OK || *why);
    hc_responses_free(&r);
    return 0;
}
