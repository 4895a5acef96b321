/* backend - the interface between the engine and a device: a struct of function pointers.
 *
 * The engine contains no CUDA. A backend contains no mask requests and, except hybrid and the resident head, no queue
 * and no deadline. dsp/backends/backends.h has the list of all backends.
 *
 *   open -> state     mask_make -> mask     play or process, block by block, with a fade from mask to mask     close
 *
 * The engine thread is the thread that plays blocks: the audio thread for a backend that runs in place, else the thread
 * of the device queue. One thread at a time uses a state, with three exceptions: any thread may call wait_set; any
 * thread may call mode; mask_make and mask_free may run in parallel with the engine thread, not with each other. A call
 * without a tag is [setup].
 *
 * A call that fails returns a negative enum hc_error and writes a line to `why`.
 */
#ifndef HALOCONV_BACKEND_H
#define HALOCONV_BACKEND_H

#include "dsp/haloconv_files.h"
#include "dsp/base/error.h"
#include "noise.h"
#include "plan.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- a mask's data ----------------------------------------------------------------------------------------------- */

struct cell { int in, out, response; }; /* one entry of the matrix */

struct matrix {              /* a mask: delays and gains are applied, and the routes of each pair are added         */
    int n_responses;
    float **taps;            /* [n_responses][n_taps[r]]                                                            */
    int *n_taps;             /* [n_responses]; 1 to plan.max_taps                                                   */
    int n_cells;
    struct cell *cells;      /* sorted by out, then in; one at most for a pair; cells may share a response          */
};

/* ---- a block's data ---------------------------------------------------------------------------------------------- */

struct rows {                /* the audio of one call of play, with a pointer for each channel                      */
    const float *const *in;  /* [n_in][n], finite                                                                   */
    float *const *out;       /* [n_out][n]; overlaps no row of `in`                                                 */
    int64_t until_us;        /* hybrid and the resident head wait until this CLOCK_MONOTONIC time, or AWAIT_FOREVER */
};

struct io_buffer {           /* the audio of one call of process or begin, in the backend's memory (io_buffer_make) */
    float *in;               /* [n_in][block], finite; channel ch starts at in + ch * block                         */
    float *out;              /* [n_out][block]                                                                      */
    struct rows rows;        /* pointers to the channels; set only if the backend has no io_buffer_make             */
    struct parallel_copy *copy; /* chunks of `in` arrive, and chunks of `out` are sent, one by one. NULL: `in` is
                                complete                                                                            */
    struct io_counts *seen;  /* the block's counts, valid after `end`; the backend's. NULL: samples are planar      */
    int count_from, count_to; /* frames of the block in which begin counts clipped samples and the peak             */
};

struct io_counts {           /* counts of a block of samples that are not planar                                    */
    unsigned clipped;        /* output samples beyond full scale                                                    */
    unsigned peak_bits;      /* the output's largest magnitude, as the bits of a float; these sort as floats do     */
    unsigned non_finite;     /* NaN and Inf input samples, replaced by 0                                            */
    unsigned unused;
};

/* Returns the bytes of a sample; samples: an enum hc_samples. */
static inline size_t samples_bytes(int samples)
{
    const int kind = samples & ~HC_BIG_ENDIAN;
    return kind == HC_S16 ? 2 : kind == HC_S24 ? 3 : 4;
}

/* The engine thread's side of a parallel copy (parallel_copy.h). Chunk i of N channels is channels [N i / COPY_CHUNKS,
 * N (i + 1) / COPY_CHUNKS). */
enum { COPY_CHUNKS = 32 };
/* Waits until chunk `from` of the input is in the buffer. Returns the end of the complete chunks from there on. */
int parallel_copy_loaded(struct parallel_copy *copy, int from);
/* Reports to the copy that outputs [0, n_channels) are in the buffer. */
void parallel_copy_done(struct parallel_copy *copy, int n_channels);

/* ---- crossfades -------------------------------------------------------------------------------------------------- */

struct fade {                /* what a call plays: `to`, or while pos < len a crossfade from `from` to `to`         */
    void *from, *to;         /* masks of this backend; NULL is silence                                              */
    int pos, len;            /* pos: frames of the fade before this call; len: its length, 0: no fade               */
    const struct io_buffer *apart; /* if set: do not crossfade, but write the output of `from` to apart->out */
};

/* The fade curve of masks: the gain of `to` at frame pos of len, a smoothstep. The gain of `from` is 1 minus this gain:
 * both signals come from the same input, so their amplitudes add. */
#ifdef __CUDACC__
__host__ __device__
#endif
static inline float fade_gain(int pos, int len)
{
    if (pos >= len) return 1.0f;
    float t = (float)(pos + 1) / (float)(len + 1);
    return t * t * (3.0f - 2.0f * t);
}

/* The fade curve of moving sources, a line: two fades in sequence continue it without a bend. */
#ifdef __CUDACC__
__host__ __device__
#endif
static inline float steer_gain(int pos, int len)
{
    return pos + 1 < len ? (float)(pos + 1) / (float)len : 1.0f;
}

/* ---- the interface ----------------------------------------------------------------------------------------------- */

enum {
    MAX_PREPARED = 2, /* max. masks of a state that are prepared or play         */
    MAX_RETIRED = 4,  /* max. masks that have faded out and are not released  */
};

struct scene_backend;
struct scene_render_backend;
struct tensor_backend;

struct backend {
    const char *name;               /* "cpu", "cuda", "hybrid", "resident"                                          */
    const struct scene_backend *scene; /* plays moving sources (dsp/device/scene_backend.h); NULL: it cannot          */
    const struct scene_render_backend *render; /* convolves whole signals (dsp/device/scene_render_backend.h); NULL: it cannot    */
    const struct tensor_backend *tensors; /* convolves tensors (dsp/device/tensor_backend.h); NULL: it cannot         */
    bool in_place;                  /* play is [rt] and runs on the audio thread, without a queue                   */
    bool in_chunks;                 /* process uses buffer->copy                                                    */
    bool raw;                       /* buffers of `begin` have the formats config.in_samples and out_samples        */
    const struct plan_costs *costs; /* built-in costs; costs_find (dsp/backends/costs.h) has this machine's costs   */
    const char *choice;             /* the name in hc_config.backend; NULL: `name`                                  */
    const struct backend *files;    /* the backend that plays files (block 0); NULL: this one                       */
    const char *head, *tail;        /* names of the two backends that hybrid consists of; else NULL                 */
    const struct backend *resident; /* plays heads on this device in place: backend_resident consists of it and this
                                       one; NULL: it cannot                                                         */

    /* Describes device i. HC_EINVAL: there is no device i. */
    int (*describe)(int i, char *text, size_t cap);
    /* Measures a device and replaces the measurable fields of *costs, except call_ns, which dsp/engine/measure_costs.c
     * measures. A backend that runs in place needs tens of milliseconds. NULL: it cannot measure. */
    int (*measure)(int device, struct plan_costs *costs, struct reason *why);
    /* Sets the limits of a device in *costs, which costs_find does not read from its file. NULL: all devices have those
     * of `costs`. */
    void (*limit)(int device, struct plan_costs *costs);
    /* Makes a state for calls of up to plan->block frames; config->block is 0 for files. The plan outlives the
     * state. After an error the caller closes *state, too, unless it is NULL: it may have to wait for the device. */
    int (*open)(const hc_config *config, const struct plan *plan, int device, void **state, struct reason *why);
    void (*close)(void *state);
    /* Makes a buffer in the backend's own memory, filled with 0. NULL: the backend accepts any host memory. */
    int (*io_buffer_make)(void *state, struct io_buffer *buffer, struct reason *why);
    void (*io_buffer_free)(void *state, struct io_buffer *buffer);
    int (*mask_make)(void *state, const struct matrix *matrix, void **mask, struct reason *why);
    void (*mask_free)(void *state, void *mask);
    /* Makes a mask of noise; the matrix has no taps. NULL: the engine makes the taps and calls mask_make. */
    int (*mask_make_noise)(void *state, const struct matrix *matrix, const struct noise *noise, void **mask,
                           struct reason *why);

    /* A mask cannot play its full tail before its tail levels have run for some time:
     *
     *   mask_prepare --> preparing --> mask_ready --> fade, playing, fade --> mask_retire --> retired --> mask_released
     *
     * mask_prepare: computes this mask's tail levels from now on, in parallel with those of the mask that plays.
     * mask_ready: may the fade to this mask begin with the next block? Yes at the latest 2S frames after mask_prepare,
     * where S is the plan's largest partition. Before the first block since open or reset a mask may play at once.
     * mask_retire: the mask has faded out. mask_released: may the mask be freed, because no thread works on it any
     * more? NULL: yes, always. After a reset every retired mask may be freed.
     *
     * At most MAX_PREPARED masks are prepared or playing at once; reset keeps them. NULL masks (silence) are never
     * passed. All four are NULL for a backend that needs no time. [engine thread] */
    void (*mask_prepare)(void *state, void *mask);
    bool (*mask_ready)(void *state, const void *mask);
    void (*mask_retire)(void *state, void *mask);
    bool (*mask_released)(void *state, const void *mask);
    /* Returns the usual number of frames from mask_prepare to mask_ready. NULL: 2S, the maximum. */
    int (*swap_frames)(const struct plan *plan, const struct plan_shape *shape);

    /* Appends n frames (1 to plan.block) to the input history and fills the output. Returns when the output is
     * complete; work for later blocks may go on in the background. A backend has play if in_place, with rows anywhere
     * in memory, else process. play returns HC_LATE if the output lacks hybrid's tail, or is silence
     * because a resident head is late. [engine thread] */
    int (*play)(void *state, const struct rows *rows, int n, const struct fade *fade, struct reason *why);
    int (*process)(void *state, struct io_buffer *buffer, int n, const struct fade *fade, struct reason *why);
    /* Starts the work for later blocks that process did not start. The engine calls it when the caller has the output,
     * before the next call of process. NULL: process starts all work. [engine thread] */
    void (*process_behind)(void *state);
    /* waits: from now on calls wait without a deadline, and mask_ready must not depend on the timing of threads. open
     * sets the initial state from the config's wait_us. NULL: the backend never waits. [rt], any thread */
    void (*wait_set)(void *state, bool waits);
    /* Says how the state works now, for hc_info.device: "resident". NULL: nothing to say. [rt], any thread */
    const char *(*mode)(const void *state);
    /* Waits until a device has no work left. false: the deadline passed. NULL: the state has no thread for a device.
     * [engine thread] */
    bool (*await_all)(void *state, int64_t until_us);
    /* Forgets the input history, as if just opened; the masks stay. No block may be playing. */
    int (*reset)(void *state, struct reason *why);
    /* A backend for files on a device has begin and end instead of process: begin returns at once, end waits for the
     * oldest block. Up to config.queue_depth blocks, each with its own buffer, may have begun. Other backends: NULL. */
    int (*begin)(void *state, struct io_buffer *buffer, int n, const struct fade *fade, struct reason *why);
    int (*end)(void *state, struct reason *why);
};

extern const struct backend backend_cpu;        /* plays live, in place */
extern const struct backend backend_cpu_files;  /* plays files, with large transforms on all processors */
extern const struct backend backend_cuda;       /* exists in the GPU module only (gpu_module.h) */
extern const struct backend backend_hybrid;     /* the head on "cpu", the tail on "cuda" */
extern const struct backend backend_hybrid_cpu; /* the head on "cpu", the tail on a thread of the CPU */
extern const struct backend backend_resident;   /* head and tail on "cuda", the head by a resident kernel */

/* Makes a buffer: in the backend's own memory, else in the host's. All frames are 0. */
int io_buffer_make(const struct backend *backend, void *state, int n_in, int n_out, int block, struct io_buffer *buffer,
                   struct reason *why);
/* Frees a buffer. A struct that is all 0 is allowed. */
void io_buffer_free(const struct backend *backend, void *state, struct io_buffer *buffer);
/* Plays a buffer with play or process, whichever the backend has. [engine thread] */
int io_buffer_play(const struct backend *backend, void *state, struct io_buffer *buffer, int n, const struct fade *fade,
                   struct reason *why);

/* ---- the rows of a call's outputs, and a second set of rows for the mask that fades out ---- */

/* Allocates rows and their memory: [n_out][block]. NULL: no memory. [setup] */
float **outputs_open(int n_out, int block);
void outputs_close(float **rows);

/* Sets frames [at, at + n) of all rows to 0. [rt] */
void outputs_silence(float *const *rows, int n_out, int at, int n);
/* Crossfades in place from `from`, the output of the mask that fades out, to rows[n_out][n]. [rt] */
void outputs_crossfade(float *const *rows, float *const *from, int n_out, int n, const struct fade *fade);

#ifdef __cplusplus
}
#endif
#endif
