/* haloconv - real-time convolution of audio with FIR filters and impulse responses, on the CPU or a CUDA GPU.
 *
 * This header is live convolution: engines, masks, process, swap. haloconv_live.h keeps a whole session playing,
 * haloconv_files.h has blocks of files, haloconv_masks.h reads masks from files. NEWS.md lists the changes between
 * versions.
 *
 * Conventions
 *   Audio is planar 32-bit float: one pointer a channel, one float a frame, full scale +-1. Channels and frames count
 *   from 0. The output is the causal linear convolution y[i] = sum_k h[k] x[i-k], summed over the routes of an output
 *   channel, with no added latency.
 *   A mask is a set of responses with their routing: input, output, taps, gain, delay.
 *   Every call carries a tag. [rt]: the audio thread may call it; no lock, no allocation, no system call but a wake-up,
 *   bounded time. [setup]: it may allocate, block and take seconds; call it on any thread but the audio thread. Do not
 *   make two [setup] calls on one engine at once unless the call says that it may run beside others.
 *   A call that fails returns a negative enum hc_error. A call with (why, cap) also writes one line, at most cap bytes,
 *   that names what failed and the remedy. why may be NULL. The library never prints and never exits.
 *   A pointer to an engine or to a result that is NULL is HC_EINVAL.
 *   hc_config and hc_info begin with their size. A program compiled with an older, shorter struct works with a newer
 *   library: the fields that it does not have count as their default, and are not filled in.
 *
 * A session
 *   hc_config c;  hc_config_init(&c);  c.n_in = 2; ...;  hc_open(&c, &e, why, sizeof why);
 *   hc_mask_make(e, routes, n, &m, why, sizeof why);  hc_mask_swap(e, m);
 *   audio thread: hc_process(e, in, out, n_frames) ...
 *   hc_mask_free(e, m);  hc_close(e);
 */
#ifndef HALOCONV_H
#define HALOCONV_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HC_VERSION "0.2.0"

typedef struct hc_engine hc_engine; /* a running convolver: input history, memory, threads               */
typedef struct hc_mask hc_mask;     /* responses ready to play on one engine; never changed once made    */

enum hc_error {
    HC_OK = 0,
    HC_LATE = 1,        /* hc_process: the device missed wait_us; out is silence, the block is in the history.
                           With backend "hybrid" only the tail is missing from out                                */
    HC_EINVAL = -1,     /* an argument is out of its range; the text says which                                   */
    HC_ENOMEM = -2,     /* host or device memory ran out; lower max_taps or block                                 */
    HC_EDEVICE = -3,    /* no such device, or it failed; use backend "cpu"                                        */
    HC_EFILE = -4,      /* a file could not be read; the text carries the system's reason                         */
    HC_EUNSUPPORTED = -5 /* this build lacks the part that the call needs                                         */
};

/* Values of hc_config.wait_us and hc_wait_set; above 0: microseconds. */
enum {
    HC_WAIT_DEFAULT = 0,     /* half of the time that a block of audio lasts                                  */
    HC_WAIT_FOREVER = -1,    /* until the device is done: hc_process is not [rt] then                         */
    HC_WAIT_NONE = -2        /* not at all: a block that is not done yet is late                              */
};
enum { HC_BLOCK_FILES = -1 };/* hc_config.block: an engine for files                                          */
enum { HC_NO_FADE = -1 };    /* hc_config.fade_frames: a swap takes effect from one frame to the next         */

/* A field that is 0 or NULL has the default of the right-hand column. */
typedef struct hc_config {
    size_t size;             /* sizeof(hc_config); hc_config_init sets it                                     */
    int rate;                /* Hz, 1 or more                                                          48000  */
    int block;               /* most frames per hc_process, 1 to 1048576; each call may have fewer.
                                HC_BLOCK_FILES: the engine chooses (hc_info.block) and keeps no [rt]
                                promise; calls of whole partitions are the fastest                        64  */
    int n_in, n_out;         /* channels, 1 to 65536                                                    2, 2  */
    int max_taps;            /* longest response in frames, delay included, 1 to 2^28; fixes memory    48000  */
    int n_routes;            /* how many (input, output) pairs a mask will join, a hint for the plan and
                                for "auto"                               as many as there are channels  */
    int wait_us;             /* longest wait for a device in hc_process: microseconds, HC_WAIT_FOREVER or
                                HC_WAIT_NONE. "cpu" has no device: only hc_wait_set makes it wait
                                                                                  half of a block's time  */
    int fade_frames;         /* crossfade of a mask swap; HC_NO_FADE                                     512  */
    int64_t n_frames;        /* how many frames will be played, a hint for "auto"                     no end  */
    const char *backend;     /* "auto", "cpu", "cuda", "cuda:1"; "hybrid", "hybrid:1": the first taps on the
                                CPU inside the call, the tail on that GPU beside it (live only);
                                "hybrid:cpu": the tail on a thread of the CPU                         "auto"  */
    const char *method;      /* "auto", "direct" (FIR in the time domain), "fft" (partitions)         "auto"  */
    int in_samples, out_samples; /* enum hc_samples (haloconv_files.h) that the program asks for with
                                HC_BLOCK_FILES; hc_info has the format in use. A GPU decodes and encodes
                                by itself                                                HC_PLANAR (0)  */
    int flight;              /* queue depth that the program asks for with HC_BLOCK_FILES: blocks between
                                hc_submit and hc_collect, 2 to 16, each with memory of its own            4  */
    int n_threads;           /* of the CPU, the audio thread counted in; the output does not depend on it.
                                Default: all processors with HC_BLOCK_FILES; live as many as the tail levels
                                need, or as the copy of thousands of channels to a GPU needs        automatic  */
    int spin;                /* live, on a GPU. 1: the thread that drives the GPU spins for the next block, which
                                keeps a core busy. 0: it sleeps for most of a period, and each block is back
                                some us later                                                              0  */
    int reserved;            /* must be 0                                                                  0  */
} hc_config;

typedef struct hc_route {    /* one response from one input to one output; routes on the same pair add        */
    int in, out;
    const float *taps;       /* [n_taps]; read during hc_mask_make only                                       */
    int n_taps;
    float gain;              /* linear                                                                        */
    int delay;               /* frames of silence in front of the taps                                        */
} hc_route;

typedef struct hc_level {    /* a run of taps that is convolved in one way                                    */
    int offset, n_taps;      /* of the responses                                                              */
    int size;                /* frames a partition; 0: in the time domain                                     */
    int n_partitions;
    int n_slices;            /* hops that share the work on a partition; 0: it is done inside the call        */
} hc_level;

enum { HC_MOST_LEVELS = 25 };

typedef struct hc_info {     /* what an engine is, and its counters                                           */
    size_t size;             /* in: sizeof(hc_info), set by the caller                                        */
    int block;               /* most frames per hc_process                                                    */
    int partition;           /* frames a partition; for "direct" the length of the history                    */
    int n_partitions;        /* partitions that cover max_taps; 0 for "direct"                                */
    int flight;              /* queue depth: blocks that may be between hc_submit and hc_collect; 0: neither
                                can be called                                                                 */
    int in_samples, out_samples; /* enum hc_samples of hc_room                                                */
    const char *backend;     /* "cpu", "cuda" or "hybrid"; static                                             */
    const char *method;      /* "direct" or "fft"; static                                                     */
    char device[128];        /* "cpu avx512, fftw 3.3.10" or "cuda:0 NVIDIA H200"                             */
    int tick;                /* the hop in frames: tail levels do a slice of their work after each hop        */
    int n_levels;            /* the head first                                                                */
    hc_level levels[HC_MOST_LEVELS];
    double bytes_a_frame;    /* spectra and taps that are read for a frame of all channels, with n_routes pairs */
    double flops_a_frame;
    double cost_ns;          /* expected time for a frame of all channels, by the costs that the plan was made
                                with; for "hybrid" the work inside the call                                   */
    int measured;            /* (hc_plan) these costs were measured on this machine                           */
    uint64_t memory;         /* bytes of history, spectra and one such mask                                   */
    uint64_t blocks, frames; /* calls of hc_process and frames since hc_open                                  */
    uint64_t late;           /* blocks given up                                                               */
    uint64_t non_finite;     /* NaN and Inf input samples replaced by 0                                       */
    uint64_t clipped;        /* output samples beyond full scale (hc_count_set); 0 with HC_PLANAR             */
    float peak;              /* largest magnitude of the output before it was limited (hc_count_set); NaN if a
                                sample was NaN; 0 with HC_PLANAR                                              */
    uint64_t swaps;          /* mask swaps begun                                                              */
    uint64_t swap_frame;     /* frames played before the last of them began                                   */
    int swap_delay;          /* most frames from a swap to the start of its fade: the tail levels of the new
                                mask need them                                                                */
    int swap_usual;          /* frames that they need as a rule: fewer than swap_delay if threads help; for
                                "cuda" the same                                                               */
    int n_tail_levels;       /* how many of the levels, the last ones, are on the device; 0 unless "hybrid"   */
    char error[256];         /* why the device was lost; empty while all is well                              */
} hc_info;

/* The version of this library, HC_VERSION of its build: a static string. [rt] */
const char *hc_version(void);

/* A short phrase for a return code, a static string; never NULL, for any code. [rt] */
const char *hc_strerror(int code);

/* Sets every field to its default and size to sizeof(hc_config). [rt] */
void hc_config_init(hc_config *config);

/* Makes an engine; it plays silence until a mask is swapped in. The config is copied; NULL: all defaults. "auto" falls
 * back to the CPU. Fails with HC_EINVAL (a field is out of its range; config->size is none that a program was compiled
 * with), HC_ENOMEM, HC_EDEVICE (no such GPU), HC_EUNSUPPORTED (no CUDA in this build); *engine is NULL then. [setup] */
int hc_open(const hc_config *config, hc_engine **engine, char *why, size_t cap);

/* How hc_open would cut this config's responses; opens nothing. Fills the fields of hc_info before `blocks`, but not
 * `device` ("auto" counts as the CPU); the other fields are 0. The caller sets info->size. Fails with HC_EINVAL,
 * HC_EUNSUPPORTED. [setup], beside every other call */
int hc_plan(const hc_config *config, hc_info *info, char *why, size_t cap);

/* Frees an engine and all its masks; no other call may be running. Waits for a device that hangs without bound, as
 * hc_reset does. NULL is allowed. [setup] */
void hc_close(hc_engine *engine);

/* Makes a mask of n routes. The audio thread may run meanwhile. Threads may make masks of one engine at once; they take
 * turns. Identical routes (same taps pointer, n_taps, gain, delay) share one spectrum. n = 0: a mask of silence; routes
 * may be NULL then. Fails with HC_EINVAL (channel out of range; longer than max_taps; a tap that is NaN or Inf: the
 * text has its index), HC_ENOMEM; *mask is NULL then. [setup] */
int hc_mask_make(hc_engine *engine, const hc_route *routes, int n, hc_mask **mask, char *why, size_t cap);

/* Gives a mask up: the engine frees it in the first hc_mask_make, hc_mask_free or hc_close after it no longer plays it.
 * The mask must not be swapped in again. NULL is allowed. [setup], also beside hc_mask_make */
void hc_mask_free(hc_engine *engine, hc_mask *mask);

/* Crossfades to a mask; NULL fades to silence. The input history is kept: the new response sounds with its full tail
 * from its first frame on. The fade begins with the next hc_process. If the tail levels of the mask have to be computed
 * first, the old mask plays until then: hc_info.swap_usual frames as a rule, at most swap_delay. The last request wins:
 * a swap that is requested while another is prepared or fades waits for its end, and a later one replaces it. Before
 * the first hc_process, or the first after hc_reset, there is neither delay nor fade. HC_EINVAL: the mask is another
 * engine's. [rt], any thread */
int hc_mask_swap(hc_engine *engine, hc_mask *mask);

/* Convolves n_frames (0 to hc_info.block). in[n_in][n_frames], out[n_out][n_frames]; any in may be an out. Fills out,
 * unless it returns HC_EINVAL. NaN and Inf in the input count as 0. Returns HC_OK; HC_LATE; HC_EDEVICE (the device is
 * lost: silence from now on, hc_info.error says why); HC_EINVAL (n_frames out of range, or a NULL array; out is not
 * touched). [rt], one thread at a time */
int hc_process(hc_engine *engine, const float *const *in, float *const *out, int n_frames);

/* Sets how long hc_process waits for a device, from its next call on; wait_us as in hc_config. A host that freewheels
 * or fills an engine's history uses HC_WAIT_FOREVER. hc_process then also waits for the engine's own threads on the
 * CPU, which hc_config.wait_us does not ask for: the frame at which the fade of a swap begins depends on the calls
 * alone, and hc_process may take its time. HC_EINVAL: less than HC_WAIT_NONE. [rt], any thread */
int hc_wait_set(hc_engine *engine, int wait_us);

/* Forgets the input history and ends any fade; the mask stays. No hc_process may be running. [setup] */
void hc_reset(hc_engine *engine);

/* Frames of added latency: 0. [rt] */
int hc_latency(const hc_engine *engine);

/* Tells what the engine is, and its counters. The caller sets info->size = sizeof *info; no more than that is written.
 * Beside hc_process each counter is right, or a block old. HC_EINVAL: info->size is none that a program was compiled
 * with. [rt], any thread, beside every other call but hc_close */
int hc_get_info(hc_engine *engine, hc_info *info);

/* Names the i-th device that hc_open could use, as "cuda:0\tNVIDIA H200, ..." (the string for hc_config.backend, a tab,
 * a description). Returns HC_OK, or HC_EINVAL when there is no i-th. Initialises CUDA. [setup] */
int hc_list_devices(int i, char *text, size_t cap);

#ifdef __cplusplus
}
#endif
#endif
