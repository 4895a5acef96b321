/* engine_state - the struct of an engine, for the files that implement the engine.
 *
 *   engine.c           open, close, process, reset; a live block from call to output
 *   closing.c          closes an engine whose device may hang
 *   mask_swap.c        which masks play, and their crossfade
 *   masks.c            makes and frees masks
 *   file_blocks.c      blocks of files
 *   parallel_copy.c    blocks of many channels, copied by several threads
 *   device_queue.c     blocks for a device, and the device thread
 *   backends.c         the list of backends, and the choice of one (dsp/backends)
 *   engine_plan.c      the plan, and the fields of hc_info that describe it
 *   scenes.c           steered sources (dsp/scene)
 */
#ifndef HALOCONV_ENGINE_STATE_H
#define HALOCONV_ENGINE_STATE_H

#include "config.h"
#include "dsp/base/samples.h"
#include "dsp/device/backend.h"
#include "dsp/device/device_queue.h"
#include "dsp/device/parallel_copy.h"
#include "mask_swap.h"

#include <pthread.h>

struct hc_engine {
    hc_config config;            /* resolved; wait_us is in microseconds, or -1: without bound */
    struct plan plan, tail_plan; /* plan.tail_plan points to tail_plan, or is NULL */
    struct plan_costs costs;     /* the costs by which the plan was chosen */
    const struct backend *backend;
    const struct samples *samples;
    void *state; /* the backend's state */
    struct mask_swap swap;
    struct scene *scene;                       /* the steered sources; NULL: none */
    bool has_device_tail;                      /* a device computes a tail, or the head of a resident engine */
    struct io_buffer buffers[CONFIG_MAX_QUEUE_DEPTH]; /* live in place: buffers[0].in has the input, made finite */
    int n_buffers;

    /* file_blocks.c */
    int queue_depth;                   /* max. blocks between hc_submit and hc_collect; 0: a live engine */
    bool async;                        /* hc_submit calls the backend's begin, hc_collect its end; else hc_submit
                                           convolves */
    int sizes[CONFIG_MAX_QUEUE_DEPTH]; /* [buffer]: frames of a submitted block */
    int64_t frames_submitted;          /* frames since open or reset, as n_submitted counts blocks */
    int64_t count_from, count_to;      /* the range of frames that hc_count_set set */
    uint64_t n_submitted, n_collected;
    atomic_uint_fast64_t clipped; /* samples in collected blocks; hc_collect's thread writes it and peak_bits */
    atomic_uint peak_bits;

    /* hc_process uses these fields if it posts blocks to a device: */
    struct device_queue *queue;    /* NULL: in place, or async */
    struct parallel_copy *copy;    /* threads that copy, too; NULL: hc_process copies alone       */
    struct io_buffer silence;      /* replaces skipped frames; device thread only */
    int buffer_of[DEVICE_QUEUE_MAX]; /* [block % DEVICE_QUEUE_MAX]: the buffer of a block in the queue */
    int buffer_last;               /* the buffer that was used last */

    pthread_mutex_t masks_lock; /* calls that make or free masks take turns */
    hc_mask *masks;
    int device_index;
    void (*then)(void *); /* engine_close calls it with then_data when the engine is freed; NULL: not set */
    void *then_data;
    char device[128];
    char error[256];                                       /* written before `loss` points to it */
    _Atomic(const char *) loss;                            /* why the device is lost; NULL: it is not */
    unsigned forks;                                        /* fork_count() of the process that opened the engine */
    atomic_int wait_us;                                    /* resolved, as config.wait_us */
    atomic_uint_fast64_t blocks, frames, late, non_finite, overflowed; /* as in hc_info */
};

/* Copies the caller's frames into a buffer and makes them finite; a live engine also limits them (SAMPLE_LIVE_MAX).
 * [rt] */
void engine_load(hc_engine *e, struct io_buffer *buffer, const float *const *in, int n);
/* Copies a buffer's output to the caller, and makes it finite. [rt] */
void engine_unload(hc_engine *e, const struct io_buffer *buffer, float *const *out, int n);
/* Plays n frames with the masks that mask_swap_begin returns: `rows` in place or, if `rows` is NULL, the buffer.
 * If the engine is async, the block is only begun. Returns HC_EDEVICE once the device is lost. [engine thread] */
int engine_play(hc_engine *e, struct io_buffer *buffer, const struct rows *rows, int n);
/* Marks the device as lost; the first reason stays. [rt], one thread */
void engine_fail(hc_engine *e, const char *why);
const char *engine_loss(const hc_engine *e); /* why the device is lost; NULL: it is not. [rt], any thread */
bool engine_is_lost(const hc_engine *e);     /* [rt], any thread */
/* Is this a child of fork() without the engine's device or thread? If so, marks the device as lost. [rt], any thread */
bool engine_is_left_behind(hc_engine *e);
/* Does the engine, including its tail, use no device and no device thread? [rt], any thread */
bool engine_is_on_cpu(const hc_engine *e);
/* Counts a block of n frames. [rt], one thread */
void engine_count(hc_engine *e, int n);
void engine_count_non_finite(hc_engine *e, size_t n); /* [rt] */

/* Makes the scene of an engine whose config has sources. [setup] */
int engine_scene_open(hc_engine *e, int device, struct reason *why);

/* Frees all masks, when the engine closes. [setup] */
void engine_masks_free(hc_engine *e);

/* ---- engine_plan.c ---- */

/* Makes the plan by the costs of a backend's device, and stores these costs. device -1: the costs of the device that
 * was measured last; no device is touched. Backend hybrid gets a *tail_plan, which plan->tail_plan points to, if the
 * responses are longer than the head. Returns whether the costs were measured on this machine. [setup] */
bool plan_make(const struct backend *backend, int device, const hc_config *config, struct plan *plan,
               struct plan *tail_plan, struct plan_costs *costs);

/* Fills the fields of *info that describe the plan. The other fields stay. */
void plan_report(const struct backend *backend, const struct plan *plan, const struct plan_costs *costs,
                 const struct plan_shape *shape, hc_info *info);

#endif
