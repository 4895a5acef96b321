#include "raw_samples.h"

#include "dsp/base/error.h"

#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

enum {
    CHUNK = 4096,    /* samples of one read                                       */
    MAX_PEAK = 10000 /* largest sample of a file of which only the name says that it has floats */
};

struct raw_format {
    const char *name;
    int bytes;        /* bytes of a sample; 0: the file is a text                      */
    int bits;         /* bits of an integer, the low ones of its bytes; 0: floats */
    bool is_reversed; /* the file has another byte order than the machine       */
};

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
enum { LE = false, BE = true, NE = false };
#else
enum { LE = true, BE = false, NE = false };
#endif

/* Formats of BruteFIR 1.0m and later, where S24_4LE is the low 24 bits of four bytes, as in ALSA. Earlier versions had
 * the high 24 bits, which can be read as S32_LE. */
static const struct raw_format formats[] = {
    {"S8", 1, 8, NE},         {"TEXT", 0, 0, NE},       {"S16_LE", 2, 16, LE},    {"S16_BE", 2, 16, BE},
    {"S16_NE", 2, 16, NE},    {"S24_LE", 3, 24, LE},    {"S24_BE", 3, 24, BE},    {"S24_NE", 3, 24, NE},
    {"S24_3LE", 3, 24, LE},   {"S24_3BE", 3, 24, BE},   {"S24_3NE", 3, 24, NE},   {"S24_4LE", 4, 24, LE},
    {"S24_4BE", 4, 24, BE},   {"S24_4NE", 4, 24, NE},   {"S32_LE", 4, 32, LE},    {"S32_BE", 4, 32, BE},
    {"S32_NE", 4, 32, NE},    {"FLOAT_LE", 4, 0, LE},   {"FLOAT_BE", 4, 0, BE},   {"FLOAT_NE", 4, 0, NE},
    {"FLOAT64_LE", 8, 0, LE}, {"FLOAT64_BE", 8, 0, BE}, {"FLOAT64_NE", 8, 0, NE},
};

const struct raw_format *raw_format_find(const char *name)
{
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (strcasecmp(name, formats[i].name) == 0) return &formats[i];
    return NULL;
}

/* ---- samples ------------------------------------------------------------------------------------ */

/* Converts one sample in the machine's byte order. */
static float raw_decode(const struct raw_format *format, const unsigned char *bytes)
{
    float single;
    double wide;
    if (format->bits) {
        /* The bytes go to the high end of a word: the word then has the sign of the sample. */
        uint32_t word = 0;
        for (int k = 0; k < format->bytes; k++) {
            int position = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? k : format->bytes - 1 - k;
            word |= (uint32_t)bytes[k] << (8 * (4 - format->bytes + position));
        }
        word <<= 8 * format->bytes - format->bits; /* the byte above 24 bits may hold anything */
        return (float)ldexp((int32_t)word, -31);
    }
    if (format->bytes == (int)sizeof single) {
        memcpy(&single, bytes, sizeof single);
        return single;
    }
    memcpy(&wide, bytes, sizeof wide);
    return (float)wide; /* beyond the range of a float it is infinite, and is refused later */
}

static void decode_all(const struct raw_format *format, unsigned char *bytes, size_t n, float *samples)
{
    size_t size = (size_t)format->bytes;
    for (size_t i = 0; i < n; i++) {
        unsigned char *sample = bytes + i * size;
        for (size_t k = 0; format->is_reversed && k < size / 2; k++) {
            unsigned char kept = sample[k];
            sample[k] = sample[size - 1 - k];
            sample[size - 1 - k] = kept;
        }
        samples[i] = raw_decode(format, sample);
    }
}

/* ---- files -------------------------------------------------------------------------------------- */

/* Returns the number of samples behind the skipped bytes; 0: `why` has the error. */
static int64_t count_samples(const struct raw_samples *raw, int64_t bytes, int *n_left, const char *path,
                             struct reason *why)
{
    int64_t left = bytes - raw->skip, n = left / raw->format->bytes;
    if (left <= 0) {
        fail(HC_EINVAL, why, "%s: has %lld bytes, but %d are skipped; skip fewer", path, (long long)bytes, raw->skip);
        return 0;
    }
    if (raw->max && n >= raw->max) {
        *n_left = (int)(n - raw->max < INT32_MAX ? n - raw->max : INT32_MAX);
        return raw->max;
    }
    if (left % raw->format->bytes == 0) return n;
    fail(HC_EINVAL, why, "%s: %lld bytes are not a whole number of %s samples; give its real format", path,
         (long long)left, raw->format->name);
    return 0;
}

static int read_binary(struct mask_file *file, FILE *stream, const char *path, const struct raw_samples *raw,
                       const struct mask_limits *limits, struct reason *why)
{
    struct stat status;
    if (fstat(fileno(stream), &status) != 0 || fseek(stream, raw->skip, SEEK_SET) != 0)
        return fail(HC_EFILE, why, "%s: %s; check the disk", path, strerror(errno));
    int n_left = 0;
    int64_t n = count_samples(raw, status.st_size, &n_left, path, why);
    if (n == 0) return HC_EINVAL;
    int error = mask_file_fits(limits, 1, (size_t)n, path, why);
    if (!error) error = mask_file_make(file, 1, (int)n, path, why);
    for (int64_t at = 0; !error && at < n;) {
        unsigned char bytes[CHUNK * 8];
        size_t wanted = n - at < CHUNK ? (size_t)(n - at) : CHUNK;
        size_t got = fread(bytes, (size_t)raw->format->bytes, wanted, stream);
        decode_all(raw->format, bytes, got, file->channel[0] + at);
        at += (int64_t)got;
        if (got < wanted)
            error = fail(HC_EFILE, why, "%s: ends after %lld samples; check the disk", path, (long long)at);
    }
    if (!error) error = mask_file_check_finite(file, path, why);
    if (error) mask_file_free(file);
    file->n_left = error ? 0 : n_left;
    return error;
}

int raw_samples_read(struct mask_file *file, const char *path, const struct raw_samples *raw,
                     const struct mask_limits *limits, struct reason *why)
{
    if (raw->format->bytes == 0) return mask_file_read_text(file, path, raw->skip, raw->max, limits, why);
    *file = (struct mask_file){0};
    int error = mask_file_check(path, why);
    if (error) return error;
    FILE *stream = fopen(path, "re");
    if (!stream) return fail(HC_EFILE, why, "%s: %s; check the path", path, strerror(errno));
    error = read_binary(file, stream, path, raw, limits, why);
    fclose(stream);
    return error;
}

/* ---- files that have no configuration ----------------------------------------------------------- */

const struct raw_format *raw_format_of_name(const char *path)
{
    static const char *const names[][2] = {{".pcm", "FLOAT_LE"}, {".raw", "FLOAT_LE"},   {".bin", "FLOAT_LE"},
                                           {".f32", "FLOAT_LE"}, {".dbl", "FLOAT64_LE"}, {".f64", "FLOAT64_LE"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (mask_file_has_extension(path, names[i][0])) return raw_format_find(names[i][1]);
    return NULL;
}

int raw_samples_read_named(struct mask_file *file, const char *path, const struct raw_format *format,
                           const struct mask_limits *limits, struct reason *why)
{
    const struct raw_samples raw = {.format = format};
    int error = raw_samples_read(file, path, &raw, limits, why);
    float peak = 0;
    for (int i = 0; !error && i < file->n_frames; i++) peak = fmaxf(peak, fabsf(file->channel[0][i]));
    if (error || peak <= MAX_PEAK) return error;
    mask_file_free(file);
    return fail(HC_EINVAL, why, "%s: its largest sample is %g, so it holds no %s samples; convert it to WAV", path,
                (double)peak, format->name);
}
