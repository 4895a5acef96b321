/* haloconv_live - a convolver that keeps playing while its mask, block size, sample rate or backend changes, and when a
 * GPU is late or lost. JACK, PortAudio and LV2 are adapters over this header; so is any other live host.
 *
 *   in --- input history --- engine (crossfade of masks and engines) --- predelay --- wet --+-- gain --- out
 *                |                                                                          |
 *                +-- dry -------------------------------------------------------------------+
 *
 * Conventions
 *   Those of haloconv.h hold, with its tags [rt] and [setup]. Several threads may make [setup] calls of this header at
 *   once (one waits for the other), also in parallel with [rt] calls, unless a call says otherwise.
 *   If the live convolver is NULL, a call returns HC_EINVAL; a call that returns no error code does nothing or returns
 *   0.
 *   A child of fork() must not use a live convolver of its parent, nor close it: it lacks the threads.
 *
 * Threads
 *   The library starts no thread that loads masks or builds engines: the host calls hc_live_work on a separate thread
 *   whenever hc_live_has_work says so.
 *
 *     audio thread                               worker (a loader thread, an LV2 worker)
 *     hc_live_process   convolves a block        hc_live_work   loads masks, builds engines, frees old engines
 *     any thread: hc_live_request asks for a change, hc_live_get_stats returns the counters
 *
 * Changes
 *   A mask that hc_live_keep keeps ready has a separate engine, which processes the input all the time. Another mask
 *   is a mask swap inside the engine if it is no longer than the engine was made for. Every other change makes a new
 *   engine. The new engine first processes the input history; then the output crossfades to it. So
 *   no change clicks, and a new engine has the tail of the earlier input.
 *
 * Standby engine
 *   If the engine runs on a device, a second engine on the CPU processes the same input in a separate thread, and its
 *   output is discarded. When the device is lost, the output of the standby engine is used from this block on. When the
 *   device is late for 8 blocks in a row and for 20 ms, the same happens. Without a standby engine hc_live_work
 *   makes a new engine on the CPU.
 *
 * Moving sources
 *   With hc_live_config.n_sources the mask is a bank of responses: a file of hc_bank_load, also a sound file, or a
 *   configuration with /bank/read and /source/new, whose other lines play beside them. At first every source of a bank
 *   file is straight ahead, and a source of a configuration at the position in its line. hc_live_steer moves them.
 *   hc_live keeps the positions and sends them to each engine: the one that plays, a standby engine, and each new
 *   engine before its first block. Another bank that is no longer than the engine was made for is a fade of every
 *   source inside the engine, as any movement is (haloconv_scenes.h); else a new engine is made. While the standby
 *   engine is behind, it may make a move some blocks early or a block late. The dry signal of output i is input i,
 *   also for sources.
 *
 * A session
 *   hc_live_config c;  hc_live_config_init(&c);  c.n_in = 2; ...;  hc_live_open(&c, &live, why, sizeof why);
 *   hc_live_change change = {.size = sizeof change, .mask = "hall.wav"};  hc_live_request(live, &change);
 *   worker: if (hc_live_has_work(live)) hc_live_work(live);
 *   audio thread: hc_live_process(live, in, out, n) ...
 *   hc_live_close(live);
 */
#ifndef HALOCONV_LIVE_H
#define HALOCONV_LIVE_H

#include "haloconv.h"
#include "haloconv_masks.h"
#include "haloconv_scenes.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct hc_live hc_live; /* a live convolver: engines, input history, mixer, counters */

enum hc_live_level { HC_LIVE_NOTE, HC_LIVE_WARNING, HC_LIVE_ERROR }; /* kind of a message to hc_live_config.say */

/* A field that is 0 or NULL has the default of the right-hand column. */
typedef struct hc_live_config {
    size_t size;             /* sizeof(hc_live_config); hc_live_config_init sets it                               */

    /* ---- every session ---- */
    int n_in, n_out;         /* channels; a mask may have fewer                                             2, 2  */
    int rate;                /* Hz, 1 to 2^24                                                              48000  */
    int block;               /* usual frames of a call of hc_live_process; a longer call is cut               64  */
    const char *backend;     /* as in hc_config, or "gpu": "hybrid" if the head needs little CPU time,    
                                else "cuda"                                                               "auto"  */
    const char *method;      /* as in hc_config                                                           "auto"  */
    double fade_ms;          /* crossfade to another mask or engine, at most 2^30 frames; below 0: none       10  */
    double history_s;        /* seconds of input, at the first rate, that a new engine can process; at most 86400.
                                It fixes memory, as max_predelay_ms does                                       6  */
    double max_predelay_ms;  /* largest predelay, up to 2^24 frames at the first rate                          0  */
    void (*say)(void *data, int level, const char *text); /* gets a line about a mask, an engine or a device, without
                                control characters, and its enum hc_live_level; runs inside [setup] calls, and must
                                make none                                                                   NULL  */
    void (*answer)(void *data, uint64_t number, int error, const char *why); /* gets the result of the request for a
                                mask that has this number: HC_OK, or the error and its reason. A request that a later
                                one replaced gets none. Runs inside [setup] calls, and must make none       NULL  */
    void *data;              /* first argument of say and answer                                            NULL  */
    int n_threads;           /* as in hc_config                                                        automatic  */

    /* ---- a device: backends cuda, hybrid, gpu, auto ---- */
    int wait_us;             /* as in hc_config; with HC_WAIT_FOREVER a device that takes 10 s for a block
                                is lost                                               half of a block's time (0)  */
    int spin;                /* as in hc_config                                                                0  */
    int cpu_if_no_device;    /* 1: if a device cannot be opened, the CPU plays, with a warning                 0  */
    int late_dry;            /* 1: a late block is the input; 0: silence. With "hybrid" a late block lacks only
                                its tail, and is played as it is                                               0  */
    int lost_dry;            /* 1: the blocks of a lost device are the input; 0: silence                       0  */
    double standby_share;    /* largest share of a block's time that a standby engine may need. A mask that needs
                                more has no standby engine; after a loss of the device the output is then the
                                input (lost_dry) or silence. Below 0: no mask has one, and hc_live_work replaces
                                a lost device by an engine on the CPU                                        0.6  */

    /* ---- what one host wants and another does not ---- */
    int fade_in;             /* 1: the first blocks fade in from silence                                       0  */
    int limit_feedback;      /* for microphones and loudspeakers in one room. 1: an output that stays at full scale
                                for 0.5 s is turned down by 40 dB for 2 s                                      0  */
    int keep_rate;           /* 1: masks are not resampled                                                     0  */
    int left_of_stereo;      /* for a mono plugin. 1: with one input and one output, a mask of two channels plays
                                its left one, with a warning; 0: it is refused                                 0  */

    /* ---- moving sources (haloconv_scenes.h) ---- */
    int n_sources;           /* the first n_sources inputs are steered: hc_live_change.mask is then a bank, or a
                                configuration that reads banks                                                 0  */
    int mix_entries;         /* 0, 1: a source plays the mix of hc_bank_mix, and banks are loaded with
                                hc_bank_options.mix; HC_MIX_NONE: the nearest entry, which steps as it moves   0  */
    int normalise;           /* as in hc_bank_options                                                          0  */
    double grid_deg;         /* as in hc_bank_options                                                          0  */
    double glide_ms;         /* duration of a source's movement to a position of hc_live_steer, at most 1000; below 0:
                                none. 0: 1.25 times the time between two positions plus a block, 10 to 50      0  */
} hc_live_config;

/* Sets every field to its default and size to sizeof(hc_live_config). [rt] */
void hc_live_config_init(hc_live_config *config);

/* Makes a live convolver; its convolved signal is silence until a mask is loaded. The config is copied; NULL: all
 * defaults. Fails with HC_EINVAL (a value out of range or NaN, a backend of 64 bytes or more, a size that no version of
 * the struct has, a field of a later version that is not 0), HC_ENOMEM; *live is NULL then. [setup] */
int hc_live_open(const hc_live_config *config, hc_live **live, char *why, size_t cap);

/* Frees a live convolver; no other call may be running. HC_EDEVICE: a device hangs, and a thread frees its engine
 * when it answers; to end the process before, use _exit. NULL is allowed. [setup] */
int hc_live_close(hc_live *live);

/* ---- audio ---- */

/* Convolves n frames, any number from 0 on. in[n_in][n], out[n_out][n]; an out may be an in, no pointer may be NULL.
 * NaN, Inf and samples beyond 2^100 (1.27e30) in the input count as 0. An output beyond the range of a float becomes 0:
 * no output is ever NaN or Inf. Returns HC_OK; HC_LATE (a device missed a part of these frames); HC_EDEVICE (no engine
 * convolves: config.lost_dry decides the output); HC_EINVAL (out is not touched). [rt], one thread at a time */
int hc_live_process(hc_live *live, const float *const *in, float *const *out, int n);

enum hc_live_knob {
    HC_WET,      /* linear gain of the convolved signal                                      1  */
    HC_DRY,      /* linear gain of the input                                                 0  */
    HC_GAIN,     /* linear gain of both together                                             1  */
    HC_BYPASS,   /* 0: the mix; 1: the input alone                                           0  */
    HC_FADE,     /* 1: the output; 0: silence                                                1  */
    HC_PREDELAY, /* frames, up to config.max_predelay_ms                                    0  */
    HC_N_KNOBS
};

/* Sets a knob; the right-hand column above has the first values. A change takes effect over 20 ms, before the first
 * block at once. Values that are not finite are ignored. [rt], any thread */
void hc_live_set(hc_live *live, int knob, float value);

/* Returns the value of a knob that was set last; 0: there is no such knob. [rt], any thread */
float hc_live_get(const hc_live *live, int knob);

typedef struct hc_live_knob_change {
    int frame;               /* of the call, where the change begins                                                 */
    int knob;                /* enum hc_live_knob                                                                    */
    float value;
} hc_live_knob_change;

/* Convolves n frames as hc_live_process does, with changes of knobs as by hc_live_set, each from its frame on. Use it for
 * a host's automation instead of a call for each piece between two changes: the engine convolves the frames as one call,
 * and a device has the time of the whole call. changes[n_changes] are in the order of their frames, of which those before
 * 0 count as 0, and those from n on take effect with the next call. HC_EINVAL also if n_changes is negative, or
 * `changes` is NULL and n_changes is not 0. [rt], one thread at a time */
int hc_live_process_changes(hc_live *live, const float *const *in, float *const *out, int n,
                            const hc_live_knob_change *changes, int n_changes);

/* on = 1: the host freewheels. A block has no deadline and is complete; a device that takes 10 s for a block is
 * lost. on = 0: config.wait_us holds again. [rt], any thread */
void hc_live_set_freewheel(hc_live *live, int on);

/* ---- moving sources ---- */

/* Moves source `source` to a position relative to the listener (metres: x ahead, y left, z up), with a linear gain; 0
 * is silence. position NULL: the source jumps to entry `entry` of its bank, for banks without positions; else `entry`
 * is ignored. An entry that the bank does not have (hc_live_n_entries) is silence. From the next hc_live_process on,
 * the source glides to the position in config.glide_ms: the short way on the sphere for the direction, linearly for
 * distance and gain. In each call, or each block of the engine if that is shorter, it fades to the entries for its
 * position at the end of the call. A tracker of 20 to 150 positions a second is followed with a steady speed, and 10 to
 * 50 ms late. A source jumps (1) before its first block, (2) with glide_ms below 0. From gain 0 its position jumps and
 * its gain glides. A jump takes effect with the next hc_live_process.
 *
 * The position stays through changes of bank, rate, block and backend, which end its glide. It may be set before a bank
 * is loaded. A source that was never moved is at the position in its configuration, else straight ahead, with gain 1.
 * The last call wins. HC_EINVAL: the source is out of range, a value is not finite, or the entry is negative. [rt], any
 * thread */
int hc_live_steer(hc_live *live, int source, const float position[3], int entry, float gain);

/* ---- changes ---- */

typedef struct hc_live_change { /* NULL and 0: no change                                                             */
    size_t size;             /* sizeof(hc_live_change), set by the caller                                            */
    const char *mask;        /* path for hc_responses_load, or with sources for hc_bank_load; the path of the mask that
                                plays: load it again                                                             */
    const char *backend;     /* as in hc_live_config                                                                 */
    int rate, block;         /* as in hc_live_config                                                                 */
    uint64_t number;         /* the request's number, for hc_live_config.answer                                      */
    float trim_db;           /* masks end behind the last frame within trim_db of the peak of all responses that play,
                                with their gains; `haloconv mask trim --below` cuts a sound file so. A response that
                                lies behind this end is silent. 1 or more; INFINITY, as at first: nothing is cut. The
                                mask that plays is loaded again. Banks stay whole                                    */
} hc_live_change;

/* Asks for a change, which hc_live_work makes. The last request wins; a request that fails changes nothing. After a
 * request for another rate the convolved signal is silence until the new engine is ready. HC_EINVAL: a path of 4096
 * bytes or more, a backend of 64 bytes or more, or a number out of its range. [rt], any thread */
int hc_live_request(hc_live *live, const hc_live_change *change);

/* Returns 1 if hc_live_work has something to do, else 0. [rt], any thread */
int hc_live_has_work(const hc_live *live);

/* Loads masks and builds engines as requested, replaces engines of lost devices, and frees engines that no longer play.
 * Returns HC_OK, or the error of the request that failed; config.say gets its text. [setup] */
int hc_live_work(hc_live *live);

/* As hc_live_request for the mask of a path, then hc_live_work: for a worker that has a queue of its own. number: of the
 * request, for config.answer; 0: none. HC_EINVAL also if the path is NULL or has 4096 bytes or more. [setup] */
int hc_live_load(hc_live *live, const char *path, uint64_t number);

enum { HC_LIVE_MAX_KEPT = 32 };

/* Keeps the masks of n paths ready (0 to HC_LIVE_MAX_KEPT): hc_live_work loads them, and makes an engine for each. A
 * thread of the live convolver lets these engines process the input, so that a request for one of these masks begins
 * its crossfade with the next hc_live_process, whatever the mask's length, and hc_live_work only records it. A fade
 * under way ends first. After a mask that is not kept ready has played, hc_live_work must first get its engine back. If
 * the thread gets too little time and is more than two blocks behind the input, the fade begins as many blocks later as
 * it is further behind. The mask that played stays ready. A ready mask costs the memory of its engine and the time of
 * its convolution, on another processor (stats.ready, config.say). The masks use at most a quarter of the machine's
 * memory and, by the expected cost, 60 % of a processor; earlier masks of the list have priority. A mask that is not
 * kept ready plays as without this call.
 *
 * Replaces the list of an earlier call; n = 0: keep none. A mask that is in both lists stays ready, and is loaded again
 * if its file has changed. A file that has changed when its mask is asked for is also loaded again: the fade to the
 * earlier content begins at once. A change of rate, block or backend makes all ready masks anew. Returns HC_OK;
 * HC_EINVAL (n out of range, a path that is NULL, empty, or has 4096 bytes or more; a session with sources keeps no
 * bank ready); HC_ENOMEM. [setup], at once: it does not wait for hc_live_work */
int hc_live_keep(hc_live *live, const char *const *paths, int n);

/* Compares two masks of hc_live_keep, A and B, at equal loudness; NULL and NULL end the comparison. Requests switch
 * between them. While both are ready, both convolve the input, and their convolved signals are measured: the integrated
 * loudness by ITU-R BS.1770 (K-weighted, gated; every channel counts alike) since the call. The louder of the two is
 * turned down to the loudness of the other, by at most 40 dB; the gain belongs to the mask and is crossfaded with it.
 * It follows the measurement in steps of 100 ms, with ramps of 20 ms. Masks that are made anew, as after a change of
 * the rate, are measured anew. The dry signal and all knobs are left out. stats.compared, loudness and compared_gain
 * have the result. Returns HC_OK; HC_EINVAL (one path is NULL, both are the same, or one has 4096 bytes or more).
 * [setup], at once: it does not wait for hc_live_work */
int hc_live_compare(hc_live *live, const char *a, const char *b);

/* Plays responses that the caller has loaded from `path` for n_in inputs at the present rate, as hc_live_work would;
 * with sources, those of a configuration (HC_WITH_SOURCES) or of a sound file, and this call loads the banks. They
 * replace a mask that was requested before. The live convolver owns the responses after the call, also after a
 * failure. Fails as hc_open, hc_mask_make and hc_bank_load do. [setup] */
int hc_live_play(hc_live *live, const char *path, hc_responses *responses, char *why, size_t cap);

/* Forgets the input history and ends all fades; the mask and the knobs stay. No hc_live_process may run. [setup] */
void hc_live_reset(hc_live *live);

/* As hc_live_reset, but the next hc_live_process does it, whatever a worker does meanwhile; a mask that is being loaded
 * then comes without the input before. That hc_live_process also waits for the engine's device, as long as for a block,
 * and for its threads on the CPU; a device that is late is not reset. It clears the memory of the engine: with a mask
 * of 1 s on the CPU in 26 us for stereo, in 1.5 ms for 64 channels. [rt], any thread */
void hc_live_forget(hc_live *live);

/* ---- counters ---- */

enum hc_live_state {
    HC_LIVE_OK,              /* the engine plays                                                                     */
    HC_LIVE_STANDBY,         /* the device is lost, and the standby engine plays                                     */
    HC_LIVE_LOST             /* the device is lost, and no engine plays                                              */
};

typedef struct hc_live_stats {
    size_t size;             /* sizeof(hc_live_stats), set by the caller                                             */
    uint64_t blocks, frames; /* calls of hc_live_process, and their frames                                           */
    uint64_t late;           /* late blocks: a device missed its wait, and the block is silence or lacks its tail; a call
                                that is longer than the engine's block counts once for each late chunk               */
    uint64_t lost;           /* lost blocks: no engine convolves them, because the device is lost                    */
    uint64_t overruns;       /* calls that took longer than their frames last; none while freewheeling               */
    uint64_t non_finite;     /* input samples replaced by 0: NaN, Inf, and those beyond 2^100 (1.27e30)              */
    uint64_t clipped;        /* output samples beyond full scale                                                     */
    uint64_t limited;        /* how often the output was turned down (config.limit_feedback)                         */
    uint64_t masks;          /* changes of the mask after the first                                                  */
    uint64_t rebuilds;       /* engines made after the first                                                         */
    uint64_t took_ns;        /* duration of the last call                                                            */
    int faded_out;           /* 1: HC_FADE is 0 and its fade has ended                                               */
    int changing;            /* 1: a new engine waits to play, or fades in                                           */
    int state;               /* enum hc_live_state                                                                   */
    int rate;                /* rate of the last block, Hz                                                           */
    int ready;               /* masks of hc_live_keep to which a fade can begin with the next block, also the one that
                                plays                                                                                */
    int compared;            /* 1: mask A of hc_live_compare plays; 2: mask B; 0: neither, or they are not ready     */
    float loudness[2];       /* LUFS of the convolved signals of A and B since they are compared; -INFINITY: unknown,
                                as before the first 400 ms above -70 LUFS                                            */
    float compared_gain[2];  /* linear gains that make A and B equally loud                                          */
    uint64_t rests;          /* pauses of 0.1 ms of overloaded real-time threads in this process, before RLIMIT_RTTIME
                                would end it                                                                         */
    uint64_t overflowed;     /* output samples that were beyond the range of a float, and became 0                   */
} hc_live_stats;

/* Copies the counters; all of them are of the same moment, the end of a block. The caller sets stats->size. [rt], any
 * thread */
void hc_live_get_stats(const hc_live *live, hc_live_stats *stats);

enum { HC_TIME_CLASSES = 16 * 34 }; /* 16 for each octave, up to 2^37 ns: quantiles are right within 3 % */

/* A histogram of the durations of hc_live_process. The sum and the difference of two copies are histograms, too: max_ns
 * of a sum is the larger max_ns, of a difference hc_times_quantile(&difference, 1). */
typedef struct hc_times {
    uint64_t n, max_ns;      /* number of calls; duration of the longest                                             */
    uint64_t classes[HC_TIME_CLASSES]; /* number of calls in each class of durations                                 */
} hc_times;

/* Copies the durations of all calls since hc_live_open. [rt], any thread */
void hc_live_get_times(const hc_live *live, hc_times *times);

/* Returns the duration in ns that a share (0 to 1) of the calls did not exceed; 0 without calls. [rt] */
uint64_t hc_times_quantile(const hc_times *times, double share);

/* Stores the largest magnitudes of input and output since the last call that asked for them. `in` or `out` may be NULL.
 * [rt], any thread */
void hc_live_take_peaks(hc_live *live, float *in, float *out);

/* Stores the largest magnitude of each channel, in[n_in] and out[n_out], since the last call of this function; each may
 * be NULL. Its peaks are apart from those of hc_live_take_peaks. [rt], any thread */
void hc_live_take_channel_peaks(hc_live *live, float *in, float *out);

enum { HC_LIVE_MAX_SIGNAL = 16384 };

/* Copies the newest n frames of the input, in[n_in][n], and of the output, out[n_out][n], for a display: n is 1 to
 * HC_LIVE_MAX_SIGNAL. hc_live_process copies its output for this purpose only during the second after each call, and
 * not before the first one; output that it has not copied is 0, or that of an earlier call. HC_EINVAL, HC_ENOMEM.
 * [setup], any thread: it does not wait for the audio, and for hc_live_work only for a moment */
int hc_live_get_signals(hc_live *live, float *const *in, float *const *out, int n);

/* ---- what plays ---- */

typedef struct hc_live_info { /* describes the newest engine, which plays or is about to                             */
    size_t size;             /* sizeof(hc_live_info), set by the caller                                              */
    char device[HC_DEVICE_CAP]; /* as in hc_info; "": no engine yet                                                  */
    const char *backend, *method; /* as in hc_info; static                                                           */
    unsigned char *reaches;  /* set by the caller: NULL, or memory for [n_in][n_out] of hc_live_config. Gets 1 where the
                                mask has a route from the input to the output, or a source a bank with that output, else
                                0; it changes only when a mask is loaded (stats.masks)                               */
    uint64_t ready_memory;   /* bytes of the masks that hc_live_keep keeps ready, also the one that plays            */
    int rate, block;         /* rate in Hz, block in frames                                                          */
    int longest;             /* frames of the longest response of the engine's mask                                  */
    int n_sources;           /* sources that play an entry of a bank; 0: no banks                                    */
    int n_banks, n_entries;  /* number of banks; number of entries of all banks                                      */
    int n_bank_out;          /* outputs of the largest bank                                                          */
    float bank_gain_db;      /* gain_db (hc_bank_data) of the loudest bank                                           */
} hc_live_info;

/* Describes the newest engine. The caller sets info->size and info->reaches. [setup] */
void hc_live_get_info(hc_live *live, hc_live_info *info);

/* Writes the path of the mask that plays, or is about to, cut to cap bytes; "": no mask yet. Returns the length
 * of the whole path. [setup] */
size_t hc_live_mask(hc_live *live, char *path, size_t cap);

/* Returns the number of entries of the bank that a source plays; 0: it plays none. The answer changes only when a mask
 * is loaded. [setup], at once: it does not wait for hc_live_work */
int hc_live_n_entries(hc_live *live, int source);

#ifdef __cplusplus
}
#endif
#endif
