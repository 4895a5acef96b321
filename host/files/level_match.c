#include "level_match.h"

#include "host/message.h"
#include "spool.h"

#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- peak and power --------------------------------------------------------------------------- */

void level_meter_add(struct level_meter *meter, const float *x, int64_t n)
{
    float peak = 0;
    double squares = 0;
    for (int64_t done = 0; done < n;) { /* short sums in floats: the compiler vectorises them */
        int64_t end = done + 1024 < n ? done + 1024 : n;
        float sum = 0;
        for (; done < end; done++) {
            float size = fabsf(x[done]);
            size = size <= FLT_MAX ? size : 0;
            peak = size > peak ? size : peak;
            sum += size * size;
        }
        squares += (double)sum;
    }
    if ((double)peak > meter->peak) meter->peak = (double)peak;
    meter->sum += squares;
    meter->n += n;
}

/* Linear; level: not LEVEL_NONE. */
static double level_meter_value(const struct level_meter *meter, enum level level)
{
    return level == LEVEL_RMS ? sqrt(meter->sum / (double)meter->n) : meter->peak;
}

double level_meter_gain(const struct level_meter *in, const struct level_meter *out, enum level level)
{
    double from = level_meter_value(out, level), to = level_meter_value(in, level);
    return to > 0 && from > 0 && isfinite(to / from) ? to / from : 1;
}

/* ---- an output that waits for its gain -------------------------------------------------------- */

enum { CHUNK_FLOATS = 1 << 15, ALIGNMENT = 64 };

bool level_match_open(struct level_match *match, char *why, size_t cap)
{
    *match = (struct level_match){.fd = spool_open(why, cap),
                                  .chunk = aligned_alloc(ALIGNMENT, sizeof *match->chunk * 2 * CHUNK_FLOATS)};
    if (match->fd < 0) return false;
    if (!match->chunk) return message_write(why, cap, "no memory to measure the level; free some memory");
    match->planar = match->chunk + CHUNK_FLOATS;
    return true;
}

void level_match_close(struct level_match *match)
{
    if (match->fd >= 0) close(match->fd);
    match->fd = -1;
    free(match->chunk);
    match->chunk = match->planar = NULL;
}

static bool spool_refuse(const char *path, int error, char *why, size_t cap)
{
    return message_write(why, cap, "%s: cannot be kept in a temporary file: %s; set TMPDIR to another folder", path,
                         strerror(error));
}

bool level_match_keep(struct level_match *match, const float *planar, size_t stride, int n_channels, int64_t n,
                      const char *path, char *why, size_t cap)
{
    float *chunk = match->chunk;
    const int64_t max = CHUNK_FLOATS / n_channels;
    struct sample_peak seen = {0};
    for (int ch = 0; ch < n_channels; ch++) level_meter_add(&match->out, planar + (size_t)ch * stride, n);
    for (int64_t done = 0; done < n; done += max) {
        size_t frames = (size_t)(n - done < max ? n - done : max);
        sample_join(SAMPLE_FLOAT, 0, planar + done, stride, n_channels, frames, chunk, SAMPLE_UNDITHERED, &seen);
        int error = spool_write(match->fd, chunk, frames * (size_t)n_channels * sizeof *chunk);
        if (error) return spool_refuse(path, error, why, cap);
    }
    return (!sample_peak_overflows(&seen) && isfinite(match->out.sum)) || file_too_loud(path, why, cap);
}

bool level_match_write(struct level_match *match, struct file_writer *writer, char *why, size_t cap)
{
    float *chunk = match->chunk, *planar = match->planar;
    const int n_channels = writer->out->n_channels;
    const size_t max = (size_t)(CHUNK_FLOATS / n_channels), frame_bytes = (size_t)n_channels * sizeof *chunk;
    ssize_t got = 0;
    if (lseek(match->fd, 0, SEEK_SET) != 0) return spool_refuse(writer->out->path, errno, why, cap);
    while ((got = spool_read(match->fd, chunk, max * frame_bytes)) > 0) {
        size_t frames = (size_t)got / frame_bytes;
        sample_split(SAMPLE_FLOAT, chunk, n_channels, frames, planar, max);
        if (!file_write(writer, FILE_NEXT, planar, max, (int64_t)frames, why, cap)) return false;
    }
    return got == 0 || spool_refuse(writer->out->path, errno, why, cap);
}
