#include "mask_write.h"

#include "host/files/file_convolution.h"
#include "host/files/files_read.h"
#include "host/files/sound_format.h"
#include "host/files/text_out.h"
#include "host/message.h"
#include "host/option.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static bool ends_with(const char *path, const char *extension)
{
    const char *slash = strrchr(path, '/'), *dot = strrchr(path, '.');
    return dot && (!slash || dot > slash) && strcasecmp(dot, extension) == 0;
}

static bool mask_is_text(const char *path)
{
    return ends_with(path, ".txt") || ends_with(path, ".csv");
}

int mask_write_check(const char *command, const char *path, int format, bool json)
{
    if (!option_output(command, path, json, "mask")) return EXIT_USAGE;
    if (mask_is_text(path) && format)
        return message_usage(command, "%s: is written as a text, so --format does not apply; give a name that ends in .wav", path);
    if (ends_with(path, ".conf"))
        return message_usage(command, "%s: would be read as a configuration; name it .wav or .txt", path);
    return -1;
}

int mask_write_check_read(const char *output, char *const *paths, int n)
{
    char why[MESSAGE_CAP];
    return files_read_spares(paths, n, output, why, sizeof why) ? -1 : message_error("%s", why);
}

static void mask_print_text(FILE *file, const void *data)
{
    const struct mask_out *m = data;
    char separator = ends_with(m->path, ".csv") ? ',' : ' ';
    for (int i = 0; i < m->n_frames && !ferror(file); i++)
        for (int ch = 0; ch < m->n_channels; ch++) {
            /* Nine digits are enough to read the same float again. */
            double value = (float)m->h[(size_t)ch * (size_t)m->n_frames + (size_t)i];
            fprintf(file, "%.9g%c", value, ch + 1 < m->n_channels ? separator : '\n');
        }
}

static bool write_frames(struct sound_out *out, const struct mask_out *m, char *why, size_t cap)
{
    size_t n_samples = (size_t)m->n_channels * (size_t)m->n_frames;
    struct file_writer writer = {.out = out, .gain = 1};
    float *planar = malloc(n_samples * sizeof *planar);
    if (!planar) return message_write(why, cap, "%s: no memory; free some memory", out->path);
    for (size_t i = 0; i < n_samples; i++) planar[i] = (float)m->h[i];
    bool good = file_write(&writer, FILE_NEXT, planar, (size_t)m->n_frames, m->n_frames, why, cap);
    free(planar);
    if (good && out->bits && writer.seen.clipped)
        message_note("%s: limited %llu tap%s beyond full scale; use --format float", out->path,
                     (unsigned long long)writer.seen.clipped, message_s((int64_t)writer.seen.clipped));
    return good;
}

static bool write_sound(const struct mask_out *m, char *why, size_t cap)
{
    struct sound_out out;
    int format =
        sound_format_choose(m->format, m->path, SF_FORMAT_WAV | SF_FORMAT_FLOAT, m->rate, m->n_channels, why, cap);
    if (!format || !sound_out_open(&out, -1, m->path, format, m->rate, m->n_channels, m->n_frames, NULL, why, cap))
        return false;
    if (write_frames(&out, m, why, cap)) return sound_out_commit(&out, why, cap);
    sound_out_abandon(&out);
    return false;
}

bool mask_write(const struct mask_out *m, char *why, size_t cap)
{
    return mask_is_text(m->path) ? text_out(m->path, mask_print_text, m, why, cap) : write_sound(m, why, cap);
}
