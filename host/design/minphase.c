/* haloconv design minphase - makes the minimum-phase version of each response of a mask. */
#include "design_files.h"
#include "fir_design.h"
#include "host/commands.h"
#include "host/json_print.h"
#include "host/message.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MIN_MAGNITUDE 1e-10   /* floor of the magnitude: a zero at a frequency has no minimum phase */
#define GOOD_ENOUGH_DB (-110) /* the change by doubling the transform, which is about the error that is left */
enum { LARGEST = 1 << 20 };

struct minphase_settings {
    struct design_mask_settings mask;
    int taps; /* 0: those of the mask */
};

static const struct option_row minphase_options[] = {{"taps", 0, "N", "Cut the result to this length [that of MASK]",
                                                      option_int, OPTION_TO(struct minphase_settings, taps), .min = 1,
                                                      .max = 1 << 26},
                                                     {0}};

static const struct command_line minphase_line = {
    .command = "design minphase",
    .usage = "MASK -o MASK",
    .text =
        "Makes the minimum-phase version of each response of a mask: the same magnitude with the least delay. It is "
        "computed from the cepstrum of the magnitude, by transforms that are doubled until the result changes by less "
        "than -110 dB; prints that change. Zeros of the magnitude are raised to 200 dB below its maximum. The "
        "delays between the channels are lost.\v"
        "  haloconv design minphase linear.wav -o minimum.wav",
    .groups = {{NULL, minphase_options}, {NULL, design_mask_options}},
    OPTION_NAMES("one MASK", 1, 1, struct design_mask_settings, names, 1)};

/* h[n] -> out[taps], by a transform of that size. false: no memory. */
static bool minphase(const float *h, int n, size_t size, int taps, double *out)
{
    struct transform t;
    if (!transform_open(&t, size)) return false;
    double complex *bins = malloc((size / 2 + 1) * sizeof *bins);
    if (bins) {
        transform_response_float(&t, h, (size_t)n, bins);
        magnitude_minimum_phase(&t, MIN_MAGNITUDE, bins);
        magnitude_taps(&t, bins, taps, out);
    }
    free(bins);
    transform_close(&t);
    return bins != NULL;
}

static double change_db(const double *a, const double *b, int n)
{
    double energy = 0, change = 0;
    for (int i = 0; i < n; i++) {
        energy += b[i] * b[i];
        change += (a[i] - b[i]) * (a[i] - b[i]);
    }
    return 10 * log10(change / energy + 1e-40);
}

/* Makes the version of one channel. before: [taps], scratch. false: no memory. */
static bool minphase_channel(const float *h, int n, int taps, double *before, double *out, double *error_db)
{
    size_t size = transform_size((size_t)(n > taps ? n : taps) * 4);
    if (!minphase(h, n, size, taps, out)) return false;
    do {
        memcpy(before, out, (size_t)taps * sizeof *out);
        size *= 2;
        if (!minphase(h, n, size, taps, out)) return false;
        *error_db = change_db(before, out, taps);
    } while (*error_db > GOOD_ENOUGH_DB && size < LARGEST);
    return true;
}

static int minphase_report(const struct minphase_settings *s, const struct mask_out *out, double error_db)
{
    message_note("%s: %d channel%s, %d tap%s at %d Hz, minimum phase; error about %.0f dB", out->path, out->n_channels,
                 message_s(out->n_channels), out->n_frames, message_s(out->n_frames), out->rate, error_db);
    if (!s->mask.json) return 0;
    return json_print(json_pack("{s:i, s:i, s:i, s:o}", "rate", out->rate, "channels", out->n_channels, "taps",
                                out->n_frames, "error_db", json_number(error_db)),
                      12, out->path);
}

static int minphase_make(void *settings, const hc_responses *mask, int rate)
{
    const struct minphase_settings *s = settings;
    const char *path = s->mask.names.list[0];
    int taps = s->taps ? s->taps : mask->n_frames, status = design_silence_check(mask, path, "phase");
    if (status) return status;
    size_t n = (size_t)mask->n_channels, length = (size_t)taps;
    double *h = malloc((n + 1) * length * sizeof *h), error_db = 0, worst_db = -INFINITY;
    char why[MESSAGE_CAP];
    bool good = h != NULL;
    for (size_t ch = 0; good && ch < n; ch++) {
        good = minphase_channel(mask->channel[ch], mask->n_frames, taps, h + n * length, h + ch * length, &error_db);
        worst_db = fmax(worst_db, error_db);
    }
    struct mask_out out = {s->mask.output, s->mask.format, rate, mask->n_channels, taps, h};
    if (!good)
        status = message_error("%s: no memory for its transform; use a shorter mask", path);
    else
        status = mask_write(&out, why, sizeof why) ? minphase_report(s, &out, worst_db) : message_error("%s", why);
    free(h);
    return status;
}

int design_minphase_command(int argc, char **argv)
{
    struct minphase_settings s = {0};
    return design_mask_run(&minphase_line, argc, argv, &s, minphase_make);
}
