/* file_convolution - the steps that `convolve` and `batch` share: open the output, decode frames from the input, encode
 * frames to the output (so does `design`), and report failures.
 *
 *   sound_in  -->  chunk: samples as libsndfile has them  -->  finite planar[n_channels][stride]   file_read
 *   planar    -->  gain  -->  dither  -->  chunk, peak and clipping seen  -->  sound_out    file_write
 *
 * A chunk stays in the second-level cache and is large enough to make few system calls.
 */
#ifndef FILE_CONVOLUTION_H
#define FILE_CONVOLUTION_H

#include "output_range.h"
#include "sound_in.h"
#include "sound_out.h"

/* Settings of an engine for files: no deadline, no fade, the block length that the engine prefers. */
void file_engine_config(hc_config *config, int rate, const char *backend, const char *method);

/* Writes the reason why the engine stopped to `why`; returns false. */
bool file_engine_failed(hc_engine *engine, char *why, size_t cap);

enum dither { DITHER_OFF, DITHER_TPDF }; /* the option --dither */

/* Opens the output of a convolution: `format` has the bits that the user gave; name and input give the rest. fd: a
 * descriptor for the output, which belongs to out; -1: the file at `path`. dither: applied if the format can have
 * dither. path must outlive out. false: why has the reason. */
bool file_open_output(struct sound_out *out, int fd, const char *path, int format, enum dither dither,
                      const struct sound_in *in, int n_channels, struct output_range range, char *why, size_t cap);

/* Reads up to n frames to planar[n_channels][stride]; fewer only at the end of the input. NaN and infinite samples
 * become 0; in->non_finite counts them. first: FILE_NEXT. If sound_in_can_read_at, it may be the first frame to read;
 * such calls may come in any order and on any thread. Returns how many; -1: why has the reason. */
enum { FILE_NEXT = -1 };
int64_t file_read(struct sound_in *in, int64_t first, float *planar, size_t stride, int64_t n, char *why, size_t cap);

struct file_writer {
    struct sound_out *out;
    float gain;
    struct sample_peak seen;  /* peak of all written frames */
    double encode_s, write_s; /* busy seconds */
};

/* Writes n frames of planar[n_channels][stride]. first: FILE_NEXT. If the output is mapped (sound_out_map), it may be
 * the first frame to write; such calls may come in any order and on any thread. false: why has the reason;
 * sample_peak_overflows(&writer->seen) if the sound is too loud. */
bool file_write(struct file_writer *writer, int64_t first, const float *planar, size_t stride, int64_t n, char *why,
                size_t cap);

/* Writes the error "the output at `path` is too loud" to `why`; returns false. */
bool file_too_loud(const char *path, char *why, size_t cap);

#endif
