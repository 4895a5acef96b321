/* backend - what the engine asks of a device, and nothing more. The engine knows no CUDA; a backend knows no queue, no
 * deadline and no mailbox. backends.h has the list of those that there are.
 *
 * A state is driven by one thread at a time (the audio thread for a backend that keeps the [rt] promise itself, the
 * engine's worker for one that does not), except mask_make and mask_free, which run beside process and take turns.
 * Errors: a negative enum hc_error and a line in (why, cap).
 */
#ifndef HALOCONV_BACKEND_H
#define HALOCONV_BACKEND_H

#include "dsp/haloconv_files.h"
#include "noise.h"
#include "plan.h"

#ifdef __cplusplus
extern "C" {
#endif

struct cell { int in, out, response; }; /* one entry of the matrix */

struct matrix {              /* a mask's routes made plain: delays and gains applied, routes on one pair summed     */
    int n_responses;
    float **taps;            /* [n_responses][n_taps[r]]                                                            */
    int *n_taps;             /* 1 to plan.max_taps                                                                  */
    int n_cells;
    struct cell *cells;      /* sorted by out, then in; at most one a pair; cells may share a response              */
};

struct ferry; /* ferry.h */

struct slot_seen {           /* what a device saw in a block of samples that are not planar                         */
    unsigned clipped, peak_bits, non_finite, unused; /* peak: the bits of the largest magnitude; they sort as floats do */
};

static inline size_t samples_bytes(int samples)     /* of one of enum hc_samples                                    */
{
    const int kind = samples & ~HC_BIG_ENDIAN;
    return kind == HC_S16 ? 2 : kind == HC_S24 ? 3 : 4;
}

struct rows {                /* one call's audio, a pointer a channel                                               */
    const float *const *in;  /* [n_in][n], finite                                                                   */
    float *const *out;       /* [n_out][n]; overlaps no row of `in`                                                 */
    int64_t until_us;        /* how long a backend made of two may wait for its device (await.h)                    */
};

struct slot {                /* one call's audio, in memory that a device likes (pinned for a GPU)                  */
    float *in;               /* [n_in][block], finite; channel ch starts at in + ch * block                         */
    float *out;              /* [n_out][block]                                                                      */
    struct rows rows;        /* of both, for a backend that has no slot_make                                        */
    struct ferry *ferry;     /* NULL: `in` is all there. Else it comes, and `out` is awaited, in parts (in_parts)    */
    struct slot_seen *seen;  /* of begin and end, where config.in_samples or out_samples is not planar; the backend's  */
    int count_from, count_to; /* frames of the block in which begin looks for clipping and peak                        */
};

/* What the driver asks and tells of a block that goes in parts: part i of FERRY_PARTS is channels [N i / FERRY_PARTS,
 * N (i + 1) / FERRY_PARTS) of N. */
enum { FERRY_PARTS = 32 };
/* Waits until part `from` of the input is in the slot; the end of the parts that are, one after another. */
int ferry_loaded(struct ferry *ferry, int from);
/* Outputs [0, n_channels) are in the slot. */
void ferry_landed(struct ferry *ferry, int n_channels);

struct fade {                /* what to play: `to`, or while pos < len a crossfade from `from` to `to`              */
    void *from, *to;         /* masks of this backend; NULL is silence                                              */
    int pos, len;            /* frames of the fade done before this call, and in all; len = 0: no fade              */
    const struct slot *apart; /* if set, skip the crossfade: the output of `from` goes to this slot's `out`          */
};

/* Share of `to` at frame pos of a fade of len: smoothstep; both signals share their input, so gains add up to 1. */
#ifdef __CUDACC__
__host__ __device__
#endif
static inline float fade_gain(int pos, int len)
{
    if (pos >= len) return 1.0f;
    float t = (float)(pos + 1) / (float)(len + 1);
    return t * t * (3.0f - 2.0f * t);
}

struct backend {
    const char *name;                     /* "cpu", "cuda", "hybrid"                                                */
    bool in_place;                        /* play keeps the [rt] promise: no queue is needed                        */
    bool in_parts;                        /* process heeds slot->ferry                                              */
    const struct plan_costs *costs;       /* built in; costs.h has those of this machine                            */
    const char *choice;                   /* how hc_config.backend asks for it; NULL: by its name                   */
    const struct backend *files;          /* plays files (block 0) in its place; NULL: it does so itself            */
    const char *near, *tail;              /* names of the two that it is made of; NULL: it is not (hybrid.h)        */

    /* The i-th device: its description. HC_EINVAL when there is none. */
    int (*describe)(int device, char *text, size_t cap);
    /* Measure a device's costs: replace those in *costs that can be. NULL: it cannot. Tens of milliseconds if in_place:
     * costs_measure_once. What a call costs where a worker makes it is not measured here. */
    int (*measure)(int device, struct plan_costs *costs, char *why, size_t cap);
    /* Make a state for config (block is the plan's). The plan outlives the state. */
    int (*open)(const hc_config *config, const struct plan *plan, int device, void **state, char *why, size_t cap);
    void (*close)(void *state);
    /* Slots in memory of the backend's own, zeroed. NULL: any memory will do (slot_make below). */
    int (*slot_make)(void *state, struct slot *slot, char *why, size_t cap);
    void (*slot_free)(void *state, struct slot *slot);
    int (*mask_make)(void *state, const struct matrix *matrix, void **mask, char *why, size_t cap);
    void (*mask_free)(void *state, void *mask);
    /* A mask of noise. NULL: the engine makes the responses itself and calls mask_make. */
    int (*mask_make_noise)(void *state, const struct noise *noise, void **mask, char *why, size_t cap);
    /* A mask with far levels cannot sound with its full tail before they have run, or caught up. mask_warm: begin to
     * keep this mask's far levels current, beside those that play. mask_ready: may its fade begin with the next process?
     * True at the latest when 2S frames have been played since mask_warm, S being the plan's largest partition.
     * mask_rest: it is no longer heard, to be freed as soon as mask_idle says that nobody works on it (NULL: at any
     * moment), or after a reset. At most two masks are warm at once, never NULL; reset keeps them so. Where nothing was
     * heard since open or reset a mask plays at once. All NULL for a backend that needs no time. [the driver] */
    void (*mask_warm)(void *state, void *mask);
    bool (*mask_ready)(void *state, const void *mask);
    void (*mask_rest)(void *state, void *mask);
    bool (*mask_idle)(void *state, const void *mask);
    /* Frames from mask_warm to mask_ready as a rule; NULL: 2S, which is the most. */
    int (*swap_frames)(const struct plan *plan, const struct plan_shape *shape);
    /* Append n frames (1 to block) of the input to the history and fill the output. Returns when the output is there;
     * work that later blocks need may still be under way. A backend that runs in place plays rows that may lie anywhere;
     * HC_LATE: it is made of two, and the tail is not in the output. A device processes a slot. The other one is NULL. */
    int (*play)(void *state, const struct rows *rows, int n, const struct fade *fade, char *why, size_t cap);
    int (*process)(void *state, struct slot *slot, int n, const struct fade *fade, char *why, size_t cap);
    /* Calls may take their time from now on, or not: then mask_ready does not depend on the timing of any thread. Not
     * called at open: there the config says whether to wait for a device. NULL: it waits for nothing. Any thread. */
    void (*wait_set)(void *state, bool waits);
    /* Forget the history, as if just opened; masks stay. No call is under way. */
    int (*reset)(void *state, char *why, size_t cap);
    /* For files (block 0): process in two halves, with up to config.flight calls, each with a slot of its own, between
     * them. begin returns at once; end waits for the oldest. NULL for a backend that has none. raw: slots hold samples as
     * config.in_samples and out_samples say. */
    bool raw;
    int (*begin)(void *state, struct slot *slot, int n, const struct fade *fade, char *why, size_t cap);
    int (*end)(void *state, char *why, size_t cap);
};

extern const struct backend backend_cpu;       /* live: in place, with the [rt] promise */
extern const struct backend backend_cpu_files; /* block 0: large transforms on all processors, no deadline */
extern const struct backend backend_cuda; /* only in builds with CUDA (HC_WITH_CUDA) */
extern const struct backend backend_hybrid; /* "cpu" with the tail on "cuda" */
extern const struct backend backend_hybrid_cpu; /* ... on a thread of the CPU's, where there is no GPU */

/* A slot of a backend's state: in its own memory if it has some, else in the host's. Frames are 0. slot_free: a slot that
 * is all zero is allowed. [setup] */
int slot_make(const struct backend *backend, void *state, int n_in, int n_out, int block, struct slot *slot, char *why,
              size_t cap);
void slot_free(const struct backend *backend, void *state, struct slot *slot);
/* Plays a slot on a backend of either kind. */
int slot_play(const struct backend *backend, void *state, struct slot *slot, int n, const struct fade *fade, char *why,
              size_t cap);

/* Write an error line as printf does; returns code. */
int fail(int code, char *why, size_t cap, const char *format, ...) __attribute__((format(printf, 4, 5)));

#ifdef __cplusplus
}
#endif
#endif
