/* bank - a bank while it is loaded: readers of files fill in a struct bank, and steps change it. */
#ifndef HALOCONV_BANK_H
#define HALOCONV_BANK_H

#include "dsp/base/error.h"
#include "dsp/haloconv_scenes.h"

#include <stdbool.h>
#include <stddef.h>

enum {
    BANK_MAX_ENTRIES = 65536,
    BANK_MAX_OUTPUTS = 1024,
    BANK_NOTES = 2048, /* bytes of bank.notes */
};

struct bank {
    int n_entries, n_out, n_taps;
    int rate;                   /* Hz; 0: unknown                                             */
    int file_rate;              /* Hz of the file, or of the first file                       */
    float *taps;                /* [n_entries][n_out][n_taps]                                 */
    float (*position)[3];       /* [n_entries]: x ahead, y left, z up, metres; NULL: none     */
    double *onsets;             /* [n_entries][n_out]: frames; NaN: silence; NULL: not found  */
    char notes[BANK_NOTES];     /* lines, each with its LF; the first names the kind of file  */
    bool sizes_only;            /* taps stays NULL                                            */
};

/* Frees the arrays. */
void bank_free(struct bank *bank);

/* Allocates the taps, filled with zeros. HC_ENOMEM: no memory, or bytes_beside more bytes would pass the memory limit;
 * HC_EINVAL: too many entries, outputs or taps. path: for the message. */
int bank_make(struct bank *bank, size_t n_entries, size_t n_out, size_t n_taps, double bytes_beside, const char *path,
              struct reason *why);

/* Adds a line to the notes. */
void bank_note(struct bank *bank, const char *format, ...) __attribute__((format(printf, 2, 3)));

static inline float *bank_response(const struct bank *bank, size_t entry, size_t out)
{
    return bank->taps + (entry * (size_t)bank->n_out + out) * (size_t)bank->n_taps;
}

/* Converts azimuth (counter-clockwise) and elevation in degrees, and distance, to x, y, z. */
void position_from_angles(double azimuth, double elevation, double distance, double position[3]);

/* ---- readers: they fill in a struct bank of zeros; its rate becomes the file's ---- */

int sofa_bank_read(struct bank *bank, const char *path, struct reason *why);
/* Is this .csv a bank? Yes if its first line has a column "file"; any other .csv is a mask, a text of coefficients. */
bool csv_is_bank(const char *path);
int csv_bank_read(struct bank *bank, const char *path, int rate, struct reason *why);
int folder_bank_read(struct bank *bank, const char *path, int rate, struct reason *why);
int sound_bank_read(struct bank *bank, const char *path, int rate, struct reason *why);

/* ---- steps ---- */

/* Delays each response by delays[n_entries * n_out] frames, 0 or more; a windowed sinc makes fractions. */
int bank_delay(struct bank *bank, const double *delays, const char *path, struct reason *why);

/* Fails with HC_EINVAL if delays or interpolation have made a tap beyond the range of a float. */
int bank_check_finite(const struct bank *bank, const char *path, struct reason *why);

/* Resamples all responses. */
int bank_resample(struct bank *bank, int rate, const char *path, struct reason *why);

/* Computes the largest gain for a sine (linear), exact to 0.001 dB. Fails with HC_ENOMEM. */
int bank_gain(const struct bank *bank, double *gain, const char *path, struct reason *why);

/* Finds the frame at which each response begins. */
int bank_onsets(struct bank *bank, const char *path, struct reason *why);

/* Returns the largest difference in seconds between the onsets of n entries at one output; entries NULL: all. */
double bank_onset_spread(const struct bank *bank, const int *entries, int n);

/* The largest onset difference, in seconds, of entries that are mixed. An equal mix of two then has an error of 1.1 dB
 * RMS between 1 and 12 kHz (2.4 dB at 12 kHz), because the gain of a mix with onset difference t is |cos(pi f t)|. */
static const double BANK_MIX_SPREAD_S = 20e-6;

/* Adds the entries of a grid of directions, `degrees` apart, and their onsets. Fails with HC_EINVAL if the responses would
 * then occupy more than max_bytes. */
int bank_grid(struct bank *bank, double degrees, double max_bytes, const char *path, struct reason *why);

#endif
