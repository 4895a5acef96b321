/* haloconv - real-time convolution of audio with FIR filters and impulse responses, on the CPU or a CUDA GPU.
 *
 * Conventions
 *   Audio is planar 32-bit float: one pointer a channel, one float a frame, full scale +-1. Channels and frames count
 *   from 0. Output is the causal linear convolution y[i] = sum_k h[k] x[i-k], summed over the routes of an output
 *   channel, with no added latency.
 *   Every call carries a tag. [rt]: the audio thread may call it; no lock, no allocation, no system call but a wake-up,
 *   bounded time. [setup]: may allocate, block and take seconds; any thread but the audio thread, and never two [setup]
 *   calls on one engine at once unless the call says that it may.
 *   An error is a negative enum hc_error; where a call takes (why, cap) it also writes there, in at most cap bytes, one
 *   line that names what failed and the remedy. why may be NULL. The library never prints and never exits.
 *
 * A session
 *   hc_config_init(&c); c.n_in = 2; ...;  hc_open(&c, &e, why, sizeof why);
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

#define HC_VERSION "0.1.0"

typedef struct hc_engine hc_engine; /* a running convolver: history, memory, worker                    */
typedef struct hc_mask hc_mask;     /* responses ready to play on one engine; never changed once made  */

enum hc_error {
    HC_OK = 0,
    HC_LATE = 1,        /* hc_process: the device missed wait_us; out is silence, the block is in the history;
                           of "hybrid" only the tail is missing                                                   */
    HC_EINVAL = -1,     /* an argument is out of its range; the text says which                                   */
    HC_ENOMEM = -2,     /* host or device memory ran out; lower max_taps or block                                 */
    HC_EDEVICE = -3,    /* no such device, or it failed; use backend "cpu"                                        */
    HC_EFILE = -4,      /* a file could not be read; the text carries the system's reason                         */
    HC_EUNSUPPORTED = -5 /* this build lacks the part that the call needs                                         */
};

enum hc_samples {            /* how the frames of a block lie in the engine's own memory (hc_room)                */
    HC_PLANAR = 0,           /* floats, a channel behind the other                                            */
    HC_S16, HC_S24, HC_S32, HC_FLOAT, /* frame by frame, as in a sound file, the lowest byte first; full scale of
                                         integers is 2^15, 2^23, 2^31                                         */
    HC_BIG_ENDIAN = 8        /* added to one of these: the highest byte first, as in AIFF                     */
};

typedef struct hc_config {   /* hc_config_init sets the right-hand column                                     */
    int rate;                /* Hz                                                                     48000  */
    int block;               /* most frames per hc_process; any count up to it is served;
                                0 = for files: the engine picks (read it from hc_get_info) and keeps no
                                [rt] promise; whole partitions a call are what it is fast at            64  */
    int n_in, n_out;         /* channels, 1 to 65536                                                    2, 2  */
    int max_taps;            /* longest response in frames, delay included; fixes memory               48000  */
    int n_routes;            /* how many pairs a mask will join, a hint for the plan and for "auto";
                                0 = as many as there are channels                                          0  */
    int wait_us;             /* longest wait for a device in hc_process, microseconds; 0 = half the time of a block
                                (files: until the device is done); -1 = until the device is done, which gives
                                up the [rt] promise; -2 = do not wait. "cpu" alone has no device           0  */
    int fade_frames;         /* crossfade of a mask swap; 0 = none                                       512  */
    int64_t n_frames;        /* how many frames will be played, 0 = no end; a hint for "auto"              0  */
    const char *backend;     /* "auto", "cpu", "cuda", "cuda:1"; "hybrid", "hybrid:1": the first taps on the
                                CPU in the call, the tail on that GPU beside it (live only), "hybrid:cpu":
                                on a thread of the CPU's                                              "auto"  */
    const char *method;      /* "auto", "direct" (FIR in the time domain), "fft" (partitions)         "auto"  */
    int in_samples, out_samples; /* enum hc_samples, for files (block 0). A wish: hc_info has what it is; a GPU
                                decodes and encodes by itself                                             0, 0 */
    int flight;              /* blocks that may be under way, for files (block 0), 2 to 16. A wish too: each
                                has memory of its own; four keep a GPU busy. 0 = 4                         0  */
    int n_threads;           /* of the CPU, the audio thread counted in; the output is the same. 0 = for files
                                (block 0) all processors, live as many as the far levels need, or as carry
                                blocks of thousands of channels to a GPU                                   0  */
    int spin;                /* live, on a GPU: 1 = the thread that drives it looks for the next block all the time,
                                and a core is busy; 0 = it sleeps for most of a period, and blocks are back some
                                us later                                                                   0  */
} hc_config;

typedef struct hc_route {    /* one response from one input to one output; routes on the same pair add        */
    int in, out;
    const float *taps;       /* [n_taps]; read during hc_mask_make only                                       */
    int n_taps;
    float gain;              /* linear                                                                        */
    int delay;               /* frames of silence in front of the taps                                        */
} hc_route;

typedef struct hc_level {    /* a run of taps that is convolved in one way                                         */
    int offset, n_taps;      /* of the responses                                                              */
    int size;                /* frames a partition; 0: in the time domain                                     */
    int n_partitions;
    int n_slices;            /* ticks that share the work on a partition; 0: it is done inside the call       */
} hc_level;

enum { HC_MOST_LEVELS = 25 };

typedef struct hc_info {     /* what an engine is and how it fares                                            */
    int block;               /* most frames per hc_process                                                    */
    int partition;           /* frames a partition; for "direct" the length of the history                    */
    int n_partitions;        /* partitions that cover max_taps; 0 for "direct"                                */
    int flight;              /* blocks that may be between hc_submit and hc_collect; 0 = neither can be called */
    int in_samples, out_samples; /* of hc_room                                                                */
    const char *backend;     /* "cpu", "cuda" or "hybrid"; static                                             */
    const char *method;      /* "direct" or "fft"; static                                                     */
    char device[128];        /* "cpu avx512, fftw 3.3.10" or "cuda:0 NVIDIA H200"                             */
    int tick;                /* frames; far levels do a slice of their work after each                        */
    int n_levels;            /* the near one first                                                            */
    hc_level levels[HC_MOST_LEVELS];
    double bytes_a_frame;    /* of spectra and taps that are read for a frame of all channels: n_routes pairs */
    double flops_a_frame;
    double cost_ns;          /* a frame of all channels, as expected from the costs that the plan was made by;
                                of "hybrid" what is done in the call                                          */
    int measured;            /* (hc_plan) these costs were measured on this machine                           */
    uint64_t memory;         /* bytes of history, spectra and one such mask                                   */
    uint64_t blocks, frames; /* calls of hc_process and frames since hc_open                                  */
    uint64_t late;           /* blocks given up                                                               */
    uint64_t non_finite;     /* NaN and Inf input samples replaced by 0                                       */
    uint64_t clipped;        /* output samples beyond full scale (hc_count_set); 0 with HC_PLANAR             */
    float peak;              /* largest magnitude of the output before it was limited, likewise; NaN if one was */
    uint64_t swaps;          /* mask swaps begun                                                              */
    uint64_t swap_frame;     /* frames played before the last of them began                                   */
    int swap_delay;          /* most frames from a swap to its begin: what the far levels of a new mask need  */
    int swap_usual;          /* what they need as a rule; less where threads help. Of "cuda" the most as well */
    int n_tail_levels;       /* so many of the levels, the last ones, are on the device; 0 but for "hybrid"   */
    char error[256];         /* why the device was lost; empty while all is well                              */
} hc_info;

/* Defaults. [rt] */
void hc_config_init(hc_config *config);

/* Make an engine; it plays silence until a mask is swapped in. The config is copied. Fails with HC_EINVAL, HC_ENOMEM,
 * HC_EDEVICE ("cuda" asked for and none is there). "auto" falls back to the CPU. [setup] */
int hc_open(const hc_config *config, hc_engine **engine, char *why, size_t cap);

/* How hc_open would cut this config's responses: fills in all that comes before `blocks` but the device, and opens
 * nothing ("auto" counts as the CPU). Fails with HC_EINVAL. [setup] */
int hc_plan(const hc_config *config, hc_info *info, char *why, size_t cap);

typedef struct hc_costs {    /* nanoseconds; 0: no different, or this backend cannot do it                   */
    double mac_ns;           /* a tap of an output frame, in the time domain                                  */
    double cmac_ns;          /* a bin of a partition                                                          */
    double live_cmac_ns;     /* the same where blocks come one at a time                                      */
    double fft_ns;           /* a transform of N points costs fft_ns * N * log2(N)                            */
    double far_fft_ns, far_cmac_ns; /* both, of far levels                                                    */
    double launch_ns, slice_ns;     /* a tick of audio; a slice of a far level                                */
    double call_ns;          /* a call of hc_process, whatever is in it                                       */
    int n_built_in;          /* so many of these were absurd as measured, and are what it was built with      */
} hc_costs;

/* Measure what convolution costs with a backend ("cpu", "cuda", ...) on this machine, and keep it in the user's cache
 * folder ($XDG_CACHE_HOME or ~/.cache, haloconv/costs), where hc_open and hc_plan find it. The first hc_open of a live
 * engine on a machine does this for the CPU by itself, in less than 50 ms. For a GPU nothing does: it takes up to a
 * second, the GPU to itself and some hundred MB of its memory; until then the costs are those of an H200. Fails as
 * hc_open does. [setup] */
int hc_measure(const char *backend, hc_costs *costs, char *why, size_t cap);

/* Free an engine and all its masks; no hc_process may be running. NULL is allowed. [setup] */
void hc_close(hc_engine *engine);

/* Make a mask of n routes; the audio thread may run meanwhile, and threads may make masks of one engine at once (they
 * take turns). Identical routes (same taps pointer, n_taps, gain, delay) share one spectrum. Fails with HC_EINVAL
 * (channel out of range, longer than max_taps, a tap that is NaN or Inf: the text has its index), HC_ENOMEM. [setup] */
int hc_mask_make(hc_engine *engine, const hc_route *routes, int n, hc_mask **mask, char *why, size_t cap);

/* Make a mask of decaying noise from a seed, for benches and tests: on the device where that is faster than to upload
 * it, and with the same taps everywhere. diagonal: input i to output i only; else every input to every output, each
 * with a response of its own. A response has n_taps, falls by 60 dB in rt60 frames and has an expected energy of 1.
 * Fails as hc_mask_make does. [setup] */
int hc_mask_make_noise(hc_engine *engine, int diagonal, int n_taps, double rt60, uint64_t seed, hc_mask **mask,
                       char *why, size_t cap);

/* Give a mask up: the engine frees it when it no longer plays it (at the latest in hc_close). Not to be swapped in
 * again. May be called beside hc_mask_make. NULL is allowed. [setup] */
void hc_mask_free(hc_engine *engine, hc_mask *mask);

/* Crossfade to a mask; NULL fades to silence. The input history is kept: the new response sounds with its full tail
 * from its first frame on. The fade begins with the next hc_process, or, where the mask's far levels have to be worked
 * out first, with one of those within hc_info.swap_usual frames as a rule, swap_delay at most; the old mask plays until
 * then. Last wins: a swap asked for while another is made ready or fades waits for its end, and a later one replaces
 * it. Before the first hc_process (or the first after hc_reset) there is neither delay nor fade. [rt], any thread */
int hc_mask_swap(hc_engine *engine, hc_mask *mask);

/* Convolve n_frames (0 to block). in[n_in][n_frames], out[n_out][n_frames]; any in may be an out. Always fills out. NaN
 * and Inf in the input count as 0. Returns HC_OK, HC_LATE, or HC_EDEVICE (device lost: silence from now on; hc_get_info
 * says why), HC_EINVAL (n_frames out of range; out is not touched). [rt], one thread at a time */
int hc_process(hc_engine *engine, const float *const *in, float *const *out, int n_frames);

/* Sets how long hc_process waits for a device, from its next call on, with the values of hc_config.wait_us: -1 is for a
 * host that is freewheeling or fills an engine's history, 0 goes back to the default. After -1 the engine's own threads
 * on the CPU are waited for as well, which hc_config's -1 does not ask for: so the frame at which a swap's fade begins
 * depends on the calls alone, and hc_process may take its time. HC_EINVAL: less than -2. [rt], any thread */
int hc_wait_set(hc_engine *engine, int wait_us);

/* hc_process in two halves, for files: up to hc_info.flight blocks may be under way (several on a GPU if block was 0),
 * so that copies to and from a device and its work on other blocks share their time. hc_submit takes n_frames (1 to
 * block) and returns before they are convolved; in = NULL: they are in the engine's own memory, hc_room (pinned memory,
 * which a GPU copies from directly), and finite if planar. hc_collect waits for the oldest block: its
 * frames, to out, or with out = NULL to be read in hc_room. Any counts, in order; the output is that of hc_process,
 * which may be called when no block is under way. Where samples are not HC_PLANAR in is NULL, or out, and hc_process
 * cannot be called. Return HC_OK (hc_collect: the count of frames), HC_EINVAL (no room; nothing under way; not planar;
 * hc_info.flight is 0), HC_EDEVICE. [setup], one thread at a time */
int hc_submit(hc_engine *engine, const float *const *in, int n_frames);
int hc_collect(hc_engine *engine, float *const *out);

/* The engine's own memory for block i, counted from hc_open or hc_reset: the same as of block i + flight. *in is to be
 * filled, by any threads, when block i - flight has been collected and before block i is submitted; *out is to be read
 * when block i has been collected and before block i + flight is submitted. Planar: channel ch starts at ch *
 * hc_info.block floats; else frame i at i * channels samples. Either may be NULL. HC_EINVAL: hc_info.flight is 0. [setup]
 */
int hc_room(hc_engine *engine, int64_t i, void **in, const void **out);

/* Of an output that is not planar, count clipping and peak in frames [from, to) alone, counted from hc_open or hc_reset;
 * for blocks that are submitted from now on. At first it is all of them. [setup], one thread at a time with hc_submit */
void hc_count_set(hc_engine *engine, int64_t from, int64_t to);

/* Forget the input history and end any fade; the mask stays. No hc_process may be running. [setup] */
void hc_reset(hc_engine *engine);

/* Frames of added latency: 0. [rt] */
int hc_latency(const hc_engine *engine);

/* Fill in what the engine is and its counters. Beside hc_process the counters may be a block old. [setup] */
void hc_get_info(hc_engine *engine, hc_info *info);

/* Name the i-th device that hc_open could use, as "cuda:0\tNVIDIA H200, ..." (the string for hc_config.backend, a tab,
 * a description). Returns HC_OK, or HC_EINVAL when there is no i-th. Initialises CUDA. [setup] */
int hc_list_devices(int i, char *text, size_t cap);

typedef struct hc_port {      /* a channel of a configuration                                                    */
    const char *name;         /* as given, or in-1, in-2, ... and out-1, out-2, ...                              */
    const char *connect;      /* JACK port to connect it to at the start; NULL = none                            */
} hc_port;

typedef struct hc_remark {    /* what is wrong, or worth knowing, in a configuration                             */
    int line;                 /* from 1; 0 = the whole file                                                      */
    int code;                 /* HC_OK: a warning, it is played all the same; else the error                     */
    const char *text;         /* "hall.conf:12: /impulse/read: input 9, ..."; "hall.conf:12: warning: ..."       */
} hc_remark;

typedef struct hc_responses { /* a mask as read from a file                                                      */
    int n_channels;           /* of the file; 0 for a configuration                                              */
    int n_frames;             /* after resampling; of a configuration's longest route, delay included            */
    int rate, file_rate;      /* Hz of the samples here and of the file; 0 for a text of coefficients. For a
                                 configuration: the session's, or what its files agree on, or 0; and 0           */
    float **channel;          /* [n_channels][n_frames]; NULL for a configuration                                */
    int n_in, n_out;          /* of the routes; a configuration's own counts                                     */
    int n_routes;
    hc_route *routes;         /* [n_routes]; of a configuration one a pair, and pairs with the same data share
                                 their taps, so that the engine shares their spectrum                            */
    hc_port *in_port, *out_port; /* [n_in], [n_out] of a configuration; else NULL                                */
    const char *client, *server; /* names wished for at JACK; NULL = none                                        */
    int partition;            /* wished for by a configuration, 0 = none; the engine chooses its own             */
    int n_distinct;           /* responses of a configuration that differ in taps, gain or delay                 */
    int64_t distinct_frames;  /* of all of these together, delays included                                       */
    int n_errors, n_warnings; /* of a configuration, all of them                                                 */
    int n_remarks;            /* the first of them by line, at most 10000                                        */
    hc_remark *remarks;
    void *memory;             /* the library's                                                                   */
} hc_responses;

enum { HC_KEEP_RATE = 1 };    /* flags of hc_responses_load: do not resample                                      */

/* Read a mask: a sound file, coefficients as text (.txt, .csv: one frame a line, a column a channel; blanks, commas or
 * semicolons between; '#' starts a comment), or a configuration (.conf). rate: resample to it, the gain of the response
 * kept; 0 = keep the files'.
 *
 * n_in: input channels to route for. M mask channels on C inputs: M = 1, the same on every channel; M = C, channel by
 * channel; C = 1, an output a mask channel; C = 2 and M = 4, true stereo in the order L>L L>R R>L R>R; anything else is
 * HC_EINVAL. n_in = 0: make no routes.
 *
 * A configuration (the format of jconvolver, with mcfx's packed matrix; haloconv(1) has its grammar) has counts of its
 * own: n_in is 0, or must equal its input count. Offset and length of its files count frames of the file, before it is
 * resampled; delays and the maximum length count frames of the session. Files are sought in the folder of the last /cd,
 * else beside the configuration; a relative /cd starts there too, or in the working directory where only that has it.
 * All its errors are in remarks, each with file and line; why has the first. Its warnings are there on success too.
 *
 * Fails with HC_EFILE, HC_EINVAL (NaN or Inf: the text has channel and frame; no frames), HC_ENOMEM, HC_EUNSUPPORTED.
 * The caller frees with hc_responses_free, after a failure too: the remarks are there then. [setup] */
int hc_responses_load(const char *path, int n_in, int rate, unsigned flags, hc_responses *responses, char *why,
                      size_t cap);
void hc_responses_free(hc_responses *responses); /* [setup] */

#ifdef __cplusplus
}
#endif
#endif
