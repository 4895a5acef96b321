/* haloconv - real-time convolution of audio with FIR filters and impulse responses, on the CPU or a CUDA GPU.
 *
 * The shortest program
 *
 *   #include <haloconv.h>
 *   #include <stdio.h>
 *
 *   int main(void)
 *   {
 *       const float in[64] = {1}, taps[] = {1, 0.5f, 0.25f};
 *       float out[64];
 *       char why[256];
 *       hc_config config = {.size = sizeof config, .n_in = 1, .n_out = 1};
 *       hc_route route = {.in = 0, .out = 0, .taps = taps, .n_taps = 3, .gain = 1};
 *       hc_engine *engine;
 *       hc_mask *mask;
 *       if (hc_open(&config, &engine, why, sizeof why) != HC_OK) return puts(why), 1;
 *       if (hc_mask_make(engine, &route, sizeof route, 1, &mask, why, sizeof why) != HC_OK) return puts(why), 1;
 *       hc_mask_swap(engine, mask);
 *       hc_process(engine, (const float *[]){in}, (float *[]){out}, 64); // the audio thread, for every block
 *       printf("%g %g %g\n", (double)out[0], (double)out[1], (double)out[2]);
 *       hc_close(engine);
 *   }
 *
 * Which header for whom
 *   haloconv.h          a program with its own audio callback: engines, masks, process, swap
 *   haloconv_live.h     a live host or plugin: plays on while mask, block, rate or backend change, or a GPU fails
 *   haloconv_files.h    a converter of files: blocks without a deadline, several of them queued
 *   haloconv_masks.h    a program that reads masks: sound files, texts, configurations of other programs
 *   haloconv_scenes.h   moving sources: banks of responses, steering, whole signals
 *   haloconv_tensors.h  machine learning: tensors and gradients
 * dsp/examples/ has complete programs. NEWS.md lists the changes between versions.
 *
 * Audio
 *   Planar 32-bit float: one pointer for each channel, one float for each frame, full scale +-1. Channels and frames
 *   count from 0. The output is the causal linear convolution y[i] = sum_k h[k] x[i-k], summed over the routes of an
 *   output channel. The added latency is 0 frames.
 *
 * Masks
 *   A mask is a set of impulse responses with their routing: input, output, taps, gain, delay.
 *
 * Threads
 *   Every call carries a tag. [rt]: the audio thread may call it; it uses no lock, allocates nothing, makes no system
 *   call except a wake-up, and ends within bounded time. [setup]: it may allocate, block and last seconds; call it on
 *   any thread but the audio thread. Do not make two [setup] calls on one engine at the same time, unless a call says
 *   that it may run in parallel with others.
 *   RLIMIT_RTTIME limits the processor time of a real-time thread between two pauses. The library's threads and
 *   hc_live_process pause in time; hc_process does not: a thread that calls it without waiting for its next block
 *   must sleep, for example 0.1 ms each 50 ms, or the kernel ends the process.
 *
 * fork()
 *   fork() waits until no other thread changes global state of the library, such as the tables of a transform in
 *   hc_open: the child can open its own engines. Meanwhile the engines' worker threads wait; the audio thread does
 *   their jobs. The child can use and close an engine of the parent that no other thread used during fork(). On the CPU
 *   it plays as in the parent, but the calling thread does the work of the engine's threads. With a device or
 *   "hybrid" hc_process returns HC_EDEVICE and hc_close frees nothing. A live convolver (haloconv_live.h) stays with
 *   the parent. CUDA fails in the child of a process that has used a GPU.
 *
 * Errors
 *   A call that fails returns a negative enum hc_error. A call with (why, cap) also writes one line, at most cap bytes
 *   with the final 0, that says what failed and how to remedy it. In this line channels count from 1, but a field such
 *   as routes[2].in has the caller's value. why may be NULL. A NULL pointer to an engine or to a result is HC_EINVAL.
 *   The library never prints and never exits. A system that overcommits memory may end the process instead of causing
 *   HC_ENOMEM.
 *
 * Versions
 *   A struct that the caller fills in begins with its size: sizeof of the struct. The elements of an array do not begin
 *   with a size: the call, or the struct with the array, has the size of one element (route_size, job_size, step_size).
 *   A program that was compiled with an older, shorter struct works with a newer library: fields that its struct lacks
 *   have their default value, or are not filled in. Structs without a size, which only the library fills in, do not
 *   change as long as the library is libhaloconv.so.1.
 */
#ifndef HALOCONV_H
#define HALOCONV_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HC_VERSION "0.2.0"

typedef struct hc_engine hc_engine; /* a running convolver: input history, memory, threads                      */
typedef struct hc_mask hc_mask;     /* responses that are ready to play on one engine; it never changes         */

enum hc_error {
    HC_OK = 0,
    HC_LATE = 1,         /* hc_process, hc_live_process: the device did not finish the block within wait_us. `out`
                            is silence; with backend "hybrid" it lacks only the tail. Later blocks are right,
                            because the input history has the block, unless the device hangs: then the history has
                            silence. No other call returns it: 1 of hc_collect or hc_bank_mix is a count        */
    HC_EINVAL = -1,      /* an argument is out of its range; `why` says which                                   */
    HC_ENOMEM = -2,      /* host or device memory ran out; lower max_taps or block                              */
    HC_EDEVICE = -3,     /* the device is absent, or it failed; use backend "cpu"                                */
    HC_EFILE = -4,       /* a file could not be read; `why` has the system's reason                             */
    HC_EUNSUPPORTED = -5 /* this build lacks the part that the call needs                                       */
};

/* Values of hc_config.wait_us, apart from microseconds (1 or more). */
enum {
    HC_WAIT_DEFAULT = 0,      /* wait half of the time that a block of audio lasts                              */
    HC_WAIT_FOREVER = -1,     /* wait until the device is done; hc_process is then not [rt]                     */
    HC_WAIT_NONE = -2         /* do not wait: a block that is not done yet is late                              */
};
enum { HC_BLOCK_FILES = -1 }; /* hc_config.block: an engine for files                                           */
enum { HC_NO_FADE = -1 };     /* hc_config.fade_frames: a swap takes effect from one frame to the next          */

/* A field that is 0 or NULL has the default of the right-hand column, and so has one that an initialiser leaves out. C++
 * compilers warn of those (-Wextra): there hc_config_init sets all fields, and the program then changes some. */
typedef struct hc_config {
    size_t size;             /* sizeof(hc_config); hc_config_init sets it                                       */

    /* ---- every engine ---- */
    int rate;                /* Hz, 1 or more                                                            48000  */
    int block;               /* max. frames per hc_process, 1 to 1048576; each call may have fewer.
                                HC_BLOCK_FILES: the engine chooses (hc_info.block), and hc_process is not
                                [rt]; calls of whole partitions are the fastest                             64  */
    int n_in, n_out;         /* channels, 1 to 65536                                                      2, 2  */
    int max_taps;            /* longest response in frames, delay included, 1 to 2^28; determines the
                                memory                                                                   48000  */
    int n_routes;            /* how many (input, output) pairs a mask will have, a hint for the plan and for
                                "auto"                                            the larger of n_in and n_out  */
    int fade_frames;         /* length of a mask swap's crossfade, cut to 2^30; or HC_NO_FADE              512  */
    int n_threads;           /* threads on the CPU, the audio thread included, 0 or more, of which 256 are
                                used; the output does not depend on it. Default: all processors with
                                HC_BLOCK_FILES; live, as many as the tail levels need, or the copy of
                                thousands of channels to a GPU                                       automatic  */
    const char *backend;     /* "auto": "cpu", or "cuda" or "hybrid" if calls are expected to be cheaper. "cuda",
                                "cuda:1": that GPU; small live engines by a kernel that stays on it, others by
                                launches ("cuda:1:resident", which plays no sources, "cuda:1:launched": always).
                                "hybrid", "hybrid:1": the first taps on the CPU inside the call, the tail on that
                                GPU in parallel; not for files. "hybrid:cpu": the tail on a thread of the CPU
                                                                                                        "auto"  */
    const char *method;      /* "auto", "direct" (FIR in the time domain), "fft" (partitions)           "auto"  */
    int64_t n_frames;        /* how many frames will be played, a hint for "auto"                       no end  */

    /* ---- live engines on a device ---- */
    int wait_us;             /* longest wait for the device in hc_process: microseconds, HC_WAIT_FOREVER or
                                HC_WAIT_NONE. A host that freewheels at times uses haloconv_live.h
                                                                                        half of a block's time  */
    int spin;                /* on a GPU. 1: the engine's device thread spins until the next block, which keeps a
                                processor busy. 0: it sleeps for most of a period, and each block takes some
                                microseconds longer                                                          0  */

    /* ---- files: block is HC_BLOCK_FILES (haloconv_files.h) ---- */
    int in_samples, out_samples; /* the enum hc_samples that the program wants; hc_info has the formats in use. A
                                GPU then decodes and encodes                                     HC_PLANAR (0)  */
    int queue_depth;         /* the maximum of blocks between hc_submit and hc_collect that the program wants, 1 to 16.
                                Each block has separate memory. A GPU has at least 2; the CPU, which convolves inside
                                hc_submit, at most 3                                  4 on a GPU, 1 on the CPU  */

    /* ---- moving sources (haloconv_scenes.h), not for files ---- */
    int n_sources;           /* the first n_sources inputs are steered, 0 to n_in; set max_taps to 1 if no mask is
                                played                                                                       0  */
    int bank_taps;           /* longest response of a bank in frames, 1 to 2^24                          48000  */
    int steer_fade;          /* frames of a source's fade, at most 65536                                 block  */
} hc_config;

typedef struct hc_route {    /* one response from one input to one output; routes on the same pair are added    */
    int in, out;             /* channels                                                                        */
    const float *taps;       /* [n_taps], finite; read during hc_mask_make only                                 */
    int n_taps;              /* 1 or more; n_taps + delay is at most hc_config.max_taps                         */
    float gain;              /* linear, finite                                                                  */
    int delay;               /* frames of silence before the taps, 0 or more                                    */
} hc_route;

typedef struct hc_level {    /* consecutive taps of the responses that are convolved in the same way            */
    int offset, n_taps;      /* index of the level's first tap; number of its taps                              */
    int size;                /* frames of a partition; 0: in the time domain                                    */
    int n_partitions;
    int n_slices;            /* hops over which the work on a partition is spread; 0: it is done inside the call */
} hc_level;

typedef struct hc_steer_level { /* consecutive taps of a bank's responses (haloconv_scenes.h)                    */
    int offset, n_taps;      /* index of the level's first tap; number of its taps                              */
    int hop;                 /* frames between two times at which the level reads requests                      */
    int delay;               /* frames from such a time to the start of the fade                                */
    int fade;                /* frames of the ramp within a hop: the smaller of steer_fade and hop              */
} hc_steer_level;

enum { HC_MAX_LEVELS = 25, HC_MAX_STEER_LEVELS = 4 };
enum { HC_DEVICE_CAP = 128 }; /* bytes of a device's description, the final 0 included                          */

typedef struct hc_info {     /* the properties of an engine, and its counters                                   */
    size_t size;             /* in: sizeof(hc_info), set by the caller                                          */

    /* ---- the plan: hc_plan fills in these fields, too ---- */
    const char *backend;     /* "cpu", "cuda" or "hybrid"; a static string                                      */
    const char *method;      /* "direct" or "fft"; a static string                                              */
    int block;               /* max. frames per hc_process                                                      */
    int partition;           /* frames of a partition of the head; for "direct" the length of its input history */
    int n_partitions;        /* partitions of the head; 0 for "direct"                                          */
    int hop;                 /* frames of a hop; after each hop, the tail levels do a slice of their work       */
    int n_levels;            /* the first level is the head                                                     */
    int n_device_levels;     /* "hybrid": so many levels, the last ones, are on the device; else 0              */
    hc_level levels[HC_MAX_LEVELS];
    int swap_delay;          /* max. frames from a swap to the start of its fade: the tail levels of the new mask
                                need this time                                                                  */
    int swap_usual;          /* frames that the levels usually need: fewer than swap_delay if threads help; for "cuda"
                                the same                                                                        */
    int measured;            /* hc_plan only: 1 if the costs of the plan were measured on this machine          */
    double bytes_a_frame;    /* bytes of spectra and taps read for one frame of all channels, for n_routes pairs */
    double flops_a_frame;    /* floating-point operations for one frame of all channels, for n_routes pairs     */
    double cost_ns;          /* expected time for one frame of all channels, by the costs that the plan was chosen
                                with; for "hybrid" only the work inside the call                                */
    uint64_t memory;         /* bytes of input history, spectra and one mask of n_routes pairs. hc_get_info: with
                                sources also those of their history and bank_memory                             */

    /* ---- the engine ---- */
    char device[HC_DEVICE_CAP]; /* "cpu avx512"; "cuda:0 NVIDIA H200, ...; resident" if a kernel stays on the
                                   GPU; "...; launched: reason" if it could stay but for this reason            */
    int queue_depth;         /* max. blocks between hc_submit and hc_collect; 0: these calls are not possible   */
    int in_samples, out_samples; /* the enum hc_samples of the buffers (hc_block_buffers)                       */
    int n_sources;           /* as in hc_config                                                                 */
    int n_steer_levels;
    hc_steer_level steer_levels[HC_MAX_STEER_LEVELS];
    char error[256];         /* why the device was lost; empty while it works                                   */

    /* ---- what changes while it plays ---- */
    float peak;              /* largest magnitude of the output before clipping (hc_count_set); NaN if a sample was
                                NaN; 0 with HC_PLANAR                                                           */
    uint64_t clipped;        /* output samples beyond full scale (hc_count_set); 0 with HC_PLANAR               */
    uint64_t blocks, frames; /* calls of hc_process (or hc_collect) and their frames since hc_open              */
    uint64_t late;           /* late blocks: those for which hc_process returned HC_LATE                        */
    uint64_t non_finite;     /* input samples that were replaced by 0: NaN, Inf and, unless block is
                                HC_BLOCK_FILES, those beyond 2^100 (1.27e30)                                    */
    uint64_t swaps;          /* mask swaps that have begun                                                      */
    uint64_t swap_frame;     /* frames played before the last swap began                                        */
    uint64_t bank_memory;    /* bytes of the banks that this engine has made and that are not freed             */
    uint64_t overflowed;     /* output samples that were beyond the range of a float, and became 0              */
} hc_info;

/* Returns the version of this library, HC_VERSION of its build: a static string. [rt] */
const char *hc_version(void);

/* Returns a short phrase for a return code: a static string, not NULL for any code. [rt] */
const char *hc_strerror(int code);

/* Sets every field to its default, and size to sizeof(hc_config). [rt] */
void hc_config_init(hc_config *config);

/* Makes an engine. It plays silence until a mask is swapped in. *config is copied; NULL: all defaults. With "auto" the
 * engine is on the CPU if the GPU fails to open. Fails with HC_EINVAL (a field is out of its range, or config->size is
 * the size of no version's struct), HC_ENOMEM, HC_EDEVICE (no such GPU), HC_EUNSUPPORTED (no GPU module);
 * *engine is NULL then. [setup] */
int hc_open(const hc_config *config, hc_engine **engine, char *why, size_t cap);

/* Reports how hc_open would divide this config's responses, and opens nothing. Fills in the fields of *info in the
 * section "the plan"; all others become 0. "auto" counts as the CPU. The caller sets info->size. Fails with HC_EINVAL,
 * HC_EUNSUPPORTED. [setup], in parallel with every other call */
int hc_plan(const hc_config *config, hc_info *info, char *why, size_t cap);

/* Frees an engine and all its masks. No other call on it may be running. If a device hangs, hc_close returns after 10 s,
 * and a thread frees the memory when the device answers again. Until then hc_open refuses the device with HC_EDEVICE;
 * hc_reset waits without bound. NULL is allowed. [setup] */
void hc_close(hc_engine *engine);

/* Makes a mask of n routes; route_size is sizeof(hc_route). The audio thread may play in the meantime. Several threads
 * may make masks of one engine at the same time; one waits for the other. Routes with the same data (taps pointer,
 * n_taps, gain, delay) share one spectrum. n = 0: a mask of silence; routes may then be NULL. Fails with HC_EINVAL (a
 * channel out of range; more than max_taps; a tap that is NaN or Inf, also after its gain or in the sum of a pair's
 * routes: the text has its index; a route_size that no version has), HC_ENOMEM; *mask is NULL then. [setup] */
int hc_mask_make(hc_engine *engine, const hc_route *routes, size_t route_size, int n, hc_mask **mask, char *why,
                 size_t cap);

/* Releases a mask. The engine frees it in the first hc_mask_make, hc_mask_free or hc_close after it has stopped
 * playing. The mask must not be swapped in again. NULL is allowed. [setup], in parallel with hc_mask_make */
void hc_mask_free(hc_engine *engine, hc_mask *mask);

/* Crossfades to a mask; NULL fades to silence. The input history is kept: the new mask plays with its full tail from
 * the first frame of the fade. The fade begins with the next hc_process. If the tail levels of the mask must be
 * computed first, the old mask plays until then: as a rule for hc_info.swap_usual frames, at most for swap_delay. The
 * last request wins: a request during the preparation or fade of another swap waits for its end, and a later request
 * replaces it. Before the first hc_process, and before the first one after hc_reset, there is neither delay nor fade.
 * Returns HC_OK, or HC_EINVAL (the mask belongs to another engine). [rt], any thread */
int hc_mask_swap(hc_engine *engine, hc_mask *mask);

/* Convolves n_frames (0 to hc_info.block). in[n_in][n_frames], out[n_out][n_frames]; any row of `in` may be a row of
 * `out`. NaN and Inf in the input count as 0, and so do samples beyond 2^100 (1.27e30) unless hc_config.block is
 * HC_BLOCK_FILES. An output beyond the range of a float becomes 0: no output is ever NaN or Inf. hc_info.non_finite and
 * hc_info.overflowed count both. Fills in `out`, unless it returns HC_EINVAL. Returns HC_OK; HC_LATE; HC_EDEVICE (the
 * device is lost: the output is silence from now on, and hc_info.error says why); HC_EINVAL (n_frames out of range, a
 * NULL array, blocks that are not collected, or samples that are not planar). [rt], one thread at a time */
int hc_process(hc_engine *engine, const float *const *in, float *const *out, int n_frames);

/* Forgets the input history and ends any fade; the mask stays. Blocks that are not collected are dropped. No hc_process
 * may be running. [setup]; on the CPU [rt], but it waits for the engine's own threads and clears the engine's memory */
void hc_reset(hc_engine *engine);

/* Reports the properties and the counters of an engine. The caller sets info->size = sizeof *info; the call writes no
 * more bytes. While hc_process runs, each counter is right or one block old. Returns HC_OK, or HC_EINVAL (info->size is
 * the size of no version's struct). [rt], any thread, in parallel with every other call but hc_close */
int hc_get_info(hc_engine *engine, hc_info *info);

/* Describes device i that hc_open could use, as "cuda:0\tNVIDIA H200, ...": the string for hc_config.backend, a tab, a
 * description; at most cap bytes with the final 0. Returns HC_OK, or HC_EINVAL (device i is absent). Initialises
 * CUDA. [setup] */
int hc_list_devices(int i, char *text, size_t cap);

#ifdef __cplusplus
}
#endif
#endif
