/* Files come from strangers: every size that a file claims is checked before its use, and memory grows with the samples
 * that were read, not with the length in the header. */
#include "mask_file.h"

#include "dsp/base/error.h"
#include "dsp/base/number.h"
#include "dsp/sndfile_log.h"
#include "raw_samples.h"
#include "resample.h"
#include "sound_header.h"
#include "utf16.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>
#ifdef HC_WITH_SNDFILE
#include <sndfile.h>
#endif

enum {
    READ_SAMPLES = 1 << 16, /* samples of one read, of all channels: they fit into the second-level cache */
    TILE = 16,              /* channels that are deinterleaved at once: a cache line of each frame */
};

#define LATE_S 0.01 /* a filter whose t = 0 lies later in its file is told to the user */

struct frames {     /* samples as read, interleaved */
    float *samples; /* [n / n_channels][n_channels] */
    size_t n, capacity;
    int n_channels;
    const struct mask_limits *limits;
    size_t max;            /* frames that the limits allow */
    bool is_memory_scarce; /* `max` comes from limits->bytes, not from limits->frames */
};

/* Finds how many frames of n_channels the limits allow. rate: the file's, or 0. Fails if the rates are too far apart
 * to be resampled. */
static int frames_limit(struct frames *frames, int n_channels, int rate, const char *path, struct reason *why)
{
    const struct mask_limits *limits = frames->limits;
    double ratio = 1, bytes = 2 * sizeof(float); /* bytes for a sample: as read, and deinterleaved */
    if (limits->rate && rate && limits->rate != rate) {
        int length;
        int error = resample_length(rate, limits->rate, 1, path, &length, why);
        if (error) return error;
        ratio = (double)limits->rate / rate;
        bytes = 3 * sizeof(float) * (1 + ratio); /* input and output: as floats, and as soxr's doubles */
    }
    double max = fmin((double)limits->frames / ratio, (double)MASK_MAX_SAMPLES / n_channels / fmax(1, ratio));
    double in_memory = (double)limits->bytes / n_channels / bytes;
    frames->n_channels = n_channels;
    frames->is_memory_scarce = in_memory < max;
    frames->max = (size_t)fmin(max, in_memory);
    return HC_OK;
}

static int refuse_length(const struct frames *frames, const char *path, struct reason *why)
{
    return fail(frames->is_memory_scarce ? HC_ENOMEM : HC_EINVAL, why,
                "%s: is longer than %zu frames of %d channel%s, the most that %s; cut it", path, frames->max,
                frames->n_channels, frames->n_channels == 1 ? "" : "s",
                frames->is_memory_scarce ? "three quarters of this machine's memory hold" : "a mask can have");
}

/* Grows the capacity so that `more` samples fit behind the first n. */
static int frames_reserve(struct frames *frames, size_t more, const char *path, struct reason *why)
{
    size_t capacity = frames->capacity ? frames->capacity : READ_SAMPLES;
    while (capacity < frames->n + more) capacity *= 2;
    if (capacity == frames->capacity) return HC_OK;
    float *samples = realloc(frames->samples, capacity * sizeof *samples);
    if (!samples) return fail(HC_ENOMEM, why, "%s: no memory for %zu samples; use a shorter mask", path, capacity);
    frames->samples = samples;
    frames->capacity = capacity;
    return HC_OK;
}

/* Counts n more samples. */
static int frames_add(struct frames *frames, size_t n, const char *path, struct reason *why)
{
    frames->n += n;
    bool fits = frames->n / (size_t)frames->n_channels <= frames->max;
    return fits ? HC_OK : refuse_length(frames, path, why);
}

/* ---- sound files -------------------------------------------------------------------------------- */

#ifdef HC_WITH_SNDFILE
/* Returns false for a FLAC that was written to a pipe. */
static bool has_length(const SF_INFO *info)
{
    return info->frames < (sf_count_t)1 << 60;
}

/* Returns by how many frames an undamaged file may be shorter than its header says. The header of an MP3 holds an
 * estimate of the length; the header of ADPCM, GSM and DWVW counts whole packets. */
static sf_count_t length_slack(const SF_INFO *info)
{
    int subtype = info->format & SF_FORMAT_SUBMASK;
    bool packets = subtype >= SF_FORMAT_IMA_ADPCM && subtype <= SF_FORMAT_DWVW_N;
    bool estimate = (info->format & SF_FORMAT_TYPEMASK) == SF_FORMAT_MPEG;
    return estimate ? info->frames / 10 : packets ? 4096 : 0;
}

static int read_frames(SNDFILE *file, const SF_INFO *info, bool is_cut, struct frames *frames, const char *path,
                       struct reason *why)
{
    size_t n_channels = (size_t)info->channels;
    sf_count_t chunk = READ_SAMPLES / info->channels;
    for (;;) {
        int error = frames_reserve(frames, (size_t)chunk * n_channels, path, why);
        if (error) return error;
        sf_count_t got = sf_readf_float(file, frames->samples + frames->n, chunk);
        if (got <= 0) break;
        error = frames_add(frames, (size_t)got * n_channels, path, why);
        if (error) return error;
    }
    if (sf_error(file))
        return fail(HC_EFILE, why, "%s: is damaged after frame %zu (%s); download it again, or restore it", path,
                    frames->n / n_channels, sf_strerror(file));
    if (frames->n == 0) return fail(HC_EINVAL, why, "%s: has no frames; give a mask with at least one", path);
    char log[SNDFILE_LOG_CAP] = "";
    sf_command(file, SFC_GET_LOG_INFO, log, sizeof log);
    if ((has_length(info) && (sf_count_t)(frames->n / n_channels) < info->frames - length_slack(info)) || is_cut ||
        sndfile_log_says_cut(log))
        return fail(HC_EFILE, why,
                    "%s: is cut short: it ends after %zu frames, but its header promises more; download it again, or "
                    "restore it",
                    path, frames->n / n_channels);
    return HC_OK;
}

/* Mu-law to G723, and Vorbis, Opus and MP3; DWVW, DPCM and ALAC are exact. */
static bool is_lossy(int format)
{
    int subtype = format & SF_FORMAT_SUBMASK;
    return (subtype >= SF_FORMAT_ULAW && subtype <= SF_FORMAT_G723_40) || subtype == SF_FORMAT_VORBIS ||
           subtype == SF_FORMAT_OPUS || (format & SF_FORMAT_TYPEMASK) == SF_FORMAT_MPEG;
}

/* note: [MASK_NOTE]. */
static int read_sound_part(const char *path, struct sound_part *part, struct frames *frames, int *rate, char *note,
                           struct reason *why)
{
    SF_INFO info = {0};
    SNDFILE *file = part->header.n_edits > 0 ? sound_part_open(part, &info) : sf_open(path, SFM_READ, &info);
    if (!file) {
        char refusal[512];
        sound_refusal(part,
                      "convert it to WAV, or give coefficients the ending .txt or .csv, and a configuration .conf",
                      refusal, sizeof refusal);
        return fail(HC_EFILE, why, "%s: %s", path, refusal);
    }
    int error = HC_OK;
    if (sf_error(file) == SF_ERR_SYSTEM) /* a read failed: perhaps only half of the header was read */
        error = fail(HC_EFILE, why, "%s: %s; check the disk", path, sf_strerror(file));
    else if (info.channels < 1 || info.channels > MASK_MAX_CHANNELS)
        error = fail(HC_EINVAL, why, "%s: has %d channels; give a mask with 1 to %d", path, info.channels,
                     MASK_MAX_CHANNELS);
    else if (info.samplerate < 1)
        error = fail(HC_EFILE, why, "%s: claims a rate of %d Hz; repair its header", path, info.samplerate);
    if (!error) error = frames_limit(frames, info.channels, info.samplerate, path, why);
    if (!error && has_length(&info) && info.frames > (sf_count_t)frames->max) error = refuse_length(frames, path, why);
    if (!error) {
        bool is_exact = has_length(&info) && info.frames > 0 && length_slack(&info) == 0;
        *rate = info.samplerate;
        if (frames->limits->sizes_only && is_exact)
            frames->n = (size_t)info.frames * (size_t)info.channels;
        else
            error = read_frames(file, &info, part->header.is_cut, frames, path, why);
        if (error == HC_EFILE && part->header.foreign) fail(error, why, "%s: %s", path, part->header.foreign);
    }
    if (!error && is_lossy(info.format))
        snprintf(note, MASK_NOTE, "its samples have a lossy code; take the response in WAV or FLAC if there is one");
    sf_close(file);
    return error;
}

static int read_sound(const char *path, struct frames *frames, struct mask_file *to, struct reason *why)
{
    struct stat status;
    struct sound_part part = {.fd = open(path, O_RDONLY | O_CLOEXEC)};
    if (part.fd < 0 || fstat(part.fd, &status) != 0) {
        int error = fail(HC_EFILE, why, "%s: %s; check the path and its permissions", path, strerror(errno));
        if (part.fd >= 0) close(part.fd);
        return error;
    }
    part.bytes = status.st_size;
    int error = sound_header_read(&part, path, why);
    if (!error) error = read_sound_part(path, &part, frames, &to->rate, to->note, why);
    if (part.header.is_unclosed) snprintf(to->note, MASK_NOTE, "%s", SOUND_UNCLOSED);
    close(part.fd);
    return error;
}
#else
static int read_sound(const char *path, struct frames *frames, struct mask_file *to, struct reason *why)
{
    (void)frames, (void)to;
    return fail(HC_EUNSUPPORTED, why,
                "%s: this build reads no sound files; build it with libsndfile, or give a .txt of coefficients", path);
}
#endif

/* ---- coefficients as text ----------------------------------------------------------------------- */

struct text_line { /* the line that is being read, for messages */
    const char *path;
    size_t line;
    bool is_rew;   /* REW's export of an impulse response: comments begin with '*' or "//"             */
    int rate;      /* Hz that REW's head states; 0: it states none                                     */
    double start;  /* seconds, from REW's head                                                         */
    double peak;   /* before the samples were normalised, from REW's head; 0: unknown                  */
    double length; /* samples, from REW's head; 0: unknown */
    enum { REW_SILENT, REW_NORMALISED, REW_AS_MEASURED } level; /* as REW's head says                  */
    int n_headers;                                              /* lines of names above the coefficients of a .csv */
    char *note;                                                 /* [MASK_NOTE] */
};

static const char blanks[] = " \t\r", separators[] = " \t\r,;";

/* Is the line blank, or does it begin with a number? nan and inf are numbers. */
static bool begins_with_number(const char *line)
{
    double number;
    line += strspn(line, blanks);
    if (strchr("0123456789+-.,;", *line)) return true; /* strchr also finds the 0 at the end of a blank line */
    const char *end = number_read(line, NAN, NAN, &number);
    return end && strchr(separators, *end);
}

static void header_note(struct text_line *text, const char *line)
{
    if (++text->n_headers == 1)
        snprintf(text->note, MASK_NOTE, "the header \"%.*s\" is skipped", (int)strcspn(line, "\r"), line);
    else
        snprintf(text->note, MASK_NOTE, "%d header line%s skipped", text->n_headers,
                 text->n_headers == 1 ? " is" : "s are");
}

/* Is this number the fraction behind a decimal comma? Programs write numbers such as 05 and 25e-3 nowhere else. */
static bool is_fraction(const char *number)
{
    size_t n = strspn(number, "0123456789");
    return n > 1 && (number[0] == '0' || number[n] == 'e' || number[n] == 'E');
}

static int coefficient_read(const struct text_line *text, const char *at, const char **end, float *value,
                            struct reason *why)
{
    double number;
    *end = number_read(at, NAN, NAN, &number);
    if (text->line == 1 && strncasecmp(at, "biquad", 6) == 0)
        return fail(HC_EINVAL, why,
                    "%s: has biquads for a miniDSP, and no rate; export the filters from REW as text, not as "
                    "coefficients",
                    text->path);
    if (!*end || !strchr(separators, **end)) { /* strchr also finds the 0 at the end of the line */
        int length = 0; /* the quotation may go to a terminal, so it ends before an escape character */
        while (length < 40 && at[length] > ' ' && at[length] < 127 && !strchr(",;", at[length])) length++;
        return fail(HC_EINVAL, why, "%s:%zu: \"%.*s\" is not a number; put # in front of a comment", text->path,
                    text->line, length, at);
    }
    if (isfinite(number) && fabs(number) >= 0x1.ffffffp127) /* smaller ones are rounded to the largest float */
        return fail(HC_EINVAL, why, "%s:%zu: %g is out of the range of a float; scale the coefficients", text->path,
                    text->line, number);
    *value = (float)number;
    return HC_OK;
}

/* Refuses a comma in the first number of a REW text: there is only one column, so it is a decimal comma. */
static int refuse_decimal_comma(const struct text_line *text, const char *line, struct reason *why)
{
    size_t length = strspn(line, "0123456789+-.eE");
    if (!text->is_rew || line[length] != ',') return HC_OK;
    return fail(
        HC_EINVAL, why,
        "%s:%zu: has a decimal comma; set REW's number format to a decimal point, and export the response again",
        text->path, text->line);
}

/* Reads the *n numbers of a line. A comma, a semicolon or blanks separate two numbers; blanks may be anywhere. Commas
 * in a line with other separators, too, may be decimal commas and are refused. */
static int coefficients_read_line(const struct text_line *text, const char *at, float *values, int *n,
                                  struct reason *why)
{
    int separator = 0; /* what precedes the number: a comma, a semicolon, or 0 for blanks */
    bool has_comma = false, has_other = false;
    *n = 0;
    int refused = refuse_decimal_comma(text, at + strspn(at, blanks), why);
    if (refused) return refused;
    for (;;) {
        at += strspn(at, blanks);
        if (*at == ',' || *at == ';' || (!*at && separator))
            return fail(HC_EINVAL, why, "%s:%zu: column %d is empty; write 0", text->path, text->line, *n + 1);
        if (!*at) return HC_OK;
        if (*n == MASK_MAX_CHANNELS)
            return fail(HC_EINVAL, why, "%s:%zu: has more than %d columns; write one frame on each line", text->path,
                        text->line, MASK_MAX_CHANNELS);
        if ((has_comma && has_other) || (separator == ',' && at[-1] == ',' && is_fraction(at)))
            return fail(HC_EINVAL, why,
                        "%s:%zu: has a decimal comma, or a comma beside other separators; write 0.5 for 0,5, and one "
                        "separator between all columns",
                        text->path, text->line);
        int error = coefficient_read(text, at, &at, &values[*n], why);
        if (error) return error;
        (*n)++;
        at += strspn(at, blanks);
        separator = *at == ',' || *at == ';' ? *at++ : 0;
        has_comma |= separator == ',';
        has_other |= separator != ',' && *at;
    }
}

/* Reads a line without its LF into line[MASK_MAX_LINE + 1]. *has_line: false at the end of the file. */
static int text_line_read(FILE *file, struct text_line *text, char *line, bool *has_line, struct reason *why)
{
    int c, length = 0;
    errno = 0;
    while ((c = getc_unlocked(file)) != EOF && c != '\n' && length < MASK_MAX_LINE) line[length++] = (char)c;
    if (c == EOF && ferror(file))
        return fail(HC_EFILE, why, "%s: %s; check the disk", text->path, strerror(errno ? errno : EIO));
    line[length] = 0;
    *has_line = c != EOF || length > 0;
    text->line += *has_line;
    if (text->line == 1 && utf16_is_text(line, (size_t)length))
        return fail(HC_EINVAL, why, "%s: is a text in UTF-16; save it as UTF-8", text->path);
    if (memchr(line, 0, (size_t)length))
        return fail(HC_EINVAL, why, "%s:%zu: is not text; give a sound file the ending .wav", text->path, text->line);
    if (c != EOF && c != '\n')
        return fail(HC_EINVAL, why, "%s:%zu: the line is longer than %d bytes; write one frame a line", text->path,
                    text->line, MASK_MAX_LINE);
    char *cr = strchr(line, '\r'); /* old Macs end lines without LF: all lines would be one frame */
    if (cr && cr[strspn(cr, "\r")] != 0)
        return fail(HC_EINVAL, why, "%s:%zu: its lines end with CR alone; end them with LF", text->path, text->line);
    line[strcspn(line, "#")] = 0;
    return HC_OK;
}

/* Reads a line such as "2.08E-5 // Sample interval (seconds)". A line of an unknown name is noted. */
static int rew_field_read(struct text_line *text, const char *line, struct reason *why)
{
    enum { INTERVAL, START, PEAK, LENGTH };
    static const struct {
        const char *name, *what;
        double min, max;
    } fields[] = {{"Sample interval", "sample interval in seconds", 1e-9, 1},
                  {"Start time", "start time in seconds", -1e6, 1e6},
                  {"Peak value", "peak", -1e9, 1e9},
                  {"Response length", "length in samples", 1, 1e9},
                  {"Peak index", "peak's index", -1e9, 1e9},
                  {"Data offset", "offset in dB", -1e9, 1e9}}; /* the sound pressure of full scale */
    enum { NAMES = sizeof fields / sizeof *fields };
    const char *slashes = strstr(line, "//"), *name = slashes, *end;
    int i = 0;
    if (!name) return HC_OK;
    name += 2 + strspn(name + 2, blanks);
    while (i < NAMES && strncmp(name, fields[i].name, strlen(fields[i].name)) != 0) i++;
    if (i == NAMES) header_note(text, line);
    if (i == NAMES) return HC_OK;
    double value = NAN;
    int error = refuse_decimal_comma(text, line, why);
    if (error) return error;
    end = number_read(line, fields[i].min, fields[i].max, &value);
    if (!end || end + strspn(end, blanks) != slashes)
        return fail(HC_EINVAL, why, "%s:%zu: the %s is %g; give %g to %g", text->path, text->line, fields[i].what,
                    value, fields[i].min, fields[i].max);
    if (i == INTERVAL) text->rate = (int)lrint(1 / value);
    if (i == START) text->start = value;
    if (i == PEAK) text->peak = value;
    if (i == LENGTH) text->length = value;
    return HC_OK;
}

/* Reads a line of the head of REW's export. The head ends with "* Data start": *is_head then becomes false, and samples
 * follow. */
static int rew_head_read(struct text_line *text, const char *line, bool *is_head, struct reason *why)
{
    if (strncmp(line, "* Data start", 12) == 0) {
        *is_head = false;
        if (text->rate == 0)
            return fail(HC_EINVAL, why,
                        "%s:%zu: the lines above have no sample interval; export the response from REW again",
                        text->path, text->line);
    }
    if (strncmp(line, "* IR is normali", 15) == 0) text->level = REW_NORMALISED;
    if (strncmp(line, "* IR is not normali", 19) == 0) text->level = REW_AS_MEASURED;
    if (text->level == REW_SILENT && strncmp(line, "* IR ", 5) == 0) header_note(text, line);
    if (strstr(line, "Freq(Hz)"))
        return fail(HC_EINVAL, why,
                    "%s:%zu: has the frequency response of a measurement; export its impulse response from REW, "
                    "or make a filter of this curve by `haloconv design target`",
                    text->path, text->line);
    return *line == '*' ? HC_OK : rew_field_read(text, line, why);
}

/* Gives a normalised response of REW its level. A head that says nothing about it means samples that reach 1: REW
 * interpolates the peak, so that the largest sample may be a little lower. */
static void rew_scale(const struct text_line *text, struct frames *frames)
{
    float largest = 0;
    for (size_t i = 0; i < frames->n; i++)
        if (fabsf(frames->samples[i]) > fabsf(largest)) largest = frames->samples[i];
    bool reaches_1 = fabsf(largest) > 0.999f && fabsf(largest) < 1.001f;
    if (text->level == REW_AS_MEASURED || (text->level == REW_SILENT && (!reaches_1 || text->peak == 0))) return;
    if (text->peak == 0) {
        snprintf(text->note, MASK_NOTE, "is normalised, and its head has no peak: its level is unknown");
        return;
    }
    float scale = (float)(text->peak < 0 && largest > 0 ? text->peak : fabs(text->peak)); /* the sign of the peak */
    for (size_t i = 0; i < frames->n; i++) frames->samples[i] *= scale;
}

/* Appends a frame of n numbers. */
static int frame_append(struct frames *frames, const struct text_line *text, const float *values, int n,
                        struct reason *why)
{
    int error = HC_OK;
    if (frames->n_channels == 0) error = frames_limit(frames, n, 0, text->path, why);
    if (!error && n != frames->n_channels)
        error = fail(HC_EINVAL, why,
                     "%s:%zu: has %d column%s, but the lines above have %d; write the same number on every line",
                     text->path, text->line, n, n == 1 ? "" : "s", frames->n_channels);
    if (!error) error = frames_reserve(frames, (size_t)n, text->path, why);
    if (error) return error;
    memcpy(frames->samples + frames->n, values, (size_t)n * sizeof *values);
    return frames_add(frames, (size_t)n, text->path, why);
}

/* Reads at most `max` lines of coefficients; max 0: all lines. */
static int coefficients_read_lines(FILE *file, struct text_line *text, size_t max, struct frames *frames,
                                   struct reason *why)
{
    bool is_csv = mask_file_has_extension(text->path, ".csv");
    char *line = calloc(1, MASK_MAX_LINE + 1);
    if (!line) return fail(HC_ENOMEM, why, "%s: no memory to read it; free some memory", text->path);
    bool has_line = true, is_head = false;
    int error = HC_OK;
    while (!error && has_line && (!max || !frames->n || frames->n / (size_t)frames->n_channels < max)) {
        float values[MASK_MAX_CHANNELS];
        int n = 0;
        error = text_line_read(file, text, line, &has_line, why);
        if (error) break;
        bool marked = text->line == 1 && strncmp(line, "\xef\xbb\xbf", 3) == 0; /* byte order mark of UTF-8 */
        char *start = line + (marked ? 3 : 0);
        if (text->line == 1 && *start == '*') is_head = text->is_rew = true;
        if (is_head)
            error = has_line ? rew_head_read(text, start, &is_head, why) : HC_OK;
        else if (text->is_rew && *start == '*')
            continue;
        else if (is_csv && frames->n == 0 && !begins_with_number(start))
            header_note(text, start);
        else
            error = coefficients_read_line(text, start, values, &n, why);
        if (!error && n > 0) error = frame_append(frames, text, values, n, why);
    }
    if (!error && frames->n == 0)
        error = fail(HC_EINVAL, why,
                     "%s: has no coefficients; write one frame a line, or make a filter of a "
                     "curve by `haloconv design target`",
                     text->path);
    free(line);
    return error;
}

/* Counts the frames behind the last one that was read; an error ends the count. */
static int count_left(FILE *file, struct text_line *text)
{
    char *line = malloc(MASK_MAX_LINE + 1);
    bool has_line = line != NULL;
    int n = 0;
    while (has_line && n < INT32_MAX && text_line_read(file, text, line, &has_line, NULL) == HC_OK && has_line)
        n += line[strspn(line, blanks)] != 0;
    free(line);
    return n;
}

/* Skips lines, and counts them. */
static void skip_lines(FILE *file, struct text_line *text, size_t n)
{
    for (int c; text->line < n && (c = getc_unlocked(file)) != EOF;) text->line += c == '\n';
}

/* Does the first of two or three columns, or of a table with a header, rise to 1000 or more? Then it is a curve. */
static bool is_curve(const struct frames *frames, const char *note)
{
    size_t n_columns = (size_t)frames->n_channels, last = frames->n - n_columns;
    if (n_columns < 2 || (n_columns > 3 && !strcasestr(note, "\"freq")) || frames->n < 2 * n_columns) return false;
    for (size_t i = 0; i < last; i += n_columns)
        if (!(frames->samples[i] < frames->samples[i + n_columns])) return false;
    return frames->samples[0] >= 0 && frames->samples[last] >= 1000;
}

static int mask_text_read(const char *path, int skip, int max, struct frames *frames, struct mask_file *to,
                          struct reason *why)
{
    struct text_line text = {.path = path, .note = to->note};
    int error = HC_OK;
    FILE *file = fopen(path, "re");
    if (!file || fseek(file, skip > 0 ? skip : 0, SEEK_SET) != 0)
        error = fail(HC_EFILE, why, "%s: %s; check the path", path, strerror(errno));
    if (!error && skip < 0) skip_lines(file, &text, (size_t)-skip);
    if (!error) error = coefficients_read_lines(file, &text, (size_t)max, frames, why);
    if (!error && max) to->n_left = count_left(file, &text);
    if (error == HC_EINVAL && fseek(file, 0, SEEK_SET) == 0) {
        char head[512];
        const char *foreign = sound_foreign(head, fread(head, 1, sizeof head, file));
        if (foreign) error = fail(HC_EFILE, why, "%s: %s", path, foreign);
    }
    if (file) fclose(file);
    if (!error && is_curve(frames, to->note))
        error = fail(HC_EINVAL, why,
                     "%s: its first column rises as frequencies do; `haloconv design target` makes a filter of a curve",
                     path);
    if (!error && text.is_rew) rew_scale(&text, frames);
    if (!error && text.length > 0 && !max && (double)frames->n != text.length)
        snprintf(to->note, MASK_NOTE, "has %zu samples, but its head says %.0f; export the response from REW again",
                 frames->n, text.length);
    if (!error && !*to->note && text.start < -LATE_S)
        snprintf(to->note, MASK_NOTE,
                 "t = 0 is at frame %.0f (%.2f ms); a filter plays that late unless `haloconv mask trim` cuts it",
                 floor(-text.start * text.rate + 0.01), -1e3 * text.start);
    to->rate = text.rate;
    to->start = text.start;
    return error;
}

/* ---- from frames to channels -------------------------------------------------------------------- */

int mask_file_check_finite(const struct mask_file *file, const char *path, struct reason *why)
{
    for (int ch = 0; ch < file->n_channels; ch++)
        for (int frame = 0; frame < file->n_frames; frame++)
            if (!isfinite(file->channel[ch][frame]))
                return fail(HC_EINVAL, why, "%s: channel %d, frame %d is %s; give finite numbers", path, ch + 1, frame,
                            isnan(file->channel[ch][frame]) ? "NaN" : "infinite");
    return HC_OK;
}

int mask_file_fits(const struct mask_limits *limits, int n_channels, size_t n_frames, const char *path,
                   struct reason *why)
{
    struct frames frames = {.limits = limits};
    int error = frames_limit(&frames, n_channels, 0, path, why);
    return !error && n_frames > frames.max ? refuse_length(&frames, path, why) : error;
}

/* Checks a path, for reasons that libsndfile does not report. */
int mask_file_check(const char *path, struct reason *why)
{
    struct stat status;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* or open would wait for the writer of a pipe */
    if (fd < 0) return fail(HC_EFILE, why, "%s: %s; check the path and its permissions", path, strerror(errno));
    int error = fstat(fd, &status) == 0 ? HC_OK : fail(HC_EFILE, why, "%s: %s; check the disk", path, strerror(errno));
    close(fd);
    if (error) return error;
    if (S_ISDIR(status.st_mode))
        return fail(HC_EFILE, why, "%s: is a directory; give a sound file or a text of coefficients", path);
    if (S_ISREG(status.st_mode) && status.st_size == 0)
        return fail(HC_EFILE, why, "%s: is empty; give a mask with at least one frame", path);
    if (!S_ISREG(status.st_mode))
        return fail(HC_EFILE, why, "%s: is not a regular file; write the mask to a file first", path);
    return HC_OK;
}

/* Replaces a text in UTF-16 by UTF-8. false: no memory. */
static bool text_to_utf8(char **text, size_t *bytes)
{
    if (!utf16_is_text(*text, *bytes)) return true;
    char *made = utf16_to_utf8(*text, *bytes, bytes);
    free(*text);
    *text = made;
    return made != NULL;
}

int mask_file_text(const char *path, int max, char **text, size_t *bytes, struct reason *why)
{
    struct stat status = {0};
    *text = NULL;
    int error = mask_file_check(path, why);
    FILE *file = error ? NULL : fopen(path, "re");
    if (!error && (!file || fstat(fileno(file), &status) != 0))
        error = fail(HC_EFILE, why, "%s: %s; check the path and its permissions", path, strerror(errno));
    long long size = status.st_size;
    if (!error && size > max)
        error = fail(HC_EINVAL, why, "%s: has %lld bytes of text, more than %d; name a file that is a configuration",
                     path, size, max);
    if (!error && !(*text = malloc((size_t)size + 1)))
        error = fail(HC_ENOMEM, why, "%s: no memory for %lld bytes of text; free some memory", path, size);
    if (!error) (*text)[ *bytes = fread(*text, 1, (size_t)size, file)] = 0;
    if (!error && ferror(file))
        error = fail(HC_EFILE, why, "%s: %s; check the disk", path, strerror(errno ? errno : EIO));
    if (!error && !text_to_utf8(text, bytes))
        error = fail(HC_ENOMEM, why, "%s: no memory for its text; free some memory", path);
    if (file) fclose(file);
    if (!error) return HC_OK;
    free(*text);
    *text = NULL;
    return error;
}

static void deinterleave(const struct frames *frames, float *const *channel)
{
    size_t n_channels = (size_t)frames->n_channels, n_frames = frames->n / n_channels;
    for (size_t first = 0; first < n_channels; first += TILE) {
        size_t end = first + TILE < n_channels ? first + TILE : n_channels;
        for (size_t frame = 0; frame < n_frames; frame++)
            for (size_t ch = first; ch < end; ch++) channel[ch][frame] = frames->samples[frame * n_channels + ch];
    }
}

bool mask_file_has_extension(const char *path, const char *extension)
{
    const char *slash = strrchr(path, '/'), *dot = strrchr(path, '.');
    return dot && (!slash || dot > slash) && strcasecmp(dot, extension) == 0;
}

/* Converts the frames to channels; not if `error` is set or no sample was read. Frees the frames in any case. */
static int channels_make(struct mask_file *file, struct frames *frames, int error, const char *path, struct reason *why)
{
    if (!error) { /* frames->n is at most MASK_MAX_SAMPLES */
        file->n_channels = frames->n_channels;
        file->n_frames = (int)(frames->n / (size_t)frames->n_channels);
        if (!frames->samples) return HC_OK;
        error = mask_file_make(file, file->n_channels, file->n_frames, path, why);
    }
    if (!error) {
        deinterleave(frames, file->channel);
        error = mask_file_check_finite(file, path, why);
    }
    free(frames->samples);
    if (error) mask_file_free(file);
    return error;
}

int mask_file_read_text(struct mask_file *file, const char *path, int skip, int max, const struct mask_limits *limits,
                        struct reason *why)
{
    struct frames frames = {.limits = limits};
    *file = (struct mask_file){0};
    int error = mask_file_check(path, why);
    if (!error) error = mask_text_read(path, skip, max, &frames, file, why);
    return channels_make(file, &frames, error, path, why);
}

int mask_file_read(struct mask_file *file, const char *path, const struct mask_limits *limits, struct reason *why)
{
    struct frames frames = {.limits = limits};
    const struct raw_format *bare = raw_format_of_name(path);
    if (bare) return raw_samples_read_named(file, path, bare, limits, why);
    if (mask_file_has_extension(path, ".txt") || mask_file_has_extension(path, ".csv"))
        return mask_file_read_text(file, path, 0, 0, limits, why);
    *file = (struct mask_file){0};
    int error = mask_file_check(path, why);
    if (!error) error = read_sound(path, &frames, file, why);
    return channels_make(file, &frames, error, path, why);
}

int mask_file_make(struct mask_file *file, int n_channels, int n_frames, const char *path, struct reason *why)
{
    if ((size_t)n_frames > MASK_MAX_SAMPLES / (size_t)n_channels)
        return fail(HC_EINVAL, why, "%s: %d frames of %d channels are too many; cut the mask", path, n_frames,
                    n_channels);
    file->channel = calloc((size_t)n_channels, sizeof *file->channel);
    float *samples = file->channel ? calloc((size_t)n_frames * (size_t)n_channels, sizeof *samples) : NULL;
    if (!samples) {
        mask_file_free(file);
        return fail(HC_ENOMEM, why, "%s: no memory for %d frames of %d channels; use a shorter mask", path, n_frames,
                    n_channels);
    }
    file->n_channels = n_channels;
    file->n_frames = n_frames;
    for (int ch = 0; ch < n_channels; ch++) file->channel[ch] = samples + (size_t)ch * (size_t)n_frames;
    return HC_OK;
}

void mask_file_free(struct mask_file *file)
{
    if (file->channel) free(file->channel[0]);
    free(file->channel);
    *file = (struct mask_file){0};
}

int mask_file_resample(struct mask_file *file, int rate, const char *path, struct reason *why)
{
    struct mask_file at_rate = {.rate = rate, .start = file->start};
    int length = 0;
    int error = resample_length(file->rate, rate, file->n_frames, path, &length, why);
    if (!error) error = mask_file_make(&at_rate, file->n_channels, length, path, why);
    if (!error)
        error = resample(file->rate, rate, file->n_channels, (const float *const *)file->channel, file->n_frames,
                         at_rate.channel, length, path, why);
    mask_file_free(error ? &at_rate : file);
    if (!error) *file = at_rate;
    return error;
}
