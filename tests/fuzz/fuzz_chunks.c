/* Any bytes as a file whose chunks are copied: an output in each family of containers, whole and from a later frame on,
 * can be read again with all its frames. The first byte chooses the container and that frame. Also: a file that is no
 * sound is named, or not, without a look beyond its end. */
#include "fuzz.h"

#include "host/files/file_convolution.h"
#include "host/message.h"

#include <stdlib.h>
#include <string.h>

enum { FRAMES = 50, MAX_TEST_CHANNELS = 64 };

static void name_foreign(const uint8_t *data, size_t size)
{
    char *exact = malloc(size ? size : 1); /* the sanitizer knows its end */
    must(exact);
    memcpy(exact, data, size);
    const char *what = sound_foreign(exact, size);
    must(!what || strncmp(what, "is ", 3) == 0);
    free(exact);
}

static void read_again(const char *path, int rate, int n_channels)
{
    struct sound_in in;
    char why[400] = "";
    must(sound_in_open(&in, path, NULL, why, sizeof why));
    must(in.rate == rate && in.n_channels == n_channels && in.n_frames >= FRAMES); /* ADPCM: whole packets */
    char *raw = calloc(FRAMES, n_channels * sample_bytes(in.kind));
    must(raw && sound_in_read(&in, raw, FRAMES, why, sizeof why) == FRAMES);
    free(raw);
    sound_in_close(&in);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const outputs[] = {"o.wav", "o.aiff", "o.flac", "o.rf64"};
    if (size == 0) return 0;
    message_set_quiet(true);
    name_foreign(data + 1, size - 1);
    file_put("t.wav", data + 1, size - 1);
    struct sound_in in;
    char why[400] = "";
    if (!sound_in_open(&in, "t.wav", NULL, why, sizeof why)) return 0;
    const char *path = outputs[data[0] % 4];
    int rate = in.rate, n = in.n_channels;
    struct sound_out out = {0};
    bool is_cut = data[0] / 4 == 0 || sound_in_cut(&in, data[0] / 4, 1 << 20, why, sizeof why);
    if (is_cut && n <= MAX_TEST_CHANNELS &&
        file_open_output(&out, -1, path, 0, DITHER_OFF, &in, n, (struct output_range){0}, why, sizeof why)) {
        struct file_writer writer = {.out = &out, .gain = 1};
        float *silence = calloc((size_t)n * FRAMES, sizeof *silence);
        must(silence);
        bool is_written = file_write(&writer, FILE_NEXT, silence, FRAMES, FRAMES, why, sizeof why);
        must(is_written || *why); /* a FLAC has no rate above 655,350 Hz */
        free(silence);
        if (is_written && sound_out_commit(&out, why, sizeof why))
            read_again(path, rate, n);
        else
            sound_out_abandon(&out);
    } else {
        sound_out_abandon(&out);
    }
    sound_in_close(&in);
    return 0;
}
