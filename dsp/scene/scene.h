/* scene - the moving sources of an engine: applies requests at the edges of hops, and lets a backend play.
 *
 *   any thread       hc_steer -> the source's mailbox (dsp/base/mailbox.h); the last request stays
 *   engine thread    scene_play: at the edge of a hop mailbox -> mix of each level (steering_step) -> backend->play
 */
#ifndef HALOCONV_SCENE_H
#define HALOCONV_SCENE_H

#include "dsp/base/error.h"
#include "dsp/device/scene_backend.h"

struct scene;
struct rows;

struct scene_setup {
    const struct scene_backend *backend;
    int device;
    struct scene_plan plan;
    struct scene_shape shape;
};

/* [setup] */
int scene_open(const struct scene_setup *setup, struct scene **scene, struct reason *why);
/* NULL is allowed. [setup] */
void scene_close(struct scene *scene);

/* Applies the requests for the next block early, if the block begins with the next frame; its input need not be there.
 * Without this call scene_play applies them. [engine thread] */
void scene_prepare(struct scene *scene);
/* Adds n frames of the sources to the output, in `rows` or `buffer` (see backend.h). [engine thread] */
int scene_play(struct scene *scene, const struct rows *rows, struct io_buffer *buffer, int n, struct reason *why);
/* Does hc_steer. from_engine_thread: skips the mailbox; no other thread may steer the source then. [rt], any thread */
int scene_steer(struct scene *scene, int source, const hc_bank *bank, const int *entry, const float *weight, int n,
                bool from_engine_thread);
/* Waits until a device has no work left. false: the deadline passed. [engine thread] */
bool scene_await_all(struct scene *scene, int64_t until_us);
/* Clears the signals. The last requests stay and play without a fade. No block may be playing. [setup] */
int scene_reset(struct scene *scene, struct reason *why);

/* Does hc_bank_make. [setup] */
int scene_bank_make(struct scene *scene, const hc_bank_data *data, hc_bank **bank, struct reason *why);
/* Fills in the fields of *info about sources, and adds the sources' memory. [rt], any thread */
void scene_report(struct scene *scene, hc_info *info);

#endif
