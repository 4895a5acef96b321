/* configuration_write - writes a mask with routes as a configuration in the format of jconvolver.
 *
 *   hall.conf      a line for each route
 *   hall-1.wav     the responses, a channel each, all of one length; hall-2.wav: those of another length, ...
 *
 * A response that is a whole channel of a sound file at the same rate is not written: the line names that file.
 */
#ifndef CONFIGURATION_WRITE_H
#define CONFIGURATION_WRITE_H

#include "dsp/haloconv_masks.h"
#include "host/files/files_read.h"

#include <stdbool.h>

struct written_file {
    char *path;
    int n_channels, n_frames;
};

struct configuration_out {
    const char *path;            /* ends with .conf                                      */
    const char *source;          /* file from which the mask was read                    */
    const hc_responses *mask;    /* with routes                                          */
    struct files_read *read;     /* files that must not be overwritten                   */
    struct written_file *files;  /* [n_files]: sound files that configuration_write has written */
    int n_files;
};

/* Writes the configuration and its sound files. false: why has the reason. Free the list of files in both cases. */
bool configuration_write(struct configuration_out *out, char *why, size_t cap);
void configuration_write_free(struct configuration_out *out);

#endif
