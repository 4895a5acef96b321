/* moving - convolves the channels of a file as moving sources, block by block, for `convolve`. */
#ifndef MOVING_H
#define MOVING_H

#include "host/scene/scene_file_options.h"
#include "host/scene/scene_file_stream.h"
#include "pipeline.h"

struct scene_file {
    hc_bank_data data;
    struct scene_file_stream stream;
    hc_renderer *renderer;
    char device[HC_DEVICE_CAP]; /* device of the renderer  */
    int64_t n_frames; /* input; below 0: unknown */
};

/* Loads the bank and the path. seed: for a random path. n_frames: length of the input; below 0: unknown. *moving is all
 * zeros before. false: why has the reason. */
bool scene_file_load(struct scene_file *moving, const struct scene_file_settings *settings, uint64_t seed, const char *bank,
                 int rate, int n_sources, int64_t n_frames, char *why, size_t cap);

/* Prepares the bank on a device. false: why has the reason. */
bool scene_file_open(struct scene_file *moving, const char *backend, char *why, size_t cap);

/* Convolves the whole input. false: pipeline->why has the reason. */
bool scene_file_run(struct scene_file *moving, struct pipeline *pipeline, struct progress *progress);

void scene_file_close(struct scene_file *moving);

#endif
