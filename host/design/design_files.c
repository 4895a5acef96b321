#include "design_files.h"

#include "dsp/base/number.h"
#include "host/files/mask_diagnostics.h"
#include "host/line_reader.h"
#include "host/mask_argument.h"
#include "host/message.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_CURVE_BYTES = 1 << 24, TEXT_RATE = 48000, MIN_RATE = 1000, MAX_RATE = 1000000 };

/* The text of an open file with a final 0, from malloc. NULL: why has the reason. */
static char *read_curve_text(FILE *file, const char *path, char *why, size_t cap)
{
    errno = 0;
    char *text = malloc(MAX_CURVE_BYTES + 1);
    size_t n = text ? fread(text, 1, MAX_CURVE_BYTES, file) : 0;
    bool good = text && !ferror(file) && n < MAX_CURVE_BYTES && !memchr(text, 0, n);
    if (good)
        text[n] = 0;
    else if (!text)
        message_write(why, cap, "%s: no memory to read it; free some memory", path);
    else if (ferror(file))
        message_write(why, cap, "%s: %s; check the path", path, strerror(errno ? errno : EIO));
    else if (n == MAX_CURVE_BYTES)
        message_write(why, cap, "%s: is longer than 16 MiB; a curve needs a few hundred points", path);
    else
        message_write(why, cap,
                      "%s: is not text; write lines with a frequency in Hz and a gain in dB. The command for an "
                      "impulse response is `haloconv convolve`",
                      path);
    if (good) return text;
    free(text);
    return NULL;
}

static char *read_curve_file(const char *path, char *why, size_t cap)
{
    if (strcmp(path, "-") == 0) return read_curve_text(stdin, path, why, cap);
    const char *reason;
    FILE *file = text_in_open(path, &reason);
    if (!file) return message_write(why, cap, "%s: %s; check the path", path, reason), NULL;
    char *text = read_curve_text(file, path, why, cap);
    fclose(file);
    return text;
}

bool design_curve_read(struct frequency_curve *curve, const char *path, char *why, size_t cap)
{
    char *text = read_curve_file(path, why, cap), reason[MESSAGE_CAP];
    int line;
    if (!text) return false;
    bool good = frequency_curve_read(curve, text, &line, reason, sizeof reason);
    free(text);
    if (good && *curve->gain_column)
        message_note("%s: the gain is the column \"%s\" of the table; the columns behind it are skipped", path,
                     curve->gain_column);
    return good || message_write(why, cap, "%s:%d: %s", path, line, reason);
}

bool design_mask_read(hc_responses *mask, const char *path, int *rate, char *why, size_t cap)
{
    bool good = hc_responses_load(path, 0, *rate, 0, mask, why, cap) == HC_OK;
    if (!good) mask_argument_explain(path, why, cap);
    if (good && mask->n_channels == 0) {
        message_write(why, cap, "%s: is a configuration; give a sound file that `haloconv import` makes of it", path);
        good = false;
    } else if (good && mask->rate && (mask->rate < MIN_RATE || mask->rate > MAX_RATE)) {
        message_write(why, cap, "%s: has a rate of %d Hz; resample it by --rate, to %d Hz or more", path, mask->rate,
                      MIN_RATE);
        good = false;
    } else if (good) {
        mask_diagnostics_print(mask, path);
        if (!*rate) *rate = mask->rate ? mask->rate : TEXT_RATE;
    }
    if (!good) hc_responses_free(mask);
    return good;
}

int design_silence_check(const hc_responses *mask, const char *path, const char *what)
{
    for (int ch = 0; ch < mask->n_channels; ch++) {
        int frame = 0;
        while (frame < mask->n_frames && mask->channel[ch][frame] == 0) frame++;
        if (frame == mask->n_frames)
            return message_error("%s: channel %d is silent and has no %s; leave it out", path, ch + 1, what);
    }
    return 0;
}

const struct option_row design_mask_options[] = {
    {"rate", 0, "HZ", "Sample rate; MASK is resampled to it [that of MASK]", option_int,
     OPTION_TO(struct design_mask_settings, rate), .min = MIN_RATE, .max = MAX_RATE},
    MASK_WRITE_OPTIONS(struct design_mask_settings),
    PLOT_OPTIONS(struct design_mask_settings, plot),
    {0}};

int design_mask_run(const struct command_line *line, int argc, char **argv, void *settings,
                    int (*make)(void *settings, const hc_responses *mask, int rate))
{
    struct design_mask_settings *s = settings;
    hc_responses mask;
    char why[MESSAGE_CAP];
    s->plot = (struct plot_choice)PLOT_CHOICE_USUAL;
    int status = option_parse(line, argc, argv, s), rate = s->rate;
    if (status < 0) status = mask_write_check(line->command, s->output, s->format, s->json);
    if (status < 0) status = plot_check(line->command, &s->plot, s->output, s->names.list, 1);
    if (status >= 0) return status;
    if (!design_mask_read(&mask, s->names.list[0], &rate, why, sizeof why)) return message_error("%s", why);
    status = make(s, &mask, rate);
    hc_responses_free(&mask);
    return plot_written(status, s->output, rate, &s->plot);
}

bool option_band(const struct option_use *use, void *to)
{
    double *hz = to;
    const double min = 1; /* Hz; the bins of a transform are at most that far apart (magnitude_fir_size) */
    if (number_list_read(use->text, hz, 2) == 2 && hz[0] > 0 && hz[0] < hz[1] && hz[1] >= min) return true;
    return option_refuse(use, "needs two frequencies in Hz with a comma between: the lower one first, and the second "
                              "1 or more");
}

int design_band_check(const char *command, const double *hz, int rate)
{
    if (!(hz[1] > 0.5 * rate)) return -1;
    return message_usage(command, "--band %g,%g: must end at half the rate, %g Hz, or below", hz[0], hz[1], 0.5 * rate);
}
