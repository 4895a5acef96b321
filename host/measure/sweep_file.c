#include "sweep_file.h"

#include "host/files/file_convolution.h"
#include "host/files/sound_format.h"
#include "host/message.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 1 << 14 };

/* Takes on one channel after the other, in blocks. */
static bool write_takes(const struct sweep *s, struct sound_out *out, char *why, size_t cap)
{
    struct file_writer writer = {.out = out, .gain = 1};
    float *planar = malloc((size_t)s->n_outputs * BLOCK * sizeof *planar);
    if (!planar) return message_write(why, cap, "%s: no memory; free some", out->path);
    bool good = true;
    for (int64_t first = 0; good && first < out->n_frames; first += BLOCK) {
        int n = out->n_frames - first < BLOCK ? (int)(out->n_frames - first) : BLOCK;
        for (int o = 0; o < s->n_outputs; o++) {
            int64_t begin = llround(o * sweep_take_s(s) * out->rate);
            sweep_fill(s, out->rate, first - begin, planar + (size_t)o * BLOCK, n);
        }
        good = file_write(&writer, FILE_NEXT, planar, BLOCK, n, why, cap);
    }
    free(planar);
    return good;
}

bool sweep_file_write(const struct sweep *s, int rate, const char *path, int format, char *why, size_t cap)
{
    char comment[MESSAGE_CAP], *strings[SF_STR_LAST + 1] = {[SF_STR_COMMENT] = comment};
    struct sound_out out;
    int64_t n_frames = llround(s->n_outputs * sweep_take_s(s) * rate);
    int whole = sound_format_choose(format, path, SF_FORMAT_WAV | SF_FORMAT_PCM_24, rate, s->n_outputs, why, cap);
    sweep_describe(s, comment, sizeof comment);
    if (!whole || !sound_out_open(&out, -1, path, whole, rate, s->n_outputs, n_frames, strings, why, cap)) return false;
    if (write_takes(s, &out, why, cap)) return sound_out_commit(&out, why, cap);
    sound_out_abandon(&out);
    return false;
}

bool sweep_file_read(const char *path, struct sweep *sweep, char *why, size_t cap)
{
    struct sound_in in;
    if (!sound_in_open(&in, path, NULL, why, cap)) return false;
    bool good = sweep_parse(in.strings[SF_STR_COMMENT], sweep);
    sound_in_close(&in);
    return good ||
           message_write(why, cap,
                         "%s: has no comment that describes its sweep; use a file of --write-sweep, as WAV or FLAC",
                         path);
}
