/* calibration - the response of a microphone over frequency, which a measured response is divided by. */
#ifndef CALIBRATION_H
#define CALIBRATION_H

#include "dsp/signal/frequency_curve.h"
#include "dsp/signal/transform.h"

#include <jansson.h>

/* A row that several commands have; to is OPTION_TO(...). */
#define CALIBRATION_OPTION(to)                                                                                         \
    {"calibration", 0, "FILE",                                                                                         \
     "Divide by the microphone's response: a text with a frequency in Hz, a gain in dB and perhaps a phase in "        \
     "degrees on each line, as the maker or REW writes [none]", option_text, to}

struct calibration {
    const char *path; /* path of the file, as the user gave it; NULL: no file */
    struct frequency_curve curve;
};

/* Reads a file as UMIK, Dayton, REW and others write it (frequency_curve.h), and prints a line about it.
 * path NULL: no calibration. false: why has the reason, and nothing has to be freed. */
bool calibration_read(struct calibration *calibration, const char *path, char *why, size_t cap);
void calibration_free(struct calibration *calibration);

/* Prints a line if the file covers less than a band in Hz. */
void calibration_check_band(const struct calibration *calibration, double low_hz, double high_hz);

/* The inverse of the microphone's response, in bins[size / 2 + 1]: with the phase of the file, or else with minimum
 * phase, because microphones are nearly minimum-phase. Beyond the file's ends the response is as at its ends. */
void calibration_invert(const struct calibration *calibration, const struct transform *transform, double rate,
                        double complex *bins);

/* Returns an object that the caller owns; null without a calibration. */
json_t *calibration_json(const struct calibration *calibration);

#endif
