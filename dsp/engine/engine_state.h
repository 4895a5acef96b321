/* engine_state - an engine, as the files of the engine see it.
 *
 *   engine.c         open, close, process, reset; the way of a live block
 *   mask_swap.c      which masks play
 *   masks.c          masks made and freed
 *   files.c          blocks of files
 *   choose.c         which backend
 *   plan_report.c    the plan, and what hc_info says of it
 */
#ifndef HALOCONV_ENGINE_STATE_H
#define HALOCONV_ENGINE_STATE_H

#include "backend.h"
#include "config.h"
#include "device_queue.h"
#include "dsp/cpu/simd.h"
#include "ferry.h"
#include "mask_swap.h"

#include <pthread.h>

enum { MOST_FLIGHT = CONFIG_MOST_FLIGHT };

struct hc_engine {
    hc_config config;            /* wait_us is resolved: -1 = without bound, else microseconds */
    struct plan plan, tail_plan; /* tail_plan: plan.tail points to it */
    struct plan_costs costs;     /* that the plan was made by */
    const struct backend *backend;
    const struct simd *simd;
    void *state;
    struct mask_swap swap;
    struct slot slots[MOST_FLIGHT]; /* in place and live: the first one's `in` is the input made finite */
    int n_slots;

    /* files.c */
    int flight;             /* blocks that hc_submit may start; 0 for live blocks */
    bool halves;            /* the backend's begin and end do it; else hc_submit convolves at once */
    int sizes[MOST_FLIGHT]; /* frames of the blocks under way, by slot */
    int64_t frames_submitted;     /* since open or reset, as are n_submitted and n_collected */
    int64_t count_from, count_to; /* hc_count_set */
    uint64_t n_submitted, n_collected;
    atomic_uint_fast64_t clipped; /* of blocks collected, as is peak_bits; written by hc_collect's thread only */
    atomic_uint peak_bits;

    struct device_queue *queue; /* NULL: in place, or the backend's begin and end do it */
    struct slot silence;        /* for frames lost; device thread only */
    struct ferry *ferry;        /* NULL: hc_process copies by itself; for waits without bound alone */
    int slot_of[DEVICE_QUEUE_MOST]; /* of the blocks in flight, by block */
    int slot_last;

    pthread_mutex_t setup;
    hc_mask *masks;
    char device[128];
    char error[256]; /* written before `lost` is set */
    atomic_bool lost;
    atomic_int wait_us; /* resolved */
    atomic_uint_fast64_t blocks, frames, late, non_finite;
};

/* The caller's frames into a slot, finite, and a slot's output to the caller. */
void engine_load(hc_engine *e, struct slot *slot, const float *const *in, int n);
void engine_unload(const hc_engine *e, const struct slot *slot, float *const *out, int n);
void engine_silence(const hc_engine *e, float *const *out, int n);
/* Plays a slot with the masks that are its turn; with the backend's begin it is under way then. An error: the device is
 * lost, now or before. */
int engine_play(hc_engine *e, struct slot *slot, int n);
void engine_lose(hc_engine *e, const char *why);
bool engine_is_lost(const hc_engine *e);
void engine_count(hc_engine *e, int n);              /* a block of n frames */
void engine_count_non_finite(hc_engine *e, size_t n);

void engine_masks_free(hc_engine *e); /* at the end: all of them */

#endif
