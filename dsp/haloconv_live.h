/* haloconv_live - a convolver that keeps playing while its mask, block size, sample rate or backend changes, and when a
 * GPU is late or lost. JACK, PortAudio and LV2 are adapters over it; so is any other live host.
 *
 *   audio thread                         a thread of the host's own (a loader, an LV2 worker)
 *   hc_live_process   convolve a block   hc_live_work     load masks, build engines, free what is no longer played
 *   hc_live_request   ask for a change
 *   hc_live_get_stats what happened
 *
 * The library starts no thread that loads or builds: the host calls hc_live_work whenever hc_live_has_work says so. The
 * thread tags of haloconv.h hold: [rt] or [setup]. Here [setup] calls may come from any threads at once (they take
 * turns) and beside [rt] calls, unless a call says otherwise. A live convolver that is NULL: HC_EINVAL, or nothing.
 *
 *   in --- input history --- engine (crossfade between masks, and between engines) --- predelay --- wet --+-- gain -- out
 *                 |                                                                                       |
 *                 +-- dry --------------------------------------------------------------------------------+
 *
 * A new mask is a mask swap inside the engine, if it is no longer than the engine was made for. Every other change makes
 * a new engine: it processes the input history first, then the output crossfades to it. So nothing clicks, and a new
 * engine plays with the past that the history holds.
 *
 * Standby: beside an engine on a device, an engine on the CPU processes the same input in a thread of its own, and its
 * output is discarded. When the device is lost, the standby engine plays from that very block on; when it is late, after 8
 * late blocks and 20 ms in a row. Without a standby engine hc_live_work makes an engine on the CPU.
 */
#ifndef HALOCONV_LIVE_H
#define HALOCONV_LIVE_H

#include "haloconv.h"
#include "haloconv_masks.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct hc_live hc_live;

enum hc_live_level { HC_LIVE_NOTE, HC_LIVE_WARNING, HC_LIVE_ERROR };

typedef struct hc_live_config { /* hc_live_config_init sets the right-hand column; zero and NULL mean the default       */
    size_t size;             /* sizeof(hc_live_config)                                                                  */
    int n_in, n_out;         /* channels; a mask may have fewer                                                   2, 2  */
    int rate, block;         /* Hz; most frames of a call as a rule (a longer call is cut)                  48000, 64  */
    const char *backend;     /* as hc_config, or "gpu": "hybrid" where the head costs the CPU little, else "cuda" "auto" */
    const char *method;      /* as hc_config                                                                    "auto"  */
    int wait_us;             /* as hc_config; a device that takes 10 s is lost also with HC_WAIT_FOREVER             0  */
    int spin;                /* as hc_config                                                                         0  */
    int n_threads;           /* as hc_config                                                                         0  */
    double fade_ms;          /* crossfade to another mask or engine; below 0 = none                                 10  */
    double standby_share;    /* share of a block's time that a standby engine may take; a mask that takes more has no
                                standby, and a lost device then leaves the input (lost_dry) or silence; below 0 = no
                                standby: hc_live_work replaces a lost device by an engine on the CPU               0.6  */
    int cpu_if_no_device;    /* 1 = the CPU plays, with a warning, where a device cannot be opened                   0  */
    int late_dry, lost_dry;  /* 1 = a late block, and all blocks of a lost device, are the input; 0 = silence. A block
                                without its tail ("hybrid") stays as it is                                    0, 0  */
    int fade_in;             /* 1 = the first blocks fade in from silence                                            0  */
    int limit_feedback;      /* 1 = turn the output down by 40 dB for 2 s when it stays at full scale for 0.5 s      0  */
    int keep_rate;           /* 1 = masks are not resampled                                                          0  */
    double history_s;        /* past input that a new engine can process, at the first rate                          6  */
    double most_predelay_ms; /* room for the predelay                                                                0  */
    void (*say)(void *data, int level, const char *text); /* a line about a mask, an engine or a device (enum
                                hc_live_level); called inside [setup] calls, and must make none                   NULL  */
    void *data;              /* for say                                                                                 */
} hc_live_config;

/* Set the defaults. [rt] */
void hc_live_config_init(hc_live_config *config);

/* Make a live convolver; it plays no wet signal until a mask is there. The config is copied. Fails with HC_EINVAL,
 * HC_ENOMEM. [setup] */
int hc_live_open(const hc_live_config *config, hc_live **live, char *why, size_t cap);

/* Free it; no other call may run. HC_EDEVICE: a device hangs and may still write to its memory, which is left as it is;
 * the process should end by _exit. NULL is allowed. [setup] */
int hc_live_close(hc_live *live);

/* ---- audio ---- */

/* Convolve n frames, any count, of in[n_in] into out[n_out]; an out may be an in, none may be NULL. NaN and infinity in
 * the input become 0 and are counted. Returns HC_OK, HC_LATE (a device missed some of it), HC_EDEVICE (nothing
 * convolves: late_dry and lost_dry say what is heard). [rt], one thread at a time */
int hc_live_process(hc_live *live, const float *const *in, float *const *out, int n);

enum hc_live_knob { HC_WET, HC_DRY, HC_GAIN, HC_BYPASS, HC_FADE, HC_PREDELAY, HC_N_KNOBS };

/* Turn a knob: gains are linear, bypass and fade (of everything) 0 to 1, predelay in frames. Every change takes 20 ms,
 * except before the first block. Values at first: 1, 0, 1, 0, 1, 0. [rt], any thread */
void hc_live_set(hc_live *live, int knob, float value);
float hc_live_get(const hc_live *live, int knob); /* what was asked for. [rt], any thread */

/* Wait for a device as hc_config.wait_us says, from the next block on; a block waits for half of its time by default.
 * [rt], any thread */
void hc_live_set_wait(hc_live *live, int wait_us);

/* on: there is no deadline, every block is complete; a device that takes 10 s is lost. [rt], any thread */
void hc_live_set_freewheel(hc_live *live, int on);

typedef struct hc_live_change { /* what is to change; NULL and 0 stay as they are                                       */
    size_t size;             /* sizeof(hc_live_change)                                                                  */
    const char *mask;        /* path, as hc_responses_load reads it; the one that plays = load it again                 */
    const char *backend;     /* as hc_live_config                                                                       */
    int rate, block;
} hc_live_change;

/* Ask for a change, which hc_live_work makes. The last request wins; one that fails changes nothing. At another rate the
 * convolved signal is silence until the new engine is there. HC_EINVAL: a text of 4096 bytes or more, or a negative
 * number. [rt], any thread */
int hc_live_request(hc_live *live, const hc_live_change *change);

/* Is there something for hc_live_work to do? [rt], any thread */
int hc_live_has_work(const hc_live *live);

/* Do what was asked for and what the audio thread left: load, build, warm up, free. May take seconds. Returns HC_OK, or
 * why a request failed (config.say has the text). [setup] */
int hc_live_work(hc_live *live);

/* Play these responses, which were loaded for n_in inputs at the present rate, as hc_live_work would have loaded them
 * from `path`. They are the live convolver's from here on, whatever is returned. Fails as hc_open and hc_mask_make do.
 * [setup] */
int hc_live_play(hc_live *live, const char *path, hc_responses *responses, char *why, size_t cap);

/* Forget the input and end all fades, as if just opened; the mask stays. No hc_live_process may be running. [setup] */
void hc_live_reset(hc_live *live);

/* ---- what happened ---- */

enum hc_live_state {
    HC_LIVE_OK,              /* the engine plays                                                                       */
    HC_LIVE_STANDBY,         /* its device is gone, the standby engine plays                                           */
    HC_LIVE_LOST             /* its device is gone, and nothing convolves                                              */
};

typedef struct hc_live_stats {
    size_t size;             /* sizeof(hc_live_stats), set by the caller                                               */
    uint64_t blocks, frames; /* calls of hc_live_process, and their frames                                             */
    uint64_t late;           /* blocks that a device did not convolve in time, or not the tail of; of a call that is
                                longer than the engine's block each part counts                                        */
    uint64_t lost;           /* blocks that nothing convolved, for want of a device                                    */
    uint64_t over;           /* calls that took longer than their frames last                                          */
    uint64_t non_finite;     /* NaN and infinity in the input                                                          */
    uint64_t clipped;        /* output samples beyond full scale                                                       */
    uint64_t limited;        /* times that feedback was turned down                                                    */
    uint64_t masks;          /* masks loaded after the first                                                           */
    uint64_t rebuilds;       /* engines made after the first                                                           */
    uint64_t took_ns;        /* of the last call                                                                       */
    int faded_out;           /* 1 = the fade (HC_FADE) has arrived at 0                                                */
    int changing;            /* 1 = a new engine is about to play, or fades in                                         */
    int state;               /* enum hc_live_state                                                                     */
    int rate;                /* Hz, of the last block                                                                  */
} hc_live_stats;

/* Copy the counters as they were after one and the same block. [rt], any thread */
void hc_live_get_stats(const hc_live *live, hc_live_stats *stats);

enum { HC_TIME_CLASSES = 16 * 34 }; /* 16 an octave, up to 2^37 ns: quantiles are right within 3 % */
typedef struct hc_times {    /* how long calls of hc_live_process took                                                 */
    uint64_t n, max_ns;
    uint64_t classes[HC_TIME_CLASSES];
} hc_times;

void hc_live_get_times(const hc_live *live, hc_times *times);      /* since hc_live_open. [rt], any thread */
uint64_t hc_times_quantile(const hc_times *times, double share);   /* ns that this share (0 to 1) stayed within. [rt] */
void hc_times_subtract(hc_times *now, const hc_times *before);     /* what came in between. [rt] */
void hc_times_add(hc_times *to, const hc_times *more);             /* [rt] */

/* Largest magnitudes of input and output since the last call. [rt], any thread */
void hc_live_take_peaks(hc_live *live, float *in, float *out);

typedef struct hc_live_info {
    size_t size;             /* sizeof(hc_live_info), set by the caller                                                */
    char device[128];        /* as hc_info, of the engine that plays or is about to; "" = none yet                     */
    const char *backend, *method; /* static                                                                           */
    int rate, block;         /* of that engine                                                                         */
    int longest;             /* taps of its mask                                                                       */
} hc_live_info;

/* What plays. [setup] */
void hc_live_get_info(hc_live *live, hc_live_info *info);

/* The path of the mask that plays, or is about to, cut to cap bytes; "" = none yet. Returns its length. [setup] */
size_t hc_live_mask(hc_live *live, char *path, size_t cap);

/* Does input `in` reach output `out` through the mask? stats.masks changes when the answer may. [setup] */
int hc_live_reaches(hc_live *live, int in, int out);

#ifdef __cplusplus
}
#endif
#endif
