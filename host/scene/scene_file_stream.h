/* scene_file_stream - the sources of one sound on their paths, block by block: each block becomes a job of hc_render.
 *
 *   a source   [history: taps + 2 steps][block]     the caller writes the block, the stream moves it into the history
 */
#ifndef MOVING_STREAM_H
#define MOVING_STREAM_H

#include "path.h"
#include "dsp/haloconv_scenes.h"

/* ---- the steps of a path ---------------------------------------------------------------------- */

/* Follows a path over a bank: at each edge of a step, the entries around the sources, or the nearest ones. */

struct path_options {
    int step;           /* frames between two edges, as in hc_render_config                       */
    int mix;            /* HC_MIX_NONE: plays the nearest entry, not those around a position       */
    double reference_m; /* the gain is reference_m / distance, at most 10; 0: no gain by distance  */
    double gain;        /* linear gain of every source                                             */
};

struct path_steps {
    const struct path *path;
    const hc_bank_data *bank;
    struct path_options options;
    struct path_follower *sources; /* [n_sources] */
    hc_step *steps;     /* [n_steps], for hc_render_job                                            */
    int n_steps;
    size_t capacity;
};

/* ---- the stream ------------------------------------------------------------------------------- */

struct scene_file_stream {
    struct path path;
    struct path_steps steps;
    int n_sources, block;
    size_t history, stride; /* frames; stride: frames from a source to the next in `frames` */
    float *frames;          /* [n_sources][stride]                     */
    const float **ins;      /* [n_sources]                             */
    int64_t n_done;         /* frames completed                        */
};

/* Moves the path into the stream; *path is empty afterwards. The block is a multiple of the step. n_frames: length of
 * the longest block that the caller needs, or INT64_MAX. name: name of the bank, for an error. *stream is all zeros
 * before. false: why has the reason; close the stream. */
bool scene_file_stream_open(struct scene_file_stream *stream, struct path *path, const hc_bank_data *bank,
                        const struct path_options *options, int64_t n_frames, const char *name, char *why,
                        size_t cap);
void scene_file_stream_close(struct scene_file_stream *stream);

/* Returns the next block of a source, for `block` frames of input. */
static inline float *scene_file_stream_block(struct scene_file_stream *stream, int source)
{
    return stream->frames + (size_t)source * stream->stride + stream->history;
}

/* Fills in a job for the next n frames of the outputs; n is `block` except at the end. n_in: frames in the block;
 * the frames after them are silent. *job is valid until scene_file_stream_next. false: no memory. */
bool scene_file_stream_job(struct scene_file_stream *stream, int n_in, int n, float *const *out, hc_render_job *job);

/* Goes on to the next block. n_in and n: as for scene_file_stream_job. */
void scene_file_stream_next(struct scene_file_stream *stream, int n_in, int n);

/* Goes back to the start. */
void scene_file_stream_rewind(struct scene_file_stream *stream);

#endif
