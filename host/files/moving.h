/* moving - convolves the channels of a file as moving sources, block by block, for `convolve`.
 *
 *   [history: taps + 2 steps][block]  -->  hc_render of the block  -->  output
 */
#ifndef MOVING_H
#define MOVING_H

#include "host/moving/moving_bank.h"
#include "host/moving/path_steps.h"
#include "pipeline.h"

struct moving_settings {
    const char *path;    /* a CSV file, or random:...; NULL: the mask does not move */
    uint64_t seed;       /* of a random path                                        */
    bool holds;
    struct moving_bank_options bank;
    struct path_options path_options;
};

struct moving {
    hc_bank_data data;
    struct path path;
    struct path_steps steps;
    hc_renderer *renderer;
    int n_sources, block;
    int64_t n_frames;       /* of the input; below 0: unknown           */
    size_t history, stride; /* frames; stride: of a channel of `frames` */
    float *frames;          /* [n_sources][stride]                      */
    const float **ins;      /* [n_sources]                              */
    int64_t n_done;         /* frames                                   */
    uint64_t non_finite;    /* samples of the input                     */
};

/* Loads the bank and the path. n_frames: of the input; below 0: unknown. *moving is all zeros before. false: why has the
 * reason. */
bool moving_load(struct moving *moving, const struct moving_settings *settings, const char *bank, int rate,
                 int n_sources, int64_t n_frames, char *why, size_t cap);

/* Prepares the bank on a device. false: why has the reason. */
bool moving_open(struct moving *moving, const char *backend, char *why, size_t cap);

/* Convolves the whole input. false: pipeline->why has the reason. */
bool moving_run(struct moving *moving, struct pipeline *pipeline, struct progress *progress);

void moving_close(struct moving *moving);

#endif
