#include "sweep_file.h"

#include "host/files/file_convolution.h"
#include "host/files/sound_format.h"
#include "host/message.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BLOCK = 1 << 14 };

/* Fills planar[n_outputs][BLOCK] with n frames of the file from frame `first` on: takes on one channel after the
 * other. */
static void fill_block(const struct sweep *s, int rate, int64_t first, float *planar, int n)
{
    for (int o = 0; o < s->n_outputs; o++)
        sweep_fill(s, rate, first - llround(o * sweep_take_s(s) * rate), planar + (size_t)o * BLOCK, n);
}

static int64_t file_frames(const struct sweep *s, int rate)
{
    return llround(s->n_outputs * sweep_take_s(s) * rate);
}

static bool write_takes(const struct sweep *s, struct sound_out *out, char *why, size_t cap)
{
    struct file_writer writer = {.out = out, .gain = 1};
    float *planar = malloc((size_t)s->n_outputs * BLOCK * sizeof *planar);
    if (!planar) return message_write(why, cap, "%s: no memory; free some memory", out->path);
    bool good = true;
    for (int64_t first = 0; good && first < out->n_frames; first += BLOCK) {
        int n = out->n_frames - first < BLOCK ? (int)(out->n_frames - first) : BLOCK;
        fill_block(s, out->rate, first, planar, n);
        good = file_write(&writer, FILE_NEXT, planar, BLOCK, n, why, cap);
    }
    free(planar);
    return good;
}

/* Returns the correlation of a sweep with its samples in a format: rounding adds the noise step^2 / 12. */
static double find_min_likeness(int format, double level)
{
    const double min = 0.95;
    int bytes = sound_format_bytes(format), bits = bytes ? 8 * bytes : sound_format_bits(format);
    double step = exp2(1 - bits), noise = step * step / 12, signal = level * level / 2;
    return sound_format_is_lossy_float(format) ? min : fmax(min, 0.999 / sqrt(1 + noise / signal));
}

/* Compares the samples with the sweep, up to the format's error. is_unfit: NULL, or this run wrote the file;
 * it becomes true if the format cannot keep the sweep. memory: [2][n_outputs][BLOCK] */
static bool compare_samples(struct sound_in *in, const struct sweep *s, bool *is_unfit, float *memory, char *why,
                            size_t cap)
{
    const double max_level = 0.12, min_likeness = find_min_likeness(in->format, s->level);
    const size_t size = (size_t)s->n_outputs * BLOCK;
    double written = 0, read = 0, both = 0; /* sums of squares; `both`: of products */
    for (int64_t first = 0, n = BLOCK; n > 0 || first < file_frames(s, in->rate); first += BLOCK) {
        memset(memory, 0, 2 * size * sizeof *memory);
        n = file_read(in, FILE_NEXT, memory + size, BLOCK, BLOCK, why, cap);
        if (n < 0) return false;
        fill_block(s, in->rate, first, memory, BLOCK);
        for (size_t i = 0; i < size; i++) {
            double x = (double)memory[i], y = (double)memory[size + i];
            written += x * x;
            read += y * y;
            both += x * y;
        }
    }
    bool is_alike = both > min_likeness * sqrt(written * read) && fabs(both / written - 1) < max_level;
    if (is_alike && in->non_finite == 0) return true;
    char name[64];
    if (is_unfit) *is_unfit = true;
    return is_unfit
               ? message_write(why, cap, "--format %s: is too coarse for --level %g; use pcm24",
                               sound_format_name(in->format, name, sizeof name), 20 * log10(s->level))
               : message_write(why, cap,
                               "%s: is not the sweep that its comment describes, perhaps a recording of it; give the "
                               "file of --write-sweep that was played, unchanged",
                               in->path);
}

static bool check_sweep_file(struct sound_in *in, const struct sweep *s, bool *is_unfit, char *why, size_t cap)
{
    struct sweep complete = *s;
    if (!sweep_complete(&complete, in->rate, why, cap)) return false; /* also refuses a sweep that is too long */
    if (in->n_channels != s->n_outputs)
        return message_write(why, cap,
                             "%s: has %d channel%s, but its comment describes a sweep of %d channels; give the file "
                             "of --write-sweep that was played",
                             in->path, in->n_channels, message_s(in->n_channels), s->n_outputs);
    float *memory = malloc(2 * (size_t)s->n_outputs * BLOCK * sizeof *memory);
    bool good = memory ? compare_samples(in, s, is_unfit, memory, why, cap)
                       : message_write(why, cap, "%s: no memory; free some memory", in->path);
    free(memory);
    return good;
}

static bool read_sweep(const char *path, struct sweep *sweep, bool *is_unfit, char *why, size_t cap)
{
    struct sound_in in;
    if (!sound_in_open(&in, path, NULL, why, cap)) return false;
    bool has_comment = sweep_parse(in.strings[SF_STR_COMMENT], sweep);
    if (!has_comment && is_unfit) *is_unfit = true;
    bool good = has_comment
                    ? check_sweep_file(&in, sweep, is_unfit, why, cap)
                    : message_write(why, cap,
                                    "%s: has no comment that describes its sweep; use a file of --write-sweep, as WAV "
                                    "or FLAC",
                                    path);
    sound_in_close(&in);
    return good;
}

bool sweep_file_read(const char *path, struct sweep *sweep, char *why, size_t cap)
{
    return read_sweep(path, sweep, NULL, why, cap);
}

bool sweep_file_write(const struct sweep *s, int rate, const char *path, int format, char *why, size_t cap)
{
    char comment[MESSAGE_CAP], *strings[SF_STR_LAST + 1] = {[SF_STR_COMMENT] = comment};
    struct sound_out out;
    int whole = sound_format_choose(format, path, SF_FORMAT_WAV | SF_FORMAT_PCM_24, rate, s->n_outputs, why, cap);
    sweep_describe(s, comment, sizeof comment);
    if (!whole || !sound_out_open(&out, -1, path, whole, rate, s->n_outputs, file_frames(s, rate), strings, why, cap))
        return false;
    if (!write_takes(s, &out, why, cap)) {
        sound_out_abandon(&out);
        return false;
    }
    struct sweep read;
    bool is_file = out.part.regular, is_unfit = false;
    if (!sound_out_commit(&out, why, cap)) return false;
    read_sweep(path, &read, &is_unfit, why, cap); /* a file that cannot be read now may still be right */
    if (!is_unfit) return true;
    if (is_file) unlink(path);
    return false;
}
