/* haloconv_scenes - moving sources: banks of responses, steered while they play.
 *
 *   bank       entries (directions or positions); each entry has a response to every output
 *   source     an input whose response is an entry of a bank, or a weighted mix of up to four entries
 *   steering   a request to play other entries; the engine crossfades to them
 *
 *   hc_config c;  hc_config_init(&c);  c.n_in = c.n_sources = 8;  c.n_out = 2;  c.bank_taps = 24000;
 *   hc_open(&c, &e, ...);
 *   hc_bank_data data = {.size = sizeof data};  hc_bank_load("kemar.sofa", 48000, NULL, &data, ...);
 *   hc_bank_make(e, &data, &bank, ...);  hc_bank_data_free(&data);
 *   any thread: hc_steer(e, source, bank, &entry, NULL, 1);      audio thread: hc_process(e, in, out, n)
 *   hc_close(e);  hc_bank_free(bank);
 *
 * Output
 *   Input s < hc_config.n_sources is source s. Its responses reach outputs 0 to n_out - 1 of its bank; they are added
 *   to what the mask plays there. The stream is cut into hops, counted from hc_open or hc_reset. At each edge of a hop
 *   a source begins to fade to the entries of its last request:
 *       y = (1 - g) (x * h_old) + g (x * h_new),     g[i] = (i + 1) / F,  i < F;   then g = 1
 *   where both terms have the whole history of x, and F is hc_config.steer_fade. h_old is the response that plays when
 *   the fade begins, even in the middle of an earlier fade. Long responses are cut into levels (hc_info.steer_levels).
 *   Level l has the hop S and the delay D. At frame T, a multiple of S, it reads the last request made before the
 *   hc_process that plays frame T, and its taps begin to fade at frame T + D. The head (level 0) has S = block, D = 0:
 *   the change is in effect with the next block. If F is more than S, F is rounded up to a multiple of S in this level,
 *   and g is linear over all these hops. At most HC_MAX_SOUNDING entries of a source sound at once: a request that
 *   needs more waits until the fade under way ends. Before the first hc_process, and before the first after hc_reset,
 *   no source fades.
 *
 * Conventions, tags and error codes are those of haloconv.h.
 */
#ifndef HALOCONV_SCENES_H
#define HALOCONV_SCENES_H

#include "haloconv.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct hc_bank hc_bank; /* responses that are ready to play on the engines of one device; it never changes    */

enum { HC_MAX_MIX = 4, HC_MAX_SOUNDING = 16 }; /* max. entries of a request; max. that a source sounds at once */

/* ---- responses of a bank ----------------------------------------------------------------------------------------- */

typedef struct hc_bank_data {  /* responses with their positions, in the host's memory                                */
    size_t size;               /* sizeof(hc_bank_data), set by the caller                                             */
    int n_entries, n_out, n_taps; /* each is 1 or more                                                                */
    int rate;                  /* Hz; 0: unknown                                                                      */
    const float *const *taps;  /* [n_entries * n_out] pointers to [n_taps]; entry e, output o at e * n_out + o        */
    const float (*position)[3]; /* [n_entries], metres: x ahead, y left, z up of the listener; NULL: no positions     */
    float gain_db;             /* largest gain for a sine, over all frequencies, entries and outputs                  */
    int file_rate;             /* Hz of the file                                                                      */
    int n_file_entries;        /* entries of the file; n_entries differs after interpolation to a grid                */
    const char *notes;         /* lines about the file and its changes: delays, resampling, grid, gain; or ""         */
    void *memory;              /* belongs to the library; NULL in a bank that the caller made, until hc_bank_index    */
    const double *onsets;      /* [n_entries * n_out] frames, as from hc_bank_onset; NULL: hc_bank_index finds them   */
} hc_bank_data;

typedef struct hc_bank_options { /* a field that is 0 has the default                                                 */
    size_t size;               /* sizeof(hc_bank_options), set by the caller                                          */
    double grid_deg;           /* interpolate to directions this many degrees apart, 0.5 to 45; HC_GRID_NONE: keep the
                                  file's entries; 0: the same, but with `mix` 2 degrees if the entries need
                                  them, lie on at most 64 spheres, and then occupy at most 1 GiB and a quarter
                                  of the memory                                                                       */
    int normalise;             /* 1: scale the bank to a largest gain of 0 dB                                         */
    int mix;                   /* 1: prepare the bank for hc_bank_mix. A mix of responses that begin at different
                                  times is a comb filter, so it mixes only entries that begin together.
                                  Entries need the grid if any begin more than 20 us apart                            */
    int sizes_only;            /* 1: read headers where they suffice, and fill in n_entries, n_out, n_taps, rate and
                                  file_rate only, at the rate of the file and without a grid                          */
} hc_bank_options;
enum { HC_GRID_NONE = -1, HC_MIX_NONE = -1 /* hc_live_config.mix_entries */ };

/* Reads a bank from a file: .sofa, a list (.csv), a folder of sound files, or one sound file, whose entry has no
 * position. haloconv-masks(5), BANKS OF RESPONSES, describes them, with their positions, delays and units.
 *
 * rate: resample to this rate in Hz and keep the gain; 0: keep the file's rate. options: NULL: all defaults. A grid
 * keeps the entries of the file, with their numbers. It adds entries behind them, in directions that are far from all
 * of them: a barycentric mix of three, with the onset delay of each output interpolated apart from the aligned
 * responses. It adds nothing beyond the measured range. The first line of the notes names the kind of file. A bank has
 * at most 65536 entries and 1024 outputs. Its responses, with the copies that are made while it is read, occupy at most
 * three quarters of the machine's memory; this is checked before samples are read.
 *
 * Fails with HC_EFILE (missing, damaged, cut short), HC_EINVAL (sizes that are 0, too large or contradict each other;
 * samples that are NaN or Inf: the text has the position), HC_ENOMEM, HC_EUNSUPPORTED (spectra or filters of second
 * order, not impulse responses; a build without libmysofa and HDF5, or a machine on which HDF5 is not installed).
 * *data is empty then. Free *data with hc_bank_data_free. [setup], any thread */
int hc_bank_load(const char *path, int rate, const hc_bank_options *options, hc_bank_data *data, char *why, size_t cap);

/* Returns 1 if the path is a bank: .sofa, a folder, or a .csv whose first line has a column `file`; else 0, also for a
 * sound file, which hc_bank_load and hc_responses_load both read. [setup] */
int hc_bank_is_file(const char *path);

/* Makes the table of hc_bank_nearest and hc_bank_mix for a bank that the caller made, as hc_bank_load does with
 * hc_bank_options.mix. The caller keeps the responses and positions, and must not change them; free the table with
 * hc_bank_data_free. The copy of a bank with a grid needs its onsets: those of the grid are interpolated, not found.
 * Fails with HC_EINVAL (no positions, or a table exists; no taps, or a tap that is NaN or Inf),
 * HC_ENOMEM. [setup] */
int hc_bank_index(hc_bank_data *data, char *why, size_t cap);

/* Frees what hc_bank_load or hc_bank_index has stored in *data. NULL is allowed. [setup] */
void hc_bank_data_free(hc_bank_data *data);

/* Finds the entry nearest to a direction or position: by the angle between both as seen by the listener, then, among
 * entries within 0.001 degrees of each other, by distance. Returns 0 if the bank has no positions. {0, 0, 0} counts as
 * ahead. A bank from hc_bank_load has a table for this search; without a table (hc_bank_index) the search examines
 * every entry. [rt], any thread */
int hc_bank_nearest(const hc_bank_data *data, const float position[3]);

/* Finds up to HC_MAX_MIX entries around a direction and their weights, whose sum is 1: barycentric on the sphere,
 * between three entries. Beyond the measured range it uses the nearest edge of that range along a great circle: below a
 * set that ends at -40 degrees, it keeps the azimuth and uses -40 degrees. If no entry lies within 35 degrees of one of
 * the six directions ahead, behind, left, right, up and down, directions there count as beyond the range. Returns the
 * number of entries.
 *
 * The engine adds the responses as they are. Two that begin t seconds apart make a comb filter with the gain
 * |cos(pi f t)| at frequency f. So entries are not mixed if their responses to any output begin more than 20 us apart:
 * it leaves out entries, smallest weights first, until the others begin together. If two mixed responses differ only in
 * their onset, the mix is at most 1.1 dB RMS wrong between 1 and 12 kHz. The responses of a head to directions 4
 * degrees apart begin up to about 20 us apart; hc_bank_options.grid_deg makes such neighbours.
 * A bank needs positions, and hc_bank_options.mix, a grid or hc_bank_index; else this call does hc_bank_nearest.
 * [rt], any thread */
int hc_bank_mix(const hc_bank_data *data, const float position[3], int *entries, float *weights);

/* Finds the frame, with a fraction, at which a response begins: where the response, low-passed at 3 kHz, first comes
 * within 20 dB of its peak. All onsets are early by the same time, the delay of the low-pass; their differences count.
 * A response of zeros gives NaN. Fails with HC_EINVAL (entry or output out of range, no taps) or HC_ENOMEM. [setup] */
int hc_bank_onset(const hc_bank_data *data, int entry, int out, double *frame);

/* ---- banks of an engine, and steering ---------------------------------------------------------------------------- */

/* Prepares a bank in the memory of the engine's device. data->n_out is at most hc_config.n_out, data->n_taps at most
 * hc_config.bank_taps. *data is read during the call only. Other engines may play the bank too, if they are on the same
 * device with the same rate, block, bank_taps and steer_fade. Fails with HC_EINVAL (a tap that is NaN or Inf: the text
 * has its position; the engine has no sources), HC_ENOMEM, HC_EDEVICE; *bank is NULL then. [setup], in parallel with
 * hc_process */
int hc_bank_make(hc_engine *engine, const hc_bank_data *data, hc_bank **bank, char *why, size_t cap);

/* Releases a bank. Its memory is freed once no source of any engine plays it, in the first hc_bank_make, hc_bank_free
 * or hc_close after that. It must not be steered to again. NULL is allowed. [setup], any thread */
void hc_bank_free(hc_bank *bank);

/* Asks source `source` to play n entries (0 to HC_MAX_MIX) of a bank, entry[i] with weight[i], or 1 if weight is NULL.
 * n = 0: silence; bank may then be NULL. The last request before a hop wins (see above). Repeating the entries and
 * weights of the request before changes nothing. Needs no memory and no upload. Returns HC_OK, or HC_EINVAL (source,
 * entry or n out of range; a weight not finite; a bank for another device or other sizes). [rt], any thread */
int hc_steer(hc_engine *engine, int source, const hc_bank *bank, const int *entry, const float *weight, int n);

/* ---- whole signals ----------------------------------------------------------------------------------------------- */

typedef struct hc_renderer hc_renderer; /* a bank that is ready to convolve whole signals                             */

typedef struct hc_render_config { /* a field that is 0 or NULL has the default                                        */
    size_t size;               /* sizeof(hc_render_config), set by the caller                                         */
    const char *backend;       /* "auto", "cpu", "cuda", "cuda:1"                                             "auto"  */
    int step;                  /* frames between two changes, 16 to 65536; each fade lasts one step              256  */
    int n_threads;             /* on the CPU                                                          all processors  */
    char *device;              /* HC_DEVICE_CAP bytes that get the device, as in hc_info.device                NULL  */
} hc_render_config;

typedef struct hc_step {       /* from the first step edge at or after `frame`, a source fades to these entries       */
    int64_t frame;             /* a frame of the stream                                                               */
    int source;
    int n;                     /* number of entries, 0 to HC_MAX_MIX; 0: silence                                      */
    int entry[HC_MAX_MIX];
    float weight[HC_MAX_MIX];
} hc_step;

typedef struct hc_render_job { /* frames [from, from + n_out_frames) of the outputs of some moving sources            */
    int n_sources;
    int n_steps;
    const float *const *in;    /* [n_sources][n_in_frames]; in[s][0] is frame `in_from` of the stream. NaN, Inf and
                                  frames outside count as 0: to continue a stream, give n_taps + 2 * step
                                  frames before `from`, too                                                           */
    int64_t in_from, n_in_frames;
    const hc_step *steps;      /* [n_steps], sorted by frame, from the start of the stream. A source is silent until
                                  its first step. Steps that end at frame 0 or before play without a fade             */
    size_t step_size;          /* sizeof(hc_step); ignored if n_steps is 0                                            */
    float *const *out;         /* [n_out of the bank][n_out_frames]                                                   */
    int64_t from, n_out_frames; /* `from` is a multiple of `step`                                                     */
} hc_render_job;

/* Prepares a bank for hc_render. *data is read during the call only. A GPU accepts steps of up to 4096 frames; with
 * "auto" the CPU computes if the GPU fails to open. Fails as hc_open and hc_bank_make do. [setup] */
int hc_renderer_open(const hc_render_config *config, const hc_bank_data *data, hc_renderer **renderer, char *why,
                     size_t cap);
/* Computes n_jobs jobs; job_size is sizeof(hc_render_job). Many jobs at once use a GPU well. The output is that of an
 * engine of one level whose block and steer_fade are `step`; it does not depend on how a signal is cut into jobs, and is
 * Inf or NaN if it is beyond the range of a float. Fails with HC_EINVAL, HC_ENOMEM, HC_EDEVICE. [setup], one thread at a
 * time for each renderer */
int hc_render(hc_renderer *renderer, const hc_render_job *jobs, size_t job_size, int n_jobs, char *why, size_t cap);
/* Frees a renderer. NULL is allowed. [setup] */
void hc_renderer_close(hc_renderer *renderer);

#ifdef __cplusplus
}
#endif
#endif
