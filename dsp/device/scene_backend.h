/* scene_backend - the interface between the moving sources of an engine and a device.
 *
 * One thread at a time uses a state: the engine thread. bank_make and bank_free may run in parallel, or while no
 * state exists: a bank belongs to a device, not to a state. A call without a tag is [setup]. A call that fails returns
 * a negative enum hc_error and writes a line to *why.
 */
#ifndef HALOCONV_SCENE_BACKEND_H
#define HALOCONV_SCENE_BACKEND_H

#include "dsp/base/error.h"
#include "scene_plan.h"

struct io_buffer;

struct scene_term {     /* a source plays the sum of its terms, each weight * (x * the entry's responses)             */
    hc_bank *bank;      /* see hc_bank.h                                                                              */
    int source, entry;
    float weight;
    float target;       /* the weight at the end of the fade (dsp/scene/scene.c)                                            */
};

struct scene_mix {      /* the terms of all sources, sorted by source                                                 */
    int n;
    const struct scene_term *terms;
};

struct scene_shape {
    int n_sources, n_out;
    int n_threads;      /* as in hc_config                                                                            */
    int buffer_stride;  /* frames of a channel in a buffer                                                            */
    int part;           /* hc_bank.impl[part] is the backend's bank                                                   */
};

struct scene_call {     /* n frames that lie in one block of the stream                                               */
    int64_t frame;      /* index of the first frame, counted from open or reset                                       */
    int n;
    /* A backend in place gets rows; others get a buffer: channel ch is at in + ch * buffer_stride + buffer_offset    */
    const float *const *in; /* [n_sources][n], finite                                                                 */
    float *const *out;  /* [n_out][n]; the sources are added to it. Outputs from `n_active` on are not touched        */
    struct io_buffer *buffer;
    int buffer_offset;
    int n_active;       /* outputs of the largest bank since open or reset                                           */
    int64_t until_us;   /* hybrid waits for its device until then, as in struct rows                                  */
    /* The head in this block: y = (1 - g) from + g to, g[i] = steer_gain(i, fade) from the block's first frame. All
     * calls of a block have the same mixes. is_still: both are equal. If the first mix of a block (from, or to if
     * is_still) has the address and the length of `to` of the block before, its terms are the same                   */
    struct scene_mix from, to;
    bool is_still;
    /* [level], from 1: the mix of the level from now on, if this is the first call of a block that begins at a multiple
     * of the level's hop; else NULL. Its terms stay valid until the level's next edge has been played                 */
    const struct scene_mix *tail[HC_MAX_STEER_LEVELS];
};

struct scene_backend {
    /* Cuts the responses into levels. NULL: scene_plan_make. [rt] */
    void (*plan_make)(struct scene_plan *plan, int rate, int block, int steer_fade, int bank_taps);
    int (*open)(const struct scene_plan *plan, const struct scene_shape *shape, int device, void **state,
                struct reason *why);
    void (*close)(void *state);
    /* *data is checked: taps are finite, sizes fit the plan. *bytes gets the memory of the bank. Hybrid makes bank[0]
     * for the head and bank[1] for the tail (hc_bank.impl). */
    int (*bank_make)(const struct scene_plan *plan, int device, const hc_bank_data *data, void **bank, uint64_t *bytes,
                     struct reason *why);
    void (*bank_free)(void *bank);
    void (*tail_bank_free)(void *bank); /* hybrid: frees bank[1] */
    /* Returns the bytes of a state. */
    double (*memory)(const struct scene_plan *plan, const struct scene_shape *shape);
    /* Starts the part of a call's work that needs no mixes, before requests are applied: a device then works beside
     * the engine thread. play with the same call follows. NULL: the backend has no such work. */
    int (*begin)(void *state, const struct scene_call *call, struct reason *why);
    /* Returns HC_OK, or HC_LATE if the output lacks hybrid's tail. [engine thread] */
    int (*play)(void *state, const struct scene_call *call, struct reason *why);
    /* As in backend.h. */
    bool (*await_all)(void *state, int64_t until_us);
    int (*reset)(void *state, struct reason *why);
};

extern const struct scene_backend scene_cpu;
extern const struct scene_backend scene_cuda; /* exists in the GPU module only */
extern const struct scene_backend scene_hybrid;     /* the head on "cpu", the tail on "cuda" */
extern const struct scene_backend scene_hybrid_cpu; /* the head on "cpu", the tail on a thread of the CPU */

#endif
