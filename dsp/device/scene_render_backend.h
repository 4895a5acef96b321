/* scene_render_backend - the interface between hc_render (scene_render.c) and a device. A call that fails returns a negative enum
 * hc_error and writes a line to *why. All calls are [setup]; one thread at a time uses a state.
 *
 * The stream is cut into windows of `step` frames. The output of window w of a job is
 *   (1 - g) sum_from + g sum_to,  g[i] = (i + 1) / step,
 * where a sum adds up the scene_render_terms of the window: weight * (x of the term's source * responses of its entry).
 */
#ifndef HALOCONV_RENDER_BACKEND_H
#define HALOCONV_RENDER_BACKEND_H

#include "dsp/base/error.h"
#include "dsp/haloconv_scenes.h"

struct scene_render_term {
    int source;        /* index among the job's sources */
    int entry;
    float weight;
};

struct scene_render_window {
    int n_from, n_to;  /* n_from = -1: `from` is the same as `to`, and nothing fades */
    const struct scene_render_term *from, *to;
};

struct scene_render_work {   /* a job of hc_render with its steps resolved */
    const hc_render_job *job;
    int64_t n_windows; /* window 0 begins at job->from; the last window may be cut: job->n_out_frames */
    const struct scene_render_window *windows; /* [n_windows] */
};

struct scene_render_setup {
    int step, n_threads, device;
    const hc_bank_data *data; /* checked; valid during open only */
};

struct scene_render_backend {
    const char *name;  /* "cpu", "cuda" */
    int (*open)(const struct scene_render_setup *setup, void **state, struct reason *why);
    int (*run)(void *state, const struct scene_render_work *works, int n_works, struct reason *why);
    void (*close)(void *state);
};

extern const struct scene_render_backend scene_render_cpu;
extern const struct scene_render_backend scene_render_cuda; /* exists in the GPU module only */

#endif
