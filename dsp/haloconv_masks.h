/* haloconv_masks - reads masks from sound files, texts of coefficients and configurations.
 *
 * Conventions and tags are those of haloconv.h.
 */
#ifndef HALOCONV_MASKS_H
#define HALOCONV_MASKS_H

#include "haloconv.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct hc_port {      /* a channel of a configuration                                                    */
    const char *name;         /* as given in the file, or in-1, in-2, ... and out-1, out-2, ...                  */
    const char *connect;      /* JACK port to connect it to at the start; NULL: none                             */
} hc_port;

enum { HC_NOTE = 16 };        /* hc_diagnostic.code                                                              */

typedef struct hc_diagnostic { /* an error in a configuration, or a warning or a note about a mask               */
    int line;                 /* the line, from 1; 0: the whole file                                             */
    int code;                 /* HC_OK: a warning, and the mask can be played; HC_NOTE: a note, without an
                                 effect on the sound; else the hc_error                                          */
    const char *text;         /* "hall.conf:12: /impulse/read: input 9, ..."; "hall.conf:12: warning: ..."; "note: " */
} hc_diagnostic;

typedef struct hc_source {    /* a moving source of a configuration (haloconv_scenes.h)                          */
    int bank;                 /* index of hc_responses.banks                                                     */
    float position[3];        /* where it starts; metres: x ahead, y left, z up of the listener                  */
} hc_source;

typedef struct hc_virtual_device { /* the sink or microphone that a filter-chain of PipeWire makes               */
    int is_source;            /* 1: a microphone, whose channels are the outputs; 0: a sink, whose are the inputs  */
    const char *name, *description, *target; /* description, and target of the other stream: NULL: none            */
    int n_sources;            /* the inputs of a sink that plays each input as a source at rest of one bank; else 0  */
    const hc_source *sources; /* [n_sources]; bank is 0                                                            */
    const char *bank;         /* path for hc_bank_load, with mix                                                   */
    float gain;               /* of the outputs                                                                    */
} hc_virtual_device;

typedef struct hc_responses { /* a mask as read from a file                                                      */
    int n_channels;           /* channels of the file; 0 for a configuration                                     */
    int n_frames;             /* frames after resampling; for a configuration those of the longest route + delay */
    int rate, file_rate;      /* Hz of the samples here and of the file; of a text of coefficients 0, or the rate in
                                 its name (%r). For a configuration: rate is the session's, or the rate on which
                                 its files agree, or 0; file_rate is 0                                           */
    float **channel;          /* [n_channels][n_frames]; NULL for a configuration                                */
    int n_in, n_out;          /* channels of the routes; a configuration states them                             */
    int n_routes;
    hc_route *routes;         /* [n_routes], for hc_mask_make. A configuration has one route for each pair; routes
                                 with the same data share their taps, so that the engine shares their spectrum   */
    hc_port *in_port, *out_port; /* [n_in], [n_out] of a configuration; else NULL                                */
    const char *client, *server; /* JACK names in a configuration; NULL: none                                    */
    int partition;            /* frames that a configuration states; 0: none. The engine ignores it              */
    int n_distinct;           /* responses of a configuration that differ in taps, gain or delay                 */
    int64_t distinct_frames;  /* frames of all these responses together, delays included                         */
    int n_errors, n_warnings; /* also those not in `diagnostics`; only a configuration has errors here           */
    int n_diagnostics;        /* errors, warnings and notes, the first by line, at most 10000                    */
    hc_diagnostic *diagnostics; /* [n_diagnostics]                                                               */
    void *memory;             /* belongs to the library                                                          */
    int n_sources, n_banks;   /* set for a configuration with HC_WITH_SOURCES; else 0                            */
    const hc_source *sources; /* [n_sources]: input i is source i                                                */
    const char *const *banks; /* [n_banks]: paths for hc_bank_load, which are not read yet                       */
    const hc_virtual_device *device; /* of a filter-chain of PipeWire; NULL: none                                */
    double start;             /* seconds of frame 0 from the t = 0 that the file states, as REW does: -0.005 is t = 0
                                 after 5 ms; 0: no statement                                                     */
} hc_responses;

enum {                        /* flags of hc_responses_load                                                      */
    HC_KEEP_RATE = 1,         /* do not resample                                                                 */
    HC_NAMES_ONLY = 2,        /* read only client, server and the names of files of a configuration, and open no
                                 sound file; of another mask, read nothing                                       */
    HC_TELL_FILTERS = 4,      /* add a note about the filters that are computed from a configuration: their number, the
                                 longest, and how far below them the energy is that is cut off                   */
    HC_WITH_SOURCES = 8       /* a configuration may have moving sources (/source/new), which hc_live plays; without
                                 this flag it is refused                                                         */
};

/* Reads a mask from a file: a sound file, a text of coefficients, filters or a configuration of this or another
 * program. haloconv(1) and haloconv-masks(5) list the kinds, by extension and content.
 *
 * rate: resample to this rate in Hz, and keep the gain of the response; 0: keep the rate of the files. Filters are
 * computed for this rate, or for 48000 Hz with a warning.
 *
 * A path with %r in it, such as hall-%r.wav, stands for a file for each rate (haloconv(1), DESCRIPTION). With rate 0
 * the file of the highest rate is read. A warning in `diagnostics` names a file of another rate than `rate`. If no
 * rate has a file the call fails with HC_EFILE.
 *
 * n_in: the number of input channels for the routes; 0: make no routes. Sound files and texts are routed by the rule of
 * haloconv(1), DESCRIPTION: one response for every channel, channel by channel, one input to many outputs, true stereo,
 * or HeSuVi's 14 channels; else HC_EINVAL. A configuration states its channel counts: n_in is 0, or must equal its
 * input count. All errors of a configuration are in `diagnostics`, each with file and line; why has the first. Its
 * warnings are in `diagnostics` after success, too.
 *
 * A mask has at most 2^28 frames, at the session's rate, and a file at most 2^30 samples. A line of a text or of a
 * configuration has at most 65536 bytes. A mask occupies at most three quarters of the machine's memory. A longer sound
 * file is refused by its header, before its samples are read. A path that is not a regular file, such as a pipe, is
 * refused too: the call never waits for a writer.
 *
 * Fails with HC_EFILE (also an empty file), HC_EINVAL (NaN or Inf: the text has the channel, from 1, and the frame; no
 * frames; too long), HC_ENOMEM, HC_EUNSUPPORTED (this build lacks the part that reads such files). Free *responses with
 * hc_responses_free, after a failure too, when it has the diagnostics. Codecs that libsndfile calls (MP3, Vorbis, Opus)
 * may end the process if memory runs out. [setup] */
int hc_responses_load(const char *path, int n_in, int rate, unsigned flags, hc_responses *responses, char *why,
                      size_t cap);

/* Writes the path of the file that hc_responses_load reads for a path and a rate to found[found_cap], with its final 0;
 * for a path without %r the path itself. Fails with HC_EFILE (no rate has a file), HC_EINVAL (NULL, a negative rate, a
 * found_cap that is too small). [setup], any thread */
int hc_responses_find(const char *path, int rate, char *found, size_t found_cap, char *why, size_t cap);

/* Makes the routes of a sound file or text that was loaded with n_in = 0, by the rules of hc_responses_load. For a
 * configuration it only compares n_in with the input count. The error text names `path`, which may be NULL. Fails with
 * HC_EINVAL, HC_ENOMEM. [setup], any thread */
int hc_responses_route(hc_responses *responses, const char *path, int n_in, char *why, size_t cap);

/* Finds the path of the i-th sound file or bank, from 0, that a configuration names. Returns NULL if it names fewer.
 * The path is valid until hc_responses_free. hc_responses_load stores the paths even if it fails, unless the text of
 * the configuration cannot be read. NULL for responses is allowed. [setup], any thread */
const char *hc_responses_file(const hc_responses *responses, int i);

/* Frees what hc_responses_load has stored in *responses. NULL is allowed. [setup] */
void hc_responses_free(hc_responses *responses);

#ifdef __cplusplus
}
#endif
#endif
