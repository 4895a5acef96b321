/* level_match - an output whose gain is known only at its end. Until then its floats wait in a temporary file.
 *
 *   convolution  -->  level_match_keep: measured, then [n_frames][n_channels] floats in $TMPDIR
 *   at the end:       level_match_write: times the gain, to the output
 */
#ifndef LEVEL_MATCH_H
#define LEVEL_MATCH_H

#include "file_convolution.h"

#include <stdint.h>

/* ---- peak and power of a signal in blocks ----------------------------------------------------- */

/* A value of the option --level, or of the column `level` in the list of a batch. */
enum level { LEVEL_NONE, LEVEL_PEAK, LEVEL_RMS };

struct level_meter { /* start with zeros */
    double peak, sum; /* sum: sum of the squares of n samples */
    int64_t n;
};

/* Adds n samples. Samples that are not finite count as 0, as in an engine. */
void level_meter_add(struct level_meter *meter, const float *x, int64_t n);

/* The gain that gives the output the level of the input; 1 if either is silent. */
double level_meter_gain(const struct level_meter *in, const struct level_meter *out, enum level level);

/* ---- an output that waits for its gain -------------------------------------------------------- */

struct level_match {
    struct level_meter in, out; /* in: the caller adds the input */
    int fd;                     /* descriptor of the temporary file */
    float *chunk, *planar;      /* room for samples; planar lies in the memory of chunk */
};

/* Opens the temporary file. false: why has the reason. */
bool level_match_open(struct level_match *match, char *why, size_t cap);
void level_match_close(struct level_match *match);

/* Measures and keeps n frames of planar[n_channels][stride]. path: path of the output, for an error. false: why has the
 * reason. */
bool level_match_keep(struct level_match *match, const float *planar, size_t stride, int n_channels, int64_t n,
                      const char *path, char *why, size_t cap);

/* Writes all kept frames, with the gain of the writer. false: why has the reason. */
bool level_match_write(struct level_match *match, struct file_writer *writer, char *why, size_t cap);

#endif
