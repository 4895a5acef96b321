/* scene_render_windows - checks a job of hc_render and resolves its steps into the terms before and after each window's fade.
 *
 *   steps     frame ->   |  a        b     |          c |
 *   edges     |          |          |          |          |          |
 *   to        silence     a          b          b          c          c       the last step at or before the edge
 *   fade      -           0 to a     a to b     -          b to c     -
 */
#ifndef HALOCONV_RENDER_WINDOWS_H
#define HALOCONV_RENDER_WINDOWS_H

#include "dsp/base/error.h"
#include "dsp/device/scene_render_backend.h"

struct scene_render_bank {
    int n_entries, n_out;
};

struct scene_render_windows {
    int64_t n_windows;
    struct scene_render_window *windows; /* [n_windows] */
    struct scene_render_term *terms;     /* the terms of all lists; one list may belong to many windows */
};

/* Error texts name job_index. The caller may call scene_render_windows_free after a failure, too. [setup] */
int scene_render_windows_make(struct scene_render_windows *windows, int job_index, const hc_render_job *job, int step,
                        const struct scene_render_bank *bank, struct reason *why);
void scene_render_windows_free(struct scene_render_windows *windows);

#endif
